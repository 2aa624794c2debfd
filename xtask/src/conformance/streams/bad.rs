//! What no client should send: frames, requests, calls and streams that are wrong around the message. Messages that are
//! wrong in themselves are questions of cases, over every transport.

use ::http::Method;
use bytes::Bytes;

use super::framed::{Stream, frame};
use super::http::{self, Ask, PATH, path_of};
use super::{Connection, Reply, quic};
use crate::conformance::transports::Transport;
use nodens_judge::answer::Outcome;

/// Something bad of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bad {
    Frame(&'static str, fn(&[u8]) -> Frames),
    Request(&'static str, fn(&[u8]) -> Asked),
    Call(&'static str, fn(&[u8]) -> Call),
    Stream(&'static str, fn(&[u8]) -> Vec<u8>),
}

/// The writes of a client, and whether it ends the stream.
pub(crate) struct Frames {
    parts: Vec<Vec<u8>>,
    end: bool,
}

/// A request of HTTP.
pub(crate) struct Asked(Ask);

/// A call of gRPC.
pub(crate) struct Call {
    path: &'static str,
    content_type: &'static str,
    body: Bytes,
}

impl Bad {
    /// As reports name it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Bad::Frame(name, _)
            | Bad::Request(name, _)
            | Bad::Call(name, _)
            | Bad::Stream(name, _) => name,
        }
    }

    /// All that is bad over a transport.
    pub(crate) fn of(transport: Transport) -> &'static [Bad] {
        match transport {
            Transport::Udp | Transport::HttpsGet => &[],
            Transport::Tcp | Transport::Tls => FRAMES,
            Transport::Https | Transport::Https3 => REQUESTS,
            Transport::Grpc => CALLS,
            Transport::Quic => STREAMS,
        }
    }
}

fn sent(parts: Vec<Vec<u8>>) -> Frames {
    Frames { parts, end: false }
}

fn ended(parts: Vec<Vec<u8>>) -> Frames {
    Frames { parts, end: true }
}

