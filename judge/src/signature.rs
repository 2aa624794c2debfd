//! Signs questions and verifies responses (TSIG, RFC 8945): written apart from the server that is judged.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use domain::base::Name;
use hmac::{Hmac, Mac};

/// Seconds that the clocks may differ.
const FUDGE: u16 = 300;

/// How a question is signed: `ALGORITHM:NAME:SECRET`, as `dig -y` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    text: String,
    algorithm: String,
    /// In wire format and as written.
    name: Vec<u8>,
    secret: Vec<u8>,
    /// Seconds that the signer's clock is ahead.
    pub skew: i64,
    /// Octets of the MAC, if it is cut.
    pub mac_len: Option<usize>,
}

impl FromStr for Signing {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let [algorithm, name, secret] = text.splitn(3, ':').collect::<Vec<_>>()[..] else {
            bail!("'{text}' is not ALGORITHM:NAME:SECRET");
        };
        let secret = base64::engine::general_purpose::STANDARD.decode(secret)?;
        digest(algorithm, &secret, &[]).with_context(|| format!("algorithm '{algorithm}'"))?;
        let absolute = if name.ends_with('.') { name.to_owned() } else { format!("{name}.") };
        let name = absolute.parse::<Name<Vec<u8>>>()?.into_octets();
        let (text, algorithm) = (text.to_owned(), algorithm.to_owned());
        Ok(Signing { text, algorithm, name, secret, skew: 0, mac_len: None })
    }
}

/// As arguments of `dig`, with what it cannot do in parentheses.
impl fmt::Display for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " -y {}", self.text)?;
        if self.skew != 0 {
            write!(f, " (signed {} s ahead)", self.skew)?;
        }
        self.mac_len.map_or(Ok(()), |len| write!(f, " (MAC of {len} octets)"))
    }
}

fn digest(algorithm: &str, secret: &[u8], parts: &[&[u8]]) -> Option<Vec<u8>> {
    fn of<M: Mac + hmac::digest::KeyInit>(secret: &[u8], parts: &[&[u8]]) -> Option<Vec<u8>> {
        let mut mac = <M as Mac>::new_from_slice(secret).ok()?;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac.finalize().into_bytes().to_vec())
    }
    match algorithm {
        "hmac-sha1" => of::<Hmac<sha1::Sha1>>(secret, parts),
        "hmac-sha224" => of::<Hmac<sha2::Sha224>>(secret, parts),
        "hmac-sha256" => of::<Hmac<sha2::Sha256>>(secret, parts),
        "hmac-sha384" => of::<Hmac<sha2::Sha384>>(secret, parts),
        "hmac-sha512" => of::<Hmac<sha2::Sha512>>(secret, parts),
        _ => None,
    }
}

/// The record of a response, as far as it is looked at.
struct Record<'m> {
    start: usize,
    /// Time and fudge as they are signed.
    timers: &'m [u8],
    mac: &'m [u8],
    /// Error, length of other data, and other data.
    end: &'m [u8],
}

impl Signing {
    /// Signs `message` and appends the record.
    pub(crate) fn sign(&self, message: &mut Vec<u8>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let time = now.saturating_add_signed(self.skew).to_be_bytes();
        let timers = [&time[2..], &FUDGE.to_be_bytes()].concat();
        let variables = self.variables(&timers, &[0; 4]);
        let mut mac = digest(&self.algorithm, &self.secret, &[message, &variables]);
        let mut mac = mac.take().unwrap_or_default();
        mac.resize(self.mac_len.unwrap_or(mac.len()), 0);
        let algorithm = self.algorithm_wire();
        let length = |octets: &[u8]| u16::try_from(octets.len()).unwrap_or(u16::MAX).to_be_bytes();
        let id = [message[0], message[1]];
        let data = [&algorithm, &timers, &length(&mac)[..], &mac, &id, &[0; 4]].concat();
        let fixed = [0, 250, 0, 255, 0, 0, 0, 0];
        message.extend([&self.name[..], &fixed, &length(&data), &data].concat());
        message[11] += 1;
    }

