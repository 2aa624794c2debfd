//! Upstreams over QUIC.

use super::*;
use crate::handlers::Handler;

/// The `forward` at the end of the chain.
fn forward(bench: &Bench) -> &crate::handlers::forward::Forward {
    let Some(Handler::Forward(forward)) = bench.worker.config().blocks[0].handlers.last() else {
        panic!("no forward");
    };
    forward
}

#[test]
fn names_ports_and_metrics_are_those_of_coredns() {
    let own = "quic://192.0.2.1 quic://192.0.2.1%A.example quic://192.0.2.2%b.example:8853 \
               quic://[2001:db8::1%b.example]:99 tls://192.0.2.1";
    let bench = bench(own, "");
    let upstreams = &forward(&bench).asking.upstreams;
    let found: Vec<_> = upstreams
        .iter()
        .map(|upstream| {
            let name = upstream.key.tls.as_ref().unwrap().name().to_str().into_owned();
            (upstream.name.as_str(), name, upstream.carrier(Carrier::Udp))
        })
        .collect();
    let expected = [
        ("192.0.2.1:853", "192.0.2.1", Carrier::Quic),
        ("192.0.2.1:853", "a.example", Carrier::Quic),
        ("192.0.2.2:8853", "b.example", Carrier::Quic),
        ("[2001:db8::1]:99", "b.example", Carrier::Quic),
        ("192.0.2.1:853", "192.0.2.1", Carrier::Tls),
    ];
    assert_eq!(found, expected.map(|(at, name, carrier)| (at, name.to_owned(), carrier)));
    let text = bench.shared.registry.render();
    let has = |to: &str, proto: &str| {
        text.contains(&format!("hits_total{{proxy_name=\"forward\",to=\"{to}\",proto=\"{proto}\"}}"))
    };
    assert!(has("192.0.2.2:8853", "quic"), "{text}");
    assert!(!["udp", "tcp", "tcp-tls"].iter().any(|proto| has("192.0.2.2:8853", proto)), "{text}");
}

#[test]
fn an_upstream_over_quic_is_asked_so_whatever_others_are_asked_over() {
    for body in ["", "force_tcp", "prefer_udp"] {
        let mut bench = bench("quic://192.0.2.1 192.0.2.2", &format!("policy sequential\n{body}"));
        let log = script(&mut bench, |ask, question| match number(ask) {
            1 => refused(ask),
            _ => replies(question),
        });
        assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NOERROR);
        let plain = if body == "force_tcp" { Carrier::Tcp } else { Carrier::Udp };
        let asked: Vec<_> = log.borrow().iter().map(|(who, how, _)| (*who, *how)).collect();
        // The query, the health check, the query.
        assert_eq!(asked.iter().filter(|asked| **asked == (1, Carrier::Quic)).count(), 2, "{asked:?}");
        assert!(asked.contains(&(2, plain)) && asked.len() == 3, "{asked:?}");
    }
}

#[test]
fn a_truncated_response_over_quic_is_passed_on_and_a_refusal_is_made_good_by_another() {
    let mut bench = bench("quic://192.0.2.1", "prefer_udp");
    let log = script(&mut bench, |_, question| {
        let mut reply = answer(question, Rcode::NOERROR, 0);
        reply[2] |= 0x02;
        Reaction::Reply(reply)
    });
    assert!(bench.ask("a.example A").flags.has(Flags::TC));
    assert_eq!(asked(&log), [1]);
    let mut bench = super::bench("quic://192.0.2.1 quic://192.0.2.2", "policy sequential");
    let log = script(&mut bench, |ask, question| match number(ask) {
        1 => Reaction::Fail(Fault::Refused("stream 0 canceled by remote".to_owned())),
        _ => replies(question),
    });
    assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NOERROR);
    // The upstream has the query: it is not asked again on another connection.
    assert_eq!(asked(&log).iter().filter(|who| **who == 1).count(), 2, "with the health check");
}

#[test]
fn zones_are_not_transferred_over_quic() {
    for (to, rcode) in [
        ("quic://192.0.2.1 192.0.2.2", Rcode::NOTIMP),
        ("192.0.2.2 quic://192.0.2.1", Rcode::NOERROR),
        ("tls://192.0.2.1", Rcode::NOERROR),
    ] {
        for qtype in ["AXFR", "IXFR"] {
            let mut bench = bench(to, "policy sequential");
            over_tcp(&mut bench);
            let log = script(&mut bench, |_, question| replies(question));
            assert_eq!(rcode_of(&mut bench, &format!("a.example {qtype}")), rcode, "{to} {qtype}");
            assert_eq!(asked(&log).is_empty(), rcode == Rcode::NOTIMP);
        }
    }
}
