//! The same plan on an echo server, before and after a load: what of a latency is the generator's
//! own, and whether the generator could have done more.
//!
//! Nothing is subtracted from anything: quantiles do not subtract. Both curves are kept side by
//! side, and a run whose baseline fails is invalid or labelled ([`judge`]).

use crate::judge::Verdict;
use crate::run::{Config, Outcome, Pace, RunError};
use crate::schedule::{Arrivals, Profile};
use crate::transport::{Share, Transport, Trust};
use crate::{Observer, Workload, nanos, run, run_watched};
use lab_echo::identity::{Identity, IdentityError};
use lab_echo::udp::Echo;
use lab_echo::{doh, doh3, quic, stream, udp};
use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How much more than the load itself the generator must be able to do.
pub const HEADROOM: f64 = 1.5;
/// The part of the server's median that the echo's p99.9 may be without a remark.
const PART_OF_MEDIAN: f64 = 0.2;
/// The longest check of what the generator can do at most.
const HEADROOM_TIME: Duration = Duration::from_secs(2);

/// Where the echo is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process, on a thread and, if there is one to spare, a CPU of its own.
    #[default]
    Here,
    /// At this address, for instance `nodens-lab echo` beside the server: the same network.
    At(SocketAddr),
}

/// How to measure a baseline.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where the echo is.
    pub place: Place,
    /// The longest run before and after the load; what of a longer plan is asked keeps its rates. The
    /// check of the headroom may take two seconds even if this is less.
    pub length: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { place: Place::Here, length: Duration::from_secs(5) }
    }
}

/// Why there is no baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The echo could not be started.
    #[error("cannot start an echo for {transport}")]
    Start {
        /// The transport.
        transport: Transport,
        /// The cause.
        source: io::Error,
    },
    /// The echo has no certificate to show.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A run on the echo, or the load itself, could not be done.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What an echo did under a plan.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Before the load.
    pub before: Outcome,
    /// After it.
    pub after: Outcome,
    /// At [`HEADROOM`] times the rate of an open loop.
    pub headroom: Option<Outcome>,
    /// Whether the echo was reached by the way that leads to the server.
    pub same_path: bool,
    /// What this says about the load.
    pub verdict: Verdict,
}

/// Echo servers for a plan, which end with the value.
pub struct Echoes {
    echoes: Vec<Echo>,
    /// The plan on them instead of the server.
    pub config: Config,
}

impl Echoes {
    /// Starts an echo for each transport of `config`.
    pub fn start(config: &Config, options: Options) -> Result<Self, BaselineError> {
        let mut plan = config.clone();
        plan.duration = plan.duration.min(options.length);
        let mut shares = config.shares();
        let mut echoes = Vec::new();
        match options.place {
            Place::At(address) => shares.iter_mut().for_each(|share| share.server = address),
            Place::Here => {
                let allowed = lab_sys::cpu::allowed().unwrap_or_default();
                let spare = spare_cpu(&allowed, &config.cpus);
                for share in &mut shares {
                    let echo = elsewhere(spare, &allowed, || start(share))?;
                    share.server = echo.address;
                    echoes.push(echo);
                }
                plan.streams.tls.trust = Trust::Anyone;
                plan.sources.clear();
            }
        }
        if let Some(first) = shares.first() {
            plan.server = first.server;
        }
        plan.mix = if config.mix.is_empty() { Vec::new() } else { shares };
        Ok(Self { echoes, config: plan })
    }

    /// Whether all of them are still there.
    pub fn are_well(&self) -> bool {
        !self.echoes.iter().any(Echo::has_failed)
    }
}

/// The last CPU that no thread of the load is pinned to.
fn spare_cpu(allowed: &[usize], taken: &[usize]) -> Option<usize> {
    let enough = allowed.len() > 1;
    allowed.iter().rev().find(|cpu| enough && !taken.contains(cpu)).copied()
}

