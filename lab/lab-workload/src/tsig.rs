//! Signatures of transactions (RFC 8945), on the client's side.
//!
//! The signature covers the ID and the time, which are known when a message is sent. So messages are
//! signed then, and the time is an argument: everything else of a plan's octets is fixed beforehand.

use hmac::{Hmac, Mac};
use nodens_wire::{Class, Name, NameError, Type};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Seconds that the clocks of client and server may differ, as dnsperf has it.
const FUDGE_S: u16 = 300;
/// The longest secret in octets, as dnsperf has it.
const SECRET_LEN_MAX: usize = 256;

/// Why text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not `[ALGORITHM:]NAME:SECRET`.
    #[error("expected [ALGORITHM:]NAME:SECRET with the secret in base64")]
    Form,
    /// No algorithm that is known.
    #[error(
        "`{0}` is not a TSIG algorithm, expected hmac-md5, hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 \
         or hmac-sha512"
    )]
    Algorithm(String),
    /// The name of the key.
    #[error("key `{0}`: {1}")]
    Name(String, NameError),
    /// Not base64 or too long. The secret itself is not repeated.
    #[error(
        "the secret of the key is not valid base64, expected base64 of 1 to {SECRET_LEN_MAX} octets"
    )]
    Secret,
}

/// A key, as `[ALGORITHM:]NAME:SECRET`; the algorithm is hmac-md5 if none is given, as in dnsperf.
#[derive(Clone)]
pub struct Key {
    name: Name,
    algorithm: Name,
    secret: Arc<[u8]>,
    mac: Arc<KeyedMac>,
}

/// The hash function with the secret in it.
enum KeyedMac {
    Md5(Hmac<md5::Md5>),
    Sha1(Hmac<sha1::Sha1>),
    Sha224(Hmac<sha2::Sha224>),
    Sha256(Hmac<sha2::Sha256>),
    Sha384(Hmac<sha2::Sha384>),
    Sha512(Hmac<sha2::Sha512>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} {})", self.name, self.algorithm)
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let parts: Vec<_> = text.splitn(3, ':').collect();
        let (algorithm, name, secret) = match parts.as_slice() {
            [algorithm, name, secret] => (*algorithm, *name, *secret),
            [name, secret] => ("hmac-md5", *name, *secret),
            _ => return Err(KeyError::Form),
        };
        let secret = octets_of_base64(secret).ok_or(KeyError::Secret)?;
        if !(1..=SECRET_LEN_MAX).contains(&secret.len()) {
            return Err(KeyError::Secret);
        }
        let unknown = || KeyError::Algorithm(algorithm.to_owned());
        let (algorithm, mac) = KeyedMac::new(algorithm, &secret).ok_or_else(unknown)?;
        let name = Name::parse(name).map_err(|error| KeyError::Name(name.to_owned(), error))?;
        Ok(Self { name: name.to_folded(), algorithm, secret: secret.into(), mac: Arc::new(mac) })
    }
}

impl Key {
    /// The name of the key.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// A word of a command line without this key's secret, however the key is spelt there: nothing
    /// that is written in base64 contains a colon, and nothing follows the secret.
    #[must_use]
    pub fn conceal(&self, word: String) -> String {
        match word.rsplit_once(':') {
            Some((rest, secret)) if self.is_secret(secret) => format!("{rest}:…"),
            _ => word,
        }
    }

    fn is_secret(&self, text: &str) -> bool {
        octets_of_base64(text).is_some_and(|octets| octets == *self.secret)
    }

    /// Octets of the TSIG record.
    pub(crate) fn record_len(&self) -> usize {
        // RFC 8945 section 4.2: owner, TYPE to RDLENGTH, algorithm, then fields of fixed length.
        self.name.as_wire().len() + 10 + self.algorithm.as_wire().len() + 16 + self.mac.len()
    }

