//! Answers of many messages: zone transfers on their way.
//!
//! Whoever owns the connection owns the stream too and asks it for one message after the other as
//! the client takes them, so that nothing of a zone waits in memory, and lets it go when the client
//! does. A message is little work; between two of them other questions have their turn.

use crate::group::Group;
use crate::limits::{TRANSFERS_MAX, TRANSFERS_PER_CLIENT_MAX, TRANSFERS_PER_NETWORK_MAX};
use crate::log::{Level, Sink};
use crate::time::Now;
use nodens_zone::Transfer;
use nodens_zone::tsig::{Signer, TooLong};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use nodens_zone::Next;

/// The directive that log lines name.
const ORIGIN: &str = "transfer";

/// The transfer cannot go on; the connection has to be closed, so that the client does not take
/// what it has for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transfer failed")]
pub struct Broken;

/// The transfers of the process, counted.
#[derive(Debug, Default)]
pub struct Transfers {
    clients: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Those to each address, and to each network.
    by_group: HashMap<Group, usize>,
    /// What has ended, by kind.
    ended: [Ended; 3],
}

/// Transfers of one kind that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    /// Those that were cut, and those that were sent whole.
    number: [u64; 2],
    octets: u64,
    took_ns: u64,
}

/// What is sent to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// The whole zone.
    Axfr,
    /// Differences.
    Ixfr,
    /// The SOA record alone, for one that has the zone.
    Soa,
}

impl Outgoing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Axfr, Self::Ixfr, Self::Soa];

    /// As a label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Axfr => "axfr",
            Self::Ixfr => "ixfr",
            Self::Soa => "soa",
        }
    }

    fn of(transfer: &Transfer) -> Self {
        if transfer.is_soa_alone() {
            Self::Soa
        } else if transfer.is_incremental() {
            Self::Ixfr
        } else {
            Self::Axfr
        }
    }
}

impl Transfers {
    /// Takes a place for a transfer to `client`; nothing if there are too many.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let mut counts = self.lock();
        let groups = Group::all_of(client);
        let is_full = |group: &Group| {
            let most = match group.is_client() {
                true => TRANSFERS_PER_CLIENT_MAX,
                false => TRANSFERS_PER_NETWORK_MAX,
            };
            counts.by_group.get(group).is_some_and(|count| *count >= most)
        };
        if counts.all >= TRANSFERS_MAX || groups.iter().any(is_full) {
            return None;
        }
        counts.all += 1;
        for group in groups {
            *counts.by_group.entry(group).or_default() += 1;
        }
        Some(Place { transfers: self.clone(), client })
    }

    /// How many are under way.
    pub fn count(&self) -> usize {
        self.lock().all
    }

    /// How many of a kind have ended with all messages written, or without.
    pub fn ended(&self, kind: Outgoing, is_whole: bool) -> u64 {
        let ended = self.of(kind);
        if is_whole { ended.number[1] } else { ended.number[0] }
    }

    /// Octets of messages of those of a kind that have ended.
    pub fn octets(&self, kind: Outgoing) -> u64 {
        self.of(kind).octets
    }

    /// Nanoseconds from the first message to the last of all of a kind that have ended.
    pub fn took_ns(&self, kind: Outgoing) -> u64 {
        self.of(kind).took_ns
    }

    fn of(&self, kind: Outgoing) -> Ended {
        self.lock().ended.get(kind as usize).copied().unwrap_or_default()
    }

    fn note_end(&self, kind: Outgoing, is_whole: bool, octets: u64, took_ns: u64) {
        let mut counts = self.lock();
        if let Some(ended) = counts.ended.get_mut(kind as usize) {
            ended.number[usize::from(is_whole)] += 1;
            ended.octets += octets;
            ended.took_ns += took_ns;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one transfer, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    transfers: Arc<Transfers>,
    client: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.transfers.lock();
        counts.all -= 1;
        for group in Group::all_of(self.client) {
            match counts.by_group.get_mut(&group) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = counts.by_group.remove(&group),
            }
        }
    }
}

