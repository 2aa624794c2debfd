use super::super::requests::Dialect;
use super::*;

const NOW: Now = Now { mono_ns: 0, unix_s: 0 };
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const POST: &[u8] = b"\x83\x86\x04\x0a/dns-query\x01\x01x";
/// A query for the root's NS records.
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: u8 = 8;
const REFUSED_STREAM: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A session that heard the client's preface and these settings.
struct Bench {
    session: Session,
    counted: Counted,
}

impl Bench {
    fn new(settings: &[u8]) -> Self {
        let rules = Rules { dialect: Dialect::Doh, streams: 1000, read: 5, write: 7 };
        let mut bench = Self { session: Session::new(rules), counted: Counted::default() };
        bench.receive(PREFACE);
        bench.receive(&frame(SETTINGS, 0, 0, settings));
        bench.output();
        bench
    }

    fn receive(&mut self, octets: &[u8]) {
        self.session.receive(octets);
    }

    fn ask(&mut self, stream: u32) {
        self.begin(stream);
        self.receive(&frame(DATA, END, stream, ROOT));
    }

    fn begin(&mut self, stream: u32) {
        self.receive(&frame(HEADERS, END_HEADERS, stream, POST));
    }

    fn next(&mut self) -> Option<Query> {
        self.session.next(NOW, &mut self.counted)
    }

    /// Kind and stream of the frames to be sent, and the last octet of each.
    fn output(&mut self) -> Vec<(u8, u32, u8)> {
        let octets = self.session.take_output(NOW, &mut self.counted);
        let (mut rest, mut frames) = (&octets[..], Vec::new());
        while let [a, b, c, kind, _, d, e, f, g, behind @ ..] = rest {
            let (payload, behind) = behind.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
            let last = payload.last().copied().unwrap_or_default();
            frames.push((*kind, u32::from_be_bytes([*d, *e, *f, *g]), last));
            rest = behind;
        }
        assert!(rest.is_empty());
        frames
    }

    /// The streams that are reset with `reason`.
    fn resets(&mut self, reason: u8) -> Vec<u32> {
        let frames = self.output().into_iter();
        let resets = frames.filter(|(kind, _, last)| (*kind, *last) == (RST_STREAM, reason));
        resets.map(|(_, stream, _)| stream).collect()
    }
}

#[test]
fn requests_that_are_not_whole_when_the_server_leaves_may_be_sent_again() {
    let mut bench = Bench::new(&[]);
    bench.ask(1);
    bench.begin(3);
    bench.begin(5);
    assert_eq!(bench.next().unwrap().stream, 1);
    // As at the end of the time to be idle.
    bench.session.say_goodbye(NOW, &mut bench.counted);
    assert_eq!(bench.resets(REFUSED_STREAM), [3, 5]);
    // What comes later is refused too, and what was asked is answered.
    let mut bench = Bench::new(&[]);
    bench.ask(1);
    assert_eq!(bench.next().unwrap().stream, 1);
    bench.begin(3);
    assert!(bench.next().is_none());
    bench.session.leave();
    assert_eq!(bench.resets(REFUSED_STREAM), [3]);
    bench.ask(5);
    assert!(bench.next().is_none());
    assert_eq!(bench.resets(REFUSED_STREAM), [5]);
    bench.session.answer(1, Some(ROOT), NOW, &mut bench.counted);
    assert_eq!(bench.output().iter().filter(|(kind, ..)| *kind == DATA).count(), 1);
}

#[test]
fn queries_that_nobody_asked_for_can_be_refused() {
    let mut bench = Bench::new(&[]);
    [1, 3, 5].into_iter().for_each(|stream| bench.ask(stream));
    assert_eq!(bench.next().unwrap().stream, 1);
    bench.session.refuse();
    assert!(bench.next().is_none());
    assert_eq!(bench.resets(REFUSED_STREAM), [3, 5]);
    assert_eq!((bench.session.asked.len(), bench.session.kept), (1, 0));
}

