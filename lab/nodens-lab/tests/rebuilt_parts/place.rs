//! Two network namespaces, one for a resolver and one for all servers, and the packets between them.

use nodens_wire::{Builder, Class, Flags, Header, Name, Type};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// All protocols, in the order of octets that packet sockets want.
const ALL_PROTOCOLS: i32 = 0x0003_u16.to_be() as i32;
const PATIENCE: Duration = Duration::from_secs(60);

/// A program beside `nodens-lab`, or one that `cargo xtask peers` builds.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_nodens-lab")).with_file_name(name);
    let cache = std::env::var_os("NODENS_PEERS_CACHE").map(PathBuf::from);
    let kept = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/peers");
    let peer = cache.unwrap_or_else(kept).join("bin").join(name);
    [beside, peer].into_iter().find(|program| program.is_file())
}

/// A process, ended with the value.
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn new(name: &str, mut command: Command, folder: &Path) -> Self {
        let log = File::create(folder.join(format!("{name}.out"))).unwrap();
        let errors = log.try_clone().unwrap();
        Self(command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().unwrap())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // `ip netns exec` becomes the program, so this is the program's own ID. Asked first: NSD has children.
        if let Some(id) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let begin = Instant::now();
        while self.0.try_wait().is_ok_and(|status| status.is_none()) {
            if begin.elapsed() > Duration::from_secs(10) {
                _ = self.0.kill();
                _ = self.0.wait();
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {said}", arguments.join(" "));
}

pub(crate) struct Namespaces {
    resolver: String,
    servers: String,
}

impl Namespaces {
    pub(crate) fn new() -> Self {
        let id = std::process::id();
        let names = Self { resolver: format!("zones-r{id}"), servers: format!("zones-s{id}") };
        let (resolver, servers) = (&*names.resolver, &*names.servers);
        ip(&["netns", "add", resolver]);
        ip(&["netns", "add", servers]);
        ip(&[
            "-n", resolver, "link", "add", "up0", "type", "veth", "peer", "name", "down0", "netns",
            servers,
        ]);
        for (namespace, link, v4, v6) in [
            (resolver, "up0", "192.0.2.2/24", "2001:db8:ffff::2/64"),
            (servers, "down0", "192.0.2.1/24", "2001:db8:ffff::1/64"),
        ] {
            ip(&["-n", namespace, "link", "set", "lo", "up"]);
            ip(&["-n", namespace, "address", "add", v4, "dev", link]);
            ip(&["-n", namespace, "address", "add", v6, "dev", link, "nodad"]);
            ip(&["-n", namespace, "link", "set", link, "up"]);
        }
        ip(&["-n", resolver, "route", "add", "default", "via", "192.0.2.1"]);
        ip(&["-n", resolver, "-6", "route", "add", "default", "via", "2001:db8:ffff::1"]);
        names
    }

    fn inside(namespace: &str, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program);
        command
    }

    pub(crate) fn in_resolver(&self, program: &str) -> Command {
        Self::inside(&self.resolver, Path::new(program))
    }

    pub(crate) fn in_servers(&self, program: &Path) -> Command {
        Self::inside(&self.servers, program)
    }

    /// Runs a batch of `ip` commands among the servers.
    pub(crate) fn add_addresses(&self, batch: &str) {
        let mut command = Command::new("ip");
        command.args(["-n", &self.servers, "-batch", "-"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(batch.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    pub(crate) fn clear_addresses(&self) {
        ip(&["-n", &self.servers, "address", "flush", "dev", "lo"]);
    }

    /// What `work` returns, done inside of the resolver's namespace.
    fn within<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let path = format!("/run/netns/{}", self.resolver);
        let entered = move || {
            let namespace = File::open(path).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        thread::spawn(entered).join().unwrap()
    }

    /// The response of the resolver, which may take a while.
    pub(crate) fn ask(&self, name: &Name, qtype: Type) -> Vec<u8> {
        let query = query(name, qtype);
        self.within(move || {
            for _ in 0..3 {
                let found = exchange("127.0.0.1:53", &query, Duration::from_secs(10));
                if let Some(response) = found {
                    return response;
                }
            }
            panic!("no response of the resolver");
        })
    }

    fn wait_for(&self, server: String, query: Vec<u8>) {
        let begin = Instant::now();
        let ready = self.within(move || {
            loop {
                if exchange(&server, &query, Duration::from_millis(200)).is_some() {
                    return true;
                }
                if begin.elapsed() > PATIENCE {
                    return false;
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(ready, "the server is not ready");
    }

    /// Waits until the resolver answers something that it needs no other server for.
    pub(crate) fn wait_for_answer(&self) {
        self.wait_for(
            "127.0.0.1:53".to_owned(),
            query(&Name::parse("localhost").unwrap(), Type::A),
        );
    }

    /// Whether a server still answers at one of the addresses.
    pub(crate) fn is_any_served(&self, addresses: Vec<String>) -> bool {
        let query = query(&Name::root(), Type::SOA);
        self.within(move || {
            let v4 = addresses.iter().filter(|address| !address.contains(':'));
            let mut all = v4.map(|address| format!("{address}:53"));
            all.any(|server| exchange(&server, &query, Duration::from_millis(200)).is_some())
        })
    }

    /// Waits until something answers at the first address of the file.
    pub(crate) fn wait_for_server(&self, addresses: &Path) {
        let text = std::fs::read_to_string(addresses).unwrap();
        let first = text.split([' ', '/']).nth(2).unwrap();
        self.wait_for(format!("{first}:53"), query(&Name::root(), Type::SOA));
    }

    /// Writes all packets that the resolver sends and receives to a file.
    pub(crate) fn record(&self, path: &Path) -> Sniffer {
        let socket = self.within(|| {
            let kind = socket2::Type::RAW;
            let socket =
                Socket::new(Domain::PACKET, kind, Some(Protocol::from(ALL_PROTOCOLS))).unwrap();
            socket.set_recv_buffer_size(16 << 20).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (path, stopped) = (path.to_owned(), stop.clone());
        let thread = thread::spawn(move || write_packets(socket, &path, &stopped));
        Sniffer { stop, thread }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for namespace in [&self.resolver, &self.servers] {
            _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

pub(crate) struct Sniffer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Sniffer {
    /// The number of packets in the file.
    pub(crate) fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Copies a capture without the packets to and from some servers.
pub(crate) fn without_servers(from: &Path, servers: &[Ipv4Addr], to: &Path) {
    let all = std::fs::read(from).unwrap();
    let (mut kept, mut at) = (all[..24].to_vec(), 24);
    while at < all.len() {
        let len = u32::from_le_bytes(all[at + 8..at + 12].try_into().unwrap());
        let packet = &all[at..at + 16 + len as usize];
        at += packet.len();
        // Behind the record's header and that of Ethernet: source and destination of IPv4.
        let address = |at: usize| {
            packet
                .get(at..at + 4)
                .map(|octets| Ipv4Addr::from(<[u8; 4]>::try_from(octets).unwrap()))
        };
        let ends = [address(16 + 14 + 12), address(16 + 14 + 16)];
        if !ends.iter().flatten().any(|address| servers.contains(address)) {
            kept.extend_from_slice(packet);
        }
    }
    std::fs::write(to, kept).unwrap();
}

fn write_packets(mut socket: Socket, path: &Path, stop: &AtomicBool) -> u64 {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0x0004_0000, 1];
    header.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
    let (mut packets, mut octets) = (0, vec![0; 1 << 18]);
    // What is in the buffer when the end is asked for is written, too.
    loop {
        let ends = stop.load(Ordering::Relaxed);
        match socket.read(&mut octets) {
            Ok(len) => {
                let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let words = [time.as_secs() as u32, time.subsec_micros(), len as u32, len as u32];
                words.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
                file.write_all(&octets[..len]).unwrap();
                packets += 1;
            }
            Err(_) if ends => break,
            Err(_) => {}
        }
    }
    file.flush().unwrap();
    packets
}

fn query(name: &Name, qtype: Type) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut builder = Builder::new(&mut wire, 7, Flags(Flags::RD));
    builder.question(name.view(), qtype, Class::IN);
    wire
}

/// A response over UDP, or over TCP if it was cut.
fn exchange(server: &str, query: &[u8], patience: Duration) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    socket.connect(server).ok()?;
    socket.send(query).ok()?;
    let mut octets = vec![0; 1 << 16];
    let len = socket.recv(&mut octets).ok()?;
    octets.truncate(len);
    if !Header::read(&octets).ok()?.flags.has(Flags::TC) {
        return Some(octets);
    }
    let mut stream = std::net::TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(patience)).unwrap();
    let len = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&len[..], query].concat()).ok()?;
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    octets.resize(usize::from(u16::from_be_bytes(len)), 0);
    stream.read_exact(&mut octets).ok()?;
    Some(octets)
}
