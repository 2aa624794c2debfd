//! What is missing on a node, in the way, or broken: each is said once, in the words of `docs/node.md`, and pods get the
//! best service that is still possible.

mod connections;
mod document;
mod hang;

pub(super) use connections::full;
pub(super) use hang::hangs;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nodens_wire::{Rcode, Type, edns};
use rustix::process::Signal;

use super::load::NEW;
use super::net::{NODE, PODS, central_address, inside, ip};
use super::proxy::{CLUSTER_DNS, Mode};
use super::servers::START_TIMEOUT;
use super::state::{attracts, has_address, nothing_left};
use super::{CENTRALS, World, all_centrals, ask};
use crate::official::LOCAL_DNS;

/// Queries that show which server answers.
const QUESTIONS: u64 = 20;
/// Times that a query is asked before there is no answer, half a second each.
const ATTEMPTS: usize = 20;
/// Time in which a server counts what it has answered.
const COUNTED: Duration = Duration::from_millis(200);
/// Longer than anything is left alone before it is tried again, and said again if that were done.
const A_WHILE: Duration = Duration::from_secs(4);

/// Of lines that complain, those that have nothing to do with a fault of the node: single queries, what is so without
/// Kubernetes, and limits of the machine.
const USUAL: [&str; 3] =
    ["plugin/errors: ", "no Kubernetes API to ask for names or pods", "] machine: "];

/// Who answers pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Node,
    Centrals,
}

/// Asks from a pod for a name that a cache has, and tells from the queries at the central servers which server
/// answered.
fn answered(world: &World) -> Result<By> {
    let before = counted(world)?;
    let all = inside(PODS, || {
        let once = || (0..ATTEMPTS).any(|_| ask::answers(CLUSTER_DNS.into()));
        Ok((0..QUESTIONS).all(|_| once()))
    })?;
    ensure!(all, "pods get no answers: {}", world.role.last_words());
    match counted(world)? - before {
        few if few < QUESTIONS / 2 => Ok(By::Node),
        many if many >= QUESTIONS => Ok(By::Centrals),
        some => bail!("{some} of {QUESTIONS} queries reached the central servers"),
    }
}

