//! A client of HTTP that sends frames in any order, with anything in them, and anything between them.

use nodens_net::limits::HTTP2_RESETS_MAX;
use nodens_net::testing::{Asked, HttpSession, Requests};
use nodens_wire::{Admission, MESSAGE_LEN_MAX, admit};

/// The octets in front of the commands: what is spoken, and the seed for the lengths of pieces.
const HEAD_LEN: usize = 2;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Method POST, a scheme, path and authority, as HPACK writes them, for each dialect.
const DOH: &[u8] = b"\x83\x86\x04\x0a/dns-query\x01\x01x";
const GRPC: &[u8] =
    b"\x83\x86\x04\x1d/coredns.dns.DnsService/Query\x01\x01x\x0f\x10\x10application/grpc";
/// A query for the root's NS records.
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
/// Requests at a time.
const STREAMS: u32 = 10;
/// Queries at a time: those of requests that the client has given up are answered all the same.
const ASKED_MAX: usize = STREAMS as usize + HTTP2_RESETS_MAX + 1;
/// For requests to arrive, and for responses to be taken.
const TIMES: (u64, u64) = (5, 7);
/// Responses to all requests that may be under way, as long as any, and what has not been looked at.
const COST_MAX: usize = STREAMS as usize * (MESSAGE_LEN_MAX + (8 << 10)) + (256 << 10);

/// Calls of gRPC.
const IS_GRPC: u8 = 1;
/// What begins HTTP/2 is not sent by itself.
const IS_BARE: u8 = 2;
/// Responses are as long as they may be.
const IS_LONG: u8 = 4;
/// Queries are answered when a command says so.
const IS_LATE: u8 = 8;

/// Nothing that a client sends makes a query that may not be asked, takes more memory than it may, or is kept
/// for ever.
pub fn http(data: &[u8]) {
    let Some(([what, pieces], commands)) = data.split_first_chunk::<HEAD_LEN>() else { return };
    let mut client = Client::new(*what, *pieces);
    if what & IS_BARE == 0 {
        client.octets.extend_from_slice(PREFACE);
    }
    let mut commands = Commands(commands);
    while let Some(command) = commands.octet() {
        client.act(command, &mut commands);
    }
    client.arrive();
    client.answer_all();
    client.session.end();
    client.session.leave(false);
    client.session.part(client.at);
    client.session.sent(client.at);
    client.session.expire(true, client.at + TIMES.0 + TIMES.1);
    assert_eq!((client.session.held(), client.session.deadline()), (0, None));
}

/// What is left of the input.
struct Commands<'d>(&'d [u8]);

impl<'d> Commands<'d> {
    fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number; zero at the end.
    fn number(&mut self) -> u8 {
        self.octet().unwrap_or_default()
    }

    /// As many octets as the next one says.
    fn octets(&mut self) -> &'d [u8] {
        let len = usize::from(self.number()).min(self.0.len());
        let (octets, rest) = self.0.split_at(len);
        self.0 = rest;
        octets
    }
}

struct Client {
    session: HttpSession,
    what: u8,
    /// The lengths of pieces.
    state: u32,
    /// What is sent with the next piece.
    octets: Vec<u8>,
    /// The stream of the next request.
    next: u8,
    asked: Vec<Asked>,
    at: u64,
}

impl Client {
    fn new(what: u8, pieces: u8) -> Self {
        let requests = if what & IS_GRPC == 0 { Requests::Doh } else { Requests::Grpc };
        let session = HttpSession::new(requests, STREAMS, TIMES);
        let (octets, asked) = (Vec::new(), Vec::new());
        Self { session, what, state: u32::from(pieces), octets, next: 1, asked, at: 0 }
    }

