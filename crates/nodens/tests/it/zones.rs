//! Zones of the real program: what is seen of them, the memory they may take, and those that are kept on disk
//! through restarts and hand-overs.

use crate::fixture::{Folder, PATIENCE, Server, eventually, free_port};
use nodens_wire::{Rcode, Type};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const ZONE: &str =
    "@ 60 SOA ns . 7 3600 900 86400 60\n@ NS ns\nns A 192.0.2.1\n*.wild A 192.0.2.2\n";

#[test]
fn zones_are_shown_to_those_who_see_queries_and_to_nobody_else() {
    let folder = Folder::new("zones-shown-files");
    let (good, http) = (folder.write("db.good", ZONE), free_port());
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{http}\n file {} good.example\n \
         file {}/none lost.example\n}}\n",
        good.display(),
        folder.0.display()
    );
    let socket = folder.0.join("top");
    let socket = socket.to_str().unwrap();
    let arguments = ["-top", "-top-http", "-top-socket", socket];
    let server = Server::start_with("zones-shown", &corefile, &arguments);
    let (status, body) = server.get(http, "/debug/zones.json?name=GOOD");
    assert!(status.contains("200"), "{status}");
    let report: Value = serde_json::from_str(&body).unwrap();
    let zone = &report["zones"][0];
    let wanted = [("name", "good.example."), ("source", "file"), ("from", good.to_str().unwrap())];
    for (field, value) in wanted {
        assert_eq!(zone[field], value, "{report}");
    }
    assert_eq!(
        (&zone["serial"], &zone["records"], &report["matched"]),
        (&7.into(), &4.into(), &1.into())
    );
    let (_, page) = server.get(http, "/debug/zones?failed=1");
    assert!(page.contains("lost.example.") && !page.contains("good.example."), "{page}");
    assert!(page.contains("No such file"), "{page}");
    let (_, metrics) = server.get(http, "/metrics");
    for line in
        ["nodens_zones{source=\"file\"} 2\n", "nodens_zones_not_served{source=\"file\"} 1\n"]
    {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    drop(server);
    let hidden = ["-top", "-top-socket", socket];
    let server = Server::start_with("zones-hidden", &corefile, &hidden);
    assert!(server.get(http, "/debug/zones").0.contains("403"));
    drop(server);
    let server = Server::start("zones-unseen", &corefile);
    assert!(server.get(http, "/debug/zones.json").0.contains("404"));
}

#[test]
fn a_version_for_which_there_is_no_memory_is_refused_and_the_one_before_stays() {
    let folder = Folder::new("zones-memory-files");
    let path = folder.write("db", ZONE);
    let corefile = format!(
        "zone.example:PORT {{\n bind 127.0.0.1\n file {} {{\n  reload 1s\n }}\n}}\n",
        path.display()
    );
    let limit = ["-memory", "64MiB", "-workers", "1"];
    let server = Server::start_with("zones-memory", &corefile, &limit);
    let rcode = |name: &str| server.ask(name, Type::A).flags.rcode();
    assert_eq!(rcode("ns.zone.example."), Rcode::NOERROR);
    let text = "x".repeat(250);
    let mut large = ZONE.replace(" 7 ", " 8 ");
    for host in 0..40_000 {
        _ = writeln!(large, "h{host} TXT {text} {text} {text} {text}");
    }
    folder.write("new", &large);
    std::fs::rename(folder.0.join("new"), &path).unwrap();
    let line = server.wait_long_for("no more memory for zones", 4 * PATIENCE);
    assert!(line.contains("[ERROR]") && line.contains("zone.example."), "{line}");
    assert_eq!(rcode("ns.zone.example."), Rcode::NOERROR);
    folder.write("new", &ZONE.replace(" 7 ", " 9 "));
    std::fs::rename(folder.0.join("new"), &path).unwrap();
    server.wait_long_for("with 9 SOA serial", PATIENCE);
}

/// A primary with a zone, and the Corefile of a secondary that keeps it in `store`.
fn pair(name: &str, store: &Path) -> (Server, String) {
    let folder = Folder::new(&format!("{name}-files"));
    let path = folder.write("db", ZONE);
    let corefile = format!(
        "zone.example:PORT {{\n bind 127.0.0.1\n file {}\n transfer {{\n  to *\n }}\n}}\n",
        path.display()
    );
    let primary = Server::start(&format!("{name}-primary"), &corefile);
    let corefile = format!(
        "zone.example:PORT {{\n bind 127.0.0.1\n ready 127.0.0.1:{}\n secondary {{\n  transfer from {}\n  \
         store {}\n }}\n}}\n",
        free_port(),
        primary.address,
        store.display()
    );
    (primary, corefile)
}

#[test]
fn stored_zones_are_served_from_the_first_query_on() {
    let store = Folder::new("zones-store");
    let (primary, corefile) = pair("zones-first", &store.0);
    let server = Server::start("zones-before", &corefile);
    server.wait_for("Transferred: zone.example. from ");
    assert!(server.end("-TERM").success());
    drop(primary);
    let server = Server::start("zones-after", &corefile);
    let answer = server.ask("a.wild.zone.example.", Type::A);
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 1));
}

#[test]
fn a_folder_with_zones_passes_to_the_successor() {
    let store = Folder::new("zones-passed");
    let (_primary, corefile) = pair("zones-passing", &store.0);
    let server = Server::start("zones-handover", &corefile);
    server.wait_for("Transferred: zone.example. from ");
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", PATIENCE);
    let is_answered = || {
        let answer = server.ask("ns.zone.example.", Type::A);
        assert_eq!(answer.flags.rcode(), Rcode::NOERROR);
        server.count_seen("the other process has left it") > 0
    };
    eventually("the successor has the folder", is_answered);
    assert_eq!(server.count_seen("ailed to"), 0, "{:?}", server.seen(""));
}
