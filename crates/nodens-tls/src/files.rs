//! Files in PEM format (RFC 7468).

use crate::authorities::Authorities;
use crate::error::LoadError;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// What is in a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    std::fs::read(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })
}

/// The octets of several files.
pub(crate) type Contents = Vec<Vec<u8>>;

/// What is in those files that are named.
pub(crate) fn contents<const N: usize>(
    paths: [Option<&PathBuf>; N],
) -> Result<Contents, LoadError> {
    paths.into_iter().flatten().map(|path| read(path)).collect()
}

fn content(path: &Path, wanted: &'static str, error: Option<pem::Error>) -> LoadError {
    let detail = error.map(|error| format!(": {error}")).unwrap_or_default();
    LoadError::Content { path: path.to_owned(), wanted, detail }
}

/// The certificates of a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    certificates_in(path, &read(path)?)
}

/// The certificates among the octets of the file at `path`, at least one.
pub(crate) fn certificates_in(
    path: &Path,
    octets: &[u8],
) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let wanted = "certificates";
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(octets).collect();
    let all = all.map_err(|error| content(path, wanted, Some(error)))?;
    if all.is_empty() { Err(content(path, wanted, None)) } else { Ok(all) }
}

/// Those certificates of a file that read as such, at least one: others are skipped, as Go does.
pub(crate) fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let all = Authorities::in_text(&read(path)?);
    if all.is_empty() { Err(content(path, "certificates", None)) } else { Ok(all) }
}

/// The first private key of a file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, LoadError> {
    private_key_in(path, &read(path)?)
}

/// The first private key among the octets of the file at `path`.
pub(crate) fn private_key_in(
    path: &Path,
    octets: &[u8],
) -> Result<PrivateKeyDer<'static>, LoadError> {
    PrivateKeyDer::from_pem_slice(octets).map_err(|error| match error {
        pem::Error::NoItemsFound => content(path, "a private key", None),
        error => content(path, "a private key", Some(error)),
    })
}
