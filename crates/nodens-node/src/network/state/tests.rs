use super::*;
use crate::network::Backend;
use crate::network::link::Owner;
use crate::network::netlink::testing::{Answer, end, kernel, refusal};
use std::fs::File;

const NEWLINK: u16 = 16;
const NEWADDR: u16 = 20;
const UP: u32 = 1;
const INDEX: u32 = 7;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = (4 + value.len()) as u16;
    let mut octets = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

fn link() -> Answer {
    let head = [0, INDEX, UP, 0].map(u32::to_ne_bytes);
    let name = attribute(3, b"nodelocaldns\0");
    (NEWLINK, 0, [head.as_flattened(), &name, &attribute(18, &attribute(1, b"tun\0"))].concat())
}

fn address() -> Answer {
    let head = [&[2, 32, 0, 0][..], &INDEX.to_ne_bytes()].concat();
    (NEWADDR, 0, [head, attribute(2, &[169, 254, 20, 10])].concat())
}

#[test]
fn a_link_outlives_a_moment_in_which_its_addresses_cannot_be_seen() {
    let plan = Plan {
        interface: "nodelocaldns".to_owned(),
        addresses: vec!["169.254.20.10".parse().unwrap()],
        dns_port: 53,
        health_port: 8080,
        setup_interface: true,
        setup_rules: false,
        backend: Backend::Auto,
        sync: Duration::from_secs(60),
    };
    let failure = || vec![refusal(5)];
    let (socket, asked) = kernel(vec![
        vec![link(), end(0)],
        failure(),
        failure(),
        vec![link(), end(0)],
        vec![address(), end(0)],
    ]);
    let words = Words::new(Box::new(|_, _| {}));
    let mut state =
        State::new(plan, Descriptors::new(), Arc::default(), Interrupt::default(), words);
    let descriptor = File::open("/dev/null").unwrap().into();
    state.link = Some(Held { index: INDEX, owner: Owner::Descriptor(descriptor) });
    state.route = Some(Route::of(socket));
    (state.powerless, state.wanted) = (false, Wanted::All);
    assert!(!state.reconcile(true));
    assert!(state.link.is_some(), "its descriptor is what the link lives by");
    assert!(state.reconcile(true));
    drop(state);
    assert_eq!(asked.join().unwrap().len(), 5);
}
