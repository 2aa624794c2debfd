//! What is in a recording, found out before the first query is sent.

use crate::chosen::Chosen;
use crate::limits::{BROKEN_NAMED, EARLY_SOCKETS_MAX, ENDLESS_MAX, LOCALS_MAX, SERVERS_MAX};
use crate::{Addresses, Over, Sample};
use lab_workload::recorded::{Carrier, Content, Record};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// What is in a recording, of the clients that take part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Queries over UDP.
    pub udp: u64,
    /// Queries over TCP.
    pub tcp: u64,
    /// Responses to clients.
    pub responses: u64,
    /// Queries of clients that are left out.
    pub left_out: u64,
    /// Queries to servers that are left out.
    pub other_servers: u64,
    /// Queries that are left out because they are copies of others, of another device of the capture.
    pub copies: u64,
    /// Servers with the number of queries to them, the most asked first.
    pub by_server: Vec<(IpAddr, u64)>,
    /// The earliest and the latest query: time and packet.
    pub span: Option<(Moment, Moment)>,
    /// Queries in the busiest second of the recording.
    pub busiest: u64,
    /// Broken parts, the first of which are named.
    pub broken: u64,
    /// The names of the first.
    pub named: Vec<String>,
    /// Local addresses that clients send from, each with one of these clients.
    pub locals: Vec<(IpAddr, IpAddr)>,
    /// Clients that send over UDP, the first of them: their sockets are there before the first query.
    pub(crate) early: Vec<SocketAddr>,
    /// Connections, by client and server, whose start is in the recording and whose end is not.
    pub(crate) endless: HashSet<(SocketAddr, SocketAddr)>,
}

/// A time in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds of the recording's clock.
    pub time: u64,
    /// The packet or frame.
    pub number: u64,
}

impl Survey {
    /// All queries.
    pub fn queries(&self) -> u64 {
        self.udp + self.tcp
    }

    /// Takes in the start or end of a connection.
    fn connection(&mut self, record: &Record) {
        let key = (record.client, record.server);
        if record.content == Content::Ended {
            self.endless.remove(&key);
        } else if self.endless.len() < ENDLESS_MAX {
            self.endless.insert(key);
        }
    }

    /// Nanoseconds from the first to the last query.
    pub fn length(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last.time - first.time)
    }
}

/// Reads `recording` to its end.
pub(crate) fn survey(
    mut recording: Chosen,
    (sample, over): (Sample, Option<Over>),
    addresses: &Addresses,
) -> Survey {
    let mut survey = Survey::default();
    let (mut locals, mut early) = (HashSet::new(), HashSet::new());
    let mut servers = HashMap::new();
    // Queries of the second that is being counted.
    let (mut second, mut within) = (0, 0);
    for record in recording.by_ref() {
        let record = match record {
            Ok(record) => record,
            Err(broken) => {
                survey.broken += 1;
                if survey.named.len() < BROKEN_NAMED {
                    survey.named.push(broken.to_string());
                }
                continue;
            }
        };
        let takes_part = sample.has(record.client.ip());
        match (&record.content, record.carrier) {
            (Content::Query(_), _) if !takes_part => {
                survey.left_out += 1;
                continue;
            }
            (Content::Query(_), Carrier::Udp) => survey.udp += 1,
            (Content::Query(_), Carrier::Tcp) => survey.tcp += 1,
            (Content::Response(_), _) if takes_part => {
                survey.responses += 1;
                continue;
            }
            (Content::Opened | Content::Ended, _) if takes_part => {
                survey.connection(&record);
                continue;
            }
            _ => continue,
        }
        count_server(&mut servers, record.server.ip());
        let moment = Moment { time: record.time, number: record.number };
        let (first, last) = survey.span.get_or_insert((moment, moment));
        if moment.time < first.time {
            *first = moment;
        }
        if moment.time > last.time {
            *last = moment;
        }
        if moment.time / SECOND != second {
            (second, within) = (moment.time / SECOND, 0);
        }
        within += 1;
        survey.busiest = survey.busiest.max(within);
        if let Some(local) = addresses.of(record.client.ip())
            && locals.len() < LOCALS_MAX
            && locals.insert(local)
        {
            survey.locals.push((local, record.client.ip()));
        }
        let recorded = (record.client, record.carrier);
        let (client, carrier) = over.map_or(recorded, |over| over.place(recorded.0, recorded.1));
        if carrier == Carrier::Udp && early.len() < EARLY_SOCKETS_MAX && early.insert(client) {
            survey.early.push(client);
        }
    }
    (survey.copies, survey.other_servers) = (recording.copies, recording.other_servers);
    survey.by_server = servers.into_iter().collect();
    survey.by_server.sort_by_key(|(server, count)| (Reverse(*count), *server));
    survey
}

fn count_server(servers: &mut HashMap<IpAddr, u64>, server: IpAddr) {
    if let Some(count) = servers.get_mut(&server) {
        *count += 1;
    } else if servers.len() < SERVERS_MAX {
        servers.insert(server, 1);
    }
}
