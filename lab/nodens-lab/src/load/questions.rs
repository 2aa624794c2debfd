//! Which queries `load` asks: from a file, from a template, or made.

mod captured;
mod check;
mod files;
mod lookups;

use crate::tapped::{RoleName, roles};
use crate::term;
use anyhow::{Result, bail};
use clap::ValueEnum;
use lab_load::{Config, Pace, Workload, cluster};
use lab_workload::edns::{Edns, EdnsOption, Subnets};
use lab_workload::tsig::Key;
use lab_workload::{Style, Template, TypeMix};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, Type};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Draws before a drawn order repeats.
const ORDER_LEN: usize = 1 << 20;
/// Queries made for the cluster mix: more would repeat what a longer run would ask anyway.
const MIX_MAX: usize = 4 << 20;
/// Different queries that are made before the run.
const MADE_MAX: usize = 20 << 20;
/// Queries in flight per client while caches are warmed up: a server should not lose any.
const WARM_UP_WINDOW: usize = 2;
/// The longest warm-up.
const WARM_UP_MAX: Duration = Duration::from_secs(120);
/// Different names that are made by default.
const COUNT: usize = 10_000;
/// What names that are made end with by default.
const SUFFIX: &str = "example.";

/// Arguments for the queries to send.
#[derive(clap::Args)]
#[command(next_help_heading = "Queries")]
pub(crate) struct Questions {
    /// File of queries in dnsperf's format: a name and a type per line; - is standard input.
    #[arg(short = 'd', long, value_name = "FILE", conflicts_with_all = ["workload", "template"])]
    names: Option<PathBuf>,
    /// The file has messages, each after its length in two octets (as dnsperf -B).
    #[arg(short = 'B', long, requires = "names", conflicts_with_all = ["search", "qtype"])]
    binary: bool,
    /// The file has dynamic updates (as dnsperf -u): a zone, require, prohibit, add, delete, send.
    #[arg(
        short = 'u',
        long,
        requires = "names",
        conflicts_with_all = ["binary", "hit_rate", "search", "qtype"]
    )]
    updates: bool,
    /// Capture (pcap, pcapng or dnstap) whose queries are sent in order; - is standard input.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["names", "workload", "template", "qtype", "search"]
    )]
    capture: Option<PathBuf>,
    /// Port that the queries in the capture were sent to.
    #[arg(long, value_name = "PORT", default_value_t = 53, value_parser = crate::server::port, requires = "capture")]
    capture_port: u16,
    /// Between whom messages of dnstap are taken [default: client,auth].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLES", requires = "capture")]
    dnstap_role: Vec<RoleName>,
    /// Send each query of the capture at its time, instead of at a rate, and end with the capture.
    #[arg(long, requires = "capture", conflicts_with_all = ["rate", "closed_loop", "arrivals"])]
    original_timing: bool,
    /// Go through the capture so many times as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "original_timing")]
    speed: f64,
    /// Stop at the first faulty line or packet of a file instead of skipping it.
    #[arg(long)]
    strict: bool,
    /// Template of names, as {zipf:names.txt}.{rand:8}.example.: a new query each time.
    ///
    /// Fields: {seq} {rand:N} {hex:N} {0-255} {choice:a,b,c} {uniform:FILE} {zipf:FILE} {turn:FILE}
    #[arg(long, conflicts_with = "workload")]
    template: Option<String>,
    /// Queries to make if there is neither file nor template.
    #[arg(short, long, value_enum, default_value = "cluster")]
    workload: Built,
    /// Suffix of the names of -w zipf, uniform and unique [default: example.].
    #[arg(long, value_name = "NAME")]
    suffix: Option<Name>,
    /// How many different names -w zipf and uniform make, or a template of which names repeat [default: 10000].
    #[arg(long, value_name = "NAMES")]
    count: Option<usize>,
    /// Types to ask for with their weights, as A=70,AAAA=25,HTTPS=5 or A,AAAA [default: A]. Lines of a
    /// file that have a type keep it, and so does the cluster mix.
    #[arg(long, value_name = "MIX")]
    qtype: Option<TypeMix>,
    /// Look the names of the file or template up as a stub resolver with this search list does, as
    /// default.svc.cluster.local,svc.cluster.local,cluster.local: for each, A and AAAA.
    #[arg(long, value_name = "DOMAINS", value_delimiter = ',')]
    search: Vec<String>,
    /// Names with fewer dots go through the search list first.
    #[arg(long, default_value_t = 5, requires = "search")]
    ndots: usize,
    /// Stub resolver to imitate.
    #[arg(long, value_enum, default_value = "glibc", requires = "search")]
    libc: LibcName,
    /// File of the names that exist, one a line, *. for all below, NODATA behind those without address;
    /// without it every name exists as it is written, and none with a suffix.
    #[arg(long, value_name = "FILE", requires = "search")]
    exists: Option<PathBuf>,
    /// Part of the queries that repeats names; the others get a unique label.
    #[arg(long, value_name = "PART", value_parser = lab_units::part)]
    hit_rate: Option<f64>,
    /// Send each different query once before the measured run (default with --hit-rate).
    #[arg(long)]
    warm_up: bool,
    /// Send EDNS.
    #[arg(short, long)]
    edns: bool,
    /// Send EDNS that announces this many octets of UDP payload [default: 1232].
    #[arg(long, value_name = "OCTETS")]
    edns_size: Option<u16>,
    /// Send EDNS with the DO bit.
    #[arg(short = 'D', long)]
    dnssec: bool,
    /// Send EDNS with this option (more than once for several), as 65001:00ff.
    #[arg(short = 'E', long, value_name = "CODE:HEX")]
    edns_option: Vec<EdnsOption>,
    /// Send EDNS with a client subnet, as 192.0.2.0/24, or with drawn ones, as 10.0.0.0/8,24.
    #[arg(long, value_name = "SUBNET")]
    ecs: Option<Subnets>,
    /// Send EDNS with a client cookie, the same in all queries.
    #[arg(long)]
    cookie: bool,
    /// Send EDNS and ask for the server's name (NSID).
    #[arg(long)]
    nsid: bool,
    /// Sign every message (TSIG); hmac-md5 if no algorithm is given.
    #[arg(short = 'y', long, value_name = "[ALG:]NAME:SECRET")]
    tsig: Option<Key>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Built {
    /// The pods of a Kubernetes node with their search lists.
    Cluster,
    /// Names by Zipf's law.
    Zipf,
    /// Names evenly.
    Uniform,
    /// A new name each time: nothing can be cached.
    Unique,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LibcName {
    Glibc,
    Musl,
    Go,
}

/// What the rest of the run says about queries.
pub(crate) struct Run {
    /// Seed of everything random.
    pub(crate) seed: u64,
    /// Clients.
    pub(crate) clients: usize,
    /// About how many queries will be asked.
    pub(crate) wanted: f64,
}

impl Questions {
    /// Makes or reads the queries. Faults of files are written to standard error.
    pub(crate) fn workload(&self, run: &Run) -> Result<Workload> {
        self.check()?;
        let style = self.style(run.seed)?;
        let mut workload = match (&self.names, &self.template) {
            _ if !self.search.is_empty() => self.lookups(&style, run)?,
            _ if self.capture.is_some() => self.captured(run.seed)?,
            (Some(path), _) => self.of_file(path, &style, run.seed)?,
            (None, Some(text)) => self.of_template(text, &style, run.seed)?,
            (None, None) => self.made(&style, run)?,
        };
        if let Some(hit_rate) = self.hit_rate {
            workload.set_hit_rate(hit_rate);
        }
        if let Some(key) = &self.tsig {
            workload.set_key(key.clone());
        }
        Ok(workload)
    }

    /// Whether the queries come from standard input, which can be read only once.
    pub(crate) fn reads_standard_input(&self) -> bool {
        [&self.names, &self.capture].into_iter().flatten().any(|path| path.as_os_str() == "-")
    }

    /// Asks each different query once, if that is wanted, before the run that is measured. Nothing
    /// of it goes into the result but the line that says what it did.
    pub(crate) fn warm_up(
        &self,
        config: &Config,
        workload: &Workload,
        stop: &AtomicBool,
    ) -> Result<Option<String>> {
        if !self.warm_up && self.hit_rate.is_none() {
            return Ok(None);
        }
        let Some(warm_up) = workload.warm_up() else {
            if self.warm_up {
                bail!("--warm-up needs queries that repeat, but these are all different");
            }
            return Ok(None);
        };
        let config = Config {
            pace: Pace::Closed { window: WARM_UP_WINDOW },
            duration: WARM_UP_MAX,
            queries: warm_up.period(),
            ..config.clone()
        };
        let counts = lab_load::run(&config, &warm_up, stop, |_| {})?.tally.counts;
        let line = format!(
            "warm-up of {} queries before it, each different query at least once, {} answered",
            term::count(counts.sent),
            term::count(counts.answered)
        );
        eprintln!("{line}");
        Ok(Some(line))
    }

    /// Whether something was asked for that only a run of its own can do.
    pub(super) fn needs_a_run(&self) -> bool {
        self.original_timing || self.warm_up
    }

    /// Where the queries come from, in a few words.
    pub(crate) fn source(&self) -> String {
        let types: Vec<_> = self.qtype().types().map(|qtype| qtype.to_string()).collect();
        let (count, types) = (term::count(self.count() as u64), types.join(", "));
        let suffix = self.suffix().map_or_else(|_| String::new(), |suffix| suffix.to_string());
        if let Some(path) = &self.capture {
            let speed = match self.original_timing {
                true => format!(", {} times as fast as recorded", self.speed),
                false => String::new(),
            };
            return format!("capture {}{speed}", path.display());
        }
        let source = match (&self.names, &self.template, self.workload) {
            (Some(path), ..) if self.updates => format!("updates in {}", path.display()),
            (Some(path), ..) => format!("file {}", path.display()),
            (None, Some(template), _) => format!("template {template}, {types}"),
            (None, None, Built::Cluster) => {
                "pods of a Kubernetes node with their search lists".to_owned()
            }
            (None, None, Built::Zipf) => {
                format!("{count} names under {suffix} by Zipf's law, {types}")
            }
            (None, None, Built::Uniform) => {
                format!("{count} names under {suffix} evenly, {types}")
            }
            (None, None, Built::Unique) => {
                format!("a new name under {suffix} each time, {types}")
            }
        };
        let source = if self.search.is_empty() {
            source
        } else {
            let libc =
                self.libc.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
            format!("{source}; search {} ndots:{} {libc}", self.search.join(" "), self.ndots)
        };
        let hits = self.hit_rate.map(|rate| format!(", {} % of them repeated", rate * 100.0));
        source + hits.as_deref().unwrap_or_default()
    }

    /// The key that messages are signed with.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.tsig.as_ref()
    }

    fn qtype(&self) -> TypeMix {
        self.qtype.clone().unwrap_or_else(|| TypeMix::only(Type::A))
    }

    fn count(&self) -> usize {
        self.count.unwrap_or(COUNT)
    }

    fn suffix(&self) -> Result<Cow<'_, Name>> {
        Ok(match &self.suffix {
            Some(suffix) => Cow::Borrowed(suffix),
            None => Cow::Owned(Name::parse(SUFFIX)?),
        })
    }

    fn style(&self, seed: u64) -> Result<Style> {
        let size = self.edns_size.unwrap_or(lab_workload::edns::UDP_SIZE);
        let mut edns = Edns::new(size, self.dnssec);
        for option in &self.edns_option {
            edns.push(option)?;
        }
        if self.nsid {
            edns.push_nsid()?;
        }
        if self.cookie {
            edns.push_cookie(seed)?;
        }
        if let Some(subnets) = self.ecs {
            edns.set_subnets(subnets);
        }
        let asked = self.edns || self.edns_size.is_some() || edns != Edns::default();
        Ok(Style { edns: asked.then_some(edns), ..Style::default() })
    }

    fn of_template(&self, text: &str, style: &Style, seed: u64) -> Result<Workload> {
        let template = Template::parse(text, |path| std::fs::read(path))?;
        if self.hit_rate.is_none() && !self.warm_up {
            return Ok(Workload::generate(seed, template, self.qtype(), style));
        }
        // What can be asked again is a set of names that is known beforehand.
        let names = (0..self.count() as u64).map(|n| Ok(template.name(seed, n)));
        self.drawn(names, style, seed, |workload| workload.shuffle_groups(ORDER_LEN, &self.qtype()))
    }

    fn made(&self, style: &Style, run: &Run) -> Result<Workload> {
        let suffix = self.suffix()?;
        let numbered = || {
            (0..self.count()).map(|n| Ok(Name::parse(&format!("name{n}"))?.join(suffix.view())?))
        };
        match self.workload {
            Built::Cluster => {
                let questions = (run.wanted as usize).clamp(10_000, MIX_MAX);
                Ok(cluster::mix_with(
                    &cluster::Cluster::default(),
                    run.clients,
                    questions,
                    run.seed,
                    style,
                )
                .workload)
            }
            Built::Unique => {
                let mut workload = Workload::new(run.seed);
                if suffix.as_wire().len() > NAME_LEN_MAX - 17 {
                    bail!("--suffix leaves no room for a label of 16 octets");
                }
                for qtype in self.qtype().types() {
                    workload.push_question(suffix.view(), qtype, style);
                }
                workload.shuffle_groups(ORDER_LEN, &self.qtype());
                workload.set_hit_rate(0.0);
                Ok(workload)
            }
            Built::Zipf => self.drawn(numbered(), style, run.seed, |workload| {
                workload.zipf_groups(1.0, ORDER_LEN, &self.qtype());
            }),
            Built::Uniform => self.drawn(numbered(), style, run.seed, |workload| {
                workload.shuffle_groups(ORDER_LEN, &self.qtype());
            }),
        }
    }

    /// Each name with each type, in the order that `order` gives.
    fn drawn(
        &self,
        names: impl Iterator<Item = Result<Name>>,
        style: &Style,
        seed: u64,
        order: impl FnOnce(&mut Workload),
    ) -> Result<Workload> {
        let count = self.count();
        if count == 0 || count.saturating_mul(self.qtype().types().len()) > MADE_MAX {
            bail!("--count {count}, expected 1 to {MADE_MAX} names and types together");
        }
        let mut workload = Workload::new(seed);
        for name in names {
            let name = name?;
            for qtype in self.qtype().types() {
                workload.push_question(name.view(), qtype, style);
            }
        }
        order(&mut workload);
        Ok(workload)
    }
}
