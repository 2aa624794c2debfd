//! The ways a question goes to a server: which there are, and which of them the servers under test know.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// What carries a question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Transport {
    /// One datagram each.
    Udp,
    /// A stream.
    Tcp,
    /// A stream within TLS (RFC 7858).
    Tls,
    /// HTTP/2, the message as the body of a POST (RFC 8484).
    Https,
    /// HTTP/2, the message in the path of a GET.
    HttpsGet,
    /// A stream of a QUIC connection each (RFC 9250).
    Quic,
    /// A call of gRPC each, by CoreDNS's `pb/dns.proto`.
    Grpc,
    /// HTTP/3, the message as the body of a POST.
    Https3,
}

impl Transport {
    /// Those of a server block without a scheme.
    pub(crate) const PLAIN: [Self; 2] = [Self::Udp, Self::Tcp];
    /// Those that have a scheme.
    pub(crate) const ENCRYPTED: [Self; 6] =
        [Self::Tls, Self::Https, Self::HttpsGet, Self::Quic, Self::Grpc, Self::Https3];

    /// As reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::HttpsGet => "https-get",
            encrypted => encrypted.scheme(),
        }
    }

    /// The scheme of a key of a server block.
    pub(crate) const fn scheme(self) -> &'static str {
        match self {
            Self::Udp | Self::Tcp => "dns",
            Self::Tls => "tls",
            Self::Https | Self::HttpsGet => "https",
            Self::Quic => "quic",
            Self::Grpc => "grpc",
            Self::Https3 => "https3",
        }
    }

    /// What client and server agree on in a handshake (RFC 7301).
    pub(crate) const fn protocol(self) -> Option<&'static [u8]> {
        match self {
            Self::Udp | Self::Tcp => None,
            Self::Tls => Some(b"dot"),
            Self::Https | Self::HttpsGet | Self::Grpc => Some(b"h2"),
            Self::Quic => Some(b"doq"),
            Self::Https3 => Some(b"h3"),
        }
    }

    /// True when the length of a message stands before it, and one stream holds many.
    pub(crate) const fn is_framed(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls)
    }
}

/// The schemes among [`Transport::ENCRYPTED`], each once.
pub(crate) fn schemes(transports: &[Transport]) -> Vec<&'static str> {
    let mut schemes: Vec<&str> = transports.iter().map(|transport| transport.scheme()).collect();
    schemes.dedup();
    schemes
}

/// True when only datagrams arrive at listeners of the scheme.
pub(crate) fn is_over_datagrams(scheme: &str) -> bool {
    matches!(scheme, "quic" | "https3")
}

/// The files of a certificate that both servers have, and what clients believe.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) file: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) der: rustls::pki_types::CertificateDer<'static>,
}

impl Certificate {
    /// The name that it is for.
    pub(crate) const NAME: &'static str = "dns.example";

    /// Makes one in `folder`.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([Self::NAME.to_owned()])?;
        let (file, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        std::fs::create_dir_all(folder)?;
        std::fs::write(&file, made.cert.pem()).with_context(|| file.display().to_string())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        Ok(Certificate { file, key, der: made.cert.der().clone() })
    }

    /// The directive for a server block.
    pub(crate) fn directive(&self) -> String {
        format!("tls {} {}", self.file.display(), self.key.display())
    }
}

/// Those of [`Transport::ENCRYPTED`] whose scheme the server under test accepts. TLS is always among them: that it is
/// refused is a difference.
pub(crate) fn known(
    nodens: &Path,
    certificate: &Certificate,
    dir: &Path,
) -> Result<Vec<Transport>> {
    let mut known = Vec::new();
    for transport in Transport::ENCRYPTED {
        let scheme = transport.scheme();
        let file = dir.join(format!("Corefile.{scheme}"));
        let text = format!("{scheme}://.:853 {{\n {}\n whoami\n}}\n", certificate.directive());
        std::fs::write(&file, text)?;
        let mut check = Command::new(nodens);
        check.arg("-check").arg("-conf").arg(&file);
        check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = check.status().with_context(|| nodens.display().to_string())?;
        if status.success() || transport == Transport::Tls {
            known.push(transport);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_is_asked_for_once() {
        let schemes = schemes(&Transport::ENCRYPTED);
        assert_eq!(schemes, ["tls", "https", "quic", "grpc", "https3"]);
    }
}
