//! What primaries have given: a version, or word that there is no other.

use super::ORIGIN;
use super::exchange::{Exchange, Order};
use super::keeper::Keeper;
use crate::clock;
use nodens_core::log::Level;
use nodens_wire::Type;
use nodens_zone::counts::Result as Came;
use nodens_zone::data::Data;
use nodens_zone::incoming::{Incoming, Received};
use nodens_zone::journal::Step;
use nodens_zone::refresh::End;
use nodens_zone::{Serial, Zone};
use std::sync::Arc;
use std::time::Duration;

impl Keeper {
    /// A primary has no later version than the one that is served.
    pub(super) fn up_to_date(&mut self, order: &Order, serial: Serial) {
        let served = self.kept(order).and_then(|kept| kept.zone.soa()).map(|soa| soa.serial());
        if let Some(served) = served.filter(|served| *served != serial) {
            return self.behind(order, serial, served);
        }
        self.recovered(order, serial);
        if let Some(kept) = self.kept(order)
            && let (Some(store), Some(data)) = (kept.store.as_mut(), kept.zone.data())
        {
            if kept.not_followed.is_some() {
                store.renew();
            } else {
                let stored = store.touch(&data);
                self.note_stored(order, stored);
            }
        }
        self.ended(order, End::Has(serial));
    }

    /// A primary has an earlier version than the one that is served, which expires if that stays so.
    fn behind(&mut self, order: &Order, serial: Serial, served: Serial) {
        let reason = format!("it has serial {}, which is behind {}", serial.0, served.0);
        self.note_failure(order, &reason, End::Has(serial));
    }

    /// A transfer is whole.
    pub(super) fn received(&mut self, exchange: &Exchange, received: Received) {
        let order = &exchange.order;
        let (data, steps, way) = match received {
            Received::UpToDate(serial) => {
                exchange.count(&self.counts, Came::UpToDate);
                return self.up_to_date(order, serial);
            }
            Received::Whole(data) => (data, Vec::new(), Type::AXFR),
            Received::Changed(data, steps) => (data, steps, Type::IXFR),
        };
        exchange.count(&self.counts, Came::Transferred);
        let (soa, records, version) = (data.soa().clone(), data.records(), data.clone());
        let Some(kept) = self.kept(order) else { return };
        let before = kept.zone.soa();
        kept.zone.replace(data, &steps);
        let zone = kept.zone.clone();
        let read = self.read_catalog(&zone, &version);
        let is_catalog = self.is_catalog(&zone);
        if !is_catalog {
            self.store_version(order, &version, &steps);
        }
        self.sweep_later(&zone);
        self.announce(&order.zone);
        let counts = exchange.incoming().map(Incoming::counts).unwrap_or_default();
        let took = Duration::from_nanos(exchange.took_ns());
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
            let (zone, primary, outside) = (&order.zone, &order.primary, counts.outside);
            let text = format!("{outside} records that are not in {zone} ignored from {primary}");
            self.sink.line(Level::Warning, ORIGIN, text);
        }
        self.recovered(order, soa.serial());
        self.ended(order, End::Transferred(soa.serial(), soa.timers()));
        self.follow_read(&zone, read);
        // A restart in between would take files of members that begin anew for theirs, if it had the version that says
        // so already.
        if is_catalog {
            self.store_version(order, &version, &steps);
        }
    }

    /// Keeps what has come.
    fn store_version(&mut self, order: &Order, version: &Data, steps: &[Arc<Step>]) {
        let Some(kept) = self.kept(order) else { return };
        let store = kept.store.as_mut().filter(|_| kept.not_followed.is_none());
        let stored = store.map(|store| store.save(version, steps));
        stored.into_iter().for_each(|stored| self.note_stored(order, stored));
    }

    /// A primary was reached.
    pub(super) fn recovered(&mut self, order: &Order, serial: Serial) {
        let Some(kept) = self.kept(order) else { return };
        kept.zone.note_reached(clock::mono_ns().cast_signed());
        kept.zone.note_failure(kept.not_followed.as_deref());
        if kept.said.forget(order.primary.address) {
            let (zone, primary) = (&order.zone, &order.primary);
            let text = format!("{zone} recovered: {primary} has serial {}", serial.0);
            self.sink.line(Level::Info, ORIGIN, text);
        }
    }
}
