//! `nodens-lab replay`: the queries of a recording again, as they were, and the responses beside the recorded ones.

mod fidelity;
mod notes;

use crate::export::Kept;
use crate::load::{live, output, prometheus, summary};
use crate::server::Server;
use crate::tapped::{RoleName, roles};
use crate::term::{self, Style};
use anyhow::{Context, Result, bail};
use lab_load::transport::{Tls, Trust};
use lab_load::{Observer, Progress, sources};
use lab_replay::replay::look;
use lab_replay::{
    Addresses, Comparison, Over, Recording, ReplayError, Replayed, Rewrite, Sample, Settings,
    Survey,
};
use lab_result::collect::Collector;
use lab_result::{About, Generator, Requirement, ResultFile};
use lab_workload::capture::{self, OpenError};
use lab_workload::dnstap::Role;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Speeds that make sense.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;

/// Arguments of `replay`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Capture: pcap, pcapng or dnstap.
    capture: PathBuf,
    /// The server to ask: an address or a name, with a port or without.
    #[arg(short = 's', long, value_name = "SERVER", required_unless_present = "fidelity")]
    target: Option<Server>,
    /// Port of the servers in the capture.
    #[arg(long, value_name = "PORT", default_value_t = 53, value_parser = crate::server::port)]
    capture_port: u16,
    /// Replay only what was sent to this address; may be repeated [default: all].
    #[arg(long, value_name = "ADDRESS")]
    server: Vec<IpAddr>,
    /// Between whom messages of dnstap are taken [default: client,auth].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLES")]
    dnstap_role: Vec<RoleName>,
    /// So many times as fast as recorded.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Go through the capture so many times.
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    loops: u64,
    /// Replay this part of the clients, chosen by their addresses: each with all of its queries or with none.
    #[arg(long, value_name = "PART", default_value = "1", value_parser = lab_units::part)]
    clients: f64,
    /// Send from these addresses, as 127.0.0.2-127.0.0.9: each client always from the same, chosen by its address.
    #[arg(long, value_name = "ADDRESSES")]
    source: Option<String>,
    /// Send from addresses of another prefix, as 10.1.0.0/16=127.1.0.0/16, with the host bits of the client; may be
    /// repeated, the first that fits counts, before --source.
    #[arg(long, value_name = "FROM=TO")]
    rewrite: Vec<Rewrite>,
    /// Send all queries over udp, tcp or tls, whatever was recorded: recorded connections stay connections, and
    /// what a client's address sent over UDP shares one.
    #[arg(long, value_enum, value_name = "TRANSPORT")]
    over: Option<OverName>,
    /// Close a connection without queries for so long if no recorded one says when, as 20s.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = lab_units::seconds)]
    idle: u64,
    /// PEM file with the authority that must have signed the server's certificate [default: the system's].
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure")]
    tls_ca: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long)]
    tls_insecure: bool,
    /// The server's name in its certificate and in SNI [default: as --target has it].
    #[arg(long, value_name = "NAME")]
    tls_sni: Option<String>,
    /// Replay to an echo across a veth pair, which is made and removed (this needs root), and compare its receive
    /// stamps with the plan: exit with 5 if a second's rate is off by 0.1 % or quartiles of gaps by 1 ms.
    #[arg(long, conflicts_with_all = ["target", "source", "rewrite", "require_same"])]
    fidelity: bool,
    /// Sockets and connections at the same time; more sources than that share sockets [default: as many as
    /// there are descriptors and ports].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    sockets: Option<u32>,
    /// When a query has timed out, as 2s or 500ms; a bare number is seconds.
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = lab_units::seconds)]
    timeout: u64,
    /// Differences from the recorded responses to name.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    differences: usize,
    /// Exit with 5 if a smaller part of the recorded responses is the same, as 99.9%.
    #[arg(long, value_name = "PART", value_parser = lab_units::part)]
    require_same: Option<f64>,
    /// Stop at the first broken packet instead of leaving it out.
    #[arg(long)]
    strict: bool,
    /// Seed of the choice of clients.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not ask the server for its version (version.bind. TXT CH) before the replay.
    #[arg(long)]
    no_version: bool,
    #[command(flatten)]
    output: output::OutArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OverName {
    Udp,
    Tcp,
    Tls,
}

