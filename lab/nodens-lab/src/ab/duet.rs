//! Duets: both servers of a pair loaded at the same time, each with one half of the CPUs.

use super::Args;
use super::ask::{Asker, Generator};
use super::measure::Phase;
use super::side::{Instance, Spec};
use anyhow::{Context, Result, anyhow, bail};
use lab_experiment::{Place, Simultaneous};
use lab_result::comparison::{Block, ComparisonPlan};
use std::thread;

/// The CPUs of one of the two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Half {
    pub(super) server: Vec<usize>,
    pub(super) load: Vec<usize>,
}

/// The two places of a duet; `None` if both servers are measured in turn.
pub(super) fn places(args: &Args) -> Result<Option<[Half; 2]>> {
    if !args.duet {
        return Ok(None);
    }
    let allowed = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
    divide(&allowed, &args.server_cpus, &args.cpus, args.threads).map(Some)
}

/// Halves of what was given; else of all CPUs, with the last ones of each half for its load. A half with
/// too few CPUs for both has them share.
fn divide(
    allowed: &[usize],
    servers: &[usize],
    loads: &[usize],
    threads: usize,
) -> Result<[Half; 2]> {
    let [first, second] = halves(allowed)?;
    let own = |half: &[usize]| {
        let (server, load) = half.split_at(half.len().saturating_sub(threads));
        let shared = server.is_empty();
        let server = if shared { half } else { server };
        Half { server: server.to_vec(), load: if shared { half } else { load }.to_vec() }
    };
    let mut places = [own(first), own(second)];
    if !servers.is_empty() {
        let given = halves(servers).context("--server-cpus")?;
        places.iter_mut().zip(given).for_each(|(place, half)| place.server = half.to_vec());
    }
    if !loads.is_empty() {
        let given = halves(loads).context("--cpus")?;
        places.iter_mut().zip(given).for_each(|(place, half)| place.load = half.to_vec());
    }
    Ok(places)
}

/// Two parts of the same size; with an odd number the last CPU is left out.
fn halves(cpus: &[usize]) -> Result<[&[usize]; 2]> {
    let half = cpus.len() / 2;
    if half == 0 {
        bail!("--duet needs at least two CPUs, one for each server");
    }
    let (first, rest) = cpus.split_at(half);
    Ok([first, rest.get(..half).unwrap_or_default()])
}

/// The CPUs of the servers and those of the loads.
pub(super) fn all(places: &[Half; 2]) -> (Vec<usize>, Vec<usize>) {
    let of = |part: fn(&Half) -> &Vec<usize>| places.iter().flat_map(part).copied().collect();
    (of(|half| &half.server), of(|half| &half.load))
}

/// What a reader of a duet must know.
pub(super) fn notes(plan: &ComparisonPlan) -> Option<String> {
    let text = "a duet: both servers were loaded at the same time, and the values of A and B are not those of a \
                server alone; what both do to each other through caches and memory meets both, and is hidden";
    plan.duet.then(|| text.to_owned())
}

/// What a plan says of a duet: who has which CPUs.
pub(super) fn rules(args: &Args, specs: &[Spec; 2]) -> Result<Vec<String>> {
    let Some(places) = places(args)? else { return Ok(Vec::new()) };
    let list = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut rules = vec![
        "both servers of a pair are loaded at the same time, and the coin decides which has the first place"
            .to_owned(),
    ];
    for (name, place) in ["first", "second"].iter().zip(&places) {
        let (server, load) = (list(&place.server), list(&place.load));
        rules.push(format!("the {name} place: the server on CPU {server}, its load on CPU {load}"));
    }
    for spec in specs.iter().filter(|spec| !spec.is_command()) {
        let name = &spec.name;
        rules.push(format!(
            "{name} was not started here and keeps its CPUs; its load changes places"
        ));
    }
    Ok(rules)
}

/// What both blocks of a pair have in common.
pub(super) struct Duet<'a> {
    pub(super) asker: &'a Asker<'a>,
    pub(super) plan: &'a ComparisonPlan,
    pub(super) phase: &'a Phase<'a>,
}

/// One server of a pair with who asks it.
struct Part<'a, 'p> {
    place: &'a Place<'p>,
    server: &'a mut Instance,
    asker: Asker<'a>,
}

impl Duet<'_> {
    /// The blocks of `places`, in their order, at the same time: first all warm up, then all are measured.
    pub(super) fn measure(
        &self,
        halves: &[Half; 2],
        places: &[Place<'_>],
        servers: &mut [Instance],
    ) -> Result<Simultaneous<Block>> {
        let mut parts = Vec::with_capacity(places.len());
        for (index, server) in servers.iter_mut().enumerate() {
            let Some(place) = places.iter().find(|place| place.index == index) else { continue };
            let half = halves.get(place.turn).context("there is no such place")?;
            // One that others started stays where they put it; its load changes places all the same.
            server.move_to(&half.server)?;
            let generator = Generator { cpus: half.load.clone(), ..self.asker.generator.clone() };
            parts.push(Part { place, server, asker: Asker { generator, ..self.asker.clone() } });
        }
        parts.sort_by_key(|part| part.place.turn);
        let (plan, phase) = (self.plan, self.phase);
        at_once(&mut parts, |part| part.asker.warm_block(plan, phase, part.place, part.server))?;
        let blocks =
            at_once(&mut parts, |part| part.asker.block(plan, phase, part.place, part.server))?;
        Ok(blocks.into_iter().collect())
    }
}

/// Does `work` for all of `parts` at the same time.
fn at_once<P: Send, T: Send>(
    parts: &mut [P],
    work: impl Fn(&mut P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            parts.iter_mut().map(|part| scope.spawn(move || work(part))).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().map_err(|_| anyhow!("a load ended unexpectedly")).flatten()
        });
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn half(server: &[usize], load: &[usize]) -> Half {
        Half { server: server.to_vec(), load: load.to_vec() }
    }

    #[test]
    fn both_places_have_as_many_cpus() {
        let of = |cpus: usize| divide(&(0..cpus).collect::<Vec<_>>(), &[], &[], 1).unwrap();
        assert_eq!(of(2), [half(&[0], &[0]), half(&[1], &[1])]);
        assert_eq!(of(5), [half(&[0], &[1]), half(&[2], &[3])]);
        assert_eq!(of(8), [half(&[0, 1, 2], &[3]), half(&[4, 5, 6], &[7])]);
        let given = divide(&[0, 1, 2, 3, 4, 5], &[0, 1, 2], &[4, 5], 1).unwrap();
        assert_eq!(given, [half(&[0], &[4]), half(&[1], &[5])]);
        assert_eq!(all(&given), (vec![0, 1], vec![4, 5]));
        assert!(divide(&[0], &[], &[], 1).is_err(), "one CPU is one place");
        let error = divide(&[0, 1], &[], &[1], 1).unwrap_err();
        assert!(format!("{error:#}").starts_with("--cpus: "), "{error:#}");
    }

    #[test]
    fn both_are_at_work_at_the_same_time() {
        // Either waits for the other: one after the other would never end.
        let both = Barrier::new(2);
        let mut parts = [1, 2];
        let done = at_once(&mut parts, |part| {
            both.wait();
            Ok(*part)
        });
        assert_eq!(done.unwrap(), [1, 2]);
        assert!(at_once(&mut parts, |part| if *part == 2 { bail!("no") } else { Ok(()) }).is_err());
    }
}
