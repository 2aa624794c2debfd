//! The queries in a packet capture (pcap or pcapng), in order, with the clients that asked them and
//! their times; also those in a file of dnstap, in which frames take the place of packets.
//!
//! Taken are messages that are no responses and that were sent to the port of DNS, over UDP or TCP.
//! What is broken is named by the number of its packet and left out; everything else continues. In a TCP
//! connection of which octets are missing, what follows them is left out, since it is not known where the
//! next message starts. Fragments of IP are not put together. What several devices of a capture have of one query is
//! one query.

mod any;
mod file;
mod packet;
mod recording;
mod tcp;

pub use any::{Messages, OpenError, open};
pub use recording::Recording;

use crate::copies::Copies;
use crate::dnstap::{self, FrameError, Role};
use crate::recorded::{Carrier, Content, Record};
use crate::workload::{Step, Workload};
use nodens_wire::{Flags, Header};
use packet::{Datagram, Kind};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// A capture that cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a capture, expected the format pcap, pcapng or dnstap (Frame Streams)")]
pub struct NoCapture;

/// A packet that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet {packet}: {fault}")]
pub struct PacketError {
    /// The packet, counted from 1 as Wireshark does.
    pub packet: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The capture ends inside it; nothing follows.
    #[error("the file ends inside it (it starts at octet {0})")]
    FileEnds(usize),
    /// Its frame in the file is broken.
    #[error("octet {at} of the file: {what}")]
    Frame {
        /// Where it starts in the file.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A link layer that is not known here.
    #[error("link type {0} is not supported, expected Ethernet, Linux cooked, loopback or raw IP")]
    Link(i32),
    /// Headers that make no sense, or are cut.
    #[error("{0}")]
    Headers(String),
    /// A part of a packet that was fragmented on its way.
    #[error("a fragment of an IP packet, expected a whole one")]
    Fragment,
    /// Fewer octets than a header of DNS.
    #[error("a message of {0} octets, expected at least 12")]
    NoMessage(usize),
    /// A segment of a connection whose start cannot be a message.
    #[error("a connection whose first octets are not a DNS message, left out")]
    NoStream,
    /// Octets of a connection that the capture does not have.
    #[error("octets of its TCP connection are missing before it, the rest is left out")]
    Gap,
    /// A connection that ends in the middle of a message.
    #[error("its TCP connection ends with {0} octets of an unfinished message")]
    Unfinished(usize),
}

/// A query as it was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Nanoseconds since 1970, or since anything else.
    pub time: u64,
    /// Who asked: addresses in the order in which they came, from 0.
    pub client: u32,
    /// The message.
    pub message: Vec<u8>,
}

/// What was found in a capture.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The queries, in the order of their times.
    pub questions: Vec<Captured>,
    /// Packets in the file.
    pub packets: u64,
    /// Packets that have nothing to do with queries: responses, other protocols and ports.
    pub others: u64,
    /// Queries that are left out because they are copies of others, of another device of the capture.
    pub copies: u64,
    /// Broken packets.
    pub faults: Vec<PacketError>,
    /// Broken frames of dnstap.
    pub broken_frames: Vec<FrameError>,
}

/// Reads a capture; `port` is the servers' port. Of dnstap, what clients ask is taken.
pub fn read(octets: &[u8], port: u16) -> Result<Capture, NoCapture> {
    read_roles(octets, port, &Role::OF_CLIENTS)
}

/// The same, with the `roles` between which messages of dnstap are taken; packets have none.
pub fn read_roles(octets: &[u8], port: u16, roles: &[Role]) -> Result<Capture, NoCapture> {
    if dnstap::is_stream(octets) {
        return Ok(tapped(octets, roles));
    }
    let mut reader = Reader { port, ..Reader::default() };
    file::packets(octets, |packet| {
        reader.capture.packets = reader.capture.packets.max(packet.number);
        let number = packet.number;
        match packet.content {
            Ok((time, link, octets)) => reader.packet(number, time, link, octets),
            Err(fault) => reader.fail(number, fault),
        }
    })?;
    Ok(reader.finish())
}

