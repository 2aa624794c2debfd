//! What is forwarded, as what, and what comes back.

use super::*;
use nodens_wire::edns::{code, push_option};
use nodens_wire::shape::{ResponseEdns, shape};

#[test]
fn an_upstreams_answer_is_given_to_the_client() {
    let mut bench = bench("192.0.2.1", "");
    let log = script(&mut bench, |_, question| replies(question));
    let answer = bench.ask("Example.ORG. A");
    assert_eq!(answer.questions[0].qname.to_string(), "Example.ORG.");
    assert!(answer.flags.has(Flags::QR | Flags::RA | Flags::RD));
    assert_eq!(answer.answer[0].rdata, [198, 51, 100, 0]);
    assert_eq!(*log.borrow(), [(1, Carrier::Udp, false)]);
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn the_first_forward_that_contains_the_name_has_it() {
    let mut bench = Bench::new(
        ".:53 {\n forward lab.example.org 192.0.2.1\n forward example.org:99 192.0.2.2 {\n \
         except secret.example.org\n }\n forward example.com 192.0.2.5 {\n except EXAMPLE.com\n \
         }\n forward 10.1.0.0/16 192.0.2.3\n \
         forward . 192.0.2.4 {\n except internal\n }\n}",
    );
    let log = script(&mut bench, |_, question| replies(question));
    for (qname, expected) in [
        ("lab.example.org.", 1),
        ("a.LAB.example.org.", 1),
        ("xlab.example.org.", 2),
        // FROM itself cannot be excepted, and what is excepted goes on to the next.
        ("example.com.", 5),
        ("a.example.com.", 4),
        ("a.secret.example.org.", 4),
        ("4.3.1.10.in-addr.arpa.", 3),
        ("4.3.2.10.in-addr.arpa.", 4),
        (".", 4),
    ] {
        bench.ask(&format!("{qname} A"));
        assert_eq!(asked(&log), [expected], "{qname}");
    }
    assert_eq!(rcode_of(&mut bench, "a.internal. A"), Rcode::SERVFAIL);
    assert!(asked(&log).is_empty());
}

#[test]
fn the_question_leaves_as_the_chain_left_it() {
    let mut bench = bench("192.0.2.1", "");
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sink = seen.clone();
    script(&mut bench, move |_, question| {
        sink.borrow_mut().push(question.clone());
        replies(question)
    });
    bench.ask("Example.org. TXT CH +norec +cd +ad");
    bench.ask("example.org. AAAA +do");
    let seen = seen.borrow();
    assert_eq!(seen[0].flags, Flags(Flags::CD | Flags::AD));
    assert_eq!(seen[0].questions[0].qname.to_string(), "Example.org.");
    assert_eq!((seen[0].questions[0].qtype, seen[0].questions[0].qclass), (Type::TXT, Class::CH));
    assert!(seen[0].edns().is_none());
    let (edns, _) = seen[1].edns().unwrap();
    assert!(edns.dnssec_ok());
    assert_eq!(edns.udp_size, 1232);
}

#[test]
fn options_for_one_hop_stay_behind_in_both_directions() {
    let mut options = Vec::new();
    push_option(&mut options, code::COOKIE, b"12345678");
    push_option(&mut options, code::PADDING, b"\0\0");
    push_option(&mut options, code::NSID, b"");
    let mut request = crate::testing::request("example.org. A");
    let edns = ResponseEdns { udp_size: 4096, flags: 0, options: &options };
    shape(&mut request, Rcode::NOERROR, Some(edns), 512).unwrap();

    let mut bench = bench("192.0.2.1", "");
    script(&mut bench, |_, question| {
        let (edns, options) = question.edns().unwrap();
        assert_eq!(edns.udp_size, 4096);
        assert_eq!(options.map(|(code, _)| code).collect::<Vec<_>>(), [code::NSID]);
        let mut options = Vec::new();
        push_option(&mut options, code::NSID, b"ns1");
        push_option(&mut options, code::TCP_KEEPALIVE, b"\0\x10");
        let mut reply = answer(question, Rcode::NOERROR, 1);
        let edns = ResponseEdns { udp_size: 512, flags: 0, options: &options };
        shape(&mut reply, Rcode::NOERROR, Some(edns), 512).unwrap();
        Reaction::Reply(reply)
    });
    let answer = Message::parse(&bench.ask_bytes(&request).unwrap()).unwrap();
    let options: Vec<_> = answer.edns().unwrap().1.collect();
    assert_eq!(options, [(code::NSID, &b"ns1"[..])]);
}

/// Code and data of an option.
type Opt = (u16, &'static [u8]);

#[test]
fn a_client_gets_the_options_that_it_asked_for_in_their_form_and_errors() {
    const SUBNET: &[u8] = b"\0\x01\x18\x18\xc0\0\x02";
    const OF_UPSTREAM: &[Opt] = &[
        (code::NSID, b"ns1"),
        (code::CLIENT_SUBNET, SUBNET),
        (code::CLIENT_SUBNET, b"\0\x01\x18\x18\xc0\0\x02\0"),
        (code::EXTENDED_ERROR, b"\0\x0fwhy"),
        (code::EXTENDED_ERROR, b"\0"),
        (65_001, b"any"),
    ];
    let error = (code::EXTENDED_ERROR, &b"\0\x0fwhy"[..]);
    let cases: [(&[Opt], Vec<Opt>); 4] = [
        (&[], vec![error]),
        (&[(code::NSID, b"")], vec![(code::NSID, b"ns1"), error]),
        (&[(code::CLIENT_SUBNET, SUBNET)], vec![(code::CLIENT_SUBNET, SUBNET), error]),
        (&[(65_001, b"")], vec![error, (65_001, b"any")]),
    ];
    for (asked, expected) in cases {
        let mut bench = bench("192.0.2.1", "");
        script(&mut bench, |_, question| {
            let mut reply = answer(question, Rcode::NOERROR, 1);
            let options = rdata(OF_UPSTREAM);
            let edns = ResponseEdns { udp_size: 512, flags: 0, options: &options };
            shape(&mut reply, Rcode::NOERROR, Some(edns), 512).unwrap();
            Reaction::Reply(reply)
        });
        let mut request = crate::testing::request("example.org. A");
        let options = rdata(asked);
        let edns = ResponseEdns { udp_size: 4096, flags: 0, options: &options };
        shape(&mut request, Rcode::NOERROR, Some(edns), 512).unwrap();
        let answer = Message::parse(&bench.ask_bytes(&request).unwrap()).unwrap();
        assert_eq!(answer.edns().unwrap().1.collect::<Vec<_>>(), expected, "{asked:?}");
    }
}

fn rdata(options: &[Opt]) -> Vec<u8> {
    let mut rdata = Vec::new();
    for (code, data) in options {
        push_option(&mut rdata, *code, data);
    }
    rdata
}

#[test]
fn the_whole_rcode_is_passed_on() {
    let mut bench = bench("192.0.2.1", "");
    script(&mut bench, |_, question| {
        let mut reply = answer(question, Rcode::NOERROR, 0);
        let edns = ResponseEdns { udp_size: 512, flags: 0, options: &[] };
        shape(&mut reply, Rcode::BADVERS, Some(edns), 512).unwrap();
        Reaction::Reply(reply)
    });
    let answer = bench.ask("example.org. A +edns");
    assert_eq!(answer.edns().unwrap().0.extended_rcode, 1);
    let series = "coredns_proxy_request_duration_seconds_count\
                  {proxy_name=\"forward\",to=\"192.0.2.1:53\",rcode=\"BADVERS\"}";
    assert_eq!(metric(&bench, series), 1.0);
}

#[test]
fn the_client_chooses_the_carrier_unless_the_corefile_does() {
    for (body, udp, tcp) in [
        ("", Carrier::Udp, Carrier::Tcp),
        ("force_tcp", Carrier::Tcp, Carrier::Tcp),
        ("prefer_udp", Carrier::Udp, Carrier::Udp),
        ("prefer_udp\n force_tcp", Carrier::Tcp, Carrier::Tcp),
    ] {
        let mut bench = bench("192.0.2.1", body);
        let log = script(&mut bench, |_, question| replies(question));
        bench.ask("example.org. A");
        over_tcp(&mut bench);
        bench.ask("example.org. A");
        let carriers: Vec<_> = log.borrow().iter().map(|(_, carrier, _)| *carrier).collect();
        assert_eq!(carriers, [udp, tcp], "{body}");
    }
}

fn truncates(ask: &Ask, question: &Message) -> Reaction {
    let mut reply = answer(question, Rcode::NOERROR, 1);
    if ask.carrier == Carrier::Udp {
        let flags = question.flags.reply().with(Flags::TC, true);
        nodens_wire::header::set_flags(&mut reply, flags);
    }
    Reaction::Reply(reply)
}

#[test]
fn a_truncated_reply_is_fetched_whole_for_whoever_can_use_it() {
    let mut plain = bench("192.0.2.1", "");
    let log = script(&mut plain, truncates);
    assert!(plain.ask("example.org. A").flags.has(Flags::TC));
    assert_eq!(log.borrow().len(), 1);

    let mut whole = bench("192.0.2.1", "prefer_udp");
    let log = script(&mut whole, truncates);
    assert!(!whole.ask("example.org. A").flags.has(Flags::TC));
    over_tcp(&mut whole);
    assert!(!whole.ask("example.org. A").flags.has(Flags::TC));
    let carriers: Vec<_> = log.borrow().iter().map(|(_, carrier, _)| *carrier).collect();
    assert_eq!(carriers, [Carrier::Udp, Carrier::Tcp, Carrier::Udp, Carrier::Tcp]);
}

#[test]
fn malformed_replies_are_no_answers() {
    let garble = |question: &Message| {
        let mut reply = answer(question, Rcode::NOERROR, 2);
        reply.truncate(reply.len() - 3);
        Reaction::Reply(reply)
    };
    let mut udp = bench("192.0.2.1", "");
    script(&mut udp, move |_, question| garble(question));
    let answer = udp.ask("example.org. A");
    assert!(answer.flags.has(Flags::TC) && answer.answer.is_empty());

    let mut tcp = bench(&to(2), "policy sequential");
    over_tcp(&mut tcp);
    let log = script(&mut tcp, move |ask, question| {
        if number(ask) == 1 { garble(question) } else { replies(question) }
    });
    assert_eq!(tcp.ask("example.org. A").answer.len(), 1);
    assert_eq!(asked(&log), [1, 2], "no health check");
}

#[test]
fn next_passes_answers_on_to_the_next_forward_only() {
    let corefile = ".:53 {\n forward . 192.0.2.1 {\n next NXDOMAIN refused\n next_on_nodata\n }\n \
                    forward . 192.0.2.2 {\n next NXDOMAIN\n }\n whoami\n}";
    let mut bench = Bench::new(corefile);
    let log = script(&mut bench, |ask, question| {
        let qname = question.questions[0].qname.to_string();
        Reaction::Reply(match (number(ask), qname.as_str()) {
            (1, "nodata.") => answer(question, Rcode::NOERROR, 0),
            (1, "refused.") => answer(question, Rcode::REFUSED, 0),
            (1, "servfail.") => answer(question, Rcode::SERVFAIL, 0),
            (_, "nxdomain.") => answer(question, Rcode::NXDOMAIN, 0),
            _ => answer(question, Rcode::NOERROR, 1),
        })
    });
    for (qname, rcode, expected) in [
        ("data.", Rcode::NOERROR, &[1][..]),
        ("nodata.", Rcode::NOERROR, &[1, 2]),
        ("refused.", Rcode::NOERROR, &[1, 2]),
        ("servfail.", Rcode::SERVFAIL, &[1]),
        ("nxdomain.", Rcode::NXDOMAIN, &[1, 2]),
    ] {
        assert_eq!(rcode_of(&mut bench, &format!("{qname} A")), rcode, "{qname}");
        assert_eq!(asked(&log), expected, "{qname}");
    }
    assert!(bench.shared.in_flight.is_empty());
}

#[test]
fn failover_asks_all_and_gives_the_last_answer() {
    let mut bench = bench(&to(3), "policy sequential\n failover SERVFAIL refused");
    let log = script(&mut bench, |ask, question| {
        let qname = question.questions[0].qname.to_string();
        let rcode = match (qname.as_str(), number(ask)) {
            ("bad.", 1 | 2) => Rcode::SERVFAIL,
            ("bad.", _) => Rcode::REFUSED,
            (_, 1) => Rcode::REFUSED,
            _ => Rcode::NXDOMAIN,
        };
        Reaction::Reply(answer(question, rcode, 0))
    });
    assert_eq!(rcode_of(&mut bench, "bad. A"), Rcode::REFUSED);
    assert_eq!(asked(&log), [1, 2, 3]);
    assert_eq!(rcode_of(&mut bench, "other. A"), Rcode::NXDOMAIN);
    assert_eq!(asked(&log), [1, 2]);
}

#[test]
fn the_metrics_have_the_old_and_the_new_names() {
    let mut bench = bench("192.0.2.1 [2001:db8::2]:1053", "policy sequential");
    script(&mut bench, |_, question| replies(question));
    bench.ask("example.org. A");
    for series in [
        "coredns_forward_requests_total{to=\"192.0.2.1:53\"}",
        "coredns_forward_responses_total{to=\"192.0.2.1:53\",rcode=\"NOERROR\"}",
        "coredns_forward_request_duration_seconds_count{to=\"192.0.2.1:53\",rcode=\"NOERROR\"}",
        "coredns_proxy_request_duration_seconds_count{proxy_name=\"forward\",to=\"192.0.2.1:53\",rcode=\"NOERROR\"}",
    ] {
        assert_eq!(metric(&bench, series), 1.0, "{series}");
    }
    let text = bench.shared.registry.render();
    for series in [
        "coredns_proxy_conn_cache_hits_total{proxy_name=\"forward\",to=\"[2001:db8::2]:1053\",proto=\"tcp\"} 0",
        "coredns_proxy_conn_cache_misses_total{proxy_name=\"forward\",to=\"192.0.2.1:53\",proto=\"udp\"} 0",
        "coredns_proxy_healthcheck_failures_total{proxy_name=\"forward\",to=\"192.0.2.1:53\"} 0",
        "coredns_forward_healthcheck_broken_total 0",
        "coredns_forward_max_concurrent_rejects_total 0",
    ] {
        assert!(text.contains(series), "{series}");
    }
}

#[test]
fn a_long_answer_is_cut_for_a_client_that_takes_less() {
    let mut bench = bench("192.0.2.1", "force_tcp");
    script(&mut bench, |_, question| Reaction::Reply(answer(question, Rcode::NOERROR, 60)));
    let answer = bench.ask("example.org. A");
    assert!(answer.flags.has(Flags::TC));
    assert_eq!(answer.answer.len(), 30);
}

/// A reply of nearly 64 KB that points at more names than a message of ours does.
fn densely_compressed(question: &Message) -> Vec<u8> {
    let mut out = answer(question, Rcode::NOERROR, 0);
    let zone = [0xc0, 12 + 4];
    let rest = [0, 16, 0, 1, 0, 0, 0, 60, 0, 2, 1, b'x'];
    let mut count = 0_u16;
    let mut owners = Vec::new();
    for n in b'0'..b'0' + 70 {
        owners.push((0xc000 | out.len() as u16).to_be_bytes());
        out.extend([63]);
        out.extend([n; 63]);
        out.extend(zone);
        out.extend(rest);
        count += 1;
    }
    while out.len() < 65_000 {
        for owner in &owners[50..] {
            out.extend(owner);
            out.extend(rest);
            count += 1;
        }
    }
    out[6..8].copy_from_slice(&count.to_be_bytes());
    out
}

#[test]
fn a_reply_that_gets_too_long_when_it_is_written_again_is_cut_and_says_so() {
    let mut bench = bench(&to(1), "");
    over_tcp(&mut bench);
    script(&mut bench, |_, question| Reaction::Reply(densely_compressed(question)));
    let reply = bench.ask("www.example.org. TXT");
    assert!(reply.flags.has(Flags::TC));
    assert!((800..900).contains(&reply.answer.len()), "{}", reply.answer.len());
}
