//! The packets of a capture file, read from its beginning to its end.

use super::{Fault, NoCapture};
use pcap_parser::nom::Err as Parse;
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock, OptionCode};
use pcap_parser::{parse_block_be, parse_block_le};
use pcap_parser::{parse_pcap_header, traits::PcapNGPacketBlock};
use std::io::{self, Read};
use std::ops::Range;

const SECOND: u128 = 1_000_000_000;
/// The type of the block that starts a section, the same in both orders of octets.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The order of octets in a section that has the least significant first.
const LITTLE: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];
const BIG: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
/// Octets of the header of a pcap file, and of that in front of each of its packets.
const PCAP_HEADER_LEN: usize = 24;
const FRAME_HEADER_LEN: usize = 16;
/// Octets in front of the packet in blocks of pcapng: with a time of its own, and without.
const ENHANCED_LEN: usize = 28;
const SIMPLE_LEN: usize = 12;
/// The type of the block that the enhanced one replaced, with as many octets in front of the packet.
const OLD_PACKET: u32 = 2;
/// Octets in front of the content of every block: type and length.
const BLOCK_HEADER_LEN: usize = 8;
/// Octets of a block without content, which ends with its length once more.
const BLOCK_LEN_MIN: usize = BLOCK_HEADER_LEN + 4;
/// Units of time in a second, if an interface does not say how many.
const MICROSECONDS: u64 = 1_000_000;
/// The longest frame or block that is read as a whole.
const FRAME_LEN_MAX: usize = 16 << 20;
/// Octets that are read at once.
const CHUNK: usize = 1 << 16;

/// A packet: its number from 1, and its time in nanoseconds, link type and octets.
pub(super) struct Packet<'a> {
    pub(super) number: u64,
    pub(super) content: Result<(u64, i32, &'a [u8]), Fault>,
}

/// Time, link type, and where in the window the octets are.
type Found = Result<(u64, i32, Range<usize>), Fault>;

/// Gives every packet to `each`, up to where the file cannot be read any more.
pub(super) fn packets(octets: &[u8], mut each: impl FnMut(Packet<'_>)) -> Result<(), NoCapture> {
    // Octets in memory can always be read.
    let mut frames = Frames::open(octets).ok().flatten().ok_or(NoCapture)?;
    while let Ok(Some(packet)) = frames.next() {
        each(packet);
    }
    Ok(())
}

/// The packets of a file of which only a small part is in memory at any time.
pub(super) struct Frames<R> {
    window: Window<R>,
    format: Format,
    number: u64,
}

enum Format {
    Pcap(Pcap),
    Ng(PcapNg),
}

impl<R: Read> Frames<R> {
    /// Reads the start of a file; `None` if it is no capture.
    pub(super) fn open(from: R) -> io::Result<Option<Self>> {
        let mut window = Window::new(from);
        window.fill(PCAP_HEADER_LEN)?;
        let start = window.rest();
        let format = if start.starts_with(&SECTION) {
            let order = start.get(8..12);
            let known = order.is_some_and(|order| order == LITTLE || order == BIG);
            known.then(|| Format::Ng(PcapNg::default()))
        } else {
            Pcap::of(start).map(Format::Pcap)
        };
        if matches!(format, Some(Format::Pcap(_))) {
            window.take(PCAP_HEADER_LEN);
        }
        Ok(format.map(|format| Self { window, format, number: 0 }))
    }

    /// The next packet; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<Packet<'_>>> {
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window)?,
            Format::Ng(ng) => ng.next(&mut self.window)?,
        };
        let Some(found) = found else { return Ok(None) };
        self.number += 1;
        let octets = |range| self.window.buffer.get(range).unwrap_or_default();
        let content = found.map(|(time, link, range)| (time, link, octets(range)));
        Ok(Some(Packet { number: self.number, content }))
    }
}

/// The part of a file that is looked at.
struct Window<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where in the buffer the part starts that was not taken yet, and where that is in the file.
    start: usize,
    at: usize,
    ended: bool,
}

impl<R: Read> Window<R> {
    fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), start: 0, at: 0, ended: false }
    }

    /// Octets that were read and not taken.
    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Reads until `len` octets are there, or the file ends (false).
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        while self.rest().len() < len && !self.ended {
            self.buffer.drain(..self.start);
            self.start = 0;
            let had = self.buffer.len();
            self.buffer.resize(had + CHUNK, 0);
            let read = loop {
                match self.from.read(self.buffer.get_mut(had..).unwrap_or_default()) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            };
            self.buffer.truncate(had + read.as_ref().copied().unwrap_or(0));
            self.ended = read? == 0;
        }
        Ok(self.rest().len() >= len)
    }

    /// Goes on behind `len` octets, and says where in the buffer they are: up to the next `fill`.
    fn take(&mut self, len: usize) -> Range<usize> {
        let from = self.start;
        self.start = from.saturating_add(len).min(self.buffer.len());
        self.at += self.start - from;
        from..self.start
    }

    /// Gives up the rest of the file.
    fn end(&mut self) {
        self.take(usize::MAX);
        self.ended = true;
    }
}

