//! Tests of `grpc`, with upstreams that follow a script and a clock that stands still.

use crate::testing::{Bench, Reaction};
use crate::upstream::{Ask, Carrier, Fault};
use nodens_wire::{Flags, Message, Rcode};
use std::cell::RefCell;
use std::rc::Rc;

/// Whom was asked.
type Log = Rc<RefCell<Vec<String>>>;

fn bench(body: &str) -> Bench {
    Bench::new(&format!(".:53 {{\n prometheus\n {body}\n}}"))
}

/// Answers with this RCODE.
fn answers(question: &Message, rcode: Rcode) -> Reaction {
    let mut reply = question.clone();
    reply.flags = question.flags.reply().with(Flags::RA, true).with_rcode(rcode);
    reply.additional.clear();
    let mut out = Vec::new();
    reply.write(&mut out).unwrap();
    Reaction::Reply(out)
}

fn fails() -> Reaction {
    let text = "upstream 192.0.2.1:53 failed: rpc error: code = 14 desc = no";
    Reaction::Fail(Fault::Refused(text.to_owned()))
}

fn script(bench: &mut Bench, mut script: impl FnMut(&Ask, &Message) -> Reaction + 'static) -> Log {
    let log = Log::default();
    let seen = log.clone();
    bench.upstream(move |ask, question| {
        seen.borrow_mut().push(format!("{} {:?}", ask.upstream.name, ask.carrier));
        script(ask, question)
    });
    log
}

fn rcode_of(bench: &mut Bench, question: &str) -> Rcode {
    bench.ask(question).flags.rcode()
}

#[test]
fn queries_are_calls_to_the_servers_in_their_order() {
    let mut bench = bench("grpc . 192.0.2.1 grpc://192.0.2.2 [2001:db8::1]:9005 {\n policy sequential\n }");
    let log = script(&mut bench, |ask, question| match ask.upstream.name.as_str() {
        "[2001:db8::1]:9005" => answers(question, Rcode::NOERROR),
        _ => fails(),
    });
    assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NOERROR);
    assert_eq!(*log.borrow(), ["192.0.2.1:53 Grpc", "192.0.2.2:443 Grpc", "[2001:db8::1]:9005 Grpc"]);
    let text = bench.shared.registry.render();
    for line in [
        "coredns_grpc_requests_total{to=\"[2001:db8::1]:9005\"} 1",
        // What was not answered does not count.
        "coredns_grpc_requests_total{to=\"192.0.2.1:53\"} 0",
        "coredns_grpc_responses_total{to=\"[2001:db8::1]:9005\",rcode=\"NOERROR\"} 1",
        "coredns_grpc_request_duration_seconds_count{to=\"[2001:db8::1]:9005\"} 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("coredns_forward_re"), "{text}");
}

#[test]
fn names_elsewhere_are_the_next_handlers() {
    let mut bench = bench("grpc example.org 192.0.2.1 {\n except Sub.example.org\n }\n whoami");
    let log = script(&mut bench, |_, question| answers(question, Rcode::REFUSED));
    assert_eq!(rcode_of(&mut bench, "www.EXAMPLE.org A"), Rcode::REFUSED);
    assert_eq!(rcode_of(&mut bench, "sub.example.org A"), Rcode::NOERROR);
    assert_eq!(rcode_of(&mut bench, "example.com A"), Rcode::NOERROR);
    assert_eq!(log.borrow().len(), 1);
}

#[test]
fn what_nobody_answers_fails_with_the_reason() {
    let mut bench = bench("errors\n grpc . 192.0.2.1");
    script(&mut bench, |_, _| fails());
    assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::SERVFAIL);
    let said = bench.log.try_iter().any(|record| format!("{record:?}").contains("code = 14 desc = no"));
    assert!(said);
}

#[test]
fn names_that_are_not_there_fall_through() {
    for (option, expected) in [
        ("", [Rcode::NXDOMAIN, Rcode::NXDOMAIN]),
        ("fallthrough", [Rcode::NOERROR, Rcode::NOERROR]),
        ("fallthrough b.example", [Rcode::NXDOMAIN, Rcode::NOERROR]),
    ] {
        let mut bench = bench(&format!("grpc . 192.0.2.1 {{\n {option}\n }}\n whoami"));
        script(&mut bench, |_, question| answers(question, Rcode::NXDOMAIN));
        let found = ["a.example A", "b.example A"].map(|name| rcode_of(&mut bench, name));
        assert_eq!(found, expected, "{option}");
    }
    // So does what nobody answers, and nothing where there is no next one.
    let mut bench = self::bench("grpc . 192.0.2.1 {\n fallthrough\n }\n whoami");
    script(&mut bench, |_, _| fails());
    assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NOERROR);
    let mut bench = self::bench("grpc . 192.0.2.1 {\n fallthrough\n }");
    script(&mut bench, |_, question| answers(question, Rcode::NXDOMAIN));
    assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NXDOMAIN);
}