impl From<OverName> for Over {
    fn from(name: OverName) -> Self {
        match name {
            OverName::Udp => Self::Udp,
            OverName::Tcp => Self::Tcp,
            OverName::Tls => Self::Tls,
        }
    }
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let settings = settings(args)?;
    let open = || recording(&args.capture, args.capture_port, &roles(&args.dnstap_role));
    let survey = look(&settings, &open)?;
    if args.fidelity {
        let planned = lab_replay::fidelity::plan(&settings, &survey, &open)?;
        if planned.times.is_empty() {
            bail!("--fidelity needs queries over UDP, and none is to be replayed");
        }
        return fidelity::measure(&planned, (args.no_version, args.output.json), stop);
    }
    let places = args.output.places(settings.target, None)?;
    tell_broken(args, &survey)?;
    let collector = Collector::start(settings.target, !args.no_version, None);
    if !args.output.json {
        term::out(&heading(args, &settings, &survey));
    }
    let mut watch = Watch::new(args, &settings, &survey)?;
    let replayed = lab_replay::replay(&settings, &survey, &open, stop, &mut watch)?;
    watch.live.clear();
    let Replayed { config, mut outcome, comparison } = replayed;
    outcome.verdict.notes.extend(notes::survey(&survey));
    outcome.verdict.notes.extend(notes::comparison(&comparison));
    let about = About {
        generator: Generator {
            name: "nodens-lab".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        provenance: collector.finish(),
        workload: lab_result::Workload {
            source: source(args),
            questions: None,
            period: Some(survey.queries()),
        },
    };
    let mut result = lab_result::convert(&config, &outcome, about);
    result.requirements =
        args.require_same.map(|part| same(&comparison, part)).into_iter().collect();
    if args.output.json {
        term::out(lab_result::to_json(&result).trim_end());
    } else {
        term::out(&summary::text(&result, term::width()));
    }
    places.write(Kept::Load(&result))?;
    Ok(ExitCode::from(exit(&outcome, &result)))
}

fn settings(args: &Args) -> Result<Settings> {
    if !SPEEDS.contains(&args.speed) {
        bail!("--speed {}, expected a factor from 0.001 to 1000000", args.speed);
    }
    if args.fidelity && matches!(args.over, Some(OverName::Tcp | OverName::Tls)) {
        bail!(
            "--fidelity needs the receive stamps of datagrams, expected no --over, or --over udp"
        );
    }
    if args.loops == 0 {
        bail!("--loops 0, expected at least 1");
    }
    if args.clients <= 0.0 {
        bail!("--clients 0 leaves out every client, expected a part of more than 0");
    }
    if args.capture == Path::new("-") {
        bail!("a capture is read more than once, so it cannot be standard input: name a file");
    }
    let sources = args.source.as_deref().map_or(Ok(Vec::new()), sources::parse)?;
    Ok(Settings {
        target: target(args)?,
        speed: args.speed,
        loops: args.loops,
        servers: args.server.clone(),
        sample: Sample { part: args.clients, seed: args.seed },
        addresses: Addresses { rewrites: args.rewrite.clone(), sources },
        over: args.over.map(Over::from),
        tls: tls(args),
        idle: Duration::from_nanos(args.idle),
        timeout: Duration::from_nanos(args.timeout),
        sockets: args.sockets.map(|sockets| usize::try_from(sockets).unwrap_or(usize::MAX)),
        differences: args.differences,
    })
}

fn target(args: &Args) -> Result<std::net::SocketAddr> {
    if args.fidelity {
        return fidelity::target();
    }
    let port = if matches!(args.over, Some(OverName::Tls)) { 853 } else { 53 };
    args.target.as_ref().context("no --target")?.find_and_tell(port)
}

fn tls(args: &Args) -> Tls {
    let trust = match &args.tls_ca {
        Some(path) => Trust::File(path.clone()),
        None if args.tls_insecure => Trust::Anyone,
        None => Trust::System,
    };
    let known = args.target.as_ref().and_then(|target| target.name().map(str::to_owned));
    Tls { trust, name: args.tls_sni.clone().or(known), no_resumption: true, early_data: false }
}

/// The recording from its beginning.
fn recording(path: &Path, port: u16, roles: &[Role]) -> Result<Recording, ReplayError> {
    let shown = || path.display().to_string();
    let unreadable = |source| ReplayError::Unreadable { path: shown(), source };
    let file = File::open(path).map_err(unreadable)?;
    match capture::open(file, port, roles) {
        Ok(messages) => Ok(Box::new(messages)),
        Err(OpenError::Io(error)) => Err(unreadable(error)),
        Err(OpenError::Format(_)) => Err(ReplayError::NoRecording(shown())),
        Err(OpenError::Frame(error)) => {
            Err(unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
        }
    }
}

/// Prints what of the capture is left out because it is broken, and stops with `--strict`.
fn tell_broken(args: &Args, survey: &Survey) -> Result<()> {
    let path = args.capture.display();
    if let Some(first) = survey.named.first().filter(|_| args.strict) {
        bail!("{path}: {first}");
    }
    for broken in &survey.named {
        eprintln!("{path}: {broken}, left out");
    }
    let more = survey.broken.saturating_sub(survey.named.len() as u64);
    if more > 0 {
        eprintln!("{path}: {} more left out", term::count(more));
    }
    Ok(())
}

/// The capture, and how it is gone through.
fn source(args: &Args) -> String {
    let mut text = format!("replay of {}", args.capture.display());
    if args.speed != 1.0 {
        text += &format!(", {} times as fast as recorded", args.speed);
    }
    if args.loops > 1 {
        text += &format!(", {} times", args.loops);
    }
    if let Some(over) = args.over {
        let name = match over {
            OverName::Udp => "UDP",
            OverName::Tcp => "TCP",
            OverName::Tls => "TLS",
        };
        text += &format!(", all over {name}");
    }
    if !args.server.is_empty() {
        let servers: Vec<_> = args.server.iter().map(ToString::to_string).collect();
        text += &format!(", queries to {}", servers.join(", "));
    }
    if args.clients < 1.0 {
        text += &format!(", {} of the clients", term::percent(args.clients));
    }
    text
}

fn seconds(settings: &Settings, survey: &Survey) -> f64 {
    survey.length() as f64 / lab_load::SECOND as f64 / settings.speed * settings.loops as f64
}

fn heading(args: &Args, settings: &Settings, survey: &Survey) -> String {
    let title = term::paint(Style::Bold, &settings.target.to_string());
    let queries: Vec<_> = [("UDP", survey.udp), ("TCP", survey.tcp)]
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} queries over {name}", term::count(*count)))
        .collect();
    let left_out = [
        (survey.left_out, "of other clients"),
        (survey.other_servers, "to other servers"),
        (survey.copies, "copies"),
    ];
    let left_out: String = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!(", {} {what} left out", term::count(*count)))
        .collect();
    format!(
        "{title}  {}: {}{left_out}, {} recorded responses, {:.1} s",
        source(args),
        queries.join(" and "),
        term::count(survey.responses),
        seconds(settings, survey)
    )
}

