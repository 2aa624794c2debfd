//! How long the state lives, and who answers meanwhile.

use crate::fixture::{
    Cluster, Holder, KUBE_PROXY, Namespace, SERVICE, alone, eventually, gone, has, kube_proxy_of,
    plan, serve, sh,
};
use nodens_node::network::{Backend, Network};

const V4: &str = "169.254.20.10";

/// What makes the device for TUN links useless for a program and all that it starts.
const NO_TUN: &str =
    "exec unshare --mount sh -ec 'mount --bind /dev/null /dev/net/tun; exec \"$@\"' sh \"$@\"";

#[test]
fn queries_come_here_until_the_process_dies() {
    for (rules, backend) in [
        (KUBE_PROXY.to_owned(), "nftables"),
        (kube_proxy_of("iptables-nft"), "iptables-nft"),
        (kube_proxy_of("iptables-legacy"), "iptables-legacy"),
    ] {
        let cluster = Cluster::new(&rules);
        assert_eq!(cluster.who(), "central", "{backend}: before");
        let mut holder = cluster.node.run(|| {
            serve(SERVICE, "node");
            Holder::start("auto", &[V4, SERVICE])
        });
        assert_eq!(cluster.who(), "central", "{backend}: while it starts");
        assert!(holder.tell("attract"), "{:?}", holder.said);
        assert_eq!(cluster.who(), "node", "{backend}: while it runs");
        holder.kill();
        let took = eventually("the central server answers", || cluster.who() == "central");
        eprintln!("{backend}: the central server answers {took:?} after SIGKILL");
        let mut successor = cluster.node.run(|| Holder::start("auto", &[V4, SERVICE]));
        assert!(successor.tell("attract"), "{:?}", successor.said);
        assert_eq!(cluster.who(), "node", "{backend}: with a successor");
        assert!(!successor.tell("back"));
        assert_eq!(cluster.who(), "central", "{backend}: left to others");
        assert!(
            cluster.node.run(|| has(V4) && !has(SERVICE)),
            "{backend}: what is the node's stays"
        );
        assert!(successor.tell("attract"), "{:?}", successor.said);
        assert_eq!(cluster.who(), "node", "{backend}: come back");
        let said = successor.said.join("\n");
        assert!(!said.contains("Added"), "{backend}: nobody else took anything away: {said}");
        assert!(!successor.tell("withdraw"));
        assert_eq!(cluster.who(), "central", "{backend}: withdrawn");
        successor.tell("release");
        successor.quit();
        assert_eq!(cluster.who(), "central", "{backend}: after the end");
    }
}

#[test]
fn nothing_is_left_after_sigkill() {
    let mut slowest = std::time::Duration::ZERO;
    for _ in 0..20 {
        alone(|| {
            let mut holder = Holder::start("nftables", &[V4, SERVICE, "fd00:ec2::10"]);
            assert!(holder.tell("attract"), "{:?}", holder.said);
            assert!(has(V4) && has("fd00:ec2::10"));
            holder.kill();
            let took = eventually("link and table are gone", || {
                !sh("ip link").contains("nodelocaldns") && sh("nft list tables").is_empty()
            });
            slowest = slowest.max(took);
        });
    }
    eprintln!("link and table are gone at most {slowest:?} after SIGKILL");
}

#[test]
fn without_tun_links_addresses_end_with_their_lease() {
    alone(|| {
        let mut holder = Holder::start_in(NO_TUN, "nftables", &[V4, "fd00:ec2::10"]);
        assert!(holder.tell("attract"), "{:?}", holder.said);
        let said = holder.said.join("\n");
        assert!(said.contains("no TUN link: ") && said.contains("whose addresses end"), "{said}");
        std::thread::sleep(std::time::Duration::from_secs(4));
        assert!(has(V4) && has("fd00:ec2::10"), "they are renewed");
        holder.kill();
        let took = eventually("the addresses are gone", || !has(V4) && !has("fd00:ec2::10"));
        eprintln!("the addresses are gone {took:?} after SIGKILL");
        let mut successor = Holder::start("nftables", &[V4]);
        assert!(successor.tell("attract"), "{:?}", successor.said);
        assert!(sh("ip -d link show nodelocaldns").contains("tun type tun"));
    });
}

#[test]
fn a_successor_goes_on_with_the_same_link() {
    alone(|| {
        let old = Network::open(plan(Backend::Nftables, &[V4, SERVICE]), None, |_, _| {});
        old.attract();
        // Its number: what else is shown of a link follows some time later.
        let number = || sh("ip -o link show nodelocaldns | cut -d: -f1");
        let before = number();
        let descriptors = old.descriptors().unwrap();
        assert_eq!(descriptors.len(), 2);
        let other = plan(Backend::Nftables, &[V4, "fd00:ec2::10"]);
        let new = Network::open(other, Some(descriptors), |_, text| eprintln!("{text}"));
        assert!(old.attracting() && !new.attracting());
        new.attract();
        assert!(new.attracting());
        old.abandon();
        // The old one may have put back meanwhile what was its own.
        new.attract();
        assert_eq!(number(), before);
        assert!(has(V4) && has("fd00:ec2::10") && !has(SERVICE));
        assert_eq!(sh("nft list table inet nodelocaldns").matches(V4).count(), 12);
        drop(old);
        assert!(has(V4) && new.attracting());
        drop(new);
        gone();
    });
}

#[test]
fn a_predecessor_goes_on_when_its_successor_dies() {
    alone(|| {
        let old = Network::open(plan(Backend::Nftables, &[V4]), None, |_, _| {});
        old.attract();
        let descriptors = old.descriptors().unwrap();
        drop(Network::open(plan(Backend::Nftables, &[V4]), Some(descriptors), |_, _| {}));
        assert!(has(V4) && old.attracting());
        sh("ip link delete nodelocaldns");
        eventually("the link is back", || has(V4));
        eventually("it is counted", || old.counts().addresses_put_back > 0);
        // Of a link made anew there is another descriptor.
        drop(old);
        gone();
    });
}

#[test]
fn a_full_connection_table_concerns_no_question() {
    let cluster = Cluster::new(KUBE_PROXY);
    assert_eq!(cluster.who(), "central");
    let mut holder = cluster.node.run(|| {
        serve(SERVICE, "node");
        // What the kernel does when the table is full: whatever would be a new entry is dropped.
        sh("nft -f - <<EOF
table ip full {
  chain prerouting {
    type filter hook prerouting priority -150;
    ct state new drop
  }
}
EOF");
        Holder::start("nftables", &[SERVICE])
    });
    assert_eq!(cluster.one_question(), None);
    assert!(holder.tell("attract"), "{:?}", holder.said);
    assert_eq!(cluster.who(), "node");
}

#[test]
fn two_nodes_do_not_know_of_each_other() {
    let (one, two) = (Namespace::new(), Namespace::new());
    let open = || {
        let network = Network::open(plan(Backend::Nftables, &[V4]), None, |_, _| {});
        network.attract();
        network
    };
    let (first, second) = (one.run(open), two.run(open));
    assert!(first.attracting() && second.attracting());
    drop(first);
    one.run(gone);
    assert!(two.run(|| has(V4)));
}
