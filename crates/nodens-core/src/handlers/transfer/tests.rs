use crate::config::BuildOptions;
use crate::job::Transport;
use crate::limits::{TRANSFER_TIME_MAX, TRANSFERS_PER_CLIENT_MAX, TRANSFERS_PER_NETWORK_MAX};
use crate::log::Record as LogRecord;
use crate::stream::{Broken, Outgoing as Kind, Stream};
use crate::testing::{Bench, Reaction, request};
use crate::worker::Verdict;
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Record, Section, Type};
use nodens_zone::catalog::Producer;
use nodens_zone::notify::Outgoing;
use nodens_zone::{Changes, Next, Notifier, Records, Soa, Version, Zone};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A zone with a record per number; serial 0 stands for one that is not loaded.
#[derive(Debug)]
struct Numbers {
    origin: Name,
    serial: AtomicU32,
    count: u32,
    octets: usize,
}

impl Numbers {
    fn new(origin: &str, count: u32) -> Arc<Self> {
        Arc::new(Self { origin: name(origin), serial: AtomicU32::new(7), count, octets: 4 })
    }
}

impl Zone for Numbers {
    fn soa(&self) -> Option<Soa> {
        let serial = Some(self.serial.load(Ordering::Relaxed)).filter(|serial| *serial > 0)?;
        let numbers = [serial, 7200, 1800, 86400, 5];
        Some(Soa::with(self.origin.view(), 5, (&self.origin, &self.origin), numbers))
    }

    fn version(&self) -> Option<Version> {
        let record = |n: u32| Record {
            owner: name(&format!("n{n}")).join(self.origin.view()).unwrap(),
            rtype: Type(65_280),
            class: Class::IN,
            ttl: 5,
            rdata: vec![7; self.octets],
        };
        let records = Records::new((0..self.count).map(record).collect());
        Some(Version { soa: self.soa()?, records: Box::new(records) })
    }
}

fn bench(corefile: &str, zones: &[&Arc<Numbers>]) -> Bench {
    let source = |zone: &&Arc<Numbers>| (zone.origin.clone(), Arc::clone(zone) as Arc<dyn Zone>);
    let options =
        BuildOptions { zones: zones.iter().map(source).collect(), ..BuildOptions::default() };
    let mut bench = Bench::with_options(corefile, &options).unwrap_or_else(|e| panic!("{e}"));
    bench.client.transport = Transport::Tcp;
    bench
}

/// The first message, and the others if there are any.
fn begin(bench: &mut Bench, request: &[u8]) -> (Message, Option<Box<Stream>>) {
    let mut out = Vec::new();
    let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
    assert!(matches!(verdict, Verdict::Answered | Verdict::Streaming), "{verdict:?}");
    let stream = bench.worker.take_stream();
    assert_eq!(stream.is_some(), verdict == Verdict::Streaming);
    (Message::parse(&out).unwrap(), stream)
}

/// All messages of the answer.
fn ask(bench: &mut Bench, request: &[u8]) -> Vec<Message> {
    let (first, stream) = begin(bench, request);
    let mut messages = vec![first];
    if let Some(mut stream) = stream {
        let mut out = Vec::new();
        while !stream.is_done() {
            stream.next_message(bench.now, &mut out).unwrap();
            messages.push(Message::parse(&out).unwrap());
        }
    }
    messages
}

fn axfr(bench: &mut Bench, zone: &str) -> Vec<Message> {
    ask(bench, &request(&format!("{zone} AXFR +norec")))
}

/// RCODE and number of records of an answer that is one message.
fn short(bench: &mut Bench, request: &[u8]) -> (Rcode, usize) {
    let messages = ask(bench, request);
    let [only] = messages.as_slice() else { panic!("{} messages", messages.len()) };
    (only.flags.rcode(), only.answer.len())
}

fn ixfr(zone: &str, serial: u32) -> Vec<u8> {
    let (mut out, zone) = (Vec::new(), name(zone));
    let mut builder = Builder::new(&mut out, 4711, Flags(0));
    builder.question(zone.view(), Type::IXFR, Class::IN);
    let soa = Soa::with(zone.view(), 5, (&zone, &zone), [serial, 0, 0, 0, 0]);
    builder.push(Section::Authority, soa.record()).unwrap();
    out
}

