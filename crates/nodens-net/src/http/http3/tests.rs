use super::frames::{put, put_number};
use super::*;
use crate::limits::{
    HTTP_FIELDS_MAX, HTTP3_CONTROL_FRAME_MAX, HTTP3_EARLY_LEN_MAX, HTTP3_EARLY_PIECES_MAX,
    HTTP3_IDLE_MAX, HTTP3_REQUEST_LEN_MAX, REQUEST_LEN_MAX,
};

const NOW: Now = Now { mono_ns: 0, unix_s: 0 };
/// A query for the root's NS records.
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
const ROOT_TEXT: &str = "AAABAAABAAAAAAAAAAACAAE";

/// Fields of a request: the four that each has, with another path, and more.
fn block(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let own =
        [(":method", method), (":scheme", "https"), (":authority", "dns.example"), (":path", path)];
    lines(&[&own[..], more].concat())
}

fn lines(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    fields.iter().for_each(|(name, value)| fields::put(name, value.as_bytes(), &mut block));
    block
}

fn frame(kind: u64, content: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    put(kind, content, &mut octets);
    octets
}

fn headers(block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, block)
}

fn post(body: &[u8]) -> Vec<u8> {
    [headers(&block("POST", "/dns-query", &[])), frame(kind::DATA, body)].concat()
}

/// What a request comes to: its query, or the status of the response.
#[derive(Debug, PartialEq, Eq)]
enum End {
    More,
    Query(Vec<u8>),
    Status(u16),
}

fn feed(octets: &[u8], size: usize, is_whole: bool) -> Result<End, Fault> {
    let (mut request, mut counted) = (Request::default(), Counted::default());
    let end = |progress| match progress {
        Progress::More => None,
        Progress::Query(message) => Some(End::Query(message)),
        Progress::Refused(response) => Some(End::Status(response.head.status().as_u16())),
    };
    let mut place = 0;
    for piece in octets.chunks(size) {
        if let Some(end) = end(request.take(place, piece, NOW, &mut counted)?) {
            return Ok(end);
        }
        place += piece.len() as u64;
        assert!(request.cost() < HTTP3_REQUEST_LEN_MAX * 2);
    }
    if !is_whole {
        return Ok(End::More);
    }
    Ok(end(request.end(NOW, &mut counted)?).unwrap_or(End::More))
}

#[test]
fn pieces_of_a_request_may_come_in_any_order() {
    let octets = post(ROOT);
    let pieces: Vec<_> = octets.chunks(octets.len().div_ceil(16)).zip(0_u64..).collect();
    let (mut request, mut counted) = (Request::default(), Counted::default());
    let size = pieces[0].0.len() as u64;
    for (piece, number) in pieces.iter().rev() {
        let progress = request.take(number * size, piece, NOW, &mut counted);
        assert!(matches!(progress, Ok(Progress::More)));
    }
    let end = request.end(NOW, &mut counted);
    assert!(matches!(end, Ok(Progress::Query(message)) if message == ROOT));
    // Not in endless pieces.
    let mut request = Request::default();
    let taken = (1..).find(|at| request.take(at * 2, &[0], NOW, &mut counted).is_err());
    assert_eq!(taken, Some(HTTP3_EARLY_PIECES_MAX as u64 + 1));
    assert!(request.cost() < 2000, "{}", request.cost());
}

#[test]
fn a_request_is_the_same_in_whatever_pieces_it_comes() {
    let target = format!("/dns-query?dns={ROOT_TEXT}");
    let cases = [
        headers(&block("GET", &target, &[("accept", "application/dns-message")])),
        post(ROOT),
        // The body in two frames, between others that mean nothing, with fields behind it.
        [
            frame(0x21, b"nothing"),
            headers(&block("POST", "/dns-query", &[("content-length", "17")])),
            frame(0x40, &[]),
            frame(kind::DATA, &ROOT[..5]),
            frame(0xf_0700, b"0 u=1"),
            frame(kind::DATA, &[]),
            frame(kind::DATA, &ROOT[5..]),
            headers(&lines(&[("x-checksum", "1")])),
            frame(0x21, &[]),
        ]
        .concat(),
    ];
    for octets in cases {
        for size in 1..=octets.len() {
            assert_eq!(feed(&octets, size, true), Ok(End::Query(ROOT.to_vec())), "{size}");
        }
    }
}

