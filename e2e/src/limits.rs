//! `nodens-e2e limits`: whatever is asked, and with however many workers, the server stays below nine tenths of its
//! memory limit.
//!
//! For each limit and number of workers a server starts in a control group with that limit. Then, one after the other and
//! each on top of what the ones before left: it is idle; new names fill its cache; new names wait for an upstream that
//! never answers; clients leave large answers unread; and a successor takes over while new names are asked. Memory is
//! that of the group, the kernel's part included, less files that were not used lately, as kubelets count it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as Arguments;
use lab_load::Workload;
use nodens_wire::framing::framed;
use nodens_wire::{Name, Type};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::cgroup::MemoryGroup;
use crate::measure::steady::Steady;
use crate::measure::table::{Table, mebibytes};
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::server::{Program, Server};

/// Of ten parts of the limit so many may be used.
const USED_TENTHS: u64 = 9;

/// Where the server under test takes queries, and where its metrics are.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5300);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9253);

/// How long it may take to be full, or to hand over, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long new names wait for an upstream, and large answers are left unread.
const PRESSURE: Duration = Duration::from_secs(6);

/// New names a second while these wait.
const WAITING_RATE: f64 = 2000.0;

/// Connections that read nothing, from so many addresses, and queries that each asks at once.
const UNREAD: usize = 400;
const ADDRESSES: usize = 8;
const QUERIES: usize = 24;

/// Records of a large answer, of a quarter of a KiB each.
const RECORDS: usize = 220;

#[derive(Arguments)]
pub(crate) struct Args {
    /// Limits in MiB: those of deploy/cluster and deploy/node.
    #[arg(long, value_delimiter = ',', default_value = "170,192")]
    limits: Vec<u64>,
    /// Workers that are asked for, whatever CPUs there are.
    #[arg(long, value_delimiter = ',', default_value = "1,16,96,192,256")]
    workers: Vec<usize>,
    /// New names a second that fill the cache.
    #[arg(long, default_value_t = 8000.0)]
    rate: f64,
    /// Only the lower limit with the most workers.
    #[arg(long)]
    quick: bool,
    /// The program that is Nodens [default: the one beside this program].
    #[arg(long)]
    program: Option<PathBuf>,
}

/// The most memory of each part of a run, in octets.
#[derive(Debug)]
struct Peaks {
    given: String,
    /// Entries of the full cache.
    entries: u64,
    parts: Vec<u64>,
    killed: bool,
}

const PARTS: [&str; 5] = ["idle", "full cache", "names in flight", "unread", "hand-over"];

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let program = match &args.program {
        Some(path) => Program::Nodens(path.canonicalize().context(path.display().to_string())?),
        None => Program::nodens()?,
    };
    let least = args.limits.iter().min().copied().context("no limit")?;
    let most = args.workers.iter().max().copied().context("no number of workers")?;
    let (limits, workers) = match args.quick {
        true => (vec![least], vec![most]),
        false => (args.limits.clone(), args.workers.clone()),
    };
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut central = Server::start(sandbox, &program, "central", &central(), &[])?;
    central.ready().await?;
    let upstreams = (central.address(), silent.local_addr()?);
    let head = ["limit", "asked for", "workers", "entries"].into_iter().chain(PARTS);
    let mut table = Table::new(&head.chain(["share", ""]).collect::<Vec<_>>());
    let mut missed = 0;
    for limit in limits {
        for workers in &workers {
            let group = MemoryGroup::of_run(sandbox.name(), limit << 20)?;
            let peaks = measure(args, sandbox, &program, upstreams, *workers, group).await?;
            let most = peaks.parts.iter().max().copied().unwrap_or_default();
            let is_missed = peaks.killed || most > (limit << 20) / 10 * USED_TENTHS;
            missed += usize::from(is_missed);
            let mut row = vec![format!("{limit} MiB"), workers.to_string(), peaks.given];
            row.push(peaks.entries.to_string());
            row.extend(peaks.parts.into_iter().map(mebibytes));
            row.push(format!("{:.0} %", 100.0 * most as f64 / (limit << 20) as f64));
            row.push(
                if peaks.killed {
                    "KILLED"
                } else if is_missed {
                    "MISSED"
                } else {
                    ""
                }
                .to_owned(),
            );
            eprintln!("{}", row.join("  "));
            table.row(row);
        }
    }
    println!("\n{table}");
    println!("{missed} beyond nine tenths of the limit, or killed");
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names below `large` have many records, all others a short text.
fn central() -> String {
    let text = "x".repeat(230);
    let records: String = (0..RECORDS)
        .map(|n| format!("        answer \"{{{{ .Name }}}} 3600 IN TXT {n}-{text}\"\n"))
        .collect();
    let short = "y".repeat(200);
    format!(
        ".:{{$PORT}} {{
    bind 127.0.0.1
    template IN TXT large {{
{records}    }}
    template IN TXT {{
        answer \"{{{{ .Name }}}} 3600 IN TXT {short}\"
    }}
}}
"
    )
}

