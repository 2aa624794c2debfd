//! What happens to the way to the central servers and to these, under load.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::load::{self, Load, Questions, failed, when};
use super::net::central_address;
use super::proxy::{CLUSTER_DNS, UPSTREAM};
use super::role::Kind;
use super::state::attracts;
use super::{CENTRALS, World, all_centrals};

/// How long a kubelet and kube-proxy may need until each knows what the other has done.
const LAG: Duration = Duration::from_secs(1);

/// What pods lose over `deed`: of names that a cache can have, and of new ones. See [`Load::finish_whole`] for `may_end`.
fn losses(
    world: &mut World,
    may_end: bool,
    deed: impl FnOnce(&mut World) -> Result<()>,
) -> Result<([u64; 2], String)> {
    let (rate, pods) = (world.args.setup.rate, world.args.setup.pods);
    let loads = [(Questions::Existing, 0.95), (Questions::New, 0.05)].map(|(questions, part)| {
        Load::start(questions, CLUSTER_DNS, rate * part, pods).map(|load| (questions, load))
    });
    thread::sleep(Duration::from_secs(1));
    let done = deed(world);
    let mut lost = [0; 2];
    let mut words = String::new();
    for (lost, load) in lost.iter_mut().zip(loads) {
        let (questions, load) = load?;
        let outcome = load.finish()?;
        let forgiven = if may_end { outcome.tally.counts.connection_failed } else { 0 };
        *lost = load::lost(&outcome) + failed(&outcome, questions) - forgiven;
        if *lost > 0 {
            words += &when(&outcome);
        }
    }
    done.map(|()| (lost, words))
}

/// Compares what is lost without and with a node cache; `extra` is what a cache may lose beyond that.
fn compare(
    world: &mut World,
    deed: fn(&mut World) -> Result<()>,
    prepare: fn(&mut World) -> Result<()>,
) -> Result<String> {
    let without = losses(world, false, deed)?;
    prepare(world)?;
    let with = losses(world, false, deed).with_context(|| world.role.last_words())?;
    let [kept, new] = with.0;
    let text = format!(
        "lost or failed: {} kept and {} new names without, {kept} and {new} with{}",
        without.0[0], without.0[1], with.1
    );
    let worse = kept > without.0[0] || new > without.0[1];
    ensure!(world.role.kind() != Kind::Nodens || !worse, "{text}\n{}", world.role.last_words());
    Ok(text)
}

fn start(world: &mut World) -> Result<()> {
    world.role.start()?;
    world.role.ready()?;
    Ok(())
}

/// kube-proxy learns of the upstream Service long after the node cache has started.
pub(super) fn race(world: &mut World) -> Result<String> {
    let delay = Duration::from_secs(u64::try_from(world.times(30, 5))?);
    world.proxy.set_services(&[CLUSTER_DNS], &all_centrals())?;
    let (lost, words) = losses(world, true, |world| {
        world.role.start()?;
        thread::sleep(delay);
        world.proxy.set_services(&[CLUSTER_DNS, UPSTREAM], &all_centrals())?;
        let took = world.role.ready()?;
        ensure!(attracts()?, "after {took:?} it takes no queries");
        Ok(())
    })
    .with_context(|| world.role.last_words())?;
    let text = format!("{} lost or failed{words}", lost[0] + lost[1]);
    ensure!(world.role.kind() != Kind::Nodens || lost == [0, 0], "{text}");
    Ok(text)
}

/// All central pods are replaced, one after the other, as a rolling update does it.
pub(super) fn replaced(world: &mut World) -> Result<String> {
    compare(world, replace, start)
}

fn replace(world: &mut World) -> Result<()> {
    for number in 0..CENTRALS {
        let others: Vec<_> =
            all_centrals().into_iter().filter(|other| *other != central_address(number)).collect();
        world.proxy.set(&others)?;
        thread::sleep(LAG);
        world.centrals.signal(number, Signal::TERM)?;
        thread::sleep(LAG);
        world.centrals.forget(number);
        world.centrals.start_one(number)?;
        world.proxy.set(&all_centrals())?;
        thread::sleep(LAG);
    }
    Ok(())
}

/// One central pod takes queries and answers none, and the control plane does not notice.
pub(super) fn frozen(world: &mut World) -> Result<String> {
    let thawed = compare(world, freeze, start);
    world.centrals.signal(0, Signal::CONT)?;
    thawed
}

fn freeze(world: &mut World) -> Result<()> {
    world.centrals.signal(0, Signal::STOP)?;
    thread::sleep(Duration::from_secs(u64::try_from(world.times(20, 6))?));
    world.centrals.signal(0, Signal::CONT)
}
