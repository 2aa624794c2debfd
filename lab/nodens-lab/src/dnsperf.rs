//! `nodens-lab dnsperf`: dnsperf's command line and output, our engine.
//!
//! What differs from dnsperf, each because the number would not be true otherwise or because our
//! engine has no such moment:
//!
//! - `-Q` is an open loop: questions leave on schedule and do not wait for answers, where dnsperf
//!   stops at `-q` outstanding ones and becomes a closed loop without a word.
//! - `-q` is divided over the clients; with more clients than `-q`, only `-q` of them are used.
//! - No line is printed per question (`-v`) or per timeout.
//! - Whatever nodens-lab itself has to say goes to standard error, never into dnsperf's text.

mod options;

use crate::term;
use anyhow::{Context, Result, bail};
use lab_load::life::{Amount, Life};
use lab_load::schedule::{Arrivals, Profile};
use lab_load::transport::{Doh, Streams, Tls, Transport, Trust};
use lab_load::{Config, Pace, Progress, Spin, Stamps, Workload};
use lab_result::collect::Collector;
use lab_result::export::dnsperf::{self as text, End, Start};
use lab_result::export::{Format, export};
use lab_result::{About, Generator, ResultFile, SECOND};
use lab_workload::edns::Edns;
use lab_workload::{Style, TypeMix, binary, names, update};
use nodens_wire::Type;
use options::{Family, Options, Parsed};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The UDP payload size that dnsperf announces with EDNS.
const UDP_SIZE: u16 = 4096;
/// How long a run may take that ends with its file: longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Arguments of `dnsperf`: its own, read by its own rules.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// dnsperf's options; -h lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    arguments: Vec<String>,
}

/// Whether the program was called by the name of dnsperf.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&name).file_name().is_some_and(|name| name == "dnsperf")
}

