//! `nodens-lab search`: what search lists cost, and what less of them would save; from names and a
//! `resolv.conf`, or from recorded traffic.

mod captured;
mod cost;
mod names;

use crate::tapped::RoleName;
use crate::term;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use lab_workload::search::resolv_conf::ResolvConf;
use lab_workload::search::{Libc, Measure};
use nodens_wire::Name;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// The values of `ndots` that are worked out.
const NDOTS: [usize; 3] = [1, 2, 5];

/// Arguments of `search`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --capture and --listen, NAMEs are walked as resolvers do, and every name is taken to exist as it \
is written and nowhere in the search list; --exists says it better.")]
pub(crate) struct Args {
    /// Names to look up, as an application writes them.
    names: Vec<String>,
    /// File of names: the first word of each line; - is standard input.
    #[arg(short = 'd', long = "names", value_name = "FILE")]
    file: Option<PathBuf>,
    /// File whose search list and ndots count.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["search", "ndots"])]
    resolv_conf: Option<PathBuf>,
    /// Search list, as default.svc.cluster.local,svc.cluster.local,cluster.local.
    #[arg(long, value_name = "DOMAINS", value_delimiter = ',')]
    search: Vec<String>,
    /// Names with fewer dots go through the search list first [default: 5].
    #[arg(long, value_name = "DOTS", conflicts_with_all = ["capture", "listen"])]
    ndots: Option<usize>,
    /// Stub resolvers [default: all three; of a capture glibc].
    #[arg(long, value_enum, value_delimiter = ',')]
    libc: Vec<LibcName>,
    /// File of the names that exist, one a line, *. for all below, NODATA behind those without address,
    /// SERVFAIL behind those for which the server fails.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["capture", "listen"])]
    exists: Option<PathBuf>,
    /// Time that the answers for a name take, of all names or of those in a zone (more than once for
    /// several), as 1ms or cluster.local=150us.
    #[arg(long, value_name = "[ZONE=]TIME", conflicts_with_all = ["capture", "listen"])]
    time: Vec<cost::ZoneTime>,
    /// Time that an answer of a cache on the node takes.
    #[arg(long, value_name = "TIME", value_parser = lab_units::nanos, requires = "time")]
    cached_time: Option<u64>,
    /// Capture (pcap, pcapng or dnstap) whose lookups are worked out; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "file", "listen"])]
    capture: Option<PathBuf>,
    /// Port that the queries in a capture of packets were sent to.
    #[arg(long, value_name = "PORT", default_value_t = 53, value_parser = crate::server::port, requires = "capture")]
    capture_port: u16,
    /// Take only what was sent to this address; may be repeated [default: all].
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["names", "file"])]
    server: Vec<IpAddr>,
    /// Take what a server writes as dnstap to this socket, a path or an address with port, until the
    /// server ends, or --for is over, or Ctrl-C.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["names", "file"])]
    listen: Option<String>,
    /// How long to listen.
    #[arg(long = "for", value_name = "TIME", value_parser = lab_units::nanos, requires = "listen")]
    duration: Option<u64>,
    /// Between whom messages of dnstap are taken [default: client,auth].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLES")]
    dnstap_role: Vec<RoleName>,
    /// How long a cache on the node keeps addresses at most.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lab_units::nanos)]
    cache_success: u64,
    /// How long it keeps denials at most.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = lab_units::nanos)]
    cache_denial: u64,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LibcName {
    Glibc,
    Musl,
    Go,
}

impl LibcName {
    fn libc(self) -> Libc {
        match self {
            Self::Glibc => Libc::Glibc,
            Self::Musl => Libc::Musl,
            Self::Go => Libc::Go,
        }
    }
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let conf = args.conf()?;
    for note in &conf.notes {
        term::note(&format!("note: {note}"));
    }
    let text = match (&args.capture, &args.listen) {
        (None, None) => names::run(args, &conf)?,
        (path, socket) => captured::run(args, &conf, path.as_deref(), socket.as_deref(), stop)?,
    };
    term::all(&text).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The search list and `ndots`.
    fn conf(&self) -> Result<ResolvConf> {
        if let Some(path) = &self.resolv_conf {
            let text = String::from_utf8_lossy(&octets(path)?).into_owned();
            let conf = ResolvConf::parse(&text);
            let mut conf = conf.map_err(|error| anyhow!("{}:{error}", path.display()))?;
            conf.notes.iter_mut().for_each(|note| *note = format!("{}:{note}", path.display()));
            return Ok(conf);
        }
        for domain in &self.search {
            if domain.is_empty() || Name::parse(domain).is_err() {
                bail!(
                    "--search: `{domain}` is not a domain name, expected one such as cluster.local"
                );
            }
        }
        let (search, musl_search) = (self.search.clone(), self.search.clone());
        let ndots = self.ndots.unwrap_or(5);
        Ok(ResolvConf { search, musl_search, ndots, notes: Vec::new() })
    }
}

/// Everything in a file, or on standard input if it is called `-`.
fn octets(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut octets = Vec::new();
        std::io::stdin().lock().read_to_end(&mut octets).context("cannot read standard input")?;
        return Ok(octets);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A measure in words.
fn title(measure: Measure) -> String {
    match measure {
        Measure::AsItIs => "as it is".to_owned(),
        Measure::Ndots(ndots) => format!("ndots:{ndots}"),
        Measure::TrailingDot => "a trailing dot".to_owned(),
        Measure::Autopath => "autopath".to_owned(),
    }
}

/// A time, or from when to when.
fn wait((least, most): (u64, u64)) -> String {
    if least == most {
        return term::nanos(least as f64);
    }
    format!("{} to {}", term::nanos(least as f64), term::nanos(most as f64))
}

/// What is less than before, with its part of it.
fn saved(before: u64, after: u64) -> String {
    match before.checked_sub(after) {
        Some(0) => "0".to_owned(),
        Some(less) => {
            let part = term::percent(less as f64 / before.max(1) as f64);
            format!("{} ({part})", term::count(less))
        }
        None => format!("-{}", term::count(after - before)),
    }
}
