//! What becomes of queries when no upstream answers any more.
//!
//! They are left to the central servers, if those answer without this node: the way there is another
//! one than that to the upstream service, and may work. Whether it does shows only when the address is
//! not here, so it is left first and asked then. If no server answers there, queries come back at once:
//! what is cached, other zones and a reason for SERVFAIL are better than nothing.
//!
//! Upstreams that lead back here (`loop`) are none: what they are asked is SERVFAIL.
//!
//! Where another program directs queries here, as Cilium does, all that can be done is not to be ready,
//! which that program has to notice.
//!
//! As long as answers that have expired may be served (`serve_stale`), no query is left to other servers.

use super::asked::Asked;
use super::gate::{Keeper, PAUSE, PAUSE_MAX};
use super::probe::{NoAnswer, Target, ask_any, serves};
use nodens_core::log::Level;
use nodens_net::Way;
use nodens_node::network::Network;
use nodens_wire::Name;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time between two looks at what `forward` knows of the upstreams; only if all are doubted are they
/// asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long no upstream answers before queries are left to others. A central server that is
/// replaced, and kube-proxy's notice of it, take a few seconds, and names of the cluster are cached
/// for at least as long as CoreDNS's five.
const OUTAGE: Duration = Duration::from_secs(10);
/// How many checks fail in that time: a machine that stood still has made none.
const OUTAGE_TIMES: u32 = 4;
/// How many times an address that is left is asked whether a server answers there.
const TRIES: usize = 2;
/// How long it may take until queries go elsewhere where another program directs them: a readiness
/// probe has to fail, three times in our manifest, once a second, and Cilium to hear of it.
const NOTICE: Duration = Duration::from_secs(15);
/// How long queries stay after no server answered there; doubles up to [`STAY_MAX`].
const STAY: Duration = Duration::from_secs(30);
const STAY_MAX: Duration = Duration::from_secs(600);
/// An outage so soon after the last makes upstreams show for [`PROOF`] that they are back, which
/// doubles up to [`PROOF_MAX`].
const SOON: Duration = Duration::from_secs(300);
const PROOF: Duration = Duration::from_secs(5);
const PROOF_MAX: Duration = Duration::from_secs(60);

/// For how long no server has answered.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    times: u32,
}

impl Silence {
    fn note(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.times = self.times.saturating_add(1);
    }

    fn lasts(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn is(&self, long: Duration) -> bool {
        self.times >= OUTAGE_TIMES && self.lasts() >= long
    }
}

/// How soon things may change again.
#[derive(Default)]
struct Pace {
    /// How long queries stay after leaving them was in vain, and since when.
    stay: Duration,
    stays: Option<Instant>,
    /// How long upstreams have to answer before queries come back, and when they came last.
    proof: Duration,
    came_back: Option<Instant>,
}

impl Pace {
    fn may_leave(&self) -> bool {
        self.stays.is_none_or(|since| since.elapsed() >= self.stay)
    }

    /// Leaving was in vain; whether that is new.
    fn stays(&mut self) -> bool {
        self.stays = Some(Instant::now());
        let is_new = self.stay.is_zero();
        self.stay = (self.stay * 2).clamp(STAY, STAY_MAX);
        is_new
    }

    fn left(&mut self) {
        let soon = self.came_back.is_some_and(|last| last.elapsed() < SOON);
        self.proof = if soon { (self.proof * 2).clamp(PROOF, PROOF_MAX) } else { Duration::ZERO };
    }
}

/// Why no query can be passed on.
enum Cause {
    /// Upstreams do not answer; how asking the last one failed.
    Silent(NoAnswer),
    /// Upstreams lead back here.
    Looped,
}

impl Cause {
    /// Why nothing can be passed on to those that are `asked`, if that is so.
    fn of(asked: &Asked) -> Option<Self> {
        if asked.are_looped() {
            return Some(Self::Looped);
        }
        if asked.targets.is_empty() || !asked.are_doubted() {
            return None;
        }
        ask_any(&asked.usable()).err().map(Self::Silent)
    }

