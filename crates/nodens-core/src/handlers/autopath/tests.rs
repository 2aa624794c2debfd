use crate::log::Record;
use crate::testing::{Bench, Reaction};
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Section, Type};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

mod pods;

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

/// A server for `corefile`, in which `LIST` stands for a file with `list`. Its upstream knows the
/// address of some names and nothing else.
fn bench_of(name: &str, list: &str, corefile: &str) -> (Bench, Rc<RefCell<Vec<String>>>) {
    let file = File::new(name, list);
    let mut bench = Bench::new(&corefile.replace("LIST", &file.0.display().to_string()));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    bench.upstream(move |_, question| {
        let asked = &question.questions[0];
        let name = asked.qname.to_folded().to_string();
        let reply = reply(&name, question);
        log.borrow_mut().push(name.clone());
        match name.starts_with("late.") {
            true => Reaction::After(Duration::from_millis(900), Box::new(Reaction::Reply(reply))),
            false => Reaction::Reply(reply),
        }
    });
    (bench, seen)
}

fn reply(name: &str, question: &Message) -> Vec<u8> {
    let asked = &question.questions[0];
    let known = ["host.b.test.", "c.a.test.", "x.org.", "bad.c.test.", "alias.a.test."];
    let known = known.contains(&name);
    let rcode = match name {
        "bad.b.test." | "broken.a.test." => Rcode::SERVFAIL,
        _ if known => Rcode::NOERROR,
        _ => Rcode::NXDOMAIN,
    };
    let mut reply = Vec::new();
    let flags = question.flags.reply().with_rcode(rcode).with(Flags::AD, true);
    let mut builder = Builder::new(&mut reply, question.id, flags);
    builder.question(asked.qname.view(), asked.qtype, asked.qclass);
    if known && asked.qtype == Type::A {
        let mut owner = asked.qname.clone();
        if name == "alias.a.test." {
            let target: Name = "target.test.".parse().unwrap();
            let fields = (Type::CNAME, Class::IN, 30);
            builder.record(Section::Answer, owner.view(), fields, target.as_wire()).unwrap();
            owner = target;
        }
        let fields = (Type::A, Class::IN, 30);
        builder.record(Section::Answer, owner.view(), fields, &[1; 4]).unwrap();
    }
    reply
}

