//! A small Internet, recorded while Unbound walks it, rebuilt, and walked again.
//!
//! Not part of `cargo test`: it needs root, network namespaces, Unbound, Knot, NSD, BIND and the program `nodens`
//! beside `nodens-lab`. `make conformance` runs it.

#[path = "rebuilt_parts/internet.rs"]
mod internet;
#[path = "rebuilt_parts/place.rs"]
mod place;

use internet::Internet;
use nodens_wire::{Message, Name, Type};
use place::{Namespaces, Started};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Names of which at least this part has to get the recorded answer.
const PART: f64 = 0.99;

/// An answer without TTLs: RCODE and records in any order.
type Answer = (u16, BTreeSet<(String, u16, Vec<u8>)>);

fn answer(message: &[u8]) -> Answer {
    let message = Message::parse(message).unwrap();
    let records = message.answer.iter();
    let records = records.map(|record| {
        (record.owner.to_folded().to_string(), record.rtype.0, record.rdata.to_ascii_lowercase())
    });
    (message.flags.rcode().0, records.collect())
}

fn unbound(place: &Namespaces, folder: &Path, hints: &Path) -> Started {
    let conf = folder.join("unbound.conf");
    let text = format!(
        "server:\n directory: \"{0}\"\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         logfile: \"{0}/unbound.log\"\n verbosity: 1\n interface: 127.0.0.1\n root-hints: \"{1}\"\n \
         module-config: \"iterator\"\n num-threads: 1\n infra-keep-probing: yes\n do-ip6: yes\nremote-control:\n control-enable: no\n",
        folder.display(),
        hints.display()
    );
    std::fs::write(&conf, text).unwrap();
    let mut command = place.in_resolver("unbound");
    command.args(["-d", "-c"]).arg(&conf);
    let started = Started::new("unbound", command, folder);
    place.wait_for_answer();
    started
}

fn rebuild(arguments: &[&str]) -> Value {
    let program = env!("CARGO_BIN_EXE_nodens-lab");
    let output = Command::new(program).arg("zones").args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The answers to all questions from a resolver without anything in its cache.
fn walk(place: &Namespaces, folder: &Path, hints: &Path, asked: &[(Name, Type)]) -> Vec<Answer> {
    let resolver = unbound(place, folder, hints);
    let answers = asked.iter().map(|(name, qtype)| answer(&place.ask(name, *qtype))).collect();
    drop(resolver);
    answers
}

/// Compares, prints what differs, and returns the part of the names whose answers are all the same.
fn same(asked: &[(Name, Type)], before: &[Answer], after: &[Answer], by: &str) -> f64 {
    let (mut names, mut differing) = (BTreeSet::new(), BTreeSet::new());
    for ((name, qtype), (old, new)) in asked.iter().zip(before.iter().zip(after)) {
        names.insert(name.to_string());
        if old != new {
            println!("{name} {qtype}: recorded {old:?}, {by} {new:?}");
            differing.insert(name.to_string());
        }
    }
    let same = names.len() - differing.len();
    println!(
        "{by}: {same} of {} names get the recorded answers ({} questions)",
        names.len(),
        asked.len()
    );
    same as f64 / names.len() as f64
}

/// What is served, by which program, and the part of the names that get the recorded answers.
struct Stage<'a> {
    place: &'a Namespaces,
    folder: &'a Path,
    asked: &'a [(Name, Type)],
    recorded: &'a [Answer],
}

impl Stage<'_> {
    /// Rebuilds the zones of a capture, serves them, and lets the resolver ask everything again.
    fn play(&self, capture: &Path, apart: &str, program: &str) -> f64 {
        let by = format!("{program}, {apart}, {}", capture.file_name().unwrap().display());
        let file = place::program(program).unwrap_or_else(|| panic!("no program {program}"));
        let out = self.folder.join(by.replace(", ", "-"));
        let (from, to) = (capture.display().to_string(), out.display().to_string());
        let report = rebuild(&[&from, "-o", &to, "--apart", apart, "--json"]);
        let (check, notes) = (&report["check"], &report["notes"]);
        println!("{by}: check {} of {}: {}", check["same"], check["questions"], check["differing"]);
        for kind in ["filled", "dropped", "conflicts", "contradictions"] {
            let all = notes[kind].as_array().unwrap();
            println!("{by}: {} {kind}, as {:?}", all.len(), all.first());
        }
        self.place.clear_addresses();
        self.place.add_addresses(&std::fs::read_to_string(out.join("addresses")).unwrap());
        let mut command = self.place.in_servers(&file);
        command.args(["-conf", "Corefile"]).current_dir(&out);
        let server = Started::new("server", command, self.folder);
        self.place.wait_for_server(&out.join("addresses"));
        let again = walk(self.place, self.folder, &out.join("root.hints"), self.asked);
        drop(server);
        same(self.asked, self.recorded, &again, &by)
    }
}

#[test]
fn a_resolver_gets_the_recorded_answers_from_rebuilt_zones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let internet = Internet::new();
    let asked = internet.questions();
    let place = Namespaces::new();
    place.add_addresses(&internet.batch());
    let servers = internet.start(&place, folder);
    let whole = folder.join("whole");
    let sniffer = place.record(&whole);
    let hints = folder.join("real.hints");
    std::fs::write(&hints, internet.hints()).unwrap();
    let recorded = walk(&place, folder, &hints, &asked);
    let packets = sniffer.finish();
    drop(servers);
    let answered = recorded.iter().filter(|(rcode, _)| *rcode == 0 || *rcode == 3).count();
    println!(
        "{} zones, {packets} packets, {answered} of {} answered",
        internet.zone_count(),
        asked.len()
    );
    assert!(answered * 100 >= asked.len() * 99, "the servers of the recording answer");
    // Without servers there are no answers, so what comes below comes from the rebuilt zones.
    assert!(!place.is_any_served(internet.addresses()), "a server of the recording still runs");

    let stage = Stage { place: &place, folder, asked: &asked, recorded: &recorded };
    for (apart, program) in [("view", "nodens"), ("bind", "nodens"), ("bind", "coredns")] {
        let part = stage.play(&whole, apart, program);
        assert!(part >= PART, "{program}, {apart}: {part}");
    }
    // As with a cache that had the delegations before the recording began.
    let leaves = folder.join("leaves");
    place::without_servers(&whole, &internet.upper_servers(), &leaves);
    let part = stage.play(&leaves, "view", "nodens");
    assert!(part >= PART, "leaves only: {part}");
}
