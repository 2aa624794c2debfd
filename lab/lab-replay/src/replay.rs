//! A whole replay: what is asked for, checks before the first query, its threads, and the outcome.

use crate::chosen::Chosen;
use crate::connection::Dial;
use crate::engine::{Engine, Report, Task, Tick};
use crate::feed::{Read, Timing, feed};
use crate::lanes::Plan;
use crate::limits::{BATCHES_MAX, FLIGHT_KEPT, SPAN_MAX};
use crate::past::Past;
use crate::places::{Places, settle};
use crate::remarks;
use crate::survey::{Moment, Survey, survey};
use crate::{Addresses, Comparison, Over, Recording, Sample};
use lab_load::host::{self, Counters};
use lab_load::pipe::{TlsError, TlsSettings};
use lab_load::run::ThreadReport;
use lab_load::schedule::Arrivals;
use lab_load::transport::{Share, Streams, Tls};
use lab_load::{Config, Observer, Outcome, Pace, Spin, Transport, judge};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Opens the recording at its beginning.
pub type Open<'a> = dyn Fn() -> Result<Recording, ReplayError> + Sync + 'a;

/// The shortest recording that has a rate.
const SPAN_MIN: u64 = 1_000_000;
/// Queries a second above which the sending thread does not sleep between them.
const SPIN_RATE: f64 = 5_000.0;
/// Descriptors that the program itself needs.
const OTHER_DESCRIPTORS: u64 = 64;
/// The part of the ports of a local address that is used.
const PORTS_PART: f64 = 0.9;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server.
    pub target: SocketAddr,
    /// How many times as fast as recorded, more than 0.
    pub speed: f64,
    /// How often the recording is gone through, at least once.
    pub loops: u64,
    /// The servers whose queries are replayed; all if there are none.
    pub servers: Vec<IpAddr>,
    /// The clients that take part.
    pub sample: Sample,
    /// Where they send from.
    pub addresses: Addresses,
    /// What they send over, if not what was recorded.
    pub over: Option<Over>,
    /// The server's certificate, for [`Over::Tls`].
    pub tls: Tls,
    /// After this time without a query a connection is closed that no recorded one says when to close.
    pub idle: Duration,
    /// When a query has timed out.
    pub timeout: Duration,
    /// Sockets at the same time; `None` is as many as the machine has descriptors and ports for.
    pub sockets: Option<usize>,
    /// Differences from the recorded responses that are named.
    pub differences: usize,
}

/// Why a replay could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The file is no recording.
    #[error("{0} is not a capture, expected the format pcap, pcapng or dnstap")]
    NoRecording(String),
    /// The recording has no query of a client that takes part.
    #[error("no query in the recording{}", why_none(.0))]
    NoQuery(Box<Survey>),
    /// Times that no replay can follow.
    #[error(
        "the queries span {days} days, from packet {} to packet {}: times like these are not those of one recording",
        .first.number, .last.number
    )]
    Span {
        /// Days of the replay.
        days: u64,
        /// The earliest query.
        first: Moment,
        /// The latest.
        last: Moment,
    },
    /// An address that is not this machine's.
    #[error(
        "{client} cannot send from {local}: {source}; expected addresses of this machine (`ip address`)"
    )]
    ForeignSource {
        /// The address.
        local: IpAddr,
        /// A client that was to send from it.
        client: IpAddr,
        /// The cause.
        source: io::Error,
    },
    /// An address of the other family.
    #[error(
        "{client} cannot send from {local} to {target}, expected an {} address",
        if target.is_ipv4() { "IPv4" } else { "IPv6" }
    )]
    Family {
        /// The address.
        local: IpAddr,
        /// A client that was to send from it.
        client: IpAddr,
        /// The server.
        target: SocketAddr,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread could not be set up or ended without a report.
    #[error("cannot run a replay thread: {0}")]
    Thread(io::Error),
}

fn why_none(survey: &Survey) -> String {
    let broken = survey.named.first().map(|first| format!("; the first broken part: {first}"));
    match (survey.left_out, broken) {
        (0, _) if survey.other_servers > 0 => {
            format!(": all {} are to other servers", survey.other_servers)
        }
        (0, None) => ", expected DNS over UDP or TCP to the server's port".to_owned(),
        (0, Some(broken)) => broken,
        (left_out, _) => format!(": all {left_out} are of clients that are left out"),
    }
}

/// What came out of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// What was asked for, in the words of a load.
    pub config: Config,
    /// All measurements, and the verdict on them.
    pub outcome: Outcome,
    /// The responses beside the recorded ones.
    pub comparison: Comparison,
}