#[test]
fn forward_stands_before_it() {
    let mut bench = bench("grpc . 192.0.2.1 {\n fallthrough\n }\n forward . 192.0.2.2");
    let log = script(&mut bench, |ask, question| match ask.carrier {
        Carrier::Grpc => answers(question, Rcode::NXDOMAIN),
        _ => answers(question, Rcode::NOERROR),
    });
    assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NOERROR);
    assert_eq!(*log.borrow(), ["192.0.2.2:53 Udp"]);
}

#[test]
fn there_is_tls_if_one_of_its_options_is_there() {
    for (body, name) in [
        ("", None),
        ("tls_servername \"\"", None),
        ("tls", Some("192.0.2.1")),
        ("tls_servername dns.example", Some("dns.example")),
        ("tls\n tls_servername dns.example", Some("dns.example")),
    ] {
        let bench = bench(&format!("grpc . 192.0.2.1 {{\n {body}\n }}"));
        let handlers = &bench.worker.config().blocks[0].handlers;
        let grpc = handlers.iter().find_map(|handler| match handler {
            crate::handlers::Handler::Grpc(grpc) => Some(grpc),
            _ => None,
        });
        let peer = grpc.unwrap().asking.upstreams[0].key.tls.as_ref();
        let found = peer.map(|peer| peer.name().to_str().into_owned());
        assert_eq!(found.as_deref(), name, "{body}");
    }
}

#[test]
fn a_name_without_tls_is_warned_of() {
    for (body, expected) in [("", true), ("{\n tls\n }", false)] {
        let bench = bench(&format!("grpc . 192.0.2.1%dns.example {body}"));
        let text = "192.0.2.1:53%dns.example: the name has no effect without tls";
        let warned = bench.log.try_iter().any(|record| format!("{record:?}").contains(text));
        assert_eq!(warned, expected, "{body}");
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    let many = (1..=16).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>().join(" ");
    for (body, expected) in [
        ("grpc".to_owned(), "Corefile:2:2: Wrong argument count after 'grpc'"),
        ("grpc .".to_owned(), "Corefile:2:2: Wrong argument count after 'grpc'"),
        ("grpc a..b 192.0.2.1".to_owned(), "Corefile:2:7: zone is not a valid domain name"),
        ("grpc . dns.example".to_owned(), "Corefile:2:9: not an IP address or file \"dns.example\""),
        ("grpc . grpc://".to_owned(), "Corefile:2:9: invalid address: \"grpc://\""),
        ("grpc . tls://192.0.2.1".to_owned(), "Corefile:2:9: 'tls' is not supported as a destination"),
        ("grpc . unix:///sock".to_owned(), "Corefile:2:9: 'unix' is not supported as a destination"),
        (format!("grpc . {many}"), "Corefile:2:9: more than 15 TOs configured: 16"),
        ("grpc . 192.0.2.1\n grpc . 192.0.2.2".to_owned(), "Corefile:3:2: this plugin can only be used"),
        ("grpc . 192.0.2.1 {\n policy rtt\n }".to_owned(), "Corefile:3:9: unknown policy 'rtt'"),
        ("grpc . 192.0.2.1 {\n policy\n }".to_owned(), "Corefile:3:2: Wrong argument count"),
        ("grpc . 192.0.2.1 {\n except\n }".to_owned(), "Corefile:3:2: Wrong argument count"),
        ("grpc . 192.0.2.1 {\n tls a b c d\n }".to_owned(), "Corefile:3:12: Wrong argument count"),
        ("grpc . 192.0.2.1 {\n tls /no.pem\n }".to_owned(), "Corefile:3:2: could not read /no.pem"),
        ("grpc . 192.0.2.1 {\n tls_servername a..b\n }".to_owned(), "Corefile:3:17: \"a..b\" is no"),
        ("grpc . 192.0.2.1 {\n max_fails 2\n }".to_owned(), "Corefile:3:2: "),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n {body}\n}}")).err().unwrap().to_string();
        assert!(error.starts_with(expected), "{body}: {error}");
    }
}
