//! Other programs, run to their end.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take; it waits 5 seconds for the lock of the packet filter by itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where `PATH` of a container often does not lead.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// The program of this name, if there is one.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// What `program` writes when it reads `input`; what it complains of if it fails.
pub(crate) fn run(program: &Path, arguments: &[&str], input: &str) -> io::Result<String> {
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
        if started.elapsed() > PATIENCE {
            _ = child.kill();
            _ = child.wait();
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
        assert_eq!(run(&cat, &[], &long).unwrap(), long);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let error = run(&find("cat").unwrap(), &["/no/such/file"], "").unwrap_err().to_string();
        assert!(error.contains("/no/such/file"), "{error}");
        let error = run(Path::new("/no/such/program"), &[], "").unwrap_err().to_string();
        assert!(error.contains("/no/such/program"), "{error}");
        assert_eq!(find("no-such-program"), None);
    }
}
