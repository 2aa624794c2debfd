//! Pods of an update, which follow each other on a node.

use super::place::{Place, UPSTREAM};
use super::{CLUSTER_DNS, WEB, arguments};
use crate::fixture::{Folder, Server, eventually, nodens};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const ANSWER: Duration = Duration::from_secs(60);

/// A pod of the node role, with the arguments of the others.
fn pod(place: &Place, arguments: &[String], what: &str) -> Server {
    let mut command = place.command("env");
    command.arg("KUBERNETES_SERVICE_HOST=192.0.2.99").arg(nodens().get_program()).args(arguments);
    command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", UPSTREAM);
    Server::run(command, Folder::new(what), SocketAddr::from(([127, 0, 0, 1], 53)))
}

/// As [`pod`], where links that end with a process cannot be made.
fn pod_without_tun(place: &Place, arguments: &[String], what: &str) -> Server {
    let without = "mount --bind /dev/null /dev/net/tun; exec \"$@\"";
    let mut command = place.command("unshare");
    command.args(["--mount", "sh", "-ec", without, "sh", "env"]);
    command.arg("KUBERNETES_SERVICE_HOST=192.0.2.99").arg(nodens().get_program()).args(arguments);
    command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", UPSTREAM);
    Server::run(command, Folder::new(what), SocketAddr::from(([127, 0, 0, 1], 53)))
}

/// The number of the link; a link that is made anew has another.
fn link(place: &Place) -> String {
    let link = place.ip("-o link show nodelocaldns");
    link.split(':').next().unwrap_or_default().to_owned()
}

fn answers(place: &Place) {
    eventually("an answer", || {
        place.ask(CLUSTER_DNS, WEB).is_some_and(|answer| answer.answer.len() == 1)
    });
}

#[test]
fn pods_follow_each_other_and_the_network_stays_with_whoever_serves() {
    let place = Place::new();
    let upstream = place.start_upstream("node-update-upstream");
    let folder = Folder::new("node-update");
    let mut arguments = arguments(&folder);
    arguments.extend(["-handover-trial", "10ms"].map(str::to_owned));
    let first = pod(&place, &arguments, "node-update-1");
    answers(&place);
    let before = link(&place);

    // A successor that cannot answer does not take over.
    assert!(upstream.end("-TERM").success());
    let second = pod(&place, &arguments, "node-update-2");
    second.wait_long_for("taking over from process", ANSWER);
    second.wait_long_for("waiting until an upstream answers", ANSWER);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(second.count_seen("ready, taking over"), 0);
    let upstream = place.start_upstream("node-update-upstream-2");
    second.wait_long_for("the process that ran before is gone", ANSWER);
    first.wait_long_for("idle until told to end, or until no process serves as", ANSWER);
    assert_eq!(link(&place), before);
    answers(&place);

    // The end of the one before changes nothing.
    assert!(first.end("-TERM").success());
    assert_eq!(link(&place), before);
    answers(&place);

    // A successor that crashes takes link and rules with it, until the one before is back.
    let third = pod(&place, &arguments, "node-update-3");
    third.wait_long_for("the process that ran before is gone", ANSWER);
    second.wait_long_for("idle until told to end, or until no process serves as", ANSWER);
    assert_eq!(link(&place), before);
    assert!(!third.end("-KILL").success());
    second.wait_long_for("the serving process is gone, taking over again", ANSWER);
    eventually("a link", || place.ip("link").contains("nodelocaldns"));
    answers(&place);

    // By signal too.
    let before = link(&place);
    second.signal("-USR2");
    second.wait_long_for("the process that ran before is gone", ANSWER);
    assert_eq!(link(&place), before);
    answers(&place);
    assert!(second.end("-TERM").success());
    assert!(!place.ip("link").contains("nodelocaldns"), "the link is gone");
    assert!(upstream.end("-TERM").success());
}

#[test]
fn a_successor_that_asks_the_central_servers_elsewhere_has_the_answers_of_its_predecessor() {
    let place = Place::new();
    let _upstream = place.start_upstream("node-warm-upstream");
    let folders = [1, 2].map(|number| Folder::new(&format!("node-warm-{number}")));
    let [mut first, mut second] = folders.each_ref().map(arguments);
    // As before the API server has told it who is behind the address.
    first.extend(["-upstreamsvc", UPSTREAM].map(str::to_owned));
    second.extend(["-upstreamsvc", &format!("{UPSTREAM}:53")].map(str::to_owned));
    let first = pod(&place, &first, "node-warm-pod-1");
    answers(&place);
    let second = pod(&place, &second, "node-warm-pod-2");
    let line = second.wait_long_for("answers of the running process are in the cache", ANSWER);
    assert!(!line.contains(": 0 answers"), "{line}");
    second.wait_long_for("the process that ran before is gone", ANSWER);
    answers(&place);
    // That the predecessor had the socket of `nodens top` meanwhile is nothing to be warned of.
    assert_eq!(second.count_seen("plugin/top"), 0);
    assert!(first.end("-TERM").success() && second.end("-TERM").success());
}

