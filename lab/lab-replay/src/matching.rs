//! The messages of a recording in the order of their times, each query with its response.
//!
//! Both need to look ahead: a message waits until nothing that follows in the recording can be before it, and a
//! query also until its response was found or is not looked for any more. What waits is bounded.

use crate::limits::{DISORDER, RESPONSE_WAIT, WINDOW_MAX};
use crate::{Recording, Sample};
use lab_workload::recorded::{Carrier, Content, Record};
use nodens_wire::{HEADER_LEN, Header, Reader};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

/// What stands for the hash of a message without a question: a client may ask for no more than a cookie (RFC 7873
/// section 5.4).
const NO_QUESTION: u64 = 0;

/// A hash of the question of a message, without regard to case; `None` if there are several.
pub(crate) fn question_hash(message: &[u8]) -> Option<u64> {
    let header = Header::read(message).ok()?;
    match header.counts[0] {
        0 => return Some(NO_QUESTION),
        1 => {}
        _ => return None,
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
    /// Responses, with their times, that may stand before their queries in the recording.
    early: HashMap<Key, (u64, Vec<u8>)>,
    /// The same in the order of the recording.
    early_order: VecDeque<(u64, Key)>,
    newest: u64,
    place: u64,
    ended: bool,
}

impl Matching {
    pub(crate) fn new(records: Recording, sample: Sample) -> Self {
        Self {
            records,
            sample,
            window: BTreeMap::new(),
            open: HashMap::new(),
            early: HashMap::new(),
            early_order: VecDeque::new(),
            newest: 0,
            place: 0,
            ended: false,
        }
    }

    fn take(&mut self, record: Record) {
        self.newest = self.newest.max(record.time);
        self.forget_early();
        let key = match &record.content {
            Content::Query(message) => Key::of(&record, message),
            Content::Response(message) => {
                let key = Key::of(&record, message);
                if let (Some(key), Content::Response(message)) = (key, record.content) {
                    self.response(key, record.time, message);
                }
                return;
            }
            Content::Opened | Content::Ended => None,
        };
        let early = key.and_then(|key| self.early_response(&key, record.time));
        let key = key.filter(|_| early.is_none());
        let place = (record.time, self.place);
        self.place += 1;
        // A query that is sent again while it waits has the same response: that goes to the first.
        let key = key.filter(|key| match self.open.entry(*key) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                true
            }
            Entry::Occupied(_) => false,
        });
        self.window.insert(place, Matched { record, response: early, key });
    }

    /// Gives a response to its query, or keeps it for one that comes later in the recording.
    fn response(&mut self, key: Key, time: u64, message: Vec<u8>) {
        let Some(place) = self.open.get(&key).copied() else {
            self.early.insert(key, (time, message));
            self.early_order.push_back((time, key));
            return;
        };
        if time > place.0.saturating_add(RESPONSE_WAIT) {
            return;
        }
        self.open.remove(&key);
        if let Some(query) = self.window.get_mut(&place) {
            (query.response, query.key) = (Some(message), None);
        }
    }

    /// The response to a query of this time, if it was before it in the recording but is not older.
    fn early_response(&mut self, key: &Key, time: u64) -> Option<Vec<u8>> {
        let (sent, _) = self.early.get(key)?;
        let is_response = (time..=time.saturating_add(RESPONSE_WAIT)).contains(sent);
        if is_response { self.early.remove(key).map(|(_, message)| message) } else { None }
    }

    /// Lets go of responses that no query can be behind any more.
    fn forget_early(&mut self) {
        while let Some(&(time, key)) = self.early_order.front() {
            let is_old = self.newest.saturating_sub(time) > DISORDER;
            if !is_old && self.early_order.len() <= WINDOW_MAX {
                return;
            }
            self.early_order.pop_front();
            if let Entry::Occupied(entry) = self.early.entry(key)
                && entry.get().0 == time
            {
                entry.remove();
            }
        }
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
    fn a_response_may_stand_before_its_query_and_is_no_older() {
        let records = vec![
            // The response was captured on another CPU, and written first.
            response(1, 1_010, 1, 7),
            query(2, 1_000, 1, 7),
            // Of a query before the recording began, with the same ID.
            response(3, 1_011, 2, 7),
            query(4, 1_020, 2, 7),
            // More than 100 ms of other messages lie between.
            response(5, 1_030, 3, 7),
            query(6, 1_200, 4, 7),
            query(7, 1_030, 3, 7),
        ];
        let expected = [(2, true), (4, false), (7, false), (6, false)];
        assert_eq!(matched(records), expected);
    }

    #[test]
    fn a_response_that_is_too_late_is_none_however_thin_the_traffic() {
        let late = vec![query(1, 1_000, 1, 7), response(2, 6_001, 1, 7)];
        assert_eq!(matched(late), [(1, false)]);
        let in_time = vec![query(1, 1_000, 1, 7), response(2, 6_000, 1, 7)];
        assert_eq!(matched(in_time), [(1, true)]);
        // What others are told shows how much time has passed.
        let records = [query(1, 1_000, 1, 7), response(2, 7_000, 2, 7), response(3, 8_000, 1, 7)];
        assert_eq!(matched(records.to_vec()), [(1, false)]);
    }

    #[test]
    fn a_message_without_a_question_has_its_response() {
        let cookie = |response: bool| {
            let mut message = message(7, b'a', response);
            message[5] = 0;
            message.truncate(HEADER_LEN);
            message
        };
        let records = vec![
            record(1, 1_000, 1, Content::Query(cookie(false))),
            record(2, 1_001, 1, Content::Response(cookie(true))),
        ];
        assert_eq!(matched(records), [(1, true)]);
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
        let records = (0..3 * WINDOW_MAX as u64).map(|n| {
            let port = (n >> 16) as u8;
            Ok(response(n + 1, 1_000, port, n as u16))
        });
        let mut matching = Matching::new(Box::new(records), all);
        assert!(matching.next().is_none());
        assert!(
            matching.early_order.len() <= WINDOW_MAX + 1 && matching.early.len() <= WINDOW_MAX + 1
        );
    }
}
