//! Servers that this program starts: confined to CPUs, watched, and ended whatever happens.

use anyhow::{Context, Result, bail};
use nodens_wire::{Name, Type};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(20);
/// How long one query of the start-up check is waited for.
const ASK_MAX: Duration = Duration::from_millis(200);
/// How much of a log is shown when a server does not start.
const LOG_TAIL: usize = 12;

/// A server process. It is killed when the value goes, and when this process ends in any way.
pub(crate) struct Server {
    name: String,
    child: Child,
    log: PathBuf,
}

/// What the scheduler knows about a process, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// CPU time used.
    pub(crate) ran: Duration,
    /// Time that threads could have run and did not, because others had the CPU.
    pub(crate) waited: Duration,
}

impl Account {
    /// That of one thread, given its folder under `/proc`.
    pub(crate) fn read(task: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(|text| text.parse().unwrap_or(0));
        let mut next = || Duration::from_nanos(numbers.next().unwrap_or(0));
        Some(Self { ran: next(), waited: next() })
    }

    /// What was added since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(earlier.ran),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }
}

impl Server {
    /// Starts `command` on `cpus` (anywhere if empty) with its output in `log`.
    pub(crate) fn start(
        name: &str,
        command: &mut Command,
        cpus: &[usize],
        log: &Path,
    ) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let command = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = lab_sys::cpu::spawn_confined(command, cpus)
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Asks `address` for `name` until there is an answer without an error.
    pub(crate) fn await_answer(
        &mut self,
        address: SocketAddr,
        name: &Name,
        stop: &AtomicBool,
    ) -> Result<()> {
        let mut workload = lab_load::Workload::new(1);
        workload.push(name.view(), Type::A, None);
        let mut query = Vec::new();
        workload.append(0, 0x4e6f, &mut query);
        self.await_response(address, &query, |rcode| rcode == 0, stop)
    }

