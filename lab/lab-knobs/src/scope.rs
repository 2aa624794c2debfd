//! What a trial may change.

use crate::knob::{Kind, Knob, Side, Space, Takes};
use crate::network::{DEVICE, Network};
use crate::place::Place;
use std::net::IpAddr;
use std::process::Command;

/// What a trial may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    reach: Reach,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    Namespaces(Network),
    Host { device: Option<String> },
}

impl Scope {
    /// Two network namespaces of its own, joined by a veth pair: one for the server, one for the
    /// load generator. [`crate::Session::begin`] makes them, and its keeper removes them.
    pub fn namespace() -> Self {
        Self { reach: Reach::Namespaces(Network::name()) }
    }

    /// The machine itself, and its network interface `device` if there is one to change. Whoever
    /// calls this has told the user what will change: [`crate::survey`] lists it.
    pub fn host(device: Option<&str>) -> Self {
        Self { reach: Reach::Host { device: device.map(str::to_owned) } }
    }

    /// True for namespaces of its own.
    pub fn is_namespace(&self) -> bool {
        matches!(self.reach, Reach::Namespaces(_))
    }

    /// The address of one side; on the host there is no answer.
    pub fn address(&self, side: Side) -> Option<IpAddr> {
        self.is_namespace().then(|| Network::address(side))
    }

    /// The name of the network namespace of one side.
    pub fn namespace_name(&self, side: Side) -> Option<String> {
        self.network().map(|network| network.namespace(side))
    }

    /// A command that runs `program` on one side.
    pub fn command(&self, side: Side, program: &str) -> Command {
        match &self.reach {
            Reach::Host { .. } => Command::new(program),
            Reach::Namespaces(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &network.namespace(side), program]);
                command
            }
        }
    }

    pub(crate) fn network(&self) -> Option<&Network> {
        match &self.reach {
            Reach::Namespaces(network) => Some(network),
            Reach::Host { .. } => None,
        }
    }

    pub(crate) fn place(&self, side: Side) -> Place {
        match &self.reach {
            Reach::Namespaces(network) => Place::Namespace(network.namespace(side)),
            Reach::Host { .. } => Place::Host,
        }
    }

    pub(crate) fn device(&self) -> Option<&str> {
        match &self.reach {
            Reach::Namespaces(_) => Some(DEVICE),
            Reach::Host { device } => device.as_deref(),
        }
    }

    /// Why a setting cannot be changed in such a scope, whatever kernel it is.
    pub(crate) fn forbids(&self, knob: &Knob) -> Option<&'static str> {
        let of_device = matches!(
            knob.kind,
            Kind::Device { .. } | Kind::Queues { .. } | Kind::Qdisc | Kind::Irq
        );
        match &self.reach {
            Reach::Namespaces(_) if knob.space == Space::Host => {
                Some("the whole machine has it in common: it can be changed with --host only")
            }
            Reach::Namespaces(_) => None,
            Reach::Host { .. } if knob.takes_effect == Takes::NewInterfaces => {
                Some("takes effect on interfaces that are set up later, and a trial sets up none")
            }
            Reach::Host { .. } if matches!(knob.kind, Kind::Route { .. }) => {
                Some("routes of the host are not changed: use a network namespace")
            }
            Reach::Host { .. } if knob.side == Side::Client && knob.name.starts_with("client:") => {
                Some("on the host, server and client have the same settings")
            }
            Reach::Host { device: None } if of_device => Some("no network interface was named"),
            Reach::Host { .. } => knob.path().and_then(changes_others),
        }
    }
}

/// Why a sysctl cannot be changed where it stays: the kernel gives other settings a new value with it,
/// and those are not known here. In a namespace of its own all of them end with it.
fn changes_others(path: &str) -> Option<&'static str> {
    const IN_PAIRS: [&str; 6] = [
        "vm.dirty_background_bytes",
        "vm.dirty_background_ratio",
        "vm.dirty_bytes",
        "vm.dirty_ratio",
        "vm.overcommit_kbytes",
        "vm.overcommit_ratio",
    ];
    if IN_PAIRS.contains(&path) {
        return Some("changes other settings too, which would not be restored");
    }
    let parts: Vec<&str> = path.split('.').collect();
    let changes = matches!(
        *parts.as_slice(),
        ["net", "ipv4", "ip_forward"]
            | ["net", "ipv4" | "ipv6", "conf", "all" | "default", ..]
            | ["net", "ipv6", "conf", _, "disable_ipv6" | "forwarding" | "mtu"]
    );
    changes.then_some("changes other settings too, which would not be restored: use a namespace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_new_interfaces_have_cannot_be_tried() {
        let why = |name| Scope::host(Some("lo")).forbids(Knob::find(name).unwrap());
        assert!(why("default_qdisc").is_some_and(|why| why.contains("set up later")));
        assert_eq!(why("qdisc"), None);
    }

    #[test]
    fn what_changes_other_settings_too_is_refused_on_the_host_and_not_in_a_namespace() {
        let knob = |path: &str| {
            let choice = crate::Choice::parse(&format!("sysctl:{path}=0,1")).unwrap();
            choice.knob.into_owned()
        };
        let (host, namespace) = (Scope::host(Some("lo")), Scope::namespace());
        for path in [
            "net.ipv4.ip_forward",
            "net/ipv4/ip_forward",
            "net.ipv4.conf.all.rp_filter",
            "net.ipv6.conf.default.accept_ra",
            "net.ipv6.conf.eth0/1.disable_ipv6",
            "net/ipv6/conf/eth0.1/mtu",
            "net.ipv6.conf.lo.forwarding",
        ] {
            let why = host.forbids(&knob(path)).unwrap_or_default();
            assert!(why.contains("would not be restored: use a namespace"), "{path}: {why}");
            assert_eq!(namespace.forbids(&knob(path)), None, "{path}");
        }
        for path in ["vm.dirty_ratio", "vm.dirty_background_bytes", "vm.overcommit_ratio"] {
            assert!(host.forbids(&knob(path)).is_some(), "{path}");
        }
        for path in ["net.ipv4.conf.lo.rp_filter", "net.ipv6.conf.lo.hop_limit", "vm.swappiness"] {
            assert_eq!(host.forbids(&knob(path)), None, "{path}");
        }
        let refused = |knob: &&Knob| knob.path().is_some_and(|path| changes_others(path).is_some());
        let known: Vec<_> = crate::knobs().iter().filter(refused).map(|knob| &knob.name).collect();
        assert!(known.is_empty(), "{known:?}");
    }
}
