//! `loop`: notices that forwarded questions come back, and has `forward` stop.
//!
//! A probe is a question for a name nobody can guess, sent to this server. Seen once, that is the
//! probe itself; seen again and again, it was forwarded in a circle.

use crate::limits::SIGHTINGS_MAX;
use crate::config::{BlockBuilder, Config, LoopProbe, LoopState, Readiness};
use crate::handler::{Cx, Handle, Resolution, Spec, Step};
use crate::handlers::Handler;
use crate::log::Level;
use crate::shared::Shared;
use nodens_corefile::{Directive, Error};
use nodens_wire::edns::extended_error;
use nodens_wire::{Name, Rcode, Type};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { complete: Some(watch_all), ..Spec::new("loop", setup) };


/// Directives that have names of their own. Beside a `forward` most of them have a few that differ
/// from what upstreams say, and only a cluster counts.
const OWN_NAMES: &[&str] =
    &["kubernetes", "k8s_external", "hosts", "template", "whoami", "erratic"];

/// The directive at work.
#[derive(Debug)]
pub struct Loop {
    zone: Name,
    /// Where the probe is sent, as CoreDNS prints it: `:53` for all addresses.
    target: String,
    state: Arc<State>,
}

/// What is known about loops of one server block.
#[derive(Debug)]
pub struct State {
    qname: Name,
    sightings: AtomicU32,
    /// Probes are being sent; sightings count.
    active: AtomicBool,
    looped: AtomicBool,
}

impl State {
    /// Watches for probes for `qname`.
    pub fn new(qname: Name) -> Self {
        let (sightings, active) = (AtomicU32::new(0), AtomicBool::new(true));
        Self { qname, sightings, active, looped: AtomicBool::new(false) }
    }

    /// Whether questions that are forwarded come back.
    pub fn is_looped(&self) -> bool {
        self.looped.load(Relaxed)
    }

    /// Whether the question at work is a probe, which is forwarded even then.
    pub fn is_probe(&self, q: &Resolution) -> bool {
        q.qtype == Type::HINFO && self.active.load(Relaxed) && q.qname == self.qname
    }
}

impl LoopState for State {
    fn qname(&self) -> &Name {
        &self.qname
    }

    fn begin(&self) {
        self.sightings.store(0, Relaxed);
        self.active.store(true, Relaxed);
    }

    fn is_looped(&self) -> bool {
        Self::is_looped(self)
    }

    fn note_sighting(&self) -> bool {
        self.sightings.fetch_add(1, Relaxed) + 1 > SIGHTINGS_MAX
    }

    /// Questions are forwarded again unless the probe came back.
    fn end(&self) -> bool {
        self.active.store(false, Relaxed);
        let looped = self.sightings.load(Relaxed) > SIGHTINGS_MAX;
        self.looped.store(looped, Relaxed);
        looped
    }
}

impl Loop {
    /// Shared with `forward` of the same server block.
    pub fn state(&self) -> Arc<State> {
        self.state.clone()
    }
}

impl Handle for Loop {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if !self.state.is_probe(&cx.job.current) {
            return Step::Next;
        }
        if !self.state.note_sighting() {
            return Step::Next;
        }
        if !self.state.looped.swap(true, Relaxed) {
            let (zone, qname) = (&self.zone, &self.state.qname);
            let text = format!(
                "Loop ({} -> {}) detected for zone {:?}, see \
                 https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO {qname}\"",
                cx.job.client().peer,
                self.target,
                zone.to_string(),
            );
            cx.worker.sink.line(Level::Error, "loop", text);
        }
        let response = &mut cx.job.current.response;
        response.extended_error(extended_error::NETWORK_ERROR, "loop detected");
        Step::Fail(Rcode::SERVFAIL)
    }
}

/// Reads `loop`, which takes no arguments.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    directive.expect_no_body()?;
    if block.handlers.iter().any(|handler| handler.name() == "loop") {
        return Err(directive.invalid("this plugin can only be used once per Server Block"));
    }
    let zone = block.zones.first().cloned().unwrap_or_default();
    let qname = secret_name(block).join(zone.view()).map_err(|error| {
        directive.invalid(format!("no room for two labels in front of zone {zone}: {error}"))
    })?;
    let unspecified = block.listen.ip().is_unspecified();
    let target = if unspecified { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { block.listen.ip() };
    let state = Arc::new(State::new(qname));
    let target = SocketAddr::new(target, block.listen.port());
    let labels = [block.server.clone(), zone.to_string()];
    block.services.loops.push(LoopProbe { target, state: state.clone(), labels });
    let port = block.listen.port();
    let target = if unspecified { format!(":{port}") } else { block.listen.to_string() };
    block.push(Loop { zone, target, state });
    Ok(())
}

/// Makes the process not ready while every `forward` there is loops and nothing else answers.
///
/// CoreDNS ends then. A process that has names of its own goes on, and is ready: as long as its
/// upstreams lead back, no other would answer more.
fn watch_all(config: &mut Config, _: &Shared) {
    let mut states = Vec::new();
    for block in &config.blocks {
        let has = |names: &[&str]| block.handlers.iter().any(|own| names.contains(&own.name()));
        let state = block.handlers.iter().find_map(|handler| match handler {
            Handler::Loop(own) => Some(own.state()),
            _ => None,
        });
        let answers = match (has(&["forward"]), state) {
            (true, Some(state)) => {
                states.push(state);
                has(&["kubernetes"])
            }
            (true, None) => true,
            (false, _) => has(OWN_NAMES),
        };
        if answers {
            return;
        }
    }
    if !states.is_empty() {
        let check = Arc::new(move || states.iter().any(|state| !state.is_looped()));
        config.services.readiness.push(Readiness { directive: "loop", check, can_be_lost: true });
    }
}

/// Two labels from the secret, as CoreDNS writes them: decimal numbers of 62 bits. Blocks for
/// the same zone need different ones, or one would take the other's probe for its own.
fn secret_name(block: &BlockBuilder<'_>) -> Name {
    let secret = u128::from_be_bytes(block.options.secret);
    let place = match block.listen.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let place = place.rotate_left(32) ^ u128::from(block.listen.port());
    let own = secret ^ place ^ ((block.source as u128) << 16);
    let (high, low) = ((own >> 64) as u64 >> 2, own as u64 >> 2);
    Name::parse(&format!("{high}.{low}")).unwrap_or_default()
}
