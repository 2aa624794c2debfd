//! Keeps a zone signed: as a whole when its keys are others, on a thread of its own, and before signatures
//! expire, in steps between updates.

use super::ORIGIN;
use super::renewed::Renewed;
use crate::cpu;
use nodens_core::log::{Level, Sink};
use nodens_zone::data::Data;
use nodens_zone::dnssec::{SignZoneError, Signer, Sweep};
use nodens_zone::dynamic::{Done, DynamicZone, Whole};
use nodens_zone::journal::Step;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two searches for signatures of a zone that expire: a small part of the days that are left to them.
const SIGNING_PAUSE: Duration = Duration::from_secs(3600);
/// Between two attempts to sign a zone.
const SIGNING_RETRY: Duration = Duration::from_secs(60);
/// How often it is looked whether the system's clock was set, or the machine has slept.
const CLOCK_PAUSE: Duration = Duration::from_secs(60);
/// By how much the clock has then gone another way than time itself: more than it drifts.
const CLOCK_JUMP_S: u64 = 30;
/// How often it is looked whether a thread that signs has ended.
const SIGNING_POLL: Duration = Duration::from_millis(100);

/// Keeps a version before it is served.
pub(super) type Save<'s> = &'s mut dyn FnMut(&Data, &Arc<Step>) -> Result<(), String>;

/// Unix seconds.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// The work under way for one zone.
pub(super) struct Upkeep {
    /// What is to sign it.
    wanted: Option<Arc<Signer>>,
    stopping: Arc<AtomicBool>,
    /// What signs it as a whole.
    whole: Option<JoinHandle<Result<Whole, SignZoneError>>>,
    /// What looks for signatures that expire.
    sweep: Option<Sweep>,
    /// What it has made anew, which the log has not said.
    renewed: Option<Renewed>,
    /// When it begins next, or another attempt is made.
    next: Instant,
    /// The system's clock when it was looked at last.
    clock: (Instant, u64),
}

impl Upkeep {
    pub(super) fn new(wanted: Option<Arc<Signer>>, stopping: Arc<AtomicBool>) -> Self {
        let now = Instant::now();
        let (whole, sweep, renewed, clock) = (None, None, None, (now, now_s()));
        Self { wanted, stopping, whole, sweep, renewed, next: now, clock }
    }

    /// How long nothing is to be done; nothing if there will be nothing.
    pub(super) fn pause(&self, zone: &DynamicZone, now: Instant) -> Option<Duration> {
        if let Some(whole) = &self.whole {
            // It has woken this thread a moment before it ended, maybe too early.
            return Some(if whole.is_finished() { Duration::ZERO } else { SIGNING_POLL });
        }
        let has_work = self.wanted.is_some() || !self.is_settled(zone);
        let pause = self.next.saturating_duration_since(now).min(CLOCK_PAUSE);
        has_work.then_some(if self.sweep.is_some() { Duration::ZERO } else { pause })
    }

    /// Does the next part of the work. What it takes is bounded, but for the last step after a whole zone was signed.
    pub(super) fn turn(&mut self, zone: &DynamicZone, save: Save<'_>, sink: &Sink) -> Done {
        let now = Instant::now();
        self.see_clock(now, now_s());
        if let Some(whole) = self.whole.take_if(|whole| whole.is_finished()) {
            return self.turn_over(whole, zone, save, sink);
        }
        if self.whole.is_some() || self.next > now {
            return Done::default();
        }
        if !self.is_settled(zone) {
            return self.settle(zone);
        }
        self.sweep(zone, save, sink)
    }

    /// Signatures that last by the clock as it was may not do so by the clock as it is.
    fn see_clock(&mut self, now: Instant, now_s: u64) {
        let (then, then_s) = self.clock;
        let passed = now.saturating_duration_since(then).as_secs();
        if (then_s + passed).abs_diff(now_s) > CLOCK_JUMP_S {
            (self.sweep, self.next) = (None, now);
        }
        self.clock = (now, now_s);
    }

    /// Whether what changes is signed as it should be.
    fn is_settled(&self, zone: &DynamicZone) -> bool {
        match (&self.wanted, zone.signer()) {
            (Some(wanted), Some(signer)) => signer.is_like(wanted),
            (None, None) => !zone.lacks_signer() && !zone.is_unready(),
            _ => false,
        }
    }

    /// Takes a zone as it is, if it is right, or begins to make it so.
    fn settle(&mut self, zone: &DynamicZone) -> Done {
        let Some((of, _)) = zone.data() else { return Done::default() };
        if let Some(wanted) = self.wanted.as_ref().filter(|wanted| wanted.has_signed(&of)) {
            zone.set_signer(Some(wanted.clone()));
            if !Signer::has_lapsed(&of, now_s()) {
                return Done::default();
            }
            // Quicker than some names after the other. Meanwhile updates are signed.
        }
        match self.begin(of) {
            Ok(whole) => {
                self.whole = Some(whole);
                Done::default()
            }
            Err(error) => self.later(format!("signing zone {} failed: {error}", zone.origin())),
        }
    }

