//! What a client says in a query beside its question must not decide what others are told.

use super::*;
use nodens_wire::edns::{code, push_option};
use nodens_wire::shape::{ResponseEdns, shape};
use nodens_wire::{Builder, edns};

/// A resolver: answers what is to be resolved, and has nothing but a referral otherwise.
fn resolver(q: &Message) -> Reaction {
    match q.flags.has(Flags::RD) {
        true => reply(q, Rcode::NOERROR).a(60, 1).send(),
        false => reply(q, Rcode::NOERROR).ns(3600).send(),
    }
}

fn query(flags: u16, edns_flags: u16, options: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Builder::new(&mut out, 1, Flags(flags)).question(name("www.example").view(), Type::A, Class::IN);
    let edns = ResponseEdns { udp_size: 1232, flags: edns_flags, options };
    shape(&mut out, Rcode::NOERROR, Some(edns), 512).unwrap();
    out
}

#[test]
fn a_referral_for_a_client_that_wants_no_recursion_is_for_no_other() {
    let mut bench = bench("cache", resolver);
    assert!(bench.ask("www.example. A +norec").answer.is_empty());
    assert_eq!(first(&bench.ask("www.example. A")).0, 1);
    // Nor does such a client learn what others asked for.
    assert!(bench.ask("www.example. A +norec").answer.is_empty());
    assert_eq!(first(&bench.ask("www.example. A")).0, 1);
    assert_eq!(bench.asked, 2);
}

#[test]
fn a_failure_without_recursion_is_none_with_it() {
    let script = |q: &Message| match q.flags.has(Flags::RD) {
        true => reply(q, Rcode::NOERROR).a(60, 1).send(),
        false if q.questions[0].qname == name("silent.example") => fails(),
        false => reply(q, Rcode::SERVFAIL).send(),
    };
    let mut bench = bench("cache", script);
    for qname in ["www.example.", "silent.example."] {
        assert_eq!(bench.ask(&format!("{qname} A +norec")).flags.rcode(), Rcode::SERVFAIL);
        assert_eq!(first(&bench.ask(&format!("{qname} A"))).0, 1);
    }
}

#[test]
fn a_refresh_asks_as_the_clients_of_the_entry_did() {
    for cache in ["cache {\n prefetch 2 1m 90%\n }", "cache {\n serve_stale 1h immediate\n }"] {
        let seen = Rc::<RefCell<Vec<bool>>>::default();
        let log = seen.clone();
        let mut bench = bench(cache, move |q| {
            log.borrow_mut().push(q.flags.has(Flags::RD));
            resolver(q)
        });
        for _ in 0..3 {
            bench.ask("www.example. A +norec");
            bench.pass(4 * SECOND);
            bench.ask("www.example. A +norec");
            bench.pass(2 * SECOND);
        }
        assert!(seen.borrow().len() > 1, "{cache}: nothing was refreshed");
        assert!(!seen.borrow().contains(&true), "{cache}: {seen:?}");
        assert_eq!(first(&bench.ask("www.example. A")).0, 1, "{cache}");
    }
}

#[test]
fn a_successor_keeps_apart_what_its_predecessor_did() {
    let mut old = bench("cache", resolver);
    old.ask("www.example. A +norec");
    let mut packed = Vec::new();
    old.shared.cache.export(old.now, |octets| {
        packed.push(octets.to_vec());
        true
    });
    let mut new = bench("cache", resolver);
    assert!(packed.iter().all(|packed| new.shared.cache.import(packed, new.now)));
    assert!(new.ask("www.example. A +norec").answer.is_empty());
    assert_eq!(new.asked, 0);
    assert_eq!(first(&new.ask("www.example. A")).0, 1);
}

