//! The kernel's table of connections, full of entries that it may not throw away.
//!
//! The limit is the machine's and is left as it is; the entries count for the network that has them, so that it is the node
//! alone whose table is full.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nodens_wire::Rcode;

use super::super::load::{Load, Questions, failed, lost, when};
use super::super::net::{GATEWAY, NODE, PODS, inside, tool};
use super::super::proxy::{CLUSTER_DNS, UPSTREAM};
use super::super::{World, ask};
use super::{By, document, end, ensure_answered, ensure_said_once, hear, start, told};
use crate::measure::table::duration;

/// Entries that one call of the tool makes: it reads them all before it begins.
const ENTRIES_AT_ONCE: u64 = 20_000;
/// The longest that filling may take; a limit of a million entries takes a third of it here.
const PATIENCE: Duration = Duration::from_secs(240);
/// Seconds that pods ask while the table is full: longer than connections to upstreams are kept otherwise, or fewer.
const WATCHED: [usize; 2] = [130, 10];
/// A port of the node without rules.
const PLAIN_PORT: u16 = 5300;
const PLAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// QPS while the table is full: for names that the node has, and for others.
const RATES: [f64; 2] = [400.0, 100.0];

/// A figure of the node's table.
fn figure(name: &str) -> Result<u64> {
    let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
    let text = inside(NODE, || fs::read_to_string(&path).context(path.clone()))?;
    text.trim().parse().context(path)
}

/// A line for `conntrack --load-file`: a flow that has seen answers, which the kernel does not throw away early.
fn entry(number: u64) -> String {
    let (net, port) = (number / 60_000, number % 60_000 + 1);
    format!(
        "-I -t 3600 -u SEEN_REPLY,ASSURED -s 198.18.{}.{} -d 198.51.100.1 -p udp --sport {port} --dport 9\n",
        net / 200,
        net % 200 + 1
    )
}

/// Makes entries from `next` on until there is room for none; returns how many there may be.
fn fill(next: &mut u64) -> Result<u64> {
    let (limit, begun) = (figure("max")?, Instant::now());
    loop {
        let room = limit.saturating_sub(figure("count")?);
        if room == 0 {
            return Ok(limit);
        }
        let count = room.min(ENTRIES_AT_ONCE);
        let lines: String = (*next..*next + count).map(entry).collect();
        *next += count;
        // The last ones may be refused: others make entries, too.
        let done = tool(NODE, "conntrack --load-file -", &lines);
        if begun.elapsed() > PATIENCE
            || (room > count && limit.saturating_sub(figure("count")?) >= room)
        {
            done.with_context(|| format!("{room} of {limit} entries are missing"))?;
            ensure!(begun.elapsed() <= PATIENCE, "{limit} entries take too long");
        }
    }
}

/// Whether what a pod sends to a port without rules arrives.
fn plain_arrives() -> Result<bool> {
    let address: SocketAddr = format!("{GATEWAY}:{PLAIN_PORT}").parse()?;
    let server = inside(NODE, || Ok(UdpSocket::bind(address)?))?;
    server.set_read_timeout(Some(PLAIN_TIMEOUT))?;
    inside(PODS, || Ok(ask::socket(address)?.send(b"?")?))?;
    Ok(server.recv(&mut [0; 16]).is_ok())
}

/// Whether the central servers answer a pod that asks for them by their Service.
fn service_answers() -> Result<bool> {
    inside(PODS, || Ok(ask::answers(UPSTREAM.into())))
}

/// Waits until something is so or, on a busy machine, is seen to be so.
fn eventually(what: &str, so: impl Fn() -> Result<bool>) -> Result<()> {
    for _ in 0..super::ATTEMPTS {
        if so()? {
            return Ok(());
        }
    }
    anyhow::bail!("never: {what}")
}

/// The table is full while pods ask.
pub(in super::super) fn full(world: &mut World) -> Result<String> {
    let forms = document::lines_of("fault: a full table of connections")?;
    start(world)?;
    eventually("a plain port is reached", plain_arrives)?;
    eventually("the Service answers", service_answers)?;
    let pods = world.args.setup.pods;
    let [kept_rate, new_rate] = RATES;
    let kept = Load::start(Questions::Inside, CLUSTER_DNS, kept_rate, pods)?;
    let new = Load::start(Questions::New, CLUSTER_DNS, new_rate, pods)?;
    // Until every worker has its connections.
    thread::sleep(Duration::from_secs(2));
    let filled = while_full(world, &forms);
    // What is asked until here has to be answered, too.
    let (kept, new) = (kept.finish_whole(false), new.finish());
    tool(NODE, "conntrack -F", "")?;
    let filled = filled?;
    let kept = kept.with_context(|| filled.clone())?;
    let new = new?;
    let (asked, bad) = (new.tally.counts.sent, lost(&new) + failed(&new, Questions::New));
    // A worker whose connection is silent for two seconds, as on a busy machine, gives it up and cannot make another.
    ensure!(asked > 0 && bad * 2 < asked, "of {asked} new names {bad} failed{}", when(&new));
    let again = "the kernel's table of connections has room again (… of … entries)";
    hear(world, &[again])?;
    eventually("the Service answers again", service_answers)?;
    ensure_answered(world, By::Node)?;
    ensure_said_once(world, &[&forms[..], &[again]].concat())?;
    end(world)?;
    Ok(format!("{filled}; {kept}; of {asked} new names {bad} failed"))
}

fn while_full(world: &mut World, forms: &[&str]) -> Result<String> {
    let (begun, mut next) = (Instant::now(), 0);
    let limit = fill(&mut next)?;
    let took = begun.elapsed();
    hear(world, forms)?;
    let [long, short] = WATCHED;
    thread::sleep(Duration::from_secs(u64::try_from(world.times(long, short))?));
    fill(&mut next)?;
    ensure!(!plain_arrives()?, "the table is not full: a plain port is reached");
    ensure!(!service_answers()?, "the table is not full: the Service answers");
    let outside = told("www.example.com");
    ensure!(outside == Some((Rcode::SERVFAIL, true)), "a new connection: {outside:?}");
    Ok(format!("{limit} entries in {}", duration(took)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn entries_differ() {
        let entries: HashSet<String> = (0..200_000).map(super::entry).collect();
        assert_eq!(entries.len(), 200_000);
        assert!(super::entry(60_001).contains("-s 198.18.0.2 -d 198.51.100.1 -p udp --sport 2 "));
    }
}
