use super::*;
use crate::limits::{HTTP_FIELDS_MAX, REQUEST_LEN_MAX};

/// A query for the root's NS records, and the same in Base64.
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
const GET: &str = "GET /dns-query?dns=AAABAAABAAAAAAAAAAACAAE HTTP/1.1\r\nHost: x\r\n";
const POST: &str = "POST /dns-query HTTP/1.1\r\nHost: x\r\n";
const NOW: Now = Now { mono_ns: 0, unix_s: 0 };

#[derive(Default)]
struct Bench {
    session: Session,
    counted: Counted,
}

impl Bench {
    /// The query after these octets have arrived.
    fn take(&mut self, octets: &[u8]) -> Option<Query> {
        self.session.receive(octets);
        self.session.next(NOW, &mut self.counted)
    }

    fn answer(&mut self, number: u32, message: &[u8]) {
        self.session.answer(number, Some(message), NOW, &mut self.counted);
    }

    fn output(&mut self) -> String {
        String::from_utf8(self.session.take_output()).unwrap()
    }

    /// The line that a request is responded to with, where it is not asked, and whether it was the last.
    fn refusal(octets: &[u8]) -> (String, bool) {
        let mut bench = Self::default();
        assert!(bench.take(octets).is_none());
        let output = bench.output();
        let line = output.lines().next().unwrap_or_default();
        (line.to_owned(), bench.session.is_over())
    }
}

fn post(fields: &str, body: &[u8]) -> Vec<u8> {
    [POST.as_bytes(), fields.as_bytes(), b"\r\n", body].concat()
}

