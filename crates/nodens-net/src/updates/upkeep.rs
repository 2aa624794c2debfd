//! Keeps a zone signed: as a whole when its keys are others, on a thread of its own, and before signatures
//! expire, in steps between updates.

use super::ORIGIN;
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
    /// When it begins next, or another attempt is made.
    next: Instant,
}

impl Upkeep {
    pub(super) fn new(wanted: Option<Arc<Signer>>, stopping: Arc<AtomicBool>) -> Self {
        Self { wanted, stopping, whole: None, sweep: None, next: Instant::now() }
    }

    /// How long nothing is to be done; nothing if there will be nothing.
    pub(super) fn pause(&self, zone: &DynamicZone, now: Instant) -> Option<Duration> {
        if let Some(whole) = &self.whole {
            // It has woken this thread a moment before it ended, maybe too early.
            return Some(if whole.is_finished() { Duration::ZERO } else { SIGNING_POLL });
        }
        let has_work = self.wanted.is_some() || !self.is_settled(zone);
        let pause = self.next.saturating_duration_since(now);
        has_work.then_some(if self.sweep.is_some() { Duration::ZERO } else { pause })
    }

    /// Does the next part of the work. What it takes is bounded, but for the last step after a whole zone was signed.
    pub(super) fn turn(&mut self, zone: &DynamicZone, save: Save<'_>, sink: &Sink) -> Done {
        let now = Instant::now();
        if let Some(whole) = self.whole.take_if(|whole| whole.is_finished()) {
            return self.turn_over(whole, zone, save, sink);
        }
        if self.whole.is_some() || self.next > now {
            return Done::default();
        }
        if !self.is_settled(zone) {
            return self.settle(zone);
        }
        self.sweep(zone, save)
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
            return Done::default();
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

    fn sweep(&mut self, zone: &DynamicZone, save: Save<'_>) -> Done {
        if self.wanted.is_none() {
            return Done::default();
        }
        if self.sweep.is_none() {
            self.sweep = zone.data().map(|(data, _)| Sweep::of(&data));
        }
        let Some(sweep) = &mut self.sweep else { return Done::default() };
        let now_s = now_s();
        let (due, has_more) = sweep.step(now_s);
        let done = if due.is_empty() { Done::default() } else { zone.renew(&due, now_s, save) };
        if !has_more || !done.errors.is_empty() {
            let pause = if has_more { SIGNING_RETRY } else { SIGNING_PAUSE };
            (self.sweep, self.next) = (None, Instant::now() + pause);
        }
        done
    }
}
