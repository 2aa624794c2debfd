use super::*;
use nodens_wire::{Admission, admit};
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn message(workload: &Workload, n: u64) -> Vec<u8> {
    let mut message = Vec::new();
    workload.append(n, 0, &mut message);
    message
}

fn hash(workload: &Workload) -> u64 {
    let mut hash = PlanHash::default();
    workload.hash_into(&mut hash);
    hash.finish()
}

#[test]
fn messages_are_admissible_and_match_their_own_question_only() {
    let mut workload = Workload::new(1);
    let edns = Edns::new(1232, true);
    workload.push(name("a.example.").view(), Type::A, None);
    workload.push(name("a.example.").view(), Type::AAAA, Some(edns));
    for item in 0..4 {
        let mut message = Vec::new();
        workload.append(item, 0x1234, &mut message);
        let Admission::Accept(query) = admit(&message) else { panic!() };
        let size = if item % 2 == 0 { 512 } else { 1232 };
        assert_eq!((query.id, query.udp_size()), (0x1234, size));
        assert_eq!(query.dnssec_ok(), item % 2 == 1);
        assert!(workload.is_question_of(item, &message));
        assert!(!workload.is_question_of(item + 1, &message));
        assert!(!workload.is_question_of(item, &message[..20]));
        assert_eq!(workload.qtype_of(item), query.qtype);
    }
    assert_eq!(workload.question(1), (name("a.example.").view(), Type::AAAA));
}

#[test]
fn unique_names_differ_and_match_by_item() {
    let workload = Workload::unique(7, name("miss.test.").view(), Type::A).unwrap();
    let names: std::collections::HashSet<Vec<u8>> = (0..1_000)
        .map(|item| {
            let message = message(&workload, item);
            assert!(matches!(admit(&message), Admission::Accept(_)));
            assert!(workload.is_question_of(item, &message));
            assert!(!workload.is_question_of(item + 1, &message));
            message
        })
        .collect();
    assert_eq!(names.len(), 1_000);
    assert!(workload.warm_up().is_none() && workload.period().is_none());
    let long = name(&"a.".repeat(125));
    assert!(Workload::unique(7, long.view(), Type::A).is_err());
}

#[test]
fn the_same_seed_is_the_same_plan_and_another_seed_another() {
    let plan = |seed| {
        let mut workload = Workload::new(seed);
        for n in 0..100 {
            workload.push(name(&format!("n{n}.example.")).view(), Type::A, None);
        }
        workload.zipf(1.0, 10_000);
        hash(&workload)
    };
    assert_eq!(plan(1), plan(1));
    assert_ne!(plan(1), plan(2));
}

#[test]
fn a_hit_rate_is_the_part_of_items_that_ask_for_a_known_name() {
    let mut workload = Workload::new(3);
    let edns = Edns::new(1232, true);
    let long =
        format!("{}.{}.{}.{}.x", "a".repeat(60), "b".repeat(63), "c".repeat(63), "d".repeat(60));
    workload.push(name("warm.example.").view(), Type::A, Some(edns));
    workload.push(name(&long).view(), Type::MX, None);
    workload.set_hit_rate(0.9);
    let mut hits = 0;
    let mut names = std::collections::HashSet::new();
    for n in 0..20_000 {
        let message = message(&workload, n);
        assert!(message.len() <= workload.message_len_max());
        let Admission::Accept(query) = admit(&message) else { panic!() };
        assert_eq!(query.qtype, workload.qtype_of(n));
        assert_eq!(query.dnssec_ok(), n % 2 == 0);
        assert!(workload.is_question_of(n, &message) && !workload.is_question_of(n + 1, &message));
        let qname = query.qname(&message).to_name();
        if qname.view() == workload.question(n as usize % 2).0 {
            hits += 1;
        } else {
            assert_eq!(qname.to_string().find('.'), Some(16));
            assert!(names.insert(qname), "a name that should be new was asked before");
        }
    }
    // Five standard deviations are 213.
    assert!((17_787..18_213).contains(&hits), "{hits}");
    let warm_up = workload.warm_up().unwrap();
    assert_eq!(warm_up.period(), Some(2));
    let asked: Vec<_> = (0..2).map(|n| warm_up.name_of(n).to_string()).collect();
    assert_eq!(asked, ["warm.example.", &format!("{long}.")]);
}

