//! The directive as a server sees it.

use crate::testing::Bench;
use std::time::Duration;

#[test]
fn an_answer_is_served_again_with_its_age_taken_off() {
    let mut bench = Bench::new(".:53 {\n cache 30 {\n  success 5000 30 20\n }\n whoami\n}");
    let first = bench.ask("Example.org. A");
    bench.client.peer = ([192, 0, 2, 99], 1).into();
    bench.pass(Duration::from_millis(7999));
    let second = bench.ask("eXample.org. A");
    // whoami's TTL is 0, the least is 20; the address is the one of who asked first.
    assert_eq!((first.additional[0].ttl, second.additional[0].ttl), (20, 13));
    assert_eq!(second.additional[0].rdata, [192, 0, 2, 53]);
    assert_eq!(second.questions[0].qname.view().as_wire(), b"\x07eXample\x03org\0");
}
