//! `nodens-lab tap`: what servers write as dnstap to a socket, as a file.

use crate::listen::{self, Arrived};
use crate::term::{self, Table};
use anyhow::{Context, Result, bail};
use lab_workload::dnstap::{Role, Writer};
use lab_workload::recorded::Content;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Faults that are shown one by one.
const FAULTS_SHOWN: usize = 10;
/// Octets that are written at once while many come.
const PENDING_MAX: usize = 256 << 10;

/// Arguments of `tap`.
#[derive(clap::Args)]
#[command(after_help = "\
The file is dnstap in Frame Streams: replay, load --capture, search --capture and zones read it; with -o - \
also while it grows, as `nodens-lab tap --listen ./tap.sock -o - | nodens-lab zones - -o rebuilt`.")]
pub(crate) struct Args {
    /// Where servers connect: a path (also as unix:PATH), or an address with port.
    #[arg(long, value_name = "SOCKET")]
    listen: String,
    /// File to write, which must not exist or be empty; - is standard output.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// How long to listen [default: until all servers that connected have ended, or Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = lab_units::nanos)]
    duration: Option<u64>,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let mut output = Output::open(&args.out)?;
    let mut seen = Seen::default();
    let duration = args.duration.map(Duration::from_nanos);
    let taken = listen::arrivals(&args.listen, duration, &Role::ALL, stop, &mut |arrived| {
        let Some(arrived) = arrived else { return output.flush() };
        seen.push(&arrived);
        arrived.frame.map_or(Ok(()), |frame| output.push(&frame))
    });
    taken.and_then(|()| output.stop())?;
    let text = seen.told(&args.out.display().to_string());
    if args.out == Path::new("-") {
        term::note(&text)
    } else {
        term::out(&text)
    }
    if seen.messages() == 0 {
        bail!("no message came, expected a server that writes dnstap to {}", args.listen);
    }
    Ok(ExitCode::SUCCESS)
}

/// The file. It ends with a whole frame whenever it is written to, and where it cannot be.
struct Output {
    path: PathBuf,
    /// The file, if it is one that can be cut.
    file: Option<File>,
    to: Box<dyn Write>,
    /// Frames that are not written yet.
    pending: Writer<Vec<u8>>,
    frames: u64,
    /// Octets and frames that are in the file.
    written: (u64, u64),
}

impl Output {
    fn open(path: &Path) -> Result<Self> {
        let (file, to): (_, Box<dyn Write>) = match path == Path::new("-") {
            true => (None, Box::new(io::stdout())),
            false => {
                let file = created(path)?;
                let is_file = file.metadata().is_ok_and(|data| data.is_file());
                let again = is_file.then(|| file.try_clone()).transpose()?;
                (again, Box::new(file))
            }
        };
        let pending = Writer::start(Vec::new())?;
        Ok(Self { path: path.to_owned(), file, to, pending, frames: 0, written: (0, 0) })
    }