    /// What the signature of `response` to `query` is worth.
    pub fn verdict(&self, query: &[u8], response: &[u8]) -> &'static str {
        let (Some(asked), Some(record)) = (self.find(query), self.find(response)) else {
            return "none";
        };
        if record.mac.is_empty() {
            return "without a MAC";
        }
        let length = u16::try_from(asked.mac.len()).unwrap_or(u16::MAX).to_be_bytes();
        let mut message = response[..record.start].to_vec();
        message[11] -= 1;
        let variables = self.variables(record.timers, record.end);
        let parts = [&length[..], asked.mac, &message, &variables];
        let expected = digest(&self.algorithm, &self.secret, &parts).unwrap_or_default();
        if expected.starts_with(record.mac) { "verifies" } else { "does not verify" }
    }

    fn algorithm_wire(&self) -> Vec<u8> {
        let length = u8::try_from(self.algorithm.len()).unwrap_or(63);
        [&[length], self.algorithm.as_bytes(), &[0]].concat()
    }

    fn variables(&self, timers: &[u8], end: &[u8]) -> Vec<u8> {
        let name = self.name.to_ascii_lowercase();
        [&name[..], &[0, 255, 0, 0, 0, 0], &self.algorithm_wire(), timers, end].concat()
    }

    /// The record of this key at the end of `message`, whatever stands before it.
    fn find<'m>(&self, message: &'m [u8]) -> Option<Record<'m>> {
        let algorithm = self.algorithm_wire();
        let fixed = [0, 250, 0, 255, 0, 0, 0, 0];
        let lower = message.to_ascii_lowercase();
        let head = [&self.name.to_ascii_lowercase()[..], &fixed].concat();
        let start = lower.windows(head.len()).rposition(|window| window == head)?;
        let data = message.get(start + head.len() + 2..)?;
        let (_, data) = data.split_at_checked(algorithm.len())?;
        let (timers, data) = data.split_at_checked(8)?;
        let (length, data) = data.split_first_chunk::<2>()?;
        let (mac, data) = data.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        Some(Record { start, timers, mac, end: data.get(2..)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Question;

    #[test]
    fn what_is_signed_is_what_domain_reads_and_changes_show() {
        let mut signing: Signing = "hmac-sha256:Key.example:c2VjcmV0".parse().unwrap();
        signing.mac_len = Some(16);
        let plain = Question::new("127.0.0.1".parse().unwrap(), "example.org.", 1);
        let bytes = Question { signing: Some(signing.clone()), ..plain.clone() }.to_bytes(7);
        let message = domain::base::Message::from_octets(&bytes).unwrap();
        let last = message.additional().unwrap().last().unwrap().unwrap();
        let tsig = last.to_record::<domain::rdata::Tsig<_, _>>().unwrap().unwrap();
        assert_eq!((tsig.data().original_id(), tsig.data().mac_slice().len()), (7, 16));
        // A response as a server would sign it.
        let mut response = plain.to_bytes(7);
        response[2] |= 0x80;
        assert_eq!(signing.verdict(&bytes, &response), "none");
        let asked = signing.find(&bytes).unwrap();
        let variables = signing.variables(asked.timers, &[0; 4]);
        let parts = [&[0, 16][..], asked.mac, &response, &variables];
        let mac = digest("hmac-sha256", b"secret", &parts).unwrap();
        let whole = Signing { mac_len: None, ..signing.clone() };
        whole.sign(&mut response);
        let at = response.len() - 6 - mac.len();
        response[at..at + mac.len()].copy_from_slice(&mac);
        assert_eq!(signing.verdict(&bytes, &response), "verifies");
        response[at] ^= 1;
        assert_eq!(signing.verdict(&bytes, &response), "does not verify");
        assert!("hmac-md4:a:c2VjcmV0".parse::<Signing>().is_err());
        signing.skew = -400;
        let text = " -y hmac-sha256:Key.example:c2VjcmV0 (signed -400 s ahead) (MAC of 16 octets)";
        assert_eq!(signing.to_string(), text);
    }
}
