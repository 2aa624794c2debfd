//! Any message: what goes in comes out, and nothing panics.

use super::*;
use crate::handlers::cache::classify::{Question, assess};
use nodens_wire::Section;
use proptest::prelude::*;

const OWNERS: [&str; 5] = ["@", "a.example.", "b.c.a.example.", "WWW.Example.", "."];

/// A record of a type whose names are compressed, or not, or that has none.
fn records() -> impl Strategy<Value = Vec<(usize, usize, Type, u32)>> {
    let types = [Type::A, Type::CNAME, Type::MX, Type::SRV, Type::SOA, Type::TXT, Type(65_280)];
    let record = (0..3_usize, 0..OWNERS.len(), prop::sample::select(types.to_vec()), 0..100_u32);
    prop::collection::vec(record, 1..12)
}

fn rdata(rtype: Type, owner: usize) -> Vec<u8> {
    let target = name(OWNERS[(owner + 1) % OWNERS.len()].trim_start_matches('@'));
    let target = target.as_wire();
    match rtype {
        Type::CNAME => target.to_vec(),
        Type::MX => [&[0, 1][..], target].concat(),
        Type::SRV => [&[0; 6][..], target].concat(),
        Type::SOA => [target, target, &[0; 20][..]].concat(),
        Type::A => vec![192, 0, 2, owner as u8],
        _ => vec![3, b'x', b'y', b'z'],
    }
}

fn message(question: &Message, records: &[(usize, usize, Type, u32)]) -> Reply {
    let mut made = reply(question, Rcode::NOERROR).a(50, 1);
    for (section, owner, rtype, ttl) in records {
        let record = made.record(OWNERS[*owner], *rtype, *ttl, rdata(*rtype, *owner));
        made.0.section_mut(Section::ALL[*section]).push(record);
    }
    made
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(records in records()) {
        let aliased = |record: &(usize, usize, Type, u32)| {
            record.0 == 0 && record.2 == Type::CNAME && matches!(record.1, 0 | 3)
        };
        prop_assume!(!records.iter().any(aliased));
        let lowest = records.iter().map(|(.., ttl)| *ttl).chain([50]).min().unwrap().max(5);
        let script = move |q: &Message| message(q, &records).send();
        let mut bench = bench("cache", script);
        // Over TCP, since the records may be too many for a datagram.
        bench.client.transport = crate::job::Transport::Tcp;
        let first = bench.ask("www.example. A");
        let second = bench.ask("www.example. A");
        prop_assert_eq!((bench.asked, &first), (1, &second));
        prop_assert!(ttls(&first).iter().all(|ttl| *ttl == lowest));
    }

    #[test]
    fn nothing_in_a_response_can_do_harm(
        records in records(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let asked = Message::parse(&crate::testing::request("www.example. A")).unwrap();
        let mut wire = Vec::new();
        message(&asked, &records).0.write(&mut wire).unwrap();
        for (at, octet) in damage {
            let at = at.index(wire.len());
            wire[at] = octet;
        }
        if cut.index(4) == 0 {
            wire.truncate(cut.index(wire.len()));
        }
        let qname = name("www.example.");
        let (qtype, qclass) = (Type::A, Class::IN);
        let question = Question { qname: qname.view(), qtype, qclass };
        let mut ttls_at = Vec::new();
        if let Ok(reply) = assess(&wire, Rcode::NOERROR, question, Some(0), &mut ttls_at) {
            let counted: usize = reply.counts.iter().map(|count| usize::from(*count)).sum();
            prop_assert_eq!(ttls_at.len(), counted);
            prop_assert!(ttls_at.iter().all(|at| usize::from(*at) + 6 <= wire.len()));
        }
    }
}
