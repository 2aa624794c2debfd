use super::*;
use crate::recorded::Carrier;
use crate::search::{Existing, Measure, Resolver};
use crate::workload::{Style, Workload};
use nodens_wire::{Class, Flags, Rcode};
use proptest::prelude::*;
use std::net::SocketAddr;

const POD: &str = "default.svc.cluster.local svc.cluster.local cluster.local corp.test";
const MILLI: u64 = 1_000_000;

fn list(text: &str) -> Vec<Name> {
    text.split_whitespace().map(|name| Name::parse(name).unwrap()).collect()
}

fn options() -> Options {
    Options {
        search: None,
        libc: Libc::Glibc,
        ndots: vec![1, 2, 5],
        cache_ttl: (30_000 * MILLI, 5_000 * MILLI),
    }
}

/// A client that looks names up, one after the other.
struct Pod {
    address: SocketAddr,
    resolver: Resolver,
    now: u64,
    id: u16,
    records: Vec<Record>,
}

impl Pod {
    fn new(last: u8, search: &str, ndots: usize) -> Self {
        let search = search.split_whitespace().map(str::to_owned).collect();
        let resolver = Resolver { libc: Libc::Glibc, search, ndots };
        let address = SocketAddr::from(([10, 0, 0, last], 40_000));
        Self { address, resolver, now: u64::from(last), id: 0, records: Vec::new() }
    }

    /// A lookup of `text`, whose names take a millisecond each; how many names it takes.
    fn look_up(&mut self, text: &str, existing: &Existing) -> usize {
        let walk = self.resolver.walk(text, |name| existing.find(name));
        for name in &walk {
            self.address.set_port(self.address.port().wrapping_add(1).max(1_024));
            let found = existing.find(name);
            for (at, qtype) in [Type::A, Type::AAAA].into_iter().enumerate() {
                self.id = self.id.wrapping_add(1);
                self.ask(name, qtype, self.now + at as u64, None);
                self.ask(name, qtype, self.now + MILLI, Some(found));
            }
            self.now += 2 * MILLI;
        }
        self.now += 10 * MILLI;
        walk.len()
    }

    fn ask(&mut self, name: &Name, qtype: Type, time: u64, answer: Option<Found>) {
        let message = match answer {
            None => query(self.id, name, qtype),
            Some(found) => response(self.id, name, qtype, found),
        };
        let content =
            if answer.is_some() { Content::Response(message) } else { Content::Query(message) };
        let server = SocketAddr::from(([10, 96, 0, 10], 53));
        let (client, carrier) = (self.address, Carrier::Udp);
        self.records.push(Record { number: 1, time, client, server, carrier, content });
    }
}

fn query(id: u16, name: &Name, qtype: Type) -> Vec<u8> {
    let mut workload = Workload::new(0);
    workload.push_question(name.view(), qtype, &Style::default());
    let mut out = Vec::new();
    workload.append(0, id, &mut out);
    out
}

fn response(id: u16, name: &Name, qtype: Type, found: Found) -> Vec<u8> {
    use nodens_wire::builder::Builder;
    use nodens_wire::record::{Record, Section};
    let rcode = match found {
        Found::NoName => Rcode::NXDOMAIN,
        Found::Failed => Rcode::SERVFAIL,
        Found::Addresses | Found::NoData => Rcode::NOERROR,
    };
    let flags = Flags(Flags::QR | Flags::RA).with_rcode(rcode);
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, id, flags);
    builder.question(name.view(), qtype, Class::IN);
    let class = Class::IN;
    let (section, record) = if found == Found::Addresses {
        let rdata = vec![1; if qtype == Type::A { 4 } else { 16 }];
        (Section::Answer, Record { owner: name.clone(), rtype: qtype, class, ttl: 60, rdata })
    } else {
        let rdata = [&[0, 0][..], &[0; 16], &20_u32.to_be_bytes()].concat();
        (
            Section::Authority,
            Record { owner: Name::root(), rtype: Type::SOA, class, ttl: 60, rdata },
        )
    };
    builder.push(section, &record).unwrap();
    out
}

fn observe(records: impl IntoIterator<Item = Record>, options: &Options) -> Observed {
    let mut observer = Observer::default();
    records.into_iter().for_each(|record| observer.push(&record).unwrap());
    observer.finish(options)
}