/// The messages of an answer that are still to come.
pub struct Stream {
    transfer: Transfer,
    zone: String,
    deadline_ns: u64,
    place: Place,
    sink: Sink,
    /// Octets of the messages so far, and when the first and the last of them were written.
    octets: u64,
    written_ns: Option<(u64, u64)>,
    /// Signs each message, if the first one is signed.
    signer: Option<Box<Signer>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?} to {})", self.transfer, self.place.client)
    }
}

impl Stream {
    pub(crate) fn new(transfer: Transfer, deadline_ns: u64, place: Place, sink: Sink) -> Self {
        let zone = transfer.zone().to_string();
        let (octets, written_ns, signer) = (0, None, None);
        Self { transfer, zone, deadline_ns, place, sink, octets, written_ns, signer }
    }

    /// When it has to have ended, monotonic nanoseconds.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Whether all messages are written.
    pub fn is_done(&self) -> bool {
        self.transfer.is_done()
    }

    /// Writes the next message into `out`, see [`Transfer::next_message`], and signs it if the first one
    /// is signed.
    ///
    /// # Errors
    /// If the rest cannot be sent. This has been logged.
    pub fn next_message(&mut self, now: Now, out: &mut Vec<u8>) -> Result<Next, Broken> {
        // What reads the zone belongs to this transfer alone, which ends here.
        let caught = catch_unwind(AssertUnwindSafe(|| self.transfer.next_message(out)));
        let reason = match caught {
            Ok(Ok(Next::Nothing)) => return Ok(Next::Nothing),
            Ok(Ok(next)) => match self.sign(now, out) {
                Ok(()) => {
                    self.octets += out.len() as u64;
                    let (first, _) = self.written_ns.unwrap_or((now.mono_ns, now.mono_ns));
                    self.written_ns = Some((first, now.mono_ns));
                    return Ok(next);
                }
                Err(error) => error.to_string(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a fault of the program".to_owned(),
        };
        let text = format!("Outgoing transfer of zone {:?} failed: {reason}", self.zone);
        self.sink.line(Level::Error, ORIGIN, text);
        Err(Broken)
    }

    fn sign(&mut self, now: Now, message: &mut Vec<u8>) -> Result<(), TooLong> {
        self.signer.as_mut().map_or(Ok(()), |signer| signer.sign_next(message, now.unix_s))
    }

    /// Has the messages to come signed as the first one is.
    pub(crate) fn sign_with(&mut self, signer: Box<Signer>) {
        self.signer = Some(signer);
    }

    /// Gives the messages to come the ID and the flags of the first one as it is sent.
    pub(crate) fn continue_like(&mut self, first: &[u8]) {
        self.transfer.continue_like(first);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Self { transfer, zone, place: Place { client, transfers }, sink, octets, .. } = self;
        let (records, serial) = (transfer.records(), transfer.serial().0);
        let took_ns = self.written_ns.map_or(0, |(first, last)| last.saturating_sub(first));
        transfers.note_end(Outgoing::of(transfer), transfer.is_done(), *octets, took_ns);
        let messages = transfer.messages();
        let cost = format!("{octets} octets in {messages} messages, {} ms", took_ns / 1_000_000);
        let text = if !transfer.is_done() {
            format!(
                "Outgoing transfer of zone {zone:?} to {client} for {serial} SOA serial ended \
                 after {records} records, {cost}"
            )
        } else if transfer.is_soa_alone() {
            format!(
                "Outgoing noop, incremental transfer for up to date zone {zone:?} to {client} for \
                 {serial} SOA serial"
            )
        } else if transfer.is_incremental() {
            format!(
                "Outgoing incremental transfer of {records} records of zone {zone:?} to {client} \
                 for {serial} SOA serial: {cost}"
            )
        } else {
            format!(
                "Outgoing transfer of {records} records of zone {zone:?} to {client} for {serial} \
                 SOA serial: {cost}"
            )
        };
        let level = if transfer.is_done() { Level::Info } else { Level::Warning };
        sink.line(level, ORIGIN, text);
    }
}