#[test]
fn without_tun_links_the_addresses_stay_with_whoever_serves_too() {
    let place = Place::new();
    let _upstream = place.start_upstream("node-leased-upstream");
    let folder = Folder::new("node-leased");
    let mut arguments = arguments(&folder);
    arguments.extend(["-handover-trial", "500ms"].map(str::to_owned));
    let first = pod_without_tun(&place, &arguments, "node-leased-1");
    first.wait_long_for("whose addresses end 2 to 3 s after it", ANSWER);
    let before = link(&place);
    let second = pod_without_tun(&place, &arguments, "node-leased-2");
    second.wait_long_for("the process that ran before is gone", ANSWER);
    first.wait_long_for("idle until told to end, or until no process serves as", ANSWER);
    assert_eq!(link(&place), before, "the link was not made anew");
    for pod in [&first, &second] {
        assert_eq!(pod.count_seen("Added interface"), 0, "neither quarrels with the other");
    }
    assert!(first.end("-TERM").success());
    // Longer than the lease.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(link(&place), before);
    eventually("they are renewed", || place.ip("address").contains(CLUSTER_DNS));
    answers(&place);
    assert!(second.end("-TERM").success());
    assert!(!place.ip("link").contains("nodelocaldns"), "the link is gone");
}

/// A port of loopback that a server block wants which only a successor has.
const TAKEN: &str = "127.0.0.1:5300";

/// A first pod that serves, and the arguments of a second one with a block at [`TAKEN`].
fn before_a_new_block(place: &Place, what: &str, folders: &[Folder; 2]) -> (Server, Vec<String>) {
    let [first, second] = folders.each_ref().map(arguments);
    let pod = pod(place, &first, &format!("{what}-1"));
    answers(place);
    let base = folders[1].0.join("Corefile.base");
    let block = "other.test:5300 {\n    bind 127.0.0.1\n    whoami\n}\n";
    let text = std::fs::read_to_string(&base).unwrap();
    std::fs::write(base, text + block).unwrap();
    (pod, second)
}

/// Asks from so many ports that each socket of the node's address gets some queries.
fn all_are_answered(place: &Place, when: &str) {
    for number in 0..40 {
        let answer = place.ask(CLUSTER_DNS, WEB);
        assert!(answer.is_some_and(|answer| answer.answer.len() == 1), "{when}: query {number}");
    }
}

#[test]
fn a_successor_that_tries_again_for_a_port_keeps_the_sockets_that_it_was_given() {
    let place = Place::new();
    let _upstream = place.start_upstream("node-retry-upstream");
    let folders = [1, 2].map(|number| Folder::new(&format!("node-retry-{number}")));
    let (first, mut second) = before_a_new_block(&place, "node-retry-pod", &folders);
    let taken = place.inside(|| UdpSocket::bind(TAKEN).unwrap());
    second.extend(["-handover-trial", "5s"].map(str::to_owned));
    let second = pod(&place, &second, "node-retry-pod-2");
    second.wait_long_for("bind: address already in use", ANSWER);
    // Several attempts.
    std::thread::sleep(Duration::from_secs(3));
    all_are_answered(&place, "while it tries");
    drop(taken);
    second.wait_long_for("ready, taking over", ANSWER);
    // Sockets of its own beside those would get a share of the queries, and not be read yet.
    all_are_answered(&place, "during the trial");
    second.wait_long_for("the process that ran before is gone", ANSWER);
    all_are_answered(&place, "afterwards");
    assert!(first.end("-TERM").success() && second.end("-TERM").success());
}

#[test]
fn a_successor_that_waits_on_a_node_lets_go_of_the_sockets_when_its_predecessor_dies() {
    for waits_for in ["port", "service"] {
        let place = Place::new();
        let what = format!("node-alone-{waits_for}");
        let _upstream = place.start_upstream(&format!("{what}-upstream"));
        let folders = [1, 2].map(|number| Folder::new(&format!("{what}-{number}")));
        let (first, second) = before_a_new_block(&place, &what, &folders);
        let taken = place.inside(|| UdpSocket::bind(TAKEN).unwrap());
        let second = if waits_for == "port" {
            let second = pod(&place, &second, &format!("{what}-pod-2"));
            second.wait_long_for("bind: address already in use", ANSWER);
            second
        } else {
            // No address of the upstream service is known to it.
            let mut command = place.command(nodens().get_program());
            command.args(&second);
            let folder = Folder::new(&format!("{what}-pod-2"));
            let second = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], 53)));
            second.wait_long_for("waiting for the address of the upstream service", ANSWER);
            second
        };
        let table = || place.inside(|| std::fs::read_to_string("/proc/thread-self/net/udp"));
        // 10.96.0.10:53, as the kernel writes it.
        let has_sockets = || table().unwrap().contains(" 0A00600A:0035 ");
        assert!(has_sockets());
        assert!(!first.end("-KILL").success());
        second.wait_long_for("the process that ran before ended early", ANSWER);
        // A process that is killed closes what it had one after the other.
        eventually(&format!("{waits_for}: sockets are closed"), || !has_sockets());
        drop(taken);
        if waits_for == "port" {
            answers(&place);
        }
        assert!(second.end("-TERM").success());
    }
}
