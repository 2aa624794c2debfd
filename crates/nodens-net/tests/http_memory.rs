//! What connections of HTTP/2 take. In a binary of its own, because it counts the memory of the whole
//! process.

use nodens_core::config::BuildOptions;
use nodens_core::log::Sink;
use nodens_core::testing::request;
use nodens_core::{Shared, build};
use nodens_net::limits::{CONNECTION_LEN, HTTP2_COST};
use nodens_net::{Options, Runtime};
use nodens_testkit::alloc::{Counting, held};
use nodens_testkit::{PATIENCE, alone};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Method POST, scheme `http`, path and authority, as HPACK writes them.
const POST: &[u8] = b"\x83\x86\x04\x0a/dns-query\x01\x01x";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn start(corefile: &str) -> Runtime {
    let (sender, _) = std::sync::mpsc::sync_channel(16);
    let shared = Arc::new(Shared::new(1, Sink::new(sender)));
    let tree = nodens_corefile::parse("Corefile", corefile, &nodens_corefile::SystemSources);
    let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
    Runtime::start(shared, Arc::new(config), Options::default()).unwrap()
}

/// A connection that has sent its preface and these settings.
fn connect(server: SocketAddr, settings: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, settings)).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, number: u32, query: &[u8]) {
    stream.write_all(&frame(HEADERS, END_HEADERS, number, POST)).unwrap();
    stream.write_all(&frame(DATA, END, number, query)).unwrap();
}

/// Reads frames up to the end of a response.
fn wait_for(stream: &mut TcpStream, number: u32) {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; len as usize]).unwrap();
        if head[3] == DATA && head[4] & END > 0 && head[5..] == number.to_be_bytes() {
            return;
        }
    }
}

#[test]
fn an_idle_connection_takes_what_it_is_reckoned_to_take() {
    const COUNT: usize = 100;
    let _alone = alone();
    let runtime =
        start("https://.:0 {\n bind 127.0.0.1\n https {\n  max_connections 0\n }\n whoami\n}");
    let server = runtime.local_addresses()[0];
    let query = request("example.org. A");
    let mut first = connect(server, &[]);
    ask(&mut first, 1, &query);
    wait_for(&mut first, 1);
    let before = held().octets;
    let clients: Vec<_> = (0..COUNT)
        .map(|_| {
            let mut client = connect(server, &[]);
            for number in [1, 3, 5] {
                ask(&mut client, number, &query);
                wait_for(&mut client, number);
            }
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let each = (held().octets - before) / COUNT;
    assert!(each < HTTP2_COST + CONNECTION_LEN, "{each} octets each");
    // Nor is it reckoned to take far too much.
    assert!(each > HTTP2_COST / 2, "{each} octets each");
    drop(clients);
    runtime.shutdown(PATIENCE);
}

#[test]
fn requests_of_many_fields_are_not_kept_while_a_client_takes_no_responses() {
    let _alone = alone();
    let runtime =
        start("https://.:0 {\n bind 127.0.0.1\n https {\n  max_streams 1024\n }\n whoami\n}");
    // No room for any body.
    let mut client = connect(runtime.local_addresses()[0], &[0, 4, 0, 0, 0, 0]);
    // Names as long as they may be, so that responses are long too.
    let name = format!("{}org", ["a", "b", "c"].map(|part| part.repeat(60) + ".").concat());
    let query = request(&format!("{name}. A"));
    let before = held().octets;
    let mut most = 0;
    // As many as the window of the connection has room for.
    for number in 0..1000 {
        let stream = 2 * number + 1;
        if number < 240 {
            ask(&mut client, stream, &query);
            continue;
        }
        // A field of one octet, four hundred times.
        let fields = [POST, b"\x40\x01a\x01b", &[0xbe; 400]].concat();
        client.write_all(&frame(HEADERS, END_HEADERS, stream, &fields)).unwrap();
        most = most.max(held().octets.saturating_sub(before));
    }
    std::thread::sleep(Duration::from_millis(300));
    most = most.max(held().octets.saturating_sub(before));
    // The responses that wait, and what was refused.
    assert!((64 << 10..4 << 20).contains(&most), "{most} octets");
    runtime.shutdown(PATIENCE);
}