#[test]
fn a_client_that_makes_no_room_may_not_ask_without_end() {
    // No room at all.
    let mut bench = Bench::new(&[0, 4, 0, 0, 0, 0]);
    bench.ask(1);
    let query = bench.next().unwrap();
    let long = vec![0; HTTP2_KEPT_MAX];
    bench.session.answer(query.stream, Some(&long), NOW, &mut bench.counted);
    assert_eq!(bench.session.held(), long.len());
    assert!(!bench.session.has_responded());
    bench.ask(3);
    assert_eq!(bench.resets(REFUSED_STREAM), [3]);
    // A WINDOW_UPDATE for the response, and one for the connection.
    bench.receive(&frame(8, 0, 1, &[0, 2, 0, 0]));
    bench.receive(&frame(8, 0, 0, &[0, 2, 0, 0]));
    bench.output();
    assert_eq!((bench.session.held(), bench.session.has_responded()), (0, true));
    bench.ask(5);
    assert_eq!(bench.next().unwrap().stream, 5);
}

#[test]
fn nothing_but_a_response_counts_as_one() {
    let mut bench = Bench::new(&[]);
    bench.receive(&frame(PING, 0, 0, &[0; 8]));
    bench.receive(&frame(SETTINGS, 0, 0, &[]));
    assert!(bench.next().is_none());
    assert_eq!(bench.output().len(), 2);
    assert!(!bench.session.has_responded());
    bench.ask(1);
    assert!(bench.next().is_some());
    bench.session.answer(1, Some(ROOT), NOW, &mut bench.counted);
    assert_eq!([bench.session.has_responded(), bench.session.has_responded()], [true, false]);
}

#[test]
fn as_many_fields_as_in_http_1_are_taken_and_no_more() {
    let mut bench = Bench::new(&[]);
    let request = |count| [POST, &b"\0\x01a\x01b".repeat(count)].concat();
    bench.receive(&frame(HEADERS, END_HEADERS, 1, &request(HTTP_FIELDS_MAX)));
    bench.receive(&frame(HEADERS, END_HEADERS, 3, &request(HTTP_FIELDS_MAX + 1)));
    assert!(bench.next().is_none());
    assert_eq!(bench.session.arriving.len(), 1);
    let heads: Vec<u32> =
        bench.output().iter().filter(|own| own.0 == HEADERS).map(|own| own.1).collect();
    assert_eq!(heads, [3]);
}

#[test]
fn what_was_not_read_is_not_late() {
    let mut bench = Bench::new(&[]);
    bench.begin(1);
    assert!(bench.next().is_none());
    assert_eq!(bench.session.deadline(), Some(5));
    let now = Now { mono_ns: 5, unix_s: 0 };
    assert!(!bench.session.expire(false, now));
    assert_eq!(bench.session.deadline(), Some(10));
    assert!(bench.session.expire(true, Now { mono_ns: 10, unix_s: 0 }));
    assert_eq!(bench.resets(CANCEL), [1]);
}

#[test]
fn sums_are_those_of_what_there_is() {
    let mut bench = Bench::new(&[0, 4, 0, 0, 0, 9]);
    for stream in (1..80).step_by(4) {
        bench.ask(stream);
        bench.begin(stream + 2);
        bench.receive(&frame(DATA, 0, stream + 2, b"abc"));
    }
    while let Some(query) = bench.next() {
        bench.session.answer(query.stream, Some(ROOT), NOW, &mut bench.counted);
    }
    let session = &bench.session;
    assert_eq!(session.held_len, session.held.iter().map(Held::len).sum());
    assert_eq!((session.held.len(), session.held_len), (20, 20 * (ROOT.len() - 9)));
    let kept: usize = session.arriving.iter().map(|own| own.content.capacity()).sum();
    assert_eq!((session.arriving.len(), session.kept), (20, kept));
    bench.session.expire(true, Now { mono_ns: 10, unix_s: 0 });
    assert_eq!((bench.session.held_len, bench.session.kept), (0, 0));
}