#[test]
fn groups_of_types_are_drawn_by_name_and_type() {
    let types: TypeMix = "A=3,AAAA=1".parse().unwrap();
    let mut workload = Workload::new(3);
    for n in 0..50 {
        for qtype in types.types() {
            workload.push(name(&format!("n{n}.example.")).view(), qtype, None);
        }
    }
    workload.shuffle_groups(10_000, &types);
    let a = (0..10_000).filter(|n| workload.qtype_of(*n) == Type::A).count();
    assert!((7_250..7_750).contains(&a), "{a}");
    let first = (0..10_000).filter(|n| workload.message_of(*n) < 2).count();
    assert!((120..280).contains(&first), "{first}");
}

#[test]
fn made_queries_match_by_item_and_draw_their_subnet() {
    let template = Template::parse("{seq}.{rand:8}.example.", |_| unreachable!()).unwrap();
    let mut edns = Edns::default();
    edns.set_subnets("10.0.0.0/8,24".parse().unwrap());
    let style = Style { edns: Some(edns), ..Style::default() };
    let types: TypeMix = "A,MX".parse().unwrap();
    let workload = Workload::generate(5, template, types, &style);
    let mut subnets = std::collections::HashSet::new();
    for n in 0..500 {
        let message = message(&workload, n);
        assert!(message.len() <= workload.message_len_max());
        let Admission::Accept(query) = admit(&message) else { panic!() };
        assert_eq!(query.qtype, workload.qtype_of(n));
        assert!(workload.name_of(n).to_string().starts_with(&format!("{n}.")));
        assert!(workload.is_question_of(n, &message) && !workload.is_question_of(n + 1, &message));
        let octets: [u8; 3] = message[message.len() - 3..].try_into().unwrap();
        assert_eq!(octets[0], 10);
        subnets.insert(octets);
    }
    assert!(subnets.len() > 450, "{}", subnets.len());
    assert!(!workload.is_empty() && workload.warm_up().is_none() && workload.period().is_none());
}

#[test]
fn everything_that_decides_octets_decides_the_hash() {
    let base = || {
        let mut workload = Workload::new(1);
        workload.push(name("a.example.").view(), Type::A, None);
        workload.push(name("b.example.").view(), Type::A, None);
        workload
    };
    let mut plans = vec![base()];
    let mut change = |f: &dyn Fn(&mut Workload)| {
        let mut workload = base();
        f(&mut workload);
        plans.push(workload);
    };
    change(&|w| _ = w.push(name("c.").view(), Type::A, None));
    change(&|w| w.set_hit_rate(0.5));
    change(&|w| w.set_hit_rate(0.6));
    change(&|w| w.set_key("name:c2VjcmV0".parse().unwrap()));
    change(&|w| w.shuffle(5));
    change(&|w| w.script(vec![Step { message: 0, client: 0 }]));
    for (text, types) in [("{seq}", "A"), ("{seq:1}", "A"), ("{seq}", "MX"), ("{seq}", "A=2,MX=1")]
    {
        let template = Template::parse(text, |_| unreachable!()).unwrap();
        plans.push(Workload::generate(1, template, types.parse().unwrap(), &Style::default()));
    }
    let hashes: std::collections::HashSet<_> = plans.iter().map(hash).collect();
    assert_eq!(hashes.len(), plans.len());
}

proptest! {
    #[test]
    fn any_message_is_sent_as_it_is_but_for_its_id(octets: Vec<u8>, hit_rate in 0.0..1.0) {
        let mut workload = Workload::new(1);
        workload.push_message(&octets);
        let sent = message(&workload, 0);
        prop_assert_eq!(sent.get(2..), octets.get(2..));
        workload.set_hit_rate(hit_rate);
        for n in 0..5 {
            let sent = message(&workload, n);
            prop_assert!(sent.len() <= workload.message_len_max());
            _ = (workload.is_question_of(n, &octets), workload.qtype_of(n), workload.name_of(n));
        }
    }
}

