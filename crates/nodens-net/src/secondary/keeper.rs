//! What the thread does over and over.

use super::ORIGIN;
use super::catalogs::Catalogs;
use super::exchange::{Answer, Exchange, Failure, Order, Work};
use super::store::{Store, is_fresh};
use crate::clock;
use crate::fault::errno_text;
use crate::limits::PRIMARY_BUFFER_LEN;
use crate::poll::{Interest, Poll, Waker};
use crate::random::Random;
use crate::slots::{Key, Kind, Slots};
use nodens_core::log::{Level, Sink};
use nodens_wire::{Name, Type};
use nodens_zone::incoming::{Incoming, Received};
use nodens_zone::refresh::{Action, End, Refresh, Schedule, Token};
use nodens_zone::secondary::{Configured, SecondaryService, SecondaryZone};
use nodens_zone::{Serial, Zone};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The zones of one directive.
pub(super) struct Area {
    pub(super) service: SecondaryService,
    schedule: Schedule,
    pub(super) zones: HashMap<Name, Kept>,
    pub(super) catalogs: Catalogs,
}

impl Area {
    /// Keeps a zone no more.
    pub(super) fn forget(&mut self, name: &Name) {
        self.schedule.remove(name);
        let kept = self.zones.remove(name);
        kept.and_then(|kept| kept.store).iter_mut().for_each(Store::remove);
    }
}

/// A zone that is kept up to date.
pub(super) struct Kept {
    pub(super) zone: Arc<SecondaryZone>,
    /// Whether the last attempt failed, which was said.
    failed: bool,
    store: Option<Store>,
}

/// All zones, and the connections to their primaries.
pub(super) struct Keeper {
    pub(super) areas: Vec<Area>,
    exchanges: Slots<Exchange>,
    poll: Poll,
    waker: Arc<Waker>,
    random: Random,
    buffer: Vec<u8>,
    pub(super) sink: Sink,
}