fn lines(bench: &Bench) -> Vec<String> {
    let line = |record| match record {
        LogRecord::Line { text, .. } => Some(text),
        _ => None,
    };
    bench.log.try_iter().filter_map(line).collect()
}

const ANYONE: &str = ".:53 {\n transfer {\n  to *\n }\n}";

#[test]
fn a_zone_is_handed_on_from_soa_to_soa() {
    let zone = Numbers::new("cluster.local.", 3000);
    let mut bench = bench(ANYONE, &[&zone]);
    let messages = axfr(&mut bench, "Cluster.LOCAL.");
    assert!(messages.len() > 3, "{}", messages.len());
    assert_eq!(messages[0].questions[0].qname.as_wire(), b"\x07Cluster\x05LOCAL\0");
    for message in &messages {
        assert_eq!((message.id, message.flags.rcode()), (4711, Rcode::NOERROR));
        assert!(message.flags.has(Flags::QR) && message.flags.has(Flags::AA));
        assert!(!message.flags.has(Flags::RD) && !message.flags.has(Flags::TC));
    }
    let records: Vec<_> = messages.iter().flat_map(|message| &message.answer).collect();
    let soa = zone.soa().unwrap();
    assert_eq!(records.len(), 3002);
    assert_eq!((records[0], records[3001]), (soa.record(), soa.record()));
    assert_eq!(records[3000].owner, name("n2999.cluster.local."));
    assert_eq!(bench.shared.transfers.count(), 0);
    let (count, all) = (messages.len(), &bench.shared.transfers);
    let octets = all.octets(Kind::Axfr);
    assert!(octets > 60_000, "{octets}");
    let said = format!(
        "Outgoing transfer of 3002 records of zone \"Cluster.LOCAL.\" to 192.0.2.53 for 7 SOA \
         serial: {octets} octets in {count} messages, 0 ms"
    );
    assert_eq!(lines(&bench), [said]);
    let rendered = bench.shared.registry.render();
    for line in [
        "nodens_transfers_out_total{kind=\"axfr\",result=\"sent\"} 1\n".to_owned(),
        "nodens_transfers_out_total{kind=\"axfr\",result=\"cut\"} 0\n".to_owned(),
        format!("nodens_transfer_out_bytes_total{{kind=\"axfr\"}} {octets}\n"),
    ] {
        assert!(rendered.contains(&line), "{line}{rendered}");
    }
}

#[test]
fn a_directive_that_wants_to_see_the_answer_first_is_in_nobodys_way() {
    let zone = Numbers::new("cluster.local.", 3000);
    let corefile = ANYONE.replacen('{', "{\n rewrite cname suffix .a. .b.", 1);
    let messages = axfr(&mut bench(&corefile, &[&zone]), "cluster.local.");
    assert_eq!(messages.iter().map(|message| message.answer.len()).sum::<usize>(), 3002);
}

#[test]
fn the_first_message_alone_has_an_opt_record() {
    let zone = Numbers::new("cluster.local.", 3000);
    let mut bench = bench(ANYONE, &[&zone]);
    let messages = ask(&mut bench, &request("cluster.local. AXFR +do"));
    let edns: Vec<_> = messages.iter().map(|message| message.additional.len()).collect();
    assert_eq!((edns[0], edns[1..].iter().sum::<usize>()), (1, 0));
}

#[test]
fn a_change_on_the_way_does_not_show() {
    let zone = Numbers::new("cluster.local.", 3000);
    let mut bench = bench(ANYONE, &[&zone]);
    let (first, stream) = begin(&mut bench, &request("cluster.local. AXFR"));
    zone.serial.store(8, Ordering::Relaxed);
    let (mut stream, mut out) = (stream.unwrap(), Vec::new());
    while stream.next_message(bench.now, &mut out) != Ok(Next::Last) {}
    let last = Message::parse(&out).unwrap();
    assert_eq!(last.answer.last(), first.answer.first());
}