#[test]
fn fields_in_every_form_are_read() {
    // By number, by the number of the name, in letters, coded.
    let coded_authority = b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let mut block = vec![0, 0, 0xc0 | 17, 0xc0 | 23];
    block.extend([0x50, 0x80 | coded_authority.len() as u8]);
    block.extend_from_slice(coded_authority);
    // The name of the path in letters, never to be compressed by others.
    block.extend(b"\x35:path\x0a/dns-query".map(|octet| octet));
    let head = fields::read(&block).unwrap();
    assert_eq!((&*head.method, &*head.path), (&b"GET"[..], &b"/dns-query"[..]));
    // Numbers of more than one octet: `user-agent` is 95.
    block.extend(b"\x5f\x50\x03abc");
    assert_eq!(fields::read(&block), Ok(head));
}

#[test]
fn requests_that_are_none_get_a_status() {
    let get = |target: &str| headers(&block("GET", target, &[]));
    let many: Vec<_> = (0..HTTP_FIELDS_MAX).map(|_| ("a", "b")).collect();
    let long = "x".repeat(HTTP_HEAD_LEN_MAX - 100);
    let cases = [
        (get("/"), 404),
        (get("/dns-query"), 400),
        (get("/dns-query?dns=!"), 400),
        (get("/dns-query?dns=AAAA"), 400),
        (headers(&block("PUT", "/dns-query", &[])), 400),
        (headers(&block("OPTIONS", "*", &[])), 404),
        (headers(&lines(&[(":method", "CONNECT"), (":authority", "a.example:1")])), 404),
        (post(b""), 400),
        (post(&ROOT[..10]), 400),
        (post(&[0; REQUEST_LEN_MAX + 1]), 400),
        ([post(&[0; REQUEST_LEN_MAX]), frame(kind::DATA, &[0])].concat(), 400),
        (headers(&block("GET", "/", &many)), 431),
        (headers(&block("GET", "/", &[("a", &long)])), 431),
        // The frame alone says that there is too much.
        (vec![1, 0x80, 0, 0x40, 1], 431),
    ];
    for (octets, status) in cases {
        for size in [1, 7, octets.len()] {
            assert_eq!(feed(&octets, size, true), Ok(End::Status(status)), "{octets:?}");
        }
    }
}

#[test]
fn malformed_requests_are_refused_alone() {
    let all = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    let with = |more: (&'static str, &'static str)| lines(&[&all[..], &[more]].concat());
    let without = |missing: &str| {
        let rest: Vec<_> = all.into_iter().filter(|(name, _)| *name != missing).collect();
        lines(&rest)
    };
    let mut early = vec![("accept", "*/*")];
    early.extend(all);
    let cases = [
        with((":method", "GET")),
        with((":status", "200")),
        with((":protocol", "websocket")),
        with(("Accept", "x")),
        with(("", "x")),
        with(("a b", "x")),
        with(("a", "x\r\ny: z")),
        with(("connection", "close")),
        with(("transfer-encoding", "chunked")),
        with(("te", "gzip")),
        with(("host", "b")),
        with(("content-length", "+1")),
        with(("content-length", "99999999999999999999999")),
        lines(&early),
        without(":method"),
        without(":scheme"),
        without(":path"),
        without(":authority"),
        block("GET", "", &[]),
        block("GET", "dns-query", &[]),
        block("GET", "http://a/dns-query", &[]),
        block("GET", "/\u{7f}", &[]),
        block("G T", "/", &[]),
        block("CONNECT", "/", &[]),
        lines(&[]),
    ];
    for case in cases {
        let refused = Err(Fault::Stream(code::MESSAGE_ERROR));
        assert_eq!(feed(&headers(&case), 1 << 20, false), refused, "{case:?}");
    }
    let wrong_len = headers(&block("POST", "/dns-query", &[("content-length", "18")]));
    let wrong_len = [wrong_len, frame(kind::DATA, ROOT)].concat();
    assert_eq!(feed(&wrong_len, 9, true), Err(Fault::Stream(code::MESSAGE_ERROR)));
    for octets in [&[][..], &frame(0x21, b"abc")] {
        assert_eq!(feed(octets, 9, true), Err(Fault::Stream(code::REQUEST_INCOMPLETE)));
    }
    // Frames without a meaning do not go on for ever.
    let endless = frame(0x21, &vec![0; HTTP3_REQUEST_LEN_MAX]);
    assert_eq!(feed(&endless, 1000, false), Err(Fault::Stream(code::EXCESSIVE_LOAD)));
    let trailers = [post(ROOT), frame(kind::HEADERS, &vec![0; HTTP3_REQUEST_LEN_MAX])].concat();
    assert_eq!(feed(&trailers, 1000, false), Err(Fault::Stream(code::EXCESSIVE_LOAD)));
}

