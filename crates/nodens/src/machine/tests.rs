use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A tree with these files.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, path: &str, text: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    fn link(self, path: &str, to: &str) -> Self {
        symlink(to, self.0.path().join(path)).unwrap();
        self
    }

    /// An interface with these masks of its receive queues, and interrupts that go to these CPUs.
    fn interface(mut self, name: &str, masks: &[&str], interrupts: &[&str]) -> Self {
        let folder = format!("sys/class/net/{name}");
        self = self.with(&format!("{folder}/operstate"), "up");
        self = self.with(&format!("{folder}/device/vendor"), "0x1af4");
        for (number, mask) in masks.iter().enumerate() {
            self = self.with(&format!("{folder}/queues/rx-{number}/rps_cpus"), mask);
            self = self.with(&format!("{folder}/queues/tx-{number}/xps_cpus"), "ff");
        }
        for (number, cpus) in interrupts.iter().enumerate() {
            self = self.with(&format!("{folder}/device/msi_irqs/{}", 40 + number), "msix");
            self = self.with(&format!("proc/irq/{}/effective_affinity_list", 40 + number), cpus);
        }
        self
    }

    fn warnings(&self, wanted: &Wanted) -> Vec<String> {
        Machine::at(self.0.path()).warnings(wanted)
    }
}

fn wanted() -> Wanted {
    Wanted { connections: 16_000, allowed: 16_000, pinned: Some(vec![0, 1, 2, 3]), ports: 4096 }
}

#[test]
fn a_machine_that_says_nothing_or_has_enough_is_right() {
    assert_eq!(Tree::new().warnings(&wanted()), [] as [&str; 0]);
    let enough = Tree::new()
        .with("proc/sys/net/core/somaxconn", "4096")
        .with("proc/sys/net/core/rmem_max", "4194304")
        .with("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999")
        .with("proc/sys/net/netfilter/nf_conntrack_count", "100")
        .with("proc/sys/net/netfilter/nf_conntrack_max", "262144");
    assert_eq!(enough.warnings(&wanted()), [] as [&str; 0]);
    let odd = Tree::new()
        .with("proc/sys/net/core/somaxconn", "many")
        .with("proc/sys/net/core/rmem_max", "")
        .with("proc/sys/net/ipv4/ip_local_port_range", "32768")
        .with("proc/sys/net/netfilter/nf_conntrack_count", "7");
    assert_eq!(odd.warnings(&wanted()), [] as [&str; 0]);
}

#[test]
fn what_is_too_little_is_said_with_what_is_there_what_is_wanted_and_how_to_set_it() {
    let cases = [
        (
            Tree::new().with("proc/sys/net/core/somaxconn", "128"),
            ["is 128, below the 4096", "net.core.somaxconn=4096"],
        ),
        (
            Tree::new().with("proc/sys/net/core/rmem_max", "212992"),
            ["is 212992, below the 4194304", "net.core.rmem_max=4194304"],
        ),
        (
            Tree::new().with("proc/sys/net/ipv4/ip_local_port_range", "60000 61000"),
            ["has 1001 ports, fewer than the 4096", "net.ipv4.ip_local_port_range=\"10240 65535\""],
        ),
        (
            Tree::new()
                .with("proc/sys/net/netfilter/nf_conntrack_count", "5")
                .with("proc/sys/net/netfilter/nf_conntrack_max", "8192"),
            [
                "is 8192, and 5 connections are tracked: there may be 20096",
                "nf_conntrack_max=40192",
            ],
        ),
        (
            Tree::new()
                .with("proc/sys/net/netfilter/nf_conntrack_count", "250000")
                .with("proc/sys/net/netfilter/nf_conntrack_max", "262144"),
            ["is 262144, and 250000 connections", "nf_conntrack_max=524288"],
        ),
    ];
    for (tree, parts) in cases {
        let warnings = tree.warnings(&wanted());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(parts.iter().all(|part| warnings[0].contains(part)), "{warnings:?}");
    }
    let few = Wanted { allowed: 768, ..wanted() };
    let warnings = Tree::new().warnings(&few);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("RLIMIT_NOFILE allows 768 client connections"), "{warnings:?}");
    assert!(warnings[0].contains("LimitNOFILE=21334 in a systemd unit"), "{warnings:?}");
}

