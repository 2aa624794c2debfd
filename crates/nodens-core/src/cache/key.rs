//! What an entry is found by.

use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Flags, NameRef, Type};

/// The longest client subnet option that means something: an IPv6 prefix (RFC 7871 section 6).
pub(crate) const SUBNET_LEN_MAX: usize = 20;

/// Octets that are folded at once.
const FOLD_STEP: usize = 32;
/// Room for a key, in whole steps.
const OCTETS_LEN: usize = (NAME_LEN_MAX + SUBNET_LEN_MAX).next_multiple_of(FOLD_STEP);

/// The bits of the request that are part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct KeyBits(u8);

impl KeyBits {
    /// How many they are.
    const COUNT: u32 = 3;

    /// DO, and CD and RD as they stand in `flags`.
    pub(crate) fn new(dnssec_ok: bool, flags: Flags) -> Self {
        let checking_disabled = u8::from(flags.has(Flags::CD));
        let recursion_desired = u8::from(flags.has(Flags::RD));
        Self(u8::from(dnssec_ok) | checking_disabled << 1 | recursion_desired << 2)
    }

    /// DO.
    pub(crate) fn dnssec_ok(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The bits and how long the client subnet option is, in one octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyMarks(u8);

impl KeyMarks {
    /// DO, CD and RD.
    pub(crate) fn bits(self) -> KeyBits {
        KeyBits(self.0 & ((1 << KeyBits::COUNT) - 1))
    }

    /// As one octet, for another process.
    pub(crate) fn to_octet(self) -> u8 {
        self.0
    }

    /// The reverse of [`KeyMarks::to_octet`], of whatever octet.
    pub(crate) fn from_octet(octet: u8) -> Self {
        Self(octet)
    }

    /// Octets of the client subnet option, at most [`SUBNET_LEN_MAX`].
    pub(crate) fn subnet_len(self) -> usize {
        usize::from(self.0 >> KeyBits::COUNT)
    }
}

const _: () = assert!((SUBNET_LEN_MAX + 1) << KeyBits::COUNT <= u8::MAX as usize + 1);

/// A key within a scope: the folded QNAME, QTYPE, QCLASS, DO, CD, RD, and the client subnet
/// that is sent upstream, if any.
///
/// RD is among them because what an upstream says without recursion is often a referral or a
/// failure, which is no answer for who wants recursion; and because a client must not learn from the
/// cache what others asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key<'k> {
    octets: &'k [u8],
    name_len: u8,
    pub(crate) qtype: Type,
    pub(crate) qclass: Class,
    pub(crate) bits: KeyBits,
}

impl<'k> Key<'k> {
    /// A key from its parts; the first `name_len` of `octets` are the QNAME.
    pub(crate) fn new(
        octets: &'k [u8],
        name_len: u8,
        qtype: Type,
        qclass: Class,
        bits: KeyBits,
    ) -> Self {
        Self { octets, name_len, qtype, qclass, bits }
    }

    /// The folded QNAME and behind it the client subnet option.
    pub(crate) fn octets(&self) -> &'k [u8] {
        self.octets
    }

    /// How many of the octets are the QNAME.
    pub(crate) fn name_len(&self) -> u8 {
        self.name_len
    }

    /// The bits, and how much of the octets is the client subnet option.
    pub(crate) fn marks(&self) -> KeyMarks {
        let subnet_len = self.octets.len().saturating_sub(usize::from(self.name_len));
        KeyMarks(self.bits.0 | (subnet_len << KeyBits::COUNT) as u8)
    }

    /// Everything that is not in the octets, for the hash.
    pub(crate) fn packed(&self) -> u64 {
        u64::from(self.qtype.0)
            | u64::from(self.qclass.0) << 16
            | u64::from(self.bits.0) << 32
            | u64::from(self.name_len) << 40
    }
}

/// Room for the octets of a key, on the stack of whoever looks it up.
pub(crate) struct KeyOctets {
    octets: [u8; OCTETS_LEN],
    name_len: u8,
    len: usize,
}

impl KeyOctets {
    /// Folds `qname`; `None` if `subnet` is longer than any client subnet option.
    pub(crate) fn new(qname: NameRef<'_>, subnet: &[u8]) -> Option<Self> {
        let name = qname.as_wire();
        let (name_len, len) = (u8::try_from(name.len()).ok()?, name.len() + subnet.len());
        if subnet.len() > SUBNET_LEN_MAX {
            return None;
        }
        let mut octets = [0; OCTETS_LEN];
        octets.get_mut(..name.len())?.copy_from_slice(name);
        // Whole steps, as many octets as a processor folds at once.
        let whole = name.len().next_multiple_of(FOLD_STEP);
        octets.get_mut(..whole)?.make_ascii_lowercase();
        octets.get_mut(name.len()..len)?.copy_from_slice(subnet);
        Some(Self { octets, name_len, len })
    }

    /// The key with these octets.
    pub(crate) fn key(&self, qtype: Type, qclass: Class, bits: KeyBits) -> Key<'_> {
        let octets = self.octets.get(..self.len).unwrap_or_default();
        Key::new(octets, self.name_len, qtype, qclass, bits)
    }
}