#[test]
fn broken_rules_end_the_connection() {
    let head = headers(&block("POST", "/dns-query", &[]));
    let after = |kind: u64| [head.clone(), frame(kind, &[0])].concat();
    let mut cases = vec![
        (frame(kind::DATA, ROOT), code::FRAME_UNEXPECTED),
        ([after(kind::HEADERS), frame(kind::DATA, ROOT)].concat(), code::FRAME_UNEXPECTED),
        ([after(kind::HEADERS), head.clone()].concat(), code::FRAME_UNEXPECTED),
        // It ends inside a frame, or inside what says how long the frame is.
        (after(kind::DATA)[..head.len() + 2].to_vec(), code::FRAME_ERROR),
        ([&head[..], &[0]].concat(), code::FRAME_ERROR),
        (head[..5].to_vec(), code::FRAME_ERROR),
    ];
    for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0xd] {
        cases.push((frame(kind, &[0]), code::FRAME_UNEXPECTED));
        cases.push((after(kind), code::FRAME_UNEXPECTED));
    }
    // What needs a dynamic table, numbers of no field, what is cut off, what is no text.
    let unreadable: [&[u8]; 14] = [
        &[],
        &[0],
        &[1, 0],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
        &[0, 0, 0x80],
        &[0, 0, 0x40, 0],
        &[0, 0, 0x10],
        &[0, 0, 0x00, 0],
        &[0, 0, 0xff, 0x24],
        &[0, 0, 0xff],
        &[0, 0, 0x51, 5, b'/'],
        &[0, 0, 0x51, 0x81, 0x00],
        &[0, 0, 0x27, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0, 0, 0x23, b'a'],
    ];
    cases.extend(unreadable.map(|block| (headers(block), code::DECOMPRESSION_FAILED)));
    for (octets, code) in cases {
        for size in [1, 1 << 20] {
            let ended = feed(&octets, size, true);
            assert_eq!(ended, Err(Fault::Connection(code)), "{octets:?}");
        }
    }
}

/// What comes of octets on streams in one direction, each in pieces of this size.
fn side(streams: &[&[u8]], size: usize) -> Result<Vec<Want>, u32> {
    let mut side = Side::default();
    let mut wants = Vec::new();
    for (number, octets) in (0..).zip(streams) {
        let mut want = Want::More;
        let mut offset = 0;
        for piece in octets.chunks(size) {
            want = side.take(number, offset, piece)?;
            offset += piece.len() as u64;
            if want == Want::Nothing {
                break;
            }
        }
        wants.push(want);
    }
    Ok(wants)
}

fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    [&[0][..], &frames.concat()].concat()
}

