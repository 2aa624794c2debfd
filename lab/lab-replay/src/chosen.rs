//! What of a recording is replayed: messages of the servers that were chosen, and each query once.

use crate::Recording;
use lab_workload::copies::Copies;
use lab_workload::recorded::{Broken, Carrier, Content, Record};
use std::net::IpAddr;

pub(crate) struct Chosen {
    recording: Recording,
    /// The servers that count; all if there are none.
    servers: Vec<IpAddr>,
    last: Copies,
    /// Queries that were left out because they are copies of others.
    pub(crate) copies: u64,
    /// Queries that were left out because they are to other servers.
    pub(crate) other_servers: u64,
}

impl Chosen {
    pub(crate) fn new(recording: Recording, servers: &[IpAddr]) -> Self {
        let last = Copies::default();
        Self { recording, servers: servers.to_vec(), last, copies: 0, other_servers: 0 }
    }

    fn is_chosen(&mut self, record: &Record) -> bool {
        let Record { content, client, server, carrier, .. } = record;
        let is_query = matches!(content, Content::Query(_));
        if !self.servers.is_empty() && !self.servers.contains(&server.ip()) {
            self.other_servers += u64::from(is_query);
            return false;
        }
        let is_copy = match content {
            Content::Query(message) if *carrier == Carrier::Udp => {
                self.last.is_copy(record.time, [*client, *server], message)
            }
            _ => false,
        };
        self.copies += u64::from(is_copy);
        !is_copy
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
