//! Zones on disk: files that are cut, damaged, or have no room.

use super::fake::{Query, host, primary, soa, whole};
use crate::fixture::{Folder, Server, free_port, need};
use nodens_wire::{Name, Rcode, Record, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const FILE: &str = "kept.example.zone";
/// Versions of the zone: one whole, and what the differences lead to.
const FIRST: u32 = 7;
const LAST: u32 = 12;

fn corefile(primary: SocketAddr, store: &Path) -> String {
    format!(
        "kept.example:PORT {{\n bind 127.0.0.1\n secondary {{\n transfer from {primary}\n store {}\n }}\n}}\n",
        store.display()
    )
}

/// The serial number that is served; none if no zone is.
fn serial(server: &Server) -> Option<u32> {
    let answer = server.ask("kept.example.", Type::SOA);
    let soa = answer.answer.first()?;
    let at = soa.rdata.len() - 20;
    Some(u32::from_be_bytes(soa.rdata[at..at + 4].try_into().unwrap()))
}

fn until(server: &Server, wanted: u32) {
    let since = Instant::now();
    while serial(server) != Some(wanted) {
        assert!(since.elapsed() < PATIENCE, "{:#?}", server.seen(""));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hosts(zone: &Name, count: u32) -> impl Iterator<Item = Record> + use<'_> {
    (0..count).map(move |number| {
        let mut record = host(zone, 1);
        record.owner = format!("host-{number}.{zone}").parse().unwrap();
        record
    })
}

/// The zone with so many hosts, in messages of its own.
fn send(query: &Query, stream: &mut TcpStream, serial: u32, count: u32) -> std::io::Result<()> {
    let [begin, rest @ .., end] = &whole(&query.zone, serial)[..] else { return Ok(()) };
    let records: Vec<_> = rest.iter().cloned().chain(hosts(&query.zone, count)).collect();
    stream.write_all(&query.message(std::slice::from_ref(begin)))?;
    for records in records.chunks(500) {
        stream.write_all(&query.message(records))?;
    }
    stream.write_all(&query.message(std::slice::from_ref(end)))
}

/// The whole zone at first, then differences with a host each.
fn growing() -> SocketAddr {
    let (address, _) = primary(|query, stream| {
        let (from, to) =
            (FIRST + query.transfers - query.transfers.min(1), FIRST + query.transfers);
        match query.qtype {
            Type::SOA => query.good(to.min(LAST), stream),
            _ if query.transfers == 0 => send(query, stream, FIRST, 100),
            _ => {
                let [old, new] = [from, to].map(|serial| soa(&query.zone, serial));
                let added = host(&query.zone, to as u8);
                let records = [new.clone(), old, new.clone(), added, new];
                stream.write_all(&query.message(&records))
            }
        }
    });
    address
}

fn closed() -> SocketAddr {
    nodens_testkit::free_address()
}

/// What a start without a primary serves of these octets, and what it says of them.
fn start_with(octets: &[u8], store: &Folder) -> (Option<u32>, Vec<String>) {
    std::fs::write(store.0.join(FILE), octets).unwrap();
    let server = Server::start("torn", &corefile(closed(), &store.0));
    // What is on disk is read before a primary is asked.
    server.wait_for("Failed to transfer kept.example. from ");
    let said = server.seen("Failed to read ");
    if let Some(serial) = serial(&server) {
        let answer = server.ask(&format!("h{serial}.kept.example."), Type::A);
        let first = serial == FIRST;
        assert!(first || answer.answer[0].rdata == [192, 0, 2, serial as u8], "{serial}");
        let next = server.ask(&format!("h{}.kept.example.", serial + 1), Type::A);
        assert_eq!(next.flags.rcode(), Rcode::NXDOMAIN);
    }
    (serial(&server), said)
}

#[test]
fn a_file_that_is_cut_or_damaged_is_an_earlier_version_or_said_to_be_none_and_fetched_again() {
    let store = Folder::new("torn-store");
    let server = Server::start("torn", &corefile(growing(), &store.0));
    until(&server, LAST);
    drop(server);
    let whole = std::fs::read(store.0.join(FILE)).unwrap();
    assert_eq!(start_with(&whole, &store), (Some(LAST), vec![]));
    let (mut none, mut earlier) = (0, 0);
    let mut count = |(serial, said): (Option<u32>, Vec<String>), what: String| {
        match serial {
            None => {
                none += 1;
                assert!(
                    said[0].contains("Failed to read stored zone kept.example.: "),
                    "{what}: {said:?}"
                );
            }
            Some(serial) => {
                earlier += 1;
                assert!((FIRST..LAST).contains(&serial), "{what}: {serial}");
                let wanted = format!("behind serial {serial}");
                // A file that ends where a difference does has nothing wrong.
                assert!(said.is_empty() || said[0].contains(&wanted), "{what}: {said:?}");
                assert!(!said.is_empty() || what.starts_with("cut"), "{what}");
            }
        }
    };
    for at in
        (0..whole.len()).step_by(whole.len() / 12).chain(whole.len() - 300..whole.len()).step_by(7)
    {
        count(start_with(&whole[..at], &store), format!("cut at {at}"));
    }
    for at in (1..whole.len()).step_by(whole.len() / 8).chain([whole.len() - 1, whole.len() - 120])
    {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        count(start_with(&damaged, &store), format!("damaged at {at}"));
    }
    assert!(none > 3 && earlier > 3, "{none} {earlier}");
    // With a primary.
    std::fs::write(store.0.join(FILE), &whole[..whole.len() / 2]).unwrap();
    let server = Server::start("torn", &corefile(growing(), &store.0));
    server.wait_for("Failed to read stored zone kept.example.: damaged at octet ");
    until(&server, LAST);
    drop(server);
    let again = std::fs::read(store.0.join(FILE)).unwrap();
    assert_eq!(start_with(&again, &store), (Some(LAST), vec![]));
}

#[test]
fn a_full_disk_is_said_and_what_is_served_goes_on() {
    need("unshare", "util-linux");
    let (small, large, other) = (8, 30_000, 9);
    let (address, _) = primary(move |query, stream| {
        let (serial, count) = match query.transfers {
            0 => (1, small),
            1 => (2, large),
            _ => (3, other),
        };
        match query.qtype {
            Type::SOA => query.good((query.transfers + 1).min(3), stream),
            _ => send(query, stream, serial, count),
        }
    });
    let (folder, store, port) = (Folder::new("full"), Folder::new("full-store"), free_port());
    folder.write("Corefile", &corefile(address, &store.0).replace("PORT", &port.to_string()));
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=64k none \"$1\"; shift; exec \"$@\"";
    command.args(["--mount", "sh", "-ec", script, "sh"]).arg(&store.0);
    command.arg(env!("CARGO_BIN_EXE_nodens")).args(["-p", &port.to_string(), "-conf"]);
    command.arg(folder.0.join("Corefile"));
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    server.wait_for("serial 1, ");
    // As the program sees it, which has a file system of its own there.
    let inside = Path::new("/proc").join(server.pid().to_string()).join("root");
    let inside = inside.join(store.0.strip_prefix("/").unwrap());
    let first = std::fs::read(inside.join(FILE)).unwrap();
    server.wait_for("Failed to store zone kept.example.: no space left on device");
    until(&server, 2);
    let answer = server.ask("host-29999.kept.example.", Type::A);
    assert_eq!(answer.answer.len(), 1);
    // Nothing is left of the attempt beside the folder's lock, and the version before it is whole.
    let names = || std::fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().file_name());
    let files = || names().filter(|name| name != "lock").count();
    let kept = std::fs::read(inside.join(FILE)).unwrap();
    let next = server.seen("serial 3 after 2").len();
    assert!(next > 0 || (kept == first && files() == 1));
    until(&server, 3);
    let since = Instant::now();
    loop {
        let kept = std::fs::read(inside.join(FILE)).unwrap();
        std::fs::write(store.0.join(FILE), &kept).unwrap();
        if kept != first {
            break;
        }
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let kept = std::fs::read(inside.join(FILE)).unwrap();
    drop(server);
    std::fs::write(store.0.join(FILE), kept).unwrap();
    let server = Server::start("full", &corefile(closed(), &store.0));
    server.wait_for("Failed to transfer kept.example. from ");
    assert_eq!((serial(&server), server.count_seen("Failed to read")), (Some(3), 0));
}
