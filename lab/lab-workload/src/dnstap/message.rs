//! dnstap.proto: what the fields of a frame mean.

use super::fields::{Fields, Value};
use super::{FrameFault, Role, Tapped, Transport};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SECOND: u64 = 1_000_000_000;
/// `Dnstap.type`: MESSAGE is the only one there is.
const TYPE_MESSAGE: u64 = 1;

/// A fault and the octet of the frame where it is.
type Faulty = (usize, FrameFault);

/// Reads a frame.
pub(super) fn read(frame: &[u8]) -> Result<Tapped, Faulty> {
    let (mut kind, mut message) = (None, None);
    for field in Fields::new(frame) {
        let (number, value, at) = field.map_err(|(at, what)| (at, FrameFault::Field(what)))?;
        match (number, value) {
            // Identity, version and extra.
            (1..=3, Value::Octets(_)) => {}
            (14, Value::Octets(octets)) => {
                let start = octets.as_ptr() as usize - frame.as_ptr() as usize;
                message = Some((octets, start));
            }
            (15, Value::Number(number)) => kind = Some((number, at)),
            _ => return Err(unknown("Dnstap", number, value, at)),
        }
    }
    match kind {
        Some((TYPE_MESSAGE, _)) => {}
        Some((other, at)) => {
            let what = format!("Dnstap.type {other}, expected {TYPE_MESSAGE} (MESSAGE)");
            return Err((at, FrameFault::Field(what)));
        }
        None => return Err((0, FrameFault::Missing("Dnstap.type in it"))),
    }
    let (octets, start) = message.ok_or((0, FrameFault::Missing("Dnstap.message in it")))?;
    inner(octets).map_err(|(at, fault)| (start + at, fault))
}

/// A field that is none of dnstap's, or that has a value of another kind.
fn unknown(message: &str, number: u64, value: Value<'_>, at: usize) -> Faulty {
    let kind = match value {
        Value::Number(_) => "a number",
        Value::Octets(_) => "octets",
    };
    let what = format!("field {number} of {message} with {kind}, expected a field of dnstap.proto");
    (at, FrameFault::Field(what))
}

/// What was read of a message so far.
#[derive(Default)]
struct Parts {
    kind: Option<(Role, bool)>,
    is_inet6: Option<bool>,
    transport: Option<Transport>,
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    seconds: [Option<u64>; 2],
    nanos: [u64; 2],
    messages: [Option<Vec<u8>>; 2],
}

fn inner(octets: &[u8]) -> Result<Tapped, Faulty> {
    let mut parts = Parts::default();
    for field in Fields::new(octets) {
        let (number, value, at) = field.map_err(|(at, what)| (at, FrameFault::Field(what)))?;
        let taken = parts.take(number, value).map_err(|what| (at, FrameFault::Field(what)))?;
        if !taken {
            return Err(unknown("Message", number, value, at));
        }
    }
    let (role, is_response) = parts.kind.ok_or((0, FrameFault::Missing("Message.type in it")))?;
    if let Some(is_inet6) = parts.is_inet6
        && let Some(other) = parts.addresses.iter().flatten().find(|ip| ip.is_ipv6() != is_inet6)
    {
        let what = format!("address {other}, expected one of the family that is said");
        return Err((0, FrameFault::Field(what)));
    }
    let [query_time, response_time] = parts.times();
    let [asker, asked] = parts.addresses;
    let [asker_port, asked_port] = parts.ports;
    let [query, response] = parts.messages;
    Ok(Tapped {
        role,
        is_response,
        transport: parts.transport,
        asker: (asker, asker_port),
        asked: (asked, asked_port),
        query_time,
        response_time,
        query,
        response,
    })
}

impl Parts {
    /// Takes a field; false if dnstap has none like it.
    fn take(&mut self, number: u64, value: Value<'_>) -> Result<bool, String> {
        let [query, response] = &mut self.messages;
        match (number, value) {
            (1, Value::Number(kind)) => self.kind = Some(role(kind)?),
            (2, Value::Number(family @ 1..=2)) => self.is_inet6 = Some(family == 2),
            (2, Value::Number(family)) => {
                return Err(format!("socket_family {family}, expected 1 (INET) or 2 (INET6)"));
            }
            (3, Value::Number(protocol)) => self.transport = Some(transport(protocol)?),
            (4, Value::Octets(octets)) => self.addresses[0] = Some(address(octets)?),
            (5, Value::Octets(octets)) => self.addresses[1] = Some(address(octets)?),
            (6, Value::Number(number)) => self.ports[0] = Some(port(number)?),
            (7, Value::Number(number)) => self.ports[1] = Some(port(number)?),
            (8, Value::Number(seconds)) => self.seconds[0] = Some(whole(seconds)?),
            (9, Value::Number(nanos)) => self.nanos[0] = fraction(nanos)?,
            (10, Value::Octets(octets)) => *query = Some(octets.to_vec()),
            (12, Value::Number(seconds)) => self.seconds[1] = Some(whole(seconds)?),
            (13, Value::Number(nanos)) => self.nanos[1] = fraction(nanos)?,
            (14, Value::Octets(octets)) => *response = Some(octets.to_vec()),
            // query_zone and policy; http_protocol.
            (11 | 15, Value::Octets(_)) | (16, Value::Number(_)) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn times(&self) -> [Option<u64>; 2] {
        let [query, response] = self.seconds;
        let [query_nanos, response_nanos] = self.nanos;
        let time = |seconds: Option<u64>, nanos| seconds.map(|seconds| seconds * SECOND + nanos);
        [time(query, query_nanos), time(response, response_nanos)]
    }
}

fn role(kind: u64) -> Result<(Role, bool), String> {
    let at = kind.checked_sub(1).map(|kind| kind / 2).and_then(|at| usize::try_from(at).ok());
    let role = at.and_then(|at| Role::ALL.get(at));
    let role = role.ok_or_else(|| format!("Message.type {kind}, expected 1 to 14"))?;
    Ok((*role, kind.is_multiple_of(2)))
}

fn transport(protocol: u64) -> Result<Transport, String> {
    Ok(match protocol {
        1 => Transport::Udp,
        2 => Transport::Tcp,
        3 => Transport::Tls,
        4 => Transport::Https,
        5 => Transport::DnscryptUdp,
        6 => Transport::DnscryptTcp,
        7 => Transport::Quic,
        other => return Err(format!("socket_protocol {other}, expected 1 to 7")),
    })
}

fn address(octets: &[u8]) -> Result<IpAddr, String> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    let octets = <[u8; 16]>::try_from(octets);
    let address = octets.map_err(|_| "an address of neither 4 nor 16 octets".to_owned())?;
    Ok(Ipv6Addr::from(address).into())
}

fn port(number: u64) -> Result<u16, String> {
    u16::try_from(number).map_err(|_| format!("port {number}, expected 0 to 65535"))
}

/// Seconds that fit into nanoseconds of 64 bits: up to the year 2554.
fn whole(seconds: u64) -> Result<u64, String> {
    let fits = seconds < u64::MAX / SECOND;
    fits.then_some(seconds).ok_or_else(|| format!("a time of {seconds} s, expected a date of now"))
}

fn fraction(nanos: u64) -> Result<u64, String> {
    let fits = nanos < SECOND;
    fits.then_some(nanos).ok_or_else(|| format!("{nanos} ns of a second, expected less than 10^9"))
}