    fn push(&mut self, frame: &[u8]) -> Result<()> {
        self.pending.frame(frame)?;
        self.frames += 1;
        if self.pending.get_mut().len() >= PENDING_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes what is there, so that others can read it.
    fn flush(&mut self) -> Result<()> {
        let octets = std::mem::take(self.pending.get_mut());
        if octets.is_empty() {
            return Ok(());
        }
        self.write(&octets)
    }

    fn stop(mut self) -> Result<()> {
        self.flush()?;
        let pending = std::mem::replace(&mut self.pending, Writer::start(Vec::new())?);
        self.write(&pending.stop()?)
    }

    fn write(&mut self, octets: &[u8]) -> Result<()> {
        if let Err(error) = self.to.write_all(octets).and_then(|()| self.to.flush()) {
            let (len, frames) = self.written;
            // A part of a frame would be an error of the whole file.
            let is_cut = self.file.as_ref().is_some_and(|file| file.set_len(len).is_ok());
            let left = if is_cut {
                format!("; it has the {} before", term::of(frames as usize, "message"))
            } else {
                String::new()
            };
            return Err(error)
                .with_context(|| format!("cannot write {}{left}", self.path.display()));
        }
        self.written = (self.written.0 + octets.len() as u64, self.frames);
        Ok(())
    }
}

/// A file in which nothing is lost: a new or an empty one, or none on a disk.
pub(crate) fn created(path: &Path) -> Result<File> {
    if path.metadata().is_ok_and(|data| data.is_file() && data.len() > 0) {
        bail!("{} is not empty, expected a new or an empty file", path.display());
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// What came.
#[derive(Default)]
struct Seen {
    /// Queries and responses of each role.
    roles: [[u64; 2]; Role::ALL.len()],
    writers: BTreeSet<usize>,
    faults: usize,
    /// The first and the last time of a message.
    span: Option<(u64, u64)>,
}

impl Seen {
    fn push(&mut self, arrived: &Arrived) {
        self.writers.insert(arrived.writer);
        match &arrived.message {
            Ok(record) => {
                let (first, last) = self.span.unwrap_or((record.time, record.time));
                self.span = Some((first.min(record.time), last.max(record.time)));
                let at = Role::ALL.iter().position(|role| Some(*role) == arrived.role);
                let is_response = matches!(record.content, Content::Response(_));
                let counts = at.and_then(|at| self.roles.get_mut(at));
                if let Some(count) = counts.and_then(|of| of.get_mut(usize::from(is_response))) {
                    *count += 1;
                }
            }
            Err(broken) => {
                self.faults += 1;
                if self.faults <= FAULTS_SHOWN {
                    term::note(&broken.to_string());
                }
            }
        }
    }

    fn messages(&self) -> u64 {
        self.roles.as_flattened().iter().sum()
    }

    fn told(&self, name: &str) -> String {
        let (first, last) = self.span.unwrap_or_default();
        let mut text = format!(
            "{name}: {} of {} in {}",
            term::of(self.messages() as usize, "message"),
            term::of(self.writers.len(), "writer"),
            term::nanos((last - first) as f64)
        );
        if self.faults > 0 {
            text += &format!(", and {} that cannot be read", term::count(self.faults as u64));
        }
        let mut table = Table::new(&["--dnstap-role", "queries", "responses"]);
        let mut any = false;
        for (role, [queries, responses]) in Role::ALL.iter().zip(self.roles) {
            if queries + responses > 0 {
                any = true;
                let name = format!("{role:?}").to_lowercase();
                table.row(vec![name, term::count(queries), term::count(responses)]);
            }
        }
        if any { format!("{text}\n{}", table.framed().trim_end()) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_workload::dnstap::Reader;

    /// A disk with room for some octets.
    struct Full {
        file: File,
        left: usize,
    }

    impl Write for Full {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = self.file.write(&octets[..octets.len().min(self.left)])?;
            self.left -= written;
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_file_on_a_full_disk_ends_with_a_whole_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tap.fstrm");
        let mut output = Output::open(&path).unwrap();
        output.flush().unwrap();
        let begun = output.written.0 as usize;
        output.to =
            Box::new(Full { file: File::options().append(true).open(&path).unwrap(), left: 25 });
        output.push(b"0123456789").unwrap();
        output.flush().unwrap();
        // The next ends after 11 of its 14 octets.
        output.push(b"0123456789").unwrap();
        let error = format!("{:#}", output.flush().unwrap_err());
        let expected = format!("cannot write {}; it has the 1 message before: ", path.display());
        assert!(error.starts_with(&expected), "{error}");
        let octets = std::fs::read(&path).unwrap();
        assert_eq!(octets.len(), begun + 14);
        let mut reader = Reader::new(&*octets).unwrap();
        assert!(!reader.next().unwrap().unwrap_err().is_end());
        let error = reader.next().unwrap().unwrap_err().to_string();
        assert!(
            error.ends_with("the stream ends without STOP; what was before is whole"),
            "{error}"
        );
    }
}
