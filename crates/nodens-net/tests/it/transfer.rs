//! Zones on their way to clients of all kinds.

use super::client::{Stream, ask_tcp, ask_udp, assert_answered, framed, question};
use super::server::{Server, eventually};
use nodens_core::config::BuildOptions;
use nodens_net::{Notifications, Options};
use nodens_wire::{Class, Header, Message, Name, Rcode, Type, header};
use nodens_zone::{Advance, Cursor, RecordRef, Soa, Version, Zone};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The endpoints of a cluster, made as they are asked for: nobody else has a copy.
#[derive(Debug)]
pub(crate) struct Endpoints {
    origin: Name,
    pub(crate) serial: AtomicU32,
    count: u32,
    /// Octets of RDATA of each endpoint.
    octets: usize,
    /// Records made so far.
    pub(crate) made: Arc<AtomicUsize>,
}

impl Endpoints {
    pub(crate) fn new(count: u32) -> Arc<Self> {
        Self::with(count, 4)
    }

    /// More than the kernel has buffers for.
    fn endless() -> Arc<Self> {
        Self::with(1_000_000, 1000)
    }

    fn with(count: u32, octets: usize) -> Arc<Self> {
        let (origin, made) = ("cluster.local.".parse().unwrap(), Arc::default());
        Arc::new(Self { origin, serial: AtomicU32::new(7), count, octets, made })
    }

    pub(crate) fn options(self: &Arc<Self>) -> BuildOptions {
        let zone: Arc<dyn Zone> = self.clone();
        BuildOptions { zones: vec![(self.origin.clone(), zone)], ..BuildOptions::default() }
    }
}

impl Zone for Endpoints {
    fn soa(&self) -> Option<Soa> {
        let names = ["ns.dns.cluster.local.", "hostmaster.cluster.local."];
        let [mname, rname]: [Name; 2] = names.map(|name| name.parse().unwrap());
        let numbers = [self.serial.load(Ordering::Relaxed), 7200, 1800, 86400, 5];
        Some(Soa::with(self.origin.view(), 5, (&mname, &rname), numbers))
    }

    fn version(&self) -> Option<Version> {
        let (made, count, octets) = (self.made.clone(), self.count, self.octets);
        let records = Each { at: 0, count, owner: Name::root(), rdata: Vec::new(), octets, made };
        Some(Version { soa: self.soa()?, records: Box::new(records) })
    }
}

/// NS, its address, then the endpoints.
struct Each {
    at: u32,
    count: u32,
    owner: Name,
    rdata: Vec<u8>,
    octets: usize,
    made: Arc<AtomicUsize>,
}

impl Cursor for Each {
    fn advance(&mut self) -> Advance {
        let (owner, rdata) = match self.at {
            0 => {
                let ns: Name = "ns.dns.cluster.local.".parse().unwrap();
                ("cluster.local.".to_owned(), ns.as_wire().to_vec())
            }
            1 => ("ns.dns.cluster.local.".to_owned(), vec![192, 0, 2, 1]),
            n => {
                let n = n - 2;
                let [_, b, c, d] = n.to_be_bytes();
                let (service, namespace) = (n / 10, n / 1000);
                let host = format!("10-{b}-{c}-{d}.svc-{service}.ns-{namespace}");
                (format!("{host}.svc.cluster.local."), vec![10, b, c, d])
            }
        };
        if self.at >= self.count + 2 {
            return Advance::End;
        }
        (self.owner, self.rdata) = (owner.parse().unwrap(), rdata);
        self.rdata.resize(if self.at == 0 { self.rdata.len() } else { self.octets }, 7);
        self.at += 1;
        self.made.fetch_add(1, Ordering::Relaxed);
        Advance::Record
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        let rtype = match self.at {
            1 => Type::NS,
            _ if self.octets == 4 => Type::A,
            _ => Type(65_280),
        };
        let (owner, rdata) = (self.owner.view(), &*self.rdata);
        Some(RecordRef { owner, rtype, class: Class::IN, ttl: 5, rdata })
    }
}