/// What the header of a pcap file says about all of its packets.
struct Pcap {
    big: bool,
    link: i32,
    /// Nanoseconds of a unit of the fraction of a second.
    unit: u64,
}

impl Pcap {
    fn of(start: &[u8]) -> Option<Self> {
        let (_, header) = parse_pcap_header(start).ok()?;
        // The upper bits may say how long the frame check sequence is.
        let link = header.network.0 & 0x0fff_ffff;
        let unit = if header.is_nanosecond_precision() { 1 } else { 1_000 };
        let big = header.is_bigendian();
        (!header.is_modified_format()).then_some(Self { big, link, unit })
    }

    fn next<R: Read>(&self, window: &mut Window<R>) -> io::Result<Option<Found>> {
        let at = window.at;
        let whole = window.fill(FRAME_HEADER_LEN)?;
        if window.rest().is_empty() {
            return Ok(None);
        }
        let ends = |window: &mut Window<R>, fault| {
            window.end();
            Ok(Some(Err(fault)))
        };
        let (Some([seconds, fraction, len]), true) = (self.frame(window.rest()), whole) else {
            return ends(window, Fault::FileEnds(at));
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > FRAME_LEN_MAX {
            let what = "a packet of more than 16 MiB, the rest is left out";
            return ends(window, Fault::Frame { at, what });
        }
        if !window.fill(FRAME_HEADER_LEN + len)? {
            return ends(window, Fault::FileEnds(at));
        }
        let taken = window.take(FRAME_HEADER_LEN + len);
        let fraction = u64::from(fraction) * self.unit;
        if u128::from(fraction) >= SECOND {
            let what = "a time whose fraction is a second or more";
            return Ok(Some(Err(Fault::Frame { at, what })));
        }
        let time = u64::from(seconds) * SECOND as u64 + fraction;
        Ok(Some(Ok((time, self.link, taken.start + FRAME_HEADER_LEN..taken.end))))
    }

    /// Seconds, their fraction and octets of the packet behind this header.
    fn frame(&self, octets: &[u8]) -> Option<[u32; 3]> {
        let number = |at: usize| number(octets, at, self.big);
        Some([number(0)?, number(4)?, number(8)?])
    }
}

/// The number of 32 bits at `at`.
fn number(octets: &[u8], at: usize, big: bool) -> Option<u32> {
    let number = *octets.get(at..)?.first_chunk::<4>()?;
    Some(if big { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) })
}

#[derive(Default)]
struct PcapNg {
    big: bool,
    interfaces: Vec<Interface>,
    time: u64,
}

struct Interface {
    link: i32,
    /// Units of time in a second; `None` if those are more than 64 bits can count.
    resolution: Option<u64>,
    /// Seconds to be added.
    offset: i64,
}

impl Interface {
    /// `big` is the order of octets. The parser of blocks does not know resolutions that are powers of two, and takes
    /// every offset to have the least significant octet first.
    fn of(block: &InterfaceDescriptionBlock<'_>, big: bool) -> Self {
        let option = |code| {
            let option = block.options.iter().find(|option| option.code == code);
            option.and_then(|option| option.as_bytes().ok())
        };
        let resolution = option(OptionCode::IfTsresol).and_then(|octets| octets.first());
        let offset = option(OptionCode::IfTsoffset).and_then(|octets| octets.first_chunk::<8>());
        Self {
            link: block.linktype.0,
            resolution: resolution.map_or(Some(MICROSECONDS), |octet| units(*octet)),
            offset: offset.map_or(0, |offset| {
                if big { i64::from_be_bytes(*offset) } else { i64::from_le_bytes(*offset) }
            }),
        }
    }
}

/// Units in a second: a power of two if the highest bit is set, otherwise of ten.
fn units(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent)
}

impl PcapNg {
    fn next<R: Read>(&mut self, window: &mut Window<R>) -> io::Result<Option<Found>> {
        loop {
            let at = window.at;
            window.fill(SIMPLE_LEN)?;
            if window.rest().is_empty() {
                return Ok(None);
            }
            if window.rest().starts_with(&SECTION) {
                match window.rest().get(8..12) {
                    Some(order) if order == LITTLE => self.big = false,
                    Some(order) if order == BIG => self.big = true,
                    _ => {}
                }
                self.interfaces.clear();
            }
            let said = self.len(window.rest());
            if said.is_some_and(|len| len < BLOCK_LEN_MIN) {
                // The parser subtracts this much from it.
                return Ok(Some(Err(broken(window, None, at))));
            }
            let len = said.filter(|len| *len <= FRAME_LEN_MAX);
            if let Some(len) = len {
                window.fill(len.next_multiple_of(4))?;
            }
            let rest = window.rest();
            let parsed = if self.big { parse_block_be(rest) } else { parse_block_le(rest) };
            match parsed {
                Ok((behind, block)) if behind.len() < rest.len() => {
                    let used = rest.len() - behind.len();
                    let found = self.block(&block, at);
                    let taken = window.take(used);
                    let Some(found) = found else { continue };
                    return Ok(Some(found.map(|(time, link, within)| {
                        let range = taken.start + within.start..taken.start + within.end;
                        (time, link, range)
                    })));
                }
                Ok(_) | Err(Parse::Incomplete(_)) => {
                    window.end();
                    return Ok(Some(Err(Fault::FileEnds(at))));
                }
                Err(_) => return Ok(Some(Err(broken(window, len, at)))),
            }
        }
    }

