//! What a server has used so far: CPU time and memory, from counters that only grow.

use crate::child::Server;
use anyhow::{Context, Result, anyhow, bail};
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a metrics endpoint may take, from the connection to the last octet.
const HTTP_MAX: Duration = Duration::from_secs(3);
/// Octets of metrics that are read at most.
const HTTP_LEN_MAX: u64 = 32 << 20;

/// Where the counters of a server are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    /// The kernel's account of a process, to the nanosecond, threads that have ended included.
    Process(u32),
    /// A control group (version 2), by its folder.
    Cgroup(PathBuf),
    /// A page in Prometheus' format.
    Prometheus(Endpoint),
    /// Nowhere: only latency and loss are compared.
    Nowhere,
}

/// A page that is fetched by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Host and port.
    pub(crate) authority: String,
    pub(crate) path: String,
    /// What the host's name stood for when the page was first fetched: later it may stand for another
    /// server, whose counters say nothing about this one.
    address: OnceLock<SocketAddr>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// CPU time used since the start.
    pub(crate) cpu: Option<Duration>,
    /// Octets of memory in use now.
    pub(crate) memory: Option<u64>,
    /// When the server was started, in the unit of its counters: another time is another server.
    pub(crate) started: Option<f64>,
}

/// Why CPU time between two readings is not known.
pub(crate) const RESTARTED: &str = "the server was restarted: its CPU time is unknown";

impl Reading {
    /// CPU time used until `later`; `None` where it is not counted.
    ///
    /// # Errors
    ///
    /// That the counters of `later` are those of another start.
    pub(crate) fn used_until(self, later: Self) -> Result<Option<Duration>, &'static str> {
        if self.started != later.started {
            return Err(RESTARTED);
        }
        // Where no start is known, a counter that went back tells of one.
        let Some((before, after)) = self.cpu.zip(later.cpu) else { return Ok(None) };
        after.checked_sub(before).map(Some).ok_or(RESTARTED)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}: CPU clock, proportional set size"),
            Self::Cgroup(path) => write!(f, "control group {}", path.display()),
            Self::Prometheus(Endpoint { authority, path, .. }) => {
                write!(f, "http://{authority}{path}")
            }
            Self::Nowhere => write!(f, "none"),
        }
    }
}

impl std::str::FromStr for Endpoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("http://").with_context(|| {
            format!("`{text}`: expected http://HOST:PORT/PATH (HTTPS is not supported)")
        })?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        if authority.is_empty() {
            bail!("`{text}` names no host");
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        Ok(Self::new(authority, format!("/{path}")))
    }
}

impl Endpoint {
    pub(crate) fn new(authority: String, path: String) -> Self {
        Self { authority, path, address: OnceLock::new() }
    }
}

impl Counters {
    /// Refuses counters that are, or contain, those of this program: its work would count as the
    /// server's.
    pub(crate) fn refuse_own(&self) -> Result<()> {
        let own = std::process::id();
        match self {
            // To the kernel, 0 is the process that asks.
            Self::Process(0) => bail!("process 0 cannot be a server, expected the ID of a process"),
            Self::Process(pid) if leader(*pid) == Some(own) => {
                bail!("process {pid} is this load generator and not the server")
            }
            Self::Cgroup(folder) if holds(folder, own) => bail!(
                "control group {} contains this load generator, whose CPU time would count as the \
                 server's: name the server's own group, or start the load in another",
                folder.display()
            ),
            _ => Ok(()),
        }
    }

    /// Reads the counters. A server that has gone is an error.
    pub(crate) fn read(&self) -> Result<Reading> {
        match self {
            Self::Process(pid) => process(*pid),
            Self::Cgroup(path) => cgroup(path),
            Self::Prometheus(endpoint) => prometheus(endpoint),
            Self::Nowhere => Ok(Reading::default()),
        }
    }

    /// Those of all processes of a server that was started here.
    pub(crate) fn of_server(server: &Server) -> Result<Reading> {
        let pid = server.pid();
        let cpu = server.cpu().with_context(|| {
            format!("cannot read the CPU time of process {pid} and its children")
        })?;
        let memory = server.proportional().or_else(|| server.resident());
        Ok(Reading { cpu: Some(cpu), memory, started: started(pid) })
    }

    /// Octets of memory in use now, if that costs the server nothing: it is looked for once a second
    /// while the server is measured.
    pub(crate) fn memory(&self) -> Option<u64> {
        match self {
            Self::Process(pid) => field(*pid, "status", "VmRSS:"),
            Self::Cgroup(path) => cgroup(path).ok()?.memory,
            Self::Prometheus(_) | Self::Nowhere => None,
        }
    }
}

