//! Other servers take zones from ours and keep up with them: Knot DNS, NSD, BIND.

use super::client::{ask_udp, question};
use super::server::Server;
use nodens_core::testing::cluster::cluster;
use nodens_net::Notifications;
use nodens_wire::{Message, Rcode};
use nodens_zone::Soa;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The key of secondaries that sign.
const KEY: &str = "example.key";
const SECRET: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
/// Services of the cluster: more than one message holds.
const SERVICES: u32 = 1000;
/// Until a server that was started serves the zone, on a machine with much else to do.
const START_MAX: Duration = Duration::from_secs(60);

/// A server that is told where to get the zone from; ends with the test.
struct Secondary {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Drop for Secondary {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// An address that nobody uses. BIND listens at addresses of interfaces only, so the port has to
/// tell servers apart; those from 61,000 on are given to nobody who takes any.
fn address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() as u16 % 4000;
    loop {
        let port = 61_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 4000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

impl Secondary {
    /// Starts `program` with a file of configuration that `write` makes from a folder and the
    /// address to listen at.
    fn start(
        program: &str,
        args: &[&str],
        address: SocketAddr,
        write: impl Fn(&Path) -> String,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        fs::write(&file, write(folder.path())).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .args(args)
            .arg(&file)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .current_dir(folder.path())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error} (cargo xtask peers --tests)"));
        Self { child, address, folder }
    }

    /// The answer to a question, if there is one now.
    fn ask(&self, text: &str) -> Option<Message> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.send_to(&question(7, text), self.address).ok()?;
        let mut buffer = [0; 4096];
        let (len, from) = socket.recv_from(&mut buffer).ok()?;
        assert_eq!(from, self.address);
        Message::parse(&buffer[..len]).ok()
    }

    /// Asks until there is an answer: datagrams are lost where there is much else to do.
    fn answer(&self, text: &str) -> Message {
        let start = Instant::now();
        loop {
            match self.ask(text) {
                Some(message) => return message,
                None => assert!(start.elapsed() < START_MAX, "no answer to {text}"),
            }
        }
    }

    fn serial(&self) -> Option<u32> {
        let record = self.ask("cluster.local SOA +norec")?.answer.first().cloned()?;
        Soa::new(record).ok().map(|soa| soa.serial().0)
    }