    fn begin(&self, of: Data) -> io::Result<JoinHandle<Result<Whole, SignZoneError>>> {
        let (signer, stopping, keeper) =
            (self.wanted.clone(), self.stopping.clone(), thread::current());
        let run = move || {
            cpu::come_last();
            let goes_on = || !stopping.load(Ordering::Acquire);
            let made = match &signer {
                Some(signer) => signer.whole(of.clone(), now_s(), &goes_on).map(|made| made.data),
                None => Signer::unsigned(of.clone(), &goes_on),
            };
            keeper.unpark();
            made.map(|data| Whole { of, data, signer })
        };
        thread::Builder::new().name("dynupdate-sign".to_owned()).spawn(run)
    }

    fn turn_over(
        &mut self,
        whole: JoinHandle<Result<Whole, SignZoneError>>,
        zone: &DynamicZone,
        save: Save<'_>,
        sink: &Sink,
    ) -> Done {
        let failed = |why: String| format!("signing zone {} failed: {why}", zone.origin());
        let whole = match whole.join() {
            Ok(Ok(whole)) => whole,
            Ok(Err(SignZoneError::Stopped)) => return Done::default(),
            Ok(Err(error)) => return self.later(failed(error.to_string())),
            Err(_) => return self.later(failed("its thread panicked".to_owned())),
        };
        let done = zone.turn_to(&whole, now_s(), save);
        if !done.errors.is_empty() {
            self.next = Instant::now() + SIGNING_RETRY;
            return done;
        }
        let records = whole.data.records();
        let text = match &whole.signer {
            Some(signer) => format!(
                "zone {} is signed with key tags {}, {records} records",
                zone.origin(),
                signer.key_tags()
            ),
            None => format!("zone {} is not signed any more, as it has no keys", zone.origin()),
        };
        sink.line(Level::Info, ORIGIN, text);
        self.next = Instant::now();
        done
    }

    fn later(&mut self, error: String) -> Done {
        self.next = Instant::now() + SIGNING_RETRY;
        Done { errors: vec![error], ..Done::default() }
    }

