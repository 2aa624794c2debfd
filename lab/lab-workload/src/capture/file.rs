//! The packets of a capture file.

use super::{Fault, NoCapture};
use pcap_parser::nom::Err as Parse;
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock};
use pcap_parser::{parse_block_be, parse_block_le, parse_pcap_frame, parse_pcap_frame_be};
use pcap_parser::{parse_pcap_header, traits::PcapNGPacketBlock};

const SECOND: u128 = 1_000_000_000;
/// The type of the block that starts a section, the same in both orders of octets.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The order of octets in a section that has the least significant first.
const LITTLE: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];
const BIG: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];

/// A packet: its number from 1, and its time in nanoseconds, link type and octets.
pub(super) struct Packet<'a> {
    pub(super) number: u64,
    pub(super) content: Result<(u64, i32, &'a [u8]), Fault>,
}

/// Gives every packet to `each`, up to where the file cannot be read any more.
pub(super) fn packets(octets: &[u8], mut each: impl FnMut(Packet<'_>)) -> Result<(), NoCapture> {
    if octets.starts_with(&SECTION) {
        return PcapNg::default().read(octets, &mut each);
    }
    let Ok((mut rest, header)) = parse_pcap_header(octets) else { return Err(NoCapture) };
    if header.is_modified_format() {
        return Err(NoCapture);
    }
    let unit = if header.is_nanosecond_precision() { 1 } else { 1_000 };
    // The upper bits may say how long the frame check sequence is.
    let link = header.network.0 & 0x0fff_ffff;
    for number in 1.. {
        if rest.is_empty() {
            break;
        }
        let at = octets.len() - rest.len();
        let frame =
            if header.is_bigendian() { parse_pcap_frame_be(rest) } else { parse_pcap_frame(rest) };
        let Ok((behind, frame)) = frame else {
            each(Packet { number, content: Err(Fault::FileEnds(at)) });
            break;
        };
        let time = u64::from(frame.ts_sec) * 1_000_000_000 + u64::from(frame.ts_usec) * unit;
        each(Packet { number, content: Ok((time, link, frame.data)) });
        rest = behind;
    }
    Ok(())
}

#[derive(Default)]
struct PcapNg {
    big: bool,
    /// Link type, units of time in a second, and offset in seconds of each interface.
    interfaces: Vec<(i32, u64, i64)>,
    number: u64,
    time: u64,
}

impl PcapNg {
    fn read(mut self, octets: &[u8], each: &mut impl FnMut(Packet<'_>)) -> Result<(), NoCapture> {
        let mut rest = octets;
        while !rest.is_empty() {
            let at = octets.len() - rest.len();
            if rest.starts_with(&SECTION) {
                match rest.get(8..12) {
                    Some(order) if order == LITTLE => self.big = false,
                    Some(order) if order == BIG => self.big = true,
                    _ if at == 0 => return Err(NoCapture),
                    _ => {}
                }
                self.interfaces.clear();
            }
            let parsed = if self.big { parse_block_be(rest) } else { parse_block_le(rest) };
            match parsed {
                Ok((behind, block)) if behind.len() < rest.len() => {
                    self.block(&block, at, each);
                    rest = behind;
                }
                Ok(_) | Err(Parse::Incomplete(_)) => {
                    let number = self.number + 1;
                    each(Packet { number, content: Err(Fault::FileEnds(at)) });
                    break;
                }
                Err(_) => {
                    // A block says how long it is: the next one may be good again.
                    self.number += 1;
                    let len = self.len(rest).filter(|len| *len >= 12 && *len % 4 == 0);
                    let behind = len.and_then(|len| rest.get(len..));
                    let what = match behind {
                        Some(_) => "a broken block",
                        None => "a broken block without a length, the rest is left out",
                    };
                    each(Packet { number: self.number, content: Err(Fault::Frame { at, what }) });
                    rest = behind.unwrap_or_default();
                }
            }
        }
        Ok(())
    }

    /// What the block at the start of `octets` says about its length.
    fn len(&self, octets: &[u8]) -> Option<usize> {
        let len = *octets.get(4..)?.first_chunk::<4>()?;
        let len = if self.big { u32::from_be_bytes(len) } else { u32::from_le_bytes(len) };
        usize::try_from(len).ok()
    }

    fn block(&mut self, block: &Block<'_>, at: usize, each: &mut impl FnMut(Packet<'_>)) {
        match block {
            Block::InterfaceDescription(interface) => self.interfaces.push(describe(interface)),
            Block::EnhancedPacket(packet) => {
                self.number += 1;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let interface = usize::try_from(packet.if_id).ok();
                let interface = interface.and_then(|id| self.interfaces.get(id));
                let content = match interface {
                    Some((link, resolution, offset)) => {
                        self.time = nanoseconds(ticks, *resolution, *offset);
                        Ok((self.time, *link, packet.packet_data()))
                    }
                    None => Err(Fault::Frame { at, what: "an interface that was not described" }),
                };
                each(Packet { number: self.number, content });
            }
            Block::SimplePacket(packet) => {
                // It has no time of its own, and belongs to the first interface.
                self.number += 1;
                let content = match self.interfaces.first() {
                    Some((link, ..)) => Ok((self.time, *link, packet.packet_data())),
                    None => Err(Fault::Frame { at, what: "an interface that was not described" }),
                };
                each(Packet { number: self.number, content });
            }
            _ => {}
        }
    }
}

fn describe(interface: &InterfaceDescriptionBlock<'_>) -> (i32, u64, i64) {
    let resolution = interface.ts_resolution().filter(|units| *units > 0).unwrap_or(1_000_000);
    (interface.linktype.0, resolution, interface.ts_offset())
}

fn nanoseconds(ticks: u64, resolution: u64, offset: i64) -> u64 {
    let nanoseconds = u128::from(ticks) * SECOND / u128::from(resolution.max(1));
    let offset = i128::from(offset).saturating_mul(SECOND as i128);
    let sum = i128::try_from(nanoseconds).unwrap_or(i128::MAX).saturating_add(offset);
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}
