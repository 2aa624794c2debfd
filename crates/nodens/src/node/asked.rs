//! The servers that the cluster's queries go to.

use super::probe::Target;
use nodens_core::Config;
use nodens_core::handlers::loops;
use nodens_core::upstream::Upstream;
use nodens_net::Way;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The servers to ask whether queries can be answered here; without any, none has to answer.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    /// Each server once.
    pub(crate) targets: Vec<Target>,
    /// What `forward` knows of each; of one server there can be several, with other settings.
    known: Vec<Vec<Arc<Upstream>>>,
    /// What each `loop` knows that stands beside a `forward` to it, of the server blocks at addresses
    /// that others can answer at.
    loops: Vec<Vec<Arc<loops::State>>>,
    /// How long answers that have expired serve in the place of these servers.
    pub(crate) stale: Duration,
}

impl Asked {
    /// Whom the server blocks of the upstream service ask, which is at `addresses`; all upstreams
    /// where none does. `shared` are the local addresses at which others can answer.
    pub(crate) fn new(config: &Config, addresses: &[String], shared: &[IpAddr]) -> Self {
        let mut all = nodens_core::handlers::forward::targets(config);
        let is_of_service = |upstream: &Upstream| {
            let socket = upstream.key.address;
            let (ip, socket) = (socket.ip().to_string(), socket.to_string());
            addresses.iter().any(|address| *address == ip || *address == socket)
        };
        if all.iter().any(|target| is_of_service(&target.upstream)) {
            all.retain(|target| is_of_service(&target.upstream));
        }
        let mut asked = Self::default();
        for found in all {
            asked.stale = asked.stale.max(found.stale);
            let address = found.upstream.key.address;
            let way = Way::of(&found.upstream, found.carrier);
            let same = |target: &Target| target.address == address && target.way == way;
            // One query to each is enough, whatever zones it is asked about.
            let place = asked.targets.iter().position(same).unwrap_or(asked.targets.len());
            if place == asked.targets.len() {
                asked.targets.push(Target { address, way, zone: found.zone });
                asked.known.push(Vec::new());
                asked.loops.push(Vec::new());
            }
            if let Some(known) = asked.known.get_mut(place) {
                known.push(found.upstream);
            }
            let is_shared = found.listen.is_unspecified() || shared.contains(&found.listen);
            if let Some(loops) = asked.loops.get_mut(place) {
                loops.extend(found.loops.filter(|_| is_shared));
            }
        }
        asked
    }

    /// The servers that queries can be passed on to: without those from which every query comes back.
    pub(crate) fn usable(&self) -> Vec<Target> {
        let usable = self.targets.iter().zip(&self.loops).filter(|(_, loops)| !are_looped(loops));
        usable.map(|(target, _)| target.clone()).collect()
    }

    /// Whether there are servers, and every query comes back from each of them.
    pub(crate) fn are_looped(&self) -> bool {
        !self.targets.is_empty() && self.loops.iter().all(|loops| are_looped(loops))
    }

    /// Whether something speaks against each of the usable servers, as far as `forward` has noticed.
    /// Costs no query. One way to a server is enough: on another one there may have been no query that
    /// could fail.
    pub(crate) fn are_doubted(&self) -> bool {
        let all = self.targets.iter().zip(&self.known).zip(&self.loops);
        let doubted = all.filter(|((target, known), loops)| {
            let mut paths = known.iter().map(|upstream| upstream.path(target.way.carrier()));
            are_looped(loops) || paths.any(|path| path.is_suspect() || path.fails() > 0)
        });
        let doubted: HashSet<SocketAddr> = doubted.map(|((target, _), _)| target.address).collect();
        self.targets.iter().all(|target| doubted.contains(&target.address))
    }
}

/// Whether all that watch say so. A block without `loop` knows nothing.
fn are_looped(loops: &[Arc<loops::State>]) -> bool {
    !loops.is_empty() && loops.iter().all(|state| state.is_looped())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::Shared;
    use nodens_core::config::{BuildOptions, LoopState, build};
    use nodens_core::log::Sink;
    use nodens_corefile::{NoSources, parse};
    use std::sync::mpsc::sync_channel;

    const SERVICE: &str = "10.96.0.11";

    /// What is asked with `corefile`, and the states of its `loop`s, in order.
    fn asked(corefile: &str) -> (Asked, Vec<Arc<dyn LoopState>>) {
        let tree = parse("Corefile", corefile, &NoSources).unwrap();
        let shared = Arc::new(Shared::new(1, Sink::new(sync_channel(100).0)));
        let config = build(&tree, &BuildOptions::default(), &shared).unwrap();
        let states = config.services.loops.iter().map(|probe| probe.state.clone()).collect();
        let asked = Asked::new(&config, &[SERVICE.to_owned()], &["10.96.0.10".parse().unwrap()]);
        (asked, states)
    }

    fn block(zone: &str, bind: &str, upstreams: &str) -> String {
        format!("{zone} {{\n loop\n bind {bind}\n forward . {upstreams}\n}}\n")
    }

    fn set_looped(state: &dyn LoopState) {
        state.begin();
        (0..3).for_each(|_| _ = state.note_sighting());
        assert!(state.end());
    }

    #[test]
    fn a_server_is_usable_until_every_query_comes_back_from_it() {
        let both = "169.254.20.10 10.96.0.10";
        let text = block("cluster.local", both, SERVICE) + &block("test", both, SERVICE);
        let (asked, states) = asked(&text);
        assert_eq!((states.len(), asked.targets.len()), (4, 1));
        // Others can answer at the second address alone.
        set_looped(&*states[0]);
        set_looped(&*states[2]);
        assert!(!asked.are_looped() && asked.usable() == asked.targets);
        // A stub domain that loops does not concern the others.
        set_looped(&*states[3]);
        assert!(!asked.are_looped() && asked.usable() == asked.targets);
        set_looped(&*states[1]);
        assert!(asked.are_looped() && asked.usable().is_empty());
        states[1].begin();
        assert!(!states[1].end() && !asked.are_looped());
    }

    #[test]
    fn a_server_that_does_not_lead_back_is_asked_alone() {
        let text =
            block("cluster.local", "0.0.0.0", "192.0.2.1") + &block("test", "0.0.0.0", "192.0.2.2");
        let (asked, states) = asked(&text);
        set_looped(&*states[0]);
        assert!(!asked.are_looped());
        assert_eq!(asked.usable(), asked.targets[1..]);
        set_looped(&*states[1]);
        assert!(asked.are_looped());
    }

    #[test]
    fn without_loop_and_without_servers_nothing_leads_back() {
        let (asked, states) = asked(". {\n forward . 10.96.0.11\n}\n");
        assert!(states.is_empty() && !asked.are_looped() && asked.usable().len() == 1);
        assert!(!Asked::default().are_looped());
    }
}