    fn wait_for(&self, serial: u32, limit: Duration) {
        let start = Instant::now();
        while self.serial() != Some(serial) {
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(
                start.elapsed() < limit,
                "waited in vain for serial {serial}\n{}\n{:?}",
                log(),
                self.ask("cluster.local SOA +norec")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether it answers for these names as the server does that it has them from.
    fn answers_as(&self, server: &Server, names: &[&str]) {
        for name in names {
            let text = format!("{name} +norec");
            let (ours, theirs) = (ask_udp(server.address(), &text), self.answer(&text));
            let facts = |message: &Message| {
                let mut records = message.answer.clone();
                records.sort_by(|a, b| a.rdata.cmp(&b.rdata));
                (message.flags.rcode(), records)
            };
            assert_eq!(facts(&ours), facts(&theirs), "{name}");
        }
    }
}

/// A cluster; `change` is its last service.
fn objects(change: &str) -> String {
    let mut text = "namespace shop\n headless shop/db\n alias shop/out www.example.org\n \
        slice shop/db/1 sql:tcp:3306 -- 10.1.0.1=db-0 10.1.0.2=db-1 fd00::1=db-1\n"
        .to_owned();
    for n in 0..SERVICES {
        let [_, _, high, low] = n.to_be_bytes();
        text.push_str(&format!("service shop/web-{n} 10.0.{high}.{low},fd00::{n} http:tcp:80\n"));
    }
    text.push_str(&format!("service shop/{change} 10.9.0.1 http:tcp:80\n"));
    text
}

const NAMES: &[&str] = &[
    "cluster.local SOA",
    "dns-version.cluster.local TXT",
    "db.shop.svc.cluster.local A",
    "db.shop.svc.cluster.local AAAA",
    "db-1.db.shop.svc.cluster.local A",
    "_sql._tcp.db.shop.svc.cluster.local SRV",
    "db.shop.svc.cluster.local SRV",
    "out.shop.svc.cluster.local CNAME",
    "web-999.shop.svc.cluster.local AAAA",
    "_http._tcp.web-0.shop.svc.cluster.local SRV",
    "none.shop.svc.cluster.local A",
    "before.shop.svc.cluster.local A",
    "after.shop.svc.cluster.local A",
];

/// A secondary gets the zone of a cluster, hears of a change, and gets the zone again. With a key it gets
/// nothing unless it signs its queries, and believes nothing that is not signed.
fn follows(start: Start, signs: bool) {
    let address = address();
    let tsig = match signs {
        true => {
            format!("tsig {{\n  secret {KEY} {SECRET} hmac-sha512\n  require SOA AXFR IXFR\n }}")
        }
        false => String::new(),
    };
    let corefile = format!(
        "cluster.local:0 {{\n bind 127.0.0.1\n {tsig}\n transfer {{\n  to * {address}\n }}\n \
         kubernetes {{\n  endpoint http://192.0.2.1\n }}\n}}"
    );
    let server = Server::start(&corefile);
    let config = server.first.upgrade().unwrap();
    let feed = &config.services.clusters[0].feed;
    feed.publish(cluster(&objects("before"), 7));
    feed.set_synced();
    let secondary = start(server.address(), address, signs);
    let sink = server.shared.sink.clone();
    let notifications = Notifications::start(&config.services.notifies, &[], sink).unwrap();
    secondary.wait_for(7, START_MAX);
    // The primary is asked without a signature here.
    let names = if signs { &NAMES[1..] } else { NAMES };
    secondary.answers_as(&server, names);
    assert_eq!(secondary.answer(NAMES[NAMES.len() - 1]).flags.rcode(), Rcode::NXDOMAIN);
    // It looks by itself only after the refresh time of two hours.
    feed.publish(cluster(&objects("after"), 8));
    secondary.wait_for(8, START_MAX);
    secondary.answers_as(&server, names);
    assert_eq!(secondary.answer(NAMES[NAMES.len() - 1]).flags.rcode(), Rcode::NOERROR);
    drop((notifications, config));
    let log = server.log();
    let sent = log.matches("Outgoing transfer of ").count();
    assert!(sent >= 2, "{log}");
    server.stop();
}

/// How a secondary is started: the primary's address, its own, and whether its queries are signed.
type Start = fn(SocketAddr, SocketAddr, bool) -> Secondary;

fn knot(primary: SocketAddr, address: SocketAddr, signs: bool) -> Secondary {
    let (mut key, mut with) = (String::new(), "");
    if signs {
        key = format!("key:\n  - id: {KEY}\n    algorithm: hmac-sha512\n    secret: {SECRET}\n");
        with = "    key: example.key\n";
    }
    Secondary::start("knotd", &["-c"], address, |folder| {
        let (folder, ip) = (folder.display(), address.ip());
        format!(
            "server:\n  listen: {ip}@{}\n  rundir: {folder}\n\
             log:\n  - target: stderr\n    any: info\n\
             database:\n  storage: {folder}\n{key}\
             remote:\n  - id: primary\n    address: {}@{}\n{with}\
             acl:\n  - id: notify\n    address: 127.0.0.1\n    action: notify\n\
             zone:\n  - domain: cluster.local\n    storage: {folder}\n    \
             master: primary\n    acl: notify\n",
            address.port(),
            primary.ip(),
            primary.port()
        )
    })
}

fn nsd(primary: SocketAddr, address: SocketAddr, signs: bool) -> Secondary {
    let (mut key, mut name) = (String::new(), "NOKEY");
    if signs {
        key = format!("key:\n  name: {KEY}\n  algorithm: hmac-sha512\n  secret: \"{SECRET}\"\n");
        name = KEY;
    }
    Secondary::start("nsd", &["-d", "-c"], address, |folder| {
        let (folder, ip) = (folder.display(), address.ip());
        let primary = format!("{}@{}", primary.ip(), primary.port());
        format!(
            "server:\n  ip-address: {ip}@{}\n  username: \"\"\n  chroot: \"\"\n  \
             zonesdir: \"{folder}\"\n  pidfile: \"{folder}/pid\"\n  \
             xfrdfile: \"{folder}/xfrd\"\n  xfrdir: \"{folder}\"\n  \
             zonelistfile: \"{folder}/zones\"\n  database: \"\"\n  server-count: 1\n\
             remote-control:\n  control-enable: no\n{key}\
             zone:\n  name: cluster.local\n  zonefile: cluster.local\n  \
             request-xfr: {primary} {name}\n  allow-notify: 127.0.0.1 NOKEY\n",
            address.port(),
        )
    })
}

fn bind(primary: SocketAddr, address: SocketAddr, signs: bool) -> Secondary {
    let (mut key, mut with) = (String::new(), "");
    if signs {
        key = format!("key \"{KEY}\" {{ algorithm hmac-sha512; secret \"{SECRET}\"; }};\n");
        with = "key example.key";
    }
    Secondary::start("named", &["-g", "-n", "1", "-c"], address, |folder| {
        let (folder, ip) = (folder.display(), address.ip());
        format!(
            "options {{ directory \"{folder}\"; pid-file \"{folder}/pid\"; \
             session-keyfile \"{folder}/key\"; listen-on port {} {{ {ip}; }}; \
             listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; \
             minimal-responses yes; }};\ncontrols {{ }};\n{key}\
             zone \"cluster.local\" {{ type secondary; file \"cluster.local\"; \
             primaries {{ {} port {} {with}; }}; allow-notify {{ 127.0.0.1; }}; }};\n",
            address.port(),
            primary.ip(),
            primary.port()
        )
    })
}

#[test]
fn knot_follows() {
    follows(knot, false);
}

#[test]
fn nsd_follows() {
    follows(nsd, false);
}

#[test]
fn bind_follows() {
    follows(bind, false);
}

#[test]
fn knot_follows_with_a_key() {
    follows(knot, true);
}

#[test]
fn nsd_follows_with_a_key() {
    follows(nsd, true);
}

#[test]
fn bind_follows_with_a_key() {
    follows(bind, true);
}