impl Keeper {
    pub(super) fn new(
        services: &[SecondaryService],
        sink: Sink,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*waker, Kind::Wake, Key::ONLY, Interest::READ)?;
        let (buffer, random) = (vec![0; PRIMARY_BUFFER_LEN], Random::new());
        let (areas, exchanges) = (Vec::new(), Slots::default());
        let mut keeper = Self { areas, exchanges, poll, waker, random, buffer, sink };
        for service in services {
            keeper.add_area(service.clone());
        }
        Ok(keeper)
    }

    fn add_area(&mut self, service: SecondaryService) {
        let waker = self.waker.clone();
        service.notices.on_notice(move || waker.wake());
        let (area, configured) = (self.areas.len(), service.configured.clone());
        let (schedule, zones, catalogs) = Default::default();
        self.areas.push(Area { service, schedule, zones, catalogs });
        for configured in &configured {
            configured.zone.set_key(configured.key.clone());
            // One that several blocks have is kept for all of them by the first.
            if self.keeper_of(&configured.zone).is_none() {
                self.keep(area, configured.zone.clone(), configured.store.as_deref());
            }
        }
        // Those that an earlier configuration has transferred.
        for Configured { zone, .. } in configured {
            if let Some(data) = zone.data() {
                self.apply_catalog(area, zone.origin(), &data);
            }
        }
    }

    /// The area that keeps this very zone.
    fn keeper_of(&self, zone: &Arc<SecondaryZone>) -> Option<usize> {
        self.areas.iter().position(|area| {
            area.zones.get(zone.origin()).is_some_and(|kept| Arc::ptr_eq(&kept.zone, zone))
        })
    }

    /// Keeps a zone up to date, in the place of one of its name.
    pub(super) fn keep(&mut self, area: usize, zone: Arc<SecondaryZone>, folder: Option<&Path>) {
        let (store, age) = match folder.map(|folder| self.restore(&zone, folder)) {
            Some((store, age)) => (Some(store), age),
            None => (None, None),
        };
        let Some(area) = self.areas.get_mut(area) else { return };
        let now = clock::mono_ns();
        let mut refresh = Refresh::new(zone.primaries().len());
        // A version that an earlier configuration has transferred, or an earlier process.
        let since = |at| Duration::from_nanos(now.saturating_sub(at));
        let age = age.or_else(|| zone.reached_ns().map(since));
        if let (Some(soa), Some(age)) = (zone.soa(), age) {
            refresh.restore(now, &soa, age);
        }
        area.schedule.insert(zone.origin().clone(), refresh);
        area.zones.insert(zone.origin().clone(), Kept { zone, failed: false, store });
    }

    /// Serves what is in the file of a zone, unless something is served or that is too old.
    /// Gives how old it is.
    fn restore(&self, zone: &SecondaryZone, folder: &Path) -> (Store, Option<Duration>) {
        let mut store = Store::new(folder, zone);
        let found = match store.load(zone) {
            Ok(found) => found.filter(|_| zone.soa().is_none()),
            Err(error) => {
                let reason = errno_text(&error);
                let text = format!("Failed to read stored zone {}: {reason}", zone.origin());
                self.sink.line(Level::Warning, ORIGIN, text);
                None
            }
        };
        let Some(found) = found.filter(|found| is_fresh(found.data(), found.age)) else {
            return (store, None);
        };
        let age = found.age;
        let (serial, records) = (found.data().soa().serial().0, found.data().records());
        found.serve(zone);
        let text = format!("Restored: {}: serial {serial}, {records} records", zone.origin());
        self.sink.line(Level::Debug, ORIGIN, text);
        (store, Some(age))
    }

    pub(super) fn turn(&mut self) {
        self.take_notices();
        for area in 0..self.areas.len() {
            while let Some((zone, action, token)) =
                self.areas.get_mut(area).and_then(|area| area.schedule.poll(clock::mono_ns()))
            {
                self.act(area, &zone, action, token);
            }
        }
        self.give_up();
        let now = clock::mono_ns();
        let due = self.areas.iter().filter_map(|area| area.schedule.next_deadline());
        let due =
            due.chain(self.exchanges.iter().map(|(_, exchange)| exchange.deadline_ns())).min();
        let ready = self.poll.wait(due.map(|at| at.saturating_sub(now)));
        // Before the next look at what primaries say, and at whether this is to stop.
        self.waker.reset();
        for index in 0..ready {
            let Some(ready) = self.poll.ready(index).filter(|ready| ready.kind != Kind::Wake)
            else {
                continue;
            };
            let Self { exchanges, poll, buffer, .. } = self;
            let Some(exchange) = exchanges.get_mut(ready.key) else { continue };
            match exchange.go_on(ready, poll, buffer) {
                Ok(None) => {}
                Ok(Some(answer)) => self.answered(ready.key, answer),
                Err(failure) => self.failed(ready.key, &failure),
            }
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
                }
            }
        }
    }

    fn act(&mut self, area: usize, zone: &Name, action: Action, token: Token) {
        let kept = self.areas.get(area).and_then(|area| area.zones.get(zone));
        let Some(data) = kept.map(|kept| kept.zone.clone()) else { return };
        let (primary, work) = match action {
            Action::Expire => return self.expire(area, &data),
            Action::Query(primary) => (primary, Work::Serial(self.random.u16())),
            Action::Transfer(primary) => {
                let incoming = Incoming::axfr(zone.clone(), self.random.u16(), None);
                (primary, Work::Transfer(Box::new(incoming)))
            }
        };
        let Some(primary) = data.primaries().get(primary).copied() else { return };
        let key = data.key();
        self.open(Order { area, zone: zone.clone(), primary, token, key }, work);
    }

    fn open(&mut self, order: Order, work: Work) {
        let mut opened = match Exchange::open(order.clone(), work) {
            Ok(exchange) => Some(exchange),
            Err(error) => return self.note_failure(&order, &errno_text(&error)),
        };
        // The key is in the table before the system knows of it.
        let Some(exchange) = opened.take() else { return };
        let key = self.exchanges.insert(exchange);
        let Self { exchanges, poll, .. } = self;
        let registered = exchanges.get_mut(key).map(|exchange| exchange.register(poll, key));
        if let Some(Err(error)) = registered {
            self.exchanges.remove(key);
            self.note_failure(&order, &errno_text(&error));
        }
    }

    /// Ends what takes too long.
    fn give_up(&mut self) {
        let now = clock::mono_ns();
        for key in self.exchanges.keys(|exchange| exchange.deadline_ns() <= now) {
            if let Some(failure) = self.exchanges.get(key).map(Exchange::timed_out) {
                self.failed(key, &failure);
            }
        }
    }

    /// A primary has answered.
    fn answered(&mut self, key: Key, answer: Answer) {
        let serial = match answer {
            Answer::Serial(serial) => serial,
            Answer::Transfer(received) => {
                let Some(exchange) = self.exchanges.remove(key) else { return };
                return self.received(&exchange, received);
            }
        };
        let Some(order) = self.exchanges.get(key).map(|exchange| exchange.order.clone()) else {
            return;
        };
        let id = self.random.u16();
        let base = self.kept(&order).and_then(|kept| kept.zone.data());
        match base.filter(|base| serial > base.soa().serial()) {
            // On the same connection, without another round.
            Some(base) => {
                let incoming = Incoming::ixfr(order.zone.clone(), id, base);
                let work = Work::Transfer(Box::new(incoming));
                let Self { exchanges, poll, .. } = self;
                let asked =
                    exchanges.get_mut(key).map(|exchange| exchange.ask_for(work, poll, key));
                if let Some(Err(error)) = asked {
                    self.failed(key, &Failure::Silent(errno_text(&error)));
                }
            }
            None => {
                self.exchanges.remove(key);
                self.up_to_date(&order, serial);
            }
        }
    }

    fn kept(&mut self, order: &Order) -> Option<&mut Kept> {
        self.areas.get_mut(order.area)?.zones.get_mut(&order.zone)
    }

    fn up_to_date(&mut self, order: &Order, serial: Serial) {
        self.recovered(order, serial);
        self.ended(order, End::Has(serial));
    }

    /// A transfer is whole.
    fn received(&mut self, exchange: &Exchange, received: Received) {
        let order = &exchange.order;
        let (data, steps) = match received {
            Received::UpToDate(serial) => return self.up_to_date(order, serial),
            Received::Whole(data) => (data, Vec::new()),
            Received::Changed(data, steps) => (data, steps),
        };
        let (soa, records, version) = (data.soa().clone(), data.records(), data.clone());
        let Some(kept) = self.kept(order) else { return };
        let before = kept.zone.soa();
        kept.zone.replace(data, &steps);
        let stored = kept.store.as_mut().map(|store| store.save(&version, &steps));
        if let Some(Err(error)) = stored {
            let text = format!("Failed to store zone {}: {}", order.zone, errno_text(&error));
            self.sink.line(Level::Error, ORIGIN, text);
        }
        self.announce(order);
        let counts = exchange.incoming().map(Incoming::counts).unwrap_or_default();
        let way = if steps.is_empty() { Type::AXFR } else { Type::IXFR };
        let took = Duration::from_nanos(clock::mono_ns().saturating_sub(exchange.began_ns));
        let from = before.map_or_else(String::new, |soa| format!(" after {}", soa.serial().0));
        let text = format!(
            "Transferred: {} from {}: serial {}{from}, {records} records, {way} of {} octets in {} \
             messages, {} ms",
            order.zone,
            order.primary,
            soa.serial().0,
            counts.octets,
            counts.messages,
            took.as_millis(),
        );
        self.sink.line(Level::Info, ORIGIN, text);
        if counts.outside > 0 {
            let (zone, primary, outside) = (&order.zone, order.primary, counts.outside);
            let text = format!("{outside} records that are not in {zone} ignored from {primary}");
            self.sink.line(Level::Warning, ORIGIN, text);
        }
        self.recovered(order, soa.serial());
        self.ended(order, End::Transferred(soa.serial(), soa.timers()));
        self.apply_catalog(order.area, &order.zone, &version);
    }

    /// Tells whoever the zone is handed on to.
    fn announce(&self, order: &Order) {
        for area in &self.areas {
            area.service.handed_on.announce(order.zone.view());
        }
    }

    /// A primary was reached.
    fn recovered(&mut self, order: &Order, serial: Serial) {
        let Some(kept) = self.kept(order) else { return };
        kept.zone.note_reached(clock::mono_ns());
        kept.store.iter().for_each(Store::touch);
        if std::mem::take(&mut kept.failed) {
            let (zone, primary) = (&order.zone, order.primary);
            let text = format!("{zone} recovered: {primary} has serial {}", serial.0);
            self.sink.line(Level::Info, ORIGIN, text);
        }
    }

    /// An exchange has failed.
    fn failed(&mut self, key: Key, failure: &Failure) {
        let Some(exchange) = self.exchanges.remove(key) else { return };
        let incremental = exchange.incoming().is_some_and(|i| i.qtype() == Type::IXFR);
        let order = exchange.order.clone();
        drop(exchange);
        if !incremental || !failure.whole_may_help() {
            return self.note_failure(&order, &failure.to_string());
        }
        let (zone, primary) = (&order.zone, order.primary);
        let text = format!("IXFR of {zone} from {primary} failed: {failure}, asking for AXFR");
        self.sink.line(Level::Warning, ORIGIN, text);
        let base = self.kept(&order).and_then(|kept| kept.zone.data());
        let incoming = Incoming::axfr(order.zone.clone(), self.random.u16(), base);
        self.open(order, Work::Transfer(Box::new(incoming)));
    }

    fn note_failure(&mut self, order: &Order, reason: &str) {
        let Some(kept) = self.kept(order) else { return };
        // A primary that stays down is said to be once.
        let is_known = std::mem::replace(&mut kept.failed, true);
        let level = if is_known { Level::Debug } else { Level::Warning };
        let text = format!("Failed to transfer {} from {}: {reason}", order.zone, order.primary);
        self.sink.line(level, ORIGIN, text);
        self.ended(order, End::Failed);
    }

    fn ended(&mut self, order: &Order, end: End) {
        let random = (self.random.u64() >> 32) as u32;
        let Some(area) = self.areas.get_mut(order.area) else { return };
        area.schedule.ended(&order.zone, order.token, clock::mono_ns(), end, random);
    }

    fn expire(&mut self, area: usize, zone: &SecondaryZone) {
        zone.expire();
        let text = format!("Zone {} is expired: no primary was reached in time", zone.origin());
        self.sink.line(Level::Error, ORIGIN, text);
        let Some(area) = self.areas.get_mut(area) else { return };
        let kept = area.zones.get_mut(zone.origin());
        kept.and_then(|kept| kept.store.as_mut()).into_iter().for_each(Store::remove);
        area.service.handed_on.announce(zone.origin().view());
    }
}
