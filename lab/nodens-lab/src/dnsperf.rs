//! `nodens-lab dnsperf`: dnsperf's command line and output, our engine.
//!
//! What differs from dnsperf, each because the number would not be true otherwise or because our
//! engine has no such moment:
//!
//! - `-Q` is an open loop: queries leave on schedule and do not wait for answers, where dnsperf
//!   stops at `-q` outstanding ones and becomes a closed loop silently.
//! - `-q` is divided over the clients; with more clients than `-q`, only `-q` of them are used.
//! - Whatever nodens-lab itself has to say goes to standard error, never into dnsperf's text.

mod intervals;
mod lines;
mod options;

use crate::term;
use anyhow::{Context, Result, bail};
use intervals::Intervals;
use lab_load::life::{Amount, Life};
use lab_load::schedule::{Arrivals, Profile};
use lab_load::transport::{Doh, Streams, Tls, Transport, Trust};
use lab_load::{Config, Pace, Spin, Stamps, Workload};
use lab_result::collect::Collector;
use lab_result::export::dnsperf::{self as text, End, Start};
use lab_result::export::{Format, export};
use lab_result::{About, Generator, ResultFile};
use lab_workload::edns::Edns;
use lab_workload::{Style, TypeMix, binary, names, update};
use lines::Lines;
use nodens_wire::Type;
use options::{Family, Options, Parsed};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The UDP payload size that dnsperf announces with EDNS.
const UDP_SIZE: u16 = 4096;
/// How long a run may take that ends with its file: longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The note of every run without `-Q`.
const CLOSED_LOOP: &str = "nodens-lab: without -Q this is a closed loop: a slow answer delays the \
    queries behind it, so rate and latency say how full the window was (-q) and not what clients that \
    do not wait would see";

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
    let (workload, names) = workload(&options)?;
    let mut config = config(&options, &workload)?;
    let collector = Collector::start(config.server, false, &options.keys);
    if text_wanted {
        put(&text::start(&start(&options, &config, &args.arguments)))?;
    }
    let mut intervals = Intervals::new(&options);
    let outcome = std::thread::scope(|scope| {
        if let Some((lines, fates, receiver)) = Lines::wanted(&options, names) {
            config.fates = Some(fates);
            let workload = &workload;
            scope.spawn(move || lines.print(workload, &receiver));
        }
        let outcome = lab_load::run(&config, &workload, stop, |progress| intervals.add(progress));
        // The last of its senders: the lines end here.
        config.fates = None;
        outcome
    })?;
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

/// Prints the result, writes the file if asked for, and prints this program's own notes.
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
    let missing = result.verdict.notes.iter().filter(|note| note.starts_with("nothing listens"));
    missing.for_each(|note| term::note(&format!("nodens-lab: {note}")));
    if options.rate.is_none() {
        term::note(CLOSED_LOOP);
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

/// What is asked, and what each message is called in lines about it.
fn workload(options: &Options) -> Result<(Workload, Vec<String>)> {
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
    let mut shown = Vec::new();
    if options.binary {
        if let Err(fault) = binary::read(&octets, &mut workload) {
            invalid(&fault);
        }
    } else if options.updates {
        update::read(&octets, &style, &mut workload).iter().for_each(|fault| invalid(fault));
        shown = lines::zones(&workload);
    } else {
        let types = TypeMix::only(Type::A);
        let faults = names::read(&octets, &style, &types, 1, &mut workload);
        faults.iter().for_each(|fault| invalid(fault));
        let faulty: BTreeSet<_> = faults.iter().map(|fault| fault.line).collect();
        shown = lines::queries(&octets, &faulty);
    }
    if workload.is_empty() {
        bail!("the input has no {}", if options.updates { "update" } else { "query" });
    }
    if let Some(key) = options.keys.last() {
        workload.set_key(key.clone());
    }
    Ok((workload, shown))
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
        local_port: options.local_port,
        fates: None,
        worker: None,
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
        let needed = lab_load::run::clients_needed(f64::from(rate), options.timeout);
        if let Some(port) = options.local_port.filter(|_| needed > clients) {
            let text = format!(
                "-Q {rate} takes {needed} clients to have IDs for, which send from {needed} ports \
                 from {port} on"
            );
            warn(options, &text);
        }
        clients = clients.max(needed);
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
    let is_https = matches!(options.transport, Transport::Doh | Transport::Doh3);
    let host = is_https.then(|| host.to_owned());
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