fn corefile((central, silent): (SocketAddr, SocketAddr)) -> String {
    let (ip, port) = (ADDRESS.ip(), ADDRESS.port());
    format!(
        ".:{port} {{
    bind {ip}
    errors
    cache 3600
    forward . {central} {{
        force_tcp
    }}
    prometheus {METRICS}
}}
silent:{port} {{
    bind {ip}
    cache 3600
    forward . {silent}
    prometheus {METRICS}
}}
"
    )
}

/// One server through all parts.
async fn measure(
    args: &Args,
    sandbox: &Sandbox,
    program: &Program,
    upstreams: (SocketAddr, SocketAddr),
    workers: usize,
    group: MemoryGroup,
) -> Result<Peaks> {
    let kills = group.kills()?;
    let mut server = start(sandbox, program, upstreams, workers, &group)?;
    let watch = Watch::start(group);
    let result = press(args, &mut server, &watch).await;
    server.stop().await?;
    let group = watch.end()?;
    let killed = group.kills()? > kills;
    group.forget();
    let mut peaks = match result {
        Ok(peaks) => peaks,
        // It cannot continue: what has been measured is missing, and why is said.
        Err(error) if killed => {
            eprintln!("{error:#}");
            Peaks { given: "?".to_owned(), entries: 0, parts: vec![0; PARTS.len()], killed }
        }
        Err(error) => return Err(error),
    };
    peaks.killed = killed;
    Ok(peaks)
}

