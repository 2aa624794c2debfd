//! Servers that follow each other, of which the second has not got what the first answers from.

use super::fixture::{Folder, Server, ask_udp, free_port};
use super::handover::{ANSWER, name, rendezvous};
use nodens_wire::{Rcode, Type};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const ZONE: &str = "$ORIGIN z.test.\n@ 60 IN SOA ns hostmaster 1 3600 600 86400 60\n@ 60 NS ns\n\
                    ns 60 A 192.0.2.1\nw 60 A 192.0.2.7\n";

const WAITS: &str = "waiting for what the running process has, which serves meanwhile";

/// A server of this Corefile that hands over.
fn start(what: &str, corefile: &str) -> Server {
    let (name, folder) = (name(what), rendezvous());
    let arguments = ["-handover", &name, "-handover-dir", &folder, "-handover-trial", "10ms"];
    Server::start_with(&format!("handover-{what}"), corefile, &arguments)
}

/// What comes for a name of the zone.
fn rcode(address: SocketAddr) -> Rcode {
    ask_udp(address, "w.z.test", Type::A).expect("an answer").flags.rcode()
}

/// A server of the zone in `file`.
fn of_file(what: &str, file: &Path) -> Server {
    let file = file.display();
    start(what, &format!("z.test:PORT {{\n bind 127.0.0.1\n file {file}\n}}\n"))
}

#[test]
fn a_successor_without_its_zone_does_not_take_over_from_a_server_that_has_it() {
    let folder = Folder::new("handover-file");
    let file = folder.write("db", ZONE);
    let server = of_file("file", &file);
    assert_eq!(rcode(server.address), Rcode::NOERROR);
    std::fs::remove_file(&file).unwrap();
    server.signal("-USR2");
    let line = server.wait_long_for(WAITS, ANSWER);
    assert!(line.ends_with("without data: 1 zones (z.test.)"), "{line}");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(rcode(server.address), Rcode::NOERROR);
    // It is given up when the server has something else to do; why is said.
    server.signal("-USR1");
    let line = server.wait_long_for("another process serves, ending: ", ANSWER);
    assert!(line.ends_with("; this process has no data of 1 zones (z.test.)"), "{line}");
    server.wait_long_for("ended: exit status: 1", ANSWER);
    assert_eq!(rcode(server.address), Rcode::NOERROR);
    // With the file nothing is missing.
    folder.write("db", ZONE);
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    assert_eq!(server.count_seen(WAITS), 0);
    assert_eq!(rcode(server.address), Rcode::NOERROR);
    assert!(server.end("-TERM").success());
}

#[test]
fn a_server_without_a_zone_hands_over_to_one_without_it() {
    let folder = Folder::new("handover-no-file");
    let server = of_file("no-file", &folder.0.join("db"));
    assert_eq!(rcode(server.address), Rcode::SERVFAIL);
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    assert_eq!(server.count_seen(WAITS), 0);
    assert!(server.end("-TERM").success());
}

#[test]
fn a_successor_waits_for_the_zones_that_its_predecessor_got_from_a_primary() {
    let folder = Folder::new("handover-primary");
    let file = folder.write("db", ZONE);
    let port = free_port();
    let primary = || {
        let text = format!(
            "z.test:{port} {{\n bind 127.0.0.1\n file {}\n transfer {{\n  to *\n }}\n}}\n",
            file.display()
        );
        Server::start("handover-primary-itself", &text)
    };
    let first = primary();
    let server = start(
        "secondary",
        &format!(
            "z.test:PORT {{\n bind 127.0.0.1\n secondary {{\n  transfer from 127.0.0.1:{port}\n }}\n}}\n"
        ),
    );
    super::fixture::eventually("the zone", || rcode(server.address) == Rcode::NOERROR);
    assert!(first.end("-TERM").success());
    server.signal("-USR2");
    server.wait_long_for(WAITS, ANSWER);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(rcode(server.address), Rcode::NOERROR);
    let _first = primary();
    server.wait_long_for("the process that ran before is gone", ANSWER);
    assert_eq!(rcode(server.address), Rcode::NOERROR);
    assert!(server.end("-TERM").success());
}

#[test]
fn a_server_that_knows_no_cluster_hands_over_to_one_that_does_not_either() {
    let kubernetes =
        "kubernetes cluster.local {\n endpoint http://127.0.0.1:1\n startup_timeout 10ms\n }";
    let server = start("no-cluster", &format!(".:PORT {{\n bind 127.0.0.1\n {kubernetes}\n}}\n"));
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    assert_eq!(server.count_seen(WAITS), 0);
    assert!(server.end("-TERM").success());
}
