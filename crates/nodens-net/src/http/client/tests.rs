use super::*;
use nodens_core::ListenerKind;
use nodens_wire::{Flags, MESSAGE_LEN_MAX};

/// A query for the root's NS records.
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
/// `:status 200`, `content-type application/dns-message`
const HEAD: &[u8] = b"\x88\x0f\x10\x17application/dns-message";
/// The same of gRPC, and its trailers with the status 0.
const GRPC_HEAD: &[u8] = b"\x88\x0f\x10\x10application/grpc";
const GRPC_OK: &[u8] = b"\0\x0bgrpc-status\x010";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn speech(kind: ListenerKind) -> Speech {
    Speech::of(kind, "192.0.2.1:443".parse().unwrap(), None).unwrap()
}

/// A frame: kind, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

/// A client whose upstream has begun with these settings, and said nothing more.
struct Bench {
    client: Client,
    begun: bool,
}

impl Bench {
    fn new(kind: ListenerKind, settings: &[u8]) -> Self {
        let mut bench = Self { client: Client::new(speech(kind)), begun: false };
        bench.frames();
        bench.receive(&frame(SETTINGS, 0, 0, settings));
        bench.receive(&frame(SETTINGS, ACK, 0, &[]));
        assert!(bench.client.is_greeted() && bench.client.end().is_none());
        bench
    }

    fn doh() -> Self {
        Self::new(ListenerKind::Https, &[])
    }

    fn receive(&mut self, octets: &[u8]) {
        self.client.receive(octets);
    }

    fn ask(&mut self, id: u16) {
        assert!(self.client.ask(id, ROOT, false));
    }

    /// What the client sends.
    fn frames(&mut self) -> Vec<Frame> {
        let octets = self.client.take_output();
        let mut rest = &octets[..];
        if !std::mem::replace(&mut self.begun, true) {
            rest = rest.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        }
        let mut frames = Vec::new();
        while let [a, b, c, kind, flags, d, e, f, g, behind @ ..] = rest {
            let (payload, behind) = behind.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
            let stream = u32::from_be_bytes([*d, *e, *f, *g]);
            frames.push((*kind, *flags, stream, payload.to_vec()));
            rest = behind;
        }
        assert!(rest.is_empty());
        frames
    }

    fn done(&mut self) -> Vec<(u16, Result<Vec<u8>, Failure>)> {
        std::iter::from_fn(|| self.client.next()).map(|Done { id, result }| (id, result)).collect()
    }

    /// The text with which the only query has failed.
    fn refusal(&mut self) -> String {
        match &self.done()[..] {
            [(_, Err(Failure::Refused(text)))] => text.clone(),
            other => panic!("{other:?}"),
        }
    }
}

fn answer() -> Vec<u8> {
    let mut answer = ROOT.to_vec();
    answer[2] |= 0x80;
    answer
}

#[test]
fn a_query_is_the_body_of_a_request_or_stands_in_its_target() {
    let mut bench = Bench::doh();
    bench.frames();
    bench.ask(7);
    let sent = bench.frames();
    assert_eq!(
        sent.iter().map(|frame| (frame.0, frame.2)).collect::<Vec<_>>(),
        [(HEADERS, 1), (DATA, 1)]
    );
    assert_eq!((sent[1].1, &sent[1].3[..]), (END, ROOT));
    assert!(bench.client.ask(8, ROOT, true));
    let sent = bench.frames();
    assert!(matches!(sent[..], [(HEADERS, flags, 3, _)] if flags & END != 0), "{sent:?}");
    let (request, body) = speech(ListenerKind::Https).request(ROOT, true).unwrap();
    assert!(body.is_empty() && request.method() == http::Method::GET);
    let target = "http://192.0.2.1:443/dns-query?dns=AAABAAABAAAAAAAAAAACAAE";
    assert_eq!(request.uri().to_string(), target);
}

#[test]
fn the_upstream_is_told_the_name_that_its_certificate_must_have() {
    let address = "[2001:db8::1]:8443".parse().unwrap();
    let files = nodens_tls::ClientFiles::default();
    let client = std::sync::Arc::new(nodens_tls::Client::load(files).unwrap());
    for (name, expected) in [
        ("dns.example", "https://dns.example/coredns.dns.DnsService/Query"),
        ("192.0.2.1", "https://[2001:db8::1]:8443/coredns.dns.DnsService/Query"),
    ] {
        let name = nodens_tls::server_name(name).unwrap();
        let protocol = nodens_tls::Protocol::Grpc;
        let peer = nodens_core::upstream::Peer::new(client.clone(), name, protocol);
        let speech = Speech::of(ListenerKind::Grpc, address, Some(&peer)).unwrap();
        let (request, _) = speech.request(ROOT, false).unwrap();
        assert_eq!(request.uri().to_string(), expected);
        assert_eq!(request.method(), http::Method::POST);
    }
}