const COREFILE: &str = "cluster.local:0 {\n bind 127.0.0.1\n transfer {\n  to *\n }\n}\n\
    polite:0 {\n bind 127.0.0.1\n whoami\n}";

fn start(zone: &Arc<Endpoints>, corefile: &str) -> Server {
    Server::with_zones(corefile, Options::default(), &zone.options())
}

/// Takes an answer of so many records, which begin and end with the same SOA.
fn take(client: &mut Stream, count: usize) {
    let mut records = 0;
    let mut first = None;
    loop {
        let wire = client.receive_bytes().expect("another message");
        let header = Header::read(&wire).unwrap();
        assert_eq!((header.id, header.flags.rcode()), (4711, Rcode::NOERROR));
        records += usize::from(header.counts[1]);
        let first = first.get_or_insert_with(|| Message::parse(&wire).unwrap().answer.remove(0));
        assert_eq!(first.rtype, Type::SOA);
        if records >= count {
            assert_eq!(records, count);
            assert_eq!(Message::parse(&wire).unwrap().answer.last(), Some(&*first));
            return;
        }
    }
}

#[test]
fn a_hundred_thousand_endpoints_arrive_and_the_connection_goes_on() {
    let zone = Endpoints::new(100_000);
    let server = start(&zone, COREFILE);
    let mut client = Stream::connect(server.address());
    client.send(4711, "cluster.local AXFR");
    // Asked meanwhile, answered after.
    client.send(9, "polite A");
    take(&mut client, 100_004);
    assert_eq!(client.receive().id, 9);
    client.send(4711, "cluster.local AXFR");
    take(&mut client, 100_004);
    eventually("the transfers to be over", || server.shared.transfers.count() == 0);
    server.stop();
}

#[test]
fn transfers_asked_of_one_connection_come_one_after_the_other() {
    let zone = Endpoints::new(20_000);
    let server = start(&zone, COREFILE);
    let mut client = Stream::connect(server.address());
    // In one segment, and while the first is under way.
    let asked = framed(&question(4711, "cluster.local AXFR"));
    client.0.write_all(&asked.repeat(2)).unwrap();
    client.0.write_all(&framed(&question(9, "polite A"))).unwrap();
    eventually("the first to be under way", || zone.made.load(Ordering::Relaxed) > 1000);
    client.0.write_all(&asked).unwrap();
    client.0.shutdown(Shutdown::Write).unwrap();
    take(&mut client, 20_004);
    take(&mut client, 20_004);
    assert_eq!(client.receive().id, 9);
    take(&mut client, 20_004);
    assert!(client.is_closed());
    server.stop();
}

#[test]
fn a_stop_answers_what_was_asked_behind_a_transfer() {
    let zone = Endpoints::with(20_000, 1000);
    let server = start(&zone, COREFILE);
    let mut client = Stream::connect(server.address());
    let asked = ["cluster.local AXFR", "polite A"].map(|text| framed(&question(4711, text)));
    client.0.write_all(&asked.concat()).unwrap();
    eventually("the transfer to begin", || server.shared.transfers.count() == 1);
    let stop = std::thread::spawn(move || server.runtime.shutdown(Duration::from_secs(60)));
    take(&mut client, 20_004);
    assert_answered(&client.receive());
    assert!(client.is_closed());
    stop.join().unwrap();
}

#[test]
fn a_slow_reader_is_not_taken_for_one_that_does_not_read() {
    let zone = Endpoints::with(20_000, 1000);
    let corefile = COREFILE.replacen(" transfer", " timeouts {\n  write 3s\n }\n transfer", 1);
    let server = start(&zone, &corefile);
    let mut client = Stream::connect(server.address());
    let window = |client: &Stream, octets| {
        socket2::SockRef::from(&client.0).set_recv_buffer_size(octets).unwrap();
    };
    window(&client, 16 << 10);
    client.send(4711, "cluster.local AXFR");
    // So slowly that the kernel's buffer does not get empty enough for more within three seconds.
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        client.receive_bytes().expect("another message");
        std::thread::sleep(Duration::from_millis(450));
    }
    window(&client, 1 << 20);
    let last = |wire: &[u8]| {
        let answer = Message::parse(wire).unwrap().answer;
        answer.last().is_some_and(|record| record.rtype == Type::SOA)
    };
    while !last(&client.receive_bytes().expect("the rest of it")) {}
    server.stop();
}