const FRAMES: &[Bad] = &[
    Bad::Frame("a length of zero", |_| sent(vec![vec![0, 0]])),
    Bad::Frame("a length of zero before a query", |query| {
        sent(vec![[&[0, 0][..], &frame(query)].concat()])
    }),
    Bad::Frame("half a length and the end", |_| ended(vec![vec![0]])),
    Bad::Frame("a length and the end", |query| ended(vec![frame(query)[..2].to_vec()])),
    Bad::Frame("half a message and the end", |query| ended(vec![frame(query)[..14].to_vec()])),
    Bad::Frame("a length beyond the message, and the end", |query| {
        ended(vec![[&[0xff, 0xff][..], query].concat()])
    }),
    Bad::Frame("a length within the message", |query| {
        let length = u8::try_from(query.len() - 3).unwrap_or(12);
        ended(vec![[&[0, length][..], query].concat()])
    }),
    Bad::Frame("a message of five octets", |_| sent(vec![frame(&[0, 7, 1, 0, 0])])),
    Bad::Frame("a header alone", |query| sent(vec![frame(&query[..12])])),
    Bad::Frame("a response before a query", |query| {
        let mut response = query.to_vec();
        response[0] ^= 0x55;
        response[2] |= 0x80;
        sent(vec![frame(&response), frame(query)])
    }),
    Bad::Frame("a message of five octets before a query", |query| {
        sent(vec![frame(&[0, 7, 1, 0, 0]), frame(query)])
    }),
    Bad::Frame("an octet in each write", |query| {
        sent(frame(query).chunks(1).map(<[u8]>::to_vec).collect())
    }),
    Bad::Frame("a query and the end", |query| ended(vec![frame(query)])),
    Bad::Frame("a request of HTTP", |_| {
        ended(vec![b"GET /dns-query HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()])
    }),
];

fn post(change: impl FnOnce(&mut Ask), query: &[u8]) -> Asked {
    let mut ask = Ask::post(query);
    change(&mut ask);
    Asked(ask)
}

fn get(path: String) -> Asked {
    Asked(Ask::get(path))
}

const REQUESTS: &[Bad] = &[
    Bad::Request("another path", |query| post(|ask| ask.path = "/other".to_owned(), query)),
    Bad::Request("a slash behind the path", |query| post(|ask| ask.path.push('/'), query)),
    Bad::Request("a query in the path of a POST", |query| {
        post(|ask| ask.path.push_str("?dns=AAAA"), query)
    }),
    Bad::Request("another type", |query| {
        post(|ask| ask.content_type = Some("application/json"), query)
    }),
    Bad::Request("no type", |query| post(|ask| ask.content_type = None, query)),
    Bad::Request("no body", |query| post(|ask| ask.body = Bytes::new(), query)),
    Bad::Request("a body of five octets", |query| {
        post(|ask| ask.body = ask.body.slice(..5), query)
    }),
    Bad::Request("half a message", |query| {
        post(|ask| ask.body = ask.body.slice(..ask.body.len() - 3), query)
    }),
    Bad::Request("octets behind the message", |query| {
        post(|ask| ask.body = Bytes::from([query, &[1, 2, 3]].concat()), query)
    }),
    Bad::Request("a body of 65535 octets", |query| {
        post(|ask| ask.body = padded(query, 65_535), query)
    }),
    Bad::Request("a body of 65537 octets", |query| {
        post(|ask| ask.body = padded(query, 65_537), query)
    }),
    Bad::Request("the method PUT", |query| post(|ask| ask.method = Method::PUT, query)),
    Bad::Request("the method HEAD", |query| {
        let mut ask = Ask::get(path_of(query));
        ask.method = Method::HEAD;
        Asked(ask)
    }),
    Bad::Request("a GET without a query", |_| get(PATH.to_owned())),
    Bad::Request("a GET of another query", |_| get(format!("{PATH}?name=a.example"))),
    Bad::Request("a GET of no octets", |_| get(format!("{PATH}?dns="))),
    Bad::Request("a GET of no base64", |_| get(format!("{PATH}?dns=!!!!"))),
    Bad::Request("a GET with padding", |query| {
        get(format!("{}==", path_of(&query[..query.len() - query.len() % 3 - 2])))
    }),
    Bad::Request("a GET of two queries", |query| get(format!("{}&dns=AAAA", path_of(query)))),
    Bad::Request("a GET with more behind", |query| get(format!("{}&a=b", path_of(query)))),
    Bad::Request("a GET with more before", |query| get(path_of(query).replace("?dns", "?a=b&dns"))),
    Bad::Request("a GET of half a message", |query| get(path_of(&query[..query.len() - 3]))),
];

fn padded(query: &[u8], length: usize) -> Bytes {
    let mut body = query.to_vec();
    body.resize(length, 0);
    Bytes::from(body)
}

fn call(body: Bytes) -> Call {
    Call { path: http::METHOD, content_type: "application/grpc", body }
}

const CALLS: &[Bad] = &[
    Bad::Call("no frame", |_| call(Bytes::new())),
    Bad::Call("an empty message", |_| call(http::with_head(0, &[]))),
    Bad::Call("a field of no octets", |_| call(http::grpc_frame(&[]))),
    Bad::Call("half a frame", |query| {
        let frame = http::grpc_frame(query);
        call(frame.slice(..frame.len() - 4))
    }),
    Bad::Call("half a message", |query| call(http::grpc_frame(&query[..query.len() - 3]))),
    Bad::Call("a flag of compression", |query| call(http::with_head(1, &http::grpc_frame(query)))),
    Bad::Call("a field that is unknown", |query| {
        let known = http::grpc_frame(query);
        call(http::with_head(0, &[&known[5..], &[0x10, 7]].concat()))
    }),
    Bad::Call("no protobuf", |_| call(http::with_head(0, &[0xff; 9]))),
    Bad::Call("two frames", |query| {
        let frame = http::grpc_frame(query);
        call(Bytes::from([&frame[..], &frame[..]].concat()))
    }),
    Bad::Call("another method", |query| Call {
        path: "/coredns.dns.DnsService/Other",
        ..call(http::grpc_frame(query))
    }),
    Bad::Call("another service", |query| Call {
        path: "/other.Service/Query",
        ..call(http::grpc_frame(query))
    }),
    Bad::Call("another type", |query| Call {
        content_type: "application/json",
        ..call(http::grpc_frame(query))
    }),
];

const STREAMS: &[Bad] = &[
    Bad::Stream("no octets", |_| Vec::new()),
    Bad::Stream("half a length", |_| vec![0]),
    Bad::Stream("a length of zero", |_| vec![0, 0]),
    Bad::Stream("a length beyond the message", |query| {
        [&[0xff, 0xff][..], &quic::without_id(query)].concat()
    }),
    Bad::Stream("a length within the message", |query| {
        let length = u8::try_from(query.len() - 3).unwrap_or(12);
        [&[0, length][..], &quic::without_id(query)].concat()
    }),
    Bad::Stream("a message of five octets", |_| frame(&[0, 0, 1, 0, 0])),
    Bad::Stream("an ID that is not zero", frame),
    Bad::Stream("two messages", |query| frame(&quic::without_id(query)).repeat(2)),
    Bad::Stream("no length", quic::without_id),
];

/// Sends it; what came of it.
pub(super) async fn send(connection: &mut Connection, bad: &Bad, query: &[u8]) -> Reply {
    match (bad, connection) {
        (Bad::Frame(_, make), Connection::Framed(stream)) => {
            Reply::bare(send_frames(stream, &make(query)).await)
        }
        (Bad::Request(_, make), Connection::Http(requests)) => {
            http::send(requests, &make(query).0).await
        }
        (Bad::Request(_, make), Connection::Http3(http3)) => http3.send(&make(query).0).await,
        (Bad::Call(_, make), Connection::Http(requests)) => {
            let call = make(query);
            http::call_method(requests, call.path, call.content_type, call.body).await
        }
        (Bad::Stream(_, make), Connection::Quic(connection)) => {
            Reply::bare(quic::send(connection, &make(query)).await)
        }
        // invariant: `Bad::of` gives each transport its own kind.
        _ => Reply::bare(Outcome::Refused("not sent".to_owned())),
    }
}

/// The first answer, whatever it answers.
async fn send_frames(stream: &mut Stream, frames: &Frames) -> Outcome {
    let parts: Vec<&[u8]> = frames.parts.iter().map(Vec::as_slice).collect();
    // A connection that the server has closed shows when reading.
    drop(stream.send(&parts, frames.end).await);
    stream.read(None).await
}
