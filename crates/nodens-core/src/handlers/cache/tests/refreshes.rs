//! `prefetch`.

use super::*;

/// An upstream whose answers count up, one after the other, each for 100 s.
fn counting() -> impl FnMut(&Message) -> Reaction {
    let mut last = 0;
    move |q| {
        last += 1;
        reply(q, Rcode::NOERROR).a(100, last).send()
    }
}

fn ask(bench: &mut Bench) -> (u8, u32) {
    first(&bench.ask("www.example. A"))
}

#[test]
fn what_is_popular_is_asked_for_before_it_expires() {
    let mut bench = bench("cache {\n prefetch 2 2m 20%\n }", counting());
    ask(&mut bench);
    bench.pass(79 * SECOND);
    assert_eq!(ask(&mut bench), (1, 21));
    assert_eq!(ask(&mut bench), (1, 21));
    assert_eq!(bench.asked, 1, "too early");
    bench.pass(SECOND);
    assert_eq!(ask(&mut bench), (1, 20), "the client does not wait");
    assert_eq!(bench.asked, 2);
    assert_eq!(ask(&mut bench), (2, 100));
    assert_eq!(metric(&bench, "coredns_cache_prefetch_total", ""), 1.0);
    // The count goes on with the new answer.
    bench.pass(80 * SECOND);
    ask(&mut bench);
    assert_eq!(bench.asked, 3);
}

#[test]
fn a_pause_starts_the_count_again() {
    let mut bench = bench("cache {\n prefetch 3 10s 50%\n }", counting());
    for _ in 0..3 {
        ask(&mut bench);
    }
    bench.pass(60 * SECOND);
    ask(&mut bench);
    ask(&mut bench);
    assert_eq!(bench.asked, 1);
    bench.pass(10 * SECOND);
    ask(&mut bench);
    assert_eq!(bench.asked, 2);
}

#[test]
fn one_refresh_at_a_time() {
    let calls = counter();
    let counted = calls.clone();
    let script = move |q: &Message| {
        *counted.borrow_mut() += 1;
        match *counted.borrow() {
            1 => reply(q, Rcode::NOERROR).a(10, 1).send(),
            _ => after(SECOND / 2, reply(q, Rcode::NOERROR).a(10, 2).send()),
        }
    };
    let mut bench = bench("cache {\n prefetch 1\n }", script);
    ask(&mut bench);
    bench.pass(9 * SECOND);
    for _ in 0..5 {
        assert_eq!(ask(&mut bench), (1, 1));
    }
    assert_eq!(*calls.borrow(), 2);
    assert_eq!(metric(&bench, "coredns_cache_prefetch_total", ""), 1.0);
    bench.pass(SECOND / 2);
    assert_eq!(ask(&mut bench), (2, 10));
}

type Outcome = fn(&Message) -> Reaction;

/// An address for `ttl` seconds, then what `then` makes, and another address once that is over.
fn failing(ttl: u32, then: Outcome) -> (Bench, Rc<RefCell<bool>>) {
    let over = Rc::new(RefCell::new(false));
    let (told, mut is_first) = (over.clone(), true);
    let script = move |q: &Message| match std::mem::take(&mut is_first) {
        true => reply(q, Rcode::NOERROR).a(ttl, 1).send(),
        false if *told.borrow() => reply(q, Rcode::NOERROR).a(ttl, 2).send(),
        false => then(q),
    };
    (bench("cache {\n prefetch 1 1h\n }", script), over)
}

#[test]
fn a_refresh_that_brings_nothing_leaves_the_answer_and_is_repeated_after_a_pause() {
    let outcomes: [Outcome; 4] = [
        |q| reply(q, Rcode::SERVFAIL).send(),
        |q| reply(q, Rcode::REFUSED).send(),
        |q| reply(q, Rcode::NXDOMAIN).send(),
        |_| fails(),
    ];
    for outcome in outcomes {
        let (mut bench, over) = failing(60, outcome);
        ask(&mut bench);
        bench.pass(54 * SECOND);
        for tenths in 0..40_u32 {
            assert_eq!(ask(&mut bench).0, 1);
            let refreshes = metric(&bench, "coredns_cache_prefetch_total", "");
            assert_eq!(refreshes, f64::from(tenths / 10 + 1), "after {tenths} tenths");
            bench.pass(100 * MS);
        }
        *over.borrow_mut() = true;
        ask(&mut bench);
        assert_eq!(ask(&mut bench), (2, 60));
    }
}

