//! All parts together stay below the memory limit, whatever the number of CPUs and whatever is asked.

use crate::fixture::{
    Folder, PATIENCE, Server, alone, free_port, http_get, memory, nodens, request,
};
use crate::upstreams::{Habit, Upstream};
use nodens_wire::Type;
use std::io::Read;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What the program is told it may use, in octets.
const LIMIT: usize = 96 << 20;
/// New names; with the answers they fill the cache that this limit leaves with many workers.
const NAMES: usize = 30_000;

/// Asks for new names as fast as they are answered, from many ports, so that all workers get some;
/// gives the most memory seen meanwhile.
fn ask_for_new_names(server: &Server) -> usize {
    let sockets: Vec<UdpSocket> = (0..64)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(server.address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            socket
        })
        .collect();
    let (mut most, mut reply) = (0, [0; 4096]);
    for (number, names) in (0..NAMES).collect::<Vec<_>>().chunks(sockets.len()).enumerate() {
        for (name, socket) in names.iter().zip(&sockets) {
            socket
                .send(&request(&format!("n{name}.{}.example.org", "x".repeat(60)), Type::A))
                .unwrap();
        }
        for (_, socket) in names.iter().zip(&sockets) {
            // On a busy machine one may be lost; there are others.
            _ = socket.recv(&mut reply);
        }
        if number % 50 == 0 {
            most = most.max(memory(server.pid(), "RssAnon"));
        }
    }
    most.max(memory(server.pid(), "RssAnon"))
}

#[test]
fn memory_stays_below_its_limit_with_any_number_of_workers() {
    let _alone = alone();
    for workers in ["1", "192"] {
        let upstream = Upstream::start(Habit::Answers(Duration::ZERO));
        let metrics = free_port();
        let corefile = format!(
            ".:PORT {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{metrics}\n cache 3600 {{\n  memory 1GiB\n }}\n forward . {}\n}}\n",
            upstream.address
        );
        let limit = LIMIT.to_string();
        let arguments = ["-workers", workers, "-memory", &limit, "-top", "-top-socket", ""];
        let server = Server::start_with(&format!("memory-{workers}"), &corefile, &arguments);
        server.wait_for("more fits into the memory limit of 96MiB");
        server.wait_for("MiB of 96MiB: ");
        let most = ask_for_new_names(&server);
        assert!(most < LIMIT / 10 * 9, "{} MiB with {workers} workers", most >> 20);
        let (_, text) = http_get(metrics, "/metrics").unwrap();
        let asked = text.lines().filter(|line| line.starts_with("coredns_cache_entries"));
        assert!(asked.count() > 0);
    }
}

/// What queries that wait may take, in octets.
const WAITING: usize = 32 << 20;

/// A query with an option of about 4,000 octets, which goes upstream.
fn long_request(name: &str) -> Vec<u8> {
    const OPTION: u16 = 3_900;
    let mut query = request(name, Type::A);
    // One additional record: OPT.
    query[11] = 1;
    query.extend([0, 0, 41, 4, 208, 0, 0, 0, 0]);
    for field in [OPTION + 4, 65_001, OPTION] {
        query.extend(field.to_be_bytes());
    }
    query.resize(query.len() + usize::from(OPTION), 1);
    query
}

