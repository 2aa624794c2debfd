//! Where the rules go, and what is left of earlier ones elsewhere.

use super::iptables::{Flavour, Iptables, has_legacy_table};
use super::nft::Nft;
use super::programs::Interrupt;
use super::{Backend, Plan};

/// Where the rules go, and why.
pub(crate) enum Choice {
    Nftables(String),
    Iptables(Iptables, String),
    /// Nowhere; the reason.
    Nowhere(String),
}

/// Chooses as the plan says, else as kube-proxy did, else what the kernel offers.
pub(crate) fn choose(plan: &Plan, nft: Option<&Nft>, interrupt: &Interrupt) -> Choice {
    let find = |flavour| Iptables::find(flavour, interrupt);
    let iptables = |flavour: Flavour, why: String| match (find(flavour), nft) {
        (Some(iptables), _) => Choice::Iptables(iptables, why),
        (None, Some(_)) if plan.backend == Backend::Auto => {
            Choice::Nftables(format!("{why}, but there is no program {} here", flavour.name()))
        }
        (None, _) => Choice::Nowhere(format!("{why}, but there is no program {}", flavour.name())),
    };
    match plan.backend {
        Backend::Nftables if nft.is_some() => Choice::Nftables("as configured".to_owned()),
        Backend::Nftables => Choice::Nowhere("this kernel has no nftables".to_owned()),
        Backend::IptablesLegacy => iptables(Flavour::Legacy, "as configured".to_owned()),
        Backend::IptablesNft => iptables(Flavour::Nft, "as configured".to_owned()),
        Backend::Auto => match kube_proxy(nft, interrupt) {
            Some(None) => Choice::Nftables("as kube-proxy does".to_owned()),
            Some(Some(flavour)) => iptables(flavour, format!("kube-proxy uses {}", flavour.name())),
            None if nft.is_some() => Choice::Nftables("no rules of kube-proxy here".to_owned()),
            None => {
                let found = [Flavour::Legacy, Flavour::Nft].into_iter().find_map(find);
                let why = "this kernel has no nftables";
                found.map_or_else(
                    || Choice::Nowhere(format!("{why}, and there is no program iptables")),
                    |iptables| Choice::Iptables(iptables, why.to_owned()),
                )
            }
        },
    }
}

/// What kube-proxy uses: nothing, tables of its own in nftables, or a flavour of iptables.
fn kube_proxy(nft: Option<&Nft>, interrupt: &Interrupt) -> Option<Option<Flavour>> {
    if let Some(nft) = nft {
        if nft.tables().is_ok_and(|tables| tables.iter().any(|table| table.is_of_kube_proxy())) {
            return Some(None);
        }
        let services = nft.chains().is_ok_and(|chains| {
            let mut chains = chains.iter();
            chains.any(|chain| chain.is_of_iptables() && chain.chain == "KUBE-SERVICES")
        });
        if services {
            return Some(Some(Flavour::Nft));
        }
    }
    let legacy = has_legacy_table("nat", false) || has_legacy_table("nat", true);
    if !legacy {
        return None;
    }
    match Iptables::find(Flavour::Legacy, interrupt) {
        Some(iptables) if !iptables.has_kube_proxy() => None,
        // Without the program nobody can look; who but kube-proxy would make such a table?
        _ => Some(Some(Flavour::Legacy)),
    }
}
