use crate::runtime::{Options, Runtime};
use nodens_core::config::BuildOptions;
use nodens_core::log::Sink;
use nodens_core::{Shared, build};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::time::Duration;

const COREFILE: &str = "test:0 {\n bind 127.0.0.1\n template IN A test {\n answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }\n}\n";
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
const WORKERS: usize = 2;

fn start(options: Options) -> Runtime {
    let shared = Arc::new(Shared::new(WORKERS, Sink::new(sync_channel(1000).0)));
    let tree = nodens_corefile::parse("Corefile", COREFILE, &nodens_corefile::SystemSources);
    let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
    Runtime::start(shared, Arc::new(config), options).unwrap()
}

/// Asks from so many ports that every worker gets some; gives how many are answered.
fn answered(address: SocketAddr) -> usize {
    let client = |_| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.send(QUERY).unwrap();
        client
    };
    let clients: Vec<UdpSocket> = (0..40).map(client).collect();
    clients.iter().filter(|client| client.recv(&mut [0; 512]).is_ok()).count()
}

#[test]
fn a_worker_that_hangs_is_said_to_be_left_behind_and_its_listeners_are_closed() {
    let old = start(Options::default());
    let (address, kept) = (old.local_addresses()[0], old.bound_listeners());
    let inherited = old.export();
    assert_eq!(inherited[0].sockets.len(), 2 * WORKERS, "those of a worker that hangs too");
    let new = start(Options { inherited, ..Options::default() });
    old.vitals().set_stalled(1, true);
    let left = old.leave(&kept, &channel().0, Duration::ZERO);
    assert!(left.stuck == [1] && left.unclosed.is_none(), "{left:?}");
    assert_eq!(answered(address), 40);
    assert!(new.leave(&[], &channel().0, Duration::ZERO).stuck.is_empty());
    UdpSocket::bind(address).expect("nobody has the port");
    std::net::TcpListener::bind(address).expect("nobody has the port");
}

#[test]
fn a_start_that_fails_takes_nothing_from_the_process_that_serves() {
    let serving = start(Options::default());
    let address = serving.local_addresses()[0];
    let inherited = serving.export();
    let failed = start(Options { inherited, paused: true, ..Options::default() });
    failed.give_up();
    assert_eq!(answered(address), 40);
    serving.shutdown(Duration::ZERO);
}

/// As after a moment without a CPU: the next looks would find it well.
#[test]
fn a_worker_that_makes_turns_again_passes_its_connections_on() {
    let old = start(Options::default());
    let (address, kept) = (old.local_addresses()[0], old.bound_listeners());
    let clients: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    let framed = [&[0, QUERY.len() as u8], QUERY].concat();
    for mut client in &clients {
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(&framed).unwrap();
        assert!(client.read(&mut [0; 512]).unwrap() > 0);
    }
    (0..WORKERS).for_each(|worker| old.vitals().set_stalled(worker, true));
    let (heir, connections) = channel();
    let left = old.leave(&kept, &heir, Duration::from_secs(20));
    assert!(left.stuck.is_empty(), "{left:?}");
    drop(heir);
    assert_eq!(connections.iter().count(), clients.len());
}
