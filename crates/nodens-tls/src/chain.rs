//! Whether certificates lead to an authority, as Go's `crypto/x509` decides it.
//!
//! `webpki` refuses some servers that clients written in Go accept: one whose certificate
//! is itself the configured authority, or is marked as an authority and issued by one. What it
//! refuses is looked at again here. Expiry, names, usage and signatures are as strict as in Go; a
//! chain with name constraints is left to `webpki`, which knows them.

use rustls::CertificateError;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::certificate::{BasicExtension, X509Certificate};
use x509_parser::error::X509Error;
use x509_parser::extensions::BasicConstraints;
use x509_parser::oid_registry::{
    OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA384WITHRSA, OID_PKCS1_SHA512WITHRSA,
    OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384, OID_SIG_ED25519,
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS, OID_X509_EXT_SUBJECT_ALT_NAME,
};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

/// Signatures that are checked to find an authority: a server may send certificates that lead nowhere in
/// many ways, and `webpki` has checked up to a hundred before. Go checks a hundred; who is believed needs
/// a few.
const CHAIN_CHECKS: u32 = 20;

/// Checks that `leaf` is for `name` and is, or leads through `sent` to, one of `authorities`, which have
/// these [`subject`]s.
///
/// # Errors
/// What Go would refuse it for.
pub(crate) fn verify(
    leaf: &CertificateDer<'_>,
    sent: &[CertificateDer<'_>],
    (authorities, subjects): (&[CertificateDer<'_>], &[Vec<u8>]),
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let server = parse(leaf).ok_or(CertificateError::BadEncoding)?;
    is_usable(&server, now)?;
    let named = ParsedCertificate::try_from(leaf).map_err(reason)?;
    verify_server_name(&named, name).map_err(reason)?;
    if authorities.contains(leaf) {
        return Ok(());
    }
    let sent: Vec<_> = sent.iter().filter_map(parse).collect();
    let authorities = issuers((&server, &sent), authorities, subjects);
    let search = Search { authorities, sent, now };
    let mut left = CHAIN_CHECKS;
    search.parents(&mut vec![&server], &mut left)
}

/// Those authorities that the certificates name as their issuers. A system has more than a hundred others,
/// which take milliseconds to parse, and a server may fail again and again.
fn issuers<'a>(
    (leaf, sent): (&X509Certificate<'_>, &[X509Certificate<'_>]),
    authorities: &'a [CertificateDer<'_>],
    subjects: &[Vec<u8>],
) -> Vec<X509Certificate<'a>> {
    let is_issuer = |subject: &[u8]| {
        let mut children = std::iter::once(leaf).chain(sent);
        children.any(|child| child.issuer().as_raw() == subject)
    };
    let named = authorities.iter().zip(subjects).filter(|(_, subject)| is_issuer(subject));
    named.filter_map(|(authority, _)| parse(authority)).collect()
}

/// Whether Go reads it as a certificate.
pub(crate) fn is_certificate(octets: &CertificateDer<'_>) -> bool {
    parse(octets).is_some()
}

/// The last second in which a certificate counts; none if it is none.
pub(crate) fn not_after(certificate: &CertificateDer<'_>) -> Option<u64> {
    u64::try_from(parse(certificate)?.validity().not_after.timestamp()).ok()
}

/// The name of whom a certificate is for, as it is written there; empty if it is none.
pub(crate) fn subject(certificate: &CertificateDer<'_>) -> Vec<u8> {
    parse(certificate).map(|parsed| parsed.subject().as_raw().to_vec()).unwrap_or_default()
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
    rest.is_empty().then_some(parsed)
}

fn reason(error: rustls::Error) -> CertificateError {
    match error {
        rustls::Error::InvalidCertificate(error) => error,
        _ => CertificateError::BadEncoding,
    }
}

struct Search<'c> {
    authorities: Vec<X509Certificate<'c>>,
    sent: Vec<X509Certificate<'c>>,
    now: UnixTime,
}

impl<'c> Search<'c> {
    /// Goes on from the end of `chain` until an authority is found. `left` bounds the signatures
    /// that a server can make us check.
    fn parents<'s>(
        &'s self,
        chain: &mut Vec<&'s X509Certificate<'c>>,
        left: &mut u32,
    ) -> Result<(), CertificateError> {
        let mut why = CertificateError::UnknownIssuer;
        let authorities = self.authorities.iter().map(|parent| (true, parent));
        let sent = self.sent.iter().map(|parent| (false, parent));
        for (is_authority, parent) in authorities.chain(sent) {
            let Some(child) = chain.last() else { break };
            let is_new = !chain.iter().any(|known| is_same(known, parent));
            if child.issuer().as_raw() != parent.subject().as_raw() || !is_new {
                continue;
            }
            if *left == 0 {
                return Err(CertificateError::UnknownIssuer);
            }
            *left -= 1;
            let found = issued(parent, child)
                .and_then(|()| is_usable(parent, self.now))
                .and_then(|()| may_issue(parent, is_authority, chain.len() - 1));
            if let Err(error) = found {
                why = error;
                continue;
            }
            if is_authority {
                return Ok(());
            }
            chain.push(parent);
            match self.parents(chain, left) {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
            chain.pop();
        }
        Err(why)
    }
}