/// Sends the queries of a recording again, until `stop` is set. `survey` is that of this recording with these
/// settings; `observer` is called on the calling thread.
pub fn replay(
    settings: &Settings,
    survey: &Survey,
    open: &Open<'_>,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<Replayed, ReplayError> {
    let timing = check(settings, survey)?;
    let config = config(settings, survey, &timing);
    let sockets_max = sockets_max(settings, survey);
    let tls = match settings.over {
        Some(Over::Tls) => Some(TlsSettings::new(&settings.tls, Transport::Dot, settings.target)?),
        _ => None,
    };
    let dial = Dial { target: settings.target, tls };
    let spins = config.peak_rate() > SPIN_RATE;
    let (ticks, received) = mpsc::channel();
    let (sender, steps) = mpsc::sync_channel(BATCHES_MAX);
    let before = Counters::read();
    let task = Task {
        plan: Plan { dial, sockets_max },
        addresses: &settings.addresses,
        timeout: lab_nanos(settings.timeout),
        idle: lab_nanos(settings.idle),
        whole: timing.whole,
        spins,
        differences: settings.differences,
        stop,
        expected: expected(settings, survey),
        early: &survey.early,
        endless: &survey.endless,
        ticks,
    };
    let chosen: &Open<'_> = &|| chosen(settings, open);
    let mut past = Past::new();
    observer.ready();
    let lost = || ReplayError::Thread(io::Error::other("it panicked"));
    let Places { sending: own, reading: others } =
        Places::of(spins, &lab_sys::cpu::allowed().unwrap_or_default());
    let (mut report, read) = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            settle(&others);
            feed(chosen, (settings.sample, settings.over), timing, &sender)
        });
        let sending = scope.spawn(move || {
            settle(&own);
            Engine::new(task, steps).and_then(Engine::run).map_err(ReplayError::Thread)
        });
        for Tick { mut progress, over } in received {
            progress.finals = past.take(over);
            observer.second(&progress);
        }
        let report = sending.join().unwrap_or_else(|_| Err(lost()));
        let read = reading.join().unwrap_or_else(|_| Err(lost()));
        Ok::<_, ReplayError>((report?, read?))
    })?;
    observer.over();
    let host = Counters::read().since(&before);
    let interrupted = stop.load(Ordering::Relaxed);
    let Report { books, .. } = &mut report;
    past.give_back(&mut books.udp, &mut books.tcp);
    Ok(finish(settings, config, (report, read, spins), host, interrupted))
}

/// Reads a recording once to find out what is in it.
pub fn look(settings: &Settings, open: &Open<'_>) -> Result<Survey, ReplayError> {
    let chosen = Chosen::new(open()?, &settings.servers);
    Ok(survey(chosen, (settings.sample, settings.over), &settings.addresses))
}

/// What of the recording is replayed.
pub(crate) fn chosen(settings: &Settings, open: &Open<'_>) -> Result<Recording, ReplayError> {
    Ok(Box::new(Chosen::new(open()?, &settings.servers)))
}

pub(crate) fn check(settings: &Settings, survey: &Survey) -> Result<Timing, ReplayError> {
    let Some((first, last)) = survey.span else {
        return Err(ReplayError::NoQuery(Box::new(survey.clone())));
    };
    let timing = Timing::of(survey, settings.speed, settings.loops);
    if timing.whole > SPAN_MAX {
        let days = timing.whole / (86_400 * lab_load::SECOND);
        return Err(ReplayError::Span { days, first, last });
    }
    let target = settings.target;
    for &(local, client) in &survey.locals {
        if local.is_ipv4() != target.is_ipv4() {
            return Err(ReplayError::Family { local, client, target });
        }
        UdpSocket::bind((local, 0)).map_err(|source| ReplayError::ForeignSource {
            local,
            client,
            source,
        })?;
    }
    Ok(timing)
}

/// As many sockets as are wanted, or as there are descriptors and ports.
fn sockets_max(settings: &Settings, survey: &Survey) -> usize {
    let wanted = settings.sockets.map_or(u64::MAX, |sockets| sockets as u64);
    let wanted = wanted.saturating_add(OTHER_DESCRIPTORS);
    let descriptors = lab_sys::limits::raise_descriptors(wanted.min(1 << 20)).unwrap_or(1_024);
    let ports =
        lab_load::run::local_ports() as f64 * PORTS_PART * survey.locals.len().max(1) as f64;
    let most = descriptors.saturating_sub(OTHER_DESCRIPTORS).min(ports as u64);
    usize::try_from(wanted.saturating_sub(OTHER_DESCRIPTORS).min(most)).unwrap_or(1).max(1)
}

