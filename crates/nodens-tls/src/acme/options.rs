//! What a Corefile says about an ACME server.

use std::net::IpAddr;
use std::path::PathBuf;

/// The most octets of a name in presentation format without the last dot (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 253;
/// The most octets of a label (RFC 1035 section 2.3.4).
const LABEL_MAX: usize = 63;

/// Which certificates are wanted, and of whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AcmeOptions {
    /// As [`AcmeOptions::domain`] gives them, each once, at least one.
    pub domains: Vec<String>,
    /// Whom the ACME server may write to.
    pub email: Option<String>,
    /// URL of the directory of the ACME server (RFC 8555 section 7.1.1).
    pub ca: String,
    /// The folder of the account, the certificates and their keys.
    pub storage: PathBuf,
    /// Authorities that the ACME server's own certificate may be of, beside those of the system.
    pub ca_root: Option<PathBuf>,
    /// Host and port of the DNS server that is asked for the address of the ACME server.
    pub resolver: Option<String>,
}

/// A name that no certificate can be for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ACME domain \"{0}\"{1}")]
pub struct AcmeDomainError(String, &'static str);

impl AcmeOptions {
    /// The directory of Let's Encrypt.
    pub const CA: &str = "https://acme-v02.api.letsencrypt.org/directory";

    /// Whether it asks for the same, in whatever order of the domains.
    pub fn is_same(&self, other: &Self) -> bool {
        let sorted = |options: &Self| {
            let mut options = options.clone();
            options.domains.sort_unstable();
            options
        };
        sorted(self) == sorted(other)
    }

    /// `domain` in lower case and without the last dot.
    ///
    /// # Errors
    /// It is no host name (RFC 952, RFC 1123 section 2.1), with or without `*.` in front.
    pub fn domain(domain: &str) -> Result<String, AcmeDomainError> {
        let domain = domain.strip_suffix('.').unwrap_or(domain).to_lowercase();
        let name = domain.strip_prefix("*.").unwrap_or(&domain);
        let invalid = |why| AcmeDomainError(domain.clone(), why);
        if !name.is_ascii() {
            return Err(invalid(": write international names in ASCII (xn--)"));
        }
        if name.parse::<IpAddr>().is_ok() || name.len() > NAME_MAX {
            return Err(invalid(""));
        }
        if name.split('.').all(is_label) { Ok(domain) } else { Err(invalid("")) }
    }

    /// The place of the domain whose certificate is for `name`: the same name comes before a wildcard.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let same = |domain: &String| *domain == name;
        let parent = name.split_once('.').map(|(_, parent)| parent);
        let covers =
            |domain: &String| domain.strip_prefix("*.").is_some_and(|own| Some(own) == parent);
        let domains = &self.domains;
        domains.iter().position(same).or_else(|| domains.iter().position(covers))
    }
}

fn is_label(label: &str) -> bool {
    let is_letter = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-';
    !label.is_empty()
        && label.len() <= LABEL_MAX
        && label.bytes().all(is_letter)
        && !label.starts_with('-')
        && !label.ends_with('-')
}