/// The same name and key: whatever else differs, it leads nowhere new.
fn is_same(known: &X509Certificate<'_>, other: &X509Certificate<'_>) -> bool {
    known.subject().as_raw() == other.subject().as_raw()
        && known.public_key().raw == other.public_key().raw
}

/// Its time, its extensions and what it is for, wherever in a chain it stands.
fn is_usable(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let validity = certificate.validity();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet);
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired);
    }
    let known = [
        OID_X509_EXT_BASIC_CONSTRAINTS,
        OID_X509_EXT_EXTENDED_KEY_USAGE,
        OID_X509_EXT_KEY_USAGE,
        OID_X509_EXT_SUBJECT_ALT_NAME,
    ];
    let odd = |extension: &x509_parser::extensions::X509Extension<'_>| {
        let is_known = known.contains(&extension.oid);
        extension.oid == OID_X509_EXT_NAME_CONSTRAINTS
            || extension.critical && !is_known
            || is_known && extension.parsed_extension().error().is_some()
    };
    if certificate.extensions().iter().any(odd) {
        return Err(CertificateError::UnhandledCriticalExtension);
    }
    let usage = certificate.extended_key_usage().map_err(unreadable)?;
    let is_for_servers = usage.is_none_or(|usage| usage.value.any || usage.value.server_auth);
    if is_for_servers { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

fn unreadable(_: X509Error) -> CertificateError {
    CertificateError::BadEncoding
}

/// Whether it may stand above `below` others and the server's certificate.
fn may_issue(
    parent: &X509Certificate<'_>,
    is_authority: bool,
    below: usize,
) -> Result<(), CertificateError> {
    let constraints: Option<BasicExtension<&BasicConstraints>> =
        parent.basic_constraints().map_err(unreadable)?;
    let may = match constraints {
        Some(found) => {
            let room = found.value.path_len_constraint.is_none_or(|most| below <= most as usize);
            found.value.ca && room
        }
        // Certificates of version 1 cannot say it: enough for one that is configured.
        None => is_authority && parent.version() != X509Version::V3,
    };
    let usage = parent.key_usage().map_err(unreadable)?;
    let may_sign = usage.is_none_or(|usage| usage.value.flags == 0 || usage.value.key_cert_sign());
    if may && may_sign { Ok(()) } else { Err(CertificateError::UnknownIssuer) }
}

/// Whether the key of `parent` signed `child`, with a hash that Go accepts.
fn issued(
    parent: &X509Certificate<'_>,
    child: &X509Certificate<'_>,
) -> Result<(), CertificateError> {
    let accepted = [
        OID_PKCS1_SHA256WITHRSA,
        OID_PKCS1_SHA384WITHRSA,
        OID_PKCS1_SHA512WITHRSA,
        OID_SIG_ECDSA_WITH_SHA256,
        OID_SIG_ECDSA_WITH_SHA384,
        OID_SIG_ED25519,
    ];
    let algorithm = &child.signature_algorithm;
    if !accepted.contains(&algorithm.algorithm) || child.signature != *algorithm {
        return Err(CertificateError::BadSignature);
    }
    child.verify_signature(Some(parent.public_key())).map_err(|_| CertificateError::BadSignature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};

    fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn of_many_authorities_only_those_are_looked_at_that_certificates_name() {
        let issuers_of_all: Vec<_> = (0..20).map(|n| issuer(&format!("authority {n}"))).collect();
        let all: Vec<_> = issuers_of_all.iter().map(|issuer| issuer.der().clone()).collect();
        let subjects: Vec<_> = all.iter().map(subject).collect();
        let signed = |issuer: &CertifiedIssuer<'static, KeyPair>| {
            let key = KeyPair::generate().unwrap();
            CertificateParams::default().signed_by(&key, issuer).unwrap().der().clone()
        };
        let (leaf, sent) = (signed(&issuers_of_all[3]), signed(&issuers_of_all[7]));
        let (leaf, sent) = (parse(&leaf).unwrap(), [parse(&sent).unwrap()]);
        let of = |sent: &[X509Certificate<'_>]| {
            let found = issuers((&leaf, sent), &all, &subjects);
            found.iter().map(|found| found.subject().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), ["CN=authority 3"]);
        assert_eq!(of(&sent), ["CN=authority 3", "CN=authority 7"]);
    }
}
