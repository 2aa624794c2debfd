//! What is missing or in the way: one clear message, and the best that is possible.

use crate::fixture::{Holder, SERVICE, alone, eventually, has, plan, sh};
use nodens_node::network::{Backend, Level, Network, Plan};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const V4: &str = "169.254.20.10";

type Said = Arc<Mutex<Vec<(Level, String)>>>;

fn open(plan: Plan) -> (Network, Said) {
    let said = Said::default();
    let all = Arc::clone(&said);
    let say = move |level, text: &str| all.lock().unwrap().push((level, text.to_owned()));
    (Network::open(plan, None, say), said)
}

/// The one thing said of this level.
fn only(said: &Said, level: Level) -> String {
    let said = said.lock().unwrap();
    let texts: Vec<&String> = said.iter().filter(|(l, _)| *l == level).map(|(_, t)| t).collect();
    assert_eq!(texts.len(), 1, "{said:?}");
    texts[0].clone()
}

#[test]
fn without_the_capability_it_is_said_once() {
    alone(|| {
        let script = "exec setpriv --bounding-set -net_admin --inh-caps -net_admin \"$@\"";
        let mut holder = Holder::start_in(script, "auto", &[V4]);
        assert!(!holder.tell("attract"));
        assert!(!holder.tell("attract"));
        let errors: Vec<&String> =
            holder.said.iter().filter(|line| line.starts_with("Error")).collect();
        assert_eq!(errors.len(), 1, "{:?}", holder.said);
        assert!(errors[0].contains("add the capability NET_ADMIN"), "{errors:?}");
        // Somebody else may have brought the queries here.
        sh(&format!("ip addr add {V4}/32 dev lo"));
        assert!(holder.tell("attract"));
        holder.tell("withdraw");
        holder.tell("release");
        holder.quit();
    });
}

#[test]
fn a_container_without_the_device_makes_it() {
    let script = "exec unshare --mount sh -ec 'mount -t tmpfs none /dev; exec \"$@\"' sh \"$@\"";
    alone(|| {
        let mut holder = Holder::start_in(script, "auto", &[V4]);
        assert!(holder.tell("attract"));
        let said = holder.said.join("\n");
        assert!(said.contains("link nodelocaldns (tun), which ends with this process"), "{said}");
    });
    let without = script.replace("exec \"$@\"'", "exec setpriv --bounding-set -mknod \"$@\"'");
    alone(|| {
        let mut holder = Holder::start_in(&without, "auto", &[V4]);
        assert!(holder.tell("attract"));
        let said = holder.said.join("\n");
        let why = "no TUN link: no /dev/net/tun, and none can be made: operation not permitted";
        assert!(said.contains(why), "{said}");
        assert!(has(V4));
    });
}

#[test]
fn an_address_of_another_link_is_said_and_served() {
    alone(|| {
        sh(&format!("ip link add kube-ipvs0 type bridge; ip addr add {V4}/32 dev kube-ipvs0"));
        let (network, said) = open(plan(Backend::Auto, &[V4]));
        network.attract();
        assert!(network.attracting());
        let text = only(&said, Level::Warning);
        assert!(text.contains(V4) && text.contains("kube-ipvs0"), "{text}");
        network.withdraw();
        assert_eq!(sh("ip -o addr show").matches(V4).count(), 1);
    });
}

#[test]
fn addresses_of_several_links_are_said_once_and_again_when_they_come_back() {
    alone(|| {
        let other = "169.254.20.11";
        let come = || {
            for ip in [V4, other] {
                sh(&format!("ip addr add {ip}/32 dev kube-ipvs0"));
            }
        };
        sh("ip link add kube-ipvs0 type bridge");
        come();
        let (network, said) = open(plan(Backend::Auto, &[V4, other]));
        network.attract();
        network.attract();
        let text = only(&said, Level::Warning);
        assert!(text.contains(V4) && text.contains(other), "{text}");
        sh("ip addr flush dev kube-ipvs0");
        network.attract();
        said.lock().unwrap().clear();
        come();
        eventually("it is said again", || {
            let said = said.lock().unwrap();
            said.iter().any(|(_, text)| text.contains(V4) && text.contains(other))
        });
    });
}

/// Puts a program `PROGRAM` in front of everything else that is called so. It runs `BODY`.
fn with_program(program: &str, body: &str, then: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(program);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    sh(&format!("chmod +x {}", path.display()));
    let script = format!("export PATH={}:$PATH; {then}", folder.path().display());
    (folder, script)
}

