use crate::job::Transport;
use crate::limits::{LOOKUP_DEPTH_MAX, REWRITTEN_CNAMES_MAX};
use crate::log::Record;
use crate::testing::{Bench, Reaction};
use nodens_wire::edns::push_option;
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Section, Type};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

mod setup;

type Rr = (&'static str, Type, u32, Vec<u8>);

fn wire(text: &str) -> Vec<u8> {
    Name::parse(text).unwrap().as_wire().to_vec()
}

fn a(owner: &'static str, last: u8) -> Rr {
    (owner, Type::A, 60, vec![192, 0, 2, last])
}

fn cname(owner: &'static str, target: &str) -> Rr {
    (owner, Type::CNAME, 60, wire(target))
}

/// A server that forwards, and the questions that reached its upstream.
fn bench(rules: &str, answer: impl Fn(&str) -> Vec<Rr> + 'static) -> (Bench, Rc<RefCell<Vec<Message>>>) {
    let mut bench = Bench::new(&format!(".:53 {{\n{rules}\nforward . 192.0.2.53\n}}"));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    bench.upstream(move |_, question| {
        let asked = &question.questions[0];
        let mut reply = Vec::new();
        let flags = question.flags.reply().with(Flags::RA, true);
        let mut builder = Builder::new(&mut reply, question.id, flags);
        builder.question(asked.qname.view(), asked.qtype, asked.qclass);
        for (owner, rtype, ttl, rdata) in answer(&asked.qname.to_string()) {
            let owner = if owner == "=" { asked.qname.clone() } else { owner.parse().unwrap() };
            let fields = (rtype, Class::IN, ttl);
            builder.record(Section::Answer, owner.view(), fields, &rdata).unwrap();
        }
        log.borrow_mut().push(question.clone());
        Reaction::Reply(reply)
    });
    (bench, seen)
}

/// Answers every question with one address of its own name.
fn echo(_: &str) -> Vec<Rr> {
    vec![a("=", 1)]
}

/// What the upstream was asked, the question in the answer, and the owners of its answers.
fn through(rules: &str, question: &str) -> (String, String, Vec<String>) {
    let (mut bench, seen) = bench(rules, echo);
    let answer = bench.ask(question);
    let asked = seen.borrow().first().map(|m| m.questions[0].qname.to_string());
    let owners = answer.answer.iter().map(|record| record.owner.to_string()).collect();
    (asked.unwrap_or_default(), answer.questions[0].qname.to_string(), owners)
}

/// Rule, question, name asked upstream, owner in the answer: as CoreDNS 1.15.0 has them.
const NAMES: &[(&str, &str, &str, &str)] = &[
    ("name example.org Example.net", "eXample.org. A", "example.net.", "example.org."),
    ("name exact example.org example.net", "www.example.org. A", "www.example.org.", "www.example.org."),
    // A final dot is added to a prefix, so it ends where a label ends.
    ("name prefix foo- bar-", "foo-x.example.org. A", "foo-x.example.org.", "foo-x.example.org."),
    ("name prefix foo. bar.", "foo.example.org. A", "bar.example.org.", "bar.example.org."),
    ("name prefix foo. bar. answer auto", "foo.example.org. A", "bar.example.org.", "foo.example.org."),
    ("name substring foo bar answer auto", "x.foo. A", "x.bar.", "x.foo."),
    ("name substring foo bar answer auto", "foox.example.org. A", "foox.example.org.", "foox.example.org."),
    ("name suffix .schmoogle.com. .google.com.", "www.schmoogle.com. A", "www.google.com.", "www.google.com."),
    ("name suffix .schmoogle.com. .google.com.", "schmoogle.com. A", "schmoogle.com.", "schmoogle.com."),
    ("name suffix example.org example.net answer auto", "WWW.eXample.org. A", "www.example.net.", "www.example.org."),
    ("name suffix example.org example.net answer auto", "wwwexample.org. A", "wwwexample.net.", "wwwexample.org."),
    (
        "name regex (.*)-(us-west-1)\\.coredns\\.rocks {1}.service.{2}.consul",
        "FTP-us-west-1.coredns.rocks. A",
        "ftp.service.us-west-1.consul.",
        "ftp.service.us-west-1.consul.",
    ),
    (
        "name regex ^([\\w-.]+)\\Q.eu.org.\\E\\z {1}.eu.net answer name ^(?<x>[\\w-.]+)\\.eu[.]net {1}.eu.org",
        "a_b-c.eu.org. A",
        "a_b-c.eu.net.",
        "a_b-c.eu.org.",
    ),
    (
        "name regex (.*)-(us)\\.org {1}.{2}.NET answer name (.*)\\.(us)\\.net {1}-{2}.org",
        "A-us.org. A",
        "a.us.net.",
        "a-us.org.",
    ),
];

#[test]
fn names_are_rewritten_both_ways_as_coredns_does() {
    for (rule, question, asked, owner) in NAMES {
        let (saw, question_back, owners) = through(&format!("rewrite {rule}"), question);
        assert_eq!((saw.as_str(), owners.as_slice()), (*asked, &[(*owner).to_owned()][..]), "{rule}");
        assert_eq!(question_back, question.split(' ').next().unwrap());
    }
}

/// Patterns, templates and logs see the octets of a name as CoreDNS 1.15.0 prints them.
#[test]
fn patterns_see_odd_octets_as_coredns_prints_them() {
    let (mut bench, seen) = bench(
        "log . \"{name}\"
        rewrite name regex ^a[^a-z]{2}b[^a-z]{4}c[^a-z]200d[.]x[.]test[.]$ ok.test
        template IN TXT {
            answer \"{{ .Name }} 60 IN TXT {{ .Question.Name }}\"
        }",
        echo,
    );
    let mut ask = |name: &[u8], qtype: Type| {
        let mut request = Vec::new();
        let name = Name::from_wire(name).unwrap();
        Builder::new(&mut request, 7, Flags(Flags::RD)).question(name.view(), qtype, Class::IN);
        let answer = Message::parse(&bench.ask_bytes(&request).unwrap()).unwrap();
        assert_eq!(answer.questions[0].qname.as_wire(), name.as_wire());
        let line = bench.log.try_iter().find_map(|record| match record {
            Record::Query(query) => Some(query.line()),
            _ => None,
        });
        (answer.answer, line.unwrap())
    };
    let (_, line) = ask(b"\x08a.B \"c\xc8d\x01x\x04test\0", Type::A);
    assert_eq!(line, "a\\.b\\ \\\"c\\200d.x.test.");
    assert_eq!(seen.borrow()[0].questions[0].qname.to_string(), "ok.test.");
    let (answer, line) = ask(b"\x05q$'\x7f!\0", Type::TXT);
    assert_eq!((&*line, answer[0].owner.to_string()), ("q$\\'\\127!.", line.clone()));
    assert_eq!(answer[0].rdata, b"\x06q$'\x7f!.");
}

#[test]
fn continue_goes_on_with_the_new_name_and_stop_does_not() {
    let rules = "rewrite continue name a.org b.org\nrewrite name b.org c.org\nrewrite name c.org d.org";
    let (saw, _, owners) = through(rules, "a.org. A");
    assert_eq!((saw.as_str(), owners), ("c.org.", vec!["a.org.".to_owned()]));
}

#[test]
fn a_name_that_cannot_be_is_a_failure() {
    let (mut bench, seen) = bench("rewrite name regex (.*) a..b\nerrors", echo);
    assert_eq!(bench.ask("a.org. A").flags.rcode(), Rcode::SERVFAIL);
    assert!(seen.borrow().is_empty());
}

#[test]
fn metadata_makes_names_and_a_label_without_value_makes_none() {
    let rules = "metadata\nrewrite name regex ^(.*)\\.org\\.$ {1}.{view/name}.net metadata answer auto";
    let (saw, _, owners) = through(rules, "a.org. A");
    assert_eq!((saw.as_str(), owners), ("a.org.", vec!["a.org.".to_owned()]));
    let rules = format!("{rules}\nview Inner {{\n expr true\n}}");
    let (saw, _, owners) = through(&rules, "a.org. A");
    assert_eq!((saw.as_str(), owners), ("a.inner.net.", vec!["a.org.".to_owned()]));
}

#[test]
fn values_are_rewritten_where_the_rule_says_so() {
    let rules = "rewrite stop {\n name suffix .arpa .arpa\n answer auto\n answer value (.*)\\.service\\.consul\\. {1}.coredns.rocks.\n}";
    let (mut bench, _) = bench(rules, |_| {
        let soa = [wire("ns.service.consul"), wire("host"), vec![0; 20]].concat();
        let mx = [vec![0, 1], wire("mx.service.consul")].concat();
        let srv = [vec![0; 6], wire("srv.service.consul")].concat();
        let naptr = [&[0; 4][..], b"\x01u\x00\x02ab", &wire("n.service.consul")].concat();
        vec![
            ("=", Type::PTR, 60, wire("ftp.service.consul")),
            ("=", Type::SOA, 60, soa),
            ("=", Type::MX, 60, mx),
            ("=", Type::SRV, 60, srv),
            ("=", Type::NAPTR, 60, naptr),
            ("=", Type::TXT, 60, b"\x03ftp".to_vec()),
        ]
    });
    let answer = bench.ask("30.30.30.10.in-addr.arpa. PTR").answer;
    let rdata: Vec<_> = answer.into_iter().map(|record| record.rdata).collect();
    assert_eq!(rdata[0], wire("ftp.coredns.rocks"));
    assert_eq!(rdata[1], [wire("ns.coredns.rocks"), wire("host"), vec![0; 20]].concat());
    assert_eq!(rdata[2], [vec![0, 1], wire("mx.coredns.rocks")].concat());
    assert_eq!(rdata[3], [vec![0; 6], wire("srv.coredns.rocks")].concat());
    assert!(rdata[4].ends_with(&wire("n.coredns.rocks")));
    assert_eq!(rdata[5], b"\x03ftp");
}

#[test]
fn auto_maps_names_below_the_new_one_and_values_too() {
    let (mut bench, _) = bench("rewrite name red.org blue.org", |_| {
        vec![cname("=", "x.Blue.org"), a("x.blue.org", 1), a("notblue.org", 2)]
    });
    let answer = bench.ask("RED.org. A").answer;
    assert_eq!(answer[0].rdata, wire("x.red.org"));
    assert_eq!(answer[1].owner.to_string(), "x.red.org.");
    assert_eq!(answer[2].owner.to_string(), "notblue.org.");
}

#[test]
fn types_and_classes_are_asked_as_others_and_given_back() {
    for mode in ["stop", "continue"] {
        let (mut bench, seen) = bench(&format!("rewrite {mode} type ANY HINFO"), echo);
        let answer = bench.ask("a.org. ANY");
        assert_eq!(seen.borrow()[0].questions[0].qtype, Type::HINFO);
        assert_eq!(answer.questions[0].qtype, Type::ANY);
        assert_eq!(answer.answer.len(), 1);
    }
    let mut bench = Bench::new(".:53 {\n rewrite class CH IN\n chaos\n whoami\n}");
    let answer = bench.ask("a.org. A CH");
    assert_eq!(answer.questions[0].qclass, Class::CH);
    // The address keeps the class in which it was asked for.
    assert_eq!(answer.additional[0].class, Class::IN);
}

#[test]
fn ttls_are_kept_within_bounds() {
    for (range, expected) in [("5-10", 10), ("30-", 60), ("-30", 30), ("90-", 90), ("7", 7)] {
        for also in ["", "\nrewrite name a.org b.org"] {
            let (mut bench, _) = bench(&format!("rewrite continue ttl a.org {range}{also}"), echo);
            assert_eq!(bench.ask("a.org. A").answer[0].ttl, expected, "{range}{also}");
        }
    }
    let (mut bench, _) = bench("rewrite ttl suffix .org 7", echo);
    assert_eq!(bench.ask("a.net. A").answer[0].ttl, 60);
    // The flags of EDNS stand where other records have their TTL.
    assert!(bench.ask("a.org. A +do").edns().unwrap().0.dnssec_ok());
}

#[test]
fn rcodes_are_exchanged_with_and_without_records() {
    let (mut bench, _) = bench("rewrite rcode regex .* NOERROR REFUSED", echo);
    let answer = bench.ask("a.org. A");
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::REFUSED, 1));
    // A response nobody wrote is written, so that it can be changed.
    let mut bench = Bench::new(".:53 {\n rewrite rcode exact a.org 2 0\n}");
    assert_eq!(bench.ask("a.org. A").flags.rcode(), Rcode::NOERROR);
    assert_eq!(bench.ask("b.org. A").flags.rcode(), Rcode::SERVFAIL);
}