    fn act(&mut self, command: u8, commands: &mut Commands<'_>) {
        let flags = command >> 4;
        match command & 15 {
            0 => self.octets.extend_from_slice(commands.octets()),
            1 => {
                // A whole request.
                let head = if self.what & IS_GRPC == 0 { DOH } else { GRPC };
                self.frame(1, 4, self.next, head);
                let body = self.body(ROOT);
                self.frame(0, 1, self.next, &body);
                self.next = self.next.wrapping_add(2);
            }
            2 => {
                let head = if self.what & IS_GRPC == 0 { DOH } else { GRPC };
                self.frame(1, flags, self.next, head);
                self.next = self.next.wrapping_add(2);
            }
            3 => {
                let stream = commands.number();
                let body = self.body(commands.octets());
                self.frame(0, flags, stream, &body);
            }
            4 => self.any_frame(3, 0, commands),
            5 => self.any_frame(4, flags & 1, commands),
            6 => self.any_frame(8, 0, commands),
            7 => self.any_frame(6, flags & 1, commands),
            // Fields that are not those of a query, and the rest of them.
            8 => self.any_frame(1, flags, commands),
            9 => self.any_frame(9, flags, commands),
            10 => self.any_frame(commands.number(), flags, commands),
            11 => {
                self.arrive();
                self.at += u64::from(flags);
                self.session.expire(flags & 1 == 0, self.at);
            }
            12 => {
                self.arrive();
                self.answer_all();
            }
            13 => {
                self.arrive();
                self.session.leave(flags & 1 == 1);
            }
            14 => self.arrive(),
            _ => {
                // A flood of what came last.
                let last = self.octets.len().saturating_sub(64);
                let last = self.octets[last..].to_vec();
                self.octets.extend(last.repeat(usize::from(flags)));
            }
        }
    }

    /// What is around a query in the body of a request.
    fn body(&self, octets: &[u8]) -> Vec<u8> {
        let Ok(len) = u8::try_from(octets.len()) else { return octets.to_vec() };
        match self.what & IS_GRPC {
            0 => octets.to_vec(),
            _ if len > 0x7f => octets.to_vec(),
            _ => [&[0, 0, 0, 0, len + 2, 0x0a, len], octets].concat(),
        }
    }

    fn any_frame(&mut self, kind: u8, flags: u8, commands: &mut Commands<'_>) {
        let stream = commands.number();
        self.frame(kind, flags, stream, commands.octets());
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let len = payload.len() as u32;
        self.octets.extend_from_slice(&len.to_be_bytes()[1..]);
        self.octets.extend_from_slice(&[kind, flags, 0, 0, 0, stream]);
        self.octets.extend_from_slice(payload);
    }

    /// Lets arrive what was sent, in pieces, and asks what is whole.
    fn arrive(&mut self) {
        let octets = std::mem::take(&mut self.octets);
        let mut rest = &octets[..];
        while !rest.is_empty() {
            self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let len = (self.state >> 16) as usize % 600 + 1;
            let (piece, more) = rest.split_at(len.min(rest.len()));
            rest = more;
            self.session.arrive(piece);
            self.ask();
        }
    }

    fn ask(&mut self) {
        while let Some((stream, message)) = self.session.next(self.at) {
            assert!(matches!(admit(&message), Admission::Accept(_)), "{message:?}");
            self.asked.push((stream, message));
            assert!(self.asked.len() <= ASKED_MAX, "{} queries", self.asked.len());
            if self.what & IS_LATE == 0 {
                self.answer_all();
            }
        }
        self.session.sent(self.at);
        let cost = self.session.cost();
        assert!(cost <= COST_MAX, "{cost} octets");
    }

    fn answer_all(&mut self) {
        for (stream, mut message) in std::mem::take(&mut self.asked) {
            if self.what & IS_LONG != 0 {
                message.resize(MESSAGE_LEN_MAX, 0);
            }
            let is_none = message.len().is_multiple_of(5);
            let message = if is_none { None } else { Some(&message[..]) };
            self.session.answer(stream, message, self.at);
        }
        self.session.sent(self.at);
    }
}
