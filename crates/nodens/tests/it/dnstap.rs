//! What a reader of frame streams gets from the real program. This one needs nothing installed;
//! `dnstap -u`, `fstrm_capture` and `dnstap-read` read the same.

use crate::fixture::{Folder, PATIENCE, Server, free_port, nodens};
use nodens_wire::{Message, Type};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";

fn word(stream: &mut impl Read) -> u32 {
    let mut word = [0; 4];
    stream.read_exact(&mut word).unwrap();
    u32::from_be_bytes(word)
}

/// A frame: of data, or with `true` of control.
fn frame(stream: &mut impl Read) -> (bool, Vec<u8>) {
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

fn send(stream: &mut impl Write, kind: u32) {
    let frame = control(kind);
    let len = (frame.len() as u32).to_be_bytes();
    stream.write_all(&[&[0; 4], &len[..], &frame].concat()).unwrap();
}

/// Says that this is a reader, and hears that messages follow.
fn greet(stream: &mut (impl Read + Write)) {
    assert_eq!(frame(stream), (true, control(4)), "READY");
    send(stream, 1);
    assert_eq!(frame(stream), (true, control(2)), "START");
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
    greet(&mut stream);
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

/// A reader with a certificate for `name`, which is in a file of `folder`, too.
struct TlsReader {
    listener: TcpListener,
    config: Arc<ServerConfig>,
    certificate: std::path::PathBuf,
}

impl TlsReader {
    fn new(folder: &Folder, name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let certificate = folder.write(&format!("{name}.pem"), &made.cert.pem());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { listener, config: Arc::new(config), certificate }
    }

    /// The next connection that agrees on a session; those that do not are waited for no longer.
    fn accept(&self) -> StreamOwned<ServerConnection, TcpStream> {
        loop {
            let (stream, _) = self.listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let connection = ServerConnection::new(self.config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            if stream.conn.complete_io(&mut stream.sock).is_ok() {
                return stream;
            }
        }
    }

    /// A server that writes to it and takes `authorities` for good.
    fn server(&self, name: &str, authorities: &Path, options: &str) -> Server {
        let (folder, port) = (Folder::new(name), free_port());
        let reader = self.listener.local_addr().unwrap();
        let conf = folder.write(
            "Corefile",
            &format!(
                ".:{port} {{\n bind 127.0.0.1\n dnstap tls://{reader} full {{\n extra \"{{name}}\"\n \
                 {options}\n }}\n whoami\n}}"
            ),
        );
        let mut command = nodens();
        command.args(["-p", &port.to_string()]).arg("-conf").arg(conf);
        command.env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR");
        let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
        server.wait_for("Nodens-");
        server
    }
}

#[test]
fn a_reader_over_tls_gets_the_same_if_it_is_who_it_should_be() {
    let folder = Folder::new("dnstap-tls");
    let reader = TlsReader::new(&folder, "127.0.0.1");
    let other = TlsReader::new(&folder, "other.test");
    for (name, authorities, options) in [
        ("dnstap-trusted", &reader.certificate, ""),
        ("dnstap-skipverify", &other.certificate, "skipverify"),
    ] {
        let server = reader.server(name, authorities, options);
        let mut stream = reader.accept();
        greet(&mut stream);
        let answer = server.ask("a.example", Type::A);
        for kind in [5, 6] {
            let outer = fields(&frame(&mut stream).1);
            assert_eq!(octets(&outer, 3), b"a.example.");
            let inner = fields(&octets(&outer, 14));
            assert_eq!(number(&inner, 1), kind);
            if kind == 6 {
                assert_eq!(Message::parse(&octets(&inner, 14)).unwrap(), answer);
            }
        }
        let ends = std::thread::spawn(move || {
            let stop = frame(&mut stream);
            send(&mut stream, 5);
            // It says that it has gone, too.
            (stop, stream.read(&mut [0]).map_err(|error| error.kind()))
        });
        assert!(server.end("-TERM").success());
        let stop = (true, 3_u32.to_be_bytes().to_vec());
        assert_eq!(ends.join().unwrap(), (stop, Ok(0)), "{name}");
    }
}

#[test]
fn a_reader_over_tls_that_is_somebody_else_gets_nothing() {
    let folder = Folder::new("dnstap-strange");
    let [reader, other] = ["127.0.0.1", "other.test"].map(|name| TlsReader::new(&folder, name));
    // One from an authority that is not trusted, and one for another name.
    for (name, reader, authorities, why) in [
        ("dnstap-unknown", &reader, &other.certificate, "invalid peer certificate"),
        ("dnstap-misnamed", &other, &other.certificate, "not valid for name"),
    ] {
        let server = reader.server(name, authorities, "");
        let line = std::thread::scope(|scope| {
            scope.spawn(|| {
                // A handshake wants an answer, or it is the patience that ends it.
                let (stream, _) = reader.listener.accept().unwrap();
                let connection = ServerConnection::new(reader.config.clone()).unwrap();
                let mut stream = StreamOwned::new(connection, stream);
                // In TLS 1.3 the refusal comes after what we take for the end of the handshake.
                let done = stream.conn.complete_io(&mut stream.sock);
                assert!(done.is_err() || stream.read(&mut [0]).is_err(), "{name}");
            });
            server.wait_for("No connection to dnstap endpoint: ")
        });
        assert!(line.contains(why), "{line}");
        server.ask("a.example", Type::A);
    }
}