    fn sweep(&mut self, zone: &DynamicZone, save: Save<'_>, sink: &Sink) -> Done {
        let Some(signer) = &self.wanted else { return Done::default() };
        if self.sweep.is_none() {
            self.sweep = zone.data().map(|(data, _)| Sweep::of(&data));
        }
        let Some(sweep) = &mut self.sweep else { return Done::default() };
        let now_s = now_s();
        let (due, has_more) = sweep.step(now_s);
        let renewed = &mut self.renewed;
        let keep = |data: &Data, step: &Arc<Step>| {
            save(data, step)?;
            *renewed = Some(Renewed::and(renewed.take(), step, now_s));
            Ok(())
        };
        let done = if due.is_empty() { Done::default() } else { zone.renew(&due, now_s, keep) };
        if !has_more
            && done.errors.is_empty()
            && let Some(renewed) = self.renewed.take()
        {
            let line = renewed.line(zone.origin().view(), signer, sweep.lasting(), now_s);
            sink.line(Level::Info, ORIGIN, line);
        }
        if !has_more || !done.errors.is_empty() {
            let pause = if has_more { SIGNING_RETRY } else { SIGNING_PAUSE };
            (self.sweep, self.next) = (None, Instant::now() + pause);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::log::Record;
    use nodens_wire::{Class, Name, NameRef, Type};
    use nodens_zone::data::Edit;
    use nodens_zone::dnssec::{Denial, SigningKey, Validity};
    use nodens_zone::{RecordRef, Soa};
    use std::sync::mpsc::sync_channel;

    const KEY: [&str; 2] = [
        include_str!("../../../nodens-zone/testdata/dnssec/Kexample.org.+015+21968.key"),
        include_str!("../../../nodens-zone/testdata/dnssec/Kexample.org.+015+21968.private"),
    ];

    /// A zone of so many names that was signed so long ago.
    fn signed(signer: &Signer, names: u32, ago_s: u64) -> DynamicZone {
        let zone: Name = "example.org.".parse().unwrap();
        let mut edit = Edit::new(zone.view(), Class::IN);
        let soa = Soa::with(zone.view(), 5, (&zone, &zone), [1, 7200, 1800, 86400, 5]);
        edit.add(soa.record().into()).unwrap();
        for number in 0..names {
            let owner: Name = format!("host-{number}.example.org.").parse().unwrap();
            let (rtype, class, rdata) = (Type::A, Class::IN, &number.to_be_bytes());
            edit.add(RecordRef { owner: owner.view(), rtype, class, ttl: 5, rdata }).unwrap();
        }
        let data = edit.finish().unwrap();
        let made = signer.whole(data, now_s() - ago_s, &|| true).unwrap();
        DynamicZone::new(zone, None, made.data, &[])
    }

    /// Versions until there is nothing left to do, and the lines in the log.
    fn versions(upkeep: &mut Upkeep, zone: &DynamicZone) -> (u32, Vec<String>) {
        let (sender, log) = sync_channel(100);
        let (sink, mut versions) = (Sink::new(sender), 0);
        let mut save = |_: &Data, _: &Arc<Step>| {
            versions += 1;
            Ok(())
        };
        loop {
            let done = upkeep.turn(zone, &mut save, &sink);
            assert!(done.errors.is_empty(), "{:?}", done.errors);
            match upkeep.pause(zone, Instant::now()) {
                Some(pause) if pause <= SIGNING_POLL => thread::park_timeout(pause),
                _ => break,
            }
        }
        let line = |record| match record {
            Record::Line { text, .. } => Some(text),
            _ => None,
        };
        (versions, log.try_iter().filter_map(line).collect())
    }

    fn expires_in_s(zone: &DynamicZone, name: NameRef<'_>, rtype: Type) -> i32 {
        let (data, _) = zone.data().unwrap();
        let sigs = data.rrset(name, rtype).unwrap().sigs().unwrap();
        Validity::of_signature(sigs.first()).unwrap().remaining_s(now_s())
    }

    #[test]
    fn what_expired_during_a_stop_is_signed_as_a_whole_and_what_will_in_steps() {
        const DAY_S: u64 = 24 * 3600;
        let key = SigningKey::parse(KEY[0], KEY[1]).unwrap();
        let signer = Arc::new(Signer::new(vec![key], Denial::Nsec));
        for (ago_s, wanted) in [(DAY_S, 0..1), (31 * DAY_S, 4..10), (60 * DAY_S, 1..2)] {
            let zone = signed(&signer, 200, ago_s);
            let mut upkeep = Upkeep::new(Some(signer.clone()), Arc::default());
            let (found, log) = versions(&mut upkeep, &zone);
            assert!(wanted.contains(&found), "{found} versions after {ago_s} s");
            assert!(zone.signer().is_some());
            assert_eq!(log.len(), usize::from(found > 0), "{log:?}");
            let host: Name = "host-150.example.org.".parse().unwrap();
            for (name, rtype) in [(host.view(), Type::A), (zone.origin().view(), Type::DNSKEY)] {
                assert!(expires_in_s(&zone, name, rtype) > 7 * DAY_S as i32, "{rtype}");
            }
        }
    }

    #[test]
    fn the_log_says_once_what_was_signed_again_and_when_the_next_is_due() {
        const DAY_S: u64 = 24 * 3600;
        let key = SigningKey::parse(KEY[0], KEY[1]).unwrap();
        let signer = Arc::new(Signer::new(vec![key], Denial::Nsec));
        // All signatures are less than 7 days from their end.
        let zone = signed(&signer, 200, 31 * DAY_S);
        let mut upkeep = Upkeep::new(Some(signer.clone()), Arc::default());
        let (versions, log) = versions(&mut upkeep, &zone);
        let [line] = log.as_slice() else { panic!("{log:?}") };
        let serial = 1 + versions;
        let begin =
            "zone example.org. is signed again with key tags 21968 before signatures expire: ";
        let rest = line.strip_prefix(begin).unwrap_or_else(|| panic!("{line}"));
        let (count, rest) = rest.split_once(" signatures, ").unwrap();
        // Each name has an A and an NSEC record; the SOA record is signed with each version.
        assert!(count.parse::<u32>().unwrap() >= 400, "{line}");
        let hours = rest.strip_prefix(&format!("serial 1 to {serial}, the next are due in "));
        let hours: u32 =
            hours.unwrap_or_else(|| panic!("{line}")).strip_suffix(" h").unwrap().parse().unwrap();
        assert!((25 * 24..26 * 24).contains(&hours), "{line}");
    }

    #[test]
    fn signatures_are_looked_at_when_the_clock_was_set() {
        let mut upkeep = Upkeep::new(None, Arc::default());
        let (begin, begin_s) = upkeep.clock;
        let at = |later: u64| begin + Duration::from_secs(later);
        // Seconds by the clock after seconds that have passed, and whether it was set.
        for (passed, by_clock, is_set) in [
            (60, 60, false),
            (120, 121, false),
            (180, 4000, true),
            (240, 4060, false),
            (300, 300, true),
            (360, 361, false),
            (361, 4_000_000, true),
        ] {
            upkeep.next = at(10_000);
            upkeep.see_clock(at(passed), begin_s + by_clock);
            assert_eq!(upkeep.next == at(passed), is_set, "{passed}");
        }
    }
}