#[test]
fn responses_are_rewritten_in_reverse_order() {
    let rules = "rewrite continue ttl a.org 100-\nrewrite continue ttl a.org 5-10";
    let (mut bench, _) = bench(rules, echo);
    assert_eq!(bench.ask("a.org. A").answer[0].ttl, 100);
    let rules = "rewrite continue rcode a.org SERVFAIL NXDOMAIN\nrewrite rcode a.org NOERROR SERVFAIL";
    let (mut bench, _) = self::bench(rules, echo);
    assert_eq!(bench.ask("a.org. A").flags.rcode(), Rcode::NXDOMAIN);
}

fn options(message: &Message) -> Vec<(u16, Vec<u8>)> {
    message.edns().map(|(_, options)| options.map(|(c, d)| (c, d.to_vec())).collect()).unwrap_or_default()
}

/// The options that reach the upstream when a client asks with `sent`.
fn upstream_options(rules: &str, sent: &[(u16, &[u8])]) -> Vec<(u16, Vec<u8>)> {
    let (mut bench, seen) = bench(rules, echo);
    let mut rdata = Vec::new();
    for (code, data) in sent {
        push_option(&mut rdata, *code, data);
    }
    let mut request = Vec::new();
    let qname: Name = "A.org.".parse().unwrap();
    Builder::new(&mut request, 1, Flags(Flags::RD)).question(qname.view(), Type::A, Class::IN);
    let edns = nodens_wire::shape::ResponseEdns { udp_size: 1232, flags: 0, options: &rdata };
    nodens_wire::shape::shape(&mut request, Rcode::NOERROR, Some(edns), 512).unwrap();
    bench.ask_bytes(&request).unwrap();
    let message = seen.borrow()[0].clone();
    options(&message)
}