#[test]
fn the_pause_is_a_tenth_of_the_time_that_is_left() {
    let (mut bench, _) = failing(1000, |q| reply(q, Rcode::SERVFAIL).send());
    ask(&mut bench);
    bench.pass(900 * SECOND);
    for (pause, asked) in [(0, 2), (9, 2), (1, 3), (8, 3), (1, 4)] {
        bench.pass(pause * SECOND);
        ask(&mut bench);
        assert_eq!(bench.asked, asked, "{pause}");
    }
}

#[test]
fn what_is_refreshed_is_what_counts() {
    let calls = counter();
    let script = move |q: &Message| {
        *calls.borrow_mut() += 1;
        match *calls.borrow() {
            1 => reply(q, Rcode::NOERROR).a(100, 1).send(),
            _ => reply(q, Rcode::NXDOMAIN).soa(50).send(),
        }
    };
    let mut bench = bench("cache {\n prefetch 1\n }", script);
    ask(&mut bench);
    bench.pass(95 * SECOND);
    ask(&mut bench);
    // The name is gone, and the older answer does not come back after the denial has expired.
    assert_eq!(bench.ask("www.example. A").flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(metric(&bench, "coredns_cache_entries", "type=\"success\""), 0.0);
}

#[test]
fn a_refresh_goes_over_udp_with_the_clients_bits() {
    use crate::job::Transport;
    let corefile = ".:53 {\n cache {\n prefetch 1\n }\n forward . 192.0.2.9\n}";
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut bench = Bench::new(corefile);
        bench.client.transport = transport;
        let log = Rc::new(RefCell::new(Vec::new()));
        let seen = log.clone();
        bench.upstream(move |ask, q| {
            let dnssec_ok = q.edns().is_some_and(|(edns, _)| edns.dnssec_ok());
            seen.borrow_mut().push((ask.carrier, dnssec_ok));
            reply(q, Rcode::NOERROR).a(10, 1).send()
        });
        bench.ask("www.example. A +do +cd");
        bench.pass(9 * SECOND);
        bench.ask("www.example. A +do +cd");
        assert_eq!(*log.borrow(), [(transport, true), (Transport::Udp, true)]);
        assert_eq!(first(&bench.ask("www.example. A +do +cd")), (1, 10));
    }
}

/// What an upstream was asked over, and with which size.
type Asked = Rc<RefCell<Vec<(String, u16)>>>;

/// A server whose upstream answers over UDP alone, or if `truncates` its first query there and all others over TCP.
fn bench_of_carriers(cache: &str, truncates: bool) -> (Bench, Asked) {
    let mut bench = Bench::new(&format!(".:53 {{\n {cache}\n forward . 192.0.2.9\n}}"));
    let log = Rc::new(RefCell::new(Vec::new()));
    let (seen, mut last) = (log.clone(), 0);
    bench.upstream(move |ask, q| {
        last += 1;
        let size = q.edns().map_or(0, |(edns, _)| edns.udp_size);
        seen.borrow_mut().push((ask.carrier.name().to_owned(), size));
        match ask.carrier.is_datagram() {
            true if truncates && last > 1 => reply(q, Rcode::NOERROR).flag(Flags::TC).send(),
            false if !truncates => fails(),
            _ => reply(q, Rcode::NOERROR).a(10, last).send(),
        }
    });
    (bench, log)
}

#[test]
fn an_upstream_without_tcp_is_asked_for_refreshes_too() {
    for cache in ["cache {\n prefetch 1 1m 90%\n }", "cache {\n serve_stale 1h immediate\n }"] {
        let (mut bench, log) = bench_of_carriers(cache, false);
        ask(&mut bench);
        bench.pass(if cache.contains("prefetch") { 9 * SECOND } else { 10 * SECOND });
        ask(&mut bench);
        assert_eq!(ask(&mut bench), (2, 10), "{cache}: {log:?}");
    }
}

#[test]
fn a_refresh_that_is_truncated_is_repeated_over_tcp() {
    let (mut bench, log) = bench_of_carriers("cache {\n prefetch 1\n }", true);
    ask(&mut bench);
    bench.pass(9 * SECOND);
    ask(&mut bench);
    assert_eq!(ask(&mut bench), (3, 10));
    let carriers: Vec<_> = log.borrow().iter().map(|(carrier, _)| carrier.clone()).collect();
    assert_eq!(carriers, ["udp", "udp", "tcp"]);
}

