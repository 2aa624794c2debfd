use crate::testing::{Bench, request};
use nodens_wire::{Flags, Rcode, Type};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn bench(body: &str) -> Bench {
    Bench::new(&format!(".:53 {{\n erratic {{\n{body}\n }}\n}}"))
}

#[test]
fn every_second_question_is_dropped_by_default() {
    let mut bench = Bench::new(".:53 {\n erratic\n}");
    let question = request("example.org. A");
    let answered: Vec<_> = (0..6).map(|_| bench.ask_bytes(&question).is_some()).collect();
    assert_eq!(answered, [false, true, false, true, false, true]);
    bench = self::bench("drop 3");
    let answered: Vec<_> = (0..6).map(|_| bench.ask_bytes(&question).is_some()).collect();
    assert_eq!(answered, [false, true, true, false, true, true]);
}

#[test]
fn answers_are_delayed() {
    let mut bench = bench("delay 2 70ms");
    for expected in [70, 0, 70, 0] {
        let (answer, took) = bench.ask_for("example.org. AAAA", 1000 * MS).unwrap();
        assert_eq!(answer.answer[0].rtype, Type::AAAA);
        assert_eq!(took, expected * MS);
    }
    let (answer, took) = bench.ask_for("example.org. MX", 1000 * MS).unwrap();
    assert_eq!((answer.flags.rcode(), took), (Rcode::SERVFAIL, 70 * MS));
}

#[test]
fn answers_are_marked_as_truncated_by_the_bits_of_their_number() {
    let mut bench = bench("truncate 2");
    let mut truncated = || bench.ask("example.org. A").flags.has(Flags::TC);
    assert_eq!([truncated(), truncated(), truncated(), truncated()], [true, true, false, false]);
}

#[test]
fn large_answers_fit_512_octets_only_if_names_are_compressed() {
    let mut bench = bench("large\n drop 0");
    let wire = bench.ask_bytes(&request("example.org. A")).unwrap();
    let answer = nodens_wire::Message::parse(&wire).unwrap();
    assert_eq!(answer.answer.len(), 30);
    assert!(!answer.flags.has(Flags::TC) && wire.len() <= 512);
}

#[test]
fn properties_are_checked() {
    for body in ["drop -1", "drop 1 2", "delay 1 soon", "delay 1 1s 2", "truncate x", "sloppy", "large 2"] {
        assert!(Bench::try_new(&format!(".:53 {{\n erratic {{\n{body}\n }}\n}}")).is_err(), "{body}");
    }
}

#[test]
fn arguments_in_front_of_the_body_mean_nothing() {
    for text in ["erratic now", "erratic drop 1", "erratic large word word"] {
        let mut bench = Bench::new(&format!(".:53 {{\n {text}\n}}"));
        let question = request("example.org. A");
        let answered: Vec<_> = (0..4).map(|_| bench.ask_bytes(&question).is_some()).collect();
        assert_eq!(answered, [false, true, false, true], "{text}");
    }
    let mut bench = Bench::new(".:53 {\n erratic now {\n drop 0\n }\n}");
    assert!(bench.ask_bytes(&request("example.org. A")).is_some());
}
