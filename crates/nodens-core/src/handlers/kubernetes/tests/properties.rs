//! What holds for every name.

use super::*;
use nodens_wire::Rcode;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Labels that objects have, and others.
const LABELS: &[&str] = &[
    "web", "empty", "six", "both", "two", "portless", "heads", "bare", "asleep", "out", "same",
    "none", "shop", "tools", "nowhere", "svc", "pod", "_http", "_tcp", "_udp", "http", "tcp",
    "_zone", "pin", "prefer", "us-1a", "172-0-0-2", "172-0-0-20", "5678-abcd--0", "twice", "ep1a",
    "10-240-0-1", "fd00--1", "dns-version", "ns", "dns", "1", "10", "in-addr", "arpa", "ip6", "x",
];
const ZONES: &[&str] = &["cluster.local", "in-addr.arpa", "ip6.arpa"];

fn names() -> impl Strategy<Value = String> {
    let label = prop::sample::select(LABELS);
    let below = prop::collection::vec(label, 0..7);
    let usual = (below.clone(), prop::sample::select(ZONES));
    let service = (below, prop::sample::select(LABELS), prop::sample::select(&["shop", "tools"][..]));
    prop_oneof![
        usual.prop_map(|(below, zone)| [&below[..], &[zone]].concat().join(".")),
        service.prop_map(|(below, service, namespace)| {
            let few = &below[..below.len().min(3)];
            [few, &[service, namespace, "svc", "cluster.local"]].concat().join(".")
        }),
    ]
}

thread_local! {
    /// One server for all cases: it keeps nothing between questions.
    static SERVER: RefCell<Bench> = RefCell::new({
        let mut bench = bench("pods verified\n zonal");
        bench.client.transport = crate::Transport::Tcp;
        bench
    });
}

fn ask(question: &str) -> Message {
    SERVER.with(|bench| bench.borrow_mut().ask_for(question, std::time::Duration::ZERO).unwrap().0)
}

proptest! {
    #[test]
    fn a_name_exists_for_every_type_or_for_none(name in names()) {
        let exists = |qtype: &str| {
            let answer = ask(&format!("{name} {qtype}"));
            answer.flags.rcode() != Rcode::NXDOMAIN
        };
        // PTR records of reverse names are the one kind that stands alone.
        let types = ["A", "AAAA", "SRV", "TXT", "CNAME", "MX", "HTTPS", "NS"];
        let found: BTreeSet<bool> = types.into_iter().map(exists).collect();
        prop_assert_eq!(found.len(), 1, "{}", name);
    }

    #[test]
    fn an_empty_answer_has_the_authority_of_its_zone(name in names(), qtype in "A|SRV|PTR|TXT|SOA|ANY") {
        let message = ask(&format!("{name} {qtype}"));
        let has_soa = message.authority.iter().any(|record| record.rtype == Type::SOA);
        prop_assert_eq!(message.answer.is_empty(), has_soa, "{}", shown(&message));
        let qname: Name = name.parse().unwrap();
        for record in &message.authority {
            prop_assert!(qname.view().is_in_domain(record.owner.view()));
        }
    }

    #[test]
    fn case_changes_nothing(name in names(), qtype in "A|AAAA|SRV|TXT|PTR") {
        let [lower, upper] = [name.clone(), name.to_ascii_uppercase()]
            .map(|name| ask(&format!("{name} {qtype}")));
        prop_assert_eq!(shown(&lower).to_lowercase(), shown(&upper).to_lowercase());
    }

    #[test]
    fn targets_of_services_have_the_addresses_that_come_with_them(name in names()) {
        let message = ask(&format!("{name} SRV"));
        let weight: u32 = message.answer.iter().map(|srv| u32::from(srv.rdata[3])).sum();
        prop_assert!(weight <= 100, "{}", shown(&message));
        for glue in &message.additional {
            let target = &glue.owner;
            prop_assert!(message.answer.iter().any(|srv| srv.rdata[6..] == *target.as_wire()));
            let answer = ask(&format!("{target} {}", glue.rtype));
            prop_assert!(answer.answer.iter().any(|record| record.rdata == glue.rdata));
        }
    }
}
