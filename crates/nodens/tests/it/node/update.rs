//! Pods of an update, which follow each other on a node.

use super::place::{Place, UPSTREAM};
use super::{CLUSTER_DNS, WEB, arguments};
use crate::fixture::{Folder, Server, eventually, nodens};
use std::net::SocketAddr;
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
    first.wait_long_for("idle until told to end, or until nobody serves as", ANSWER);
    assert_eq!(link(&place), before);
    answers(&place);

    // The end of the one before changes nothing.
    assert!(first.end("-TERM").success());
    assert_eq!(link(&place), before);
    answers(&place);

    // A successor that crashes takes link and rules with it, until the one before is back.
    let third = pod(&place, &arguments, "node-update-3");
    third.wait_long_for("the process that ran before is gone", ANSWER);
    second.wait_long_for("idle until told to end, or until nobody serves as", ANSWER);
    assert_eq!(link(&place), before);
    assert!(!third.end("-KILL").success());
    second.wait_long_for("nobody serves any more, starting again", ANSWER);
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
    first.wait_long_for("idle until told to end, or until nobody serves as", ANSWER);
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
