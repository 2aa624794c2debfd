use crate::config::{BuildOptions, Config, build};
use crate::log::Sink;
use crate::shared::Shared;
use nodens_corefile::{Error, NoSources, parse};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

fn compile(corefile: &str) -> Result<Config, Error> {
    let (sender, _log) = std::sync::mpsc::sync_channel(16);
    let shared = Arc::new(Shared::new(1, Sink::new(sender)));
    let lo = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    let eth0 = ["192.0.2.1", "2001:db8::1", "fe80::1"].map(|ip| ip.parse().unwrap()).to_vec();
    let interfaces = HashMap::from([("lo".to_owned(), lo), ("eth0".to_owned(), eth0)]);
    let options = BuildOptions { interfaces, ..BuildOptions::default() };
    build(&parse("Corefile", corefile, &NoSources)?, &options, &shared)
}

fn listeners(corefile: &str) -> Vec<String> {
    let config = compile(corefile).unwrap_or_else(|error| panic!("{error}"));
    let address = |address: &SocketAddr| address.to_string();
    config.listeners.iter().map(|listener| address(&listener.address)).collect()
}

#[test]
fn addresses_and_interfaces_become_listeners() {
    let both = listeners(".:1053 {\n bind 192.0.2.7 lo\n bind 2001:db8::7\n whoami\n}");
    assert_eq!(both, ["192.0.2.7:1053", "127.0.0.1:1053", "[::1]:1053", "[2001:db8::7]:1053"]);
    assert_eq!(listeners(".:1053 {\n whoami\n}"), ["[::]:1053"]);
}

#[test]
fn all_addresses_of_ipv4_are_all_addresses_unless_others_have_those_of_ipv6() {
    assert_eq!(listeners(".:1053 {\n bind 0.0.0.0\n whoami\n}"), ["[::]:1053"]);
    let beside = ".:1053 {\n bind 0.0.0.0\n whoami\n}\n.:1054 {\n bind 0.0.0.0 ::\n whoami\n}";
    assert_eq!(listeners(beside), ["[::]:1053", "0.0.0.0:1054", "[::]:1054"]);
    let label = |text| compile(text).unwrap().servers[0].label.clone();
    assert_eq!(label(".:1053 {\n bind 0.0.0.0\n whoami\n}"), "dns://0.0.0.0:1053");
}

#[test]
fn link_local_addresses_of_an_interface_are_left_out() {
    assert_eq!(listeners(". {\n bind eth0\n whoami\n}"), ["192.0.2.1:53", "[2001:db8::1]:53"]);
}

#[test]
fn except_takes_addresses_out_of_the_same_line() {
    let text = ". {\n bind lo 192.0.2.7 {\n except ::1\n }\n bind ::2 {\n except 192.0.2.7\n }\n whoami\n}";
    assert_eq!(listeners(text), ["127.0.0.1:53", "192.0.2.7:53", "[::2]:53"]);
}

#[test]
fn what_cannot_be_bound_is_named_with_its_place() {
    let cases = [
        ("bind", "2:2: at least one address or interface name is expected"),
        ("bind eth7", "2:7: not a valid IP address or interface name: \"eth7\""),
        ("bind fe80::1%eth0", "2:7: not a valid IP address"),
        ("bind 10.0.0.0/8", "2:7: not a valid IP address"),
        ("bind lo {\n except\n }", "3:2: at least one address or interface name is expected"),
        ("bind lo {\n without ::1\n }", "3:2: unknown property 'without'"),
        ("bind lo {\n except lo\n }", "2:2: expected at least one address to be left"),
        ("bind lo 127.0.0.1", "cannot serve dns://.:53 on 127.0.0.1 - it is already defined"),
    ];
    for (line, wanted) in cases {
        let error = compile(&format!(". {{\n {line}\n whoami\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
