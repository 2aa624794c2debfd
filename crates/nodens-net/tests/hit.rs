//! From datagram to datagram, and on an open connection, a hit allocates nothing. In a binary of
//! its own, because it counts the allocations of the whole process.

use nodens_core::config::BuildOptions;
use nodens_core::log::Sink;
use nodens_core::testing::request;
use nodens_core::{Shared, build};
use nodens_net::{Options, Runtime};
use nodens_testkit::PATIENCE;
use nodens_testkit::alloc::{Counting, allocations};
use nodens_wire::framing::framed;
use rustix::thread::CpuSet;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_hit_allocates_nothing() {
    let (sender, _log) = std::sync::mpsc::sync_channel(16);
    let shared = Arc::new(Shared::new(2, Sink::new(sender)));
    let corefile = ".:0 {\n bind 127.0.0.1\n prometheus localhost:0\n cache\n whoami\n}";
    let tree = nodens_corefile::parse("Corefile", corefile, &nodens_corefile::SystemSources);
    let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
    let runtime = Runtime::start(shared, Arc::new(config), Options::default()).unwrap();
    let server = runtime.local_addresses()[0];
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    udp.connect(server).unwrap();
    let mut tcp = TcpStream::connect(server).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let question = request("hit.example.org. A +edns");
    let framed = framed(&question);
    let mut answer = [0; 512];
    let mut ask = || {
        let before = allocations();
        udp.send(&question).unwrap();
        let len = udp.recv(&mut answer).unwrap();
        tcp.write_all(&framed).unwrap();
        tcp.read_exact(&mut answer[..2 + len]).unwrap();
        allocations() - before
    };
    assert!(ask() > 0, "a miss allocates, so the counter works");
    // A datagram goes to the worker of the CPU that it comes from, and each worker has to be warm.
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        (0..50).for_each(|_| _ = ask());
    }
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
    let hits: usize = (0..1000).map(|_| ask()).sum();
    assert_eq!(hits, 0);
    runtime.shutdown(PATIENCE);
}