#[test]
fn requests_follow_each_other_whole() {
    let mut bench = Bench::doh();
    bench.frames();
    (0..3).for_each(|id| bench.ask(id));
    let sent: Vec<_> = bench.frames().iter().map(|frame| (frame.0, frame.2)).collect();
    let whole = |stream| [(HEADERS, stream), (DATA, stream)];
    assert_eq!(sent, [whole(1), whole(3), whole(5)].concat());
}

#[test]
fn responses_may_come_in_any_order_and_in_any_pieces() {
    for size in [1, 7, 1000] {
        let mut bench = Bench::doh();
        (0..3).for_each(|id| bench.ask(id));
        bench.frames();
        let octets = [
            frame(HEADERS, END_HEADERS, 5, HEAD),
            frame(HEADERS, END_HEADERS, 1, HEAD),
            frame(DATA, 0, 5, &answer()[..3]),
            frame(PING, 0, 0, &[0; 8]),
            frame(DATA, END, 5, &answer()[3..]),
            frame(DATA, 0, 1, &answer()),
            frame(HEADERS, END | END_HEADERS, 1, &[]),
        ];
        octets.concat().chunks(size).for_each(|piece| bench.receive(piece));
        let mut done = bench.done();
        done.sort_by_key(|(id, _)| *id);
        assert_eq!(done, [(0, Ok(answer())), (2, Ok(answer()))], "{size}");
        assert!(bench.client.has_room() && bench.client.end().is_none());
    }
}

#[test]
fn what_is_no_message_fails_with_its_reason() {
    let status = |digits: &str| [&b"\x08\x03"[..], digits.as_bytes()].concat();
    let html = b"\x88\x0f\x10\x09text/html".to_vec();
    for (head, expected) in [
        (status("404"), "its response has the HTTP status 404 Not Found"),
        (status("503"), "its response has the HTTP status 503 Service Unavailable"),
        (status("302"), "its response has the HTTP status 302 Found"),
        (html, "its response has the content type \"text/html\""),
        (b"\x88".to_vec(), "its response has the content type \"\""),
    ] {
        let mut bench = Bench::doh();
        bench.ask(1);
        bench.frames();
        bench.receive(&frame(HEADERS, END_HEADERS, 1, &head));
        assert_eq!(bench.refusal(), expected);
        // Nobody wants the rest.
        assert!(bench.frames().iter().any(|frame| frame.0 == RST_STREAM && frame.2 == 1));
        bench.ask(2);
    }
    for reset in [1_u32, 2, 8, 13] {
        let mut bench = Bench::doh();
        bench.ask(1);
        bench.frames();
        bench.receive(&frame(RST_STREAM, 0, 1, &reset.to_be_bytes()));
        assert!(bench.refusal().contains("stream error received"), "{reset}");
        bench.ask(2);
    }
}

#[test]
fn a_longer_body_than_any_message_is_not_kept() {
    let mut bench = Bench::doh();
    bench.ask(1);
    bench.ask(2);
    bench.frames();
    bench.receive(&frame(HEADERS, END_HEADERS, 1, HEAD));
    bench.receive(&frame(HEADERS, END_HEADERS, 3, HEAD));
    let whole = vec![7; MESSAGE_LEN_MAX];
    for (stream, rest) in [(1, &[][..]), (3, &[7][..])] {
        for piece in whole.chunks(16_000) {
            bench.receive(&frame(DATA, 0, stream, piece));
        }
        bench.receive(&frame(DATA, END, stream, rest));
    }
    let done = bench.done();
    assert_eq!(done[0], (1, Ok(whole)));
    let text = "its response is longer than 65535 octets".to_owned();
    assert_eq!(done[1], (2, Err(Failure::Refused(text))));
}

