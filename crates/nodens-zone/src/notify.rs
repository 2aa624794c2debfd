//! Who is told that a zone has changed, when, and how often (RFC 1996).

use crate::limits::{NOTIFY_ATTEMPTS, NOTIFY_INTERVAL, NOTIFY_TIMEOUT};
use crate::serial::Serial;
use crate::zone::Soa;
use nodens_wire::{Builder, Class, Flags, Header, Name, Opcode, Rcode, Section, Type};
use std::net::SocketAddr;

#[cfg(test)]
mod tests;

/// How the telling of one version to one server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server knows.
    Accepted,
    /// It was told as often as it is told; this is the RCODE of its last answer, if any came.
    GivenUp(Option<Rcode>),
}

/// The telling of one server.
#[derive(Debug)]
struct Target {
    to: SocketAddr,
    /// The version it was told of last, whatever came of it.
    told: Option<Serial>,
    /// Times it was told of that version; 0 if no answer is waited for.
    attempt: u32,
    /// Identifier of the last message.
    id: u16,
    /// What it last said to this version.
    said: Option<Rcode>,
    /// When it is told again, monotonic nanoseconds.
    again_at: u64,
    /// When it may be told of another version.
    rested_at: u64,
}

/// Tells servers of new versions of one zone: each version once it is there, again and again at
/// growing intervals until it is accepted or has been told often enough. A newer version takes the
/// place of one that is being told.
#[derive(Debug)]
pub struct Notifier {
    zone: Name,
    targets: Vec<Target>,
}

impl Notifier {
    /// Tells `servers` of versions of `zone`, the first one included.
    pub fn new(zone: Name, servers: &[SocketAddr]) -> Self {
        let target = |to: &SocketAddr| Target {
            to: *to,
            told: None,
            attempt: 0,
            id: 0,
            said: None,
            again_at: 0,
            rested_at: 0,
        };
        Self { zone, targets: servers.iter().map(target).collect() }
    }

    /// The zone.
    pub fn zone(&self) -> &Name {
        &self.zone
    }

    /// Writes what is due: `send` is given each message and where it goes, `id` draws identifiers
    /// that nobody can foresee. `soa` is the zone's as it is now, nothing if it has none. Gives the
    /// servers that are not told any more although they have not accepted.
    pub fn poll(
        &mut self,
        now_ns: u64,
        soa: Option<&Soa>,
        mut id: impl FnMut() -> u16,
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) -> Vec<(SocketAddr, Outcome)> {
        let mut ended = Vec::new();
        let Some(soa) = soa else { return ended };
        for target in &mut self.targets {
            if target.told != Some(soa.serial()) && now_ns >= target.rested_at {
                target.told = Some(soa.serial());
                target.attempt = 0;
                target.said = None;
                target.rested_at = now_ns.saturating_add(nanoseconds(NOTIFY_INTERVAL));
            } else if target.attempt == 0 || now_ns < target.again_at {
                continue;
            } else if target.attempt >= NOTIFY_ATTEMPTS {
                target.attempt = 0;
                ended.push((target.to, Outcome::GivenUp(target.said)));
                continue;
            }
            let wait = nanoseconds(NOTIFY_TIMEOUT) << target.attempt;
            target.again_at = now_ns.saturating_add(wait);
            target.attempt += 1;
            target.id = id();
            send(target.to, &message(&self.zone, target.id, soa));
        }
        ended
    }

    /// Takes a message that came from `from`; says whether a server accepted with it. Anything but
    /// NOERROR is taken as "not yet": a server that starts up knows its zones after a while.
    pub fn receive(&mut self, from: SocketAddr, message: &[u8]) -> Option<Outcome> {
        let header = Header::read(message).ok()?;
        let flags = header.flags;
        if !flags.has(Flags::QR) || flags.opcode() != Opcode::NOTIFY {
            return None;
        }
        let waits = |target: &&mut Target| {
            (target.to, target.id) == (from, header.id) && target.attempt > 0
        };
        let target = self.targets.iter_mut().find(waits)?;
        target.said = Some(flags.rcode());
        if flags.rcode() != Rcode::NOERROR {
            return None;
        }
        target.attempt = 0;
        Some(Outcome::Accepted)
    }

    /// When [`Notifier::poll`] has something to do even if the zone does not change.
    pub fn next_deadline(&self) -> Option<u64> {
        let waiting = self.targets.iter().filter(|target| target.attempt > 0);
        waiting.map(|target| target.again_at).min()
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// NOTIFY with the SOA record as it is now (RFC 1996 section 3.7).
fn message(zone: &Name, id: u16, soa: &Soa) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let flags = Flags(0).with_opcode(Opcode::NOTIFY).with(Flags::AA, true);
    let mut builder = Builder::new(&mut out, id, flags);
    builder.question(zone.view(), Type::SOA, Class::IN);
    let fits = builder.push(Section::Answer, soa.record());
    debug_assert!(fits.is_ok(), "one record fits any message");
    out
}
