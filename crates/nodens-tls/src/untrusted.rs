//! Why the certificate of a client is not accepted.

use crate::fault::go_text;
use rustls::{AlertDescription, CertificateError, Error};

/// A client whose certificate was refused, or that had none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untrusted {
    /// What the log counts by.
    pub kind: UntrustedKind,
    /// What the log says, in the words of Go's `crypto/tls`, which operators know.
    pub text: String,
}

/// A kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntrustedKind {
    /// It has none.
    Missing,
    /// It has expired, or its time has not come.
    Time,
    /// No authority that is known stands for it.
    Authority,
    /// It is not for clients, or not for what it was used for.
    Purpose,
    /// Any other.
    Other,
}

impl UntrustedKind {
    /// How many there are.
    pub const COUNT: usize = Self::Other as usize + 1;
}

impl Untrusted {
    /// From the error that ended a handshake at the server; nothing if that is not about the client's certificate.
    pub fn of_error(error: &Error) -> Option<Self> {
        use CertificateError as Fault;
        let kind = match error {
            Error::NoCertificatesPresented => return Some(Self::missing()),
            Error::InvalidCertificate(fault) => match fault {
                Fault::Expired
                | Fault::ExpiredContext { .. }
                | Fault::NotValidYet
                | Fault::NotValidYetContext { .. } => UntrustedKind::Time,
                // Of another key with the name of an authority.
                Fault::UnknownIssuer | Fault::BadSignature => UntrustedKind::Authority,
                Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => {
                    UntrustedKind::Purpose
                }
                _ => UntrustedKind::Other,
            },
            _ => return None,
        };
        Some(Self { kind, text: go_text(error) })
    }

    /// From the alert that the server sent, which is all that QUIC keeps of that error beside its `text`.
    pub fn of_alert(alert: u8, text: &str) -> Option<Self> {
        let kind = match AlertDescription::from(alert) {
            AlertDescription::CertificateRequired => return Some(Self::missing()),
            AlertDescription::CertificateExpired => UntrustedKind::Time,
            AlertDescription::UnknownCA => UntrustedKind::Authority,
            // Also for octets that were changed on their way.
            AlertDescription::DecryptError if text.contains("certificate") => {
                UntrustedKind::Authority
            }
            AlertDescription::UnsupportedCertificate => UntrustedKind::Purpose,
            AlertDescription::BadCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown => UntrustedKind::Other,
            _ => return None,
        };
        Some(Self { kind, text: format!("tls: {text}") })
    }

    fn missing() -> Self {
        let text = "tls: client didn't provide a certificate".to_owned();
        Self { kind: UntrustedKind::Missing, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_the_alert_for_it_are_of_one_kind() {
        use CertificateError as Fault;
        for (fault, kind) in [
            (Fault::Expired, UntrustedKind::Time),
            (Fault::NotValidYet, UntrustedKind::Time),
            (Fault::UnknownIssuer, UntrustedKind::Authority),
            (Fault::BadSignature, UntrustedKind::Authority),
            (Fault::InvalidPurpose, UntrustedKind::Purpose),
            (Fault::BadEncoding, UntrustedKind::Other),
            (Fault::Revoked, UntrustedKind::Other),
        ] {
            let alert = u8::from(AlertDescription::from(fault.clone()));
            let error = Error::InvalidCertificate(fault);
            let of_alert = Untrusted::of_alert(alert, &error.to_string()).unwrap();
            assert_eq!(Untrusted::of_error(&error).unwrap().kind, kind, "{error}");
            assert_eq!(of_alert.kind, kind, "{error}");
        }
        let missing = Untrusted::of_error(&Error::NoCertificatesPresented);
        let alert = u8::from(AlertDescription::CertificateRequired);
        assert_eq!(missing, Untrusted::of_alert(alert, "peer sent no certificates"));
        assert!(missing.is_some());
    }

    #[test]
    fn other_ends_of_handshakes_are_none() {
        for error in
            [Error::HandshakeNotComplete, Error::AlertReceived(AlertDescription::UnknownCA)]
        {
            assert_eq!(Untrusted::of_error(&error), None);
        }
        for alert in [AlertDescription::HandshakeFailure, AlertDescription::DecryptError] {
            assert_eq!(Untrusted::of_alert(alert.into(), "cannot decrypt peer's message"), None);
        }
    }
}