#[test]
fn a_query_that_the_upstream_has_not_looked_at_may_be_asked_elsewhere() {
    let is_unseen =
        |done: &(u16, Result<Vec<u8>, Failure>)| matches!(done, (_, Err(Failure::Unseen(_))));
    let mut bench = Bench::doh();
    (1..=3).for_each(|id| bench.ask(id));
    bench.frames();
    bench.receive(&frame(RST_STREAM, 0, 1, &7_u32.to_be_bytes()));
    let done = bench.done();
    assert!(done.len() == 1 && is_unseen(&done[0]), "{done:?}");
    assert!(bench.client.has_room());
    // It still answers the second one, and nothing behind that.
    bench.receive(&frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
    let done = bench.done();
    assert!(done.len() == 1 && done[0].0 == 3 && is_unseen(&done[0]), "{done:?}");
    assert!(bench.client.is_leaving() && !bench.client.has_room());
    assert_eq!(bench.client.streams(), None);
    assert!(!bench.client.ask(4, ROOT, false) && bench.client.end().is_none());
    bench.receive(&frame(HEADERS, END_HEADERS, 3, HEAD));
    bench.receive(&frame(DATA, END, 3, &answer()));
    assert_eq!(bench.done(), [(2, Ok(answer()))]);
}

#[test]
fn no_more_is_asked_at_a_time_than_the_upstream_takes() {
    let mut bench = Bench::new(ListenerKind::Https, &[0, 3, 0, 0, 0, 2]);
    assert_eq!(bench.client.streams(), Some(2));
    bench.ask(1);
    assert!(bench.client.has_room());
    bench.ask(2);
    assert!(!bench.client.has_room());
    bench.frames();
    bench.receive(&frame(HEADERS, END_HEADERS, 1, HEAD));
    bench.receive(&frame(DATA, END, 1, &answer()));
    assert!(bench.client.has_room());
    // One that is taken back leaves its place.
    bench.ask(3);
    bench.client.cancel(2);
    let sent = bench.frames();
    assert!(sent.iter().any(|frame| frame.0 == RST_STREAM && frame.2 == 3), "{sent:?}");
    assert!(bench.client.has_room());
    let none = Bench::new(ListenerKind::Https, &[0, 3, 0, 0, 0, 0]);
    assert!(!none.client.has_room() && !none.client.is_leaving());
    // However many it takes, there is a bound.
    let many = Bench::new(ListenerKind::Https, &[0, 3, 0, 1, 0, 0]);
    assert_eq!(many.client.streams(), Some(UPSTREAM_STREAMS));
}

#[test]
fn before_the_upstream_has_spoken_few_queries_leave_and_the_others_as_it_takes_them() {
    let client = Client::new(speech(ListenerKind::Https));
    let mut bench = Bench { client, begun: false };
    let asked = |bench: &mut Bench| {
        let is_head = |frame: &&Frame| frame.0 == HEADERS;
        bench.frames().iter().filter(is_head).count()
    };
    (0..UPSTREAM_STREAMS).for_each(|id| bench.ask(id as u16));
    assert!(!bench.client.has_room() && !bench.client.ask(1000, ROOT, false));
    assert_eq!(asked(&mut bench), UPSTREAM_SPREAD);
    // It takes fewer.
    bench.receive(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 10]));
    assert!(bench.client.is_greeted() && !bench.client.has_room());
    assert_eq!(asked(&mut bench), 0);
    let answered = |bench: &mut Bench, number: u32| {
        bench.receive(&frame(HEADERS, END_HEADERS, 2 * number + 1, HEAD));
        bench.receive(&frame(DATA, END, 2 * number + 1, &answer()));
        assert_eq!(bench.done(), [(number as u16, Ok(answer()))]);
    };
    (0..6).for_each(|number| answered(&mut bench, number));
    assert_eq!(asked(&mut bench), 0);
    // One that was given up before it left never does.
    bench.client.cancel(UPSTREAM_SPREAD as u16);
    answered(&mut bench, 6);
    assert_eq!(asked(&mut bench), 1);
    (7..15).for_each(|number| answered(&mut bench, number));
    assert_eq!(asked(&mut bench), 8);
    // What has not left may be asked elsewhere.
    bench.receive(&frame(GOAWAY, 0, 0, &[0, 0, 0, 31, 0, 0, 0, 0]));
    let done = bench.done();
    assert!(done.iter().all(|(_, result)| matches!(result, Err(Failure::Unseen(_)))), "{done:?}");
    assert_eq!(done.len(), UPSTREAM_STREAMS - UPSTREAM_SPREAD - 1);
    answered(&mut bench, 15);
}

