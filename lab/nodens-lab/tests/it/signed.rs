//! Signed updates against a real Knot DNS: it takes what the lab signs, with every algorithm, and does
//! what the updates say.

use crate::lab;
use crate::load::json;
use lab_load::Workload;
use nodens_wire::{Message, Name, Type};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Algorithms as dnsperf's flag names them.
const ALGORITHMS: [&str; 6] =
    ["hmac-md5", "hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"];
/// The secret of all keys, in base64.
const SECRET: &str = "YSBzZWNyZXQgZm9yIHRlc3RzIG9ubHk=";
/// Generous: a busy machine starts Knot slowly.
const START_MAX: Duration = Duration::from_secs(60);

/// A Knot with a zone that signed updates may change, killed with the value.
struct Knot {
    child: Child,
    port: u16,
}

impl Knot {
    fn start(folder: &Path) -> Self {
        let found = Path::new("/usr/sbin/knotd").exists();
        assert!(found, "`knotd` is missing: apt-get install knot (or `make setup`)");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let keys = ALGORITHMS.map(|algorithm| {
            format!("  - id: key-{algorithm}\n    algorithm: {algorithm}\n    secret: {SECRET}\n")
        });
        let ids = ALGORITHMS.map(|algorithm| format!("key-{algorithm}")).join(", ");
        let place = folder.display();
        let text = format!(
            "server:\n    rundir: {place}\n    listen: 127.0.0.1@{port}\n\
             database:\n    storage: {place}\n\
             key:\n{}\
             acl:\n  - id: update\n    key: [{ids}]\n    action: update\n\
             zone:\n  - domain: example.com\n    storage: {place}\n    file: zone\n    acl: update\n",
            keys.concat()
        );
        let zone = "@ 60 SOA ns hostmaster 1 60 60 60 60\n@ 60 NS ns\nns 60 A 127.0.0.1\n";
        std::fs::write(folder.join("zone"), zone).unwrap();
        std::fs::write(folder.join("knot.conf"), text).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("/usr/sbin/knotd")
            .arg("-c")
            .arg(folder.join("knot.conf"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let knot = Self { child, port };
        let begin = Instant::now();
        while knot.address("ns.example.com").is_none() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap();
            assert!(begin.elapsed() < START_MAX, "no answer from Knot: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        knot
    }

    /// The address of a name, if it has one.
    fn address(&self, name: &str) -> Option<Vec<u8>> {
        let mut workload = Workload::new(0);
        workload.push(Name::parse(name).unwrap().view(), Type::A, None);
        let mut query = Vec::new();
        workload.append(0, 1, &mut query);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send(&query).unwrap();
        let mut response = [0; 512];
        let len = socket.recv(&mut response).ok()?;
        let message = Message::parse(&response[..len]).unwrap();
        message.answer.first().map(|record| record.rdata.clone())
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn knot_takes_updates_signed_with_every_algorithm() {
    let folder = tempfile::tempdir().unwrap();
    let knot = Knot::start(folder.path());
    let port = knot.port.to_string();
    let file = folder.path().join("updates");
    let load = |key: &str| {
        let file = file.to_str().unwrap();
        let mode =
            ["load", "-p", &port, "-u", "-d", file, "-y", key, "-n", "2", "-Q", "4", "-c", "1"];
        let rest = ["--arrivals", "uniform", "-t", "60", "-l", "5", "--no-version", "--json"];
        json(&lab(&[&mode[..], &rest].concat()))
    };
    for (at, algorithm) in ALGORITHMS.iter().enumerate() {
        let text = format!(
            "example.com\nprohibit a{at}\nadd a{at} 60 A 192.0.2.{at}\nsend\n\
             example.com\nrequire a{at} A 192.0.2.{at}\nadd b{at} 60 A 198.51.100.{at}\nsend\n"
        );
        std::fs::write(&file, text).unwrap();
        let result = load(&format!("{algorithm}:key-{algorithm}:{SECRET}"));
        assert_eq!(result.rcodes.get("NOERROR"), Some(&2), "{algorithm}: {:?}", result.rcodes);
        let last = u8::try_from(at).unwrap();
        assert_eq!(knot.address(&format!("a{at}.example.com")), Some(vec![192, 0, 2, last]));
        assert_eq!(knot.address(&format!("b{at}.example.com")), Some(vec![198, 51, 100, last]));
    }
    let result = load("hmac-sha256:key-hmac-sha256:d3Jvbmc=");
    assert_eq!(result.rcodes.get("NOTAUTH"), Some(&2), "a wrong secret: {:?}", result.rcodes);
}