#[test]
fn rules_of_which_some_could_not_be_made_go_when_it_ends() {
    alone(|| {
        let body = "echo no such table >&2; exit 1";
        let (_folder, script) = with_program("ip6tables-nft-restore", body, "exec \"$@\"");
        let mut holder = Holder::start_in(&script, "iptables-nft", &[V4, "fd00:ec2::10"]);
        holder.tell("attract");
        let said = holder.said.join("\n");
        assert!(said.contains("cannot set up the packet filter's rules"), "{said}");
        let rules = || sh("iptables-nft-save").matches("NodeLocal DNS Cache").count();
        assert_eq!(rules(), 12);
        holder.tell("withdraw");
        holder.tell("release");
        assert_eq!(rules(), 0, "{:?}", holder.said);
        holder.quit();
    });
}

#[test]
fn an_address_with_a_lease_is_renewed_without_running_programs() {
    alone(|| {
        let without = "exec unshare --mount sh -ec 'mount -t tmpfs none /dev; \
                       exec setpriv --bounding-set -mknod \"$@\"' sh \"$@\"";
        let real = sh("command -v iptables-nft-save");
        let body = format!("echo run >> ${{0%/*}}/runs; exec {} \"$@\"", real.trim());
        let (folder, script) = with_program("iptables-nft-save", &body, without);
        let mut holder = Holder::start_in(&script, "iptables-nft", &[V4]);
        assert!(holder.tell("attract"), "{:?}", holder.said);
        let runs = || {
            let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
            runs.lines().count()
        };
        assert!(
            holder.said.join("\n").contains("whose addresses end 2 to 3 s"),
            "{:?}",
            holder.said
        );
        // What comes in the wake of the first look.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let before = runs();
        assert!(before > 0);
        std::thread::sleep(std::time::Duration::from_secs(6));
        assert!(runs() <= before + 4, "{before} runs, then {}", runs());
        eventually("the address is there", || has(V4));
        holder.quit();
    });
}

/// The script for a holder whose `iptables-nft-save` hangs once there is a file `hang` in the
/// folder; then there is a file `hangs`.
fn hanging(then: &str) -> (tempfile::TempDir, String) {
    let real = sh("command -v iptables-nft-save");
    let body = format!(
        "cd ${{0%/*}}; [ -e hang ] && : > hangs && exec sleep 60; exec {} \"$@\"",
        real.trim()
    );
    with_program("iptables-nft-save", &body, then)
}

/// Makes the holder's program hang.
fn hang(folder: &tempfile::TempDir) {
    std::fs::write(folder.path().join("hang"), "").unwrap();
    sh("iptables-nft -t raw -F");
    eventually("the program hangs", || folder.path().join("hangs").exists());
}

#[test]
fn an_address_with_a_lease_stays_while_a_program_hangs() {
    alone(|| {
        let without = "exec unshare --mount sh -ec 'mount --bind /dev/null /dev/net/tun; \
                       exec \"$@\"' sh \"$@\"";
        let (folder, script) = hanging(without);
        let mut holder = Holder::start_in(&script, "iptables-nft", &[V4, SERVICE]);
        assert!(holder.tell("attract"), "{:?}", holder.said);
        hang(&folder);
        // Longer than the lease, and not as long as the program may take. For moments they may be
        // gone where a machine has no time for anybody.
        std::thread::sleep(Duration::from_secs(4));
        let there = (0..60).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            has(V4) && has(SERVICE)
        });
        assert!(there, "{:?}", holder.said);
        holder.quit();
    });
}

#[test]
fn giving_questions_up_does_not_wait_for_a_program_that_hangs() {
    for command in ["back", "withdraw"] {
        alone(|| {
            let (folder, script) = hanging("exec \"$@\"");
            let mut holder = Holder::start_in(&script, "iptables-nft", &[V4, SERVICE]);
            assert!(holder.tell("attract"), "{:?}", holder.said);
            hang(&folder);
            let told = Instant::now();
            assert!(!holder.tell(command));
            assert!(told.elapsed() < Duration::from_secs(5), "{command}: {:?}", told.elapsed());
            assert!(!has(SERVICE), "{command}");
            assert_eq!(has(V4), command == "back");
            // What was in the way is gone: nothing is left.
            std::fs::remove_file(folder.path().join("hang")).unwrap();
            holder.tell("withdraw");
            holder.tell("release");
            assert!(!sh("iptables-nft-save").contains("NodeLocal DNS Cache"), "{command}");
            assert!(!holder.said.join("\n").contains("cannot"), "{:?}", holder.said);
            holder.quit();
        });
    }
}