    /// What is said of it once it `lasts` so long.
    fn text(&self, lasts: Duration) -> String {
        match self {
            Self::Silent(_) => {
                format!("all upstreams are down, none has answered for {lasts:.0?}")
            }
            Self::Looped => format!("all upstreams have led back here for {lasts:.0?} (loop)"),
        }
    }

    /// What ends it, and more of it.
    fn end(&self) -> String {
        match self {
            Self::Silent(why) => format!("until one recovers: {why}"),
            Self::Looped => "until the loop is gone".to_owned(),
        }
    }

    /// More of it.
    fn detail(&self) -> String {
        match self {
            Self::Silent(why) => why.to_string(),
            Self::Looped => "queries that would be forwarded are answered with SERVFAIL".to_owned(),
        }
    }
}

/// Sees to outages until the gate is gone.
pub(super) fn watch(keeper: &Keeper) {
    let mut silence = Silence::default();
    let mut pace = Pace::default();
    while keeper.pause(LOOK_EVERY) {
        let asked = keeper.asked();
        let Some(cause) = Cause::of(&asked) else {
            silence = Silence::default();
            (pace.stay, pace.stays) = (Duration::ZERO, None);
            continue;
        };
        silence.note();
        let shared = keeper.setting.network.shared();
        // Two processes with the same addresses must not disagree about them.
        let listeners_shared = keeper.setting.listeners_shared.load(Ordering::Acquire);
        let zone = asked.targets.first().map(|target| target.zone.clone()).unwrap_or_default();
        if silence.is(OUTAGE.max(asked.stale))
            && pace.may_leave()
            && !listeners_shared
            && !shared.is_empty()
        {
            let mut others =
                Others { addresses: shared.to_vec(), port: keeper.setting.dns_port, zone };
            if others.take_over(keeper, &cause, &silence, &mut pace) {
                others.answer_until_back(keeper, &silence, &mut pace);
                silence = Silence::default();
            }
        }
    }
}

/// The central servers, which answer at our addresses when we do not.
struct Others {
    /// Those that were left to them.
    addresses: Vec<IpAddr>,
    port: u16,
    zone: Name,
}

impl Others {
    /// Leaves queries to them; false if they do not answer, and this node takes queries again.
    fn take_over(
        &mut self,
        keeper: &Keeper,
        cause: &Cause,
        silence: &Silence,
        pace: &mut Pace,
    ) -> bool {
        let what = cause.text(silence.lasts());
        if !keeper.change(Network::step_back) {
            return false;
        }
        let answered = self.come_in(keeper);
        if !answered.is_empty() {
            self.leave_only(answered, keeper);
            let to = self.text();
            keeper.setting.counts.count_withdrawal();
            pace.left();
            keeper.say(
                Level::Warning,
                format!("{what}: queries to {to} go to the central servers {}", cause.end()),
            );
            return true;
        }
        keeper.change(Network::attract);
        if pace.stays() {
            let to = self.text();
            keeper.say(
                Level::Warning,
                format!(
                    "{what}, and the central servers are down at {to} too: queries stay on this node: {}",
                    cause.detail()
                ),
            );
        }
        false
    }

    /// Waits until an upstream answers, or no server does at the addresses that were left; then
    /// this node takes queries again.
    fn answer_until_back(&self, keeper: &Keeper, silence: &Silence, pace: &mut Pace) {
        let mut time = PAUSE;
        let mut proven: Option<Instant> = None;
        let mut others = Silence::default();
        while keeper.pause(time) {
            if keeper.setting.listeners_shared.load(Ordering::Acquire) {
                // What a successor brings here is its business.
                keeper.change(Network::abandon);
            }
            let asked = keeper.asked();
            let answer = ask_any(&asked.usable());
            if asked.targets.is_empty() || answer.is_ok() {
                time = PAUSE;
                others = Silence::default();
                if proven.get_or_insert_with(Instant::now).elapsed() < pace.proof {
                    continue;
                }
                let mut text = String::from("taking queries again");
                if let Ok(target) = answer {
                    let (address, network) = (target.address, target.way.carrier().proto());
                    _ = write!(text, ": upstream {address} answers over {network}");
                }
                _ = write!(text, ", after {:.0?}", silence.lasts());
                keeper.say(Level::Info, text);
                break;
            }
            proven = None;
            time = (time * 2).min(PAUSE_MAX);
            if self.answer() {
                others = Silence::default();
                continue;
            }
            others.note();
            if others.is(OUTAGE) {
                pace.stays();
                let to = self.text();
                keeper.say(
                    Level::Warning,
                    format!(
                        "the central servers are down at {to}: taking queries again, although no upstream is usable"
                    ),
                );
                break;
            }
        }
        pace.came_back = Some(Instant::now());
        keeper.change(Network::attract);
    }