    /// Signs the message that starts at `start` of `out` and appends the TSIG record.
    pub fn sign(&self, unix_s: u64, start: usize, out: &mut Vec<u8>) {
        let Some(message) = out.get(start..) else { return };
        let Some(count) = message.get(10..12).and_then(<[u8]>::first_chunk) else { return };
        let (id, count) = ([0, 1].map(|at| message.get(at).copied().unwrap_or(0)), *count);
        // RFC 8945 section 4.3.3: the variables of the record.
        let mut variables = self.name.as_wire().to_vec();
        variables.extend(Class::ANY.0.to_be_bytes());
        variables.extend(0_u32.to_be_bytes());
        variables.extend(self.algorithm.as_wire());
        let time: Vec<u8> = unix_s.to_be_bytes().into_iter().skip(2).collect();
        variables.extend(&time);
        variables.extend(FUDGE_S.to_be_bytes());
        variables.extend([0; 4]);
        let mac = self.mac.sign(&[message, &variables]);

        let rdata_len = self.algorithm.as_wire().len() + 16 + mac.len();
        out.extend(self.name.as_wire());
        out.extend(Type::TSIG.0.to_be_bytes());
        out.extend(Class::ANY.0.to_be_bytes());
        out.extend(0_u32.to_be_bytes());
        out.extend(u16::try_from(rdata_len).unwrap_or(u16::MAX).to_be_bytes());
        out.extend(self.algorithm.as_wire());
        out.extend(&time);
        out.extend(FUDGE_S.to_be_bytes());
        out.extend(u16::try_from(mac.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend(&mac);
        out.extend(id);
        out.extend([0; 4]);
        let count = u16::from_be_bytes(count).wrapping_add(1).to_be_bytes();
        if let Some(slot) = out.get_mut(start + 10..start + 12) {
            slot.copy_from_slice(&count);
        }
    }
}

/// A hash function with `secret` in it. HMAC takes secrets of any length, so this cannot fail.
fn keyed<M: Mac + hmac::digest::KeyInit>(secret: &[u8]) -> Option<M> {
    <M as Mac>::new_from_slice(secret).ok()
}

fn digest<M: Mac>(mut mac: M, parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

impl KeyedMac {
    /// The algorithm's name on the wire (RFC 8945 section 6) and the function.
    fn new(algorithm: &str, secret: &[u8]) -> Option<(Name, Self)> {
        let algorithm = algorithm.to_ascii_lowercase();
        let mac = match algorithm.as_str() {
            "hmac-md5" => Self::Md5(keyed(secret)?),
            "hmac-sha1" => Self::Sha1(keyed(secret)?),
            "hmac-sha224" => Self::Sha224(keyed(secret)?),
            "hmac-sha256" => Self::Sha256(keyed(secret)?),
            "hmac-sha384" => Self::Sha384(keyed(secret)?),
            "hmac-sha512" => Self::Sha512(keyed(secret)?),
            _ => return None,
        };
        let md5 = matches!(mac, Self::Md5(_));
        let name = if md5 { "hmac-md5.sig-alg.reg.int" } else { algorithm.as_str() };
        Some((Name::parse(name).ok()?, mac))
    }

    fn len(&self) -> usize {
        match self {
            Self::Md5(_) => 16,
            Self::Sha1(_) => 20,
            Self::Sha224(_) => 28,
            Self::Sha256(_) => 32,
            Self::Sha384(_) => 48,
            Self::Sha512(_) => 64,
        }
    }

    fn sign(&self, parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Md5(mac) => digest(mac.clone(), parts),
            Self::Sha1(mac) => digest(mac.clone(), parts),
            Self::Sha224(mac) => digest(mac.clone(), parts),
            Self::Sha256(mac) => digest(mac.clone(), parts),
            Self::Sha384(mac) => digest(mac.clone(), parts),
            Self::Sha512(mac) => digest(mac.clone(), parts),
        }
    }
}

/// Base 64 (RFC 4648 section 4); the padding may be missing.
fn octets_of_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 || digits.len() % 4 == 1 {
        return None;
    }
    let (mut octets, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            octets.push((bits >> count) as u8);
        }
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use nodens_wire::Message;
    use proptest::prelude::*;

    #[test]
    fn hashes_are_those_of_the_published_test_cases() {
        let hex =
            |octets: Vec<u8>| -> String { octets.iter().map(|o| format!("{o:02x}")).collect() };
        let sign = |algorithm: &str| {
            let (_, mac) = KeyedMac::new(algorithm, b"Jefe").unwrap();
            assert_eq!(mac.sign(&[b""]).len(), mac.len());
            hex(mac.sign(&[b"what do ya want ", b"for nothing?"]))
        };
        // RFC 2202 section 2 and 3, test case 2; RFC 4231 section 4.3.
        assert_eq!(sign("hmac-md5"), "750c783e6ab0b503eaa86e310a5db738");
        assert_eq!(sign("HMAC-SHA1"), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        let sha224 = "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44";
        assert_eq!(sign("hmac-sha224"), sha224);
        assert!(sign("hmac-sha256").starts_with("5bdcc146bf60754e6a042426089575c7"));
        assert!(sign("hmac-sha384").starts_with("af45d2e376484031617f78d2b58a6b1b"));
        assert!(sign("hmac-sha512").starts_with("164b7a7bfcf819e2e395fbe73b56e0a3"));
    }

    #[test]
    fn a_signed_message_ends_with_its_record_and_differs_by_time() {
        let mut workload = Workload::new(1);
        workload.push(Name::parse("a.example.").unwrap().view(), Type::A, Some(Default::default()));
        let unsigned = workload.message_len_max();
        workload.set_key("hmac-sha256:Key.Example:c2VjcmV0".parse().unwrap());
        let signed = |unix_s| {
            let mut out = vec![0xff];
            workload.append_at(0, 0x1234, unix_s, &mut out);
            out.split_off(1)
        };
        let message = Message::parse(&signed(1_700_000_000)).unwrap();
        let record = message.additional.last().unwrap();
        assert_eq!((record.rtype, record.ttl), (Type::TSIG, 0));
        assert_eq!(record.owner.to_string(), "key.example.");
        assert_eq!(signed(7).len(), workload.message_len_max());
        assert!(workload.message_len_max() > unsigned);
        assert_eq!(signed(7), signed(7));
        assert_ne!(signed(7), signed(8));
    }

    #[test]
    fn what_is_no_key_is_named_and_secrets_are_not() {
        for (text, part) in [
            ("secret", "expected [ALGORITHM:]NAME:SECRET"),
            ("hmac-none:a:c2VjcmV0", "`hmac-none` is not a TSIG algorithm"),
            ("a..b:c2VjcmV0", "key `a..b`: name has an empty label"),
            ("name:c2Vjc.mV0", "the secret of the key is not valid base64"),
            ("name:", "the secret of the key is not valid base64"),
        ] {
            let error = text.parse::<Key>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let key: Key = "name:c2VjcmV0".parse().unwrap();
        assert_eq!(format!("{key:?}"), "Key(name. hmac-md5.sig-alg.reg.int.)");
        assert_eq!(octets_of_base64("c2VjcmV0cw==").as_deref(), Some(&b"secrets"[..]));
    }

    #[test]
    fn a_secret_is_concealed_whatever_stands_before_it() {
        let key: Key = "hmac-sha256:name:c2VjcmV0cw==".parse().unwrap();
        for (word, kept) in [
            ("-Dyhmac-sha256:name:c2VjcmV0cw==", "-Dyhmac-sha256:name:…"),
            // The padding may be missing, and the algorithm.
            ("--tsig=name:c2VjcmV0cw", "--tsig=name:…"),
            ("[::1]:53", "[::1]:53"),
            ("--steps", "--steps"),
            ("name:b3RoZXI=", "name:b3RoZXI="),
        ] {
            assert_eq!(key.conceal(word.to_owned()), kept);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            _ = text.parse::<Key>();
        }

        #[test]
        fn any_octets_can_be_signed(mut octets: Vec<u8>) {
            let key: Key = "name:c2VjcmV0".parse().unwrap();
            key.sign(1, 0, &mut octets);
        }
    }
}
