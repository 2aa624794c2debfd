//! The local authority that both servers ask: it answers by rule from the name alone (see [`rules`]), over UDP and
//! TCP, with messages made by the `domain` crate.
//!
//! It stands for several upstreams: a flavour is an upstream with its own addresses in its answers, and each flavour
//! listens on several loopback addresses as so many equal hosts.

mod rules;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use domain::base::iana::OptionCode;
use domain::base::message_builder::{PushError, RecordSectionBuilder};
use domain::base::opt::UnknownOptData;
use domain::base::{Message, MessageBuilder, Name, Question, ToName};
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};

use self::rules::{Reply, Seen};

/// Octets to keep free for the OPT record with an extended error.
const OPT_LEN_MAX: usize = 32;
const FLAVOURS: usize = 4;
const HOSTS: usize = 4;

/// 127.0.0.`host`.
pub(crate) fn loopback(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, host))
}

/// Where the authority can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Upstreams {
    ports: [u16; FLAVOURS],
    closed: u16,
    mute: u16,
    /// Of the server that a case's `secondary` transfers from.
    primary: Option<u16>,
}

impl Upstreams {
    /// The address of one host of a flavour; both counts wrap.
    pub(crate) fn address(&self, flavour: usize, host: usize) -> SocketAddr {
        // invariant: host is below HOSTS, which fits.
        let host = u8::try_from(host % HOSTS).unwrap_or(0) + 1;
        SocketAddr::new(loopback(host), self.ports[flavour % FLAVOURS])
    }

    /// An address where nothing listens.
    pub(crate) fn closed(&self) -> SocketAddr {
        SocketAddr::new(loopback(1), self.closed)
    }

    /// An address that takes questions and connections and never answers.
    pub(crate) fn mute(&self) -> SocketAddr {
        SocketAddr::new(loopback(1), self.mute)
    }

    /// The address of the primary of a case that has one.
    pub(crate) fn primary(&self) -> Option<SocketAddr> {
        self.primary.map(|port| SocketAddr::new(loopback(1), port))
    }

    /// The same, with a primary at this port.
    pub(crate) fn with_primary(&self, port: u16) -> Self {
        Upstreams { primary: Some(port), ..self.clone() }
    }

    /// Addresses with ports counted from `base`, for tests that ask nothing.
    #[cfg(test)]
    pub(crate) fn fixed(base: u16) -> Self {
        let ports = [base, base + 1, base + 2, base + 3];
        Upstreams { ports, closed: base + 101, mute: base + 102, primary: None }
    }
}

/// Starts the authority on ports from `free_port`; it runs until the process ends.
pub(crate) fn start(mut free_port: impl FnMut() -> u16) -> Result<Upstreams> {
    let mut ports = [0; FLAVOURS];
    for (flavour, port) in ports.iter_mut().enumerate() {
        *port = free_port();
        for host in 1..=HOSTS {
            // invariant: HOSTS fits.
            let address = (loopback(u8::try_from(host).unwrap_or(1)), *port);
            let udp = UdpSocket::bind(address).with_context(|| format!("bind {address:?}"))?;
            let tcp = TcpListener::bind(address).with_context(|| format!("bind {address:?}"))?;
            thread::spawn(move || serve_udp(&udp, flavour));
            thread::spawn(move || serve_tcp(&tcp, flavour));
        }
    }
    let mute = free_port();
    let address = (loopback(1), mute);
    let udp = UdpSocket::bind(address)?;
    let tcp = TcpListener::bind(address)?;
    thread::spawn(move || {
        let _udp = udp;
        let held: Vec<_> = tcp.incoming().collect();
        drop(held);
    });
    Ok(Upstreams { ports, closed: free_port(), mute, primary: None })
}

fn serve_udp(socket: &UdpSocket, flavour: usize) {
    let mut buffer = [0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some((response, after)) = respond(&buffer[..length], flavour, false) else { continue };
        let send = |socket: &UdpSocket| {
            // A client that has gone makes this fail; there is nobody to tell.
            let _ = socket.send_to(&response, from);
        };
        if after.is_zero() {
            send(socket);
        } else if let Ok(socket) = socket.try_clone() {
            let response = response.clone();
            thread::spawn(move || {
                thread::sleep(after);
                let _ = socket.send_to(&response, from);
            });
        }
    }
}

fn serve_tcp(listener: &TcpListener, flavour: usize) {
    for stream in listener.incoming().flatten() {
        thread::spawn(move || {
            // The client ends the connection; an error here is that end.
            let _ = serve_connection(stream, flavour);
        });
    }
}

fn serve_connection(mut stream: TcpStream, flavour: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query)?;
        let Some((response, after)) = respond(&query, flavour, true) else { continue };
        thread::sleep(after);
        let length = u16::try_from(response.len()).unwrap_or(u16::MAX);
        stream.write_all(&[&length.to_be_bytes()[..], &response].concat())?;
    }
}

