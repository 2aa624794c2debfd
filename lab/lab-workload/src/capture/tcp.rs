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
    /// Octets in `early`.
    waiting: usize,
    /// The sequence number behind the last octet, once the sender has ended its direction.
    end: Option<u32>,
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
            if let Some(stream) = self.streams.get_mut(&connection).filter(|_| segment.end) {
                stream.end = Some(segment.sequence);
            }
            return Ok(());
        }
        if self.streams.len() > STREAMS_MAX {
            self.push_out(connection);
        }
        let fresh = || Stream::at(segment.sequence);
        let stream = self.streams.entry(connection).or_insert_with(fresh);
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        // A stream that has ended is kept: its segments may come again.
        if stream.is_over() && !stream.has_had(sequence) {
            *stream = fresh();
        }
        let result = stream.push(packet, sequence, (payload, self.responses), each);
        if segment.end {
            stream.end = Some(sequence.wrapping_add(payload.len() as u32));
        }
        if stream.is_over() {
            stream.ready = Vec::new();
        }
        result
    }

    /// Gives up connections that have ended, and those that were silent for longest, but for `keep`: a part of them
    /// at once, since all are looked at for that. A capture of a flood has a million.
    fn push_out(&mut self, keep: Connection) {
        let rank = |stream: &Stream| (!stream.is_over(), stream.packet);
        let mut ranks: Vec<_> = self.streams.values().map(rank).collect();
        let (_, last, _) = ranks.select_nth_unstable(STREAMS_MAX / PUSHED_OUT_PART);
        let last = *last;
        let goes = |connection: &Connection, stream: &mut Stream| {
            rank(stream) <= last && *connection != keep
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
            self.keep(sequence.wrapping_sub(self.origin), packet, payload);
        }
        self.take_early();
        self.messages(responses, &mut each)?;
        if self.waiting > WAITING_MAX {
            self.give_up();
            return Err(Fault::Gap);
        }
        Ok(())
    }

    /// Keeps what came too early, the longest of all that start at the same place.
    fn keep(&mut self, at: u32, packet: u64, payload: &[u8]) {
        let (_, known) = self.early.entry(at).or_insert_with(|| (packet, Vec::new()));
        if payload.len() > known.len() {
            self.waiting += payload.len() - known.len();
            *known = payload.to_vec();
        }
    }

    /// Whether everything up to the end of the stream was seen.
    fn is_over(&self) -> bool {
        let is_behind = |(next, end): (u32, u32)| next.wrapping_sub(end) < 1 << 31;
        let reached = self.next.zip(self.end).is_some_and(is_behind);
        reached && self.early.is_empty() && self.ready.is_empty()
    }

    /// Whether a segment that starts here is one that was sent again. Another connection between the same ports, whose
    /// start was not captured, starts anywhere.
    fn has_had(&self, sequence: u32) -> bool {
        self.next.is_some_and(|next| next.wrapping_sub(sequence) as usize <= WAITING_MAX)
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
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::net::{IpAddr, Ipv4Addr};

    const CONNECTION: Connection =
        ((IpAddr::V4(Ipv4Addr::LOCALHOST), 4_000), (IpAddr::V4(Ipv4Addr::LOCALHOST), 53));

    fn query(id: u16, len: usize) -> Vec<u8> {
        let mut query = vec![0; HEADER_LEN + len];
        query[..2].copy_from_slice(&id.to_be_bytes());
        query[5] = 1;
        query
    }

    /// Gives segments of a connection: where they start and end in its octets, and whether they end it.
    fn push_all(
        octets: &[u8],
        first: u32,
        segments: &[(usize, usize, bool)],
    ) -> (Streams, Vec<Vec<u8>>) {
        let (mut streams, mut found) = (Streams::default(), Vec::new());
        let syn = Segment { sequence: first.wrapping_sub(1), syn: true, end: false };
        streams.push(CONNECTION, 1, syn, &[], |_| {}).unwrap();
        for (packet, (from, to, end)) in (2..).zip(segments) {
            let sequence = first.wrapping_add(*from as u32);
            let segment = Segment { sequence, syn: false, end: *end };
            let each = |message: &[u8]| found.push(message.to_vec());
            streams.push(CONNECTION, packet, segment, &octets[*from..*to], each).unwrap();
            let stream = &streams.streams[&CONNECTION];
            let early: usize = stream.early.values().map(|(_, octets)| octets.len()).sum();
            assert_eq!(stream.waiting, early);
        }
        (streams, found)
    }

    #[test]
    fn a_shorter_repeat_takes_nothing_away() {
        let octets = framed(&query(7, 40));
        let segments = [(10, 54, false), (10, 20, false), (10, 54, false), (0, 10, false)];
        assert_eq!(push_all(&octets, 100, &segments).1, [query(7, 40)]);
    }

    #[test]
    fn a_query_whose_segment_ends_the_connection_is_given_once() {
        let octets = framed(&query(7, 40));
        let (mut streams, found) = push_all(&octets, 100, &[(0, 54, true); 3]);
        assert_eq!(found, [query(7, 40)]);
        // Another connection between these ports, whose start is not in the capture.
        let segment = Segment { sequence: 7_000_000, syn: false, end: false };
        let mut found = Vec::new();
        let each = |message: &[u8]| found.push(message.to_vec());
        streams.push(CONNECTION, 9, segment, &octets, each).unwrap();
        assert_eq!(found, [query(7, 40)]);
    }

    #[test]
    fn connections_that_have_ended_are_pushed_out_first() {
        let mut streams = Streams::default();
        let connection = |number: u32| ((number.to_be_bytes().into(), 4_000), CONNECTION.1);
        for number in 0..=STREAMS_MAX as u32 {
            let segment = |sequence| Segment { sequence, syn: sequence == 0, end: sequence == 1 };
            streams.push(connection(number), number.into(), segment(0), &[], |_| {}).unwrap();
            if number > 0 {
                streams.push(connection(number), number.into(), segment(1), &[], |_| {}).unwrap();
            }
        }
        assert!(streams.streams.len() < STREAMS_MAX);
        assert!(streams.streams.contains_key(&connection(0)), "it is open");
    }

    proptest! {
        #[test]
        fn every_message_is_given_once_however_its_segments_come(
            lens in proptest::collection::vec(0..60_usize, 1..6),
            pieces in proptest::collection::vec((any::<Index>(), any::<Index>(), any::<bool>()), 0..16),
            order: u64,
            first: u32,
        ) {
            let queries: Vec<_> = (0..).zip(&lens).map(|(id, len)| query(id, *len)).collect();
            let octets: Vec<u8> = queries.iter().flat_map(|query| framed(query)).collect();
            let mut edges: Vec<_> = pieces.iter().map(|(from, ..)| from.index(octets.len())).collect();
            edges.extend([0, octets.len()]);
            edges.sort_unstable();
            let mut segments: Vec<_> = edges.windows(2).map(|edge| (edge[0], edge[1], false)).collect();
            segments.extend(pieces.iter().map(|(from, to, _)| {
                let from = from.index(octets.len());
                (from, from + to.index(octets.len() - from + 1), false)
            }));
            segments.push((octets.len(), octets.len(), false));
            for (segment, (.., ends)) in segments.iter_mut().rev().zip(&pieces) {
                segment.2 = *ends && segment.1 == octets.len();
            }
            let mut shuffled: Vec<_> = (0..).zip(segments).collect();
            shuffled.sort_by_key(|(at, _)| lab_random::at(order, *at));
            let segments: Vec<_> = shuffled.into_iter().map(|(_, segment)| segment).collect();
            let (streams, found) = push_all(&octets, first, &segments);
            prop_assert_eq!(found, queries);
            prop_assert_eq!(streams.finish(), []);
        }
    }

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
