//! One question to an upstream, over the transport that `forward` is told to use.

use nodens_core::upstream::Carrier;
use nodens_wire::{Builder, Class, Flags, Name, Rcode, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How long connecting, and how long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Octets of a header: what a message has to have to be an answer.
const HEADER_LEN: usize = 12;
/// The most that is read of an answer.
const ANSWER_LEN_MAX: usize = 4096;

/// A server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// How it is asked.
    pub(crate) carrier: Carrier,
    /// A zone it is to know.
    pub(crate) zone: Name,
}

/// Asks all of `targets` at once: the first that answered, or why the last did not. Whatever one
/// says, it is there: what a client would be told, it tells anyway.
pub(crate) fn ask_any(targets: &[Target]) -> Result<Target, String> {
    let (sender, answers) = std::sync::mpsc::channel();
    for target in targets {
        let (target, sender) = (target.clone(), sender.clone());
        // A thread that cannot be had asks nobody; nobody waits for one that is late.
        _ = std::thread::Builder::new().name("probe".to_owned()).spawn(move || {
            let answer = ask(&target);
            sender.send((target, answer))
        });
    }
    drop(sender);
    let mut why = "there is no upstream to query".to_owned();
    for (target, answer) in answers {
        match answer {
            Ok(_) => return Ok(target),
            Err(error) => {
                let network = target.carrier.name();
                let text = nodens_net::errno_text(&error);
                why = format!("dial {network} {}: {text}", target.address);
            }
        }
    }
    Err(why)
}

/// Whether `target` answers, and not that it cannot.
pub(crate) fn serves(target: &Target) -> bool {
    ask(target).is_ok_and(|rcode| matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN))
}

fn ask(target: &Target) -> io::Result<Rcode> {
    let id = fastrand::u16(..);
    let mut question = Vec::with_capacity(64);
    Builder::new(&mut question, id, Flags(Flags::RD)).question(
        target.zone.view(),
        Type::SOA,
        Class::IN,
    );
    let answer = match target.carrier {
        Carrier::Tcp => over_tcp(target.address, &question),
        Carrier::Udp => over_udp(target.address, &question),
    };
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")
        }
        _ => error,
    })?;
    match answer.first_chunk::<4>() {
        Some([a, b, flags, rcode])
            if [*a, *b] == id.to_be_bytes() && flags & 0x80 != 0 && answer.len() >= HEADER_LEN =>
        {
            Ok(Rcode((rcode & 0x0f).into()))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its response is malformed")),
    }
}

fn over_tcp(address: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let len = u16::try_from(question.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&len.to_be_bytes(), question].concat())?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(len)).min(ANSWER_LEN_MAX)];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn over_udp(address: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let local: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let mut answer = vec![0; ANSWER_LEN_MAX];
    let len = socket.recv(&mut answer)?;
    answer.truncate(len);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: SocketAddr, carrier: Carrier) -> Target {
        Target { address, carrier, zone: "cluster.local.".parse().unwrap() }
    }

    #[test]
    fn whoever_answers_over_its_transport_is_there() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut message = [0; 512];
            let (len, client) = udp.recv_from(&mut message).unwrap();
            message[2] |= 0x80;
            udp.send_to(&message[..len], client).unwrap();
            let (len, client) = udp.recv_from(&mut message).unwrap();
            message[2] |= 0x80;
            message[3] = 2;
            udp.send_to(&message[..len], client).unwrap();
        });
        // Nobody listens for TCP there.
        let nobody = target(address, Carrier::Tcp);
        assert!(ask_any(std::slice::from_ref(&nobody)).unwrap_err().contains("connection refused"));
        let there = target(address, Carrier::Udp);
        assert_eq!(ask_any(&[nobody, there.clone()]), Ok(there.clone()));
        assert!(!serves(&there), "SERVFAIL is no service");
        answering.join().unwrap();
    }

    #[test]
    fn silence_and_nonsense_are_no_answer() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asked = target(silent.local_addr().unwrap(), Carrier::Udp);
        assert!(ask_any(&[asked]).unwrap_err().ends_with("i/o timeout"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let talking = std::thread::spawn(move || {
            listener.accept().unwrap().0.write_all(b"\x00\x05hello").unwrap();
        });
        let why = ask_any(&[target(address, Carrier::Tcp)]).unwrap_err();
        assert!(why.contains("malformed") || why.contains("reset"), "{why}");
        talking.join().unwrap();
        assert_eq!(ask_any(&[]), Err("there is no upstream to query".to_owned()));
    }
}
