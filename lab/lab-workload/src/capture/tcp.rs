//! One direction of TCP connections, put together from segments in any order.

use super::Fault;
use super::packet::{Peer, Segment};
use nodens_wire::framing::{LENGTH_LEN, first_length};
use nodens_wire::{Flags, HEADER_LEN, Header};
use std::collections::{BTreeMap, HashMap};

/// Octets of a connection that wait for others before them: beyond, those are taken to be missing.
const WAITING_MAX: usize = 256 << 10;
/// Connections that are followed at the same time; more push the oldest out, a part of all at once.
const STREAMS_MAX: usize = 1 << 16;
const PUSHED_OUT_PART: usize = 8;

/// Both ends of a connection, the sender first.
type Connection = (Peer, Peer);

#[derive(Default)]
pub(super) struct Streams {
    streams: HashMap<Connection, Stream>,
    /// Whether the messages have the QR bit.
    responses: bool,
    /// Faults of connections that were pushed out.
    faults: Vec<(u64, Fault)>,
}

#[derive(Default)]
struct Stream {
    /// The sequence number of the next octet in order; `None` once the stream is given up.
    next: Option<u32>,
    /// Octets in order that are no whole message yet.
    ready: Vec<u8>,
    /// Octets that came too early, with the packet they came in, by distance from `origin`.
    early: BTreeMap<u32, (u64, Vec<u8>)>,
    /// What distances in `early` are counted from.
    origin: u32,
    waiting: usize,
    /// The last packet that added something.
    packet: u64,
    /// Whether a message was seen: before, the first octets may be the middle of one.
    begun: bool,
}

impl Streams {
    /// The direction from servers to clients; the default is the other one.
    pub(super) fn of_responses() -> Self {
        Self { responses: true, ..Self::default() }
    }

    /// Takes a segment in and gives the messages that are whole now to `each`.
    pub(super) fn push(
        &mut self,
        connection: Connection,
        packet: u64,
        segment: Segment,
        payload: &[u8],
        each: impl FnMut(&[u8]),
    ) -> Result<(), Fault> {
        if segment.syn {
            // A new connection, perhaps between the same ports.
            let old = self.streams.insert(connection, Stream::at(segment.sequence.wrapping_add(1)));
            self.faults.extend(old.and_then(Stream::finish));
        } else if payload.is_empty() {
            return Ok(());
        }
        if self.streams.len() > STREAMS_MAX {
            self.push_out(connection);
        }
        let fresh = || Stream::at(segment.sequence);
        let stream = self.streams.entry(connection).or_insert_with(fresh);
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        let result = stream.push(packet, sequence, (payload, self.responses), each);
        if segment.end && stream.early.is_empty() && stream.ready.is_empty() {
            self.streams.remove(&connection);
        }
        result
    }

    /// Gives up the connections that were silent for longest, but for `keep`: a part of them at once, since all are
    /// looked at for that. A capture of a flood has a million.
    fn push_out(&mut self, keep: Connection) {
        let mut packets: Vec<u64> = self.streams.values().map(|stream| stream.packet).collect();
        let (_, last, _) = packets.select_nth_unstable(STREAMS_MAX / PUSHED_OUT_PART);
        let last = *last;
        let goes = |connection: &Connection, stream: &mut Stream| {
            stream.packet <= last && *connection != keep
        };
        let gone = self.streams.extract_if(goes).filter_map(|(_, stream)| stream.finish());
        self.faults.extend(gone);
    }

    /// What is left of all connections: packet and fault.
    pub(super) fn finish(self) -> Vec<(u64, Fault)> {
        let left = self.streams.into_values().filter_map(Stream::finish);
        self.faults.into_iter().chain(left).collect()
    }
}

impl Stream {
    fn at(sequence: u32) -> Self {
        Self { next: Some(sequence), origin: sequence, ..Self::default() }
    }

