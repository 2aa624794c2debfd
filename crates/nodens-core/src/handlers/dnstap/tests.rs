use crate::job::Transport;
use crate::tap::{Kind, Messages, Target};
use crate::testing::{Bench, Reaction, request};
use nodens_wire::{Flags, Message as Dns, Rcode};
use std::time::Duration;

fn tapped(directive: &str) -> (Bench, Messages) {
    let corefile = format!(".:53 {{\n {directive}\n forward . 192.0.2.53\n}}");
    let mut bench = Bench::new(&corefile);
    bench.upstream(|_, question| {
        let mut answer = question.clone();
        answer.flags = question.flags.reply().with(Flags::RA, true).with_rcode(Rcode::NXDOMAIN);
        let mut out = Vec::new();
        answer.write(&mut out).unwrap();
        Reaction::After(Duration::from_millis(3), Box::new(Reaction::Reply(out)))
    });
    let tap = bench.worker.config().services.taps[0].clone();
    (bench, tap.take_messages().unwrap())
}

#[test]
fn client_and_upstream_are_seen_in_order_and_as_they_are_sent() {
    let (mut bench, messages) = tapped("dnstap /run/tap full");
    let begun_ns = bench.now.mono_ns;
    let answer = bench.ask_for("a.Example. A +edns", Duration::from_secs(1)).unwrap().0;
    let seen: Vec<_> = messages.now().collect();
    let kinds: Vec<_> = seen.iter().map(|message| message.kind).collect();
    use Kind::*;
    assert_eq!(kinds, [ClientQuery, ForwarderQuery, ForwarderResponse, ClientResponse]);
    let wire = |index: usize| Dns::parse(seen[index].wire.as_ref().unwrap()).unwrap();
    assert_eq!(seen[0].wire.as_ref().unwrap(), &request("a.Example. A +edns"));
    assert_eq!(wire(3), answer);
    assert_eq!(wire(1).id, wire(2).id);
    assert_eq!(seen[2].asked.unwrap().to_string(), "192.0.2.53:53");
    assert_eq!(seen[0].asker, Some(bench.client.peer));
    assert_eq!((seen[3].asked_ns, seen[3].transport), (begun_ns, Transport::Udp));
    assert_eq!(seen[3].answered_ns, Some(begun_ns + 3_000_000));
    assert_eq!((seen[1].asked_ns, seen[0].answered_ns), (begun_ns, None));
}

#[test]
fn without_full_no_message_of_dns_is_kept() {
    let (mut bench, messages) = tapped("dnstap tcp://127.0.0.1:6000");
    bench.ask_for("a.example. A", Duration::from_secs(1)).unwrap();
    let seen: Vec<_> = messages.now().collect();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|message| message.wire.is_none()));
}

#[test]
fn a_writer_that_is_slow_loses_messages_and_holds_nobody_up() {
    let (mut bench, messages) = tapped("dnstap /run/tap");
    let ask = |bench: &mut Bench, n| bench.ask_bytes(&request(&format!("a{}.example. A +norec", n % 2)));
    for n in 0..2 * super::QUEUE {
        ask(&mut bench, n);
    }
    assert_eq!(messages.take_dropped(), super::QUEUE as u64);
    assert_eq!(messages.now().count(), super::QUEUE);
    ask(&mut bench, 0);
    assert_eq!((messages.now().count(), messages.take_dropped()), (1, 0), "there is room again");
}

#[test]
fn long_messages_that_wait_take_no_more_than_their_memory() {
    let long = format!("dnstap /run/tap full {{\n extra \"{}\"\n }}", "x".repeat(60_000));
    let (mut bench, messages) = tapped(&long);
    for n in 0..400 {
        bench.ask_bytes(&request(&format!("a{}.example. A +norec", n % 2)));
    }
    let waiting: usize =
        messages.now().map(|message| message.extra.unwrap_or_default().len()).sum();
    assert!((15 << 20..=16 << 20).contains(&waiting), "{waiting}");
    assert!(messages.take_dropped() > 100);
    bench.ask_bytes(&request("a0.example. A +norec"));
    assert_eq!((messages.now().count(), messages.take_dropped()), (1, 0), "there is room again");
}

#[test]
fn what_goes_with_each_message_is_filled_in_for_it() {
    let extra = "dnstap /run/tap {\n extra \"{name} {type} {rcode} {/forward/upstream} {x}\"\n }\n metadata";
    let (mut bench, messages) = tapped(extra);
    bench.ask_for("a.Example. AAAA", Duration::from_secs(1)).unwrap();
    let extras: Vec<_> = messages.now().filter_map(|message| message.extra).collect();
    let with = |upstream: &str| format!("a.example. AAAA - {upstream} {{x}}");
    assert_eq!(extras.len(), 4);
    // As in CoreDNS, RCODEs are not known here; who has answered is known once somebody has.
    assert_eq!(extras[0], with("-"));
    assert_eq!(extras[3], with("192.0.2.53:53"));
    let (mut bench, messages) = tapped("dnstap /run/tap");
    bench.ask_for("a.example. A", Duration::from_secs(1)).unwrap();
    assert!(messages.now().all(|message| message.extra.is_none()));
}

#[test]
fn the_directive_is_read() {
    let spec = |directive: &str| {
        let bench = Bench::try_new(&format!(".:53 {{\n dnstap {directive}\n whoami\n}}"));
        bench.map(|bench| bench.worker.config().services.taps[0].spec.clone())
    };
    let full = spec("tcp://example.com:6000 full 4 2 {\n identity me\n version v\n }").unwrap();
    assert_eq!(full.target, Target::Tcp("example.com:6000".into()));
    assert_eq!((full.full, full.buffer, full.queue), (true, 4 << 20, 20_000));
    assert_eq!((&*full.identity, &*full.version), (&b"me"[..], &b"v"[..]));
    assert_eq!(spec("unix:///run/a").unwrap().target, Target::Unix("/run/a".into()));
    let tls = spec("tls://example.com:6000 {\n skipverify\n extra x\n }").unwrap();
    assert_eq!(tls.target, Target::Tls("example.com:6000".into()));
    assert_eq!((tls.skip_verify, &*tls.extra), (true, "x"));
    assert!(!spec("tls://example.com:6000").unwrap().skip_verify);
    for wrong in [
        "",
        "tcp://6000",
        "tls://127.0.0.1",
        "tls://:6000",
        "listen /run/a",
        "/run/a half",
        "/run/a full 0",
        "/run/a full 1 5000",
        "/run/a {\n extra\n }",
        "/run/a {\n skipverify yes\n }",
        "/run/a {\n tls cert key\n }",
        "/run/a {\n color red\n }",
    ] {
        assert!(spec(wrong).is_err(), "{wrong}");
    }
    let two = Bench::new(".:53 {\n dnstap /a\n dnstap /b full\n dnstap /a\n whoami\n}");
    assert_eq!(two.worker.config().services.taps.len(), 2);
}
