//! Answers that pass to another server.

use super::*;
use proptest::prelude::*;

fn answering() -> Bench {
    bench("cache 300 {\n serve_stale 1h\n }", |q| match q.questions[0].qname.to_string().as_str() {
        "no.example." => reply(q, Rcode::NXDOMAIN).soa(40).send(),
        _ => reply(q, Rcode::NOERROR).a(60, 1).send(),
    })
}

fn export(bench: &Bench) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    bench.shared.cache.export(bench.now, |packed| {
        all.push(packed.to_vec());
        true
    });
    all
}

#[test]
fn the_next_server_answers_what_this_one_knew_with_the_time_that_is_left() {
    let mut old = answering();
    for question in ["www.example. A", "www.example. A +do", "no.example. A", "old.example. A"] {
        old.ask(question);
    }
    old.pass(50 * SECOND);
    old.ask("www.example. A");
    let packed = export(&old);
    assert_eq!(packed.len(), 4);
    let mut new = answering();
    // Another machine time: ages count.
    new.pass(7000 * SECOND);
    assert!(packed.iter().all(|packed| new.shared.cache.import(packed, new.now)));
    // What is there already stays as it is.
    assert!(!packed.iter().any(|packed| new.shared.cache.import(packed, new.now)));
    let answer = new.ask("www.example. A");
    assert_eq!((new.asked, ttls(&answer)), (0, vec![10]));
    assert_eq!((new.ask("www.example. A +do").answer.len(), new.asked), (1, 0));
    new.ask("other.example. A");
    assert_eq!(new.asked, 1);
    assert_eq!(new.shared.cache.entries(), 5);
}

#[test]
fn answers_of_a_block_that_says_something_else_are_not_taken() {
    let mut old = answering();
    old.ask("www.example. A");
    let mut other = bench("cache 200", |q| reply(q, Rcode::NOERROR).a(60, 1).send());
    let packed = export(&old);
    assert!(!packed.iter().any(|packed| other.shared.cache.import(packed, other.now)));
    other.ask("www.example. A");
    assert_eq!(other.asked, 1);
}

#[test]
fn an_export_ends_when_nobody_wants_more() {
    let mut old = answering();
    (0..100).for_each(|n| drop(old.ask(&format!("n{n}.example. A"))));
    let mut seen = 0;
    old.shared.cache.export(old.now, |_| {
        seen += 1;
        seen < 7
    });
    assert_eq!(seen, 7);
}

proptest! {
    // Each begins two servers.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn damaged_answers_do_no_harm(
        at in any::<prop::sample::Index>(),
        octet in any::<u8>(),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut old = answering();
        old.ask("www.example. A");
        let mut packed = export(&old).remove(0);
        // The fingerprint stays: with another, nothing is looked at.
        let at = 8 + at.index(packed.len() - 8);
        packed[at] = octet;
        if cuts {
            packed.truncate(cut.index(packed.len()));
        }
        let mut new = answering();
        new.shared.cache.import(&packed, new.now);
        prop_assert!(new.ask_bytes(&crate::testing::request("www.example. A")).is_some());
        prop_assert!(new.shared.cache.entries() <= 2);
        prop_assert!(export(&new).len() <= 2);
    }
}
