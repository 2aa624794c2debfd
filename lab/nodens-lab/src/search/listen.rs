//! A socket that servers write dnstap to.

use anyhow::{Context, Result, bail};
use lab_workload::dnstap::{FrameError, FrameFault, Reader, Recording, Role};
use lab_workload::recorded::{Broken, Record};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// How often the end is looked for while nothing comes.
const PAUSE: Duration = Duration::from_millis(50);
/// Writers at the same time; more wait.
const WRITERS_MAX: usize = 64;
/// Messages that were read and not taken in yet.
const WAITING_MAX: usize = 1_024;
/// How long a writer may take to read what is said to it.
const PATIENCE: Duration = Duration::from_secs(4);

/// When to end.
#[derive(Clone, Copy)]
struct End<'a> {
    stop: &'a AtomicBool,
    at: Option<Instant>,
}

impl End<'_> {
    fn is_here(self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.at.is_some_and(|at| at <= Instant::now())
    }
}

/// A message of a writer, or what is wrong with it.
type Item = Result<Record, Broken>;

/// Gives the messages of all writers that connect to `socket` to `each`. Ends when `duration` is over or
/// `stop` is set; without a duration also when all writers have ended.
pub(super) fn messages(
    socket: &str,
    duration: Option<Duration>,
    roles: &[Role],
    stop: &AtomicBool,
    each: &mut dyn FnMut(Item) -> Result<()>,
) -> Result<()> {
    let listener = Listener::open(socket)?;
    crate::term::note(&format!("waiting at {} for a server that writes dnstap", listener.place()));
    let end = End { stop, at: duration.map(|duration| Instant::now() + duration) };
    // A server may have several writers, one for each server block. All end when this has ended.
    std::thread::scope(|scope| {
        let (sender, items) = sync_channel(WAITING_MAX);
        let mut writers: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
        let mut are_gone = false;
        while !end.is_here() && !are_gone {
            if writers.len() < WRITERS_MAX
                && let Some(stream) = listener.accept()?
            {
                let sender = sender.clone();
                writers.push(scope.spawn(move || read(Writer { stream, end }, roles, &sender)));
            }
            match items.recv_timeout(PAUSE) {
                Ok(item) => each(item)?,
                Err(_) => {
                    let had = !writers.is_empty();
                    writers.retain(|writer| !writer.is_finished());
                    are_gone = had && writers.is_empty() && duration.is_none();
                }
            }
        }
        drop(sender);
        items.iter().try_for_each(each)
    })
}

/// Reads what one writer sends, until it ends or `items` are no longer wanted.
fn read(writer: Writer<'_>, roles: &[Role], items: &SyncSender<Item>) {
    let end = writer.end;
    let broken = |error: &FrameError| Err(Broken(error.to_string()));
    let reader = match Reader::accept(writer) {
        Ok(reader) => reader,
        Err(error) => {
            _ = items.send(broken(&error));
            return;
        }
    };
    let mut recording = Recording::of(reader, roles);
    let mut is_whole = true;
    while let Some(item) = recording.read() {
        let item = match item {
            Ok(record) => Ok(record),
            Err(error) => {
                is_whole &= !error.is_end();
                // A writer may just go, and this program may have decided to.
                if error.is_end() && (end.is_here() || error.fault == FrameFault::NoStop) {
                    continue;
                }
                broken(&error)
            }
        };
        if items.send(item).is_err() {
            return;
        }
    }
    if is_whole {
        // The writer waits for it, but has sent everything.
        _ = recording.reader_mut().finish();
    }
}

enum Listener {
    /// With the path, which is removed at the end.
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    fn open(socket: &str) -> Result<Self> {
        let listener = match socket.strip_prefix("unix:").or(socket.contains('/').then_some(socket))
        {
            Some(path) => {
                let listener = UnixListener::bind(path).with_context(|| {
                    format!("cannot listen at {path}, expected a path where nothing is yet")
                })?;
                Self::Unix(listener, Path::new(path).to_owned())
            }
            None if socket.contains(':') => {
                let listener = TcpListener::bind(socket);
                Self::Tcp(listener.with_context(|| format!("cannot listen at {socket}"))?)
            }
            None => bail!("--listen {socket}, expected a path such as ./tap.sock, or ADDRESS:PORT"),
        };
        match &listener {
            Self::Unix(listener, _) => listener.set_nonblocking(true)?,
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok(listener)
    }

    fn place(&self) -> String {
        match self {
            Self::Unix(_, path) => path.display().to_string(),
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |address| address.to_string())
            }
        }
    }

    /// A writer that has connected.
    fn accept(&self) -> Result<Option<Stream>> {
        let accepted = match self {
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => {
                stream.set_up()?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("cannot take a connection"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            _ = std::fs::remove_file(path);
        }
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_up(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PAUSE))?;
                stream.set_write_timeout(Some(PATIENCE))
            }
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PAUSE))?;
                stream.set_write_timeout(Some(PATIENCE))
            }
        }
    }
}

/// A connection that seems to end when it is time to.
struct Writer<'a> {
    stream: Stream,
    end: End<'a>,
}

impl Read for Writer<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        while !self.end.is_here() {
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(octets),
                Stream::Tcp(stream) => stream.read(octets),
            };
            match read {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                other => return other,
            }
        }
        Ok(0)
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Unix(stream) => stream.write(octets),
            Stream::Tcp(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