/// The response to a message and how long to wait with it; `None` for what gets no answer.
fn respond(query: &[u8], flavour: usize, tcp: bool) -> Option<(Vec<u8>, Duration)> {
    let query = Message::from_octets(query).ok()?;
    let question = query.sole_question().ok()?;
    let edns = query.opt().map(|opt| {
        let options = opt.opt().iter::<UnknownOptData<_>>().flatten().map(|option| {
            let hex = option.data().iter().map(|byte| format!("{byte:02x}"));
            format!("{}:{}", option.code().to_int(), hex.collect::<String>())
        });
        (opt.udp_payload_size(), opt.dnssec_ok(), options.collect())
    });
    let seen = Seen {
        qname: format!("{}", question.qname().fmt_with_dot()),
        qtype: question.qtype(),
        tcp,
        rd: query.header().rd(),
        ad: query.header().ad(),
        cd: query.header().cd(),
        edns,
    };
    let reply = rules::reply(&seen, flavour);
    let after = reply.after?;
    let limit = match &seen.edns {
        _ if tcp => 65_535,
        Some((size, ..)) => usize::from((*size).max(512)),
        None => 512,
    };
    let dnssec_ok = seen.edns.as_ref().map(|(_, dnssec_ok, _)| *dnssec_ok);
    match build(query, &reply, dnssec_ok, limit) {
        Ok(response) => Some((response, after)),
        Err(error) => {
            eprintln!("authority: {} {}: {error:#}", seen.qname, seen.qtype);
            None
        }
    }
}

/// The message of `reply`; `edns` is the DO bit of a question with EDNS.
fn build(
    query: Message<&[u8]>,
    reply: &Reply,
    edns: Option<bool>,
    limit: usize,
) -> Result<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec();
    builder.set_push_limit(limit - OPT_LEN_MAX);
    let question = query.sole_question()?;
    let header = builder.header_mut();
    header.set_id(query.header().id());
    header.set_qr(true);
    header.set_opcode(query.header().opcode());
    header.set_rd(query.header().rd());
    header.set_cd(query.header().cd());
    header.set_aa(reply.aa);
    header.set_ad(reply.ad);
    header.set_ra(reply.ra);
    header.set_tc(reply.tc);
    header.set_rcode(reply.rcode);
    let mut section = builder.question();
    if reply.other_question {
        let other: Name<Vec<u8>> = "another.question.example.".parse()?;
        section.push(Question::new(other, question.qtype(), question.qclass()))?;
    } else {
        section.push(question)?;
    }
    let mut section = section.answer();
    // RFC 2181, section 9: TC when an RRset that must be there does not fit. The whole section goes then.
    if !reply.tc && push(&mut section, &reply.answer)?.is_err() {
        section.rewind();
        section.header_mut().set_tc(true);
    }
    let mut section = section.authority();
    if !section.header().tc() && push(&mut section, &reply.authority)?.is_err() {
        section.rewind();
    }
    let mut section = section.additional();
    if !section.header().tc() && push(&mut section, &reply.additional)?.is_err() {
        section.rewind();
    }
    section.clear_push_limit();
    if let Some(dnssec_ok) = edns {
        section.opt(|opt| {
            opt.set_udp_payload_size(1232);
            opt.set_dnssec_ok(dnssec_ok);
            if let Some(code) = reply.ede {
                let data = [&code.to_be_bytes()[..], b"told upstream"].concat();
                // invariant: the data is far below the limit of an option.
                if let Ok(option) = UnknownOptData::new(OptionCode::EXTENDED_ERROR, data) {
                    opt.push(&option)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(section.finish())
}

/// Pushes master file lines; the inner result says whether they all fitted.
fn push<B: RecordSectionBuilder<Vec<u8>>>(
    section: &mut B,
    lines: &[String],
) -> Result<Result<(), PushError>> {
    for line in lines {
        let record = scan(line).with_context(|| format!("in '{line}'"))?;
        if let Err(error) = section.push(record) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

fn scan(line: &str) -> Result<ScannedRecord> {
    let mut file = Zonefile::new();
    file.set_origin(Name::root_bytes());
    file.extend_from_slice(line.as_bytes());
    file.extend_from_slice(b"\n");
    match file.next_entry()? {
        Some(Entry::Record(record)) => Ok(record),
        _ => anyhow::bail!("no record"),
    }
}

#[cfg(test)]
mod tests {
    use domain::base::iana::Rcode;

    use super::*;

    fn ask(name: &str, qtype: domain::base::iana::Rtype, flavour: usize) -> Message<Vec<u8>> {
        let name: Name<Vec<u8>> = name.parse().unwrap();
        let mut query = MessageBuilder::new_vec().question();
        query.push((name, qtype)).unwrap();
        let (response, _) = respond(&query.finish(), flavour, false).unwrap();
        Message::from_octets(response).unwrap()
    }

    #[test]
    fn rules_by_the_first_label() {
        use domain::base::iana::Rtype;
        assert_eq!(ask("www.example.org", Rtype::A, 0).header_counts().ancount(), 1);
        assert_eq!(ask("chain5.example.org", Rtype::A, 0).header_counts().ancount(), 6);
        assert_eq!(ask("nx.example.org", Rtype::A, 1).header().rcode(), Rcode::NXDOMAIN);
        assert_eq!(ask("nx0.example.org", Rtype::A, 0).header().rcode(), Rcode::NXDOMAIN);
        assert_eq!(ask("nx0.example.org", Rtype::A, 1).header().rcode(), Rcode::NOERROR);
        assert!(ask("big.example.org", Rtype::A, 0).header().tc());
        assert_eq!(ask("saw.example.org", Rtype::TXT, 0).header_counts().ancount(), 1);
        for qtype in
            [Rtype::MX, Rtype::SRV, Rtype::HTTPS, Rtype::CAA, Rtype::SOA, Rtype::SSHFP, Rtype::NS]
        {
            assert_ne!(ask("multi.example.org", qtype, 0).header_counts().ancount(), 0, "{qtype}");
        }
    }
}
