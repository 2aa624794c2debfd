use super::rows::{Place, find};
use super::*;
use crate::testing::Bench;
use proptest::prelude::*;
use nodens_wire::{Builder, Class, Flags, Name};
use std::collections::HashSet;

fn records(wire: &mut Vec<u8>, compressed: bool, last: &[(&str, Type, &[u8])]) {
    let flags = Flags(0x8180);
    let name = |text: &str| Name::parse(text).unwrap();
    let mut builder = Builder::new(wire, 1, flags);
    builder.question(name("www.example.org").view(), Type::A, Class::IN);
    for (owner, rtype, rdata) in last {
        builder.record(Section::Answer, name(owner).view(), (*rtype, Class::IN, 60), rdata).unwrap();
    }
    if !compressed {
        let message = Message::parse(wire).unwrap();
        let (head, question) = (12, 12 + 17 + 4);
        assert_eq!(wire.len(), question + message.answer.iter().map(|r| 12 + r.rdata.len()).sum::<usize>());
        wire.truncate(question);
        assert!(head < question);
        for record in &message.answer {
            wire.extend(record.owner.as_wire());
            wire.extend([record.rtype.0, record.class.0].map(u16::to_be_bytes).concat());
            wire.extend(record.ttl.to_be_bytes());
            wire.extend((record.rdata.len() as u16).to_be_bytes());
            wire.extend(&record.rdata);
        }
    }
}

const WWW: &str = "www.example.org";

fn addresses(n: u8) -> Vec<[u8; 4]> {
    (1..=n).map(|last| [192, 0, 2, last]).collect()
}

fn wire_of(compressed: bool, n: u8) -> Vec<u8> {
    let addresses = addresses(n);
    let rows: Vec<_> = addresses.iter().map(|a| (WWW, Type::A, &a[..])).collect();
    let mut wire = Vec::new();
    records(&mut wire, compressed, &rows);
    wire
}

fn order(wire: &[u8]) -> Vec<u8> {
    let message = Message::parse(wire).unwrap();
    message.answer.iter().map(|record| *record.rdata.last().unwrap()).collect()
}

#[test]
fn like_addresses_are_shuffled_in_place_in_every_order() {
    for compressed in [true, false] {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut seen = HashSet::new();
        for _ in 0..200 {
            let mut wire = wire_of(compressed, 3);
            let Place::Block(block) = find(&wire, false) else { panic!("no block") };
            Loadbalance::default().order_rows(&mut wire, &block, &Choice::Any, &mut rng);
            seen.insert(order(&wire));
        }
        assert_eq!(seen.len(), 6);
    }
}

#[test]
fn one_address_is_nothing_to_order_and_mixed_ones_are_scattered() {
    assert_eq!(find(&wire_of(true, 1), false), Place::Nothing);
    let (a, aaaa, name) = ([1; 4], [2; 16], b"\x01x\x00");
    for rows in [
        [(WWW, Type::A, &a[..]), (WWW, Type::AAAA, &aaaa[..])],
        [(WWW, Type::A, &a[..]), ("ftp.example.org", Type::A, &a[..])],
        [(WWW, Type::A, &a[..]), (WWW, Type::CNAME, &name[..])],
        [(WWW, Type::MX, b"\x00\x01\x00"), (WWW, Type::MX, b"\x00\x02\x00")],
    ] {
        let mut wire = Vec::new();
        records(&mut wire, true, &rows);
        assert_eq!(find(&wire, false), Place::Scattered, "{rows:?}");
    }
    assert!(matches!(find(&wire_of(true, 64), false), Place::Block(_)));
    assert_eq!(find(&wire_of(true, 65), false), Place::Scattered);
}

#[test]
fn cnames_stay_in_front_of_addresses() {
    let rows: Vec<(&str, Type, &[u8])> = vec![
        (WWW, Type::CNAME, b"\x01x\x00"),
        ("x", Type::A, &[192, 0, 2, 1]),
        ("x", Type::A, &[192, 0, 2, 2]),
    ];
    let mut wire = Vec::new();
    records(&mut wire, true, &rows);
    let Place::Block(block) = find(&wire, false) else { panic!("no block") };
    let before = wire.clone();
    let mut rng = fastrand::Rng::with_seed(1);
    while wire == before {
        Loadbalance::default().order_rows(&mut wire, &block, &Choice::Any, &mut rng);
    }
    let message = Message::parse(&wire).unwrap();
    let types: Vec<_> = message.answer.iter().map(|record| record.rtype).collect();
    assert_eq!(types, [Type::CNAME, Type::A, Type::A]);
}