#[test]
fn a_response_says_what_that_of_coredns_says() {
    let mut bench = Bench::default();
    let query = bench.take(format!("{GET}\r\n").as_bytes()).unwrap();
    assert_eq!(query.message, ROOT);
    bench.answer(query.stream, ROOT);
    let wanted = "HTTP/1.1 200 OK\r\ncontent-type: application/dns-message\r\n\
                  cache-control: max-age=5\r\ncontent-length: 17\r\n\
                  date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
    assert_eq!(bench.output().as_bytes(), [wanted.as_bytes(), ROOT].concat());
    assert!(!bench.session.is_over() && !bench.session.has_begun());
    let query = bench.take(&post("Content-Length: 17\r\n", ROOT)).unwrap();
    bench.session.answer(query.stream, None, NOW, &mut bench.counted);
    let output = bench.output();
    assert!(output.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{output}");
    assert!(output.ends_with("\r\n\r\nNo response\n"), "{output}");
    let counted: Vec<_> = bench.counted.each().collect();
    assert_eq!(counted, [(HttpStatus::Ok, 1), (HttpStatus::NoResponse, 1)]);
}

#[test]
fn requests_are_answered_one_after_the_other_however_they_arrive() {
    let both = [format!("{GET}\r\n").as_bytes(), &post("content-length: 17\r\n", ROOT)].concat();
    for size in [1, 7, both.len()] {
        let (mut bench, mut asked) = (Bench::default(), Vec::new());
        for piece in both.chunks(size) {
            if let Some(query) = bench.take(piece) {
                asked.push(query.stream);
                // A late answer to another one is none to this.
                bench.answer(query.stream + 1, b"");
                assert!(bench.session.is_asked());
                assert!(bench.take(b"").is_none());
            }
            if bench.session.is_asked() && size == 1 {
                bench.answer(asked.len() as u32, ROOT);
            }
        }
        if size > 1 {
            bench.answer(1, ROOT);
            asked.extend(bench.take(b"").map(|query| query.stream));
            bench.answer(2, ROOT);
        }
        assert_eq!(asked, [1, 2], "in pieces of {size}");
        assert_eq!(bench.output().matches("HTTP/1.1 200 OK").count(), 2);
        assert!(!bench.session.has_begun());
    }
}

#[test]
fn bodies_in_chunks_are_put_together() {
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n", body.as_bytes());
    let text: String = ROOT.iter().map(|octet| *octet as char).collect();
    let (one, other) = text.split_at(5);
    let body = format!("5;x=y\r\n{one}\r\nC\r\n{other}\r\n0\r\nA: b\r\n\r\n");
    let whole = chunked(&body);
    for size in [1, 3, whole.len()] {
        let mut bench = Bench::default();
        let query = whole.chunks(size).find_map(|piece| bench.take(piece));
        assert_eq!(query.unwrap().message, ROOT);
    }
    let long = format!("{:x}\r\n", REQUEST_LEN_MAX + 1);
    let line = format!("5;{}", "x".repeat(300));
    // Where another reader ends the line earlier, or sees no size.
    let lone = "5;x\ny\r\nabcde\r\n0\r\n\r\n";
    let behind = "0\r\nA: b\nC: d\r\n\r\n";
    for body in [
        "x\r\n",
        "5\r\nabcdeX",
        &long,
        "ffffffffffffffff0\r\n",
        &line,
        lone,
        behind,
        "\r\n\r\n",
        ";\r\n",
    ] {
        let (line, is_over) = Bench::refusal(&chunked(body));
        assert_eq!((&*line, is_over), ("HTTP/1.1 400 Bad Request", true), "{body}");
    }
}

#[test]
fn what_is_no_request_is_refused_and_ends_the_connection() {
    let field = |field: &str| format!("{GET}{field}\r\n\r\n");
    let many = format!("{GET}{}\r\n", "a: b\r\n".repeat(HTTP_FIELDS_MAX));
    let bomb = format!("{GET}a: {}", "b".repeat(HTTP_HEAD_LEN_MAX));
    let long = |len: usize| format!("{POST}Content-Length: {len}\r\n\r\n");
    let cases = [
        ("\u{1}\r\n\r\n".to_owned(), "400 Bad Request"),
        ("GET /dns-query HTTP/1.1\r\n\r\n".to_owned(), "400 Bad Request"),
        (field("Host: y"), "400 Bad Request"),
        (field("a b: c"), "400 Bad Request"),
        (field("a: b\nc: d"), "400 Bad Request"),
        (GET.replace("\r\n", "\n") + "\n", "400 Bad Request"),
        (field("Content-Length: +1"), "400 Bad Request"),
        (field("Content-Length: 1\r\nContent-Length: 2"), "400 Bad Request"),
        (field("Content-Length: 99999999999999999999"), "400 Bad Request"),
        (field("Content-Length: 3\r\nTransfer-Encoding: chunked"), "400 Bad Request"),
        (field("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), "400 Bad Request"),
        (field("Transfer-Encoding: gzip, chunked"), "501 Not Implemented"),
        (field("Expect: 200-ok"), "417 Expectation Failed"),
        ("GET / HTTP/1.2\r\n\r\n".to_owned(), "505 HTTP Version Not Supported"),
        (many, "431 Request Header Fields Too Large"),
        (bomb, "431 Request Header Fields Too Large"),
        (long(REQUEST_LEN_MAX + 1), "400 Bad Request"),
        (long(usize::MAX), "400 Bad Request"),
    ];
    for (request, wanted) in cases {
        let (line, is_over) = Bench::refusal(request.as_bytes());
        assert_eq!((line, is_over), (format!("HTTP/1.1 {wanted}"), true), "{request:.80}");
    }
}

#[test]
fn requests_without_a_query_are_refused_and_the_next_one_is_heard() {
    let line = |target: &str| format!("{target} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes();
    let cases = [
        (line("GET /"), "404 Not Found"),
        (line("GET /dns-query"), "400 Bad Request"),
        (line("DELETE /dns-query"), "400 Bad Request"),
        (post("Content-Length: 3\r\n", b"abc"), "400 Bad Request"),
        (post("", b""), "400 Bad Request"),
    ];
    let mut bench = Bench::default();
    for (request, wanted) in cases {
        assert!(bench.take(&request).is_none());
        let output = bench.output();
        assert!(output.starts_with(&format!("HTTP/1.1 {wanted}\r\n")), "{output}");
    }
    assert!(bench.take(format!("{GET}\r\n").as_bytes()).is_some());
    // Nobody reads a body behind this.
    let mut bench = Bench::default();
    bench.take(&line("HEAD /dns-query"));
    assert!(bench.output().ends_with("\r\n\r\n"));
}

#[test]
fn who_wants_the_connection_closed_has_it_closed() {
    let old = GET.replace("HTTP/1.1", "HTTP/1.0");
    let cases = [
        (format!("{GET}\r\n"), None),
        (format!("{GET}Connection: x, Close\r\n\r\n"), Some("close")),
        (format!("{old}\r\n"), Some("close")),
        (format!("{old}connection: keep-alive\r\n\r\n"), Some("keep-alive")),
    ];
    for (request, wanted) in cases {
        let mut bench = Bench::default();
        let query = bench.take(request.as_bytes()).unwrap();
        bench.answer(query.stream, ROOT);
        let output = bench.output();
        let fields = output.lines().filter_map(|line| line.strip_prefix("connection: "));
        assert_eq!(fields.collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>());
        assert_eq!(bench.session.is_over(), wanted == Some("close"));
        assert_eq!(output.starts_with("HTTP/1.0"), request.contains("HTTP/1.0"));
    }
    // One that leaves says so with the response that is under way.
    let mut bench = Bench::default();
    let query = bench.take(format!("{GET}\r\n").as_bytes()).unwrap();
    bench.session.leave();
    bench.answer(query.stream, ROOT);
    assert!(bench.output().contains("connection: close\r\n") && bench.session.is_over());
}

#[test]
fn a_client_that_waits_for_consent_gets_it() {
    let mut bench = Bench::default();
    assert!(bench.take(&post("Expect: 100-Continue\r\nContent-Length: 17\r\n", b"")).is_none());
    assert_eq!(bench.output(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(bench.session.has_begun());
    assert_eq!(bench.take(ROOT).unwrap().message, ROOT);
}
