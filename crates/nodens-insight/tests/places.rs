//! Whose an address is, as processes of this host tell it. Needs root and network namespaces.

use nodens_insight::{Place, look};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_processes_of_a_network_namespace_say_who_has_its_address() {
    let script = "ip link set lo up && ip addr add 10.77.7.7/32 dev lo \
        && ip addr add fd77::7/128 dev lo && echo up && read never";
    let mut pod = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOSTNAME", "db-7c9f")
        .env("POD_NAMESPACE", "shop")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare (util-linux) starts");
    let mut line = String::new();
    let mut said = BufReader::new(pod.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n", "no network namespace of our own: run the tests as root");
    let addresses: [IpAddr; 3] =
        ["10.77.7.7", "fd77::7", "10.77.7.8"].map(|text| text.parse().expect("an address"));
    let known = look(Path::new("/proc"));
    let found = addresses.map(|address| known.get(&address).cloned());
    drop(pod.stdin.take());
    pod.wait().expect("the pod ends");
    let place = Some(Place { namespace: "shop".to_owned(), pod: "db-7c9f".to_owned() });
    assert_eq!(found, [place.clone(), place, None]);
}
