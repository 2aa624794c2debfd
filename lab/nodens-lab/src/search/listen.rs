//! A socket that servers write dnstap to.

use anyhow::{Context, Result, bail};
use lab_workload::dnstap::{FrameFault, Reader, Recording, Role};
use lab_workload::recorded::{Broken, Record};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the end is looked for while nothing comes.
const PAUSE: Duration = Duration::from_millis(50);
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

/// Gives the messages of writers that connect to `socket`, one writer after the other, to `each`. Ends
/// when `duration` is over or `stop` is set; without a duration also when the first writer ends.
pub(super) fn messages(
    socket: &str,
    duration: Option<Duration>,
    roles: &[Role],
    stop: &AtomicBool,
    each: &mut dyn FnMut(Result<Record, Broken>) -> Result<()>,
) -> Result<()> {
    let listener = Listener::open(socket)?;
    crate::term::note(&format!("waiting at {} for a server that writes dnstap", listener.place()));
    let at = duration.map(|duration| Instant::now() + duration);
    let end = End { stop, at };
    while !end.is_here() {
        let Some(stream) = listener.accept()? else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let writer = Writer { stream, end };
        let reader = match Reader::accept(writer) {
            Ok(reader) => reader,
            Err(error) => {
                each(Err(Broken(error.to_string())))?;
                continue;
            }
        };
        let mut recording = Recording::of(reader, roles);
        let mut is_whole = true;
        while let Some(item) = recording.read() {
            match item {
                // Leaving in the middle of a stream is what this program decided.
                Err(error) if error.is_end() && end.is_here() => is_whole = false,
                Err(error) => {
                    is_whole &= !error.is_end();
                    // A writer may just go.
                    if error.fault != FrameFault::NoStop {
                        each(Err(Broken(error.to_string())))?;
                    }
                }
                Ok(record) => each(Ok(record))?,
            }
        }
        if is_whole {
            // The writer waits for it, but has sent everything.
            _ = recording.reader_mut().finish();
        }
        if duration.is_none() {
            break;
        }
    }
    Ok(())
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