#[test]
fn bits_without_a_meaning_here_do_not_go_upstream() {
    let script = |q: &Message| {
        assert_eq!(q.flags, Flags(Flags::RD | Flags::AD | Flags::CD));
        assert_eq!(q.edns().unwrap().0.flags, edns::DO);
        reply(q, Rcode::NOERROR).a(60, 1).send()
    };
    let mut bench = bench("cache", script);
    // The bit behind DO (RFC 9824 section 5.1) turns NOERROR into NXDOMAIN.
    let bits = Flags::RD | Flags::CD | Flags::AA | Flags::TC | Flags::RA | Flags::Z | 5;
    assert!(bench.ask_bytes(&query(bits, 0xffff, &[])).is_some());
    assert!(bench.ask_bytes(&query(Flags::RD | Flags::CD, edns::DO, &[])).is_some());
    assert_eq!(bench.asked, 1);
}

#[test]
fn an_answer_to_an_option_of_one_client_is_for_no_other() {
    // As some resolvers do, by whose device asks.
    let script = |q: &Message| {
        let (_, mut options) = q.edns().unwrap();
        let device = options.find(|(code, _)| *code == 65_001);
        reply(q, Rcode::NOERROR).a(60, device.map_or(0, |(_, data)| data[0])).send()
    };
    let mut bench = bench("cache 30", script);
    let mut ask = |code: u16, data: &[u8]| {
        let mut options = Vec::new();
        push_option(&mut options, code, data);
        let answer = bench.ask_bytes(&query(Flags::RD, 0, &options)).unwrap();
        let (last, ttl) = first(&Message::parse(&answer).unwrap());
        assert_eq!(ttl, 30, "the longest time is that of the cache all the same");
        (last, bench.asked)
    };
    assert_eq!(ask(65_001, &[7]), (7, 1));
    assert_eq!(ask(65_001, &[8]), (8, 2));
    assert_eq!(ask(code::NSID, &[]), (0, 3));
    // Options that change no answer share one.
    assert_eq!(ask(code::COOKIE, &[1; 8]), (0, 3));
    assert_eq!(ask(code::PADDING, &[0; 9]), (0, 3));
    assert_eq!(ask(65_001, &[9]), (9, 4));
}

/// A size that an upstream sees, and the options.
type Seen = (u16, Vec<(u16, Vec<u8>)>);

/// The sizes that an upstream sees, and the options, of clients that announce `sizes`, each with other data in options.
fn seen_upstream(bufsize: &str, sizes: &[u16]) -> Vec<Seen> {
    let log = Rc::<RefCell<Vec<_>>>::default();
    let seen = log.clone();
    let corefile = format!(
        ".:53 {{\n {bufsize}\n cache\n rewrite edns0 local set 0xfde9 0x07\n forward . 192.0.2.9\n}}"
    );
    let mut bench = Bench::new(&corefile);
    follow(&mut bench, move |q| {
        let (edns, options) = q.edns().unwrap();
        let options = options.map(|(code, data)| (code, data.to_vec()));
        seen.borrow_mut().push((edns.udp_size, options.collect()));
        // Nothing to store, so that every client's query goes upstream.
        reply(q, Rcode::REFUSED).send()
    });
    for (n, size) in (0_u8..).zip(sizes) {
        let mut options = Vec::new();
        for code in [code::NSID, code::DAU, code::KEY_TAG, code::EXPIRE, code::ZONEVERSION] {
            push_option(&mut options, code, &[n; 2]);
        }
        let edns = ResponseEdns { udp_size: *size, flags: 0, options: &options };
        let mut out = Vec::new();
        let flags = Flags(Flags::RD);
        Builder::new(&mut out, 1, flags).question(name("www.example").view(), Type::A, Class::IN);
        shape(&mut out, Rcode::NOERROR, Some(edns), 512).unwrap();
        assert!(bench.ask_bytes(&out).is_some());
    }
    log.take()
}

#[test]
fn clients_with_other_sizes_and_options_send_the_same_query_upstream() {
    let of_operator = || vec![(65_001, vec![7])];
    for size in [512, 600, 1232, 1410, 3999] {
        assert_eq!(seen_upstream("", &[size, 1232]), [(1232, of_operator()), (1232, of_operator())]);
    }
    for size in [4000, 4096, 65_535] {
        assert_eq!(seen_upstream("", &[size]), [(4096, of_operator())]);
    }
    let within = [512, 1000, 1232, 4096].map(|size| seen_upstream("bufsize 1000", &[size])[0].0);
    assert_eq!(within, [1000; 4]);
}
