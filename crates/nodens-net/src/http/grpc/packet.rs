//! A message of DNS in a field of Protocol Buffers, in a frame of gRPC.

use crate::limits::GRPC_AROUND;
use bytes::{BufMut, Bytes, BytesMut};

/// What stands in front of a message: whether it is compressed, and its length.
const FRAME_LEN: usize = 5;
/// The key of the field with the DNS message, and the most octets of its length.
pub(super) const FIELD: u8 = 1 << 3 | 2;
const FIELD_LEN: usize = 4;

/// Why there is no message, in the words of Go's gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// It ends before it is whole.
    #[error("unexpected EOF")]
    Short,
    /// Nobody agreed on compression.
    #[error("grpc: compressed flag set with identity or empty encoding")]
    Compressed,
    /// The first octet means nothing.
    #[error("grpc: received unexpected payload format")]
    Format,
    /// It is longer than it may be.
    #[error("grpc: received message larger than max")]
    TooLong,
    /// Something follows it.
    #[error("grpc: client streaming protocol violation: more than one message")]
    TwoMessages,
    /// It is no Protocol Buffers message.
    #[error("proto: cannot parse invalid wire-format data")]
    Malformed,
}

/// The message in a body, of at most `len_max` octets.
pub(crate) fn message(body: &[u8], len_max: usize) -> Result<&[u8], Flaw> {
    let (frame, rest) = body.split_first_chunk::<FRAME_LEN>().ok_or(Flaw::Short)?;
    let [is_compressed, len @ ..] = *frame;
    match is_compressed {
        0 => {}
        1 => return Err(Flaw::Compressed),
        _ => return Err(Flaw::Format),
    }
    let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
    if len > len_max + GRPC_AROUND - FRAME_LEN {
        return Err(Flaw::TooLong);
    }
    let packet = rest.get(..len).ok_or(Flaw::Short)?;
    if rest.len() > len {
        return Err(Flaw::TwoMessages);
    }
    field(packet).ok_or(Flaw::Malformed)
}

/// The octets of the field of a packet; the last one counts, and what is unknown is passed over.
fn field(mut packet: &[u8]) -> Option<&[u8]> {
    let mut message: &[u8] = &[];
    while !packet.is_empty() {
        let (key, rest) = varint(packet)?;
        let (number, kind) = (key >> 3, key & 7);
        if number == 0 || number > (1 << 29) - 1 {
            return None;
        }
        let (len, rest) = match kind {
            0 => (rest.len() - varint(rest)?.1.len(), rest),
            1 => (8, rest),
            2 => {
                let (len, rest) = varint(rest)?;
                (usize::try_from(len).ok()?, rest)
            }
            5 => (4, rest),
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        if key == u64::from(FIELD) {
            message = value;
        }
        packet = rest;
    }
    Some(message)
}

/// A number of seven bits in each octet, the least first; and what follows it.
fn varint(octets: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, octet) in octets.iter().enumerate().take(10) {
        let bits = u64::from(octet & 0x7f);
        let shift = 7 * place as u32;
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if octet & 0x80 == 0 {
            return Some((number, octets.get(place + 1..)?));
        }
    }
    None
}

/// The body with this message.
pub(crate) fn around(message: &[u8]) -> Bytes {
    let mut packet = BytesMut::with_capacity(FRAME_LEN + FIELD_LEN + message.len());
    let mut field = Vec::with_capacity(FIELD_LEN);
    field.push(FIELD);
    let mut len = message.len();
    while len >= 0x80 {
        field.push(len as u8 | 0x80);
        len >>= 7;
    }
    field.push(len as u8);
    packet.put_u8(0);
    packet.put_u32(u32::try_from(field.len() + message.len()).unwrap_or(u32::MAX));
    packet.put_slice(&field);
    packet.put_slice(message);
    packet.freeze()
}