#[test]
fn whoever_begins_with_something_else_is_not_taken_for_http2() {
    for octets in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &frame(PING, 0, 0, &[0; 8]),
        &frame(SETTINGS, ACK, 0, &[]),
        &[0, 0, 0, 2],
        b"H",
    ] {
        let mut client = Client::new(speech(ListenerKind::Https));
        assert!(client.ask(1, ROOT, false));
        client.receive(octets);
        assert_eq!(client.end(), Some("it does not speak HTTP/2"), "{octets:?}");
        assert!(!client.is_greeted() && client.is_leaving());
    }
    let mut client = Client::new(speech(ListenerKind::Https));
    for octet in frame(SETTINGS, 0, 0, &[]) {
        assert!(!client.is_greeted());
        client.receive(&[octet]);
    }
    assert!(client.is_greeted());
}

/// Frames without end, each kind on a connection of its own: it is closed before it costs much.
#[test]
fn floods_end_the_connection_within_bounds() {
    let field = [&b"\0\x01x\x7f\x80\x7f"[..], &[b'y'; 255]].concat();
    let long = field.repeat(40);
    let floods: [(&str, Vec<u8>, Vec<u8>); 7] = [
        ("PING", vec![], frame(PING, 0, 0, &[0; 8])),
        ("SETTINGS", vec![], frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0])),
        ("WINDOW_UPDATE", vec![], frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        ("empty DATA", frame(HEADERS, END_HEADERS, 1, HEAD), frame(DATA, 0, 1, &[])),
        ("interim responses", vec![], frame(HEADERS, END_HEADERS, 1, b"\x08\x03103")),
        ("CONTINUATION", frame(HEADERS, 0, 1, b"\x88"), frame(CONTINUATION, 0, 1, b"\0\x01x\x01y")),
        ("large fields", vec![], frame(HEADERS, END_HEADERS, 1, &long)),
    ];
    for (what, first, flood) in floods {
        let mut bench = Bench::doh();
        bench.ask(1);
        bench.frames();
        bench.receive(&first);
        let (mut received, mut sent) = (0, 0);
        while bench.client.end().is_none() && received < 2 * UPSTREAM_UNANSWERED_MAX {
            let piece = flood.repeat(16_384_usize.div_ceil(flood.len()));
            bench.receive(&piece);
            received += piece.len();
            sent += bench.client.take_output().len();
            assert!(bench.client.octets.cost() < 64 << 10, "{what}");
            if what == "large fields" {
                // That response is refused, and the next one asked for.
                _ = bench.done();
                _ = bench.client.ask(1, ROOT, false);
            }
        }
        let why = bench.client.end().unwrap_or_else(|| panic!("{what} goes on: {received}"));
        assert!(received <= UPSTREAM_UNANSWERED_MAX + (32 << 10), "{what}: {received}, {why}");
        assert!(sent <= 2 * received, "{what}: {sent}");
    }
}

#[test]
fn an_upstream_that_is_asked_little_may_say_much_over_time() {
    let mut bench = Bench::doh();
    for round in 0..8 {
        bench.ask(round);
        let stream = u32::from(round) * 2 + 1;
        bench.frames();
        for _ in 0..(UPSTREAM_UNANSWERED_MAX / 2 / 17 / 16) {
            bench.receive(&frame(PING, 0, 0, &[0; 8]).repeat(16));
            bench.frames();
        }
        if round % 4 < 3 {
            // 404
            bench.receive(&frame(HEADERS, END | END_HEADERS, stream, b"\x8d"));
            assert!(matches!(bench.done()[..], [(_, Err(Failure::Refused(_)))]), "{round}");
            continue;
        }
        bench.receive(&frame(HEADERS, END_HEADERS, stream, HEAD));
        bench.receive(&frame(DATA, END, stream, &answer()));
        assert_eq!(bench.done(), [(round, Ok(answer()))]);
    }
}

#[test]
fn bodies_that_never_end_take_no_more_than_the_window() {
    let mut bench = Bench::doh();
    let most = (UPSTREAM_CONNECTION_WINDOW as usize).div_ceil(16_000);
    let streams: Vec<u32> = (0..most as u32).map(|n| 2 * n + 1).collect();
    (0..most as u16).for_each(|id| bench.ask(id));
    bench.frames();
    for stream in &streams {
        bench.receive(&frame(HEADERS, END_HEADERS, *stream, HEAD));
    }
    for stream in &streams {
        bench.receive(&frame(DATA, 0, *stream, &[0; 16_000]));
    }
    // Nothing opens the window while no body is whole, and whoever ignores that is cut off.
    assert!(bench.client.end().is_some_and(|why| why.contains("flow-control")));
    assert!(bench.frames().iter().all(|frame| frame.0 != WINDOW_UPDATE));
}