/// The process that `pid` is a thread of.
fn leader(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Whether process `pid` is in the control group at `folder` or in one below it. Groups that cannot be
/// read are passed over.
fn holds(folder: &Path, pid: u32) -> bool {
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        let processes = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        if processes.lines().any(|line| line.trim().parse() == Ok(pid)) {
            return true;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        // A link is no folder here: groups have none, and one may lead around in a circle.
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(below.map(|entry| entry.path()));
    }
    false
}

fn process(pid: u32) -> Result<Reading> {
    let cpu = lab_sys::cpu::process_time(pid)
        .with_context(|| format!("cannot read the CPU time of process {pid}"))?;
    let memory = field(pid, "smaps_rollup", "Pss:").or_else(|| field(pid, "status", "VmRSS:"));
    Ok(Reading { cpu: Some(cpu), memory, started: started(pid) })
}

/// Octets that a line of a file of the kernel's about process `pid` names in KiB.
fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1_024)
}

/// When process `pid` was started, in ticks since the machine was.
fn started(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name, which may have any character.
    text.rsplit_once(") ")?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn cgroup(folder: &Path) -> Result<Reading> {
    let number = |file: &str, name: &str| {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.with_context(|| format!("{} has no `{name}`", path.display()))
    };
    let cpu = Duration::from_micros(number("cpu.stat", "usage_usec ")?);
    // The memory controller need not be enabled.
    Ok(Reading { cpu: Some(cpu), memory: number("memory.stat", "anon ").ok(), started: None })
}

fn prometheus(endpoint: &Endpoint) -> Result<Reading> {
    let whole = format!("http://{}{}", endpoint.authority, endpoint.path);
    let text = get(endpoint).with_context(|| format!("cannot read {whole}"))?;
    let name = "process_cpu_seconds_total";
    let seconds = sample(&text, name).with_context(|| format!("{whole} has no `{name}`"))?;
    let cpu = Duration::try_from_secs_f64(seconds).with_context(|| format!("{whole}: {name}"))?;
    let memory = sample(&text, "process_resident_memory_bytes").map(|octets| octets as u64);
    Ok(Reading { cpu: Some(cpu), memory, started: sample(&text, "process_start_time_seconds") })
}

/// The sum of all samples of a metric.
fn sample(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        let rest = rest.rsplit_once('}').map_or(rest, |(_, rest)| rest);
        rest.split_ascii_whitespace().next()?.parse::<f64>().ok()
    });
    let values: Vec<_> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// A page that is there.
pub(crate) fn get(endpoint: &Endpoint) -> Result<String> {
    let (status, body) = fetch(endpoint)?;
    if code(&status) != Some("200") {
        bail!("`{status}`, expected status 200");
    }
    Ok(body)
}

/// The code on the line of the status.
pub(crate) fn code(status: &str) -> Option<&str> {
    status.split_ascii_whitespace().nth(1)
}

/// The line of the status and the body, whatever the status. HTTP/1.0, so that the answer is not cut
/// into chunks and ends with the connection.
pub(crate) fn fetch(endpoint: &Endpoint) -> Result<(String, String)> {
    let Endpoint { authority, path, address } = endpoint;
    let address = match address.get() {
        Some(address) => *address,
        None => {
            let found = authority.to_socket_addrs()?.next().context("the host has no address")?;
            *address.get_or_init(|| found)
        }
    };
    let until = Instant::now() + HTTP_MAX;
    let mut stream = TcpStream::connect_timeout(&address, HTTP_MAX)?;
    stream.set_write_timeout(Some(HTTP_MAX))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\n\r\n")?;
    let octets = read_until(&stream, until)?;
    let text = String::from_utf8_lossy(&octets);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| anyhow!("no HTTP answer"))?;
    let status = head.lines().next().unwrap_or_default();
    Ok((status.to_owned(), body.to_owned()))
}