fn queries_with(observed: &Observed, wanted: Measure) -> u64 {
    let mut all = observed.savings.iter();
    all.find(|saving| saving.measure == wanted).unwrap().cost.queries
}

/// `text: lookups, queries, denied` of every row.
fn rows(observed: &Observed) -> Vec<String> {
    let row = |looked: &Looked| {
        let Looked { text, lookups, queries, denied, .. } = looked;
        format!("{text}: {lookups}, {queries}, {denied}")
    };
    observed.lookups.iter().map(row).collect()
}

#[test]
fn the_ten_queries_of_one_name_are_one_lookup() {
    let existing: Existing = "www.amazon.com".parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    assert_eq!(pod.look_up("www.amazon.com", &existing), 5);
    let observed = observe(pod.records, &options());
    assert_eq!((observed.queries, observed.denied, observed.answered), (10, 8, 10));
    assert_eq!(rows(&observed), ["www.amazon.com: 1, 10, 8"]);
    assert_eq!(observed.clients[0].search, list(POD));
    assert_eq!(observed.clients[0].ndots, (3, 15));
    assert_eq!(observed.time, (9 * MILLI, 1));
    let with = |measure| queries_with(&observed, measure);
    assert_eq!(with(Measure::AsItIs), 10);
    assert_eq!(with(Measure::TrailingDot), 2);
    assert_eq!([1, 2, 5].map(|ndots| with(Measure::Ndots(ndots))), [2, 2, 10]);
    assert_eq!(with(Measure::Autopath), 2);
    let wait = |wanted| observed.savings.iter().find(|s| s.measure == wanted).unwrap().cost.wait;
    assert_eq!(wait(Measure::TrailingDot), (MILLI, MILLI));
    assert_eq!(wait(Measure::Autopath), (MILLI, 5 * MILLI));
}

#[test]
fn lists_come_from_each_clients_own_walks() {
    let existing: Existing =
        "www.example.org\ndb.other.svc.cluster.local\nprinter.corp.test\nweb.shop.svc.cluster.local"
            .parse()
            .unwrap();
    let mut default = Pod::new(1, POD, 5);
    let mut shop = Pod::new(2, "shop.svc.cluster.local svc.cluster.local cluster.local", 5);
    let mut few = Pod::new(3, "corp.test lab.test", 1);
    let mut silent = Pod::new(4, POD, 5);
    default.look_up("db.other", &existing);
    default.look_up("printer", &existing);
    default.look_up("www.example.org", &existing);
    shop.look_up("web", &existing);
    shop.look_up("db.other", &existing);
    shop.look_up("www.example.org", &existing);
    few.look_up("nowhere.example", &existing);
    silent.look_up("www.example.org.", &existing);
    let pods = [default, shop, few, silent];
    let observed = observe(pods.into_iter().flat_map(|pod| pod.records), &options());
    let of = |last: u8| {
        let address = IpAddr::from([10, 0, 0, last]);
        observed.clients.iter().find(|client| client.address == address).unwrap()
    };
    assert_eq!(of(1).search, list(POD));
    assert_eq!(of(2).search, list("shop.svc.cluster.local svc.cluster.local cluster.local"));
    assert_eq!(of(3).search, list("corp.test lab.test"));
    assert_eq!((of(1).ndots, of(3).ndots), ((3, 15), (0, 1)));
    assert_eq!((of(4).search.len(), of(4).lookups, of(4).queries), (0, 1, 2));
    let lookups: Vec<_> = [1, 2, 3].map(|last| of(last).lookups).to_vec();
    assert_eq!(lookups, [3, 3, 1]);
    assert_eq!(queries_with(&observed, Measure::AsItIs), observed.queries);
    assert_eq!(observed.search_lists().len(), 3);
}

#[test]
fn names_that_begin_alike_are_searches_of_their_own() {
    let mut pod = Pod::new(1, POD, 5);
    for text in ["nowhere", "nowhere.example", "nowhere.example.org"] {
        pod.look_up(text, &Existing::default());
    }
    let observed = observe(pod.records, &options());
    assert_eq!(observed.clients[0].search, list(POD));
    assert_eq!(observed.lookup_count(), 3, "{:?}", rows(&observed));
}

