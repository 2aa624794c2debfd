//! A socket that servers write dnstap to.

use anyhow::{Context, Result, bail};
use lab_workload::dnstap::{FrameError, FrameFault, Reader, Recording, Role};
use lab_workload::recorded::{Broken, Record};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// How often the end is looked for while nothing comes.
const PAUSE: Duration = Duration::from_millis(50);
/// Writers at the same time; more wait.
const WRITERS_MAX: usize = 64;
/// Messages that were read and not taken in yet.
const WAITING_MAX: usize = 1_024;
/// Octets that are read at once.
const READ_LEN: usize = 64 << 10;
/// How long a writer may take to read what is said to it, to begin, and to go on within a frame.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long what writers have sent already is read at the end.
const DRAIN: Duration = Duration::from_secs(1);

/// When to end.
#[derive(Clone, Copy)]
struct End<'a> {
    stop: &'a AtomicBool,
    /// Nothing more is taken in, for whatever reason.
    over: &'a AtomicBool,
    at: Option<Instant>,
}

impl End<'_> {
    fn is_here(self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.over.load(Ordering::Relaxed)
            || self.at.is_some_and(|at| at <= Instant::now())
    }
}

/// What came from a writer.
pub(crate) struct Arrived {
    /// The writer, counted from 1.
    pub(crate) writer: usize,
    /// The message in it, or what is wrong with it.
    pub(crate) message: Result<Record, Broken>,
    /// Between whom the message was.
    pub(crate) role: Option<Role>,
    /// The frame itself; none where the stream ended.
    pub(crate) frame: Option<Vec<u8>>,
}

/// Gives what comes from all writers that connect to `socket` to `each`, and nothing (`None`) while nothing
/// comes. Ends when `duration` is over or `stop` is set; without a duration also when all writers have ended.
pub(crate) fn arrivals(
    socket: &str,
    duration: Option<Duration>,
    roles: &[Role],
    stop: &AtomicBool,
    each: &mut dyn FnMut(Option<Arrived>) -> Result<()>,
) -> Result<()> {
    let listener = Listener::open(socket)?;
    crate::term::note(&format!("waiting at {} for a server that writes dnstap", listener.place()));
    let over = AtomicBool::new(false);
    let end = End { stop, over: &over, at: duration.map(|duration| Instant::now() + duration) };
    let begun = AtomicUsize::new(0);
    // A server may have several writers, one for each server block. All end when this has ended.
    std::thread::scope(|scope| {
        let (sender, items) = sync_channel(WAITING_MAX);
        let taken = (|| {
            let mut writers: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            let (mut count, mut next_accept) = (0, Instant::now());
            while !end.is_here() {
                let now = Instant::now();
                if now >= next_accept {
                    writers.retain(|writer| !writer.is_finished());
                    while writers.len() < WRITERS_MAX
                        && let Some(stream) = listener.accept()?
                    {
                        count += 1;
                        let writer = Source { stream, end, until: None };
                        let (number, sender, begun) = (count, sender.clone(), &begun);
                        writers
                            .push(scope.spawn(move || read(number, writer, roles, begun, &sender)));
                    }
                    // One that only looks whether somebody listens is no writer that has ended.
                    let had = begun.load(Ordering::Relaxed) > 0;
                    if had && writers.is_empty() && duration.is_none() {
                        break;
                    }
                    next_accept = now + PAUSE;
                }
                each(items.recv_timeout(PAUSE).ok())?;
            }
            Ok(())
        })();
        // Where it ended with an error, writers that are silent have to hear of it.
        over.store(true, Ordering::Relaxed);
        drop(sender);
        taken.and_then(|()| items.iter().try_for_each(|item| each(Some(item))))
    })
}

/// Reads what one writer sends, until it ends or `items` are no longer wanted.
fn read(
    number: usize,
    writer: Source<'_>,
    roles: &[Role],
    begun: &AtomicUsize,
    items: &SyncSender<Arrived>,
) {
    let end = writer.end;
    let broken = |error: &FrameError, frame: Option<Vec<u8>>| Arrived {
        writer: number,
        message: Err(Broken(format!("writer {number}: {error}"))),
        role: None,
        frame,
    };
    let reader = match Reader::accept(Writer(BufReader::with_capacity(READ_LEN, writer))) {
        Ok(reader) => reader,
        Err(error) => {
            if !end.is_here() {
                _ = items.send(broken(&error, None));
            }
            return;
        }
    };
    begun.fetch_add(1, Ordering::Relaxed);
    let mut recording = Recording::of(reader, roles);
    let mut is_whole = true;
    while let Some(item) = recording.read() {
        let frame = |recording: &mut Recording<_>| recording.reader_mut().content().to_vec();
        let item = match item {
            Ok(record) => Arrived {
                writer: number,
                message: Ok(record),
                role: recording.role(),
                frame: Some(frame(&mut recording)),
            },
            Err(error) => {
                is_whole &= !error.is_end();
                // A writer may just go, and this program may have decided to.
                if error.is_end() && (end.is_here() || error.fault == FrameFault::NoStop) {
                    continue;
                }
                let frame = (!error.is_end()).then(|| frame(&mut recording));
                broken(&error, frame)
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
                remove_abandoned(Path::new(path));
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

/// Removes a socket that nobody listens at any more, as a program leaves that was killed.
fn remove_abandoned(path: &Path) {
    let is_socket = path.symlink_metadata().is_ok_and(|data| data.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        _ = std::fs::remove_file(path);
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
struct Source<'a> {
    stream: Stream,
    end: End<'a>,
    /// How long it is read after the end.
    until: Option<Instant>,
}

impl Read for Source<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            let is_over = self.end.is_here();
            if is_over && *self.until.get_or_insert(begun + DRAIN) <= Instant::now() {
                return Ok(0);
            }
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(octets),
                Stream::Tcp(stream) => stream.read(octets),
            };
            match read {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if is_over {
                        return Ok(0);
                    }
                    if begun.elapsed() >= PATIENCE {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                other => return other,
            }
        }
    }
}

/// A connection, read in large pieces.
struct Writer<'a>(BufReader<Source<'a>>);

impl Read for Writer<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        self.0.read(octets)
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.0.get_mut().stream {
            Stream::Unix(stream) => stream.write(octets),
            Stream::Tcp(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
