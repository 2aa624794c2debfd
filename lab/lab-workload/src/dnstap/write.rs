//! Frame Streams as they are written: a file, whose writer expects no answers.

use super::frames::{START, STOP, control};
use super::{FRAME_LEN_MAX, Role, Tapped, Transport};
use std::io::{Error, ErrorKind, Result, Write};
use std::net::IpAddr;

const SECOND: u64 = 1_000_000_000;

/// Writes a stream. Each call writes whole frames, or leaves a part of one behind where `output` fails.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Writes START.
    pub fn start(mut output: W) -> Result<Self> {
        output.write_all(&control(START, true))?;
        Ok(Self { output })
    }

    /// Writes a frame of data of 1 octet to [`FRAME_LEN_MAX`].
    pub fn frame(&mut self, content: &[u8]) -> Result<()> {
        if content.is_empty() || content.len() > FRAME_LEN_MAX {
            let text =
                format!("a frame of {} octets, expected 1 to {FRAME_LEN_MAX}", content.len());
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        self.output.write_all(&(content.len() as u32).to_be_bytes())?;
        self.output.write_all(content)
    }

    /// Writes a message.
    pub fn message(&mut self, tapped: &Tapped) -> Result<()> {
        self.frame(&encoded(tapped))
    }

    /// What is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.output
    }

    /// Writes STOP.
    pub fn stop(mut self) -> Result<W> {
        self.output.write_all(&control(STOP, false))?;
        self.output.flush()?;
        Ok(self.output)
    }
}

/// The octets of a frame.
fn encoded(tapped: &Tapped) -> Vec<u8> {
    let mut inner = Vec::new();
    number(&mut inner, 1, kind(tapped));
    if let Some(address) = tapped.asker.0.or(tapped.asked.0) {
        number(&mut inner, 2, if address.is_ipv6() { 2 } else { 1 });
    }
    if let Some(transport) = tapped.transport {
        number(&mut inner, 3, protocol(transport));
    }
    let (asker, asked) = (tapped.asker, tapped.asked);
    for (field, address) in [(4, asker.0), (5, asked.0)] {
        match address {
            Some(IpAddr::V4(address)) => octets(&mut inner, field, &address.octets()),
            Some(IpAddr::V6(address)) => octets(&mut inner, field, &address.octets()),
            None => {}
        }
    }
    for (field, port) in [(6, asker.1), (7, asked.1)] {
        if let Some(port) = port {
            number(&mut inner, field, port.into());
        }
    }
    for (field, time, message) in [
        (8, tapped.query_time, tapped.query.as_deref()),
        (12, tapped.response_time, tapped.response.as_deref()),
    ] {
        if let Some(time) = time {
            number(&mut inner, field, time / SECOND);
            varint(&mut inner, (field + 1) << 3 | 5);
            inner.extend(((time % SECOND) as u32).to_le_bytes());
        }
        if let Some(message) = message {
            octets(&mut inner, field + 2, message);
        }
    }
    let mut outer = Vec::new();
    octets(&mut outer, 14, &inner);
    number(&mut outer, 15, 1);
    outer
}

/// `Message.type`.
fn kind(tapped: &Tapped) -> u64 {
    let at = Role::ALL.iter().position(|role| *role == tapped.role).unwrap_or(0);
    2 * at as u64 + 1 + u64::from(tapped.is_response)
}

fn protocol(transport: Transport) -> u64 {
    match transport {
        Transport::Udp => 1,
        Transport::Tcp => 2,
        Transport::Tls => 3,
        Transport::Https => 4,
        Transport::DnscryptUdp => 5,
        Transport::DnscryptTcp => 6,
        Transport::Quic => 7,
    }
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn octets(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