#[test]
fn options_reach_the_upstream_as_the_rules_say() {
    let one = |code: u16, data: &[u8]| vec![(code, data.to_vec())];
    for (rule, sent, expected) in [
        ("local set 0xffee 0x61626364", vec![], one(0xffee, b"abcd")),
        ("local set 0xffee abcd", vec![(0xffee, &b"x"[..])], one(0xffee, b"abcd")),
        ("local replace 0xffee abcd", vec![], vec![]),
        ("local replace 0xffee abcd", vec![(0xffee, b"x")], one(0xffee, b"abcd")),
        ("local append 0xffee y", vec![(0xffee, b"x")], vec![(0xffee, b"x".to_vec()), (0xffee, b"y".to_vec())]),
        ("local append 0xffee {protocol}", vec![(0xffee, b"x")], one(0xffee, b"x")),
        ("local unset 0xffee", vec![(0xffee, b"x"), (0xffee, b"y")], vec![]),
        ("local set 0xffee {qname}", vec![], one(0xffee, b"A.org.")),
        ("local set 0xffee {qtype}", vec![], one(0xffee, &[0, 1])),
        ("local set 0xffee {client_ip}", vec![], one(0xffee, &[192, 0, 2, 53])),
        ("local set 0xffee {client_port}", vec![], one(0xffee, &40_000_u16.to_be_bytes())),
        ("local set 0xffee {server_ip}", vec![], one(0xffee, &[192, 0, 2, 1])),
        ("local set 0xffee {server_port}", vec![], one(0xffee, &[0, 53])),
        ("local set 0xffee {view/name}", vec![], vec![]),
        ("nsid set", vec![], one(3, b"")),
        ("nsid replace", vec![(3, b"x")], one(3, b"")),
        ("nsid unset", vec![(3, b"")], vec![]),
        ("subnet set 24 56", vec![], one(8, &[0, 1, 24, 0, 192, 0, 2])),
        ("subnet append 24 56", vec![(8, &[0, 1, 8, 0, 10])], one(8, &[0, 1, 8, 0, 10])),
        ("subnet unset", vec![(8, &[0, 1, 8, 0, 10])], vec![]),
    ] {
        let seen = upstream_options(&format!("rewrite edns0 {rule}"), &sent);
        assert_eq!(seen, expected, "{rule}");
    }
}