#[test]
fn a_flood_of_long_queries_keeps_to_its_part_of_the_memory_and_gives_it_back() {
    let _alone = alone();
    let upstream = Upstream::start(Habit::Frozen);
    let corefile = format!(".:PORT {{\n bind 127.0.0.1\n forward . {}\n}}\n", upstream.address);
    let waiting = WAITING.to_string();
    let arguments = ["-workers", "1", "-memory", "256MiB", "-pending-memory", &waiting];
    let server = Server::start_with("memory-long", &corefile, &arguments);
    server.wait_for("waiting queries 32MiB, ");
    let used = || memory(server.pid(), "RssAnon");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    let (before, mut most) = (used(), 0);
    for number in 0..12_000 {
        socket.send(&long_request(&format!("n{number}.example.org"))).unwrap();
        if number % 40 == 0 {
            std::thread::sleep(Duration::from_millis(3));
            most = most.max(used());
        }
    }
    let took = most.saturating_sub(before);
    // A tenth is spared for what the allocator keeps.
    assert!(took < WAITING / 10 * 11, "{} MiB", took >> 20);
    assert!(took > WAITING / 2, "{} MiB: too few queries wait", took >> 20);
    let start = Instant::now();
    while used() > before + WAITING / 4 {
        let left = used().saturating_sub(before) >> 20;
        assert!(start.elapsed() < PATIENCE, "{left} MiB of {} are left", took >> 20);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn more_workers_than_fit_are_said_by_a_check() {
    let folder = Folder::new("memory-check");
    let conf = folder.write("Corefile", ". {\n cache {\n  memory 512MiB\n }\n whoami\n}\n");
    let text = check(&conf, &["-memory", "192MiB", "-workers", "128"]);
    assert!(
        text.contains("workers instead of 128: no more fit into the memory limit of 192MiB"),
        "{text}"
    );
    assert!(text.contains("instead of 512MiB"), "{text}");
    assert!(text.contains("memory: at most 172.8MiB of 192MiB: "), "{text}");
}

/// What `-check` says of a Corefile that it accepts.
fn check(conf: &std::path::Path, arguments: &[&str]) -> String {
    let mut command = nodens();
    command.arg("-check").args(arguments).arg("-conf").arg(conf);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let (mut text, start) = (String::new(), Instant::now());
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success() && start.elapsed() < PATIENCE);
    text
}

#[test]
fn what_a_flag_takes_from_the_cache_is_said_by_a_check_and_at_start() {
    let folder = Folder::new("memory-flag");
    let conf = folder.write("Corefile", ". {\n cache\n whoami\n}\n");
    let arguments = ["-memory", "192MiB", "-workers", "4", "-pending-memory", "64MiB"];
    let text = check(&conf, &arguments);
    let warning = "-pending-memory takes 64MiB of the memory limit of 192MiB, 12MiB without the \
                   flag: 34.6MiB are left for the cache instead of 64MiB";
    assert!(text.contains(&format!("warning: {warning}\n")), "{text}");
    assert!(text.contains("cache 34.6MiB and "), "{text}");
    assert!(text.contains("waiting queries 64MiB, "), "{text}");
    let corefile = ".:PORT {\n bind 127.0.0.1\n cache\n whoami\n}\n";
    let server = Server::start_with("memory-flag", corefile, &arguments);
    server.wait_for(&format!("memory: {warning}"));
    server.wait_for("cache 34.6MiB and ");
    // Without a cache nothing is taken from any.
    let conf = folder.write("Corefile", ". {\n whoami\n}\n");
    let text = check(&conf, &arguments);
    assert!(text.contains("no cache") && !text.contains("warning"), "{text}");
}

#[test]
fn a_limit_that_cannot_hold_the_least_is_said_with_the_least_that_can() {
    let folder = Folder::new("memory-small");
    let conf = folder.write("Corefile", ". {\n cache\n whoami\n}\n");
    let text = check(&conf, &["-memory", "24MiB", "-workers", "1"]);
    let (_, least) = text.split_once("the least that works is ").expect(&text);
    let least = least.lines().next().unwrap();
    let text = check(&conf, &["-memory", least, "-workers", "1"]);
    assert!(!text.contains("too small"), "{text}");
}

#[test]
fn zones_have_the_memory_of_a_cache_that_is_not_wanted_and_it_has_less_if_it_is() {
    let folder = Folder::new("memory-zones");
    let mut zone = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nwww A 192.0.2.1\n".to_owned();
    (0..140_000).for_each(|host| zone.push_str(&format!("host-{host:06} A 192.0.2.2\n")));
    let zone = folder.write("zone", &zone);
    let corefile = |cache: &str| {
        format!("example.org:PORT {{\n bind 127.0.0.1\n{cache} file {}\n}}\n", zone.display())
    };
    let arguments = ["-workers", "1", "-memory", "64MiB"];
    let server = Server::start_with("memory-zones", &corefile(""), &arguments);
    let is_answered = || server.ask("www.example.org", Type::A).answer.len() == 1;
    assert!(is_answered());
    let reload = |cache: &str| {
        let text = corefile(cache).replace("PORT", &server.address.port().to_string());
        std::fs::write(&server.conf, text).unwrap();
        server.signal("-USR1");
        server.wait_for("[INFO] Reloading complete");
    };
    // What is served stays, and the cache has what is left.
    reload(" cache\n");
    server.wait_for("and the cache that is wanted leaves");
    assert!(is_answered());
    assert!(memory(server.pid(), "RssAnon") < (64 << 20) / 10 * 9);
}
