//! Hand-overs, changes of the configuration and crashes of successors, under load.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab_load::rng::Stream;
use nodens_wire::Type;

use super::load::{Load, Questions, under};
use super::proxy::CLUSTER_DNS;
use super::servers::START_TIMEOUT;
use super::state::{nothing_left, rules};
use super::{World, ask, net};
use crate::measure::table::duration;
use crate::official::LOCAL_DNS;

/// A name whose text is the number of the configuration.
pub(crate) const VERSION: &str = "version.test";

/// The load that has to come out whole: names of the cluster, most of them kept, some new each time.
struct Loads(Load, Load);

impl Loads {
    fn start(world: &World) -> Result<Self> {
        let (rate, pods) = (world.args.setup.rate, world.args.setup.pods);
        let loads = Loads(
            Load::start(Questions::Existing, CLUSTER_DNS, rate * 0.95, pods)?,
            Load::start(Questions::New, CLUSTER_DNS, rate * 0.05, pods)?,
        );
        thread::sleep(Duration::from_secs(1));
        Ok(loads)
    }

    /// Ends both; queries in the meantime count as well, and so does the end of connections unless they `may_end`.
    fn finish(self, deed: Result<String>, may_end: bool) -> Result<String> {
        let new = self.1.finish_whole(may_end);
        let both = under(self.0, deed, may_end)?;
        Ok(format!("{both}; new names: {}", new.with_context(|| both.clone())?))
    }
}

/// Hands the role over again and again to a process that is started beside.
pub(super) fn hand_overs(world: &mut World) -> Result<String> {
    world.role.start()?;
    world.role.ready()?;
    let loads = Loads::start(world)?;
    let times = world.times(50, 5);
    let deed = (0..times).map(|_| world.role.succeed()).collect::<Result<Vec<_>>>();
    loads.finish(deed.map(|took| spread(took, "hand-overs")), false)
}

/// Successors that are killed at some point of their start.
pub(super) fn crashes(world: &mut World) -> Result<String> {
    world.role.start()?;
    world.role.ready()?;
    let usual = world.role.succeed()?;
    let loads = Loads::start(world)?;
    let mut moments = Stream::new(11, 1);
    let times = world.times(10, 3);
    let deed = (0..times).map(|_| {
        let part = moments.unit();
        world.role.crash_successor(usual.mul_f64(part))
    });
    let deed = deed.collect::<Result<Vec<_>>>();
    loads.finish(deed.map(|took| spread(took, "crashes of successors")), false)
}

/// Changes the Corefile in the ConfigMap.
pub(super) fn configurations(world: &mut World) -> Result<String> {
    let official = world.role.configuration()?;
    // The same as `reload`, and sooner.
    let base = official.replace("    reload\n", "    reload 2s 1s\n");
    let numbered = |number: usize| {
        format!(
            "{base}{VERSION}:53 {{\n    bind __PILLAR__LOCAL__DNS__\n    template IN TXT {VERSION} {{\n        \
             answer \"{VERSION}. 0 IN TXT v{number}\"\n    }}\n}}\n"
        )
    };
    world.role.configure(&numbered(0))?;
    world.role.start()?;
    world.role.ready()?;
    let loads = Loads::start(world)?;
    let deed = (1..=world.times(20, 3)).map(|number| {
        world.role.configure(&numbered(number))?;
        let begun = Instant::now();
        while !net::inside(net::NODE, || Ok(has_version(number)))? {
            if begun.elapsed() > START_TIMEOUT {
                bail!("configuration {number} has no effect: {}", world.role.last_words());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(begun.elapsed())
    });
    let deed = deed.collect::<Result<Vec<_>>>();
    let text = loads.finish(deed.map(|took| spread(took, "changes")), false);
    world.role.configure(&official)?;
    text
}

/// Whether the server at the node's own address has the configuration `number`.
pub(crate) fn has_version(number: usize) -> bool {
    let Ok(local) = LOCAL_DNS.parse() else { return false };
    let wanted = format!("v{number}");
    ask::ask(local, VERSION, Type::TXT).is_ok_and(|message| {
        message.answer.iter().any(|record| record.rdata.get(1..) == Some(wanted.as_bytes()))
    })
}

/// It serves, and leaves as a kubelet asks it to.
pub(super) fn clean_exit(world: &mut World) -> Result<String> {
    world.role.start()?;
    world.role.ready()?;
    let mut counts = Vec::new();
    let all = rules()?;
    for address in [LOCAL_DNS.to_owned(), CLUSTER_DNS.to_string()] {
        let count = all.iter().filter(|rule| rule.contains(&address)).count();
        ensure!(count == 12, "{count} rules for {address}:\n{}", all.join("\n"));
        counts.push(count.to_string());
    }
    let loads = Loads::start(world)?;
    let deed = world.role.stop().and_then(|took| {
        nothing_left()?;
        Ok(format!("{} rules, gone after {}", counts.join(" and "), duration(took)))
    });
    loads.finish(deed, true)
}

/// The shortest, the middle and the longest of some times.
pub(crate) fn spread(mut took: Vec<Duration>, what: &str) -> String {
    took.sort();
    let at = |part: usize| took.get(part).map_or("–".to_owned(), |took| duration(*took));
    let count = took.len();
    format!("{count} {what} in {}, {}, {}", at(0), at(count / 2), at(count.saturating_sub(1)))
}
