//! Streams in one direction that a client opens: control, and the two of QPACK (RFC 9114 section 6.2,
//! RFC 9204 section 4.2).

use super::code;
use super::control::Control;
use super::frames::number;
use super::order::Order;
use crate::limits::HTTP3_IDLE_MAX;
use std::collections::HashMap;

/// All of one connection.
#[derive(Debug, Default)]
pub(crate) struct Side {
    streams: HashMap<u64, Stream>,
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    /// How much of no use the client has done, less its responses.
    idle: usize,
}

/// Whether more of a stream is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Yes.
    More,
    /// It means nothing here.
    Nothing,
}

#[derive(Debug, Default)]
struct Stream {
    role: Role,
    order: Order,
}

#[derive(Debug)]
enum Role {
    /// Octets of its type.
    Unknown(Vec<u8>),
    Control(Box<Control>),
    /// Instructions for a dynamic table that there is not.
    Encoder,
    /// Instructions about fields that use it. Whether one goes on with the next octet.
    Decoder(bool),
}

impl Default for Role {
    fn default() -> Self {
        Self::Unknown(Vec::new())
    }
}

impl Side {
    /// Takes octets that stand at `offset` in a stream; or gives the code of the connection's error.
    pub(crate) fn take(&mut self, stream: u64, offset: u64, octets: &[u8]) -> Result<Want, u32> {
        let own = self.streams.entry(stream).or_default();
        if !own.order.is_next(offset, octets)? {
            return Ok(Want::More);
        }
        let mut want = self.read(stream, octets)?;
        while want == Want::More {
            let next = self.streams.get_mut(&stream).and_then(|own| own.order.next());
            let Some(octets) = next else { break };
            want = self.read(stream, &octets)?;
        }
        if want == Want::Nothing {
            self.streams.remove(&stream);
        }
        Ok(want)
    }

    /// A stream has ended; gives the code of the connection's error if it needs that stream.
    pub(crate) fn end(&mut self, stream: u64) -> Result<(), u32> {
        let is_needed = self.streams.get(&stream).is_some_and(|own| match own.role {
            Role::Unknown(_) => false,
            Role::Control(_) | Role::Encoder | Role::Decoder(_) => true,
        });
        self.streams.remove(&stream);
        if is_needed {
            return Err(code::CLOSED_CRITICAL_STREAM);
        }
        self.idled(1)
    }

    /// Counts what is of no use; too much of it is an error of the connection.
    pub(crate) fn idled(&mut self, count: usize) -> Result<(), u32> {
        self.idle += count;
        if self.idle > HTTP3_IDLE_MAX { Err(code::EXCESSIVE_LOAD) } else { Ok(()) }
    }

    /// A response has been sent.
    pub(crate) fn responded(&mut self) {
        self.idle = self.idle.saturating_sub(1);
    }

    /// Octets of memory beside [`crate::limits::HTTP3_COST`].
    pub(crate) fn cost(&self) -> usize {
        let costs = self.streams.values().map(|own| match &own.role {
            Role::Control(control) => own.order.cost() + control.cost(),
            _ => own.order.cost(),
        });
        costs.sum()
    }

    /// Looks at the next octets of a stream.
    fn read(&mut self, stream: u64, octets: &[u8]) -> Result<Want, u32> {
        let Some(own) = self.streams.get_mut(&stream) else { return Ok(Want::Nothing) };
        let (begun, idle);
        let octets = match &mut own.role {
            Role::Unknown(kind) => {
                kind.extend_from_slice(octets);
                begun = std::mem::take(kind);
                let Some((kind, rest)) = number(&begun) else {
                    own.role = Role::Unknown(begun);
                    return Ok(Want::More);
                };
                let Some(role) = self.role(kind)? else {
                    return self.idled(1).map(|()| Want::Nothing);
                };
                if let Some(own) = self.streams.get_mut(&stream) {
                    own.role = role;
                }
                rest
            }
            _ => octets,
        };
        let Some(own) = self.streams.get_mut(&stream) else { return Ok(Want::Nothing) };
        idle = match &mut own.role {
            Role::Unknown(_) => 0,
            Role::Control(control) => control.take(octets)?,
            // A table of no octets may be asked for, and nothing else.
            Role::Encoder if octets.iter().all(|octet| *octet == 0x20) => octets.len(),
            Role::Encoder => return Err(code::ENCODER_STREAM_ERROR),
            Role::Decoder(goes_on) => {
                octets.iter().try_for_each(|octet| instruction(goes_on, *octet))?;
                octets.len()
            }
        };
        self.idled(idle).map(|()| Want::More)
    }

    /// What a stream of this type is; none if it means nothing.
    fn role(&mut self, kind: u64) -> Result<Option<Role>, u32> {
        let (role, has) = match kind {
            0 => (Role::Control(Box::default()), &mut self.has_control),
            2 => (Role::Encoder, &mut self.has_encoder),
            3 => (Role::Decoder(false), &mut self.has_decoder),
            // Only servers push.
            1 => return Err(code::STREAM_CREATION_ERROR),
            _ => return Ok(None),
        };
        match std::mem::replace(has, true) {
            true => Err(code::STREAM_CREATION_ERROR),
            false => Ok(Some(role)),
        }
    }
}

/// Looks at an octet of instructions of a decoder (RFC 9204 section 4.4): it may say that it has given up a
/// stream. Nothing was ever sent that it could acknowledge.
fn instruction(goes_on: &mut bool, octet: u8) -> Result<(), u32> {
    if *goes_on {
        *goes_on = octet & 0x80 != 0;
        return Ok(());
    }
    *goes_on = octet == 0x7f;
    if octet & 0xc0 == 0x40 { Ok(()) } else { Err(code::DECODER_STREAM_ERROR) }
}
