//! The right to change the network.

use super::Plan;

/// Whether this process may change the network.
pub(crate) fn may_administer() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN))
}

/// What it means that it may not.
pub(crate) fn no_rights(plan: &Plan) -> String {
    let link = format!("the link {} with the local addresses", plan.interface);
    let what = match (plan.setup_interface, plan.setup_rules) {
        (true, true) => format!("{link} and the packet filter's rules"),
        (true, false) => link,
        (false, _) => "the packet filter's rules".to_owned(),
    };
    format!(
        "no right to make {what}: add the capability NET_ADMIN. Until then only queries that are sent directly to this process are answered here"
    )
}