async fn press(args: &Args, server: &mut Process, watch: &Watch) -> Result<Peaks> {
    until(server, "to listen", |_| std::net::TcpStream::connect(ADDRESS).is_ok()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut parts = vec![watch.take()];
    let started = Instant::now();
    let mut seed = 1;
    while metric("coredns_cache_evictions_total")? == 0.0 {
        ensure!(started.elapsed() < PATIENCE, "the cache is not full in time");
        ensure!(server.runs(), "it ended: {}", server.last_words());
        ask("full.", args.rate, Duration::from_secs(2), seed).await?;
        seed += 1;
    }
    let entries = metric("coredns_cache_entries")?;
    parts.push(watch.take());
    ask("silent.", WAITING_RATE, PRESSURE, seed).await?;
    parts.push(watch.take());
    let clients = leave_unread().await?;
    tokio::time::sleep(PRESSURE).await;
    parts.push(watch.take());
    drop(clients);
    let asking = tokio::spawn(ask("more.", args.rate / 4.0, PRESSURE, seed + 1));
    server.signal(Signal::USR2)?;
    let gone = "the process that ran before is gone";
    until(server, "to hand over", |server| server.log().contains(gone)).await?;
    asking.await??;
    parts.push(watch.take());
    ensure!(server.runs(), "it ended: {}", server.last_words());
    ask("after.", 100.0, Duration::from_secs(1), seed + 2).await?;
    ensure!(parts.iter().all(|octets| *octets > 0), "the group's memory was not seen");
    let given = given(&server.log()).context("it does not say how many workers there are")?;
    Ok(Peaks { given, entries: entries as u64, parts, killed: false })
}

/// How many workers there are, as the start line says.
fn given(log: &str) -> Option<String> {
    let (_, line) = log.split_once("memory: at most ")?;
    let (_, parts) = line.split_once(": ")?;
    parts.split(' ').next().map(str::to_owned)
}

/// Starts the server in the group, so that it knows the limit from the beginning.
fn start(
    sandbox: &Sandbox,
    program: &Program,
    upstreams: (SocketAddr, SocketAddr),
    workers: usize,
    group: &MemoryGroup,
) -> Result<Process> {
    let Program::Nodens(path) = program else { bail!("no Nodens") };
    let folder = sandbox.folder("servers/limits")?;
    std::fs::write(folder.join("Corefile"), corefile(upstreams))?;
    // What earlier servers said is memory too.
    _ = std::fs::remove_file(folder.join("log"));
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.processes());
    command.arg(path).args(["-conf", "Corefile", "-workers", &workers.to_string()]);
    command.args(["-top", "-top-socket", ""]).current_dir(&folder);
    Process::start("limits", command, folder.join("log"))
}

async fn until(
    server: &mut Process,
    what: &str,
    condition: impl Fn(&Process) -> bool,
) -> Result<()> {
    let started = Instant::now();
    while !condition(server) {
        ensure!(server.runs(), "it ended: {}", server.last_words());
        ensure!(started.elapsed() < PATIENCE, "timed out waiting {what}: {}", server.last_words());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Asks for new names.
async fn ask(suffix: &str, rate: f64, duration: Duration, seed: u64) -> Result<()> {
    let steady = Steady { server: ADDRESS, rate, duration, cpus: Vec::new(), seed };
    let suffix = Name::parse(suffix)?;
    steady.start(&Workload::unique(seed, suffix.view(), Type::TXT)?).outcome().await?;
    Ok(())
}

/// Clients that ask for large answers and read none.
async fn leave_unread() -> Result<Vec<TcpStream>> {
    let mut clients = Vec::new();
    for number in 0..UNREAD {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        let last = u8::try_from(number % ADDRESSES)? + 2;
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
        let mut stream = socket.connect(ADDRESS).await?;
        let queries: Vec<u8> =
            (0..QUERIES).flat_map(|n| query(&format!("n{}.large.", n % 8))).collect();
        // The server may close it, which is its right.
        _ = stream.write_all(&queries).await;
        clients.push(stream);
    }
    Ok(clients)
}

/// A query for a text, as it stands in a stream.
fn query(name: &str) -> Vec<u8> {
    let labels = name.split_terminator('.');
    let name: Vec<u8> =
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    let message = [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &name[..], &[0, 0, 16, 0, 1]].concat();
    framed(&message)
}

/// The sum of all series of a metric.
fn metric(family: &str) -> Result<f64> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(METRICS)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let own = text.lines().filter_map(|line| line.strip_prefix(family));
    let series = own.filter(|rest| rest.starts_with(['{', ' ']));
    Ok(series.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Looks all the time at how much the group uses.
struct Watch {
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<MemoryGroup>>,
}

impl Watch {
    fn start(group: MemoryGroup) -> Self {
        let (most, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (most, over) = (most.clone(), over.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    most.fetch_max(group.working()?, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(group)
            }
        });
        Watch { most, over, thread }
    }

    /// The most since the last time.
    fn take(&self) -> u64 {
        self.most.swap(0, Ordering::Relaxed)
    }

    fn end(self) -> Result<MemoryGroup> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the thread that watches memory panicked")?
    }
}