#[test]
fn what_is_sent_again_is_no_lookup_and_what_has_another_id_is_one() {
    let existing: Existing = "www.example.org".parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    pod.look_up("www.example.org", &existing);
    // All packets twice, as a capture on all interfaces has them.
    let twice = pod.records.iter().flat_map(|record| [record.clone(), record.clone()]);
    let observed = observe(twice, &options());
    assert_eq!((observed.queries, observed.repeated), (10, 10));
    assert_eq!(rows(&observed), ["www.example.org: 1, 10, 8"]);
    // Two lookups of one name at the same time, from other ports.
    let mut other = Pod::new(1, POD, 5);
    (other.id, other.now) = (500, pod.records[0].time + 7);
    other.look_up("www.example.org", &existing);
    let both = pod.records.into_iter().chain(other.records);
    let observed = observe(both, &options());
    assert_eq!(rows(&observed), ["www.example.org: 2, 20, 16"]);
}

#[test]
fn what_is_asked_once_more_after_a_failure_is_the_same_lookup() {
    let existing: Existing = "www.example.org".parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    pod.look_up("www.example.org", &existing);
    // As glibc does: each query and its SERVFAIL twice, with the same ID from the same port.
    let mut again = Vec::new();
    for pair in pod.records.chunks(4) {
        let [mut a, mut a_failed, mut b, mut b_failed] = pair.to_vec().try_into().unwrap();
        let is_last = pair.as_ptr_range().end == pod.records.as_ptr_range().end;
        if !is_last {
            for failed in [&mut a_failed, &mut b_failed] {
                let Content::Response(message) = &mut failed.content else { panic!() };
                message[3] = 2;
            }
            let earlier =
                |record: &Record| Record { time: record.time - MILLI / 2, ..record.clone() };
            again.extend([a.clone(), earlier(&a_failed), b.clone(), earlier(&b_failed)]);
            (a.time, b.time) = (a.time + MILLI * 3 / 4, b.time + MILLI * 3 / 4);
        }
        again.extend([a, a_failed, b, b_failed]);
    }
    let observed = observe(again, &options());
    assert_eq!((observed.queries, observed.repeated), (18, 0));
    assert_eq!(rows(&observed), ["www.example.org: 1, 18, 16"]);
    assert_eq!(queries_with(&observed, Measure::AsItIs), 10);
}

#[test]
fn a_failure_ends_what_musl_would_ask_and_not_what_glibc_does() {
    let fails = "www.example.org\nwww.example.org.svc.cluster.local SERVFAIL";
    let existing: Existing = fails.parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    let names = pod.look_up("www.example.org", &existing);
    let with = |libc| {
        let search = Some(list(POD));
        let options = Options { libc, search, ..options() };
        let observed = observe(pod.records.clone(), &options);
        assert_eq!(observed.queries, 2 * names as u64);
        queries_with(&observed, Measure::AsItIs)
    };
    let all = [Libc::Glibc, Libc::Musl, Libc::Go].map(with);
    assert_eq!(all, [2 * names as u64, 4, 2 * names as u64]);
}

#[test]
fn queries_without_responses_show_lookups_too() {
    let existing: Existing = "www.example.org\ndb.other.svc.cluster.local".parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    pod.look_up("www.example.org", &existing);
    pod.look_up("ftp.example.org", &existing);
    pod.look_up("db.other", &existing);
    let mut queries = pod.records;
    queries.retain(|record| matches!(record.content, Content::Query(_)));
    let observed = observe(queries, &options());
    assert_eq!((observed.answered, observed.cached), (0, None));
    assert_eq!(observed.clients[0].search, list(POD));
    assert_eq!(
        rows(&observed),
        ["ftp.example.org: 1, 10, 0", "www.example.org: 1, 10, 0", "db.other: 1, 4, 0"]
    );
}

#[test]
fn a_cache_keeps_what_its_limits_and_the_records_allow() {
    let existing: Existing = "www.example.org".parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    for pause in [1_000, 5_000, 5_000, 31_000] {
        pod.look_up("www.example.org", &existing);
        pod.now += pause * MILLI;
    }
    let cached = |ttl| {
        observe(pod.records.clone(), &Options { cache_ttl: ttl, ..options() }).cached.unwrap()
    };
    // Denials for five seconds: the second lookup; addresses for thirty: the fourth, too.
    assert_eq!(cached((30_000 * MILLI, 5_000 * MILLI)), 10 + 2 + 2);
    assert_eq!(cached((0, 0)), 0);
    // Records allow 20 seconds for denials.
    assert_eq!(cached((u64::MAX, u64::MAX)), 30);
}

