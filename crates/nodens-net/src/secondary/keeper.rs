//! What the thread does over and over.

use super::ORIGIN;
use super::areas::Area;
use super::down::Down;
use super::exchange::{Answer, Exchange, Failure, Order, Work, nanoseconds};
use super::lanes::Lanes;
use super::link::text_of;
use super::lock::Lock;
use crate::clock;
use crate::limits::{PRIMARY_BUFFER_LEN, SWEEP_INTERVAL};
use crate::poll::{Interest, Poll, Ready, Waker};
use crate::random::Random;
use crate::slots::{Key, Kind, Slots};
use foldhash::fast::RandomState;
use nodens_core::log::Sink;
use nodens_wire::{SharedName, Type};
use nodens_zone::counts::{self, Kind as Asked, Result as Came};
use nodens_zone::incoming::Incoming;
use nodens_zone::refresh::End;
use nodens_zone::secondary::{SecondaryService, SecondaryZone};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All zones, and the connections to their primaries.
pub(super) struct Keeper {
    pub(super) areas: Vec<Area>,
    pub(super) exchanges: Slots<Exchange>,
    pub(super) poll: Poll,
    pub(super) waker: Arc<Waker>,
    /// Whether this is to end.
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) down: Down,
    pub(super) lanes: Lanes,
    /// Zones whose earlier versions still had readers, and when to look again.
    pub(super) unswept: Vec<Arc<SecondaryZone>>,
    pub(super) sweep_at: Option<u64>,
    /// When to look for memory for the members of catalogs that wait for some.
    pub(super) members_at: Option<u64>,
    pub(super) random: Random,
    buffer: Vec<u8>,
    /// Of the folders that zones are kept in, by each way in which these are written.
    pub(super) locks: HashMap<OsString, Arc<Lock>, RandomState>,
    /// How many of them another process had at the last look.
    pub(super) foreign: usize,
    pub(super) counts: Arc<counts::Incoming>,
    /// Zones that were read from disk and are not in the log yet, and their records.
    pub(super) restored: Cell<(u64, u64)>,
    /// How many of them have expired, and one of these.
    pub(super) lapsed: Cell<Option<(u64, SharedName)>>,
    pub(super) sink: Sink,
}

