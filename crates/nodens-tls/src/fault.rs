//! Faults of TLS in the words of Go's `crypto/tls`, which operators and their log searches know.

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use x509_parser::time::ASN1Time;

/// `tls: failed to verify certificate: x509: certificate signed by unknown authority`
pub fn go_text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => {
            format!("tls: failed to verify certificate: x509: {}", of_certificate(error))
        }
        Error::AlertReceived(alert) => match of_alert(*alert) {
            Some(text) => format!("remote error: tls: {text}"),
            None => format!("remote error: tls: alert({})", u8::from(*alert)),
        },
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        error => format!("tls: {error}"),
    }
}

/// What the number of an alert means: `tls: unknown certificate authority`
pub fn alert_text(alert: u8) -> String {
    match of_alert(AlertDescription::from(alert)) {
        Some(text) => format!("tls: {text}"),
        None => format!("tls: alert({alert})"),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    let over = "certificate has expired or is not yet valid:";
    match error {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{over} current time {} is after {}", date(*time), date(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{over} current time {} is before {}", date(*time), date(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            of_names(expected, presented)
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension".to_owned(),
        error => error.to_string(),
    }
}

/// `presented` has the form `DnsName("dns.example")` or `IpAddress(192.0.2.1)`.
fn of_names(expected: &ServerName<'_>, presented: &[String]) -> String {
    let of_kind = |kind: &str| {
        let names = presented.iter().filter_map(|name| {
            let name = name.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')')?;
            Some(name.trim_matches('"'))
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let wanted = expected.to_str();
    let is_address = matches!(expected, ServerName::IpAddress(_));
    let valid = of_kind(if is_address { "IpAddress" } else { "DnsName" });
    match valid.is_empty() {
        false => format!("certificate is valid for {valid}, not {wanted}"),
        true if is_address => format!(
            "cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
        ),
        true => {
            format!("certificate is not valid for any names, but wanted to match {wanted}")
        }
    }
}

/// As in RFC 3339.
fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let Ok(time) = ASN1Time::from_timestamp(seconds) else { return seconds.to_string() };
    let time = time.to_datetime();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn of_alert(alert: AlertDescription) -> Option<&'static str> {
    use AlertDescription as A;
    Some(match alert {
        A::CloseNotify => "close notify",
        A::UnexpectedMessage => "unexpected message",
        A::BadRecordMac => "bad record MAC",
        A::DecryptionFailed => "decryption failed",
        A::RecordOverflow => "record overflow",
        A::DecompressionFailure => "decompression failure",
        A::HandshakeFailure => "handshake failure",
        A::BadCertificate => "bad certificate",
        A::UnsupportedCertificate => "unsupported certificate",
        A::CertificateRevoked => "revoked certificate",
        A::CertificateExpired => "expired certificate",
        A::CertificateUnknown => "unknown certificate",
        A::IllegalParameter => "illegal parameter",
        A::UnknownCA => "unknown certificate authority",
        A::AccessDenied => "access denied",
        A::DecodeError => "error decoding message",
        A::DecryptError => "error decrypting message",
        A::ExportRestriction => "export restriction",
        A::ProtocolVersion => "protocol version not supported",
        A::InsufficientSecurity => "insufficient security level",
        A::InternalError => "internal error",
        A::InappropriateFallback => "inappropriate fallback",
        A::UserCanceled => "user canceled",
        A::NoRenegotiation => "no renegotiation",
        A::MissingExtension => "missing extension",
        A::UnsupportedExtension => "unsupported extension",
        A::CertificateUnobtainable => "certificate unobtainable",
        A::UnrecognisedName => "unrecognized name",
        A::BadCertificateStatusResponse => "bad certificate status response",
        A::BadCertificateHashValue => "bad certificate hash value",
        A::UnknownPSKIdentity => "unknown PSK identity",
        A::CertificateRequired => "certificate required",
        A::NoApplicationProtocol => "no application protocol",
        A::EncryptedClientHelloRequired => "encrypted client hello required",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    fn of_name(expected: &'static str, presented: &[&str]) -> String {
        let expected = ServerName::try_from(expected).unwrap();
        let presented = presented.iter().map(ToString::to_string).collect();
        let error = CertificateError::NotValidForNameContext { expected, presented };
        go_text(&Error::InvalidCertificate(error))
    }

    #[test]
    fn texts_are_those_of_go() {
        let both = ["DnsName(\"a.example\")", "DnsName(\"*.b.example\")", "IpAddress(192.0.2.1)"];
        let prefix = "tls: failed to verify certificate: x509: ";
        for (expected, presented, text) in [
            (
                "c.example",
                &both[..],
                "certificate is valid for a.example, *.b.example, not c.example",
            ),
            ("192.0.2.9", &both, "certificate is valid for 192.0.2.1, not 192.0.2.9"),
            (
                "192.0.2.9",
                &both[..2],
                "cannot validate certificate for 192.0.2.9 because it doesn't contain any IP SANs",
            ),
            (
                "c.example",
                &both[2..],
                "certificate is not valid for any names, but wanted to match c.example",
            ),
        ] {
            assert_eq!(of_name(expected, presented), format!("{prefix}{text}"));
        }
        let (time, not_after) = (at(1_798_761_600), at(951_782_399));
        let expired = CertificateError::ExpiredContext { time, not_after };
        assert_eq!(
            go_text(&Error::InvalidCertificate(expired)),
            format!(
                "{prefix}certificate has expired or is not yet valid: \
                 current time 2027-01-01T00:00:00Z is after 2000-02-28T23:59:59Z"
            )
        );
        let alert = |alert| go_text(&Error::AlertReceived(alert));
        assert_eq!(alert_text(120), "tls: no application protocol");
        assert_eq!(alert_text(200), "tls: alert(200)");
        assert_eq!(
            alert(AlertDescription::UnknownCA),
            "remote error: tls: unknown certificate authority"
        );
        assert_eq!(alert(AlertDescription::Unknown(200)), "remote error: tls: alert(200)");
    }
}
