//! A capture as a recording of messages, of which only a small part is in memory.

use super::file::Frames;
use super::packet::{self, Datagram, Kind, Segment};
use super::{Fault, PacketError, tcp};
use crate::recorded::{Broken, Carrier, Content, Record};
use nodens_wire::{Flags, Header};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;

/// The messages of a capture file between clients and servers at one port, in the order of the file:
/// queries and responses, over UDP and TCP, with the beginnings and ends of connections.
pub struct Recording<R> {
    frames: Frames<R>,
    port: u16,
    queries: tcp::Streams,
    responses: tcp::Streams,
    /// What the packets so far have brought and was not given away yet.
    ready: VecDeque<Result<Record, Broken>>,
    ended: bool,
}

impl<R: Read> Recording<R> {
    /// Reads the start of a file; `None` if it is neither pcap nor pcapng. `port` is the servers' port.
    pub fn open(from: R, port: u16) -> io::Result<Option<Self>> {
        Ok(Frames::open(from)?.map(|frames| Self {
            frames,
            port,
            queries: tcp::Streams::default(),
            responses: tcp::Streams::of_responses(),
            ready: VecDeque::new(),
            ended: false,
        }))
    }

    /// Reads packets until something is ready, or the file ends.
    fn advance(&mut self) {
        while self.ready.is_empty() && !self.ended {
            match self.frames.next() {
                Ok(Some(packet)) => {
                    let mut taken =
                        Taken { number: packet.number, time: 0, ready: &mut self.ready };
                    let read = packet.content.and_then(|(time, link, octets)| {
                        taken.time = time;
                        packet::read(link, octets, self.port)
                    });
                    let streams = (&mut self.queries, &mut self.responses);
                    match read {
                        Ok(Some(datagram)) => taken.datagram(&datagram, self.port, streams),
                        Ok(None) => {}
                        Err(fault) => taken.fail(fault),
                    }
                }
                Ok(None) => self.end(),
                Err(error) => {
                    self.ready.push_back(Err(Broken(format!("cannot be read further: {error}"))));
                    self.ended = true;
                }
            }
        }
    }

    fn end(&mut self) {
        self.ended = true;
        let [queries, responses] = [&mut self.queries, &mut self.responses].map(std::mem::take);
        let mut faults = queries.finish();
        faults.extend(responses.finish());
        faults.sort_by_key(|(packet, _)| *packet);
        let broken = |(packet, fault)| Err(broken(packet, fault));
        self.ready.extend(faults.into_iter().map(broken));
    }
}

impl<R: Read> Iterator for Recording<R> {
    type Item = Result<Record, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance();
        self.ready.pop_front()
    }
}

fn broken(packet: u64, fault: Fault) -> Broken {
    Broken(PacketError { packet, fault }.to_string())
}

/// A packet, and where what it brings goes.
struct Taken<'a> {
    number: u64,
    time: u64,
    ready: &'a mut VecDeque<Result<Record, Broken>>,
}

impl Taken<'_> {
    fn fail(&mut self, fault: Fault) {
        self.ready.push_back(Err(broken(self.number, fault)));
    }

    fn datagram(
        &mut self,
        datagram: &Datagram<'_>,
        port: u16,
        (queries, responses): (&mut tcp::Streams, &mut tcp::Streams),
    ) {
        let (to_server, from_server) = (datagram.to.1 == port, datagram.from.1 == port);
        let (from, to) = (SocketAddr::from(datagram.from), SocketAddr::from(datagram.to));
        match datagram.kind {
            Kind::Udp if to_server || from_server => {
                let is_response =
                    Header::read(datagram.payload).is_ok_and(|header| header.flags.has(Flags::QR));
                // Between two servers that both use the port, the message itself says what it is.
                match (is_response, to_server, from_server) {
                    (true, _, true) => self.message((to, from, Carrier::Udp), datagram.payload),
                    (false, true, _) => self.message((from, to, Carrier::Udp), datagram.payload),
                    _ => {}
                }
            }
            Kind::Tcp(segment) if to_server => {
                self.segment((from, to), segment, datagram, queries);
            }
            Kind::Tcp(segment) if from_server => {
                self.segment((to, from), segment, datagram, responses);
            }
            _ => {}
        }
    }

    fn segment(
        &mut self,
        (client, server): (SocketAddr, SocketAddr),
        segment: Segment,
        datagram: &Datagram<'_>,
        streams: &mut tcp::Streams,
    ) {
        let by_client = SocketAddr::from(datagram.from) == client;
        let way = (client, server, Carrier::Tcp);
        if by_client && segment.syn {
            self.record(way, Content::Opened);
        }
        let connection = (datagram.from, datagram.to);
        let mut messages = Vec::new();
        let result = streams.push(connection, self.number, segment, datagram.payload, |message| {
            messages.push(message.to_vec());
        });
        for message in messages {
            self.message(way, &message);
        }
        if let Err(fault) = result {
            self.fail(fault);
        }
        if by_client && segment.end {
            self.record(way, Content::Ended);
        }
    }

    fn message(&mut self, way: (SocketAddr, SocketAddr, Carrier), message: &[u8]) {
        let Ok(header) = Header::read(message) else {
            return self.fail(Fault::NoMessage(message.len()));
        };
        let message = message.to_vec();
        let is_response = header.flags.has(Flags::QR);
        let content =
            if is_response { Content::Response(message) } else { Content::Query(message) };
        self.record(way, content);
    }

    fn record(&mut self, way: (SocketAddr, SocketAddr, Carrier), content: Content) {
        let (client, server, carrier) = way;
        let (number, time) = (self.number, self.time);
        self.ready.push_back(Ok(Record { number, time, client, server, carrier, content }));
    }
}