#[test]
fn only_those_who_may_have_it_get_it_and_only_over_tcp() {
    let zone = Numbers::new("cluster.local.", 3);
    let corefile = ".:53 {\n transfer {\n  to 192.0.2.53:5300 2001:db8::53\n }\n}";
    let mut bench = bench(corefile, &[&zone]);
    let question = request("cluster.local. AXFR");
    assert_eq!(short(&mut bench, &question), (Rcode::NOERROR, 5));
    for (client, rcode) in [
        ("192.0.2.54:53", Rcode::REFUSED),
        ("[2001:db8::53]:4000", Rcode::NOERROR),
        ("[2001:db8::54]:4000", Rcode::REFUSED),
        ("[::ffff:192.0.2.53]:4000", Rcode::NOERROR),
    ] {
        bench.client.peer = client.parse().unwrap();
        assert_eq!(short(&mut bench, &question).0, rcode, "{client}");
        assert_eq!(short(&mut bench, &ixfr("cluster.local.", 7)).0, rcode, "{client}");
    }
    bench.client.peer = "192.0.2.53:4000".parse().unwrap();
    bench.client.transport = Transport::Udp;
    assert_eq!(short(&mut bench, &question), (Rcode::REFUSED, 0));
}

#[test]
fn ixfr_is_one_soa_for_those_who_have_it_or_come_over_udp_and_the_zone_for_others() {
    let zone = Numbers::new("cluster.local.", 3);
    let mut bench = bench(ANYONE, &[&zone]);
    for (serial, records) in [(7, 1), (8, 1), (6, 5), (0, 5), (7 + (1 << 31), 5)] {
        let answer = short(&mut bench, &ixfr("cluster.local.", serial));
        assert_eq!(answer, (Rcode::NOERROR, records), "{serial}");
    }
    assert_eq!(short(&mut bench, &request("cluster.local. IXFR")), (Rcode::SERVFAIL, 0));
    assert_eq!(short(&mut bench, &request("www.cluster.local. IXFR")), (Rcode::SERVFAIL, 0));
    assert!(lines(&bench)[0].starts_with("Outgoing noop, incremental transfer for up to date"));
    bench.client.transport = Transport::Udp;
    assert_eq!(short(&mut bench, &ixfr("cluster.local.", 3)), (Rcode::NOERROR, 1));
    assert_eq!(short(&mut bench, &ixfr("elsewhere.", 3)), (Rcode::SERVFAIL, 0));
}

#[test]
fn what_the_block_does_not_have_is_left_to_the_next_handler() {
    let zone = Numbers::new("cluster.local.", 3);
    let corefile = "local:53 {\n transfer {\n  to *\n }\n forward . 192.0.2.9\n}";
    let mut bench = bench(corefile, &[&zone]);
    bench.upstream(|_, question| {
        let mut reply = Vec::new();
        let flags = question.flags.reply().with_rcode(Rcode::NOTAUTH);
        let asked = &question.questions[0];
        Builder::new(&mut reply, 0, flags).question(asked.qname.view(), asked.qtype, asked.qclass);
        Reaction::Reply(reply)
    });
    // The zone of the rule, a name within the zone, and the zone around it.
    assert_eq!(bench.ask("other.local. AXFR").flags.rcode(), Rcode::NOTAUTH);
    assert_eq!(bench.ask("svc.cluster.local. AXFR").flags.rcode(), Rcode::NOTAUTH);
    assert_eq!(bench.ask("local. AXFR").flags.rcode(), Rcode::NOTAUTH);
    assert_eq!(bench.ask("cluster.local. A").flags.rcode(), Rcode::NOTAUTH);
    assert_eq!(bench.asked, 4);
}

#[test]
fn the_longest_zone_decides_and_never_the_alphabet() {
    let zones = ["a.example.org.", "example.org.", "zzz.example.org."];
    let zones = zones.map(|origin| Numbers::new(origin, 1));
    // `zzz.example.org.` comes after `a.zzz.example.org.` in the alphabet, and is shorter.
    let corefile = ".:53 {\n transfer example.org {\n  to *\n }\n \
        transfer a.example.org {\n  to 192.0.2.99\n }\n \
        transfer zzz.example.org {\n  to 192.0.2.98\n }\n \
        transfer zzz.example.org {\n  to *\n }\n}";
    let mut bench = bench(corefile, &[&zones[0], &zones[1], &zones[2]]);
    let mut rcode = |zone: &str| short(&mut bench, &request(&format!("{zone} AXFR"))).0;
    assert_eq!(rcode("example.org."), Rcode::NOERROR);
    assert_eq!(rcode("a.example.org."), Rcode::REFUSED);
    // Of two rules for the same zone the first.
    assert_eq!(rcode("zzz.example.org."), Rcode::REFUSED);
}