/// Queries whose IDs are in use at once, if the busiest second of the recording is as long as that.
fn expected(settings: &Settings, survey: &Survey) -> usize {
    let resting = settings.timeout.as_secs_f64() * 3.0;
    let busiest = (survey.busiest as f64 * settings.speed).max(1.0);
    let all = survey.queries().saturating_mul(settings.loops);
    usize::try_from(all).unwrap_or(usize::MAX).min((busiest * resting) as usize).min(FLIGHT_KEPT)
}

fn config(settings: &Settings, survey: &Survey, timing: &Timing) -> Config {
    let queries = survey.queries().saturating_mul(settings.loops);
    let seconds = timing.whole.max(SPAN_MIN) as f64 / lab_load::SECOND as f64;
    let rate = queries as f64 / seconds;
    // A recording of less than a second has no busiest one.
    let busiest = survey.busiest as f64 * settings.speed;
    let peak = if seconds < 1.0 { 1.0 } else { (busiest / rate).max(1.0) };
    let mut config = Config::new(settings.target, rate);
    config.pace = Pace::Open { rate, arrivals: Arrivals::Recorded { peak } };
    config.duration = Duration::from_nanos(timing.whole.saturating_add(SPAN_MIN));
    config.queries = Some(queries);
    config.timeout = settings.timeout;
    config.seed = settings.sample.seed;
    config.sources = settings.addresses.sources.clone();
    config.spin = Spin::Auto;
    let streams = Streams { connect_first: Some(false), ..Streams::default() };
    config.streams = Streams { tls: settings.tls.clone(), ..streams };
    let (udp, connections) = match settings.over {
        None => (survey.udp, survey.tcp),
        Some(Over::Udp) => (survey.queries(), 0),
        Some(Over::Tcp | Over::Tls) => (0, survey.queries()),
    };
    let share = |transport, queries: u64| Share {
        transport,
        weight: u32::try_from(queries).unwrap_or(u32::MAX),
        server: settings.target,
    };
    if connections > 0 {
        config.transport = over_connections(settings);
    }
    if udp > 0 && connections > 0 {
        let shares = [(Transport::Udp, udp), (config.transport, connections)];
        config.mix = shares.map(|(transport, queries)| share(transport, queries)).to_vec();
    }
    config
}

/// What connections carry.
fn over_connections(settings: &Settings) -> Transport {
    match settings.over {
        Some(Over::Tls) => Transport::Dot,
        _ => Transport::Tcp,
    }
}

fn finish(
    settings: &Settings,
    mut config: Config,
    (report, read, spun): (Report, Read, bool),
    host: Counters,
    interrupted: bool,
) -> Replayed {
    let queries = config.queries.unwrap_or(0);
    let (notes, faults) =
        (remarks::notes(&report, &read), remarks::faults(&report, &read, queries));
    let Report { books, comparison, .. } = report;
    config.clients = usize::try_from(report.sockets).unwrap_or(usize::MAX);
    let streams = over_connections(settings);
    let by_transport = [(Transport::Udp, books.udp), (streams, books.tcp)];
    let timeout = lab_nanos(settings.timeout);
    let close = |mut tally: lab_load::tally::Tally| {
        tally.close(report.elapsed, timeout, interrupted);
        tally
    };
    let by_transport = by_transport.map(|(transport, tally)| (transport, close(tally)));
    let mut tally = lab_load::tally::Tally::default();
    by_transport.iter().for_each(|(_, part)| tally.merge(part));
    let tally = close(tally);
    let last_sent = tally.span.map_or(0, |span| span.sent.1);
    let thread = ThreadReport {
        cpu: report.cpu,
        waited: report.waited,
        wall: Duration::from_nanos(report.elapsed),
        spun,
        dropped: report.dropped,
        blocked: report.blocked,
        receive_buffer: 0,
        unstamped: 0,
    };
    let mut outcome = Outcome {
        tally,
        by_transport: if config.mix.is_empty() { Vec::new() } else { by_transport.to_vec() },
        started: report.started,
        active: Duration::from_nanos(report.last_answer.max(last_sent)),
        elapsed: Duration::from_nanos(report.elapsed),
        server_is_local: host::is_local(settings.target),
        host,
        threads: vec![thread],
        late_end: settings.timeout.saturating_mul(3),
        plan_hash: read.plan_hash,
        interrupted,
        verdict: judge::Verdict::default(),
    };
    outcome.verdict = judge::judge(&config, &outcome);
    outcome.verdict.invalid.extend(faults);
    outcome.verdict.notes.extend(notes);
    Replayed { config, outcome, comparison }
}

fn lab_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
