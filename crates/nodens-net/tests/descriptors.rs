//! A process without a free descriptor goes on accepting and answering. In a binary of its own,
//! because it uses up the descriptors of the whole process.

use nodens_core::config::BuildOptions;
use nodens_core::log::Sink;
use nodens_core::testing::request;
use nodens_core::{Shared, build};
use nodens_net::{Options, Runtime};
use nodens_testkit::{PATIENCE, eventually};
use nodens_wire::framing::{framed, read_message};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::CpuSet;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

const DESCRIPTORS: u64 = 128;

/// The RCODE of the answer, if there is one.
fn ask(stream: &mut TcpStream) -> Option<u8> {
    let question = request("example.org A");
    stream.write_all(&framed(&question)).ok()?;
    Some(read_message(stream).ok()?[3] & 0x0f)
}

/// A socket that takes its descriptor now and connects later.
fn unconnected() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// One after the other: each uses up the descriptors of the process.
#[test]
fn without_descriptors_old_connections_make_room_and_new_ones_are_let_go() {
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();
    one_makes_room(1);
    // The idle connection is another worker's than those that come, as far as the kernel brings
    // connections to the worker on their client's CPU.
    one_makes_room(2);
    queries_to_upstreams_get_the_descriptors_of_idle_connections();
}

/// An upstream that gives back what it is sent as a response, and its address.
fn upstream() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut octets = [0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut octets) {
            octets[2] |= 0x80;
            socket.send_to(&octets[..len], client).unwrap();
        }
    });
    address
}

fn queries_to_upstreams_get_the_descriptors_of_idle_connections() {
    let forward = format!("forward test {}", upstream());
    let runtime = start(
        1,
        &format!(".:0 {{\n bind 127.0.0.1\n timeouts {{\n  idle 10m\n }}\n {forward}\n whoami\n}}"),
    );
    let server: SocketAddr = runtime.local_addresses()[0];
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    udp.connect(server).unwrap();
    let mut streams: Vec<TcpStream> = (0..48)
        .map(|_| {
            let mut stream = TcpStream::connect(server).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(ask(&mut stream), Some(0));
            stream
        })
        .collect();
    let lowered = Rlimit { current: Some(DESCRIPTORS / 2), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, lowered).unwrap();
    assert!(UdpSocket::bind("127.0.0.1:0").is_err(), "descriptors are left");
    let mut response = [0; 512];
    udp.send(&request("a.test A")).unwrap();
    assert!(udp.recv(&mut response).unwrap() > 12);
    assert_eq!(response[3] & 0x0f, 0, "no descriptor for the upstream");
    // Of 32 connections that there are descriptors for, an eighth is kept free.
    let is_open = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let open = stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        open
    };
    eventually("connections to make room", || !is_open(&mut streams[19]));
    let open: Vec<bool> = streams.iter_mut().map(is_open).collect();
    assert!(!open[..20].contains(&true) && !open[20..].contains(&false), "{open:?}");
    assert_eq!(ask(&mut streams[20]), Some(0));
    runtime.shutdown(PATIENCE);
}

fn run_on(cpus: &CpuSet) {
    rustix::thread::sched_setaffinity(None, cpus).unwrap();
}

fn start(workers: usize, corefile: &str) -> Runtime {
    let (sender, _log) = std::sync::mpsc::sync_channel(16);
    let shared = Arc::new(Shared::new(workers, Sink::new(sender)));
    let tree = nodens_corefile::parse("Corefile", corefile, &nodens_corefile::SystemSources);
    let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
    // One client may have all connections.
    let all = Some(DESCRIPTORS as usize);
    let options =
        Options { connections_per_client: all, connections_per_network: all, ..Options::default() };
    Runtime::start(shared, Arc::new(config), options).unwrap()
}

fn one_makes_room(workers: usize) {
    let runtime = start(workers, ".:0 {\n bind 127.0.0.1\n timeouts {\n  idle 10m\n }\n whoami\n}");
    let server: SocketAddr = runtime.local_addresses()[0];
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    udp.connect(server).unwrap();
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect();
    let only = |cpu: usize| {
        let mut one = CpuSet::new();
        one.set(cpu);
        one
    };
    run_on(&only(allowed[0]));
    let mut idle = TcpStream::connect(server).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(ask(&mut idle), Some(0));

    run_on(&only(allowed[allowed.len() - 1]));
    let late: Vec<Socket> = (0..5).map(|_| unconnected()).collect();
    let mut hoard: Vec<OwnedFd> = Vec::new();
    while let Ok(fd) = udp.try_clone() {
        hoard.push(fd.into());
    }
    // The first one gets the place of the idle connection, and each later one that of the one
    // before, unless that has just been let go.
    let mut answered = 0;
    for socket in late {
        socket.connect(&server.into()).unwrap();
        // The other worker gets its turn.
        std::thread::sleep(Duration::from_millis(5));
        let mut stream = TcpStream::from(socket);
        answered += usize::from(ask(&mut stream) == Some(0));
        hoard.push(stream.into());
    }
    assert!(answered > 0, "nobody was answered");
    let end = idle.read(&mut [0]);
    let is_closed = match &end {
        Ok(len) => *len == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(is_closed, "the idle connection did not make room: {end:?}");
    udp.send(&request("example.org A")).unwrap();
    assert!(udp.recv(&mut [0; 512]).unwrap() > 12);

    run_on(&cpus);
    drop(hoard);
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(ask(&mut stream), Some(0));
    runtime.shutdown(PATIENCE);
}