    fn push(
        &mut self,
        packet: u64,
        sequence: u32,
        (payload, responses): (&[u8], bool),
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Fault> {
        let Some(next) = self.next else { return Ok(()) };
        self.packet = packet;
        let ahead = sequence.wrapping_sub(next);
        if ahead >= 1 << 31 {
            // Sent again; perhaps with something new at the end.
            let known = next.wrapping_sub(sequence) as usize;
            if let Some(fresh) = payload.get(known..) {
                self.append(fresh);
            }
        } else if ahead == 0 {
            self.append(payload);
        } else if !payload.is_empty() {
            self.waiting += payload.len();
            let at = sequence.wrapping_sub(self.origin);
            self.early.insert(at, (packet, payload.to_vec()));
        }
        self.take_early();
        self.messages(responses, &mut each)?;
        if self.waiting > WAITING_MAX {
            self.give_up();
            return Err(Fault::Gap);
        }
        Ok(())
    }

    fn append(&mut self, octets: &[u8]) {
        self.ready.extend(octets);
        let len = u32::try_from(octets.len()).unwrap_or(u32::MAX);
        self.next = self.next.map(|next| next.wrapping_add(len));
    }

    /// Appends what came too early and is in order now.
    fn take_early(&mut self) {
        while let (Some(next), Some(entry)) = (self.next, self.early.first_entry()) {
            let behind = next.wrapping_sub(self.origin).wrapping_sub(*entry.key());
            if behind >= 1 << 31 {
                return;
            }
            let (_, octets) = entry.remove();
            self.waiting = self.waiting.saturating_sub(octets.len());
            if let Some(fresh) = octets.get(behind as usize..) {
                self.append(fresh);
            }
        }
    }

    /// Gives away whole messages (RFC 1035 section 4.2.2).
    fn messages(&mut self, responses: bool, each: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        let mut at = 0;
        while let Some(len) = self.ready.get(at..).and_then(first_length) {
            let rest = self.ready.get(at + LENGTH_LEN..).unwrap_or_default();
            let known = rest.get(..len.min(rest.len())).unwrap_or_default();
            if !self.begun && !may_start(len, known, responses) {
                self.give_up();
                return Err(Fault::NoStream);
            }
            let Some(message) = rest.get(..len) else { break };
            each(message);
            self.begun = true;
            at += LENGTH_LEN + len;
        }
        self.ready.drain(..at.min(self.ready.len()));
        Ok(())
    }

    fn give_up(&mut self) {
        *self = Self { packet: self.packet, ..Self::default() };
    }

    fn finish(self) -> Option<(u64, Fault)> {
        if let Some((_, (packet, _))) = self.early.first_key_value() {
            return Some((*packet, Fault::Gap));
        }
        let left = self.ready.len();
        (left > 0).then_some((self.packet, Fault::Unfinished(left)))
    }
}

/// Whether a connection may start with a message of `len` octets of which `known` are there.
fn may_start(len: usize, known: &[u8], responses: bool) -> bool {
    let header = Header::read(known).ok();
    let plausible = |header: Header| {
        // A response to what could not be read has no question.
        (header.counts[0] == 1 || responses) && header.flags.has(Flags::QR) == responses
    };
    len >= HEADER_LEN && header.is_none_or(plausible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::framing::framed;

    #[test]
    fn a_flood_of_connections_pushes_out_the_oldest_and_ends() {
        let mut streams = Streams::default();
        let server: Peer = ([192, 0, 2, 53].into(), 53);
        let client = |number: u32| -> Peer { (number.to_be_bytes().into(), 4_000) };
        let first = |sequence| Segment { sequence, syn: sequence == 0, end: false };
        let floods = 5 * STREAMS_MAX as u32;
        for number in 0..floods {
            let connection = (client(number), server);
            streams.push(connection, number.into(), first(0), &[], |_| {}).unwrap();
            assert!(streams.streams.len() <= STREAMS_MAX + 1);
        }
        // One of the last is still followed, in order.
        let mut query = [0; HEADER_LEN].to_vec();
        query[5] = 1;
        let mut found = Vec::new();
        let connection = (client(floods - 9), server);
        let each = |message: &[u8]| found.push(message.to_vec());
        streams.push(connection, floods.into(), first(1), &framed(&query), each).unwrap();
        assert_eq!(found, [query]);
        assert!(!streams.streams.contains_key(&(client(0), server)));
    }
}
