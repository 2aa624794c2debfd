//! What a server says of its version: `version.bind. TXT CH`, as BIND began it and others answer it.

use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long an answer is waited for. A server that is slower or gives none is asked nothing more.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);
/// Characters of an answer that are kept.
const LEN_MAX: usize = 200;
/// Nothing else of this program has this ID in flight then.
const ID: u16 = 0x6c61;

pub(super) fn ask(server: SocketAddr) -> Option<String> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.send(&question()?).ok()?;
    let until = Instant::now() + PATIENCE;
    let mut buffer = [0; 4_096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left).filter(|left| !left.is_zero())).ok()?;
        if left.is_zero() {
            return None;
        }
        let len = socket.recv(&mut buffer).ok()?;
        let message = Message::parse(buffer.get(..len)?).ok();
        if let Some(message) = message.filter(|message| message.id == ID) {
            return read(&message);
        }
    }
}

fn question() -> Option<Vec<u8>> {
    let name = Name::parse("version.bind.").ok()?;
    let mut message = Vec::new();
    Builder::new(&mut message, ID, Flags::default()).question(name.view(), Type::TXT, Class(3));
    Some(message)
}

/// The strings of the first TXT record (RFC 1035 section 3.3.14), without control characters.
pub(super) fn read(message: &Message) -> Option<String> {
    if !message.flags.has(Flags::QR) || message.flags.rcode() != Rcode::NOERROR {
        return None;
    }
    let record = message.answer.iter().find(|record| record.rtype == Type::TXT)?;
    let (mut text, mut left) = (String::new(), record.rdata.as_slice());
    while let Some((len, rest)) = left.split_first() {
        let (string, behind) = rest.split_at_checked(usize::from(*len))?;
        text.push_str(&String::from_utf8_lossy(string));
        left = behind;
    }
    let text: String = text.chars().filter(|c| !c.is_control()).take(LEN_MAX).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
