//! The TSIG record (RFC 8945 section 4.2): found, read and written.

use super::error_code::ErrorCode;
use super::signer::TooLong;
use nodens_wire::{
    Class, Header, MESSAGE_LEN_MAX, Name, NameRef, Reader, RecordView, Records, Section, Type,
    WireError,
};

/// Octets between owner and RDATA: TYPE, CLASS, TTL, RDLENGTH.
const FIXED_LEN: usize = 10;
/// Octets of RDATA beside the algorithm's name, the MAC and other data.
const RDATA_FIXED_LEN: usize = 16;

/// Why a message with a TSIG record is to be answered with FORMERR (RFC 8945 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the TSIG record is malformed, repeated, or not the last of the message")]
pub struct Malformed;

impl From<WireError> for Malformed {
    fn from(_: WireError) -> Self {
        Self
    }
}

/// The fields of a record beside those of the MAC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'m> {
    /// Seconds since the Unix epoch, 48 bits.
    pub(super) time_s: u64,
    pub(super) fudge_s: u16,
    pub(super) error: ErrorCode,
    pub(super) other: &'m [u8],
}

impl Variables<'_> {
    pub(super) fn time_octets(&self) -> [u8; 6] {
        time_octets(self.time_s)
    }
}

/// The lower 48 bits of a time.
pub(super) fn time_octets(time_s: u64) -> [u8; 6] {
    let [_, _, octets @ ..] = time_s.to_be_bytes();
    octets
}

/// The TSIG record of a message, not verified.
#[derive(Clone, Debug)]
pub struct Signature<'m> {
    /// Where the record starts.
    pub(super) start: usize,
    /// The name of the key, letter by letter.
    pub(super) key: Name,
    /// The algorithm's name, in wire format and uncompressed.
    pub(super) algorithm: &'m [u8],
    pub(super) variables: Variables<'m>,
    pub(super) mac: &'m [u8],
    pub(super) original_id: u16,
}

impl<'m> Signature<'m> {
    /// The TSIG record of `message`, if it has one.
    ///
    /// # Errors
    /// If the message cannot be read, or if the record is not its last, comes twice, stands in another
    /// section than the additional one, or has not the form of its type (RFC 8945 section 5.2).
    pub fn find(message: &'m [u8]) -> Result<Option<Self>, Malformed> {
        if Header::read(message)?.counts.iter().skip(1).all(|count| *count == 0) {
            return Ok(None);
        }
        let mut found: Option<RecordView> = None;
        for view in Records::of(message)? {
            let view = view?;
            if found.is_some() {
                return Err(Malformed);
            }
            if view.rtype == Type::TSIG {
                found = Some(view);
            }
        }
        found.map(|view| Self::read(message, &view)).transpose()
    }

    /// The name of the key, as it stands in the message.
    pub fn key_name(&self) -> NameRef<'_> {
        self.key.view()
    }

    fn read(message: &'m [u8], view: &RecordView) -> Result<Self, Malformed> {
        let is_formed = view.section == Section::Additional
            && view.class == Class::ANY
            && view.ttl == 0
            && view.end() == message.len();
        if !is_formed {
            return Err(Malformed);
        }
        let mut owner = Vec::new();
        Reader::new(message, view.owner_at).name(&mut owner)?;
        let key = Name::from_wire(&owner).map_err(|_| Malformed)?;
        let rdata = message.get(view.rdata.clone()).ok_or(Malformed)?;
        let mut reader = Reader::new(rdata, 0);
        let algorithm = uncompressed(rdata).ok_or(Malformed)?;
        reader.take(algorithm.len(), "algorithm")?;
        let time_s = u64::from(reader.u16("time")?) << 32 | u64::from(reader.u32("time")?);
        let fudge_s = reader.u16("fudge")?;
        let mac_len = reader.u16("MAC size")?;
        let mac = reader.take(usize::from(mac_len), "MAC")?;
        let original_id = reader.u16("original ID")?;
        let error = ErrorCode(reader.u16("error")?);
        let other_len = reader.u16("other length")?;
        let other = reader.take(usize::from(other_len), "other data")?;
        if reader.left() > 0 {
            return Err(Malformed);
        }
        let variables = Variables { time_s, fudge_s, error, other };
        Ok(Self { start: view.owner_at, key, algorithm, variables, mac, original_id })
    }
}

/// The name at the start of `octets`, which has no pointers.
fn uncompressed(octets: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(octets, 0);
    while let len @ 1.. = reader.u8("label").ok()? {
        if len > 63 {
            return None;
        }
        reader.take(usize::from(len), "label").ok()?;
    }
    let name = octets.get(..reader.at())?;
    (name.len() <= nodens_wire::name::NAME_LEN_MAX).then_some(name)
}

/// A record to be written.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) key: NameRef<'a>,
    pub(super) algorithm: &'a [u8],
    pub(super) variables: Variables<'a>,
    pub(super) mac: &'a [u8],
    pub(super) original_id: u16,
}

/// Octets of a record.
pub(super) fn len(key: NameRef<'_>, algorithm: &[u8], mac_len: usize, other_len: usize) -> usize {
    key.as_wire().len() + FIXED_LEN + algorithm.len() + RDATA_FIXED_LEN + mac_len + other_len
}

impl Draft<'_> {
    /// Appends the record to `message`, uncompressed, and counts it.
    pub(super) fn append(&self, message: &mut Vec<u8>) -> Result<(), TooLong> {
        let Self { key, algorithm, variables, mac, original_id } = self;
        let mut header = Header::read(message).map_err(|_| TooLong)?;
        let [.., additional] = &mut header.counts;
        *additional = additional.checked_add(1).ok_or(TooLong)?;
        let record_len = len(*key, algorithm, mac.len(), variables.other.len());
        if message.len() + record_len > MESSAGE_LEN_MAX {
            return Err(TooLong);
        }
        let rdata_len = record_len - FIXED_LEN - key.as_wire().len();
        message.extend_from_slice(key.as_wire());
        message.extend(Type::TSIG.0.to_be_bytes());
        message.extend(Class::ANY.0.to_be_bytes());
        message.extend([0; 4]);
        message.extend((rdata_len as u16).to_be_bytes());
        message.extend_from_slice(algorithm);
        message.extend(variables.time_octets());
        message.extend(variables.fudge_s.to_be_bytes());
        message.extend((mac.len() as u16).to_be_bytes());
        message.extend_from_slice(mac);
        message.extend(original_id.to_be_bytes());
        message.extend(variables.error.0.to_be_bytes());
        message.extend((variables.other.len() as u16).to_be_bytes());
        message.extend_from_slice(variables.other);
        header.write_to(message);
        Ok(())
    }
}
