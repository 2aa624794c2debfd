//! Captures, packet by packet.

use etherparse::PacketBuilder;
use lab_replay::{Recording, ReplayError};
use lab_workload::capture;
use nodens_wire::framing::framed;
use nodens_wire::message::Question;
use nodens_wire::{Class, Flags, Message, Name, Rcode, Record, Type};
use std::io::Cursor;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// When recordings start, in seconds since 1970.
const START: u64 = 1_700_000_000;
const SERVER: [u8; 4] = [10, 0, 9, 53];

pub(crate) fn query(id: u16, name: &str) -> Vec<u8> {
    let (qname, qtype, qclass) = (Name::parse(name).unwrap(), Type::A, Class::IN);
    let questions = vec![Question { qname, qtype, qclass }];
    let flags = Flags(Flags::RD);
    let mut out = Vec::new();
    Message { id, flags, questions, ..Message::default() }.write(&mut out).unwrap();
    out
}

/// A response to `asked`, with an address record for each of `addresses`.
pub(crate) fn response(asked: &[u8], rcode: Rcode, addresses: &[[u8; 4]]) -> Vec<u8> {
    let mut message = Message::parse(asked).unwrap();
    message.flags = message.flags.reply().with_rcode(rcode);
    for address in addresses {
        message.answer.push(Record {
            owner: message.questions[0].qname.clone(),
            rtype: Type::A,
            class: Class::IN,
            ttl: 30,
            rdata: address.to_vec(),
        });
    }
    let mut out = Vec::new();
    message.write(&mut out).unwrap();
    out
}

/// Reads a capture from memory.
pub(crate) fn capture(file: Vec<u8>) -> Result<Recording, ReplayError> {
    let recording = capture::Recording::open(Cursor::new(file), 53).unwrap();
    Ok(Box::new(recording.ok_or_else(|| ReplayError::NoRecording("the test".to_owned()))?))
}

/// A capture file of IP packets with times in nanoseconds, in the order in which they are added.
pub(crate) struct Pcap {
    file: Vec<u8>,
}

impl Pcap {
    pub(crate) fn new() -> Self {
        Self::of_link(101)
    }

    pub(crate) fn of_link(link: u32) -> Self {
        let mut file = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0]);
        file.extend([0, 0, 65_535, link].map(u32::to_le_bytes).concat());
        Self { file }
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        self.file.clone()
    }

    pub(crate) fn packet(&mut self, time: u64, octets: &[u8]) {
        let len = octets.len() as u32;
        let seconds = (START + time / SECOND) as u32;
        let head = [seconds, (time % SECOND) as u32, len, len];
        self.file.extend(head.map(u32::to_le_bytes).concat());
        self.file.extend(octets);
    }

    fn datagram(&mut self, time: u64, way: [([u8; 4], u16); 2], payload: &[u8]) {
        let [(from, from_port), (to, to_port)] = way;
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(from, to, 64).udp(from_port, to_port);
        builder.write(&mut packet, payload).unwrap();
        self.packet(time, &packet);
    }

    /// A datagram to the server.
    pub(crate) fn udp(&mut self, time: u64, client: u8, port: u16, payload: &[u8]) {
        self.datagram(time, [([10, 0, 0, client], port), (SERVER, 53)], payload);
    }

    /// A datagram from the server.
    pub(crate) fn answer(&mut self, time: u64, client: u8, port: u16, payload: &[u8]) {
        self.datagram(time, [(SERVER, 53), ([10, 0, 0, client], port)], payload);
    }

    /// A connection with these messages, 5 ms apart, which ends or does not.
    pub(crate) fn connection(
        &mut self,
        time: u64,
        client: u8,
        port: u16,
        asked: &[&Vec<u8>],
        ends: bool,
    ) {
        self.segment(time, client, port, (100, "syn"), &[]);
        self.more(time + 5_000_000, client, port, &[], asked);
        if ends {
            self.end(time + 5_000_000 * (asked.len() as u64 + 1), client, port, asked);
        }
    }

    /// The end of a connection on which these were sent.
    pub(crate) fn end(&mut self, time: u64, client: u8, port: u16, asked: &[&Vec<u8>]) {
        let octets: usize = asked.iter().map(|message| message.len() + 2).sum();
        self.segment(time, client, port, (101 + octets as u32, "fin"), &[]);
    }

    /// More messages on a connection on which others were sent before.
    pub(crate) fn more(
        &mut self,
        time: u64,
        client: u8,
        port: u16,
        before: &[&Vec<u8>],
        asked: &[&Vec<u8>],
    ) {
        let mut sequence = 101 + before.iter().map(|message| message.len() as u32 + 2).sum::<u32>();
        for (n, message) in asked.iter().enumerate() {
            let framed = framed(message);
            self.segment(time + n as u64 * 5_000_000, client, port, (sequence, ""), &framed);
            sequence += framed.len() as u32;
        }
    }

    fn segment(
        &mut self,
        time: u64,
        client: u8,
        port: u16,
        (sequence, flag): (u32, &str),
        payload: &[u8],
    ) {
        let builder =
            PacketBuilder::ipv4([10, 0, 0, client], SERVER, 64).tcp(port, 53, sequence, 1_000);
        let builder = match flag {
            "syn" => builder.syn(),
            "fin" => builder.ack(1).fin(),
            _ => builder.ack(1),
        };
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).unwrap();
        self.packet(time, &packet);
    }
}