/// What comes up to the end of the connection, which must be there in time: an octet now and then is
/// no reason to wait on.
fn read_until(stream: &TcpStream, until: Instant) -> Result<Vec<u8>> {
    let (mut stream, mut octets) = (stream.take(HTTP_LEN_MAX), Vec::new());
    let mut part = [0; 1 << 14];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        anyhow::ensure!(!left.is_zero(), "timed out after {HTTP_MAX:?}");
        stream.get_ref().set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(octets),
            len => octets.extend_from_slice(part.get(..len).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    #[test]
    fn this_process_has_used_time_and_memory() {
        let counters = Counters::Process(std::process::id());
        let before = counters.read().unwrap();
        std::hint::black_box((0..3_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
        let after = counters.read().unwrap();
        assert!(after.cpu > before.cpu && after.memory > Some(100_000));
        let gone = Counters::Process(u32::MAX >> 4).read().unwrap_err().to_string();
        assert!(gone.contains("CPU time of process"), "{gone}");
    }

    #[test]
    fn cpu_time_of_two_starts_is_no_number() {
        let at =
            |cpu, started| Reading { cpu: Some(Duration::from_secs(cpu)), memory: None, started };
        let used = |before: Reading, after| before.used_until(after);
        assert_eq!(used(at(1, Some(5.0)), at(3, Some(5.0))), Ok(Some(Duration::from_secs(2))));
        assert_eq!(used(at(1, Some(5.0)), at(3, Some(6.0))), Err(RESTARTED));
        assert_eq!(used(at(3, None), at(1, None)), Err(RESTARTED));
        assert_eq!(used(Reading::default(), Reading::default()), Ok(None));
    }

    #[test]
    fn a_control_group_is_read_and_a_missing_file_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        let counters = Counters::Cgroup(folder.path().to_owned());
        assert!(counters.read().unwrap_err().to_string().contains("cpu.stat"));
        write("cpu.stat", "usage_usec 1500000\nuser_usec 1\n").unwrap();
        let reading = counters.read().unwrap();
        assert_eq!((reading.cpu, reading.memory), (Some(Duration::from_millis(1_500)), None));
        write("memory.stat", "anon 4096\nfile 8192\n").unwrap();
        assert_eq!(counters.read().unwrap().memory, Some(4_096));
    }

    #[test]
    fn counters_that_hold_those_of_the_generator_are_refused() {
        let own = std::process::id();
        let refused = |counters: Counters| counters.refuse_own().unwrap_err().to_string();
        assert_eq!(
            refused(Counters::Process(0)),
            "process 0 cannot be a server, expected the ID of a process"
        );
        assert!(refused(Counters::Process(own)).contains("is this load generator"));
        assert!(Counters::Process(std::os::unix::process::parent_id()).refuse_own().is_ok());
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let write = |text: String| std::fs::write(below.join("cgroup.procs"), text).unwrap();
        let group = || Counters::Cgroup(folder.path().to_owned());
        write(format!("1\n{own}1\n"));
        assert!(group().refuse_own().is_ok());
        write(format!("1\n{own}\n"));
        assert!(refused(group()).contains("contains this load generator"));
    }

    #[test]
    fn a_page_of_metrics_is_fetched_and_summed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for page in ["200 OK", "500 Oops"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let body = "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 1.25\n\
                            process_cpu_seconds_totally 9\nprocess_resident_memory_bytes 2.5e+07\n";
                write!(stream, "HTTP/1.1 {page}\r\nServer: x\r\n\r\n{body}").unwrap();
            }
        });
        let counters = Counters::Prometheus(url.parse().unwrap());
        let reading = counters.read().unwrap();
        assert_eq!(reading.cpu, Some(Duration::from_millis(1_250)));
        assert_eq!(reading.memory, Some(25_000_000));
        let error = format!("{:#}", counters.read().unwrap_err());
        assert!(error.contains("500 Oops") && error.contains("/metrics"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn a_page_that_comes_octet_by_octet_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, _) = listener.accept().unwrap();
        server.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        // The time is over, whatever has come.
        let error = read_until(&client, Instant::now()).unwrap_err().to_string();
        assert!(error.contains("timed out"), "{error}");
    }

    #[test]
    fn a_host_is_looked_up_once() {
        let endpoint: Endpoint = "http://no-such-host.invalid:9153".parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        endpoint.address.set(listener.local_addr().unwrap()).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            write!(stream, "HTTP/1.0 200 OK\r\n\r\nprocess_start_time_seconds 7.5\n").unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            _ = stream.read_to_end(&mut Vec::new());
        });
        assert_eq!(sample(&get(&endpoint).unwrap(), "process_start_time_seconds"), Some(7.5));
        server.join().unwrap();
    }

    #[test]
    fn a_process_has_a_time_of_its_start() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, its) = (started(std::process::id()).unwrap(), started(child.id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(its >= own && own > 0.0, "{own} {its}");
    }

    #[test]
    fn samples_with_labels_add_up() {
        assert_eq!(sample("a{x=\"1\"} 1 99\na{x=\"}\"} 2\nab 7\n", "a"), Some(3.0));
        assert_eq!(sample("ab 7\n", "a"), None);
    }

    #[test]
    fn endpoints_need_a_scheme_and_a_host() {
        let endpoint: Endpoint = "http://10.0.0.1".parse().unwrap();
        assert_eq!((&*endpoint.authority, &*endpoint.path), ("10.0.0.1:80", "/metrics"));
        assert!("https://x/metrics".parse::<Endpoint>().is_err());
        assert!("http:///metrics".parse::<Endpoint>().is_err());
    }
}