/// The queries in a file of dnstap.
fn tapped(octets: &[u8], roles: &[Role]) -> Capture {
    let mut reader = Reader::default();
    let mut broken_frames = Vec::new();
    match dnstap::Recording::open(octets, roles) {
        Ok(mut recording) => {
            while let Some(record) = recording.read() {
                match record {
                    Ok(record) => reader.record(&record),
                    Err(error) => broken_frames.push(error),
                }
            }
            reader.capture.packets = recording.frames();
            reader.capture.others += recording.others();
        }
        Err(error) => {
            reader.capture.packets = error.frame;
            broken_frames.push(error);
        }
    }
    Capture { broken_frames, ..reader.finish() }
}

#[derive(Default)]
struct Reader {
    port: u16,
    capture: Capture,
    clients: HashMap<IpAddr, u32>,
    copies: Copies,
    streams: tcp::Streams,
}

impl Reader {
    fn fail(&mut self, packet: u64, fault: Fault) {
        self.capture.faults.push(PacketError { packet, fault });
    }

    fn packet(&mut self, number: u64, time: u64, link: i32, octets: &[u8]) {
        match packet::read(link, octets, self.port) {
            Ok(Some(datagram)) if datagram.to.1 == self.port => {
                self.datagram(number, time, &datagram);
            }
            Ok(_) => self.capture.others += 1,
            Err(fault) => self.fail(number, fault),
        }
    }

    fn datagram(&mut self, number: u64, time: u64, datagram: &Datagram<'_>) {
        let client = datagram.from.0;
        match datagram.kind {
            Kind::Udp => {
                let between = [datagram.from, datagram.to].map(SocketAddr::from);
                self.query(number, time, between, datagram.payload);
            }
            Kind::Tcp(segment) => {
                let connection = (datagram.from, datagram.to);
                let mut messages = Vec::new();
                let result =
                    self.streams.push(connection, number, segment, datagram.payload, |message| {
                        messages.push(message.to_vec());
                    });
                for message in messages {
                    self.message(number, time, client, &message);
                }
                if let Err(fault) = result {
                    self.fail(number, fault);
                }
            }
        }
    }

    fn record(&mut self, record: &Record) {
        match &record.content {
            Content::Query(message) if record.carrier == Carrier::Udp => {
                self.query(record.number, record.time, [record.client, record.server], message);
            }
            Content::Query(message) => {
                self.message(record.number, record.time, record.client.ip(), message);
            }
            Content::Response(_) | Content::Opened | Content::Ended => self.capture.others += 1,
        }
    }

    /// A message over UDP, once.
    fn query(&mut self, number: u64, time: u64, between: [SocketAddr; 2], message: &[u8]) {
        if self.copies.is_copy(time, between, message) {
            self.capture.copies += 1;
            return;
        }
        let [client, _] = between;
        self.message(number, time, client.ip(), message);
    }

    fn message(&mut self, number: u64, time: u64, client: IpAddr, message: &[u8]) {
        let Ok(header) = Header::read(message) else {
            return self.fail(number, Fault::NoMessage(message.len()));
        };
        if header.flags.has(Flags::QR) {
            self.capture.others += 1;
            return;
        }
        let next = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        let client = *self.clients.entry(client).or_insert(next);
        self.capture.questions.push(Captured { time, client, message: message.to_vec() });
    }

    fn finish(mut self) -> Capture {
        for (packet, fault) in std::mem::take(&mut self.streams).finish() {
            self.fail(packet, fault);
        }
        self.capture.faults.sort_by_key(|error| error.packet);
        // Captures of several interfaces need not be in order.
        self.capture.questions.sort_by_key(|question| question.time);
        self.capture
    }
}

impl Capture {
    /// The queries as a workload, in order and by client. With `speed`, each has its time from the
    /// first, divided by `speed`.
    pub fn workload(&self, seed: u64, speed: Option<f64>) -> Workload {
        let mut workload = Workload::new(seed);
        let mut known: HashMap<&[u8], u32> = HashMap::new();
        let steps = self.questions.iter().map(|question| {
            let body = question.message.get(2..).unwrap_or_default();
            let message =
                *known.entry(body).or_insert_with(|| workload.push_message(&question.message));
            Step { message, client: question.client }
        });
        let steps = steps.collect();
        workload.script(steps);
        if let Some(speed) = speed {
            let first = self.questions.first().map_or(0, |question| question.time);
            let times = self
                .questions
                .iter()
                .map(|question| ((question.time - first) as f64 / speed) as u64);
            workload.set_times(times.collect());
        }
        workload
    }
}

#[cfg(test)]
mod tests;