#[test]
fn a_list_that_is_given_needs_no_walk() {
    let existing: Existing = "web.default.svc.cluster.local".parse().unwrap();
    let mut pod = Pod::new(1, POD, 5);
    pod.look_up("web", &existing);
    let name = "web.default.svc.cluster.local";
    let alone = observe(pod.records.clone(), &options());
    assert_eq!(rows(&alone), [format!("{name}: 1, 2, 0")]);
    let given = observe(pod.records, &Options { search: Some(list(POD)), ..options() });
    assert_eq!(rows(&given), ["web: 1, 2, 0"]);
    assert!(given.lookups[0].is_listed_first);
}

#[test]
fn other_types_and_broken_messages_are_counted() {
    let mut pod = Pod::new(1, POD, 5);
    let name = Name::parse("_dns.example").unwrap();
    pod.ask(&name, Type::SRV, 1, None);
    pod.ask(&name, Type::SRV, 2, Some(Found::NoName));
    pod.ask(&name, Type::A, 3, None);
    pod.records[2].content = Content::Query(vec![0; 12]);
    let observed = observe(pod.records, &options());
    assert_eq!((observed.queries, observed.others, observed.lookups.len()), (0, 2, 0));
}

proptest! {
    #[test]
    fn lookups_of_several_clients_are_found_again(
        lookups in prop::collection::vec((0_usize..3, 0_usize..6), 1..30),
        ndots in 1_usize..6,
    ) {
        let texts = ["www.example.org", "db.other", "web", "nowhere.example", "a.b.c.d.example", "printer"];
        let existing: Existing = "www.example.org\ndb.other.svc.cluster.local\nprinter.corp.test\n\
            web.n0.svc.cluster.local\nweb.n1.svc.cluster.local\nweb.n2.svc.cluster.local\na.b.c.d.example"
            .parse().unwrap();
        let mut pods: Vec<_> = (0..3).map(|n| {
            Pod::new(n, &format!("n{n}.svc.cluster.local svc.cluster.local cluster.local corp.test"), ndots)
        }).collect();
        let (mut names, mut walks) = (0, 0);
        for (pod, text) in lookups {
            names += pods[pod].look_up(texts[text], &existing) as u64;
            walks += 1;
        }
        let given = pods.iter().flat_map(|pod| pod.records.clone());
        let observed = observe(given, &options());
        prop_assert_eq!(observed.queries, 2 * names);
        prop_assert_eq!(observed.lookup_count(), walks, "{:?}", rows(&observed));
        prop_assert_eq!(queries_with(&observed, Measure::AsItIs), 2 * names);
        let denied: u64 = observed.savings[0].cost.denied;
        prop_assert_eq!(denied, observed.denied);
    }

    #[test]
    fn any_messages_are_counted_once(
        messages in prop::collection::vec((any::<bool>(), 0_u8..3, 0_u64..20, 0_u16..4, 0_usize..6), 0..60),
    ) {
        let names = ["a.x", "a", "a.y.x", "b.x", "x", "."].map(|name| Name::parse(name).unwrap());
        let mut pod = Pod::new(1, "x y.x", 5);
        for (is_response, client, time, id, name) in messages {
            pod.address.set_ip(IpAddr::from([10, 0, 0, client]));
            pod.id = id;
            let qtype = if id % 2 == 0 { Type::A } else { Type::AAAA };
            pod.ask(&names[name], qtype, time * 500 * MILLI, is_response.then_some(Found::NoName));
        }
        let queries = pod.records.iter().filter(|r| matches!(r.content, Content::Query(_))).count();
        let observed = observe(pod.records, &options());
        prop_assert_eq!(observed.queries + observed.repeated, queries as u64);
        let counted: u64 = observed.lookups.iter().map(|looked| looked.queries).sum();
        prop_assert_eq!(counted, observed.queries);
        prop_assert!(observed.denied <= observed.queries && observed.answered <= queries as u64);
    }
}