/// Queries of three clients: one asks eight of ten.
fn lopsided() -> Workload {
    let mut workload = Workload::new(1);
    workload.push(name("a.example.").view(), Type::A, None);
    let clients = [0, 0, 1, 0, 0, 0, 0, 2, 0, 0];
    workload.script(clients.map(|client| Step { message: 0, client }).to_vec());
    workload
}

#[test]
fn the_busiest_client_is_found_over_the_order_or_in_its_busiest_second() {
    let mut workload = lopsided();
    assert_eq!(workload.busiest_client(32, 1_000.0), 800.0);
    assert_eq!(workload.busiest_client(1, 1_000.0), 1_000.0);
    // Clients 0 and 2 are one socket.
    assert_eq!(workload.busiest_client(2, 1_000.0), 900.0);
    // The last three queries of client 0 come within a second.
    let seconds = [0, 1, 2, 3, 4, 5, 6, 7, 7, 7];
    workload.set_times(seconds.map(|second| second * 1_000_000_000).to_vec());
    assert_eq!(workload.busiest_client(32, 1_000.0), 2.0);
    assert_eq!(Workload::new(1).busiest_client(4, 1_000.0), 250.0, "in turn");
}

#[test]
fn a_client_that_asks_too_much_for_one_is_split_and_the_others_are_not() {
    let mut workload = lopsided();
    assert_eq!(workload.split_clients(32, 1_000.0, 1_000.0), 3, "nobody asks too much");
    assert_eq!(workload.busiest_client(3, 1_000.0), 800.0);
    assert_eq!(workload.split_clients(32, 1_000.0, 300.0), 5, "three and two");
    let clients: Vec<_> = (0..10).map(|n| workload.client(n, 5)).collect();
    assert_eq!(clients, [0, 1, 3, 2, 0, 1, 2, 4, 0, 1]);
    // The next round continues where this one ended.
    assert_eq!(workload.client(10, 5), 2);
    assert!(workload.busiest_client(5, 1_000.0) < 270.0);
}

#[test]
fn clients_wrap_around_and_only_what_is_too_much_for_one_takes_more_than_there_are() {
    let many = |heavy: usize| {
        let mut workload = Workload::new(1);
        workload.push(name("a.example.").view(), Type::A, None);
        let light = (0..500).map(|client| Step { message: 0, client });
        let heavy = (0..heavy).map(|_| Step { message: 0, client: 7 });
        workload.script(light.chain(heavy).collect());
        workload
    };
    let mut even = many(0);
    assert_eq!(even.split_clients(32, 1_000.0, 25.0), 32, "two of each");
    assert_eq!((even.client(499, 32), even.period()), (499 % 32, Some(500)), "nothing changed");
    // Client 7 asks half of all, and the sockets of the others have 15 or 16 of 500.
    let mut one = many(500);
    assert_eq!(one.split_clients(32, 1_000.0, 100.0), 31 + 6);
    assert!(one.busiest_client(37, 1_000.0) <= 100.0);
}

#[test]
fn more_places_than_any_machine_has_are_counted_and_not_made() {
    let mut workload = lopsided();
    assert_eq!(workload.split_clients(1 << 40, 1e5, 1e-4), 1_000_000_000);
    assert_eq!(workload.split_clients(32, f64::INFINITY, 1.0), usize::MAX);
    assert_eq!(workload.period(), Some(10));
    assert_eq!(workload.busiest_client(usize::MAX, 1_000.0), 800.0);
}

#[test]
fn the_busiest_part_of_a_recording_keeps_its_queries_clients_and_gaps() {
    let mut workload = lopsided();
    assert_eq!(workload.busiest_part(3, 1.0).period(), Some(10), "nothing was recorded");
    workload.set_times(vec![0, 40, 50, 52, 56, 58, 90, 92, 94, 120]);
    let part = workload.busiest_part(20, 2.0);
    assert_eq!(part.times(), [0, 5, 6, 8, 9], "from the one at 40");
    assert_eq!(part.period(), Some(5));
    let clients: Vec<_> = (0..5).map(|n| part.client(n, 3)).collect();
    assert_eq!(clients, [0, 1, 0, 0, 0]);
    assert_eq!(workload.busiest_part(1_000, 1.0).times(), workload.times());
}
