//! Clients that try to make the server work or remember: frames by hand, and such that take nothing.

use super::clients::{One, Two};
use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, POST,
    REFUSED_STREAM, RST_STREAM, SETTINGS, frame, read,
};
use super::{COREFILE, query};
use crate::client::{PATIENCE, question};
use crate::server::{Server, eventually};
use crate::upstream::{Act, Upstream};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection of frames.
pub(super) struct Raw(TcpStream);

impl Raw {
    pub(super) fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut raw = Self(stream);
        assert!(raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        assert!(raw.send(&frame(SETTINGS, 0, 0, &[])));
        raw
    }

    /// The same connection, to send while this one waits for frames.
    pub(super) fn other_end(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    /// Whether the server takes these octets.
    pub(super) fn send(&mut self, octets: &[u8]) -> bool {
        self.0.write_all(octets).is_ok()
    }

    /// Sends the same again and again; whether the server stops taking them before all are sent.
    fn is_stopped(&mut self, octets: &[u8], times: usize) -> bool {
        (0..times).any(|_| !self.send(octets))
    }

    /// The next frame: kind, stream and payload; nothing at the end.
    pub(super) fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        read(&mut self.0).map(|(kind, _, stream, payload)| (kind, stream, payload))
    }

    /// The error of the GOAWAY that ends the connection.
    pub(super) fn goodbye(&mut self) -> Option<u32> {
        loop {
            let (kind, _, payload) = self.frame()?;
            if kind == GOAWAY {
                return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
    }
}

/// Others are served, and little is held.
fn assert_fine(server: &Server) {
    assert_eq!(One::connect(server.address()).post(&query(1)).status, 200);
    let held = server.count("nodens_tcp_held_bytes");
    assert!(held <= 1 << 20, "{held} octets are held");
}

#[test]
fn requests_that_are_reset_at_once_end_the_connection() {
    let server = Server::start(COREFILE);
    let mut raw = Raw::connect(server.address());
    let pairs: Vec<u8> = (0..1000)
        .flat_map(|number| {
            let stream = 2 * number + 1;
            let reset = frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            [frame(HEADERS, END_HEADERS, stream, POST), reset].concat()
        })
        .collect();
    _ = raw.send(&pairs);
    assert_eq!(raw.goodbye(), Some(ENHANCE_YOUR_CALM));
    assert_fine(&server);
    server.stop();
}

#[test]
fn queries_whose_requests_are_reset_count_until_they_are_answered() {
    let upstream = Upstream::start(|_| vec![Act::Wait(PATIENCE)]);
    let corefile = format!("https://.:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let server = Server::start(&corefile);
    let mut raw = Raw::connect(server.address());
    for number in 0..400_u16 {
        let stream = 2 * u32::from(number) + 1;
        let message = question(number, &format!("{number}.test A"));
        let head = frame(HEADERS, END_HEADERS, stream, POST);
        let request = [head, frame(DATA, END_STREAM, stream, &message)].concat();
        // Apart, so that the server has looked at the request when the reset comes.
        _ = raw.send(&request);
        std::thread::sleep(Duration::from_micros(300));
        _ = raw.send(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    eventually("queries to be asked", || upstream.count() >= 100);
    std::thread::sleep(Duration::from_millis(200));
    // As many as may be under way, and those whose octets had been read with them.
    assert!(upstream.count() <= 256, "{}", upstream.count());
    server.stop();
}

#[test]
fn fields_without_end_and_bombs_of_them_are_not_kept() {
    let server = Server::start(COREFILE);
    // CONTINUATION after CONTINUATION.
    let mut raw = Raw::connect(server.address());
    assert!(raw.send(&frame(HEADERS, 0, 1, POST)));
    let more = frame(CONTINUATION, 0, 1, &[&b"\0\x01a\x7f\xa1\x1d"[..], &[b'b'; 4000]].concat());
    assert!(raw.is_stopped(&more, 100_000));
    assert_fine(&server);
    // An entry of the table, named again and again.
    let mut raw = Raw::connect(server.address());
    let entry = [&b"\x40\x01a\x7f\xa1\x1e"[..], &[b'b'; 4000]].concat();
    let bomb = [POST, &entry, &[0xbe; 10_000]].concat();
    assert!(raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)));
    // A response with status 431, or the end.
    let kinds: Vec<u8> = std::iter::from_fn(|| raw.frame())
        .map(|(kind, ..)| kind)
        .find(|kind| [HEADERS, RST_STREAM, GOAWAY].contains(kind))
        .into_iter()
        .collect();
    assert_eq!(kinds.len(), 1);
    // The same in a request of a client that is not at fault for it, and in HTTP/1.1.
    let target = format!("/dns-query?dns={}", "A".repeat(15_000));
    let mut two = Two::connect(server.address());
    let reply = two.block_on(async |client| client.send("GET", &target, b"").await);
    assert_eq!(reply.status, 400);
    assert_eq!(One::connect(server.address()).request("GET", &target, b"").status, 400);
    let target = format!("/dns-query?dns={}", "A".repeat(17_000));
    assert_eq!(One::connect(server.address()).request("GET", &target, b"").status, 431);
    assert_fine(&server);
    server.stop();
}

#[test]
fn frames_that_want_an_answer_are_not_read_while_answers_are_not() {
    let server = Server::start(COREFILE);
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]);
    let ping = frame(PING, 0, 0, &[7; 8]);
    for flood in [settings, ping] {
        let mut raw = Raw::connect(server.address());
        // 100 MiB and more.
        assert!(raw.is_stopped(&flood.repeat(1000), 10_000));
        assert_fine(&server);
    }
    server.stop();
}

#[test]
fn requests_that_are_not_whole_are_few_and_small() {
    let server = Server::start(COREFILE);
    let mut raw = Raw::connect(server.address());
    for number in 0..300 {
        assert!(raw.send(&frame(HEADERS, END_HEADERS, 2 * number + 1, POST)));
    }
    let refused: Vec<u32> = std::iter::from_fn(|| raw.frame())
        .filter(|(kind, _, payload)| *kind == RST_STREAM && payload[3] == REFUSED_STREAM as u8)
        .map(|(_, stream, _)| stream)
        .take(50)
        .collect();
    assert_eq!((refused.len(), refused[0]), (50, 501));
    assert_fine(&server);
    // Bodies octet by octet: what is not looked at yet is bounded, and so is what is.
    let octet = frame(DATA, 0, 1, b"x");
    assert!(raw.is_stopped(&octet.repeat(1000), 1000));
    assert_fine(&server);
    server.stop();
}

#[test]
fn responses_that_nobody_makes_room_for_are_bounded_and_given_up() {
    let upstream = Upstream::start(|asked| vec![Act::Send(asked.long_answer(1200))]);
    let corefile = format!(
        "https://.:0 {{\n bind 127.0.0.1\n timeouts {{\n  write 1s\n  idle 20s\n }}\n forward . {}\n}}",
        upstream.address
    );
    let server = Server::start(&corefile);
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let mut two = Two::with(server.address(), &builder);
    two.block_on(async |client| {
        let mut heads = Vec::new();
        for id in 0..240 {
            let name = format!("{id}.test TXT");
            let (mut stream, response) = client.begin("POST", "/dns-query");
            stream.send_data(question(id, &name).into(), true).unwrap();
            heads.push(response);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        // As much as is asked for before it is taken, and what was under way by then.
        let held = server.count("nodens_tcp_held_bytes");
        assert!((64 << 10..640 << 10).contains(&held), "{held} octets are held");
        let (mut reset, mut cut) = (0, 0);
        for response in heads {
            // The head comes without room for the body.
            match response.await {
                Err(_) => reset += 1,
                Ok(response) => {
                    cut += usize::from(response.into_body().data().await.unwrap().is_err())
                }
            }
        }
        // All that were responded to were given up a second later.
        assert_eq!(reset + cut, 240);
    });
    // After that there is room for others.
    assert_eq!(server.count("nodens_tcp_closed_total{reason=\"unread\"}"), 0);
    assert!(server.count("nodens_tcp_held_bytes") <= 1 << 20);
    server.stop();
}

#[test]
fn noise_is_answered_or_closed() {
    let server = Server::start(COREFILE);
    for noise in [&b"\x16\x03\x01\0\x05hello"[..], b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", &[0; 300]] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(noise).unwrap();
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        assert!(!end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{noise:?}");
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 4") || rest.starts_with(b"HTTP/1.1 5")
        );
    }
    // Frames that are none.
    for noise in [frame(DATA, 0, 0, b"x"), frame(HEADERS, END_HEADERS, 2, POST), vec![0xff; 9]] {
        let mut raw = Raw::connect(server.address());
        _ = raw.send(&noise);
        assert!(raw.goodbye().is_some(), "{noise:?}");
    }
    assert_fine(&server);
    server.stop();
}