#[test]
fn what_a_client_does_not_read_is_not_made_and_nobody_waits_for_it() {
    let zone = Endpoints::endless();
    let corefile = COREFILE.replacen(" transfer", " timeouts {\n  write 1m\n }\n transfer", 1);
    let server = start(&zone, &corefile);
    let mut slow = Stream::connect(server.address());
    slow.send(4711, "cluster.local AXFR");
    assert!(slow.receive().answer.len() > 10);
    let made = Cell::new(0);
    let rests = || {
        std::thread::sleep(Duration::from_millis(200));
        let now = zone.made.load(Ordering::Relaxed);
        made.replace(now) == now
    };
    eventually("the server to wait for the reader", rests);
    assert!(made.get() < 500_000, "{} records for a client that reads nothing", made.get());
    for _ in 0..20 {
        assert_answered(&ask_tcp(server.address(), "polite A"));
        assert_answered(&ask_udp(server.address(), "polite A"));
    }
    // It goes on when the client does.
    let mut taken = 0;
    while zone.made.load(Ordering::Relaxed) == made.get() {
        taken += slow.receive_bytes().expect("another message").len();
        assert!(taken < 64 << 20, "{taken} octets were taken and no more were made");
    }
    drop(slow);
    eventually("who left to be forgotten", || server.shared.transfers.count() == 0);
    server.stop();
}

#[test]
fn clients_that_leave_in_the_middle_or_never_read_leave_nothing_behind() {
    let zone = Endpoints::endless();
    let corefile = COREFILE.replacen(" transfer", " timeouts {\n  write 1s\n }\n transfer", 1);
    let server = start(&zone, &corefile);
    for n in 0..8 {
        let mut client = Stream::connect(server.address());
        client.send(4711, "cluster.local AXFR");
        client.0.read_exact(&mut vec![0; 10_000 * n]).unwrap();
    }
    eventually("those who left to be forgotten", || server.shared.transfers.count() == 0);
    let mut mute = Stream::connect(server.address());
    socket2::SockRef::from(&mute.0).set_recv_buffer_size(8192).unwrap();
    mute.send(4711, "cluster.local AXFR");
    server.wait_for("nodens_tcp_closed_total", 1);
    eventually("who never reads to be forgotten", || server.shared.transfers.count() == 0);
    eventually("all to be closed", || server.count("nodens_tcp_connections") == 0);
    assert!(server.log().contains(" SOA serial ended after "));
    server.stop();
}

#[test]
fn many_transfers_at_once_take_turns() {
    let zone = Endpoints::new(20_000);
    let server = start(&zone, COREFILE);
    let address = server.address();
    std::thread::scope(|scope| {
        let transfers: Vec<_> = (0..15)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = Stream::connect(address);
                    client.send(4711, "cluster.local AXFR");
                    take(&mut client, 20_004);
                })
            })
            .collect();
        let mut asked = 0;
        while !transfers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            assert_answered(&ask_udp(address, "polite A"));
            asked += 1;
        }
        assert!(asked > 0);
        for transfer in transfers {
            transfer.join().unwrap();
        }
    });
    server.stop();
}