    /// Asks `address` with `query` until there is a response whose RCODE is accepted.
    pub(crate) fn await_response(
        &mut self,
        address: SocketAddr,
        query: &[u8],
        accept: impl Fn(u8) -> bool,
        stop: &AtomicBool,
    ) -> Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(ASK_MAX))?;
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}):\n{}", self.name, self.tail());
            }
            if begin.elapsed() > START_MAX {
                bail!("{} did not answer within {START_MAX:?}:\n{}", self.name, self.tail());
            }
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let mut response = [0; 512];
            // Refused while no process listens yet: asking again is all there is to do.
            let got = socket.send(query).and_then(|_| socket.recv(&mut response));
            let rcode = response.get(3).map_or(15, |octet| octet & 15);
            if got.is_ok_and(|len| len >= 12) && accept(rcode) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let skip = lines.len().saturating_sub(LOG_TAIL);
        lines.iter().skip(skip).map(|line| format!("  {line}\n")).collect()
    }

    /// Fails if it has ended, with the last lines of its log.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} has ended ({status}):\n{}", self.name, self.tail()),
            None => Ok(()),
        }
    }

    /// Asks it to end, as Ctrl-C does, and waits for so long that it does; how long it took.
    pub(crate) fn end(mut self, patience: Duration) -> Result<Duration> {
        let begin = Instant::now();
        lab_sys::process::interrupt(&mut self.child)?;
        while self.child.try_wait()?.is_none() {
            if begin.elapsed() > patience {
                bail!("{} did not end within {patience:?}:\n{}", self.name, self.tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(begin.elapsed())
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The scheduler's account of all threads so far, those of child processes among them.
    pub(crate) fn account(&self) -> Result<Account> {
        let mut total = Account::default();
        for process in family(self.child.id()) {
            for task in tasks(process) {
                // A thread that ends between the two reads takes its account with it.
                let Some(account) = Account::read(&task) else { continue };
                total.ran += account.ran;
                total.waited += account.waited;
            }
        }
        if tasks(self.child.id()).next().is_none() {
            bail!("{} has ended:\n{}", self.name, self.tail());
        }
        Ok(total)
    }

    /// CPU time so far of the processes of the server that there are now, with that of threads that ended.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let own = self.child.id();
        let others = family(own).into_iter().filter(|process| *process != own);
        // One that ends between the two reads takes its time with it.
        let others = others.filter_map(|process| lab_sys::cpu::process_time(process).ok());
        Ok(lab_sys::cpu::process_time(own)? + others.sum::<Duration>())
    }

    /// Octets of memory that are no file's, of all processes of the server.
    pub(crate) fn anonymous(&self) -> Option<u64> {
        anonymous(self.child.id())
    }

    /// Octets of memory in use now, by all processes of the server; what several have in common
    /// counts once, files that are mapped count as far as they are in memory.
    pub(crate) fn proportional(&self) -> Option<u64> {
        // One may have ended meanwhile.
        family(self.child.id()).into_iter().filter_map(proportional).reduce(|all, one| all + one)
    }

    /// The most octets of memory that one of its processes ever had in use.
    pub(crate) fn peak(&self) -> Option<u64> {
        family(self.child.id()).into_iter().filter_map(|one| memory(one, "VmHWM:")).max()
    }

    /// Octets of memory in use now, by all processes of the server.
    pub(crate) fn resident(&self) -> Option<u64> {
        family(self.child.id()).into_iter().map(resident).sum()
    }
}

/// Octets of memory that are no file's, of a process and all that it has started.
pub(crate) fn anonymous(process: u32) -> Option<u64> {
    family(process).into_iter().map(|one| memory(one, "RssAnon:")).sum()
}

fn resident(process: u32) -> Option<u64> {
    memory(process, "VmRSS:")
}

fn proportional(process: u32) -> Option<u64> {
    kib(&format!("/proc/{process}/smaps_rollup"), "Pss:")
}

fn memory(process: u32, field: &str) -> Option<u64> {
    kib(&format!("/proc/{process}/status"), field)
}

/// A number of KiB in a file of the kernel, as octets.
fn kib(file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The folders of a process's threads under `/proc`.
fn tasks(process: u32) -> impl Iterator<Item = PathBuf> {
    let folder = std::fs::read_dir(format!("/proc/{process}/task"));
    folder.into_iter().flatten().flatten().map(|task| task.path())
}

/// A process and all that it has started and that still run.
pub(crate) fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        at += 1;
        for task in tasks(parent) {
            let children = std::fs::read_to_string(task.join("children")).unwrap_or_default();
            all.extend(children.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    all
}

impl Drop for Server {
    fn drop(&mut self) {
        // Children would outlive a parent that has no time to end them.
        let family = family(self.child.id());
        // An error means that it has already ended.
        _ = self.child.kill();
        for process in family.into_iter().skip(1) {
            _ = lab_sys::cpu::kill(process);
        }
        _ = self.child.wait();
    }
}

/// Where ports of servers are taken from: the kernel gives none of these to clients by itself, and
/// a connection that has ended keeps none of them.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// A loopback address whose port is free for UDP and TCP at this moment. The same port is given
/// again only after all others.
pub(crate) fn free_address() -> Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    for _ in PORTS {
        let step = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (step % PORTS.len() as u32) as u16;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("found no port from {} to {} that is free for UDP and TCP", PORTS.start, PORTS.end - 1)
}

/// Where `program` is, in `PATH` or where programs for the administrator are.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(more);
    folders.map(|folder| folder.join(program)).find(|program| program.is_file())
}

/// A directory for files of this run, removed with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nodens-lab-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An empty folder of this name.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in the temporary directory does no harm.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_shows_its_log() {
        let scratch = Scratch::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason; exit 3"]);
        let log = scratch.path().join("log");
        let mut server = Server::start("sh", &mut command, &[], &log).unwrap();
        let (address, stop) = (free_address().unwrap(), AtomicBool::new(false));
        let error = server.await_answer(address, &Name::root(), &stop).unwrap_err().to_string();
        assert!(error.contains("sh ended at once (exit status: 3)"), "{error}");
        assert!(error.contains("the reason"), "{error}");
    }

    #[test]
    fn ports_of_servers_are_none_that_clients_get() {
        let [first, second] = [free_address().unwrap(), free_address().unwrap()];
        assert_ne!(first, second);
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        assert!(PORTS.contains(&first.port()) && !PORTS.contains(&client.port()), "{client}");
        // A port that is in use is passed over.
        let taken: Vec<_> = (0..4).map(|_| free_address().unwrap()).collect();
        let sockets: Vec<_> = taken.iter().map(|at| UdpSocket::bind(at).unwrap()).collect();
        assert!((0..4).all(|_| !taken.contains(&free_address().unwrap())));
        drop(sockets);
    }

    #[test]
    fn cpu_is_that_of_all_processes_of_a_server() {
        let scratch = Scratch::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'while :; do :; done' & wait"]);
        let server = Server::start("sh", &mut command, &[], &scratch.path().join("log3")).unwrap();
        let begin = Instant::now();
        while server.cpu().unwrap() < Duration::from_millis(100) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", server.cpu());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(lab_sys::cpu::process_time(server.pid()).unwrap() < Duration::from_millis(100));
    }

    #[test]
    fn a_server_is_gone_when_its_value_goes() {
        let scratch = Scratch::new().unwrap();
        let log = scratch.path().join("log2");
        let mut command = Command::new("sleep");
        let server = Server::start("sleep", command.arg("600"), &[], &log).unwrap();
        let status = format!("/proc/{}/status", server.child.id());
        assert!(server.account().is_ok() && Path::new(&status).exists());
        drop(server);
        assert!(!Path::new(&status).exists());
    }
}
