//! Octets both ways over one TCP connection, with or without TLS.

use super::carrier::{End, Handshake};
use rustls::AlertDescription;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

/// EINPROGRESS: the connection is on its way.
const EINPROGRESS: i32 = 115;

/// One connection.
pub struct Pipe {
    socket: Rc<Socket>,
    tls: Option<Box<ClientConnection>>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Handshaking,
    Open,
}

impl Pipe {
    /// Asks for a connection from and to an address, with TLS if `tls` says how.
    pub fn open(
        (source, server): (Option<SocketAddr>, SocketAddr),
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = source {
            // The port is chosen when connecting: one port then serves several connections.
            match source.port() {
                0 => lab_sys::socket::choose_port_late(socket.as_fd())?,
                // A connection closed before may still be in TIME_WAIT on this port.
                _ => socket.set_reuse_address(true)?,
            }
            socket.bind(&source.into())?;
        }
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
            _ => {}
        }
        let tls = tls.map(|(config, name)| ClientConnection::new(config, name));
        let tls = tls.transpose().map_err(io::Error::other)?.map(Box::new);
        Ok(Self { socket: Rc::new(socket), tls, phase: Phase::Connecting })
    }

    /// What to watch.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket, to be watched.
    pub fn socket(&self) -> Rc<Socket> {
        self.socket.clone()
    }

    /// The protocol that both sides agreed on in TLS.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.alpn_protocol())
    }

    /// Continues with setting up; true when that is done. `connected` is called when TCP's handshake is over,
    /// before that of TLS.
    pub fn establish(&mut self, connected: impl FnOnce()) -> Result<bool, End> {
        if self.phase == Phase::Connecting {
            if let Some(error) = self.socket.take_error()? {
                return Err(error.into());
            }
            match self.socket.peer_addr() {
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
                other => _ = other?,
            }
            connected();
            self.phase = Phase::Handshaking;
        }
        if self.phase == Phase::Handshaking {
            if !self.shake_hands()? {
                return Ok(false);
            }
            self.phase = Phase::Open;
        }
        Ok(true)
    }

    /// Which handshake there was.
    pub fn handshake(&self) -> Handshake {
        let Some(tls) = &self.tls else { return Handshake::None };
        match tls.handshake_kind() {
            Some(HandshakeKind::Resumed) => Handshake::Resumed,
            _ => Handshake::Full,
        }
    }

    fn shake_hands(&mut self) -> Result<bool, End> {
        loop {
            let flushed = self.flush()?;
            let Some(tls) = &mut self.tls else { return Ok(true) };
            if !tls.is_handshaking() {
                return Ok(true);
            }
            if !flushed {
                return Ok(false);
            }
            match tls.read_tls(&mut &*self.socket) {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            if let Err(error) = tls.process_new_packets() {
                // The server should learn why.
                _ = self.flush();
                return Err(tls_end(error));
            }
        }
    }

    /// Takes octets to be sent: how many, `WouldBlock` for none. With TLS they may still be waiting
    /// in here afterwards ([`Pipe::is_flushed`]).
    pub fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.tls.is_none() {
            return (&*self.socket).write(octets);
        }
        if !self.flush()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let count = tls.writer().write(octets)?;
        self.flush()?;
        Ok(count)
    }

    /// Whether the kernel has all octets that were taken.
    pub fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Writes what TLS has ready; true when nothing is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut &*self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads octets: how many, 0 at the end, `WouldBlock` if there is nothing yet.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, End> {
        let Some(tls) = &mut self.tls else { return Ok((&*self.socket).read(buffer)?) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Without close_notify it is the end all the same (RFC 7858 section 3.4).
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return Ok(other?),
            }
            if tls.read_tls(&mut &*self.socket)? == 0 && tls.process_new_packets().is_ok() {
                return Ok(0);
            }
            tls.process_new_packets().map_err(tls_end)?;
        }
    }

    /// Whether the kernel's handshake is not over, or octets that were taken wait for room.
    pub fn wants_write(&self) -> bool {
        self.phase == Phase::Connecting || !self.is_flushed()
    }

    /// Tells the other side that nothing more comes.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // If it is not read, the peer has gone already.
            _ = self.flush();
        }
    }
}

/// What an error of TLS means, in words.
pub(super) fn tls_end(error: rustls::Error) -> End {
    match error {
        rustls::Error::InvalidCertificate(why) => End::Certificate(why.to_string()),
        // Over TCP, only DNS over HTTPS asks for a protocol.
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            End::NoProtocol("HTTP/2", "h2")
        }
        other => End::Protocol(format!("TLS failed: {other}")),
    }
}

/// Whether nothing went wrong but that there is nothing to do yet.
pub fn is_pending(end: &End) -> bool {
    matches!(end, End::Io(error) if error.kind() == ErrorKind::WouldBlock)
}
