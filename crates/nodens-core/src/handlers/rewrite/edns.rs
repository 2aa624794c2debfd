//! `edns0`: options of the request.

use super::Undo;
use crate::handler::Cx;
use crate::metadata;
use crate::job::RequestEdns;
use nodens_wire::edns::{Options, code, push_option};
use std::net::IpAddr;

/// The UDP size announced for a request that had no OPT record; CoreDNS's.
const UDP_SIZE_NEW: u16 = 4096;

/// One `edns0` rule.
#[derive(Debug)]
pub(super) struct EdnsRule {
    pub(super) code: u16,
    pub(super) how: How,
    pub(super) data: Data,
    /// Whether the response is to look as if the option had not been touched.
    pub(super) revert: bool,
}

/// What to do with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Set,
    Append,
    Replace,
    Unset,
}

/// What goes into the option.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Data {
    Octets(Vec<u8>),
    Qname,
    Qtype,
    ClientIp,
    ClientPort,
    Protocol,
    ServerIp,
    ServerPort,
    /// A metadata label.
    Label(String),
    /// The client's address, cut to so many bits.
    Subnet { v4: u8, v6: u8 },
}

impl Data {
    /// `None` if there is no value for this question.
    fn octets(&self, cx: &mut Cx<'_>) -> Option<Vec<u8>> {
        let client = *cx.job.client();
        let ip = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        Some(match self {
            Self::Octets(octets) => octets.clone(),
            Self::Qname => super::text::name_text(cx.q().qname.view()).into_bytes(),
            Self::Qtype => cx.q().qtype.0.to_be_bytes().to_vec(),
            Self::ClientIp => ip(client.peer.ip()),
            Self::ClientPort => client.peer.port().to_be_bytes().to_vec(),
            Self::ServerIp => ip(client.local.ip()),
            Self::ServerPort => client.local.port().to_be_bytes().to_vec(),
            Self::Protocol => client.transport.name().into(),
            Self::Label(label) => {
                metadata::value(cx, label).filter(|value| !value.is_empty())?.into_bytes()
            }
            Self::Subnet { v4, v6 } => subnet(client.peer.ip().to_canonical(), *v4, *v6),
        })
    }

    /// Whether `append` adds a second option beside one that is there, as CoreDNS does.
    fn may_repeat(&self) -> bool {
        matches!(self, Self::Octets(_))
    }
}

/// The option of RFC 7871 section 6: family, source and scope prefix length, address.
fn subnet(ip: IpAddr, v4: u8, v6: u8) -> Vec<u8> {
    let (family, bits, mut octets) = match ip {
        IpAddr::V4(ip) => (1, v4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, v6, ip.octets().to_vec()),
    };
    octets.truncate(usize::from(bits).div_ceil(8));
    if let (Some(last), spare @ 1..) = (octets.last_mut(), (8 - bits % 8) % 8) {
        *last &= u8::MAX << spare;
    }
    let mut data = vec![0, family, bits, 0];
    data.extend(octets);
    data
}

impl EdnsRule {
    /// Changes the request's options; false if there was nothing to do.
    pub(super) fn apply(&self, cx: &mut Cx<'_>, undo: &mut Vec<Undo>) -> bool {
        if self.how == How::Unset {
            if let Some(edns) = &mut cx.q().edns {
                remove_all(&mut edns.options, self.code);
            }
            return true;
        }
        let Some(data) = self.data.octets(cx) else { return false };
        let old = cx.q().edns.as_ref().and_then(|edns| {
            Options::new(&edns.options).find(|(option, _)| *option == self.code)
        });
        let old = old.map(|(_, old)| old.to_vec());
        let edns = cx.q().edns.get_or_insert_with(|| RequestEdns {
            udp_size: UDP_SIZE_NEW,
            ..RequestEdns::default()
        });
        let reverting = match (old, self.how) {
            (Some(old), How::Set | How::Replace) => {
                replace_first(&mut edns.options, self.code, &data);
                Undo::EdnsReplaced { code: self.code, data: old }
            }
            (Some(_), _) if !self.data.may_repeat() => return false,
            (None, How::Replace) => return false,
            _ => {
                push_option(&mut edns.options, self.code, &data);
                Undo::EdnsAdded(self.code)
            }
        };
        if self.revert {
            undo.push(reverting);
        }
        true
    }
}

fn remove_all(options: &mut Vec<u8>, wanted: u16) {
    let mut out = Vec::with_capacity(options.len());
    for (option, data) in Options::new(options).filter(|(option, _)| *option != wanted) {
        push_option(&mut out, option, data);
    }
    *options = out;
}

pub(super) fn replace_first(options: &mut Vec<u8>, wanted: u16, new: &[u8]) {
    let mut out = Vec::with_capacity(options.len() + new.len());
    let mut done = false;
    for (option, data) in Options::new(options) {
        let first = option == wanted && !done;
        done |= first;
        push_option(&mut out, option, if first { new } else { data });
    }
    *options = out;
}

pub(super) fn remove_first(options: &mut Vec<u8>, wanted: u16) {
    let mut out = Vec::with_capacity(options.len());
    let mut done = false;
    for (option, data) in Options::new(options) {
        if option == wanted && !done {
            done = true;
            continue;
        }
        push_option(&mut out, option, data);
    }
    *options = out;
}

/// The code of the option that `subnet` and `nsid` rules are about.
pub(super) const SUBNET: u16 = code::CLIENT_SUBNET;
pub(super) const NSID: u16 = code::NSID;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_keeps_only_its_bits() {
        let v4 = "192.0.2.255".parse().unwrap();
        assert_eq!(subnet(v4, 24, 56), [0, 1, 24, 0, 192, 0, 2]);
        assert_eq!(subnet(v4, 28, 56), [0, 1, 28, 0, 192, 0, 2, 240]);
        assert_eq!(subnet(v4, 0, 0), [0, 1, 0, 0]);
        let v6 = "2001:db8:ffff:ffff::1".parse().unwrap();
        assert_eq!(subnet(v6, 24, 49), [0, 2, 49, 0, 0x20, 1, 13, 0xb8, 255, 255, 128]);
    }

    #[test]
    fn only_the_first_of_equal_options_is_touched() {
        let mut options = Vec::new();
        for (option, data) in [(5, b"a"), (9, b"b"), (5, b"c")] {
            push_option(&mut options, option, data);
        }
        let read = |options: &[u8]| {
            Options::new(options).map(|(o, d)| (o, d.to_vec())).collect::<Vec<_>>()
        };
        let mut replaced = options.clone();
        replace_first(&mut replaced, 5, b"xy");
        let expected = [(5, b"xy".to_vec()), (9, b"b".to_vec()), (5, b"c".to_vec())];
        assert_eq!(read(&replaced), expected);
        remove_first(&mut replaced, 5);
        assert_eq!(read(&replaced), expected[1..]);
    }
}