#[test]
fn local_options_come_back_unless_they_are_reverted() {
    let back = |rules: &str, question: &str| {
        let mut bench = Bench::new(&format!(".:53 {{\n{rules}\nwhoami\n}}"));
        options(&bench.ask(question))
    };
    let set = "rewrite edns0 local set 0xffee abcd";
    assert_eq!(back(set, "a.org. A +edns"), [(0xffee, b"abcd".to_vec())]);
    assert_eq!(back(set, "a.org. A"), []);
    assert_eq!(back(&format!("{set} revert"), "a.org. A +edns"), []);
    let both = "rewrite continue {\n edns0 local set 0xffee abcd\n}\nrewrite edns0 local replace 0xffee bcde revert";
    assert_eq!(back(both, "a.org. A +edns"), [(0xffee, b"abcd".to_vec())]);
    assert_eq!(back("rewrite edns0 nsid set", "a.org. A +edns"), []);
}

#[test]
fn a_cname_gets_another_target_and_what_is_there() {
    let rules = "rewrite cname regex (.*).cdn.example.net. {1}.other.cdn.com.";
    let (mut bench, seen) = bench(rules, |name| match name {
        "my-app.com.other.cdn.com." => vec![("=", Type::A, 100, vec![30, 3, 1, 2])],
        _ => vec![
            cname("=", "my-app.example"),
            cname("my-app.example", "my-app.com.CDN.example.net"),
            a("my-app.com.cdn.example.net", 1),
            a("my-app.com.cdn.example.net", 2),
        ],
    });
    let answer = bench.ask("my-app.com. A").answer;
    let lines: Vec<_> = answer.iter().map(|r| format!("{} {} {}", r.owner, r.ttl, r.rtype)).collect();
    assert_eq!(lines, [
        "my-app.com. 60 CNAME",
        "my-app.example. 60 CNAME",
        "my-app.com.other.cdn.com. 100 A",
    ]);
    assert_eq!(answer[1].rdata, wire("my-app.com.other.cdn.com"));
    assert_eq!(seen.borrow().len(), 2);
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn a_cname_rule_without_a_match_changes_nothing() {
    for kind in ["exact x y", "prefix x. y.", "suffix .x. .y.", "substring x y", "x y"] {
        let (mut bench, seen) = bench(&format!("rewrite cname {kind}"), |_| vec![cname("=", "b.org"), a("b.org", 1)]);
        assert_eq!(bench.ask("a.org. A").answer.len(), 2, "{kind}");
        assert_eq!(seen.borrow().len(), 1);
    }
    let mut bench = Bench::new(".:53 {\n rewrite cname a b\n}");
    assert_eq!(bench.ask("a.org. A").flags.rcode(), Rcode::SERVFAIL);
}

/// As in CoreDNS 1.15.0, but for the number of lookups.
#[test]
fn a_cname_that_is_rewritten_for_ever_ends() {
    let answers = |_: &str| vec![cname("=", "b.org"), a("b.org", 1)];
    let (mut bench, seen) = bench("rewrite cname suffix .org. .org.", answers);
    let answer = bench.ask("a.org. A").answer;
    let types: Vec<_> = answer.iter().map(|record| record.rtype).collect();
    assert_eq!(types[..types.len() - 1], vec![Type::CNAME; LOOKUP_DEPTH_MAX + 1]);
    assert_eq!(types.last(), Some(&Type::A));
    assert!(seen.borrow().len() <= LOOKUP_DEPTH_MAX + 1);
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn aliases_in_a_circle_and_many_aliases_end() {
    let circle = |_: &str| vec![cname("=", "b.net"), cname("b.net", "a.net"), cname("a.net", "b.net")];
    for rule in ["rewrite cname suffix .org. .net.", "dns64 {\n allow_ipv4\n}"] {
        let (mut bench, seen) = bench(rule, circle);
        assert_eq!(bench.ask("a.net. AAAA").answer.len(), 3, "{rule}");
        assert!(seen.borrow().len() <= 2);
    }
    // Each could lead to one with as many.
    for (before, rewritten) in [(REWRITTEN_CNAMES_MAX - 1, true), (REWRITTEN_CNAMES_MAX, false), (1000, false)] {
        let many = move |_: &str| {
            vec![cname("=", "x.net"); before].into_iter().chain([cname("=", "b.org")]).collect()
        };
        let (mut bench, seen) = bench("rewrite cname regex (.*)[.]org[.] {1}.org.", many);
        bench.client.transport = Transport::Tcp;
        let count = bench.ask("a.org. A").answer.len();
        assert_eq!((count > before + 1, seen.borrow().len() > 1), (rewritten, rewritten), "{before}");
        assert!(seen.borrow().len() <= LOOKUP_DEPTH_MAX + 1);
        assert_eq!(bench.worker.pending(), 0);
    }
}

#[test]
fn a_question_no_rule_is_for_passes_untouched() {
    let rules = "rewrite name a.org b.org\nrewrite type MX A\nrewrite ttl b.org 5";
    let (mut bench, seen) = bench(rules, echo);
    let answer = bench.ask("C.org. A");
    assert_eq!(seen.borrow()[0].questions[0].qname.to_string(), "C.org.");
    let record = &answer.answer[0];
    assert_eq!((record.ttl, record.owner.to_string().as_str()), (60, "C.org."));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_client_gets_its_own_question_back(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 0..6),
        rule in prop::sample::select(vec![
            "name regex (.*) x.{1} answer auto",
            "name suffix . .org. answer auto",
            "name substring a. b. answer auto",
            "name prefix a. b. answer value ^(b) {0}x",
            "type A AAAA",
            "ttl regex .* 5-10",
            "edns0 local set 0xffee {qname}",
            "cname regex (.*) x.{1}",
        ]),
    ) {
        let mut qname: Vec<u8> = Vec::new();
        for label in &labels {
            qname.push(label.len() as u8);
            qname.extend(label);
        }
        qname.push(0);
        let qname = Name::from_wire(&qname).unwrap();
        let mut request = Vec::new();
        Builder::new(&mut request, 1, Flags(Flags::RD)).question(qname.view(), Type::A, Class::IN);
        let mut bench = Bench::new(&format!(".:53 {{\nrewrite {rule}\nwhoami\n}}"));
        let answer = Message::parse(&bench.ask_bytes(&request).unwrap()).unwrap();
        prop_assert_eq!(answer.questions[0].qname.as_wire(), qname.as_wire());
        prop_assert_eq!(answer.questions[0].qtype, Type::A);
    }
}
