//! What a reader of frame streams gets from the real program. This one needs nothing installed;
//! `dnstap -u`, `fstrm_capture` and `dnstap-read` read the same.

use crate::fixture::{Folder, PATIENCE, Server};
use nodens_wire::{Message, Type};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";

fn word(stream: &mut UnixStream) -> u32 {
    let mut word = [0; 4];
    stream.read_exact(&mut word).unwrap();
    u32::from_be_bytes(word)
}

/// A frame: of data, or with `true` of control.
fn frame(stream: &mut UnixStream) -> (bool, Vec<u8>) {
    let first = word(stream);
    let len = if first == 0 { word(stream) } else { first };
    let mut octets = vec![0; len as usize];
    stream.read_exact(&mut octets).unwrap();
    (first == 0, octets)
}

fn control(kind: u32) -> Vec<u8> {
    let mut frame = kind.to_be_bytes().to_vec();
    if kind != 5 {
        frame.extend(1_u32.to_be_bytes());
        frame.extend((CONTENT_TYPE.len() as u32).to_be_bytes());
        frame.extend(CONTENT_TYPE);
    }
    frame
}

fn send(stream: &mut UnixStream, kind: u32) {
    let frame = control(kind);
    let len = (frame.len() as u32).to_be_bytes();
    stream.write_all(&[&[0; 4], &len[..], &frame].concat()).unwrap();
}

#[derive(Debug, Clone)]
enum Field {
    Number(u64),
    Octets(Vec<u8>),
}

/// The fields of a message of protocol buffers.
fn fields(mut octets: &[u8]) -> BTreeMap<u64, Field> {
    fn varint(octets: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = octets.split_first().unwrap();
            *octets = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = BTreeMap::new();
    while !octets.is_empty() {
        let key = varint(&mut octets);
        let len = match key & 7 {
            0 => {
                fields.insert(key >> 3, Field::Number(varint(&mut octets)));
                continue;
            }
            2 => varint(&mut octets) as usize,
            5 => 4,
            kind => panic!("wire type {kind}"),
        };
        let (value, rest) = octets.split_at(len);
        fields.insert(key >> 3, Field::Octets(value.to_vec()));
        octets = rest;
    }
    fields
}

fn number(fields: &BTreeMap<u64, Field>, field: u64) -> u64 {
    match fields.get(&field) {
        Some(Field::Number(number)) => *number,
        other => panic!("field {field} is {other:?}"),
    }
}

fn octets(fields: &BTreeMap<u64, Field>, field: u64) -> Vec<u8> {
    match fields.get(&field) {
        Some(Field::Octets(octets)) => octets.clone(),
        other => panic!("field {field} is {other:?}"),
    }
}

#[test]
fn a_reader_gets_what_was_asked_and_answered_and_is_told_the_end() {
    let folder = Folder::new("dnstap");
    let socket = folder.0.join("tap");
    let listener = UnixListener::bind(&socket).unwrap();
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n dnstap {} full {{\n identity me\n }}\n template IN A {{\n \
         answer \"{{{{ .Name }}}} 5 IN A 192.0.2.1\"\n }}\n}}",
        socket.display()
    );
    let server = Server::start("dnstap-server", &corefile);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(frame(&mut stream), (true, control(4)), "READY");
    send(&mut stream, 1);
    assert_eq!(frame(&mut stream), (true, control(2)), "START");
    let answer = server.ask("a.example", Type::A);
    let mut inner = Vec::new();
    for kind in [5, 6] {
        let (is_control, data) = frame(&mut stream);
        let outer = fields(&data);
        assert!(!is_control);
        assert_eq!((number(&outer, 15), octets(&outer, 1)), (1, b"me".to_vec()));
        inner.push(fields(&octets(&outer, 14)));
        assert_eq!(number(&inner[inner.len() - 1], 1), kind);
    }
    let [query, response] = &*inner else { panic!("two messages") };
    for fields in [query, response] {
        assert_eq!((number(fields, 2), number(fields, 3)), (1, 1), "INET, UDP");
        assert_eq!(octets(fields, 4), [127, 0, 0, 1]);
        let asked = Duration::from_secs(number(fields, 8));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(now >= asked && now - asked < 2 * PATIENCE, "{asked:?}");
    }
    assert_eq!(Message::parse(&octets(response, 14)).unwrap(), answer);
    assert_eq!(octets(query, 10)[2..], crate::fixture::request("a.example", Type::A)[2..]);
    let reader = std::thread::spawn(move || {
        let stop = frame(&mut stream);
        send(&mut stream, 5);
        stop
    });
    assert!(server.end("-TERM").success());
    assert_eq!(reader.join().unwrap(), (true, 3_u32.to_be_bytes().to_vec()), "STOP");
}
