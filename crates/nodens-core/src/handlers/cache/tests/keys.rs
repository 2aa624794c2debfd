//! Which questions share an answer.

use super::*;
use crate::config::BuildOptions;
use crate::handlers::Handler;
use nodens_wire::edns::{Options, code, push_option};
use nodens_wire::shape::{ResponseEdns, shape};
use nodens_wire::{Builder, edns};
use proptest::prelude::*;

/// Everything that is part of the key, and the case of the name, which is not.
#[derive(Clone, Debug)]
struct Question {
    qname: String,
    qtype: Type,
    qclass: Class,
    dnssec_ok: bool,
    checking_disabled: bool,
    recursion_desired: bool,
    subnet: Option<Vec<u8>>,
}

impl Question {
    fn request(&self) -> Vec<u8> {
        let flags = Flags::default().with(Flags::RD, self.recursion_desired);
        let flags = flags.with(Flags::CD, self.checking_disabled);
        let mut out = Vec::new();
        let mut options = Vec::new();
        if let Some(subnet) = &self.subnet {
            push_option(&mut options, code::CLIENT_SUBNET, subnet);
        }
        let qname = name(&self.qname);
        Builder::new(&mut out, 1, flags).question(qname.view(), self.qtype, self.qclass);
        let flags = if self.dnssec_ok { edns::DO } else { 0 };
        let edns = ResponseEdns { udp_size: 1232, flags, options: &options };
        shape(&mut out, Rcode::NOERROR, Some(edns), 512).unwrap();
        out
    }

    fn is_same(&self, other: &Self) -> bool {
        self.qname.eq_ignore_ascii_case(&other.qname)
            && (self.qtype, self.qclass) == (other.qtype, other.qclass)
            && self.dnssec_ok == other.dnssec_ok
            && self.checking_disabled == other.checking_disabled
            && self.recursion_desired == other.recursion_desired
            && self.subnet == other.subnet
    }
}

fn questions() -> impl Strategy<Value = Question> {
    let subnet = prop_oneof![
        3 => Just(None),
        1 => any::<bool>().prop_map(|odd| Some(vec![0, 1, 24, 0, 198, 51, 100 + u8::from(odd)])),
    ];
    let types = prop::sample::select(vec![Type::A, Type::AAAA, Type(256)]);
    let classes = prop::sample::select(vec![Class::IN, Class::CH]);
    let bits = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.8));
    ("[aA]{1,2}\\.[eE]x", types, classes, bits, subnet).prop_map(
        |(qname, qtype, qclass, (dnssec_ok, checking_disabled, recursion_desired), subnet)| {
            Question {
                qname,
                qtype,
                qclass,
                dnssec_ok,
                checking_disabled,
                recursion_desired,
                subnet,
            }
        },
    )
}

proptest! {
    #[test]
    fn questions_share_an_answer_only_if_all_parts_agree(a in questions(), b in questions()) {
        let mut bench = bench("cache {\n client_subnet forward\n }", |q| {
            reply(q, Rcode::NXDOMAIN).soa(60).send()
        });
        prop_assert!(bench.ask_bytes(&a.request()).is_some());
        prop_assert!(bench.ask_bytes(&b.request()).is_some());
        prop_assert_eq!(bench.asked == 1, a.is_same(&b));
    }
}

#[test]
fn a_clients_subnet_does_not_go_upstream() {
    let script = |q: &Message| {
        let (_, mut options) = q.edns().unwrap();
        assert!(options.all(|(code, _)| code == code::NSID));
        reply(q, Rcode::NOERROR).a(60, 1).send()
    };
    let mut bench = bench("cache", script);
    let mut question = Question {
        qname: "www.example".to_owned(),
        qtype: Type::A,
        qclass: Class::IN,
        dnssec_ok: false,
        checking_disabled: false,
        recursion_desired: true,
        subnet: None,
    };
    for last in 0..3 {
        question.subnet = Some(vec![0, 1, 24, 0, 198, 51, last]);
        assert!(bench.ask_bytes(&question.request()).is_some());
    }
    assert_eq!(bench.asked, 1);
}