/// A server whose clients have the search list `a.test b.test`.
fn bench(name: &str, zones: &str) -> (Bench, Rc<RefCell<Vec<String>>>) {
    let corefile = format!(".:53 {{\n errors\n autopath {zones} LIST\n forward . 192.0.2.53\n}}");
    bench_of(name, "search a.test b.test\n", &corefile)
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
fn an_alias_at_the_first_name_is_given_once() {
    let (mut bench, _) = bench("alias", "");
    let answer = bench.ask("alias.a.test. A");
    assert_eq!(owners(&answer), ["alias.a.test. 30 CNAME", "target.test. 30 A"]);
}

#[test]
fn what_nobody_has_signed_is_not_called_authentic() {
    let (mut bench, _) = bench("signed", "");
    assert!(bench.ask("c.a.test. A +ad").flags.has(Flags::AD));
    assert!(!bench.ask("host.a.test. A +ad").flags.has(Flags::AD));
}

#[test]
fn a_failure_on_the_way_leaves_the_walk_to_the_client() {
    let (mut bench, seen) = bench("failure", "");
    // The name exists further down the list, but nobody knows what the second domain would say.
    let answer = bench.ask("bad.a.test. A");
    assert_eq!(answer.flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(answer.questions[0].qname.to_string(), "bad.a.test.");
    assert_eq!(*seen.borrow(), ["bad.a.test.", "bad.b.test."]);
    seen.borrow_mut().clear();
    assert_eq!(bench.ask("broken.a.test. A").flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(*seen.borrow(), ["broken.a.test."]);
}

#[test]
fn a_long_or_slow_list_is_left_to_the_client() {
    let domains: Vec<_> = (0..40).map(|number| format!("d{number}.test")).collect();
    let list = format!("search {}\n", domains.join(" "));
    let corefile = ".:53 {\n autopath LIST\n forward . 192.0.2.53\n}";
    let (mut bench, seen) = bench_of("long", &list, corefile);
    assert_eq!(bench.ask("x.org.d0.test. A").flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(seen.borrow().len(), crate::limits::SEARCH_NAMES_MAX);
    seen.borrow_mut().clear();
    let question = "late.d0.test. A";
    let (answer, took) = bench.ask_for(question, Duration::from_secs(5)).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(took, Duration::from_millis(2700));
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn a_name_with_dots_enough_is_no_walk() {
    let corefile = ".:53 {\n autopath LIST\n forward . 192.0.2.53\n}";
    let (mut bench, seen) = bench_of("ndots", "search a.test\noptions ndots:1\n", corefile);
    // Who searches for `x.org` with `ndots:1` has asked for it alone already.
    assert_eq!(bench.ask("x.org.a.test. A").flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(*seen.borrow(), ["x.org.a.test."]);
    bench.ask("org.a.test. A");
    assert_eq!(seen.borrow()[1..], ["org.a.test.", "org."]);
}

#[test]
fn a_name_that_is_filtered_has_no_records_and_one_that_is_dropped_is_left_to_the_client() {
    for (action, rcode) in [("filter", Rcode::NOERROR), ("drop", Rcode::NXDOMAIN)] {
        let corefile = format!(
            ".:53 {{\n autopath LIST\n acl host.b.test {{\n {action}\n }}\n forward . 192.0.2.53\n}}"
        );
        let (mut bench, seen) = bench_of("filter", "search a.test b.test\n", &corefile);
        let answer = bench.ask("host.a.test. A");
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (rcode, 0), "{action}");
        assert_eq!(*seen.borrow(), ["host.a.test."], "{action}");
    }
}

#[test]
fn access_control_holds_for_every_name() {
    let acl = "acl {\n block net 192.0.2.53\n }";
    let one = format!(
        "a.test x.org:53 {{\n autopath LIST\n {acl}\n forward . 192.0.2.53\n}}"
    );
    let (mut bench, seen) = bench_of("acl", "search a.test\n", &one);
    assert_eq!(bench.ask("x.org.a.test. A").flags.rcode(), Rcode::REFUSED);
    // The block that serves the name alone decides who may ask for it.
    let other = format!(
        "a.test:53 {{\n autopath LIST\n forward . 192.0.2.53\n}}\n\
         org:53 {{\n {acl}\n forward . 192.0.2.53\n}}\n"
    );
    assert_eq!(seen.borrow().len(), 0);
    let (mut bench, seen) = bench_of("acl", "search a.test\n", &other);
    let refused = bench.ask("x.org.a.test. A +edns");
    assert_eq!(refused.flags.rcode(), Rcode::REFUSED);
    assert_eq!(refused.questions[0].qname.to_string(), "x.org.a.test.");
    let blocked = refused.edns().unwrap().1.any(|(code, data)| (code, data) == (15, &[0, 15]));
    assert!(blocked && refused.answer.is_empty(), "{refused:?}");
    assert_eq!(*seen.borrow(), ["x.org.a.test."]);
    bench.client.peer.set_ip([192, 0, 2, 54].into());
    assert_eq!(owners(&bench.ask("x.org.a.test. A"))[1..], ["x.org. 30 A"]);
}

#[test]
fn a_question_that_is_dropped_is_the_clients_only_at_the_first_name() {
    let corefile = ".:53 {
        autopath LIST
        acl nope.a.test nope.b.test host.b.test {
            drop
        }
        forward . 192.0.2.53
    }";
    let (mut bench, seen) = bench_of("dropped", "search a.test b.test\n", corefile);
    assert_eq!(bench.ask_bytes(&crate::testing::request("nope.a.test. A")), None);
    assert_eq!(bench.ask("host.a.test. A").flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(*seen.borrow(), ["host.a.test."]);
}

#[test]
fn names_are_looked_up_as_the_client_would() {
    let corefile = ".:53 {
        bufsize 1232
        log . \"{name}\"
        prometheus
        rewrite stop name exact web.example.org c.a.test answer auto
        autopath LIST
        forward . 192.0.2.53
    }";
    let (mut bench, seen) = bench_of("rewritten", "search a.test\n", corefile);
    let answer = bench.ask("web.example.org.a.test. A");
    let wanted = ["web.example.org.a.test. 30 CNAME", "web.example.org. 30 A"];
    assert_eq!(owners(&answer), wanted);
    assert_eq!(*seen.borrow(), ["web.example.org.a.test.", "c.a.test."]);
    let lines = bench.log.try_iter().filter(|record| matches!(record, Record::Query(_)));
    assert_eq!(lines.count(), 1);
    let text = bench.shared.registry.render();
    let counted = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total{"));
    assert!(counted.map(|line| line.rsplit(' ').next()).eq([Some("1")]), "{text}");
}

#[test]
fn a_question_that_was_rewritten_is_walked_as_it_is_now() {
    let corefile = ".:53 {
        rewrite name suffix .old.test .a.test answer auto
        autopath LIST
        forward . 192.0.2.53
    }";
    let (mut bench, seen) = bench_of("suffix", "search a.test b.test\n", corefile);
    let answer = bench.ask("host.old.test. A");
    assert_eq!(answer.questions[0].qname.to_string(), "host.old.test.");
    assert_eq!(answer.answer.last().unwrap().rdata, [1; 4]);
    assert_eq!(*seen.borrow(), ["host.a.test.", "host.b.test."]);
}

#[test]
fn targets_of_aliases_are_not_searched_for() {
    let corefile = ".:53 {
        autopath LIST
        template IN A d.a.test {
            answer \"{{ .Name }} 30 IN CNAME host.a.test.\"
        }
        forward . 192.0.2.53
    }";
    let (mut bench, seen) = bench_of("target", "search a.test b.test\n", corefile);
    assert_eq!(owners(&bench.ask("d.a.test. A")), ["d.a.test. 30 CNAME"]);
    assert_eq!(*seen.borrow(), ["host.a.test."]);
}

#[test]
fn dns64_translates_what_the_walk_finds() {
    let corefile = ".:53 {\n dns64 {\n allow_ipv4\n }\n autopath LIST\n forward . 192.0.2.53\n}";
    let (mut bench, _) = bench_of("dns64", "search a.test b.test\n", corefile);
    let answer = bench.ask("host.a.test. AAAA");
    assert_eq!(owners(&answer), ["host.a.test. 30 CNAME", "host.b.test. 30 AAAA"]);
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    for (directive, expected) in [
        ("autopath", "2:1: no resolv-conf specified"),
        ("autopath /nonexistent", "2:10: failed to read /nonexistent"),
        ("autopath a.test @erratic", "2:17: 'erratic' has no search lists: expected @kubernetes, @node"),
        ("autopath @kubernetes {\n search a.test\n}", "3:2: unknown property 'search'"),
        ("autopath @node", "2:10: @node has to know the cluster's zone: expected zones"),
        ("autopath cluster.local @node {\n labels a\n}", "3:2: unknown property 'labels'"),
        ("autopath @kubernetes {\n node_search a..b\n}", "3:14: expected a search domain"),
        ("autopath /etc/hosts {\n node_search a.test\n}", "2:"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n{directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{expected}")), "{error}");
    }
}
