//! Seconds that are over, in as little memory as their part of the result may take.
//!
//! Their histograms are packed, and as coarse as the result's seconds will be at least: what is written at the
//! end is the same as if they had been kept whole.

use crate::books::Second;
use lab_histogram::{BITS, BITS_MIN, Histogram};
use lab_load::tally::{Cohort, ROOM, Room, Tally};
use lab_workload::recorded::Carrier;

/// Histograms of all seconds that share room.
#[derive(Debug)]
struct Share {
    bits: u32,
    buckets: usize,
    room: usize,
}

impl Share {
    fn new(room: usize) -> Self {
        Self { bits: BITS, buckets: 0, room }
    }

    fn is_full(&self) -> bool {
        self.buckets > self.room && self.bits > BITS_MIN
    }
}

/// The seconds of one carrier.
#[derive(Debug)]
struct Seconds {
    cohorts: Vec<Cohort>,
    response: Share,
    others: Share,
}

/// All seconds that are over.
#[derive(Debug)]
pub(crate) struct Past {
    udp: Seconds,
    tcp: Seconds,
}

impl Past {
    pub(crate) fn new() -> Self {
        Self { udp: Seconds::new(ROOM), tcp: Seconds::new(ROOM) }
    }

    /// Takes seconds that are over; they come back as those that are final, with all carriers together.
    pub(crate) fn take(&mut self, over: Vec<Second>) -> Vec<(u64, Cohort)> {
        let mut finals: Vec<(u64, Cohort)> = Vec::new();
        for Second { carrier, second, cohort } in over {
            match finals.last_mut().filter(|last| last.0 == second) {
                Some((_, whole)) => whole.merge(&cohort),
                None => finals.push((second, cohort.clone())),
            }
            self.add(carrier, second, cohort);
        }
        finals
    }

    /// Takes what was counted of a second, all of it or what came later than the rest.
    fn add(&mut self, carrier: Carrier, second: u64, cohort: Cohort) {
        match carrier {
            Carrier::Udp => self.udp.add(second, cohort),
            Carrier::Tcp => self.tcp.add(second, cohort),
        }
    }

    /// Puts the seconds back in their places.
    pub(crate) fn give_back(self, udp: &mut Tally, tcp: &mut Tally) {
        for (tally, seconds) in [(udp, self.udp), (tcp, self.tcp)] {
            let len = tally.cohorts.len().max(seconds.cohorts.len());
            tally.cohorts.resize(len, Cohort::default());
            for (into, from) in tally.cohorts.iter_mut().zip(seconds.cohorts) {
                into.merge(&from);
                histograms(into).for_each(Histogram::pack);
            }
        }
    }
}

impl Seconds {
    fn new(room: Room) -> Self {
        let (response, others) = (Share::new(room.response), Share::new(room.others));
        Self { cohorts: Vec::new(), response, others }
    }

    fn add(&mut self, second: u64, mut cohort: Cohort) {
        let at = usize::try_from(second).unwrap_or(usize::MAX);
        if self.cohorts.len() <= at {
            self.cohorts.resize(at + 1, Cohort::default());
        }
        let Some(into) = self.cohorts.get_mut(at) else { return };
        histograms(&mut cohort).for_each(Histogram::pack);
        let before = buckets(into);
        into.merge(&cohort);
        coarsen(into, self.response.bits, self.others.bits);
        let after = buckets(into);
        self.response.buckets = (self.response.buckets + after.0).saturating_sub(before.0);
        self.others.buckets = (self.others.buckets + after.1).saturating_sub(before.1);
        while self.response.is_full() || self.others.is_full() {
            self.make_room();
        }
    }

    /// Makes what has no room coarser by one bit.
    fn make_room(&mut self) {
        self.response.bits -= u32::from(self.response.is_full());
        self.others.bits -= u32::from(self.others.is_full());
        (self.response.buckets, self.others.buckets) = (0, 0);
        for cohort in &mut self.cohorts {
            coarsen(cohort, self.response.bits, self.others.bits);
            let (response, others) = buckets(cohort);
            self.response.buckets += response;
            self.others.buckets += others;
        }
    }
}

