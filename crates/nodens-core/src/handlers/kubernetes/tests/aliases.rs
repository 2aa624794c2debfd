//! `ExternalName`.

use super::*;
use crate::testing::Reaction;
use nodens_wire::{Class, Flags, Rcode, Type};

/// Answers A questions with 192.0.2.1; `gone.example.test` does not exist, `lost.…` fails.
fn with_upstream(objects: &str) -> Bench {
    let mut bench = Bench::new(
        ".:53 {\n cache\n kubernetes cluster.local other.local\n forward . 192.0.2.53\n}",
    );
    bench.publish(objects, SERIAL);
    bench.upstream(|_, question| {
        let mut reply = question.clone();
        reply.additional.clear();
        let asked = &question.questions[0];
        let name = asked.qname.to_string();
        let rcode = match name.as_str() {
            "gone.example.test." => Rcode::NXDOMAIN,
            "lost.example.test." => Rcode::SERVFAIL,
            _ => Rcode::NOERROR,
        };
        reply.flags = Flags(Flags::QR).with(Flags::TC, name.starts_with("long")).with_rcode(rcode);
        if rcode == Rcode::NOERROR && asked.qtype == Type::A {
            reply.answer.push(Record {
                owner: asked.qname.clone(),
                rtype: Type::A,
                class: Class::IN,
                ttl: 77,
                rdata: vec![192, 0, 2, 1],
            });
        }
        let mut wire = Vec::new();
        reply.write(&mut wire).unwrap();
        Reaction::Reply(wire)
    });
    bench
}

#[test]
fn an_alias_leads_out_of_the_cluster() {
    let mut bench = with_upstream(CLUSTER);
    let out = "out.shop.svc.cluster.local";
    let cname = format!("{out}. 5 CNAME www.example.test.");
    assert_eq!(shown(&bench.ask(&format!("{out} CNAME"))), format!("NOERROR {cname} |  | "));
    assert_eq!(bench.asked, 0);
    let answer = bench.ask(&format!("{out} A"));
    assert_eq!(
        shown(&answer),
        format!("NOERROR {cname}; www.example.test. 77 A 192.0.2.1 |  | ").replace(" 77 ", " 5 ")
    );
    assert_eq!(shown(&bench.ask(&format!("{out} AAAA"))), format!("NOERROR {cname} |  | "));
    for qtype in ["SRV", "TXT", "MX", "HTTPS"] {
        is_no_data(&mut bench, &[&format!("{out} {qtype}")]);
    }
    is_no_name(
        &mut bench,
        &[
            "endpoint.out.shop.svc.cluster.local CNAME",
            "sub.sub.out.shop.svc.cluster.local CNAME",
            "_http._tcp.out.shop.svc.cluster.local A",
        ],
    );
}

#[test]
fn what_the_target_has_is_kept_and_the_alias_is_not() {
    let mut bench = with_upstream(CLUSTER);
    bench.ask("out.shop.svc.cluster.local A");
    bench.ask("out.shop.svc.cluster.local A");
    assert_eq!(bench.asked, 1, "the target's address is in the cache");
    bench.publish("namespace shop\nalias shop/out other.example.test", SERIAL);
    let answer = bench.ask("out.shop.svc.cluster.local A");
    assert_eq!(answer.answer[1].owner.to_string(), "other.example.test.");
}

#[test]
fn an_alias_may_lead_to_a_service() {
    let mut bench = with_upstream(CLUSTER);
    let same = shown(&bench.ask("same.shop.svc.cluster.local A"));
    assert_eq!(
        same,
        "NOERROR same.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local.; \
         web.shop.svc.cluster.local. 5 A 10.0.0.1 |  | "
    );
    // To a name without addresses of the family it leads nowhere.
    is_no_data(&mut bench, &["same.shop.svc.cluster.local AAAA"]);
    assert_eq!(bench.asked, 0);
}

#[test]
fn chains_end_after_eleven_aliases() {
    let mut objects = String::from("namespace shop\nservice shop/a12 10.0.0.1 http:tcp:80\n");
    for n in 0..12 {
        objects.push_str(&format!("alias shop/a{n} a{}.shop.svc.cluster.local\n", n + 1));
    }
    let mut bench = with_upstream(&objects);
    assert_eq!(answers(&mut bench, "a1.shop.svc.cluster.local A").len(), 12);
    is_no_data(&mut bench, &["a0.shop.svc.cluster.local A"]);
}

#[test]
fn circles_end() {
    let mut bench = with_upstream(
        "namespace shop
        alias shop/self self.shop.svc.cluster.local
        alias shop/below x.below.shop.svc.cluster.local
        alias shop/there back.shop.svc.cluster.local
        alias shop/back there.shop.svc.cluster.local
        alias shop/apex cluster.local
        alias shop/none none.shop.svc.cluster.local
        alias shop/address 192.0.2.1",
    );
    for name in ["self", "below", "there", "apex", "none"] {
        is_no_data(&mut bench, &[&format!("{name}.shop.svc.cluster.local A")]);
    }
    is_no_name(&mut bench, &["address.shop.svc.cluster.local A"]);
}

#[test]
fn circles_through_another_zone_end_too() {
    let mut bench = with_upstream(
        "namespace shop
        alias shop/a b.shop.svc.other.local
        alias shop/b a.shop.svc.cluster.local",
    );
    let answer = bench.ask("a.shop.svc.cluster.local A");
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
}

#[test]
fn failures_of_the_target_are_told() {
    let objects = "namespace shop
        alias shop/gone gone.example.test
        alias shop/lost lost.example.test
        alias shop/long long.example.test";
    let mut bench = with_upstream(objects);
    let gone = bench.ask("gone.shop.svc.cluster.local A");
    assert_eq!((gone.flags.rcode(), gone.answer.len()), (Rcode::NOERROR, 1));
    let lost = bench.ask("lost.shop.svc.cluster.local A");
    assert_eq!((lost.flags.rcode(), lost.answer.len()), (Rcode::SERVFAIL, 1));
    bench.client.transport = crate::Transport::Tcp;
    let long = bench.ask("long.shop.svc.cluster.local A");
    assert!(long.flags.has(Flags::TC));
}
