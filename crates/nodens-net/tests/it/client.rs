//! Clients.

use nodens_core::testing::request;
pub(crate) use nodens_testkit::PATIENCE;
pub(crate) use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Message, Rcode, header};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

/// A request with this ID; see `nodens_core::testing::request` for the text.
pub(crate) fn question(id: u16, text: &str) -> Vec<u8> {
    let mut wire = request(text);
    header::set_id(&mut wire, id);
    wire
}

pub(crate) fn udp_client(server: SocketAddr) -> UdpSocket {
    let any: IpAddr = if server.is_ipv4() { [127, 0, 0, 1].into() } else { "::1".parse().unwrap() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(server).unwrap();
    socket
}

pub(crate) fn receive(socket: &UdpSocket) -> Message {
    let mut buffer = [0; 65_535];
    let len = socket.recv(&mut buffer).expect("an answer over UDP");
    Message::parse(&buffer[..len]).unwrap()
}

pub(crate) fn ask_udp(server: SocketAddr, text: &str) -> Message {
    let socket = udp_client(server);
    socket.send(&question(4711, text)).unwrap();
    let answer = receive(&socket);
    assert_eq!(answer.id, 4711);
    answer
}

/// A stream of messages.
pub(crate) struct Stream(pub(crate) TcpStream);

impl Stream {
    pub(crate) fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, id: u16, text: &str) {
        self.0.write_all(&framed(&question(id, text))).unwrap();
    }

    /// The next message, or nothing if the server has closed.
    pub(crate) fn receive_bytes(&mut self) -> Option<Vec<u8>> {
        match read_message(&mut self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer"),
            message => message.ok(),
        }
    }

    pub(crate) fn receive(&mut self) -> Message {
        Message::parse(&self.receive_bytes().expect("an answer over TCP")).unwrap()
    }

    pub(crate) fn ask(&mut self, text: &str) -> Message {
        self.send(4712, text);
        let answer = self.receive();
        assert_eq!(answer.id, 4712);
        answer
    }

    /// Whether the server closes within [`PATIENCE`], and nothing comes before that.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// Whether the server has not closed.
    pub(crate) fn is_open(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let open = matches!(self.0.peek(&mut [0]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).unwrap();
        open
    }
}

pub(crate) fn ask_tcp(server: SocketAddr, text: &str) -> Message {
    Stream::connect(server).ask(text)
}

pub(crate) fn assert_answered(answer: &Message) {
    assert_eq!(answer.flags.rcode(), Rcode::NOERROR, "{answer:?}");
}