#[test]
fn with_client_subnet_forward_it_does() {
    let script = |q: &Message| {
        let (_, mut options) = q.edns().unwrap();
        let last = options.find(|(code, _)| *code == code::CLIENT_SUBNET).unwrap().1[6];
        reply(q, Rcode::NOERROR).a(60, last).send()
    };
    let mut bench = bench("cache {\n client_subnet forward\n }", script);
    let mut question = Question {
        qname: "www.example".to_owned(),
        qtype: Type::A,
        qclass: Class::IN,
        dnssec_ok: true,
        checking_disabled: false,
        recursion_desired: true,
        subnet: None,
    };
    for last in [1, 2, 1, 2] {
        question.subnet = Some(vec![0, 1, 24, 0, 198, 51, last]);
        let answer = bench.ask_bytes(&question.request()).unwrap();
        assert_eq!(first(&Message::parse(&answer).unwrap()).0, last);
    }
    assert_eq!(bench.asked, 2);
    assert!(Options::check(&[]).is_ok());
}

#[test]
fn blocks_share_nothing() {
    let corefile = "a.example {\n cache\n forward . 192.0.2.9\n}\n\
                    . {\n cache\n forward . 192.0.2.9\n}";
    let mut bench = Bench::new(corefile);
    follow(&mut bench, |q| reply(q, Rcode::NOERROR).a(60, 1).send());
    bench.ask("www.a.example. A");
    assert_eq!(metric(&bench, "coredns_cache_entries", "zones=\"a.example.\""), 1.0);
    assert_eq!(metric(&bench, "coredns_cache_entries", "zones=\".\""), 0.0);
    // The same name in another block is another question.
    bench.reload(". {\n cache\n forward . 192.0.2.9\n}").unwrap();
    bench.ask("www.a.example. A");
    assert_eq!(bench.asked, 2);
}

#[test]
fn a_reload_keeps_the_answers_of_blocks_that_did_not_change() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(60, 1).send();
    let mut bench = bench("cache 30", script);
    bench.ask("www.example. A");
    bench.reload("other.example {\n whoami\n}\n.:53 {\n cache 30\n forward . 192.0.2.9\n}").unwrap();
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 1);
    bench.reload(".:53 {\n cache 31\n forward . 192.0.2.9\n}").unwrap();
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 2);
}

#[test]
fn a_block_is_the_same_whatever_stands_in_the_place_of_a_word() {
    let template = "a.example {\n whoami\n}\n. {\n cache 30\n forward . SERVERS\n}\n";
    let parse = |text: &str| {
        nodens_corefile::parse("Corefile", text, &nodens_corefile::SystemSources).unwrap()
    };
    let options = |text| BuildOptions { known_as: Some(parse(text)), ..BuildOptions::default() };
    let of = |servers: &str| template.replace("SERVERS", servers);
    let mut bench = Bench::with_options(&of("192.0.2.9"), &options(template)).unwrap();
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(60, 1).send();
    bench.upstream(move |_, query| script(query));
    bench.ask("www.example. A");
    bench.reload_with(&of("192.0.2.7 192.0.2.8"), &options(template)).unwrap();
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 1);
    // With another number of blocks it is not known which of them is meant.
    let other = options(". {\n cache 30\n forward . SERVERS\n}\n");
    bench.reload_with(&of("192.0.2.9"), &other).unwrap();
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 2);
    // Nor is it the same if anything else changes.
    let cache = |text: &str| text.replace("cache 30", "cache 31");
    bench.reload_with(&cache(&of("192.0.2.9")), &options(&cache(template))).unwrap();
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 3);
}

#[test]
fn servers_of_a_block_with_the_same_zones_share_their_entries() {
    let fingerprints = |corefile: &str| -> Vec<u64> {
        let bench = Bench::new(corefile);
        let handlers = bench.worker.config().blocks.iter().flat_map(|block| &block.handlers);
        let caches = handlers.filter_map(|handler| match handler {
            Handler::Cache(cache) => Some(cache.lease.scope().fingerprint),
            _ => None,
        });
        caches.collect()
    };
    // Ports and transports of one block; a key that is added changes nothing for the others.
    let block = |keys: &str| format!("{keys} {{\n cache\n whoami\n}}\n");
    let all = fingerprints(&block("test:53 test:5300 tls://test https://test grpc://test:4430"));
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|own| Some(own) == fingerprints(&block("test:53")).first()));
    // Other zones, and another block that says the same, have their own.
    let [first, second] = fingerprints(&block("test:53 example:5300"))[..] else { panic!() };
    assert_ne!(first, second);
    let [first, second] = fingerprints(&[block("test:53"), block("tls://test")].concat())[..]
    else {
        panic!()
    };
    assert_ne!(first, second);
}
