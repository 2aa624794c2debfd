//! What of a recording is replayed: messages of the servers that were chosen, and each query once.
//!
//! A capture of several devices has a packet once for each of them (`-i any` on a node: the pod's, the bridge, and the
//! node's own), microseconds apart.

use crate::Recording;
use crate::limits::{COPY_WAIT, WINDOW_MAX};
use lab_workload::recorded::{Broken, Carrier, Content, Record};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

pub(crate) struct Chosen {
    recording: Recording,
    /// The servers that count; all if there are none.
    servers: Vec<IpAddr>,
    /// Hashes of the last queries over UDP, with their times, and the same in the order of the recording.
    last: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
    /// Queries that were left out because they are copies of others.
    pub(crate) copies: u64,
    /// Queries that were left out because they are to other servers.
    pub(crate) other_servers: u64,
}

impl Chosen {
    pub(crate) fn new(recording: Recording, servers: &[IpAddr]) -> Self {
        let (last, order) = (HashMap::new(), VecDeque::new());
        Self { recording, servers: servers.to_vec(), last, order, copies: 0, other_servers: 0 }
    }

    fn is_chosen(&mut self, record: &Record) -> bool {
        let Record { content, client, server, carrier, .. } = record;
        let is_query = matches!(content, Content::Query(_));
        if !self.servers.is_empty() && !self.servers.contains(&server.ip()) {
            self.other_servers += u64::from(is_query);
            return false;
        }
        // Without ports, what looks the same may be of several clients.
        let may_be_copy = is_query && *carrier == Carrier::Udp && client.port() != 0;
        let is_copy = may_be_copy && self.is_copy(record);
        self.copies += u64::from(is_copy);
        !is_copy
    }

    /// Whether the same datagram was there shortly before. Clients wait for longer than a millisecond before they send a
    /// query again.
    fn is_copy(&mut self, record: &Record) -> bool {
        while let Some(&(time, hash)) = self.order.front()
            && (record.time.abs_diff(time) > COPY_WAIT || self.order.len() > WINDOW_MAX)
        {
            self.order.pop_front();
            if self.last.get(&hash) == Some(&time) {
                self.last.remove(&hash);
            }
        }
        let mut hasher = DefaultHasher::new();
        (record.client, record.server, &record.content).hash(&mut hasher);
        let hash = hasher.finish();
        match self.last.entry(hash) {
            Entry::Occupied(entry) if record.time.abs_diff(*entry.get()) <= COPY_WAIT => true,
            entry => {
                entry.insert_entry(record.time);
                self.order.push_back((record.time, hash));
                false
            }
        }
    }
}

impl Iterator for Chosen {
    type Item = Result<Record, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.recording.next()? {
                Ok(record) if !self.is_chosen(&record) => {}
                other => return Some(other),
            }
        }
    }
}
