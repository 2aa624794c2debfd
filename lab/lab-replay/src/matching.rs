//! The messages of a recording in the order of their times, each query with its response.
//!
//! Both need to look ahead: a message waits until nothing that follows in the recording can be before it, and a
//! query also until its response was found or is not looked for any more. What waits is bounded.

use crate::limits::{DISORDER, RESPONSE_WAIT, WINDOW_MAX};
use crate::{Recording, Sample};
use lab_workload::recorded::{Carrier, Content, Record};
use nodens_wire::{HEADER_LEN, Header, Reader};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

/// A hash of the first question of a message, without regard to case; `None` if there is none.
pub(crate) fn question_hash(message: &[u8]) -> Option<u64> {
    let header = Header::read(message).ok()?;
    if header.counts[0] != 1 {
        return None;
    }
    let mut reader = Reader::new(message, HEADER_LEN);
    reader.skip_name().ok()?;
    let name = message.get(HEADER_LEN..reader.at())?;
    let fixed = reader.take(4, "question").ok()?;
    let mut hasher = DefaultHasher::new();
    name.iter().for_each(|octet| hasher.write_u8(octet.to_ascii_lowercase()));
    hasher.write(fixed);
    Some(hasher.finish())
}

/// What a query and its response have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: SocketAddr,
    server: SocketAddr,
    carrier: Carrier,
    id: u16,
    question: u64,
}

impl Key {
    fn of(record: &Record, message: &[u8]) -> Option<Self> {
        let id = Header::read(message).ok()?.id;
        let question = question_hash(message)?;
        let Record { client, server, carrier, .. } = *record;
        Some(Self { client, server, carrier, id, question })
    }
}

/// A message, or the start or end of a connection, and the response if one was recorded.
pub(crate) struct Matched {
    pub(crate) record: Record,
    pub(crate) response: Option<Vec<u8>>,
    key: Option<Key>,
}

/// Where in the window a message is: its time, and its place in the recording.
type Place = (u64, u64);

pub(crate) struct Matching {
    records: Recording,
    sample: Sample,
    window: BTreeMap<Place, Matched>,
    /// Queries in the window that wait for their response.
    open: HashMap<Key, Place>,
    newest: u64,
    place: u64,
    ended: bool,
}

impl Matching {
    pub(crate) fn new(records: Recording, sample: Sample) -> Self {
        let (window, open) = (BTreeMap::new(), HashMap::new());
        Self { records, sample, window, open, newest: 0, place: 0, ended: false }
    }

    fn take(&mut self, record: Record) {
        let key = match &record.content {
            Content::Query(message) => Key::of(&record, message),
            Content::Response(message) => {
                let place = Key::of(&record, message).and_then(|key| self.open.remove(&key));
                let query = place.and_then(|place| self.window.get_mut(&place));
                if let (Some(query), Content::Response(message)) = (query, record.content) {
                    (query.response, query.key) = (Some(message), None);
                }
                return;
            }
            Content::Opened | Content::Ended => None,
        };
        let place = (record.time, self.place);
        self.place += 1;
        self.newest = self.newest.max(record.time);
        // A query that is sent again while it waits has the same response: that goes to the first.
        let key = key.filter(|key| match self.open.entry(*key) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                true
            }
            Entry::Occupied(_) => false,
        });
        self.window.insert(place, Matched { record, response: None, key });
    }

    /// Whether the first in the window need not wait any longer.
    fn is_ready(&self) -> bool {
        let Some(((time, _), first)) = self.window.first_key_value() else { return false };
        let age = self.newest.saturating_sub(*time);
        let wait = if first.key.is_some() { RESPONSE_WAIT } else { DISORDER };
        self.ended || age > wait || self.window.len() > WINDOW_MAX
    }
}

impl Iterator for Matching {
    type Item = Matched;

    fn next(&mut self) -> Option<Matched> {
        while !self.ended && !self.is_ready() {
            match self.records.next() {
                Some(Ok(record)) if self.sample.has(record.client.ip()) => self.take(record),
                // The survey has named what is broken.
                Some(_) => {}
                None => self.ended = true,
            }
        }
        let (_, first) = self.window.pop_first()?;
        if let Some(key) = first.key {
            self.open.remove(&key);
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u16, name: u8, response: bool) -> Vec<u8> {
        let mut message = vec![0, 0, if response { 0x80 } else { 0 }, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message[..2].copy_from_slice(&id.to_be_bytes());
        message.extend([1, name, 0, 0, 1, 0, 1]);
        message
    }

    fn record(number: u64, millis: u64, client: u8, content: Content) -> Record {
        let client = SocketAddr::from(([10, 0, 0, client], 4_000));
        let server = SocketAddr::from(([10, 0, 0, 53], 53));
        let time = millis * 1_000_000;
        Record { number, time, client, server, carrier: Carrier::Udp, content }
    }

    fn query(number: u64, millis: u64, client: u8, id: u16) -> Record {
        record(number, millis, client, Content::Query(message(id, b'a', false)))
    }

    fn response(number: u64, millis: u64, client: u8, id: u16) -> Record {
        record(number, millis, client, Content::Response(message(id, b'A', true)))
    }

    fn matched(records: Vec<Record>) -> Vec<(u64, bool)> {
        let all = Sample { part: 1.0, seed: 0 };
        let matching = Matching::new(Box::new(records.into_iter().map(Ok)), all);
        matching.map(|matched| (matched.record.number, matched.response.is_some())).collect()
    }

    #[test]
    fn responses_go_to_their_queries_and_times_that_go_back_are_put_in_order() {
        let records = vec![
            query(1, 1_000, 1, 7),
            query(2, 1_020, 2, 7),
            query(3, 1_010, 1, 8),
            response(4, 1_030, 1, 8),
            // Of another client, and of no query.
            response(5, 1_031, 3, 7),
            response(6, 1_032, 1, 9),
            response(7, 1_050, 2, 7),
            // Again, before its response: that is the first one's.
            query(8, 1_060, 2, 9),
            query(9, 1_070, 2, 9),
            response(10, 1_080, 2, 9),
            // More than five seconds later: too late.
            query(11, 9_000, 1, 1),
            response(12, 9_001, 1, 7),
        ];
        let expected = [(1, false), (3, true), (2, true), (8, true), (9, false), (11, false)];
        assert_eq!(matched(records), expected);
    }

    #[test]
    fn what_waits_is_bounded() {
        let all = Sample { part: 1.0, seed: 0 };
        let records = (0..u64::MAX).map(|n| Ok(query(n + 1, 1_000, 1, n as u16)));
        let mut matching = Matching::new(Box::new(records), all);
        for number in 1..=3_000 {
            assert_eq!(matching.next().unwrap().record.number, number);
            assert!(
                matching.window.len() <= WINDOW_MAX + 1 && matching.open.len() <= WINDOW_MAX + 1
            );
        }
    }
}