#[test]
fn a_refresh_announces_what_the_first_query_did() {
    for (bufsize, expected) in [("", 1232), ("bufsize 700\n ", 700)] {
        let (mut bench, log) =
            bench_of_carriers(&format!("{bufsize}cache {{\n prefetch 1\n }}"), false);
        let mut small = crate::testing::request("www.example. A +edns");
        let size_at = small.len() - 8;
        small[size_at..size_at + 2].copy_from_slice(&600_u16.to_be_bytes());
        bench.ask_bytes(&small);
        bench.pass(9 * SECOND);
        bench.ask_bytes(&small);
        let sizes: Vec<_> = log.borrow().iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [expected; 2]);
    }
}

#[test]
fn a_query_that_goes_on_without_its_client_gets_a_whole_answer() {
    let corefile = ".:53 {\n cache {\n serve_stale 1h verify 100ms\n }\n forward . 192.0.2.9\n}\n";
    let mut bench = Bench::new(corefile);
    let mut last = 0;
    bench.upstream(move |ask, q| {
        last += 1;
        match (last, ask.carrier.is_datagram()) {
            (1, _) => reply(q, Rcode::NOERROR).a(10, 1).send(),
            (_, true) => after(SECOND, reply(q, Rcode::NOERROR).flag(Flags::TC).send()),
            (_, false) => reply(q, Rcode::NOERROR).a(10, 2).send(),
        }
    });
    ask(&mut bench);
    bench.pass(10 * SECOND);
    // The client has the stale answer when the truncated one comes.
    let (stale, _) = bench.ask_for("www.example. A", SECOND).unwrap();
    assert_eq!(first(&stale), (1, 0));
    bench.pass(SECOND);
    assert_eq!(ask(&mut bench), (2, 10));
}

#[test]
fn a_refresh_takes_no_truncated_answer_to_a_clients_query() {
    let corefile = ".:53 {\n cache {\n prefetch 1 1m 90%\n }\n forward . 192.0.2.9\n}\n";
    let mut bench = Bench::new(corefile);
    bench.upstream(move |ask, q| match (q.edns().is_some(), ask.carrier.is_datagram()) {
        (false, _) => reply(q, Rcode::NOERROR).a(10, 1).send(),
        (true, true) => after(2 * SECOND, reply(q, Rcode::NOERROR).flag(Flags::TC).send()),
        (true, false) => reply(q, Rcode::NOERROR).a(10, 2).send(),
    });
    assert!(bench.ask_bytes(&crate::testing::request("www.example. A +edns")).is_none());
    ask(&mut bench);
    bench.pass(SECOND);
    // The same message goes upstream for this refresh as for the client that still waits.
    assert_eq!(first(&bench.ask("www.example. A +edns")), (1, 9));
    bench.pass(2 * SECOND);
    assert_eq!(first(&bench.ask("www.example. A +edns")).0, 2);
}

#[test]
fn a_refresh_of_an_old_configuration_does_not_run_in_a_new_one() {
    let mut bench = Bench::new(
        ".:53 {\n dns64 {\n allow_ipv4\n }\n cache {\n serve_stale 1h immediate\n }\n forward . 192.0.2.9\n}",
    );
    let strangers = counter();
    let counted = strangers.clone();
    bench.upstream(move |ask, q| {
        if ask.upstream.name.starts_with("192.0.2.8:") {
            *counted.borrow_mut() += 1;
        }
        match q.questions[0].qtype {
            Type::A => reply(q, Rcode::NOERROR).a(10, 1).send(),
            _ => after(SECOND, reply(q, Rcode::NOERROR).soa(10).send()),
        }
    });
    ask(&mut bench);
    bench.pass(20 * SECOND);
    // The answer to AAAA has to be made from that to A, which is stale by then.
    assert!(bench.ask_bytes(&crate::testing::request("www.example. AAAA")).is_none());
    bench
        .reload(
            "internal.example:53 {\n dns64\n cache\n forward . 192.0.2.8\n}\n\
             .:53 {\n forward . 192.0.2.9\n}",
        )
        .unwrap();
    let sent = bench.pass(2 * SECOND);
    assert_eq!(Message::parse(&sent[0].1).unwrap().answer.len(), 1);
    assert_eq!(*strangers.borrow(), 0, "a question went to another block's upstream");
}
