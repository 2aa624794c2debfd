//! The servers that the cluster's questions go to.

use super::probe::Target;
use nodens_core::Config;
use nodens_core::upstream::Upstream;
use std::sync::Arc;
use std::time::Duration;

/// Whom to ask whether questions can be answered here; without anybody, nobody has to answer.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    /// Each server once.
    pub(crate) targets: Vec<Target>,
    /// What `forward` knows of each; of one server there can be several, with other settings.
    known: Vec<Vec<Arc<Upstream>>>,
    /// How long answers that have expired serve in the place of these servers.
    pub(crate) stale: Duration,
}

impl Asked {
    /// Whom the server blocks of the upstream service ask, which is at `addresses`; all upstreams
    /// where none does.
    pub(crate) fn new(config: &Config, addresses: &[String]) -> Self {
        let mut all = config.forward_targets();
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
            let same =
                |target: &Target| target.address == address && target.carrier == found.carrier;
            // One question to each is enough, whatever zones it is asked about.
            let place = asked.targets.iter().position(same);
            match place.and_then(|place| asked.known.get_mut(place)) {
                Some(known) => known.push(found.upstream),
                None => {
                    asked.known.push(vec![found.upstream]);
                    let (carrier, zone) = (found.carrier, found.zone);
                    asked.targets.push(Target { address, carrier, zone });
                }
            }
        }
        asked
    }

    /// Whether something speaks against each of them, as far as `forward` has noticed. Costs no
    /// question.
    pub(crate) fn are_doubted(&self) -> bool {
        let mut pairs = self.targets.iter().zip(&self.known);
        pairs.all(|(target, known)| {
            known.iter().any(|upstream| {
                let path = upstream.path(target.carrier);
                path.is_suspect() || path.fails() > 0
            })
        })
    }
}
