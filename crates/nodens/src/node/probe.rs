//! One query to an upstream, over the transport that `forward` is told to use.

use nodens_net::Way;
use nodens_wire::{Name, Rcode, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How long connecting, and how long a response may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// How it is asked.
    pub(crate) way: Way,
    /// A zone it is to know.
    pub(crate) zone: Name,
}

/// Why no upstream answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("there is no upstream to query")]
    NoUpstream,
    #[error("dial {network} {address}: {}", nodens_net::errno_text(.error))]
    Dial { network: &'static str, address: SocketAddr, error: io::Error },
}

/// Asks all of `targets` at once: the first that answered, or why the last did not. Whatever one
/// says, it is there: what a client would be told, it tells anyway.
pub(crate) fn ask_any(targets: &[Target]) -> Result<Target, NoAnswer> {
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
    let mut why = NoAnswer::NoUpstream;
    for (target, answer) in answers {
        match answer {
            Ok(_) => return Ok(target),
            Err(error) => {
                let network = target.way.carrier().name();
                why = NoAnswer::Dial { network, address: target.address, error };
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
    let Target { address, way, zone } = target;
    let response = nodens_net::ask(*address, way, zone.view(), Type::SOA, PATIENCE);
    Ok(nodens_wire::header::flags(&response?).rcode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::UdpSocket;

    fn target(address: SocketAddr, way: Way) -> Target {
        Target { address, way, zone: "cluster.local.".parse().unwrap() }
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
        let nobody = target(address, Way::Tcp);
        assert!(
            ask_any(std::slice::from_ref(&nobody))
                .unwrap_err()
                .to_string()
                .contains("connection refused")
        );
        let there = target(address, Way::Udp);
        assert_eq!(ask_any(&[nobody, there.clone()]).unwrap(), there);
        assert!(!serves(&there), "SERVFAIL is no service");
        answering.join().unwrap();
    }

    #[test]
    fn silence_and_nonsense_are_no_answer() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asked = target(silent.local_addr().unwrap(), Way::Udp);
        assert!(ask_any(&[asked]).unwrap_err().to_string().ends_with("i/o timeout"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let talking = std::thread::spawn(move || {
            listener.accept().unwrap().0.write_all(b"\x00\x05hello").unwrap();
        });
        let why = ask_any(&[target(address, Way::Tcp)]).unwrap_err().to_string();
        assert!(why.contains("malformed") || why.contains("reset"), "{why}");
        talking.join().unwrap();
        assert!(matches!(ask_any(&[]), Err(NoAnswer::NoUpstream)));
    }
}
