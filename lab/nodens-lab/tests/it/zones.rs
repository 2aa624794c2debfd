//! `zones`: what a resolver was answered, as zones; and what is no such recording.

use crate::lab;
use crate::schema::Schema;
use lab_workload::dnstap::{Role, Tapped, Transport, Writer};
use nodens_wire::message::Question;
use nodens_wire::{Class, Flags, Message, Name, Record, Type};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;

const ROOT: &str = "198.41.0.4";
const EXAMPLE: &str = "192.0.2.20";

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> Record {
    let (owner, rdata) = (name(owner), rdata.to_vec());
    Record { owner, rtype, class: Class::IN, ttl: 300, rdata }
}

/// A response for `www.example` of type A, authoritative if it has the answer.
fn response(answer: Vec<Record>, authority: Vec<Record>, additional: Vec<Record>) -> Vec<u8> {
    let aa = if answer.is_empty() { 0 } else { Flags::AA };
    let question = Question { qname: name("www.example"), qtype: Type::A, qclass: Class::IN };
    let flags = Flags(Flags::QR | aa);
    let message =
        Message { id: 1, flags, questions: vec![question], answer, authority, additional };
    let mut octets = Vec::new();
    message.write(&mut octets).unwrap();
    octets
}

/// A recording of what a resolver was answered, or of what its clients were.
fn recording(role: Role) -> Vec<u8> {
    let server = name("ns.example");
    let referral = response(
        Vec::new(),
        vec![record("example", Type::NS, server.as_wire())],
        vec![record("ns.example", Type::A, &[192, 0, 2, 20])],
    );
    let answer =
        response(vec![record("www.example", Type::A, &[10, 0, 0, 1])], Vec::new(), Vec::new());
    let mut writer = Writer::start(Vec::new()).unwrap();
    for (at, (server, octets)) in [(ROOT, referral), (EXAMPLE, answer)].into_iter().enumerate() {
        let address: IpAddr = server.parse().unwrap();
        let tapped = Tapped {
            role,
            is_response: true,
            transport: Some(Transport::Udp),
            asker: (Some([192, 0, 2, 1].into()), Some(4_000)),
            asked: (Some(address), Some(53)),
            query_time: None,
            response_time: Some(1_000 + at as u64),
            query: None,
            response: Some(octets),
        };
        writer.message(&tapped).unwrap();
    }
    writer.stop().unwrap()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_recording_becomes_zones_with_a_report_that_is_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, out) = (folder.path().join("resolver.fstrm"), folder.path().join("rebuilt"));
    std::fs::write(&capture, recording(Role::Resolver)).unwrap();
    let output =
        lab(&["zones", &text(&capture), "-o", &text(&out), "--require-same", "100%", "--json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*errors), (Some(0), ""));
    let written = std::fs::read(out.join("report.json")).unwrap();
    assert_eq!(output.stdout, written);
    let report: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(Schema::of("zones").faults(&report), [""; 0]);
    let zones: Vec<_> =
        report["zones"].as_array().unwrap().iter().map(|zone| &zone["name"]).collect();
    assert_eq!(zones, [".", "example."]);
    assert_eq!((&report["check"]["same"], &report["check"]["questions"]), (&2.into(), &2.into()));
    let zone = std::fs::read_to_string(out.join("zones/db.example")).unwrap();
    assert!(zone.contains("www.example.\t300\tIN\tA\t10.0.0.1\n"), "{zone}");
    for file in ["Corefile", "root.hints", "addresses", "zones/db.root"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    // What is there is not overwritten.
    let output = lab(&["zones", &text(&capture), "-o", &text(&out)]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("is not empty, expected a new or an empty folder"), "{errors}");
    assert_eq!(std::fs::read(out.join("report.json")).unwrap(), written);
}

#[test]
fn what_is_no_recording_of_a_resolver_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, octets: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, octets).unwrap();
        text(&path)
    };
    let good = write("good", &recording(Role::Resolver));
    let nonsense = write("nonsense", b"text");
    let clients = write("clients", &recording(Role::Client));
    let empty = write("empty", &Writer::start(Vec::new()).unwrap().stop().unwrap());
    let out = text(&folder.path().join("out"));
    for (capture, out, reason) in [
        (&*nonsense, &*out, "nonsense: not a capture, expected the format pcap, pcapng or dnstap"),
        ("/nowhere", &out, "cannot read /nowhere"),
        (&empty, &out, "no response of an authoritative server; expected a capture of what a"),
        (&clients, &out, "no response of an authoritative server; expected a capture of what a"),
        (&good, "/proc/nodens", "cannot create /proc/nodens/zones"),
        (&good, "/dev/null", "cannot read /dev/null"),
    ] {
        let output = lab(&["zones", capture, "-o", out]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(reason), "{reason}: {errors}");
        assert!(output.stdout.is_empty() && !errors.contains("panicked"), "{errors}");
    }
    assert!(!Path::new(&out).exists(), "nothing is left of a refused recording");
}

#[test]
fn a_recording_that_is_cut_gives_what_is_whole_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, out) = (folder.path().join("cut.fstrm"), folder.path().join("rebuilt"));
    let whole = recording(Role::Resolver);
    // Without STOP and the end of the last frame.
    std::fs::write(&capture, &whole[..whole.len() - 20]).unwrap();
    let output = lab(&["zones", &text(&capture), "-o", &text(&out), "--json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("frame 3 (octet ") && errors.contains("left out"), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["responses"], 1);
}