#[test]
fn a_transfer_goes_on_over_a_reload_and_is_cut_by_a_shutdown() {
    let zone = Endpoints::with(20_000, 1000);
    let mut server = start(&zone, COREFILE);
    let mut client = Stream::connect(server.address());
    client.send(4711, "cluster.local AXFR");
    eventually("the transfer to begin", || server.shared.transfers.count() == 1);
    // Its listener goes, with the directive that made the answer.
    server.reload("polite:0 {\n bind 127.0.0.2\n whoami\n}").unwrap();
    take(&mut client, 20_004);
    assert!(client.is_closed());
    server.stop();
    let zone = Endpoints::endless();
    let server = start(&zone, COREFILE);
    let mut client = Stream::connect(server.address());
    socket2::SockRef::from(&client.0).set_recv_buffer_size(8192).unwrap();
    client.send(4711, "cluster.local AXFR");
    client.receive();
    let (shared, start) = (server.shared.clone(), Instant::now());
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(8));
    assert_eq!(shared.transfers.count(), 0);
}

/// What a program prints.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn dig_and_kdig_take_a_zone_and_are_refused_one() {
    let zone = Endpoints::new(20_000);
    let corefile = "cluster.local:0 {\n bind 127.0.0.1\n transfer {\n  to 127.0.0.1\n }\n}";
    let server = start(&zone, corefile);
    let port = server.address().port().to_string();
    let dig = output("dig", &["@127.0.0.1", "-p", &port, "cluster.local", "AXFR"]);
    assert!(dig.contains(";; XFR size: 20004 records"), "{}", &dig[dig.len() - 400..]);
    let kdig = output("kdig", &["@127.0.0.1", "-p", &port, "cluster.local", "AXFR"]);
    assert!(kdig.contains("20004 records"), "{}", &kdig[kdig.len() - 400..]);
    let ixfr = |serial: &str| {
        let question = format!("IXFR={serial}");
        output("dig", &["@127.0.0.1", "-p", &port, "+tcp", "cluster.local", &question])
    };
    assert!(ixfr("6").contains(";; XFR size: 20004 records"));
    assert!(ixfr("7").contains(";; XFR size: 1 records"));
    let elsewhere = ["@127.0.0.1", "-b", "127.0.0.3", "-p", &port, "cluster.local", "AXFR"];
    let refused = Command::new("dig").args(elsewhere).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stdout).contains("Transfer failed."));
    let udp = ask_udp(server.address(), "cluster.local AXFR");
    assert_eq!(udp.flags.rcode(), Rcode::REFUSED);
    server.stop();
}

#[test]
fn dig_and_kdig_verify_every_message_of_a_signed_zone() {
    const SECRET: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
    let zone = Endpoints::new(20_000);
    let corefile = format!(
        "cluster.local:0 {{\n bind 127.0.0.1\n tsig {{\n  secret any.key {SECRET}\n  \
         secret old.key {SECRET} hmac-md5\n  require AXFR\n }}\n transfer {{\n  to *\n }}\n}}"
    );
    let server = start(&zone, &corefile);
    let port = server.address().port().to_string();
    for key in
        ["hmac-sha1:any.key", "hmac-sha256:any.key", "hmac-sha512:any.key", "hmac-md5:old.key"]
    {
        let key = format!("{key}:{SECRET}");
        let args = ["@127.0.0.1", "-p", &port, "-y", &key, "cluster.local", "AXFR"];
        let dig = output("dig", &args);
        assert!(dig.contains(";; XFR size: 20004 records"), "{key}: {}", &dig[dig.len() - 400..]);
        // It says so of a message that does not verify, and stops.
        let kdig = output("kdig", &args);
        assert!(kdig.contains("20004 records"), "{key}: {}", &kdig[kdig.len() - 400..]);
    }
    for key in [None, Some("hmac-sha1:old.key"), Some("hmac-sha256:none.key")] {
        let key = key.map(|key| format!("{key}:{SECRET}"));
        let mut dig = Command::new("dig");
        key.iter().for_each(|key| _ = dig.args(["-y", key]));
        let refused = dig.args(["@127.0.0.1", "-p", &port, "cluster.local", "AXFR"]).output();
        let refused = String::from_utf8(refused.unwrap().stdout).unwrap();
        assert!(refused.contains("Transfer failed."), "{key:?}: {refused}");
    }
    server.stop();
}