#[test]
fn a_zone_that_is_not_loaded_yet_is_a_failure_that_says_so() {
    let zone = Numbers::new("cluster.local.", 3);
    zone.serial.store(0, Ordering::Relaxed);
    let mut bench = bench(ANYONE, &[&zone]);
    let messages = ask(&mut bench, &request("cluster.local. AXFR +edns"));
    assert_eq!(messages[0].flags.rcode(), Rcode::SERVFAIL);
    assert!(messages[0].additional[0].rdata.starts_with(&[0, 15, 0, 28, 0, 14]));
}

#[test]
fn one_client_has_a_bounded_number_of_transfers_and_leaving_frees_its_places() {
    let zone = Numbers::new("cluster.local.", 3000);
    let mut bench = bench(ANYONE, &[&zone]);
    let question = request("cluster.local. AXFR +edns");
    let transfers: Vec<_> =
        (0..TRANSFERS_PER_CLIENT_MAX).map(|_| begin(&mut bench, &question).1.unwrap()).collect();
    assert_eq!(transfers[0].deadline_ns(), bench.now.plus(TRANSFER_TIME_MAX));
    assert_eq!(short(&mut bench, &question).0, Rcode::SERVFAIL);
    bench.client.peer.set_ip([192, 0, 2, 54].into());
    assert!(begin(&mut bench, &question).1.is_some());
    drop(transfers);
    assert_eq!(bench.shared.transfers.count(), 0);
    let ended = lines(&bench);
    assert!(ended[0].contains(" ended after "), "{ended:?}");
    bench.client.peer.set_ip([192, 0, 2, 53].into());
    assert!(begin(&mut bench, &question).1.is_some());
}

/// One host may have all addresses of a /64.
#[test]
fn one_network_has_a_part_of_all_transfers() {
    let zone = Numbers::new("cluster.local.", 3000);
    let mut bench = bench(ANYONE, &[&zone]);
    let question = request("cluster.local. AXFR +edns");
    let mut from = |network: u8, host: usize| {
        let address = format!("2001:db8:0:{network}::{host:x}");
        bench.client.peer.set_ip(address.parse().unwrap());
        begin(&mut bench, &question).1
    };
    let transfers: Vec<_> = (0..=TRANSFERS_PER_NETWORK_MAX).map_while(|host| from(1, host)).collect();
    assert_eq!(transfers.len(), TRANSFERS_PER_NETWORK_MAX);
    assert!(from(2, 0).is_some());
    drop(transfers);
    assert!(from(1, TRANSFERS_PER_NETWORK_MAX).is_some());
}

#[test]
fn a_record_that_fits_no_message_ends_the_stream() {
    let zone = Arc::new(Numbers {
        octets: 65_535,
        ..Arc::into_inner(Numbers::new("cluster.local.", 1)).unwrap()
    });
    let mut bench = bench(ANYONE, &[&zone]);
    let (_, stream) = begin(&mut bench, &request("cluster.local. AXFR"));
    assert_eq!(stream.unwrap().next_message(bench.now, &mut Vec::new()), Err(Broken));
    assert!(lines(&bench)[0].contains("a record does not fit a message"));
}

#[test]
fn headers_of_all_messages_are_as_other_directives_want_them() {
    let zone = Numbers::new("cluster.local.", 3000);
    let corefile = ".:53 {\n header {\n  response clear aa\n }\n transfer {\n  to *\n }\n}";
    let mut bench = bench(corefile, &[&zone]);
    let messages = axfr(&mut bench, "cluster.local.");
    assert!(messages.len() > 3);
    assert!(messages.iter().all(|message| !message.flags.has(Flags::AA)));
}

#[test]
fn a_transfer_that_is_asked_through_the_cache_is_not_kept() {
    let zone = Numbers::new("cluster.local.", 3);
    let mut bench = bench(".:53 {\n cache\n transfer {\n  to *\n }\n}", &[&zone]);
    for serial in [7, 8] {
        zone.serial.store(serial, Ordering::Relaxed);
        bench.pass(Duration::from_secs(1));
        let soa = axfr(&mut bench, "cluster.local.")[0].answer[0].clone();
        assert_eq!(Soa::new(soa).unwrap().serial().0, serial);
    }
}

