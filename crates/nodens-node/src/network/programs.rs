//! Other programs, run to their end.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a program may take; it waits 5 seconds for the lock of the packet filter by itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that is killed may take to end.
const KILL_PATIENCE: Duration = Duration::from_millis(500);
/// Where `PATH` of a container often does not lead.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Makes programs give way to who is in a hurry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<Hurries>);

#[derive(Debug, Default)]
struct Hurries {
    /// How many there are now.
    now: AtomicUsize,
    /// How many programs have given way.
    gave_way: AtomicUsize,
}

/// As long as it lives no program is waited for: whatever runs is killed.
#[derive(Debug)]
pub struct Hurry(Arc<Hurries>);

impl Interrupt {
    pub(crate) fn hurry(&self) -> Hurry {
        self.0.now.fetch_add(1, Ordering::AcqRel);
        Hurry(Arc::clone(&self.0))
    }

    /// How many programs have given way so far: what those said that ran meanwhile is not known.
    pub(crate) fn gave_way(&self) -> usize {
        self.0.gave_way.load(Ordering::Relaxed)
    }

    /// Whether a program has to give way.
    fn is_due(&self) -> bool {
        let due = self.0.now.load(Ordering::Acquire) > 0;
        self.0.gave_way.fetch_add(usize::from(due), Ordering::Relaxed);
        due
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The program of this name, if there is one.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// What `program` writes when it reads `input`; what it complains of if it fails.
pub(crate) fn run(
    program: &Path,
    arguments: &[&str],
    input: &str,
    interrupt: &Interrupt,
) -> io::Result<String> {
    let mut output = memory("output")?;
    let mut complaints = memory("complaints")?;
    let mut stdin = memory("input")?;
    stdin.write_all(input.as_bytes())?;
    stdin.rewind()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(stdin));
    command.stdout(Stdio::from(output.try_clone()?)).stderr(Stdio::from(complaints.try_clone()?));
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", program.display()));
    let mut child = command.spawn().map_err(named)?;
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupt.is_due() {
            kill(child);
            return Err(named(io::Error::new(io::ErrorKind::Interrupted, "was not waited for")));
        }
        if started.elapsed() > PATIENCE {
            kill(child);
            let error = io::Error::new(io::ErrorKind::TimedOut, "did not end within 10 seconds");
            return Err(named(error));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    if status.success() {
        return text(&mut output);
    }
    let complaints = text(&mut complaints)?;
    let complaint = complaints.lines().find(|line| !line.trim().is_empty());
    Err(named(io::Error::other(complaint.map_or(status.to_string(), str::to_owned))))
}

/// Ends a program. One that the kernel holds on to ends when it can, and nobody waits for it.
fn kill(mut child: Child) {
    _ = child.kill();
    let until = Instant::now() + KILL_PATIENCE;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Without a thread it stays a zombie until this process ends.
    _ = std::thread::Builder::new().name("program".to_owned()).spawn(move || child.wait());
}

/// A file in memory, for what is longer than a pipe.
fn memory(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut octets = Vec::new();
    file.read_to_end(&mut octets)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_its_input_and_gives_its_output() {
        let cat = find("cat").unwrap();
        let long = "a line\n".repeat(100_000);
        assert_eq!(run(&cat, &[], &long, &Interrupt::default()).unwrap(), long);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let fails = |program: &Path, arguments: &[&str]| {
            run(program, arguments, "", &Interrupt::default()).unwrap_err().to_string()
        };
        let error = fails(&find("cat").unwrap(), &["/no/such/file"]);
        assert!(error.contains("/no/such/file"), "{error}");
        let error = fails(Path::new("/no/such/program"), &[]);
        assert!(error.contains("/no/such/program"), "{error}");
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn a_program_gives_way_to_who_is_in_a_hurry() {
        let interrupt = Interrupt::default();
        let ends = |interrupt: &Interrupt| {
            let started = Instant::now();
            let error = run(&find("sleep").unwrap(), &["600"], "", interrupt).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
            assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
        };
        let hurry = interrupt.hurry();
        ends(&interrupt);
        drop(hurry);
        assert_eq!(interrupt.gave_way(), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| ends(&interrupt));
            std::thread::sleep(Duration::from_millis(50));
            let hurry = interrupt.hurry();
            std::thread::sleep(Duration::from_millis(100));
            drop(hurry);
        });
    }
}
