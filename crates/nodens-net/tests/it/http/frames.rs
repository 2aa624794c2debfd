//! Frames of HTTP/2 by hand.

use std::io::Read;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// Method POST, scheme `http`, path and authority, as HPACK writes them.
pub(super) const POST: &[u8] = b"\x83\x86\x04\x0a/dns-query\x01\x01x";

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The next frame: kind, flags, stream and payload; nothing at the end.
pub(super) fn read(stream: &mut impl Read) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; len as usize];
    stream.read_exact(&mut payload).ok()?;
    let of = u32::from_be_bytes(head[5..9].try_into().unwrap());
    Some((head[3], head[4], of, payload))
}
