use crate::testing::Bench;

#[test]
fn the_client_learns_its_address_and_port() {
    let mut bench = Bench::new(".:53 {\n whoami\n}");
    let answer = bench.ask("Example.org. A");
    assert!(answer.answer.is_empty());
    assert_eq!(answer.additional[0].owner.to_string(), "Example.org.");
    assert_eq!(answer.additional[0].rdata, [192, 0, 2, 53]);
    assert_eq!(answer.additional[1].owner.to_string(), "_udp.Example.org.");
}

#[test]
fn arguments_are_refused() {
    let error = Bench::try_new(".:53 {\n whoami now\n}").unwrap_err();
    assert!(error.to_string().starts_with("Corefile:2:"), "{error}");
}