/// The queries that the central servers have counted, when they have counted all: each is answered first.
fn counted(world: &World) -> Result<u64> {
    let mut last = world.centrals.questions()?;
    loop {
        thread::sleep(COUNTED);
        let now = world.centrals.questions()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}

fn ensure_answered(world: &World, by: By) -> Result<()> {
    let seen = answered(world)?;
    ensure!(seen == by, "answered by {seen:?}, not by {by:?}: {}", world.role.last_words());
    Ok(())
}

/// How often a line of this form was written.
fn count(world: &World, form: &str) -> usize {
    world.role.lines().iter().filter(|line| document::is_like(line, form)).count()
}

/// Waits until every line of a scenario has been written.
fn hear(world: &mut World, forms: &[&str]) -> Result<()> {
    let begun = Instant::now();
    while let Some(form) = forms.iter().find(|form| count(world, form) == 0) {
        let words = world.role.last_words();
        ensure!(world.role.process()?.runs(), "it ended: {words}");
        ensure!(begun.elapsed() < START_TIMEOUT, "it does not log '{form}': {words}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// An error unless each line was written once and nothing else is complained of but single queries.
fn ensure_said_once(world: &World, forms: &[&str]) -> Result<()> {
    for form in forms {
        let times = count(world, form);
        ensure!(times == 1, "logged {times} times: '{form}': {}", world.role.last_words());
    }
    for line in world.role.lines() {
        let complaint = line.starts_with("[ERROR] ") || line.starts_with("[WARNING] ");
        let known = USUAL.iter().any(|usual| line.contains(usual))
            || forms.iter().any(|form| document::is_like(&line, form));
        ensure!(!complaint || known, "also logged: {line}");
    }
    Ok(())
}

/// Ends it, sees that nothing is left and that the central servers answer.
fn end(world: &mut World) -> Result<()> {
    world.role.stop()?;
    nothing_left()?;
    ensure_answered(world, By::Centrals)
}

fn start(world: &mut World) -> Result<()> {
    world.role.start()?;
    world.role.ready()?;
    Ok(())
}

/// A name that exists and not queried before.
fn new_name() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("fault-{}.{NEW}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// The answer that a pod gets for a name: the RCODE, and whether an extended error has the reason.
fn told(name: &str) -> Option<(Rcode, bool)> {
    let message = inside(PODS, || ask::ask_with_options(CLUSTER_DNS.into(), name, Type::A)).ok()?;
    let code = edns::code::EXTENDED_ERROR;
    let why = message.edns().is_some_and(|(_, mut options)| options.any(|option| option.0 == code));
    Some((ask::rcode(&message), why))
}

/// Sends queries until a pod gets this answer.
fn until_told(
    world: &World,
    mut name: impl FnMut() -> String,
    told_is: impl Fn((Rcode, bool)) -> bool,
) -> Result<()> {
    let begun = Instant::now();
    while !told(&name()).is_some_and(&told_is) {
        ensure!(begun.elapsed() < START_TIMEOUT, "never logged: {}", world.role.last_words());
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// All central servers die and come back.
pub(super) fn no_upstream(world: &mut World) -> Result<String> {
    let forms = document::lines_of("fault: no upstream answers")?;
    start(world)?;
    let kept = new_name();
    until_told(world, || kept.clone(), |told| told == (Rcode::NOERROR, false))?;
    let outcome = without_upstreams(world, &forms, &kept);
    // All are back at once, so that this is one end.
    world.proxy.set(&[central_address(CENTRALS - 1)])?;
    for number in 0..CENTRALS {
        world.centrals.forget(number);
        world.centrals.start_one(number)?;
    }
    world.proxy.set(&all_centrals())?;
    outcome?;
    until_told(world, new_name, |(rcode, _)| rcode == Rcode::NOERROR)?;
    for _ in 0..QUESTIONS {
        _ = told(&new_name());
    }
    let again = "upstream … has recovered over tcp after …";
    hear(world, &[again])?;
    thread::sleep(A_WHILE);
    ensure_said_once(world, &[&forms[..], &[again]].concat())?;
    ensure_answered(world, By::Node)?;
    end(world)?;
    Ok("cached names are answered, others are SERVFAIL with a reason; logged once, as is its end"
        .to_owned())
}

fn without_upstreams(world: &mut World, forms: &[&str], kept: &str) -> Result<()> {
    for number in 0..CENTRALS {
        world.centrals.signal(number, Signal::KILL)?;
        world.centrals.forget(number);
    }
    let answer = (0..ATTEMPTS).find_map(|_| told(kept));
    ensure!(answer == Some((Rcode::NOERROR, false)), "a cached name: {answer:?}");
    until_told(world, new_name, |told| told == (Rcode::SERVFAIL, true))?;
    let begun = Instant::now();
    while forms.iter().any(|form| count(world, form) == 0) {
        ensure!(begun.elapsed() < START_TIMEOUT, "not logged: {}", world.role.last_words());
        _ = told(&new_name());
    }
    for _ in 0..QUESTIONS {
        _ = told(&new_name());
    }
    Ok(())
}

/// Neither `iptables` nor `nft` is there, and kube-proxy uses iptables.
pub(super) fn no_program(world: &mut World) -> Result<String> {
    let usual = world.proxy.mode();
    world.proxy.change(Mode::IptablesNft)?;
    let outcome = without_programs(world);
    world.role.clean();
    world.proxy.change(usual)?;
    outcome
}

fn without_programs(world: &mut World) -> Result<String> {
    let forms = document::lines_of("fault: no program iptables")?;
    let script = "mount -t tmpfs none /usr/sbin; exec \"$@\"";
    world.role.start_in(&["unshare", "--mount", "sh", "-ec", script, "sh"])?;
    world.role.ready()?;
    hear(world, &forms)?;
    ensure_answered(world, By::Node)?;
    ensure_said_once(world, &forms)?;
    end(world)?;
    Ok("a table of nftables instead, answered on the node".to_owned())
}

/// The process may not change the network.
pub(super) fn no_right(world: &mut World) -> Result<String> {
    let forms = document::lines_of("fault: no CAP_NET_ADMIN")?;
    let without = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"];
    world.role.start_in(&without)?;
    hear(world, &forms)?;
    ensure_answered(world, By::Centrals)?;
    thread::sleep(A_WHILE);
    ensure_answered(world, By::Centrals)?;
    ensure_said_once(world, &forms)?;
    end(world)?;
    Ok("answered by the central servers".to_owned())
}

/// Another program has the port, and ends.
pub(super) fn port_taken(world: &mut World) -> Result<String> {
    let forms = document::lines_of("fault: a foreign process on port 53")?;
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 53));
    let foreign = inside(NODE, || Ok(UdpSocket::bind(any)?))?;
    world.role.start()?;
    hear(world, &forms)?;
    ensure_answered(world, By::Centrals)?;
    thread::sleep(A_WHILE);
    ensure!(!attracts()?, "it takes traffic to its address without having the port");
    drop(foreign);
    world.role.ready()?;
    ensure_answered(world, By::Node)?;
    ensure_said_once(world, &forms)?;
    end(world)?;
    Ok("answered by the central servers, and on the node once the port was free".to_owned())
}

/// A link of somebody else has the address of the Service, as with kube-proxy in IPVS mode.
pub(super) fn address_taken(world: &mut World) -> Result<String> {
    let forms = document::lines_of("fault: an address of another link")?;
    ip(NODE, "link add kube-ipvs0 type bridge")?;
    for address in [CLUSTER_DNS.to_string(), LOCAL_DNS.to_owned()] {
        ip(NODE, &format!("address add {address}/32 dev kube-ipvs0"))?;
    }
    let outcome = with_address_elsewhere(world, &forms);
    ip(NODE, "link del kube-ipvs0")?;
    outcome
}

fn with_address_elsewhere(world: &mut World, forms: &[&str]) -> Result<String> {
    ensure_answered(world, By::Centrals)?;
    start(world)?;
    hear(world, forms)?;
    ensure_answered(world, By::Node)?;
    // Whatever makes it look again must not make it say it again.
    ip(NODE, "link set nodelocaldns down")?;
    thread::sleep(A_WHILE);
    ensure_said_once(world, forms)?;
    end(world)?;
    ensure!(has_address(CLUSTER_DNS)?, "the other link's address is gone");
    Ok("answered on the node, by the central servers after the end; the other link keeps it"
        .to_owned())
}