/// Runs with the arguments of the whole process.
pub(crate) fn run_as_called(stop: &AtomicBool) -> Result<ExitCode> {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    run(&Args { arguments }, stop)
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let generator =
        Generator { name: "nodens-lab".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let options = match options::parse(&args.arguments) {
        Ok(Parsed::Run(options)) => *options,
        Ok(Parsed::Help) => return usage(options::USAGE, ExitCode::SUCCESS),
        Ok(Parsed::LongHelp) => return usage(options::LONG_USAGE, ExitCode::SUCCESS),
        Err(why) => {
            term::note(&why);
            return usage(options::USAGE, ExitCode::FAILURE);
        }
    };
    let text_wanted = !options.json;
    if text_wanted {
        put(&text::banner(&generator))?;
    }
    let workload = workload(&options)?;
    let config = config(&options, &workload)?;
    let collector = Collector::start(config.server, false, &options.keys);
    if text_wanted {
        put(&text::start(&start(&options, &config, &args.arguments)))?;
    }
    let mut intervals = Intervals::new(&options);
    let outcome = lab_load::run(&config, &workload, stop, |progress| intervals.add(progress))?;
    let source = options.file.as_ref().map_or("stdin".into(), |file| file.display().to_string());
    let about = About {
        generator,
        provenance: collector.finish(),
        workload: lab_result::Workload {
            source,
            questions: Some(workload.len() as u64),
            period: workload.period(),
        },
    };
    let result = lab_result::convert(&config, &outcome, about);
    finish(&options, &config, &result)
}

/// Prints the result, writes the file if asked for, and says what is ours to say.
fn finish(options: &Options, config: &Config, result: &ResultFile) -> Result<ExitCode> {
    if options.json {
        put(&export(result, Format::DnsperfJson, Default::default()))?;
    } else {
        let all = config.queries.is_some_and(|queries| result.counts.scheduled >= queries);
        let end = match (result.run.interrupted, all) {
            (true, _) => End::Interruption,
            (false, true) => End::EndOfFile,
            (false, false) => End::TimeLimit,
        };
        let statistics = text::Statistics {
            updates: options.updates,
            ..text::whole_run(result, options.latency_histogram)
        };
        put(&(text::complete(end) + &text::statistics(&statistics)))?;
    }
    for why in &result.verdict.invalid_because {
        term::note(&format!("nodens-lab: INVALID: {why}"));
    }
    if let Some(path) = &options.result {
        lab_result::write(path, result)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn put(text: &str) -> Result<()> {
    term::all(text).context("cannot write to standard output")
}

fn usage(text: &str, code: ExitCode) -> Result<ExitCode> {
    term::note(text.trim_end());
    Ok(code)
}

fn warn(options: &Options, text: &str) {
    let text = format!("Warning: {text}");
    if options.warnings_to_stdout { term::out(&text) } else { term::note(&text) }
}

/// Lines of `-S`, as the seconds go by.
struct Intervals<'o> {
    options: &'o Options,
    /// Seconds of an interval; 0 prints nothing.
    length: u64,
    seconds: u64,
    sum: Progress,
    all: u64,
}

impl<'o> Intervals<'o> {
    fn new(options: &'o Options) -> Self {
        let length = options.interval.map_or(0, |length| length.as_secs_f64().ceil() as u64);
        if options.interval.is_some_and(|asked| asked != Duration::from_secs(length)) {
            warn(options, &format!("-S: intervals are whole seconds, taking {length}"));
        }
        let length = if options.json { 0 } else { length };
        Self { options, length, seconds: 0, sum: Progress::default(), all: 0 }
    }

    fn add(&mut self, progress: &Progress) {
        if self.length == 0 {
            return;
        }
        self.seconds += 1;
        self.all += 1;
        self.sum.counts.add(&progress.counts);
        self.sum.cohort.merge(&progress.cohort);
        if self.seconds < self.length {
            return;
        }
        let sum = std::mem::take(&mut self.sum);
        let nanos = self.seconds * SECOND;
        self.seconds = 0;
        let text = if self.options.interval_statistics {
            text::statistics(&self.statistics(&sum, nanos))
        } else {
            text::interval_line(now_unix_ns(), sum.counts.answered, nanos)
        };
        // A reader that is gone is noticed at the end.
        _ = term::all(&text);
    }

    /// Counts are of what happened in the interval; latencies and RCODEs of the questions that were
    /// sent in it, as far as they were answered by its end.
    fn statistics<'p>(&self, sum: &'p Progress, interval: u64) -> text::Statistics<'p> {
        let rcodes = sum.cohort.rcodes.iter();
        let rcodes = rcodes.map(|(code, count)| (nodens_wire::Rcode(code).to_string(), count));
        text::Statistics {
            sent: sum.counts.sent,
            completed: sum.counts.answered,
            lost: sum.counts.lost(),
            interrupted: sum.counts.interrupted,
            rcodes: rcodes.collect(),
            request_octets: sum.counts.question_octets,
            response_octets: sum.counts.answer_octets,
            run_time: self.all * SECOND,
            interval: Some(interval),
            latency: Some(&sum.cohort.response),
            connections: None,
            updates: self.options.updates,
            histogram: self.options.latency_histogram,
        }
    }
}

fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn start(options: &Options, config: &Config, arguments: &[String]) -> Start {
    // Output is kept in files, where secrets have no place.
    let concealed =
        |word: &String| options.keys.iter().fold(word.clone(), |word, key| key.conceal(word));
    let mut command_line = vec!["dnsperf".to_owned()];
    command_line.extend(arguments.iter().map(concealed));
    Start {
        command_line: command_line.join(" "),
        server: config.server.to_string(),
        started_unix_ns: now_unix_ns(),
        time_limit: options.time_limit.map(|limit| limit.as_nanos() as u64),
        runs: Some(options.runs).filter(|runs| *runs > 0),
        updates: options.updates,
    }
}

fn workload(options: &Options) -> Result<Workload> {
    let octets = match &options.file {
        Some(path) => {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => {
            let mut octets = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut octets);
            read.context("cannot read standard input")?;
            octets
        }
    };
    let (mut workload, style) = (Workload::new(1), style(options)?);
    let invalid = |fault: &dyn std::fmt::Display| warn(options, &format!("invalid input: {fault}"));
    if options.binary {
        if let Err(fault) = binary::read(&octets, &mut workload) {
            invalid(&fault);
        }
    } else if options.updates {
        update::read(&octets, &style, &mut workload).iter().for_each(|fault| invalid(fault));
    } else {
        let types = TypeMix::only(Type::A);
        let faults = names::read(&octets, &style, &types, 1, &mut workload);
        faults.iter().for_each(|fault| invalid(fault));
    }
    if workload.is_empty() {
        bail!("the input has no {}", if options.updates { "update" } else { "query" });
    }
    if let Some(key) = options.keys.last() {
        workload.set_key(key.clone());
    }
    Ok(workload)
}

