//! A process without a free descriptor goes on accepting and answering. In a binary of its own,
//! because it uses up the descriptors of the whole process.

use nodens_core::config::BuildOptions;
use nodens_core::log::Sink;
use nodens_core::testing::request;
use nodens_core::{Shared, build};
use nodens_net::{Options, Runtime};
use nodens_testkit::PATIENCE;
use nodens_wire::framing::{framed, read_message};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::CpuSet;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

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
}

fn run_on(cpus: &CpuSet) {
    rustix::thread::sched_setaffinity(None, cpus).unwrap();
}

fn one_makes_room(workers: usize) {
    let (sender, _log) = std::sync::mpsc::sync_channel(16);
    let shared = Arc::new(Shared::new(workers, Sink::new(sender)));
    let corefile = ".:0 {\n bind 127.0.0.1\n timeouts {\n  idle 10m\n }\n whoami\n}";
    let tree = nodens_corefile::parse("Corefile", corefile, &nodens_corefile::SystemSources);
    let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
    let runtime = Runtime::start(shared, Arc::new(config), Options::default()).unwrap();
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