#[test]
fn a_scattered_section_is_put_into_the_order_of_coredns() {
    let rows: Vec<(&str, Type, &[u8])> = vec![
        (WWW, Type::MX, b"\x00\x01\x00"),
        (WWW, Type::A, &[192, 0, 2, 1]),
        (WWW, Type::TXT, b"\x01t"),
        (WWW, Type::AAAA, &[1; 16]),
        (WWW, Type::CNAME, b"\x01x\x00"),
    ];
    let mut wire = Vec::new();
    records(&mut wire, true, &rows);
    let types = |handler: &Loadbalance| {
        let mut message = Message::parse(&wire).unwrap();
        handler.order_message(&mut message, &Choice::Any, &mut fastrand::Rng::with_seed(1));
        message.answer.iter().map(|r| if r.rtype == Type::AAAA { Type::A } else { r.rtype }).collect::<Vec<_>>()
    };
    let round_robin = Loadbalance::default();
    assert_eq!(types(&round_robin), [Type::CNAME, Type::TXT, Type::A, Type::A, Type::MX]);
    let prefer = Loadbalance { prefer: vec!["10.0.0.0/8".parse().unwrap()], ..round_robin };
    assert_eq!(types(&prefer), [Type::CNAME, Type::A, Type::A, Type::MX, Type::TXT]);
}

#[test]
fn preferred_networks_come_first_in_their_order() {
    let mut handler = Loadbalance::default();
    for network in ["192.0.2.5/32", "192.0.2.2/31"] {
        handler.prefer.push(network.parse().unwrap());
    }
    let mut wire = wire_of(true, 6);
    let Place::Block(block) = find(&wire, true) else { panic!("no block") };
    let mut rng = fastrand::Rng::with_seed(1);
    handler.order_rows(&mut wire, &block, &Choice::AsIs, &mut rng);
    assert_eq!(order(&wire), [5, 2, 3, 1, 4, 6]);
    let mut message = Message::parse(&wire_of(true, 6)).unwrap();
    handler.order_message(&mut message, &Choice::AsIs, &mut rng);
    let order: Vec<_> = message.answer.iter().map(|record| record.rdata[3]).collect();
    assert_eq!(order, [5, 2, 3, 1, 4, 6]);
}