fn style(options: &Options) -> Result<Style> {
    let mut edns = Edns::new(UDP_SIZE, options.dnssec);
    if let Some(option) = &options.edns_option {
        edns.push(option)?;
    }
    Ok(Style { edns: options.edns.then_some(edns), ..Style::default() })
}

fn config(options: &Options, workload: &Workload) -> Result<Config> {
    let (clients, threads) = crowd(options);
    let pace = match options.rate {
        Some(rate) => Pace::Open { rate: f64::from(rate), arrivals: Arrivals::Uniform },
        None => Pace::Closed { window: options.outstanding / clients },
    };
    let runs = Some(options.runs).filter(|runs| *runs > 0);
    Ok(Config {
        server: server(options)?,
        transport: options.transport,
        mix: Vec::new(),
        streams: streams(options)?,
        pace,
        profile: Profile::Constant,
        duration: options.time_limit.unwrap_or(FOREVER),
        queries: runs.map(|runs| runs.saturating_mul(workload.len() as u64)),
        timeout: options.timeout,
        clients,
        sources: options.local_address.into_iter().collect(),
        threads,
        cpus: Vec::new(),
        spin: Spin::Auto,
        stamps: Stamps::User,
        seed: 1,
    })
}

/// Clients and threads after what dnsperf and we take away.
fn crowd(options: &Options) -> (usize, usize) {
    let (mut clients, mut threads) = (options.clients, options.threads);
    match options.rate {
        Some(rate) if threads > rate as usize => {
            warn(
                options,
                &format!(
                    "requested max QPS limit (-Q {rate}) is lower than number of threads (-T {threads}), \
                 lowering number of threads"
                ),
            );
            threads = rate as usize;
        }
        None if clients > options.outstanding => {
            let outstanding = options.outstanding;
            warn(
                options,
                &format!(
                    "requested number of clients (-c {clients}) exceeds number of outstanding queries \
                 (-q {outstanding}), lowering number of clients"
                ),
            );
            clients = outstanding;
        }
        _ => {}
    }
    if threads > clients {
        warn(
            options,
            &format!(
                "requested number of threads (-T {threads}) exceeds number of clients (-c {clients}), \
             lowering number of threads"
            ),
        );
        threads = clients;
    }
    if let Some(rate) = options.rate {
        // dnsperf would run out of IDs and wait; more sockets have more.
        clients = clients.max(lab_load::run::clients_needed(f64::from(rate), options.timeout));
    }
    (clients.max(1), threads.max(1))
}

fn server(options: &Options) -> Result<SocketAddr> {
    let port = options.port.unwrap_or(options.transport.port());
    let family = |address: &SocketAddr| match options.family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let found = (options.server.as_str(), port).to_socket_addrs();
    let mut found = found.with_context(|| format!("cannot resolve {}", options.server))?;
    let server = found.find(family);
    let server =
        server.with_context(|| format!("{} has no address of that family", options.server))?;
    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    if options.local_address.is_some_and(|local| local.is_ipv4() != any.is_ipv4()) {
        bail!("-a: the local address is not of the server's family");
    }
    Ok(server)
}

/// dnsperf looks at no certificate.
fn streams(options: &Options) -> Result<Streams> {
    let rest = options.doh_uri.strip_prefix("https://");
    let rest = rest.with_context(|| format!("invalid DNS-over-HTTPS URI {}", options.doh_uri))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = (options.transport == Transport::Doh).then(|| host.to_owned());
    let host = host.map(|host| host.split(':').next().unwrap_or_default().to_owned());
    let name = options.tls_name.clone().or(host).filter(|name| !name.is_empty());
    let questions = options.queries_per_connection.map(|count| Amount::Fixed(count as f64));
    Ok(Streams {
        life: Life { questions, ..Life::default() },
        tls: Tls { trust: Trust::Anyone, name, ..Tls::default() },
        doh: Doh { path: format!("/{path}"), method: options.doh_method },
        ..Streams::default()
    })
}
