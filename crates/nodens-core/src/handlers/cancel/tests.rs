use crate::testing::Bench;
use nodens_wire::Rcode;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_question_ends_when_its_time_is_over() {
    let mut bench = Bench::new(".:53 {\n cancel 300ms\n forward . 192.0.2.1\n}");
    let (answer, took) = bench.ask_for("example.org. A", 10_000 * MS).unwrap();
    assert_eq!((answer.flags.rcode(), took), (Rcode::SERVFAIL, 300 * MS));
}

#[test]
fn the_limit_of_the_server_stays() {
    let mut bench = Bench::new(".:53 {\n cancel 1h\n forward . 192.0.2.1 {\n read_timeout 1h\n }\n}");
    let (_, took) = bench.ask_for("example.org. A", 10_000 * MS).unwrap();
    assert_eq!(took, 5000 * MS);
}

#[test]
fn what_is_no_time_is_refused() {
    for argument in ["0", "soon", "-1s", "1s 2s"] {
        let corefile = format!(".:53 {{\n cancel {argument}\n}}");
        assert!(Bench::try_new(&corefile).is_err(), "{argument}");
    }
    assert!(Bench::try_new(".:53 {\n cancel\n}").is_ok());
}