    /// What the block at the start of `octets` says about its length.
    fn len(&self, octets: &[u8]) -> Option<usize> {
        number(octets, 4, self.big).and_then(|len| usize::try_from(len).ok())
    }

    /// The packet in a block that starts at `at` of the file, and where in the block it is.
    fn block(&mut self, block: &Block<'_>, at: usize) -> Option<Found> {
        match block {
            Block::InterfaceDescription(interface) => {
                self.interfaces.push(Interface::of(interface, self.big));
                None
            }
            Block::EnhancedPacket(packet) => {
                let len = packet.packet_data().len();
                Some(self.packet(packet.if_id, [packet.ts_high, packet.ts_low], len, at))
            }
            Block::Unknown(block) if self.is_old_packet(block.block_type) => {
                Some(self.old_packet(block.data, at))
            }
            Block::SimplePacket(packet) => {
                // It has no time of its own, and belongs to the first interface.
                let len = packet.packet_data().len();
                Some(match self.interfaces.first() {
                    Some(first) => Ok((self.time, first.link, SIMPLE_LEN..SIMPLE_LEN + len)),
                    None => Err(Fault::Frame { at, what: "an interface that was not described" }),
                })
            }
            _ => None,
        }
    }

    /// A packet of `len` octets in a block that starts at `at` of the file.
    fn packet(&mut self, interface: u32, [high, low]: [u32; 2], len: usize, at: usize) -> Found {
        let fault = |what| Err(Fault::Frame { at, what });
        let interface = usize::try_from(interface).ok().and_then(|id| self.interfaces.get(id));
        let Some(Interface { link, resolution, offset }) = interface else {
            return fault("an interface that was not described");
        };
        let Some(resolution) = resolution else {
            return fault(
                "an interface with more units of time in a second than 64 bits can count",
            );
        };
        let ticks = u64::from(high) << 32 | u64::from(low);
        let Some(time) = nanoseconds(ticks, *resolution, *offset) else {
            return fault("a time before 1970 or after 2554");
        };
        self.time = time;
        Ok((time, *link, ENHANCED_LEN..ENHANCED_LEN + len))
    }

    /// `kind` is read with the least significant octet first, whatever the order in the section.
    fn is_old_packet(&self, kind: u32) -> bool {
        OLD_PACKET == if self.big { kind.swap_bytes() } else { kind }
    }

    /// The same, out of the content of a block whose layout is old.
    fn old_packet(&mut self, content: &[u8], at: usize) -> Found {
        let number = |at| number(content, at, self.big).unwrap_or_default();
        // The other half of the first number counts packets that were dropped.
        let interface = if self.big { number(0) >> 16 } else { number(0) & 0xffff };
        let time = [number(4), number(8)];
        let len = usize::try_from(number(12)).unwrap_or(usize::MAX);
        if len > content.len().saturating_sub(ENHANCED_LEN - BLOCK_HEADER_LEN) {
            return Err(Fault::Frame { at, what: "a broken block" });
        }
        self.packet(interface, time, len, at)
    }
}

/// Goes on behind a broken block of `len` octets at `at`: it says how long it is, so the next one may
/// be good again.
fn broken<R: Read>(window: &mut Window<R>, len: Option<usize>, at: usize) -> Fault {
    let len = len.filter(|len| len % 4 == 0 && *len <= window.rest().len());
    let what = match len {
        Some(len) => {
            window.take(len);
            "a broken block"
        }
        None => {
            window.end();
            "a broken block without a length, the rest is left out"
        }
    };
    Fault::Frame { at, what }
}

/// Nanoseconds since 1970; `None` if that is not a positive number of 64 bits.
fn nanoseconds(ticks: u64, resolution: u64, offset: i64) -> Option<u64> {
    let nanoseconds = u128::from(ticks) * SECOND / u128::from(resolution.max(1));
    let offset = i128::from(offset).checked_mul(SECOND as i128)?;
    let sum = i128::try_from(nanoseconds).ok()?.checked_add(offset)?;
    u64::try_from(sum).ok()
}
