use super::*;
use crate::{Message, Name, Owner, Section};
use proptest::prelude::*;

fn any_name() -> impl Strategy<Value = Name> {
    let label = prop_oneof!["[aA]", "[ab]{1,3}", "x{62}[ab]", Just("\\192\\001".to_owned())];
    prop::collection::vec(label, 0..5)
        .prop_filter_map("too long", |labels| Name::parse(&labels.join(".")).ok())
}

/// RDATA with names for the types that have some.
fn rdata(rtype: Type, name: &Name) -> Vec<u8> {
    let front: &[u8] = match rtype {
        Type::MX => &[0, 1],
        Type::SRV => &[0; 6],
        _ => &[],
    };
    match rtype {
        // Octets like those of pointers.
        Type::TXT => vec![3, 0xc0, 0x0c, 0xff],
        Type::SOA => [name.as_wire(), b"\x01h", name.as_wire(), &[0xc0; 20]].concat(),
        _ => [front, name.as_wire()].concat(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_block_reads_as_its_records_do_in_any_response(
        base in any_name(),
        prefixes in prop::collection::vec(any_name(), 1..4),
        records in prop::collection::vec(
            (
                any_name(),
                any::<bool>(),
                prop_oneof![
                    Just(Type::NS), Just(Type::MX), Just(Type::SRV), Just(Type::TXT), Just(Type::SOA)
                ],
                any_name(),
            ),
            1..12,
        ),
        front in 0..3_usize,
        authority in 0..12_usize,
    ) {
        let section = |at| if at < authority { Section::Authority } else { Section::Additional };
        let under = |name: &Name, inside: bool| match inside {
            true => Name::from_wire(&[&name.as_wire()[..name.as_wire().len() - 1], base.as_wire()].concat())
                .unwrap_or_else(|_| base.clone()),
            false => name.clone(),
        };
        let write = |builder: &mut Builder<'_>| {
            for (at, (owner, inside, rtype, target)) in records.iter().enumerate() {
                let (owner, target) = (under(owner, *inside), under(target, *inside));
                let fields = (*rtype, Class::IN, 60);
                builder.record(section(at), owner.view(), fields, &rdata(*rtype, &target)).unwrap();
            }
        };
        let block = Block::new(base.view(), write).unwrap();
        for prefix in &prefixes {
            let qname = under(prefix, true);
            let begin = |out: &mut Vec<u8>, block: Option<&Block>| {
                let mut builder = Builder::new(out, 0, Flags(0));
                builder.question(qname.view(), Type::A, Class::IN);
                let at = match builder.end_of_question(base.view()) {
                    Some(Owner::At(at)) => at,
                    _ if base.view().is_root() => 0,
                    // Longer names than are remembered, or other letters.
                    _ => return false,
                };
                for _ in 0..front {
                    let fields = (Type::A, Class::IN, 1);
                    builder.record(Section::Answer, qname.view(), fields, &[192, 0, 2, 1]).unwrap();
                }
                match block {
                    Some(block) => assert!(builder.append(block, at)),
                    None => write(&mut builder),
                }
                let fields = (Type::TXT, Class::IN, 1);
                builder.record(Section::Additional, base.view(), fields, b"\x01x").unwrap();
                true
            };
            let (mut plain, mut made) = (Vec::new(), Vec::new());
            if begin(&mut plain, None) {
                begin(&mut made, Some(&block));
                prop_assert_eq!(Message::parse(&made).unwrap(), Message::parse(&plain).unwrap());
            }
        }
    }
}

#[test]
fn what_has_answers_or_no_room_is_no_block() {
    let name: Name = "example.org.".parse().unwrap();
    let record = |builder: &mut Builder<'_>, section, len| {
        _ = builder.record(section, name.view(), (Type::TXT, Class::IN, 1), &vec![0; len]);
    };
    let block = |section, len| Block::new(name.view(), |builder| record(builder, section, len));
    assert!(block(Section::Answer, 4).is_none());
    assert!(block(Section::Authority, 17_000).is_none());
    assert!(block(Section::Authority, 70_000).is_none());
    let block = block(Section::Authority, 9_000).unwrap();
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 0, Flags(0));
    builder.question(name.view(), Type::A, Class::IN);
    assert!(builder.append(&block, HEADER_LEN as u16));
    assert!(!builder.append(&block, HEADER_LEN as u16), "no pointer reaches so far");
    let message = Message::parse(&out).unwrap();
    assert_eq!((message.authority.len(), message.flags.has(Flags::TC)), (1, false));
}