#[test]
fn a_window_opens_again_with_each_message_that_is_whole() {
    let mut bench = Bench::doh();
    for id in 0..40 {
        bench.ask(id);
        let stream = u32::from(id) * 2 + 1;
        bench.frames();
        bench.receive(&frame(HEADERS, END_HEADERS, stream, HEAD));
        for piece in vec![7; MESSAGE_LEN_MAX].chunks(16_384) {
            bench.receive(&frame(DATA, 0, stream, piece));
        }
        bench.receive(&frame(DATA, END, stream, &[]));
        assert!(matches!(bench.done()[..], [(_, Ok(_))]), "{id}");
    }
}

#[test]
fn calls_of_grpc_have_a_message_or_a_status() {
    let call = |frames: &[Vec<u8>]| {
        let mut bench = Bench::new(ListenerKind::Grpc, &[]);
        bench.ask(1);
        bench.frames();
        bench.receive(&frames.concat());
        bench.done().pop().map(|(_, result)| result)
    };
    let head = frame(HEADERS, END_HEADERS, 1, GRPC_HEAD);
    let body = |octets: &[u8]| frame(DATA, 0, 1, octets);
    let trailers = |octets: &[u8]| frame(HEADERS, END | END_HEADERS, 1, octets);
    let around = crate::http::grpc::packet::around(&answer());
    let whole = [head.clone(), body(&around), trailers(GRPC_OK)];
    assert_eq!(call(&whole), Some(Ok(answer())));
    // Nothing counts before the status has come.
    assert_eq!(call(&whole[..2]), None);
    let refused = |frames: &[Vec<u8>]| match call(frames) {
        Some(Err(Failure::Refused(text))) => text,
        other => panic!("{other:?}"),
    };
    let failed = b"\0\x0bgrpc-status\x0214\0\x0cgrpc-message\x06no%20x";
    let expected = "rpc error: code = 14 desc = no x";
    assert_eq!(refused(&[head.clone(), trailers(failed)]), expected);
    // No line of the log begins with what an upstream says.
    let lines = b"\0\x0bgrpc-status\x0214\0\x0cgrpc-message\x09a%0a%1b[m";
    assert_eq!(refused(&[head.clone(), trailers(lines)]), "rpc error: code = 14 desc = a??[m");
    let at_once = frame(HEADERS, END | END_HEADERS, 1, &[GRPC_HEAD, failed].concat());
    assert_eq!(refused(&[at_once]), expected);
    assert_eq!(refused(&[head.clone(), body(&around[..9]), trailers(GRPC_OK)]), "unexpected EOF");
    let without = frame(DATA, END, 1, &around);
    assert_eq!(refused(&[head.clone(), without]), "its response has no gRPC status");
    let other = frame(HEADERS, END_HEADERS, 1, HEAD);
    assert!(refused(&[other]).contains("content type \"application/dns-message\""));
    // As CoreDNS has it: the name is not there.
    let not_found = trailers(b"\0\x0bgrpc-status\x015");
    let message = call(&[head, not_found]).unwrap().unwrap();
    let header = nodens_wire::Header::read(&message).unwrap();
    assert_eq!(header.flags.rcode(), nodens_wire::Rcode::NXDOMAIN);
    assert!(header.flags.has(Flags::QR) && header.flags.has(Flags::RD));
    assert_eq!(message[12..], ROOT[12..]);
}

/// Whatever comes, there is an end to it and no panic.
#[test]
fn damaged_octets_do_no_harm() {
    let mut state = 4_u64;
    let mut below = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let good = [
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]),
        frame(HEADERS, END_HEADERS, 1, HEAD),
        frame(DATA, END, 1, &answer()),
        frame(HEADERS, END_HEADERS, 3, GRPC_HEAD),
        frame(DATA, 0, 3, &crate::http::grpc::packet::around(&answer())),
        frame(HEADERS, END | END_HEADERS, 3, GRPC_OK),
        frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]),
    ]
    .concat();
    for round in 0..3000 {
        let kind = if round % 2 == 0 { ListenerKind::Https } else { ListenerKind::Grpc };
        let mut client = Client::new(speech(kind));
        (0..3).for_each(|id| assert!(client.ask(id, ROOT, false)));
        let mut octets = good.clone();
        for _ in 0..below(4) {
            let at = below(octets.len());
            octets[at] = below(256) as u8;
        }
        for piece in octets.chunks(1 + below(40)) {
            client.receive(piece);
            _ = client.take_output();
        }
        let done = std::iter::from_fn(|| client.next()).count();
        assert!(done <= 3, "{round}");
    }
}
