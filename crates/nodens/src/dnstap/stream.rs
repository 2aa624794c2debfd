//! Frame streams (fstrm): READY and ACCEPT, START, frames, STOP and FINISH.

use super::tls::{self, TlsStream};
use nodens_core::tap::{Spec, Target};
use socket2::SockRef;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
const FIELD_CONTENT_TYPE: u32 = 1;
const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;
const FINISH: u32 = 5;
/// The longest control frame there may be (fstrm).
const CONTROL_LEN_MAX: usize = 512;
/// How long the other side may take for anything.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same when everything ends.
const PATIENCE_AT_END: Duration = Duration::from_secs(1);
const BUFFER: usize = 64 * 1024;

/// A connection to a reader that has accepted it.
pub(super) struct Stream(BufWriter<Connection>);

enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Connects, and agrees with the reader on what will be sent.
    pub(super) fn connect(spec: &Spec) -> io::Result<Self> {
        let connection = Connection::open(spec)?;
        connection.set_patience(PATIENCE)?;
        let mut stream = Self(BufWriter::with_capacity(BUFFER, connection));
        stream.control(READY, Some(CONTENT_TYPE))?;
        stream.expect(ACCEPT)?;
        stream.control(START, Some(CONTENT_TYPE))?;
        Ok(stream)
    }

    /// Sends a frame, now or with later ones.
    pub(super) fn frame(&mut self, octets: &[u8]) -> io::Result<()> {
        self.0.write_all(&(octets.len() as u32).to_be_bytes())?;
        self.0.write_all(octets)
    }

    /// Sends what was not sent yet.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// Says that this is all, and waits a moment for the reader to have read it.
    pub(super) fn finish(mut self) {
        let ended = self.0.get_ref().set_patience(PATIENCE_AT_END);
        _ = ended.and_then(|()| self.control(STOP, None)).and_then(|()| self.expect(FINISH));
        if let Connection::Tls(stream) = self.0.get_mut() {
            stream.conn.send_close_notify();
        }
        _ = self.flush();
        self.abandon();
    }

    /// Leaves what was not sent unsent, rather than wait once more for who does not read.
    pub(super) fn abandon(self) {
        drop(self.0.into_parts());
    }

    fn control(&mut self, kind: u32, content_type: Option<&[u8]>) -> io::Result<()> {
        let mut frame = kind.to_be_bytes().to_vec();
        if let Some(content_type) = content_type {
            frame.extend(FIELD_CONTENT_TYPE.to_be_bytes());
            frame.extend((content_type.len() as u32).to_be_bytes());
            frame.extend_from_slice(content_type);
        }
        // A length of zero is the escape to a control frame.
        self.0.write_all(&0_u32.to_be_bytes())?;
        self.frame(&frame)?;
        self.0.flush()
    }

    fn expect(&mut self, kind: u32) -> io::Result<()> {
        let wrong = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
        let mut word = [0; 4];
        let reader = self.0.get_mut();
        reader.read_exact(&mut word)?;
        if word != [0; 4] {
            return Err(wrong("the reader sent a frame of data"));
        }
        reader.read_exact(&mut word)?;
        let len = u32::from_be_bytes(word) as usize;
        if !(4..=CONTROL_LEN_MAX).contains(&len) {
            return Err(wrong("the reader sent a control frame of a wrong length"));
        }
        let mut frame = vec![0; len];
        reader.read_exact(&mut frame)?;
        match frame.first_chunk().map(|kind| u32::from_be_bytes(*kind)) {
            Some(found) if found == kind => Ok(()),
            found => Err(wrong(&format!("the reader sent control frame {found:?}, not {kind}"))),
        }
    }
}

impl Connection {
    fn open(spec: &Spec) -> io::Result<Self> {
        match &spec.target {
            Target::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Target::Tcp(address) => Ok(Self::Tcp(tcp(address, spec.buffer)?)),
            Target::Tls(address) => {
                let stream = tcp(address, spec.buffer)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                let host = address.rsplit_once(':').map_or(&**address, |(host, _)| host);
                let stream = tls::connect(stream, host, spec.skip_verify)?;
                Ok(Self::Tls(Box::new(stream)))
            }
        }
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        let patience = Some(patience);
        let tcp = match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(patience)?;
                return stream.set_write_timeout(patience);
            }
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        };
        tcp.set_read_timeout(patience)?;
        tcp.set_write_timeout(patience)
    }
}

/// Connects to the first address that takes it.
fn tcp(address: &str, buffer: usize) -> io::Result<TcpStream> {
    let mut error = io::Error::new(ErrorKind::NotFound, format!("no address of {address}"));
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                SockRef::from(&stream).set_send_buffer_size(buffer)?;
                return Ok(stream);
            }
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

impl Read for Connection {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(octets),
            Self::Tcp(stream) => stream.read(octets),
            Self::Tls(stream) => stream.read(octets),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(octets),
            Self::Tcp(stream) => stream.write(octets),
            Self::Tls(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