#[test]
fn weights_decide_how_often_an_address_is_first() {
    let folder = std::env::temp_dir().join(format!("nodens-weights-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("weights");
    std::fs::write(&path, "www.Example.org\n192.0.2.1 3\n192.0.2.3 2\n").unwrap();
    let weights = Weights::new(path.clone());
    let mut known = String::new();
    assert!(weights.refresh(&mut known).unwrap());
    assert!(!weights.refresh(&mut known).unwrap());
    let (handler, mut rng) = (Loadbalance::default(), fastrand::Rng::with_seed(3));
    let mut first = [0; 4];
    for _ in 0..6000 {
        let mut wire = wire_of(true, 3);
        let Place::Block(block) = find(&wire, false) else { panic!("no block") };
        handler.order_rows(&mut wire, &block, &Choice::Weighted(&weights), &mut rng);
        first[usize::from(order(&wire)[0])] += 1;
    }
    // 3 : 1 : 2 of 6000, within five standard deviations.
    for (count, expected) in [(first[1], 3000_i32), (first[2], 1000), (first[3], 2000)] {
        assert!((count - expected).abs() < 200, "{first:?}");
    }
    // A faulty file is reported once and changes nothing; a good one is taken up.
    std::fs::write(&path, "www.example.org\n192.0.2.1 0\n").unwrap();
    let error = weights.refresh(&mut known).unwrap_err().to_string();
    assert!(error.ends_with("weights:2: wrong weight value:\"0\", expected a number from 1 to 255"));
    assert!(!weights.refresh(&mut known).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_missing_weight_file_is_waited_for_unless_it_is_read_only_once() {
    let corefile = |reload: &str| {
        format!(".:53 {{\n loadbalance weighted /nonexistent/w {{\n reload {reload}\n }}\n whoami\n}}")
    };
    let bench = Bench::try_new(&corefile("10s")).unwrap();
    let tasks = &bench.tasks;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].interval.as_secs(), 10);
    let error = Bench::try_new(&corefile("0")).unwrap_err().to_string();
    assert!(error.starts_with("Corefile:2:23: weight file open error: "), "{error}");
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    for (directive, expected) in [
        ("loadbalance random", "2:13: expected a policy, 'round_robin' or 'weighted', found `random`"),
        ("loadbalance Round_Robin", "2:13: expected a policy"),
        ("loadbalance round_robin x", "2:25: unknown property for round_robin"),
        ("loadbalance weighted", "2:1: Wrong argument count"),
        ("loadbalance weighted a b", "2:24: Wrong argument count"),
        ("loadbalance {\n prefer 1.2.3.4\n}", "3:9: expected a prefix"),
        ("loadbalance {\n reload 10s\n}", "3:2: unknown property 'reload'"),
        ("loadbalance weighted a {\n prefer 10.0.0.0/8\n}", "3:2: unknown property 'prefer'"),
        ("loadbalance weighted a {\n reload\n}", "3:2: Wrong argument count"),
        ("loadbalance weighted a {\n reload 1s 2s\n}", "3:12: Wrong argument count"),
        ("loadbalance weighted a {\n reload soon\n}", "3:9: expected a duration"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n{directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{expected}")), "{error}");
    }
    Bench::new(".:53 {\n loadbalance {\n prefer\n }\n whoami\n}");
}

/// Records of a section as values, whatever their order.
fn sorted_records(wire: &[u8], section: Section) -> Vec<String> {
    let message = Message::parse(wire).unwrap();
    let mut records: Vec<_> = message.section(section).iter().map(|r| format!("{r:?}")).collect();
    records.sort();
    records
}

proptest! {
    #[test]
    fn no_order_loses_or_changes_a_record(
        rows in prop::collection::vec((0..3_u8, 0..3_u8, 0..6_u8, any::<u8>(), any::<u32>()), 0..80),
        compressed in any::<bool>(),
        weighted in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut message = Message { flags: Flags(0x8180), ..Message::default() };
        for (section, owner, rtype, last, ttl) in rows {
            let owner = Name::parse(["www.example.org", "a.www.example.org", "b"][usize::from(owner)]);
            let (rtype, rdata) = match rtype {
                0 => (Type::CNAME, b"\x03www\x07example\x03org\x00".to_vec()),
                1 => (Type::AAAA, vec![last; 16]),
                2 => (Type::MX, vec![0, last, 1, b'm', 0]),
                3 => (Type::TXT, vec![1, last]),
                _ => (Type::A, vec![192, 0, 2, last]),
            };
            let record = Record { owner: owner.unwrap(), rtype, class: Class::IN, ttl, rdata };
            message.section_mut(Section::ALL[usize::from(section)]).push(record);
        }
        let mut wire = Vec::new();
        if compressed {
            message.write(&mut wire).unwrap();
        } else {
            write_plainly(&message, &mut wire);
        }
        let before = Section::ALL.map(|section| sorted_records(&wire, section));
        let handler = Loadbalance { prefer: vec!["192.0.2.64/26".parse().unwrap()], ..Loadbalance::default() };
        let weights = Weights::new("/nonexistent".into());
        let choice = if weighted { Choice::Weighted(&weights) } else { Choice::Any };
        let mut rng = fastrand::Rng::with_seed(seed);
        match find(&wire, true) {
            Place::Nothing => {}
            Place::Block(block) => handler.order_rows(&mut wire, &block, &choice, &mut rng),
            Place::Scattered => {
                let mut message = Message::parse(&wire).unwrap();
                handler.order_message(&mut message, &choice, &mut rng);
                message.write(&mut wire).unwrap();
            }
        }
        prop_assert_eq!(Section::ALL.map(|section| sorted_records(&wire, section)), before);
    }

    #[test]
    fn any_octets_are_looked_through(wire in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut wire = wire;
        if let Place::Block(block) = find(&wire, false) {
            let mut rng = fastrand::Rng::with_seed(1);
            Loadbalance::default().order_rows(&mut wire, &block, &Choice::Any, &mut rng);
        }
    }
}

/// Without a question and without compression, as CoreDNS sends small messages.
fn write_plainly(message: &Message, wire: &mut Vec<u8>) {
    let counts = Section::ALL.map(|section| message.section(section).len() as u16);
    let [answer, authority, additional] = counts;
    let counts = [0, answer, authority, additional];
    wire.extend(nodens_wire::Header { id: 1, flags: message.flags, counts }.to_bytes());
    for record in Section::ALL.iter().flat_map(|section| message.section(*section)) {
        wire.extend(record.owner.as_wire());
        wire.extend([record.rtype.0, record.class.0].map(u16::to_be_bytes).concat());
        wire.extend(record.ttl.to_be_bytes());
        wire.extend((record.rdata.len() as u16).to_be_bytes());
        wire.extend(&record.rdata);
    }
}
