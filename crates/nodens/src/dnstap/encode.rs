//! dnstap.proto: the few fields there are, by hand.

use nodens_core::tap::{Kind, Message, Spec};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// `Dnstap.type`: MESSAGE is the only one there is.
const TYPE_MESSAGE: u64 = 1;

/// Appends a `Dnstap` message.
pub(super) fn message(
    message: &Message,
    spec: &Spec,
    wall: impl Fn(u64) -> Duration,
    out: &mut Vec<u8>,
) {
    octets(1, &spec.identity, out);
    octets(2, &spec.version, out);
    if let Some(extra) = &message.extra {
        octets(3, extra.as_bytes(), out);
    }
    octets(14, &inner(message, wall), out);
    number(15, TYPE_MESSAGE, out);
}

fn inner(message: &Message, wall: impl Fn(u64) -> Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + message.wire.as_ref().map_or(0, Vec::len));
    number(1, message.kind as u64, &mut out);
    if let Some(address) = message.asker.or(message.asked) {
        number(2, if address.ip().to_canonical().is_ipv4() { 1 } else { 2 }, &mut out);
    }
    number(3, message.transport.dnstap_protocol(), &mut out);
    for (field, address) in [(4, message.asker), (5, message.asked)] {
        if let Some(address) = address {
            ip(field, address, &mut out);
        }
    }
    for (field, address) in [(6, message.asker), (7, message.asked)] {
        if let Some(address) = address {
            number(field, u64::from(address.port()), &mut out);
        }
    }
    time(8, wall(message.asked_ns), &mut out);
    if let Some(answered_ns) = message.answered_ns {
        time(12, wall(answered_ns), &mut out);
    }
    if let Some(wire) = &message.wire {
        let is_query = matches!(message.kind, Kind::ClientQuery | Kind::ForwarderQuery);
        octets(if is_query { 10 } else { 14 }, wire, &mut out);
    }
    out
}

fn ip(field: u64, address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip().to_canonical() {
        IpAddr::V4(address) => octets(field, &address.octets(), out),
        IpAddr::V6(address) => octets(field, &address.octets(), out),
    }
}

/// Seconds in `field`, and nanoseconds, of four octets always, in the next one.
fn time(field: u64, at: Duration, out: &mut Vec<u8>) {
    number(field, at.as_secs(), out);
    varint((field + 1) << 3 | 5, out);
    out.extend(at.subsec_nanos().to_le_bytes());
}

fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

fn octets(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        let written = |value| {
            let mut out = Vec::new();
            varint(value, &mut out);
            out
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [127]);
        assert_eq!(written(300), [0xac, 0x02]);
        assert_eq!(written(u64::MAX).len(), 10);
    }
}