/// Whether the part of the recorded responses that came again is large enough.
fn same(comparison: &Comparison, part: f64) -> Requirement {
    let (same, all) = (comparison.same, comparison.compared());
    let found = if all == 0 {
        "no recorded response to compare with".to_owned()
    } else {
        format!("{} ({same} of {all})", term::percent(same as f64 / all as f64))
    };
    Requirement {
        limit: format!("same>={}", term::percent(part)),
        found,
        met: all > 0 && same as f64 >= part * all as f64,
    }
}

/// What became of the run, the gravest first.
fn exit(outcome: &lab_load::Outcome, result: &ResultFile) -> u8 {
    match outcome {
        outcome if outcome.interrupted => crate::EXIT_INTERRUPTED,
        outcome if outcome.nothing_listens() => crate::EXIT_NOTHING_LISTENS,
        outcome if !outcome.verdict.is_valid() => crate::EXIT_INVALID,
        _ if result.requirements.iter().any(|requirement| !requirement.met) => {
            crate::EXIT_REQUIREMENT
        }
        _ => 0,
    }
}

/// What is done while a replay runs.
struct Watch {
    metrics: Option<prometheus::Endpoint>,
    live: live::Live,
    quiet: bool,
}

impl Watch {
    fn new(args: &Args, settings: &Settings, survey: &Survey) -> Result<Self> {
        let seconds = seconds(settings, survey);
        let rate = survey.queries() as f64 * settings.loops as f64 / seconds.max(0.001);
        let title = format!("{} replay", settings.target);
        let view = live::View::new(title, (seconds * 10.0).ceil() / 10.0, Some(rate));
        let metrics = args.output.metrics(settings.target)?;
        Ok(Self { metrics, live: live::Live::new(view), quiet: args.output.quiet })
    }
}

impl Observer for Watch {
    fn second(&mut self, progress: &Progress) {
        self.metrics.iter_mut().for_each(|metrics| metrics.add(progress));
        if !self.quiet {
            self.live.show(progress);
        }
    }
}
