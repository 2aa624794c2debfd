//! Begins queries and transfers that are due.

use super::ORIGIN;
use super::exchange::{Exchange, Order, Work};
use super::keeper::Keeper;
use super::lanes::{Task, Way};
use super::link::{has_no_ids, text_of};
use crate::clock;
use crate::limits::BEGUN_IN_A_ROW;
use nodens_core::log::Level;
use nodens_zone::incoming::Incoming;
use nodens_zone::refresh::{Action, End};
use nodens_zone::secondary::Primary;
use std::io;

impl Keeper {
    /// Begins what is due, and of very much a part: primaries that answer are heard between the parts.
    pub(super) fn begin_due(&mut self) {
        self.count_lanes();
        for _ in 0..BEGUN_IN_A_ROW {
            let Self { lanes, areas, .. } = self;
            let has_room = |area: usize| areas.get(area).is_some_and(|own| own.schedule.has_room());
            let Some(task) = lanes.next(clock::mono_ns(), has_room) else { break };
            if self.hold(&task, false) {
                self.act(task);
            }
        }
        for area in 0..self.areas.len() {
            for _ in 0..BEGUN_IN_A_ROW {
                let own = self.areas.get_mut(area);
                let due = own.and_then(|own| own.schedule.poll(clock::mono_ns()));
                let Some((zone, action, token)) = due else { break };
                self.act(Task { area, zone, action, token });
            }
        }
        // Not all of them may have a connection.
        self.count_lanes();
    }

    /// When something that has waited for its turn is to begin.
    pub(super) fn waiting_until(&self) -> Option<u64> {
        let has_room =
            |area: usize| self.areas.get(area).is_some_and(|own| own.schedule.has_room());
        self.lanes.next_deadline(has_room)
    }

    fn count_lanes(&mut self) {
        let exchanges = self.exchanges.iter();
        let ways = exchanges.map(|(_, own)| (own.order.way(), own.heard));
        self.lanes.count(ways);
    }

    /// Whether it waits for others, or not any more; false if it is not to be done any more.
    fn hold(&mut self, task: &Task, waits: bool) -> bool {
        let area = self.areas.get_mut(task.area);
        area.is_some_and(|area| area.schedule.hold(&task.zone, task.token, waits))
    }

    fn act(&mut self, task: Task) {
        if self.is_stopping() {
            return;
        }
        let kept = self.areas.get(task.area).and_then(|area| area.zones.get(&task.zone));
        let Some(data) = kept.map(|kept| kept.zone.clone()) else { return };
        let (Action::Query(primary) | Action::Transfer(primary)) = task.action else {
            return self.expire(task.area, &data);
        };
        let Some(primary) = data.primaries().get(primary).cloned() else { return };
        let now = clock::mono_ns();
        let (zone, key) = (task.zone.clone(), data.key());
        let order = Order { area: task.area, zone, primary, token: task.token, key };
        let way = order.way();
        // One that does not answer would keep all its zones waiting, and those of others.
        let is_down = |primary: &Primary| self.down.has(primary.address, now);
        if is_down(&order.primary) && !data.primaries().iter().all(is_down) {
            return self.pass_over(&order);
        }
        if self.lanes.begin(way, now) {
            self.ask(task, order, way);
        } else if self.hold(&task, true) {
            self.lanes.wait(way, task);
        }
    }

    fn ask(&mut self, task: Task, order: Order, way: Way) {
        let id = self.id(&order.primary);
        let work = match task.action {
            Action::Transfer(_) => {
                Work::Transfer(Box::new(Incoming::axfr(order.zone.clone(), id, None)))
            }
            _ => Work::Serial(id),
        };
        let now = clock::mono_ns();
        self.down.tried(order.primary.address, now);
        let opened = self.try_to_open(&order, work);
        self.lanes.begun(way, opened.is_ok());
        match opened {
            Ok(()) => {}
            Err(error) if lacks_ports(&error) && self.lanes.pause(way, now) => {
                let text = format!("{} waits: no port for another connection to", order.zone);
                self.sink.line(Level::Debug, ORIGIN, format!("{text} {}", order.primary));
                if self.hold(&task, true) {
                    self.lanes.wait(way, task);
                }
            }
            Err(error) => self.note_failure(&order, &text_of(&error), End::Failed),
        }
    }

    /// The ID of a query to a primary.
    pub(super) fn id(&mut self, primary: &Primary) -> u16 {
        if has_no_ids(primary) { 0 } else { self.random.u16() }
    }

    pub(super) fn open(&mut self, order: Order, work: Work) {
        if let Err(error) = self.try_to_open(&order, work) {
            self.note_failure(&order, &text_of(&error), End::Failed);
        }
    }

    fn try_to_open(&mut self, order: &Order, work: Work) -> io::Result<()> {
        // The key is in the table before the system knows of it.
        let key = self.exchanges.insert(Exchange::open(order.clone(), work)?);
        let Self { exchanges, poll, .. } = self;
        let registered = exchanges.get_mut(key).map(|exchange| exchange.register(poll, key));
        if let Some(Err(error)) = registered {
            self.exchanges.remove(key);
            return Err(error);
        }
        Ok(())
    }

    /// A primary is not asked that did not answer for another zone, which was said.
    fn pass_over(&mut self, order: &Order) {
        let Some(kept) = self.kept(order) else { return };
        let reason = "it did not answer before";
        kept.zone.note_failure(Some(&format!("{}: {reason}", order.primary)));
        let text = format!("Failed to transfer {} from {}: {reason}", order.zone, order.primary);
        self.sink.line(Level::Debug, ORIGIN, text);
        self.ended(order, End::Failed);
    }
}

/// Whether all ports are in use for connections to that address, which has nothing to do with the server there.
fn lacks_ports(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EADDRNOTAVAIL)
}
