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
            Reach::Host { .. } => None,
        }
    }
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
}