#[test]
fn streams_of_control_and_of_qpack_are_taken_and_others_stopped() {
    let said = control(&[
        frame(kind::SETTINGS, &[1, 0x40, 0x64, 6, 0x40, 0x64, 0x33, 1]),
        frame(kind::PUSHES, &[1]),
        frame(kind::PUSHES, &[9]),
        frame(0x21, &[0; 2000]),
        frame(0xf_0700, b"\0u=1"),
        frame(kind::GOAWAY, &[8]),
        frame(kind::GOAWAY, &[0]),
    ]);
    // A table of no octets; streams 1 and 1,000 given up.
    let (encoder, decoder) = ([2, 0x20, 0x20], [3, 0x41, 0x7f, 0xa9, 0x07]);
    for size in [1, 2, 5, 10_000] {
        let wants = side(&[&said, &encoder, &decoder, &[0x21, 1], &[0x54, 1, 2]], size);
        let (more, nothing) = (Want::More, Want::Nothing);
        assert_eq!(wants, Ok(vec![more, more, more, nothing, nothing]), "{size}");
    }
    assert_eq!(side(&[&greeting()], 3), Ok(vec![Want::More]));
    assert_eq!(side(&[&[greeting(), goaway(4)].concat()], 3), Ok(vec![Want::More]));
}

#[test]
fn broken_rules_on_streams_in_one_direction_end_the_connection() {
    let settings = || frame(kind::SETTINGS, &[]);
    let behind = |more: Vec<u8>| control(&[settings(), more]);
    let mut cases = vec![
        (control(&[frame(0x21, &[])]), code::MISSING_SETTINGS),
        (control(&[frame(kind::GOAWAY, &[0])]), code::MISSING_SETTINGS),
        (behind(settings()), code::FRAME_UNEXPECTED),
        (control(&[frame(kind::SETTINGS, &[1])]), code::FRAME_ERROR),
        (control(&[frame(kind::SETTINGS, &[6, 0x40])]), code::FRAME_ERROR),
        (control(&[frame(kind::SETTINGS, &[6, 1, 6, 1])]), code::SETTINGS_ERROR),
        (control(&[frame(kind::SETTINGS, &[3, 1])]), code::SETTINGS_ERROR),
        (
            control(&[frame(kind::SETTINGS, &vec![0; HTTP3_CONTROL_FRAME_MAX + 1])]),
            code::EXCESSIVE_LOAD,
        ),
        (behind(frame(kind::GOAWAY, &[])), code::FRAME_ERROR),
        (behind(frame(kind::GOAWAY, &[0, 0])), code::FRAME_ERROR),
        (behind([frame(kind::GOAWAY, &[0]), frame(kind::GOAWAY, &[4])].concat()), code::ID_ERROR),
        (behind([frame(kind::PUSHES, &[4]), frame(kind::PUSHES, &[3])].concat()), code::ID_ERROR),
        (behind(frame(kind::CANCEL_PUSH, &[0])), code::ID_ERROR),
        (behind(frame(0x21, &[]).repeat(HTTP3_IDLE_MAX + 1)), code::EXCESSIVE_LOAD),
        // A push, and instructions for a table that there is not.
        (vec![1, 0], code::STREAM_CREATION_ERROR),
        (vec![2, 0x3f, 0xe1, 0x1f], code::ENCODER_STREAM_ERROR),
        (vec![2, 0xc0, 0], code::ENCODER_STREAM_ERROR),
        (vec![3, 0x80], code::DECODER_STREAM_ERROR),
        (vec![3, 0x01], code::DECODER_STREAM_ERROR),
    ];
    for kind in [0, 1, 2, 5, 6, 8, 9] {
        cases.push((behind(frame(kind, &[0])), code::FRAME_UNEXPECTED));
    }
    for (octets, code) in cases {
        for size in [1, 1 << 20] {
            assert_eq!(side(&[&octets], size), Err(code), "{octets:?}");
        }
    }
    for kind in [0, 2, 3] {
        assert_eq!(side(&[&[kind], &[kind]], 1), Err(code::STREAM_CREATION_ERROR));
    }
    let endless: Vec<&[u8]> = vec![&[0x21]; HTTP3_IDLE_MAX + 1];
    assert_eq!(side(&endless, 1), Err(code::EXCESSIVE_LOAD));
}