/// Starts threads on `cpu` and comes back to where the caller was.
fn elsewhere<T>(cpu: Option<usize>, allowed: &[usize], start: impl FnOnce() -> T) -> T {
    // A thread inherits the CPUs of the one that starts it. Failure to pin costs precision only.
    let pinned = cpu.is_some_and(|cpu| lab_sys::cpu::pin(&[cpu]).is_ok());
    let started = start();
    if pinned {
        _ = lab_sys::cpu::pin(allowed);
    }
    started
}

fn start(share: &Share) -> Result<Echo, BaselineError> {
    let (transport, ip) = (share.transport, share.server.ip());
    let loopback: IpAddr =
        if ip.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    let address = SocketAddr::new(loopback, 0);
    let started = match transport {
        Transport::Udp => Echo::start(address, udp::Options::default()),
        Transport::Tcp => stream::start(address, stream::Options::default()),
        Transport::Dot => {
            let identity = Identity::make(&["localhost".to_owned(), loopback.to_string()])?;
            let tls = Some(identity.config("dot")?);
            stream::start(address, stream::Options { tls, ..stream::Options::default() })
        }
        Transport::Doh => {
            let identity = Identity::make(&["localhost".to_owned(), loopback.to_string()])?;
            let tls = Some(identity.config("h2")?);
            doh::start(address, stream::Options { tls, ..stream::Options::default() })
        }
        Transport::Doq => {
            let identity = Identity::make(&["localhost".to_owned(), loopback.to_string()])?;
            quic::start(address, quic::Options::new(identity.quic_config("doq")?))
        }
        Transport::Doh3 => {
            let identity = Identity::make(&["localhost".to_owned(), loopback.to_string()])?;
            doh3::start(address, quic::Options::new(identity.quic_config("h3")?))
        }
    };
    started.map_err(|source| BaselineError::Start { transport, source })
}

/// Runs `config` between two runs of the same plan on an echo. What they say about the generator is
/// added to the outcome's verdict. `phase` is called with what begins: `baseline`, `load`,
/// `baseline`.
pub fn run_between(
    config: &Config,
    workload: &Workload,
    stop: &AtomicBool,
    options: Options,
    mut phase: impl FnMut(&'static str),
    observer: &mut impl Observer,
) -> Result<(Outcome, Baseline), BaselineError> {
    let echoes = Echoes::start(config, options)?;
    let on_echo = |plan: &Config, workload: &Workload| run(plan, workload, stop, |_| {});
    let mut plan = echoes.config.clone();
    let part = part_of(&mut plan, workload, options.length, 1.0);
    phase("baseline");
    let before = on_echo(&plan, &part)?;
    phase("load");
    let mut outcome = run_watched(config, workload, stop, observer)?;
    phase("baseline");
    let after = on_echo(&plan, &part)?;
    let headroom = faster(&echoes.config, workload);
    let headroom = headroom.map(|(plan, part)| on_echo(&plan, &part)).transpose()?;
    let same_path = matches!(options.place, Place::At(_)) || outcome.server_is_local;
    let verdict = if stop.load(Ordering::Relaxed) {
        Verdict { notes: vec!["the baseline was interrupted".to_owned()], ..Verdict::default() }
    } else {
        judge(config, &outcome, [&before, &after], headroom.as_ref(), same_path)
    };
    outcome.verdict.invalid.extend(verdict.invalid.iter().cloned());
    outcome.verdict.notes.extend(verdict.notes.iter().cloned());
    Ok((outcome, Baseline { before, after, headroom, same_path, verdict }))
}

/// What is asked of an echo, and `plan` changed to ask it: of recorded times their busiest `length`,
/// `speed` times as fast; of a profile all rates within `length`; of a steady schedule its first
/// `length`.
fn part_of<'w>(
    plan: &mut Config,
    workload: &'w Workload,
    length: Duration,
    speed: f64,
) -> Cow<'w, Workload> {
    plan.profile = plan.profile.within(length);
    plan.duration = plan.profile.length().unwrap_or(plan.duration).min(length);
    let Pace::Open { rate, arrivals: Arrivals::Recorded { .. } } = &mut plan.pace else {
        return Cow::Borrowed(workload);
    };
    *rate *= speed;
    let part = workload.busiest_part(nanos(length.mul_f64(speed)), speed);
    plan.duration = Duration::from_nanos(part.times().last().map_or(0, |last| last + 1));
    Cow::Owned(part)
}