    /// Takes the others back: at a unique local address (fd00::/8) of the node alone, or of a family that
    /// they do not have, health and cached answers would be gone.
    fn leave_only(&mut self, answered: Vec<IpAddr>, keeper: &Keeper) {
        let mut missing = std::mem::replace(&mut self.addresses, answered);
        missing.retain(|ip| !self.addresses.contains(ip));
        if !missing.is_empty() {
            keeper.change(|network| network.keep(&missing));
        }
    }

    /// Where they answer of what has been left to them: at once, or as soon as the program that
    /// directs queries has noticed. Until then it is this server that is asked, and says that it
    /// cannot answer. That program directs all queries or none.
    fn come_in(&self, keeper: &Keeper) -> Vec<IpAddr> {
        let at_once = keeper.setting.network.owns_addresses();
        let (pause, patience) = if at_once { Default::default() } else { (PAUSE, NOTICE) };
        let until = Instant::now() + patience;
        let mut answered: Vec<IpAddr> = Vec::new();
        for tries in 1.. {
            if !at_once {
                answered.clear();
            }
            let missing = self.addresses.iter().filter(|ip| !answered.contains(ip));
            let found: Vec<IpAddr> = missing.copied().filter(|ip| self.answers_at(*ip)).collect();
            answered.extend(found);
            if answered.len() == self.addresses.len() {
                return answered;
            }
            if tries >= TRIES && Instant::now() >= until || !keeper.pause(pause) {
                break;
            }
        }
        if at_once { answered } else { Vec::new() }
    }

    /// Whether they answer at each address.
    fn answer(&self) -> bool {
        self.addresses.iter().all(|ip| self.answers_at(*ip))
    }

    fn answers_at(&self, ip: IpAddr) -> bool {
        let address = SocketAddr::new(ip, self.port);
        serves(&Target { address, way: Way::Udp, zone: self.zone.clone() })
    }

    fn text(&self) -> String {
        self.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helped_nobody_is_tried_less_and_less_often() {
        let mut pace = Pace::default();
        assert!(pace.may_leave());
        assert!(pace.stays(), "it is said once");
        assert!(!pace.may_leave() && pace.stay == STAY);
        let more: Vec<_> = (0..6).map(|_| (pace.stays(), pace.stay.as_secs())).collect();
        assert_eq!(more, [60, 120, 240, 480, 600, 600].map(|seconds| (false, seconds)));
    }

    #[test]
    fn upstreams_that_come_and_go_have_to_stay_longer_and_longer() {
        let mut pace = Pace::default();
        pace.left();
        assert_eq!(pace.proof, Duration::ZERO, "the first to answer is believed");
        pace.came_back = Some(Instant::now());
        let proofs = [0; 5].map(|_| {
            pace.left();
            pace.proof.as_secs()
        });
        assert_eq!(proofs, [5, 10, 20, 40, 60]);
        pace.came_back = Instant::now().checked_sub(2 * SOON);
        pace.left();
        assert_eq!(pace.proof, Duration::ZERO);
    }

    #[test]
    fn silence_is_long_in_time_and_in_attempts() {
        let mut silence = Silence::default();
        assert!(!silence.is(Duration::ZERO));
        (0..OUTAGE_TIMES - 1).for_each(|_| silence.note());
        assert!(!silence.is(Duration::ZERO), "few attempts, however long ago");
        silence.note();
        assert!(silence.is(Duration::ZERO) && !silence.is(OUTAGE));
    }
}