impl Keeper {
    pub(super) fn new(
        services: &[SecondaryService],
        sink: Sink,
        waker: Arc<Waker>,
        stopping: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*waker, Kind::Wake, Key::ONLY, Interest::READ)?;
        let (buffer, random) = (vec![0; PRIMARY_BUFFER_LEN], Random::new());
        let (areas, exchanges) = (Vec::new(), Slots::default());
        let (down, lanes, unswept, locks, foreign) = Default::default();
        let (sweep_at, members_at) = (None, None);
        let counts = services.first().map(|service| service.counts.clone()).unwrap_or_default();
        let mut keeper = Self {
            areas,
            exchanges,
            poll,
            waker,
            stopping,
            down,
            lanes,
            unswept,
            sweep_at,
            members_at,
            random,
            buffer,
            locks,
            foreign,
            counts,
            restored: Cell::default(),
            lapsed: Cell::default(),
            sink,
        };
        // Whether a zone is anybody's catalog has to be known before its file is read.
        services.iter().cloned().for_each(|service| keeper.add_area(service));
        for area in 0..keeper.areas.len() {
            if keeper.is_stopping() {
                break;
            }
            keeper.keep_configured(area);
        }
        // Where this is to end, not everything was read.
        if !keeper.is_stopping() {
            services.iter().for_each(|service| service.restoring.finish());
        }
        Ok(keeper)
    }

    pub(super) fn turn(&mut self) {
        self.say_restored();
        self.take_notices();
        self.begin_due();
        self.sweep();
        self.begin_members_again();
        let folders_at = self.take_folders();
        let now = clock::mono_ns();
        let due = self.areas.iter().filter_map(|area| area.schedule.next_deadline());
        let of_exchange =
            |exchange: &Exchange| exchange.deadline_ns().min(exchange.timer_ns.unwrap_or(u64::MAX));
        let due = due.chain(self.exchanges.iter().map(|(_, exchange)| of_exchange(exchange)));
        let due = due
            .chain(self.sweep_at)
            .chain(self.members_at)
            .chain(folders_at)
            .chain(self.waiting_until())
            .min();
        let ready = self.poll.wait(due.map(|at| at.saturating_sub(now)));
        let looked_ns = clock::mono_ns();
        // Before the next look at what primaries say, and at whether this is to stop.
        self.waker.reset();
        for index in 0..ready {
            let Some(ready) = self.poll.ready(index).filter(|ready| ready.kind != Kind::Wake)
            else {
                continue;
            };
            self.go_on(ready);
        }
        let is_due =
            |exchange: &Exchange| exchange.timer_ns.is_some_and(|at| at <= clock::mono_ns());
        for key in self.exchanges.keys(is_due) {
            self.go_on(Ready { kind: Kind::QuicUpstream, key, readable: true, broken: false });
        }
        // What has come while this thread did something else counts as heard.
        self.give_up(looked_ns);
    }

    fn go_on(&mut self, ready: Ready) {
        // A later configuration may have begun while this waited for a disk, and its zones are the same.
        if self.is_stopping() {
            return;
        }
        let Self { exchanges, poll, buffer, .. } = self;
        let Some(exchange) = exchanges.get_mut(ready.key) else { return };
        match exchange.go_on(ready, poll, buffer) {
            Ok(None) => {}
            Ok(Some(answer)) => self.answered(ready.key, answer),
            Err(failure) => self.failed(ready.key, &failure),
        }
    }

    /// Frees versions that had readers when they were replaced.
    fn sweep(&mut self) {
        let now = clock::mono_ns();
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.unswept.retain(|zone| zone.served().sweep() > 0);
            let is_empty = self.unswept.is_empty();
            self.sweep_at = (!is_empty).then(|| now.saturating_add(nanoseconds(SWEEP_INTERVAL)));
        }
    }

    fn take_notices(&mut self) {
        for index in 0..self.areas.len() {
            let Some(notices) = self.areas.get(index).map(|area| area.service.notices.clone())
            else {
                continue;
            };
            for (zone, primary, serial) in notices.take() {
                let Some(area) = self.areas.get(index) else { continue };
                let table = area.service.zones.load();
                let noted = table.get(zone.view()).and_then(|zone| zone.as_secondary());
                // Another block may keep it.
                let keeps = |area: &&mut Area| {
                    area.zones.get(&zone).is_some_and(|kept| {
                        noted.is_some_and(|noted| std::ptr::eq(noted, &*kept.zone))
                    })
                };
                if let Some(area) = self.areas.iter_mut().find(keeps) {
                    area.schedule.notified(&zone, primary, serial);
                    let kept = area.zones.get(&zone);
                    // It may be alive.
                    if let Some(own) = kept.and_then(|kept| kept.zone.primaries().get(primary)) {
                        self.down.hint(own.address, clock::mono_ns());
                    }
                }
            }
        }
    }

    /// Whether this is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends what had taken too long at that time.
    fn give_up(&mut self, now: u64) {
        for key in self.exchanges.keys(|exchange| exchange.deadline_ns() <= now) {
            if let Some(failure) = self.exchanges.get(key).map(Exchange::timed_out) {
                self.failed(key, &failure);
            }
        }
    }

    /// A primary has answered.
    fn answered(&mut self, key: Key, answer: Answer) {
        if let Some(way) = self.exchanges.get(key).map(|exchange| exchange.order.way()) {
            self.down.heard(way.1);
            self.lanes.heard(way);
        }
        let serial = match answer {
            Answer::Serial(serial) => serial,
            Answer::Transfer(received) => {
                let Some(exchange) = self.exchanges.remove(key) else { return };
                return self.received(&exchange, received);
            }
        };
        let Some(exchange) = self.exchanges.get(key) else { return };
        let (order, took_ns) = (exchange.order.clone(), exchange.took_ns());
        let id = self.id(&order.primary);
        let base = self.kept(&order).and_then(|kept| kept.zone.data());
        match base.filter(|base| serial > base.soa().serial()) {
            // On the same connection, without another round.
            Some(base) => {
                self.counts.ended(Asked::Soa, Came::Transferred, 0, took_ns);
                let incoming = Incoming::ixfr(order.zone.clone(), id, base);
                let work = Work::Transfer(Box::new(incoming));
                let Self { exchanges, poll, .. } = self;
                let asked =
                    exchanges.get_mut(key).map(|exchange| exchange.ask_for(work, poll, key));
                if let Some(Err(error)) = asked {
                    self.failed(key, &Failure::Silent(text_of(&error)));
                }
            }
            None => {
                self.exchanges.remove(key);
                self.counts.ended(Asked::Soa, Came::UpToDate, 0, took_ns);
                self.up_to_date(&order, serial);
            }
        }
    }

    /// An exchange has failed.
    fn failed(&mut self, key: Key, failure: &Failure) {
        let Some(exchange) = self.exchanges.remove(key) else { return };
        exchange.count(&self.counts, Came::Failed);
        let incremental = exchange.incoming().is_some_and(|i| i.qtype() == Type::IXFR);
        let order = exchange.order.clone();
        let (reason, heard) = (exchange.tell(failure), exchange.heard);
        drop(exchange);
        self.note_down(&order, failure, heard);
        if !incremental || !failure.whole_may_help() {
            return self.note_failure(&order, &reason, failure.end());
        }
        let (zone, primary) = (&order.zone, &order.primary);
        let text = format!("IXFR of {zone} from {primary} failed: {reason}, asking for AXFR");
        let id = self.id(&order.primary);
        let Some(kept) = self.kept(&order) else { return };
        let (base, level) = (kept.zone.data(), kept.said.level_of_attempt(primary.address));
        self.sink.line(level, ORIGIN, text);
        let incoming = Incoming::axfr(order.zone.clone(), id, base);
        self.open(order, Work::Transfer(Box::new(incoming)));
    }

    /// Remembers whether a primary with which an exchange has failed has said anything in it.
    fn note_down(&mut self, order: &Order, failure: &Failure, heard: bool) {
        let address = order.primary.address;
        match failure {
            _ if heard => self.down.heard(address),
            Failure::Unreachable(_) | Failure::Silent(_) => {
                if self.down.note(address, clock::mono_ns()) {
                    self.lanes.release(address);
                }
            }
            Failure::Cut(_) | Failure::Wrong(_) => {}
        }
    }

    pub(super) fn note_failure(&mut self, order: &Order, reason: &str, end: End) {
        let Some(kept) = self.kept(order) else { return };
        kept.zone.note_failure(Some(&format!("{}: {reason}", order.primary)));
        let level = kept.said.note(order.primary.address, reason);
        let text = format!("Failed to transfer {} from {}: {reason}", order.zone, order.primary);
        self.sink.line(level, ORIGIN, text);
        self.ended(order, end);
    }

    pub(super) fn ended(&mut self, order: &Order, end: End) {
        let random = (self.random.u64() >> 32) as u32;
        self.areas.iter().for_each(|area| area.service.notices.asked(&order.zone));
        let Some(area) = self.areas.get_mut(order.area) else { return };
        area.schedule.ended(&order.zone, order.token, clock::mono_ns(), end, random);
        area.note_times(&order.zone);
    }
}