#[test]
fn streams_that_the_connection_needs_do_not_end() {
    for kind in [0, 2, 3] {
        let mut side = Side::default();
        assert_eq!(side.take(7, 0, &[kind]), Ok(Want::More));
        assert_eq!(side.end(7), Err(code::CLOSED_CRITICAL_STREAM));
    }
    // One whose type has not come, and one without a meaning.
    let mut side = Side::default();
    assert_eq!(side.take(7, 0, &[0x40]), Ok(Want::More));
    assert_eq!((side.end(7), side.end(8)), (Ok(()), Ok(())));
}

#[test]
fn what_comes_early_waits_within_bounds() {
    let said = control(&[frame(kind::SETTINGS, &[]), frame(0x21, &[7; 30]), frame(0, &[])]);
    let mut side = Side::default();
    let last = said.len() - 1;
    // From the end to the beginning: the last frame is one that must not come.
    for at in (1..=last).rev().step_by(3) {
        let piece = &said[at.saturating_sub(2).max(1)..=at];
        let offset = at.saturating_sub(2).max(1) as u64;
        assert_eq!(side.take(3, offset, piece), Ok(Want::More), "{at}");
    }
    assert!(side.cost() >= last);
    assert_eq!(side.take(3, 0, &said[..1]), Err(code::FRAME_UNEXPECTED));
    let mut side = Side::default();
    let long = vec![0; HTTP3_EARLY_LEN_MAX];
    assert_eq!(side.take(3, 1, &long), Ok(Want::More));
    assert_eq!(side.take(3, 1 << 20, &[0]), Err(code::EXCESSIVE_LOAD));
    let mut side = Side::default();
    let refused = (1..).find(|at| side.take(3, at * 2, &[0]).is_err());
    assert_eq!(refused, Some(17));
}

#[test]
fn what_is_of_no_use_is_made_good_by_responses() {
    let mut side = Side::default();
    for _ in 0..10 * HTTP3_IDLE_MAX {
        assert_eq!(side.idled(1), Ok(()));
        side.responded();
    }
    let refused = (1..).find(|_| side.idled(1).is_err());
    assert_eq!(refused, Some(HTTP3_IDLE_MAX + 1));
}

#[test]
fn a_response_says_what_one_over_http2_does() {
    let mut counted = Counted::default();
    let mut answered = ROOT.to_vec();
    answered[2] |= 0x80;
    let mut octets = Vec::new();
    write(&answer(Some(&answered), NOW, &mut counted), &mut octets);
    let mut frames = frames::Frames::default();
    let mut rest = &octets[..];
    let (mut block, mut body) = (Vec::new(), Vec::new());
    while let Some(part) = frames.next(&mut rest) {
        match part {
            frames::Part::Content(kind::HEADERS, more) => block.extend_from_slice(more),
            frames::Part::Content(kind::DATA, more) => body.extend_from_slice(more),
            _ => {}
        }
    }
    assert!(frames.is_between() && rest.is_empty());
    assert_eq!(body, answered);
    // `:status` 200 and the type of DNS messages have numbers.
    assert_eq!(block[..3], [0, 0, 0xc0 | 25]);
    assert!(block.contains(&(0xc0 | 44)), "{block:?}");
    let has = |text: &str| block.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("max-age=5") && has("17") && has("Thu, 01 Jan 1970 00:00:00 GMT"), "{block:?}");
    assert_eq!(counted.each().map(|(status, count)| (status.code(), count)).next(), Some((200, 1)));
}

#[test]
fn random_octets_do_no_harm() {
    let mut state = 1_u64;
    let mut random = |end: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let good = [post(ROOT), headers(&block("GET", "/dns-query?dns=AA", &[]))].concat();
    for _ in 0..20_000 {
        let mut octets = good.clone();
        for _ in 0..=random(5) {
            let at = random(octets.len());
            octets[at] = random(256) as u8;
        }
        let size = 1 + random(octets.len());
        _ = feed(&octets, size, true);
        let mut side = Side::default();
        let mut kind = Vec::new();
        put_number(random(4) as u64, &mut kind);
        if side.take(0, 0, &kind) == Ok(Want::More) {
            _ = side.take(0, kind.len() as u64, &octets);
        }
    }
}