/// The plan at [`HEADROOM`] times its rate, for a short time; `None` for a closed loop. Queries come
/// in the same way, so that bursts are as much larger as the rate is higher.
fn faster<'w>(config: &Config, workload: &'w Workload) -> Option<(Config, Cow<'w, Workload>)> {
    let Pace::Open { rate, arrivals } = config.pace else { return None };
    let mut plan = config.clone();
    let part = part_of(&mut plan, workload, HEADROOM_TIME, HEADROOM);
    if !matches!(arrivals, Arrivals::Recorded { .. }) {
        // At the highest rate that the profile has at any time, all the time.
        let rate = HEADROOM * config.profile.peak(rate).max(rate);
        plan.pace = Pace::Open { rate, arrivals };
        plan.profile = Profile::Constant;
    }
    let needed = crate::run::clients_needed(plan.peak_rate(), plan.timeout);
    plan.clients = plan.clients.max(needed);
    Some((plan, part))
}

/// What runs on an echo say about a load: `runs` are those before and after it, `headroom` is the
/// one at [`HEADROOM`] times the rate of an open loop.
pub fn judge(
    config: &Config,
    load: &Outcome,
    runs: [&Outcome; 2],
    headroom: Option<&Outcome>,
    same_path: bool,
) -> Verdict {
    let mut verdict = Verdict::default();
    for (run, when) in runs.iter().zip(["before", "after"]) {
        let counts = &run.tally.counts;
        if counts.lost() > 0 {
            let (lost, sent) = (counts.lost(), counts.sent);
            verdict.invalid.push(format!(
                "{lost} of {sent} queries to the echo {when} the load were lost: the generator \
                 or the path loses queries"
            ));
        }
        if let Some(why) = run.verdict.invalid.first() {
            verdict.invalid.push(format!("the baseline {when} the load is invalid: {why}"));
        }
        let slow = run.tally.response.quantile(0.999).nanos().unwrap_or(0);
        let median = load.tally.response.quantile(0.5).nanos().unwrap_or(u64::MAX);
        if slow as f64 > PART_OF_MEDIAN * median as f64 {
            verdict.notes.push(format!(
                "p99.9 of the echo {when} the load, {}, is more than a fifth of the server's median: compare both curves, do not subtract one from the other",
                three_digits(slow)
            ));
        }
    }
    let bound = match (config.pace, headroom) {
        (Pace::Open { .. }, Some(run)) => run.tally.counts.lost() > 0 || !run.verdict.is_valid(),
        (Pace::Open { .. }, None) => false,
        (Pace::Closed { .. }, _) => {
            let most = runs.iter().map(|run| run.answer_rate()).fold(f64::INFINITY, f64::min);
            most < HEADROOM * load.answer_rate()
        }
    };
    if bound {
        verdict.invalid.push(format!(
            "the generator cannot reach {HEADROOM} times this load with an echo: the limit may be the generator's"
        ));
    }
    if !same_path {
        let text = "the echo ran on this machine and not on the path to the server";
        verdict.notes.push(text.to_owned());
    }
    verdict
}

/// A duration with three digits that count: `8.67 ms`.
fn three_digits(nanos: u64) -> String {
    let (value, unit) = match nanos as f64 {
        nanos @ ..999.5 => return format!("{nanos:.0} ns"),
        nanos @ ..999.5e3 => (nanos / 1e3, "µs"),
        nanos @ ..999.5e6 => (nanos / 1e6, "ms"),
        nanos => (nanos / 1e9, "s"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests;
