use crate::testing::{Bench, Reaction};
use nodens_wire::{Builder, Class, Message, Rcode, Section, Type};
use std::cell::RefCell;
use std::rc::Rc;

/// A file with this text, which is removed at the end of the test.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nodens-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// A server whose upstream knows `host.b.test`, `c.a.test`, `x.org` and nothing else.
fn bench(name: &str, zones: &str) -> (Bench, Rc<RefCell<Vec<String>>>) {
    let file = File::new(name, "search a.test b.test\n");
    let path = file.0.display();
    let corefile = format!(".:53 {{\n errors\n autopath {zones} {path}\n forward . 192.0.2.53\n}}");
    let mut bench = Bench::new(&corefile);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    bench.upstream(move |_, question| {
        let asked = &question.questions[0];
        let name = asked.qname.to_folded().to_string();
        let known = matches!(name.as_str(), "host.b.test." | "c.a.test." | "x.org.");
        let rcode = match name.as_str() {
            "bad.b.test." => Rcode::SERVFAIL,
            _ if known => Rcode::NOERROR,
            _ => Rcode::NXDOMAIN,
        };
        log.borrow_mut().push(name);
        let mut reply = Vec::new();
        let flags = question.flags.reply().with_rcode(rcode);
        let mut builder = Builder::new(&mut reply, question.id, flags);
        builder.question(asked.qname.view(), asked.qtype, asked.qclass);
        if known && asked.qtype == Type::A {
            let fields = (Type::A, Class::IN, 30);
            builder.record(Section::Answer, asked.qname.view(), fields, &[1; 4]).unwrap();
        }
        Reaction::Reply(reply)
    });
    (bench, seen)
}

fn owners(message: &Message) -> Vec<String> {
    message.answer.iter().map(|r| format!("{} {} {}", r.owner, r.ttl, r.rtype)).collect()
}

#[test]
fn the_search_list_is_walked_and_a_cname_leads_there() {
    let (mut bench, seen) = bench("walk", "");
    let answer = bench.ask("Host.a.test. A");
    assert_eq!(owners(&answer), ["Host.a.test. 30 CNAME", "Host.b.test. 30 A"]);
    assert_eq!(answer.answer[0].rdata, b"\x04Host\x01b\x04test\x00");
    assert_eq!(answer.questions[0].qname.to_string(), "Host.a.test.");
    assert_eq!(*seen.borrow(), ["host.a.test.", "host.b.test."]);
    let answer = bench.ask("x.org.a.test. A");
    assert_eq!(owners(&answer), ["x.org.a.test. 30 CNAME", "x.org. 30 A"]);
    assert_eq!(owners(&bench.ask("c.a.test. A")), ["c.a.test. 30 A"]);
    // NODATA ends the walk, too.
    let answer = bench.ask("host.a.test. TXT");
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 0));
    let text = bench.shared.registry.render();
    let line = "coredns_autopath_success_total{server=\"dns://:53\"} 4\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn a_name_found_nowhere_gets_the_first_response() {
    let (mut bench, seen) = bench("nowhere", "");
    let answer = bench.ask("nope.a.test. A");
    assert_eq!(answer.flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(answer.questions[0].qname.to_string(), "nope.a.test.");
    assert_eq!(*seen.borrow(), ["nope.a.test.", "nope.b.test.", "nope."]);
}

#[test]
fn names_outside_of_the_first_search_domain_or_the_zones_pass() {
    let (mut bench, seen) = bench("outside", "");
    for question in ["host.c.test. A", "host.b.test. A", "a.test. A"] {
        bench.ask(question);
    }
    assert_eq!(seen.borrow().len(), 3);
    let (mut bench, seen) = self::bench("zones", "b.test");
    bench.ask("host.a.test. A");
    assert_eq!(*seen.borrow(), ["host.a.test."]);
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    for (directive, expected) in [
        ("autopath", "2:1: no resolv-conf specified"),
        ("autopath /nonexistent", "2:10: failed to read /nonexistent"),
        ("autopath a.test @kubernetes", "2:17: search domains from 'kubernetes' are not available yet"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n{directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{expected}")), "{error}");
    }
}