#[test]
fn servers_that_are_named_are_told_once_whatever_the_addresses_of_the_block() {
    let zones = [Numbers::new("cluster.local.", 3), Numbers::new("other.test.", 3)];
    let corefile = "cluster.local:53 other.test:54 {\n bind 192.0.2.1 192.0.2.2\n \
        transfer cluster.local {\n  to * 192.0.2.53 192.0.2.54:5300\n  source 192.0.2.9\n }\n \
        transfer other.test {\n  to *\n }\n}";
    let bench = bench(corefile, &[&zones[0], &zones[1]]);
    let mut notifier = Notifier::new(&bench.worker.config().services.notifies);
    let changes = Arc::new(Changes::new(|| ()));
    notifier.listen(&changes);
    notifier.take(&changes);
    let (mut told, mut id) = (Vec::new(), 0);
    let ids = || {
        id += 1;
        id
    };
    let send = |out: Outgoing<'_>| {
        let soa = Message::parse(out.message).unwrap().answer.remove(0);
        told.push((out.zone.clone(), out.to, out.from, Soa::new(soa).unwrap().serial().0));
        true
    };
    assert_eq!(notifier.poll(0, ids, send), []);
    let from = "192.0.2.9".parse().ok();
    let servers = ["192.0.2.53:53", "192.0.2.54:5300"].map(|text| text.parse().unwrap());
    assert_eq!(told, servers.map(|server| (name("cluster.local."), server, from, 7)));
}