#[test]
fn what_is_not_made_use_of_is_not_said() {
    let tree = Tree::new().with("proc/sys/net/ipv4/ip_local_port_range", "60000 61000");
    assert_eq!(tree.warnings(&Wanted { ports: 0, ..wanted() }), [] as [&str; 0]);
    let unused = Tree::new()
        .with("proc/sys/net/netfilter/nf_conntrack_count", "0")
        .with("proc/sys/net/netfilter/nf_conntrack_max", "8192");
    assert_eq!(unused.warnings(&wanted()), [] as [&str; 0]);
}

#[test]
fn packets_that_arrive_on_one_cpu_are_said() {
    let one = |tree: Tree| {
        let warnings = tree.warnings(&wanted());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings[0].clone()
    };
    let text = one(Tree::new().interface("eth0", &["0", "0"], &["2", "2", "2"]));
    assert!(
        text.starts_with("all packets of eth0 arrive on CPU 2, and 4 workers run on CPUs 0 to 3"),
        "{text}"
    );
    assert!(text.contains("ethtool -L eth0 combined 4"), "{text}");
    let text = one(Tree::new().interface("eth0", &["4", "4"], &["0", "1"]));
    assert!(text.starts_with("all packets of eth0 arrive on CPU 2"), "{text}");
    let text = one(Tree::new().interface("eth0", &["0"], &[]));
    assert!(text.starts_with("eth0 has one receive queue"), "{text}");
    // The interrupts of one queue, and those of its configuration and for sending.
    let text = one(Tree::new().interface("eth0", &["0"], &["0", "1", "2"]));
    assert!(text.starts_with("eth0 has one receive queue"), "{text}");
}

#[test]
fn packets_that_arrive_where_no_worker_is_are_said() {
    let warnings = Tree::new().interface("eth0", &["0", "0"], &["4", "5-6"]).warnings(&wanted());
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("arrive on CPUs without a worker (4, 5, 6)"), "{warnings:?}");
    let warnings = Tree::new().interface("eth0", &["f0", "30"], &["0", "1"]).warnings(&wanted());
    assert!(warnings[0].contains("without a worker (4, 5, 6, 7)"), "{warnings:?}");
}

#[test]
fn what_is_right_or_not_certain_is_not_said() {
    let none: [&str; 0] = [];
    let right = [
        Tree::new().interface("eth0", &["0", "0"], &["0", "1"]),
        Tree::new().interface("eth0", &["0", "0"], &["3", "4"]),
        Tree::new().interface("eth0", &["f"], &["0"]),
        // Two queues, and nothing is known of their interrupts.
        Tree::new().interface("eth0", &["0", "0"], &[]),
        Tree::new().interface("eth0", &["0", "x"], &["0"]),
        Tree::new().interface("eth0", &["0"], &["0"]).with("sys/class/net/eth0/operstate", "down"),
        // A thread of the kernel's that may run anywhere takes the packets.
        Tree::new().interface("eth0", &["0"], &["0"]).with("sys/class/net/eth0/threaded", "1"),
        // Nothing but memory is behind it.
        Tree::new()
            .with("sys/class/net/veth0/operstate", "up")
            .with("sys/class/net/veth0/queues/rx-0/rps_cpus", "0"),
    ];
    for tree in right {
        assert_eq!(tree.warnings(&wanted()), none);
    }
    let one = Tree::new().interface("eth0", &["0"], &["0"]);
    assert_eq!(one.warnings(&Wanted { pinned: None, ..wanted() }), none);
    assert_eq!(one.warnings(&Wanted { pinned: Some(vec![0]), ..wanted() }), none);
}

#[test]
fn interrupts_of_virtio_devices_are_those_of_what_carries_them() {
    let tree = Tree::new()
        .with("sys/devices/pci/msi_irqs/50", "msix")
        .with("sys/devices/pci/virtio2/vendor", "0x1af4")
        .with("sys/bus/virtio/uevent", "")
        .with("sys/class/net/eth0/operstate", "up")
        .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0")
        .with("sys/class/net/eth0/queues/rx-1/rps_cpus", "0")
        .with("proc/irq/50/effective_affinity_list", "1")
        .link("sys/class/net/eth0/device", "../../../devices/pci/virtio2")
        .link("sys/devices/pci/virtio2/subsystem", "../../../bus/virtio");
    let warnings = tree.warnings(&wanted());
    assert!(warnings[0].starts_with("all packets of eth0 arrive on CPU 1"), "{warnings:?}");
}
