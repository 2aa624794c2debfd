//! Primaries within TLS and over QUIC that do not behave: the log says what was wrong.

use super::authority::Authority;
use nodens_core::config::BuildOptions;
use nodens_core::log::{Record, Sink};
use nodens_core::{Config, Shared, build};
use nodens_net::Secondaries;
use nodens_testkit::PATIENCE;
use nodens_zone::Zone;
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

struct Secondary {
    config: Config,
    log: Receiver<Record>,
    _keeper: Secondaries,
}

impl Secondary {
    /// With a primary there that has to be `dns.example`.
    fn start(authority: &Authority, primary: &str) -> Self {
        let corefile = format!(
            "example.org:0 {{\n secondary {{\n  transfer from {primary}\n  tls {}\n  tls_servername \
             dns.example\n }}\n}}",
            authority.certificate_path()
        );
        let (sender, log) = sync_channel(1 << 10);
        let shared = Arc::new(Shared::new(1, Sink::new(sender.clone())));
        let tree = nodens_corefile::parse("Corefile", &corefile, &nodens_corefile::NoSources);
        let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
        let keeper = Secondaries::start(&config.services.secondaries, Sink::new(sender)).unwrap();
        Self { config, log, _keeper: keeper }
    }

    /// What is said of the first failure.
    fn failure(&self) -> String {
        let (until, mut seen) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(Record::Line { text, .. }) if text.starts_with("Failed to transfer") => {
                    return text;
                }
                Ok(Record::Line { text, .. }) => seen.push(text),
                Ok(_) => {}
                Err(error) => panic!("{error}: {seen:?}"),
            }
        }
    }

    fn has_zone(&self) -> bool {
        let own = &self.config.services.secondaries[0].configured[0];
        own.zone.soa().is_some()
    }
}

/// A server that does this with each connection.
fn listener(mut react: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(&mut react));
    address
}

/// One that speaks this version of TLS, and reads what it is asked.
fn tls(authority: &Authority, version: &'static SupportedProtocolVersion) -> SocketAddr {
    let (chain, key) = authority.pair();
    let config = ServerConfig::builder_with_protocol_versions(&[version])
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    listener(move |stream| {
        let session = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        let mut octets = [0; 512];
        // It has nothing to say, and closes once it is asked.
        _ = stream.read(&mut octets);
    })
}

#[test]
fn what_is_wrong_with_a_primary_within_tls_is_said() {
    let authority = Authority::new();
    let of = |address: SocketAddr| {
        let secondary = Secondary::start(&authority, &format!("tls://{address}"));
        let text = secondary.failure();
        assert!(!secondary.has_zone());
        let begin = format!("Failed to transfer example.org. from tls://{address}: ");
        text.strip_prefix(&begin).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let old = of(tls(&authority, &rustls::version::TLS12));
    assert_eq!(old, "the primary speaks TLSv1_2, and transfers need TLS 1.3");
    let silent = of(tls(&authority, &rustls::version::TLS13));
    assert!(silent.ends_with(" after the handshake: does it want a certificate?"), "{silent}");
    // What it has not read makes the system say that it has gone.
    let ended = ["the primary closed the connection", "connection reset by peer"];
    let gone = of(listener(drop));
    assert!(ended.contains(&gone.as_str()), "{gone}");
    let plain = of(listener(|mut stream| {
        _ = stream.write_all(b"\x00\x0c\x12\x34\x80\x05\0\0\0\0\0\0\0\0");
        _ = stream.read(&mut [0; 512]);
    }));
    assert!(plain.contains("tls: "), "{plain}");
    let closed = nodens_testkit::free_address();
    assert_eq!(of(closed), "connection refused");
    // Another certificate, which nobody vouches for.
    let unknown = of(tls(&Authority::new(), &rustls::version::TLS13));
    assert!(unknown.contains("certificate"), "{unknown}");
}

#[test]
fn a_handshake_has_its_time() {
    let authority = Authority::new();
    let mut held = Vec::new();
    let address = listener(move |stream| held.push(stream));
    let since = Instant::now();
    let secondary = Secondary::start(&authority, &format!("tls://{address}"));
    assert!(secondary.failure().ends_with(": the handshake timed out"));
    assert!(since.elapsed() > Duration::from_secs(4), "{:?}", since.elapsed());
}

#[test]
fn what_is_wrong_with_a_primary_over_quic_is_said() {
    let authority = Authority::new();
    let of =
        |address: SocketAddr| Secondary::start(&authority, &format!("quic://{address}")).failure();
    let closed = nodens_testkit::free_address();
    let refused = of(closed);
    assert!(refused.ends_with(&format!("from quic://{closed}: connection refused")), "{refused}");
    // One that is silent.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let timed_out = of(silent.local_addr().unwrap());
    assert!(timed_out.ends_with("timed out"), "{timed_out}");
    // What comes from others is no QUIC.
    let noisy = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = noisy.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut octets = [0; 2000];
        while let Ok((_, from)) = noisy.recv_from(&mut octets) {
            _ = noisy.send_to(&[0x80; 1200], from);
        }
    });
    let noise = of(address);
    assert!(noise.ends_with("timed out"), "{noise}");
}