#[test]
fn mistakes_are_found_where_they_are() {
    for (directive, line, text) in [
        ("transfer", 2, "'to' is required"),
        ("transfer {\n }", 2, "'to' is required"),
        ("transfer {\n  to\n }", 3, "1 or more"),
        ("transfer {\n  to example.org\n }", 3, "an IP address"),
        ("transfer {\n  to 192.0.2.1:x\n }", 3, "an IP address"),
        ("transfer {\n  to *\n  source\n }", 4, "1"),
        ("transfer {\n  to *\n  source nowhere\n }", 4, "an IP address"),
        ("transfer {\n  to *\n  source ::1\n  source ::1\n }", 5, "source already specified"),
        ("transfer {\n  too *\n }", 3, "did you mean 'to'"),
        ("transfer {\n  to *\n  encrypted yes\n }", 4, "0"),
        ("transfer {\n  to *\n  catalog\n }", 4, "1"),
        ("transfer {\n  to *\n  catalog a..b\n }", 4, "the name of a zone"),
        ("transfer {\n  to *\n  catalog a.example\n  catalog b.example\n }", 5, "catalog already"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n {directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{line}:")), "{directive}: {error}");
        assert!(error.contains(text), "{directive}: {error}");
    }
}

#[test]
fn a_rule_may_want_encryption() {
    let zone = Numbers::new("cluster.local.", 3);
    let corefile = ANYONE.replace("to *", "to *\n  encrypted");
    let mut bench = bench(&corefile, &[&zone]);
    for (transport, axfr, ixfr_rcode) in [
        (Transport::Udp, Rcode::REFUSED, Rcode::REFUSED),
        (Transport::Tcp, Rcode::REFUSED, Rcode::REFUSED),
        (Transport::Tls, Rcode::NOERROR, Rcode::NOERROR),
        (Transport::Quic, Rcode::NOERROR, Rcode::NOERROR),
        // One message is no zone.
        (Transport::Https, Rcode::REFUSED, Rcode::NOERROR),
    ] {
        bench.client.transport = transport;
        let rcode = |bench: &mut Bench, request: &[u8]| begin(bench, request).0.flags.rcode();
        assert_eq!(rcode(&mut bench, &request("cluster.local. AXFR")), axfr, "{transport:?}");
        assert_eq!(rcode(&mut bench, &ixfr("cluster.local.", 6)), ixfr_rcode, "{transport:?}");
    }
}

#[test]
fn no_zone_is_given_within_an_old_version_of_tls() {
    let zone = Numbers::new("cluster.local.", 3);
    for corefile in [ANYONE.to_owned(), ANYONE.replace("to *", "to *\n  encrypted")] {
        let mut bench = bench(&corefile, &[&zone]);
        bench.client.transport = Transport::Tls;
        for (old_tls, wanted) in [(false, Rcode::NOERROR), (true, Rcode::REFUSED)] {
            bench.client.old_tls = old_tls;
            for request in [request("cluster.local. AXFR"), ixfr("cluster.local.", 6)] {
                assert_eq!(begin(&mut bench, &request).0.flags.rcode(), wanted, "{corefile}");
            }
        }
    }
}

/// Takes up which zones there are.
fn produce(bench: &Bench, unix_s: u64) {
    let services = &bench.worker.config().services.catalogs;
    Producer::new(services, || {}).turn(unix_s, |_, _| {});
}

#[test]
fn a_catalog_lists_the_zones_that_its_rule_hands_on() {
    let zones = ["a.example.", "b.example.", "c.test."].map(|origin| Numbers::new(origin, 3));
    let corefile = ".:53 {\n bind 192.0.2.1 192.0.2.2\n transfer example {\n  to 192.0.2.53\n  \
        catalog Catalog.example\n }\n transfer test {\n  to *\n }\n}";
    let mut bench = bench(corefile, &[&zones[0], &zones[1], &zones[2]]);
    assert_eq!(bench.worker.config().services.catalogs.len(), 1);
    assert_eq!(short(&mut bench, &request("catalog.example. AXFR")).0, Rcode::SERVFAIL);
    produce(&bench, 1000);
    let messages = axfr(&mut bench, "catalog.example.");
    let of_type = |rtype| messages[0].answer.iter().filter(move |record| record.rtype == rtype);
    let members: Vec<_> = of_type(Type::PTR).map(|record| Name::from_wire(&record.rdata)).collect();
    assert_eq!(members.len(), 2);
    assert!(["a.example.", "b.example."].iter().all(|zone| members.contains(&Ok(name(zone)))));
    assert_eq!(of_type(Type::SOA).count(), 2);
    // Secondaries ask for the serial first, and nobody else is told anything.
    bench.client.transport = Transport::Udp;
    let soa = bench.ask("catalog.example. SOA");
    assert_eq!((soa.flags.rcode(), soa.answer.len()), (Rcode::NOERROR, 1));
    assert_eq!(short(&mut bench, &ixfr("catalog.example.", 9)), (Rcode::NOERROR, 1));
    bench.client.peer = "192.0.2.54:4000".parse().unwrap();
    for question in ["catalog.example. SOA", "version.catalog.example. TXT", "x.catalog.example. A"]
    {
        assert_eq!(bench.ask(question).flags.rcode(), Rcode::REFUSED, "{question}");
    }
}

#[test]
fn a_catalog_goes_on_with_the_next_configuration() {
    let zone = Numbers::new("a.example.", 3);
    let corefile = ".:53 {\n transfer {\n  to *\n  catalog catalog.example\n }\n}";
    let mut bench = bench(corefile, &[&zone]);
    produce(&bench, 1000);
    let tree = nodens_corefile::parse("Corefile", corefile, &nodens_corefile::NoSources).unwrap();
    let next = crate::build(&tree, &BuildOptions::default(), &bench.shared).unwrap();
    let [service] = next.services.catalogs.as_slice() else { panic!() };
    assert_eq!(service.catalog.soa().map(|soa| soa.serial().0), Some(1000));
    assert_eq!(short(&mut bench, &ixfr("catalog.example.", 1000)), (Rcode::NOERROR, 1));
    // There the zone is gone.
    Producer::new(&next.services.catalogs, || {}).turn(2000, |_, _| {});
    assert_eq!(short(&mut bench, &ixfr("catalog.example.", 2000)), (Rcode::NOERROR, 1));
    assert_eq!(axfr(&mut bench, "catalog.example.")[0].answer.len(), 4);
}

#[test]
fn catalogs_have_to_be_reached_and_belong_to_one_block() {
    let long = "abcdefg.".repeat(28);
    let block = |zone: &str, port: u16, name: &str| {
        format!("{zone}:{port} {{\n transfer {{\n  to *\n  catalog {name}\n }}\n}}\n")
    };
    let two = |port| block(".", 53, "c.example") + &block(".", port, "C.example");
    // One block with several keys has it once.
    let bench = Bench::new(&block(".:54 .", 53, "c.example"));
    assert_eq!(bench.worker.config().services.catalogs.len(), 1);
    for (corefile, text) in [
        (block("example", 53, "c.test"), "do not reach this server block"),
        (block(".", 53, &long), "too long for members"),
        (two(54), "another server block has this catalog"),
    ] {
        let error = Bench::try_new(&corefile).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// A Corefile with two zones in files, behind these lines.
fn with_files(folder: &std::path::Path, lines: &str) -> String {
    let mut files = String::new();
    for origin in ["example", "www.cat.example"] {
        let path = folder.join(format!("db.{origin}"));
        std::fs::write(&path, "@ 60 SOA . . 1 2 3 4 5\n@ 60 A 192.0.2.7").unwrap();
        files += &format!(" file {} {origin}\n", path.display());
    }
    format!(".:53 {{\n{lines}\n{files}}}")
}

#[test]
fn a_catalog_is_not_told_out_of_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let lines = " cache\n transfer {\n  to 192.0.2.53\n  catalog cat.example\n }";
    let mut bench = Bench::new(&with_files(folder.path(), lines));
    let serial = |bench: &mut Bench| {
        let answer = bench.ask("cat.example. SOA").answer;
        answer.into_iter().next().map(|soa| Soa::new(soa).unwrap().serial().0)
    };
    // `cache` does not keep the failure from before the catalog was made, either.
    assert_eq!(serial(&mut bench), None);
    produce(&bench, 1000);
    assert_eq!(serial(&mut bench), Some(1000));
    bench.client.peer.set_ip([192, 0, 2, 54].into());
    assert_eq!(bench.ask("cat.example. SOA").flags.rcode(), Rcode::REFUSED);
    bench.client.peer.set_ip([192, 0, 2, 53].into());
    let table = bench.worker.config().services.catalogs[0].zones.clone();
    table.update(|update| update.replace(name("new.example.").view(), Numbers::new("new.example.", 1)));
    produce(&bench, 2000);
    assert_eq!(serial(&mut bench), Some(2000));
}

#[test]
fn of_catalogs_and_zones_in_one_another_the_longest_counts() {
    let folder = tempfile::tempdir().unwrap();
    let lines = " transfer example {\n  to *\n  catalog example.\n }\n \
        transfer www.cat.example {\n  to 192.0.2.54\n  catalog cat.example\n }";
    let corefile = with_files(folder.path(), lines).replace(" example\n", " other.example\n");
    let mut bench = Bench::new(&corefile);
    produce(&bench, 1000);
    bench.client.transport = Transport::Tcp;
    let mut rcode = |question: &str| short(&mut bench, &request(question)).0;
    assert_eq!(rcode("cat.example. AXFR"), Rcode::REFUSED);
    assert_eq!(rcode("cat.example. SOA"), Rcode::REFUSED);
    assert_eq!(rcode("x.cat.example. A"), Rcode::REFUSED);
    assert_eq!(rcode("example. SOA"), Rcode::NOERROR);
    assert_eq!(rcode("x.example. A"), Rcode::NXDOMAIN);
    assert_eq!(rcode("www.cat.example. A"), Rcode::NOERROR);
    assert_eq!(rcode("other.example. A"), Rcode::NOERROR);
}

#[test]
fn no_zone_of_the_block_has_the_name_of_a_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = |name: &str| format!(" transfer {{\n  to *\n  catalog {name}\n }}");
    let files = with_files(folder.path(), &catalog("Example"));
    for (corefile, line) in [
        (files, 6),
        (format!(".:53 {{\n{}\n secondary a.test {{\n  transfer from 192.0.2.1\n }}\n}}", catalog("a.test")), 6),
        (format!(".:53 {{\n{}\n kubernetes a.test\n}}", catalog("a.test")), 6),
        (format!(".:53 {{\n{}\n dynupdate a.test\n}}", catalog("A.test")), 6),
    ] {
        let error = Bench::try_new(&corefile).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{line}:")), "{error}");
        assert!(error.contains("has the name of a catalog"), "{error}");
    }
}