#[test]
fn what_is_sent_reads_back_as_whole_messages_of_no_more_than_16_kib() {
    let zone = Endpoints::new(5000);
    let server = start(&zone, COREFILE);
    let mut client = Stream::connect(server.address());
    client.send(4711, "cluster.local AXFR +edns");
    let (mut lengths, mut soas) = (Vec::new(), 0);
    while soas < 2 {
        let wire = client.receive_bytes().unwrap();
        let message = Message::parse(&wire).unwrap();
        soas += message.answer.iter().filter(|record| record.rtype == Type::SOA).count();
        lengths.push(wire.len());
    }
    // The OPT record of the first message comes on top.
    assert!(lengths.iter().all(|len| *len <= (16 << 10) + 64), "{lengths:?}");
    assert!(lengths.len() > 5, "{lengths:?}");
    server.stop();
}

/// A server that is told of changes: it answers the n-th message as `react` says.
fn secondary(react: impl Fn(usize) -> Option<Rcode> + Send + 'static) -> (SocketAddr, Told) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, told) = (socket.local_addr().unwrap(), Told::default());
    let seen = told.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let message = Message::parse(&buffer[..len]).unwrap();
            let mut reply = buffer[..len].to_vec();
            let count = {
                let mut seen = seen.lock().unwrap();
                seen.push((from, message.clone()));
                seen.len()
            };
            if let Some(rcode) = react(count) {
                header::set_flags(&mut reply, message.flags.reply().with_rcode(rcode));
                socket.send_to(&reply, from).unwrap();
            }
        }
    });
    (address, told)
}

type Told = Arc<Mutex<Vec<(SocketAddr, Message)>>>;

#[test]
fn servers_are_told_of_a_zone_and_of_its_changes_until_they_accept() {
    let zone = Endpoints::new(3);
    // One that is not there yet, one that is.
    let (late, told_late) = secondary(|n| (n > 1).then_some(Rcode::NOERROR));
    let (prompt, told) = secondary(|_| Some(Rcode::NOERROR));
    let corefile = format!(
        "cluster.local:0 {{\n bind 127.0.0.1\n transfer {{\n  to {late} {prompt}\n  \
         source 127.0.0.9\n }}\n}}"
    );
    let server = start(&zone, &corefile);
    let services = &server.first.upgrade().unwrap().services.notifies;
    let notifications = Notifications::start(services, &[], server.shared.sink.clone()).unwrap();
    eventually("a second try", || told_late.lock().unwrap().len() == 2);
    let (from, first) = told.lock().unwrap()[0].clone();
    assert_eq!(from.ip(), IpAddr::from([127, 0, 0, 9]));
    assert_eq!((first.questions[0].qtype, first.answer[0].rtype), (Type::SOA, Type::SOA));
    assert_eq!(told.lock().unwrap().len(), 1);
    zone.serial.store(8, Ordering::Relaxed);
    services[0].zones.announce(zone.origin.view());
    eventually("news of the change", || told.lock().unwrap().len() == 2);
    assert_ne!(told.lock().unwrap()[1].1.answer, first.answer);
    drop(notifications);
    server.stop();
}

#[test]
fn an_address_that_cannot_be_told_from_is_named_once_and_no_zone() {
    let zone = Endpoints::new(3);
    let corefile = "cluster.local:0 {\n bind 127.0.0.1\n transfer {\n  to 127.0.0.1:9 \
        127.0.0.2:9\n  source 192.0.2.9\n }\n}";
    let server = start(&zone, corefile);
    let services = &server.first.upgrade().unwrap().services.notifies;
    let notifications = Notifications::start(services, &[], server.shared.sink.clone()).unwrap();
    let mut log = String::new();
    let wanted = "cannot notify secondaries of changes from 192.0.2.9: ";
    eventually("a line in the log", || {
        log += &server.log();
        log.contains(wanted)
    });
    drop(notifications);
    log += &server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(wanted)).collect();
    assert_eq!(lines.iter().filter(|line| line.contains("Error")).count(), 1, "{log}");
    assert!(lines.iter().all(|line| !line.contains("cluster.local")), "{log}");
    server.stop();
}