#[test]
fn a_name_that_is_taken_is_said_and_tried_again() {
    alone(|| {
        sh("ip link add nodelocaldns type veth peer name other");
        let (network, said) = open(plan(Backend::Auto, &[V4]));
        network.attract();
        assert!(!network.attracting());
        let text = only(&said, Level::Error);
        assert!(text.contains("there is a link nodelocaldns already, a veth"), "{text}");
        assert!(network.counts().interface_errors > 0);
        sh("ip link delete nodelocaldns");
        eventually("questions come here", || network.attracting());
        assert!(has(V4));
    });
}

#[test]
fn a_bridge_with_ports_is_nobody_s_leftover() {
    alone(|| {
        sh("ip link add nodelocaldns type bridge
            ip link add port type veth peer name pod
            ip link set port master nodelocaldns");
        let (network, said) = open(plan(Backend::Auto, &[V4]));
        network.attract();
        assert!(!network.attracting());
        let text = only(&said, Level::Error);
        assert!(
            text.contains("there is a link nodelocaldns already, a bridge with ports"),
            "{text}"
        );
        assert!(sh("ip link show port").contains("master nodelocaldns"));
    });
}

#[test]
fn a_link_of_a_running_process_is_left_alone_until_that_ends() {
    alone(|| {
        let mut other = Holder::start("nftables", &[V4]);
        assert!(other.tell("attract"));
        let (network, said) = open(plan(Backend::Nftables, &[V4]));
        network.attract();
        let errors = said.lock().unwrap().clone();
        let all = format!("{errors:?}");
        assert!(all.contains("the link nodelocaldns belongs to another process"), "{all}");
        assert!(all.contains("the table inet nodelocaldns belongs to another process"), "{all}");
        other.kill();
        let back = || has(V4) && sh("nft list tables").contains("nodelocaldns");
        eventually("link and table are ours", back);
        eventually("it says so", || network.attracting());
    });
}

#[test]
fn without_iptables_there_is_still_a_table() {
    let script =
        "exec unshare --mount sh -ec 'mount -t tmpfs none /usr/sbin; exec \"$@\"' sh \"$@\"";
    for flavour in ["iptables-legacy", "iptables-nft"] {
        alone(|| {
            sh(&format!("{flavour} -t nat -N KUBE-SERVICES"));
            let mut holder = Holder::start_in(script, "auto", &[V4]);
            assert!(holder.tell("attract"), "{:?}", holder.said);
            let said = holder.said.join("\n");
            let why = format!("kube-proxy uses {flavour}, but there is no program {flavour} here");
            assert!(said.contains("table inet nodelocaldns") && said.contains(&why), "{said}");
            let mut strict = Holder::start_in(script, flavour, &["169.254.20.11"]);
            strict.tell("attract");
            let said = strict.said.join("\n");
            assert!(
                said.contains("Error: no rules: as configured, but there is no program"),
                "{said}"
            );
        });
    }
}

#[test]
fn a_firewall_that_drops_what_it_does_not_know_is_pointed_out() {
    alone(|| {
        sh(
            "nft 'add table inet wall; add chain inet wall in { type filter hook input priority 0; policy drop; }'",
        );
        let (network, said) = open(plan(Backend::Nftables, &[V4]));
        network.attract();
        let text = only(&said, Level::Warning);
        assert!(text.contains("chain in of table wall") && text.contains("port 53"), "{text}");
    });
}

#[test]
fn ipv6_that_is_disabled_takes_nothing_from_ipv4() {
    alone(|| {
        sh("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
            echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        let (network, said) = open(plan(Backend::Nftables, &[V4, "fd00:ec2::10"]));
        network.attract();
        assert!(has(V4) && network.attracting());
        let text = only(&said, Level::Error);
        assert!(text.contains("IPv6 is disabled on this machine"), "{text}");
    });
}

#[test]
fn nothing_is_made_that_was_not_asked_for() {
    alone(|| {
        let wanted =
            Plan { setup_interface: false, setup_rules: false, ..plan(Backend::Auto, &[V4]) };
        let (network, said) = open(wanted);
        network.attract();
        assert!(network.attracting());
        assert!(!has(V4) && sh("nft list tables").is_empty());
        assert!(said.lock().unwrap().iter().all(|(level, _)| *level == Level::Info), "{said:?}");
    });
}
