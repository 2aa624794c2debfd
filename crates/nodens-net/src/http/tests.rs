use super::*;

const NOW: Now = Now { mono_ns: 0, unix_s: 0 };
/// What HTTP/2 begins with, and a request of each dialect with a query for the root's NS records.
const HEAD: &[u8] = b"\x83\x86\x04\x0a/dns-query\x01\x01x";
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
}

fn rules(dialect: Dialect) -> Rules {
    Rules { dialect, streams: 10, read: 5, write: 7 }
}

/// Good input of each kind, to be spoilt.
fn inputs() -> Vec<(Dialect, Vec<u8>)> {
    let settings = frame(4, 0, 0, &[]);
    let of = |head: &[u8], body: &[u8]| {
        let requests = (0..4).flat_map(|number| {
            let stream = 2 * number + 1;
            [frame(1, 4, stream, head), frame(0, 1, stream, body)].concat()
        });
        let window = frame(8, 0, 0, &[0, 0, 1, 0]);
        [PREFACE, &settings, &requests.collect::<Vec<_>>(), &window].concat()
    };
    let head = b"\x83\x86\x04\x1d/coredns.dns.DnsService/Query\x0f\x10\x10application/grpc";
    let call = [&[0, 0, 0, 0, 19, 0x0a, 17][..], ROOT].concat();
    let one = "POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n";
    let chunked = "POST /dns-query HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n";
    let chunked = [chunked.as_bytes(), ROOT, b"\r\n0\r\n\r\n"].concat();
    vec![
        (Dialect::Doh, of(HEAD, ROOT)),
        (Dialect::Grpc, of(head, &call)),
        (Dialect::Doh, [one.as_bytes(), ROOT, &chunked].concat()),
    ]
}

/// Feeds a session, answers what it asks, and gives how much that was.
fn feed(session: &mut Session, octets: &[u8], sizes: &mut dyn FnMut() -> usize) -> usize {
    let (mut asked, mut rest) = (0, octets);
    while !rest.is_empty() {
        let (front, back) = rest.split_at(sizes().clamp(1, rest.len()));
        rest = back;
        session.receive(front);
        while let Some(query) = session.next(NOW) {
            asked += 1;
            session.answer(query.stream, &query.message, NOW);
        }
        session.take_output(NOW);
        assert!(session.cost() <= 256 << 10, "{}", session.cost());
    }
    asked
}

#[test]
fn good_input_is_asked_in_whatever_pieces_it_comes() {
    for (dialect, input) in inputs() {
        let wanted = if input.starts_with(PREFACE) { 4 } else { 2 };
        for size in [1, 3, 50, input.len()] {
            let mut session = Session::new(rules(dialect));
            assert_eq!(feed(&mut session, &input, &mut || size), wanted, "{dialect:?} {size}");
            assert!(!session.is_over() && session.listens());
        }
    }
}

#[test]
fn spoilt_input_is_refused_without_a_panic() {
    let mut state = 1_u64;
    let mut random = |end: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    for _ in 0..3000 {
        for (dialect, mut input) in inputs() {
            for _ in 0..=random(4) {
                let at = random(input.len().max(1));
                if input.is_empty() {
                    break;
                }
                match random(4) {
                    0 => input[at] = random(256) as u8,
                    1 => _ = input.remove(at),
                    2 => input.insert(at, random(256) as u8),
                    _ => input.truncate(at + 1),
                }
            }
            let mut session = Session::new(rules(dialect));
            assert!(feed(&mut session, &input, &mut || random(200)) <= 4);
            session.end();
            session.leave();
            session.say_goodbye(NOW);
            session.take_output(NOW);
            session.expire(true, Now { mono_ns: 10, unix_s: 0 });
            assert_eq!((session.held(), session.deadline()), (0, None));
        }
    }
}