fn histograms(cohort: &mut Cohort) -> impl Iterator<Item = &mut Histogram> {
    let Cohort { response, service, lateness, connect, .. } = cohort;
    [response, service, lateness, connect].into_iter()
}

/// Buckets of the response times, and of all others.
fn buckets(cohort: &Cohort) -> (usize, usize) {
    let count = |histogram: &Histogram| histogram.buckets().count();
    let others = [&cohort.service, &cohort.lateness, &cohort.connect];
    (count(&cohort.response), others.into_iter().map(count).sum())
}

fn coarsen(cohort: &mut Cohort, response: u32, others: u32) {
    for (at, histogram) in histograms(cohort).enumerate() {
        let bits = if at == 0 { response } else { others };
        if histogram.bits() > bits {
            *histogram = histogram.coarsened(bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second with times from 20 µs to 20 ms, another one each time.
    fn second(second: u64) -> Cohort {
        let mut cohort = Cohort::default();
        for n in 0..2_000 {
            let time = 20_000.0 * 1_000_f64.powf(lab_random::unit(second, n));
            cohort.response.record(time as u64);
            cohort.service.record((time * 0.9) as u64);
            cohort.lateness.record((time * 0.01) as u64);
        }
        cohort
    }

    /// The bits that the result gives these seconds.
    fn bits_of(cohorts: &[Cohort], room: usize) -> u32 {
        let fits = |bits: &u32| {
            let all = cohorts.iter().map(|cohort| cohort.response.coarsened(*bits));
            all.map(|histogram| histogram.buckets().count()).sum::<usize>() <= room
        };
        (BITS_MIN..=BITS).rev().find(fits).unwrap_or(BITS_MIN)
    }

    #[test]
    fn memory_has_a_bound_and_the_result_is_what_it_would_be() {
        let room = Room { response: 20_000, others: 10_000 };
        let (mut seconds, mut whole) = (Seconds::new(room), Vec::new());
        for n in 0..200 {
            whole.push(second(n));
            seconds.add(n, second(n));
            let octets: usize =
                seconds.cohorts.iter_mut().flat_map(histograms).map(|one| one.octets()).sum();
            assert!(octets < 4 * (room.response + room.others), "{octets} after {n} s");
        }
        let bits = bits_of(&whole, room.response);
        assert!(bits < BITS && seconds.response.bits >= bits, "{bits}");
        for (kept, whole) in seconds.cohorts.iter().zip(&whole) {
            assert_eq!(kept.response.coarsened(bits), whole.response.coarsened(bits));
            assert_eq!(kept.service.mean(), whole.service.mean());
        }
    }

    #[test]
    fn what_comes_later_is_added_to_its_second() {
        let mut past = Past::new();
        let (mut udp, mut tcp) = (Tally::default(), Tally::default());
        for n in 0..3 {
            let mut early = second(n);
            early.scheduled = 2_001;
            past.add(Carrier::Udp, n, early);
        }
        let mut late = Cohort { sent: 1, ..Cohort::default() };
        late.response.record(7);
        past.add(Carrier::Udp, 1, late);
        udp.cohort(5 * lab_load::SECOND).unwrap().scheduled = 4;
        past.give_back(&mut udp, &mut tcp);
        assert_eq!((udp.cohorts.len(), tcp.cohorts.len()), (6, 0));
        assert_eq!((udp.cohorts[1].sent, udp.cohorts[1].scheduled), (1, 2_001));
        assert_eq!(
            (udp.cohorts[1].response.recorded(), udp.cohorts[1].response.min()),
            (2_001, Some(7))
        );
        assert_eq!(udp.cohorts[5].scheduled, 4);
        assert_eq!(udp.cohorts[2].response, second(2).response);
    }
}
