//! The folder of certificates. Its layout is that of CoreDNS, whose certificates are used at once.

use super::AcmeOptions;
use crate::error::LoadError;
use crate::files;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Only the owner may read and write a file.
const FILE_MODE: u32 = 0o600;
/// Only the owner may enter a folder.
const FOLDER_MODE: u32 = 0o700;

/// Where certificates, their keys and the account at one ACME server are kept. Files are replaced as a whole: one that is
/// there was written to its end.
#[derive(Clone, Debug)]
pub struct Storage {
    root: PathBuf,
    /// The part of names that stands for the ACME server.
    issuer: String,
    account: PathBuf,
}

/// A certificate with the chain to its authority, and its key, both in PEM format.
pub type Stored = (Vec<u8>, Vec<u8>);

impl Storage {
    pub(super) fn new(options: &AcmeOptions) -> Self {
        let root = options.storage.clone();
        let issuer = issuer(&options.ca);
        let user = safe(options.email.as_deref().unwrap_or("default"));
        let account = root.join("acme").join(&issuer).join("users").join(user);
        Self { root, issuer, account: account.join("nodens.json") }
    }

    /// The folder of everything.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file with the account and its key.
    pub fn account_file(&self) -> &Path {
        &self.account
    }

    /// The files with the certificate of `domain` and with its key.
    pub fn certificate_files(&self, domain: &str) -> (PathBuf, PathBuf) {
        let name = safe(domain);
        let folder = self.root.join("certificates").join(&self.issuer).join(&name);
        (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")))
    }

    /// What is kept for `domain`; `None` if a part of it is missing.
    ///
    /// # Errors
    /// They are there and cannot be read.
    pub fn certificate(&self, domain: &str) -> Result<Option<Stored>, LoadError> {
        let (chain, key) = self.certificate_files(domain);
        Ok(read(&chain)?.zip(read(&key)?))
    }

    /// Keeps the certificate of `domain` and its key.
    ///
    /// # Errors
    /// A file or folder cannot be written.
    pub fn save_certificate(&self, domain: &str, chain: &[u8], key: &[u8]) -> io::Result<()> {
        let (chain_at, key_at) = self.certificate_files(domain);
        // CoreDNS does not look at a certificate without it.
        let about =
            format!("{{\n\t\"sans\": [\n\t\t\"{domain}\"\n\t],\n\t\"issuer_data\": {{}}\n}}");
        write(&chain_at.with_file_name(format!("{}.json", safe(domain))), about.as_bytes())?;
        // A certificate beside the key of another one is found out when it is read.
        write(&key_at, key)?;
        write(&chain_at, chain)
    }

    /// The account, as it was kept; `None` if there is none.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn account(&self) -> Result<Option<Vec<u8>>, LoadError> {
        read(&self.account)
    }

    /// Keeps the account.
    ///
    /// # Errors
    /// The file or its folder cannot be written.
    pub fn save_account(&self, octets: &[u8]) -> io::Result<()> {
        write(&self.account, octets)
    }

    /// Whether it can be written to, so that no certificate is asked for that could not be kept.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self) -> io::Result<()> {
        let probe = self.root.join(format!(".probe-{}", std::process::id()));
        write(&probe, b"")?;
        fs::remove_file(&probe)
    }

    /// Takes from others what they may do with the keys; gives the files that they could read.
    pub fn narrow(&self) -> Vec<PathBuf> {
        let mut open = Vec::new();
        let folder = self.root.join("certificates").join(&self.issuer);
        let domains = fs::read_dir(folder).into_iter().flatten().flatten();
        let files =
            domains.filter_map(|domain| fs::read_dir(domain.path()).ok()).flatten().flatten();
        let keys = files.map(|file| file.path());
        let keys = keys.filter(|path| path.extension().is_some_and(|kind| kind == "key"));
        for path in keys.chain([self.account.clone()]) {
            let Ok(about) = fs::metadata(&path) else { continue };
            if about.permissions().mode() & 0o077 != 0 {
                _ = fs::set_permissions(&path, Permissions::from_mode(FILE_MODE));
                open.push(path);
            }
        }
        open
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match files::read(path) {
        Err(LoadError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes beside `path` and puts the result in its place.
fn write(path: &Path, octets: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}", std::process::id()));
    // What a process that was killed left, which may have had the same number.
    _ = fs::remove_file(&temporary);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
    file.write_all(octets)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}

/// Host and path of the directory's URL, as one component of a path.
fn issuer(ca: &str) -> String {
    let rest = ca.split_once("://").map_or(ca, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.replace(['/', '\\'], "-");
    let path = path.trim_matches('-');
    if path.is_empty() { safe(host) } else { safe(&format!("{host}-{path}")) }
}

/// `text` as a name of a file that leads nowhere else.
fn safe(text: &str) -> String {
    let text = text.trim().to_lowercase();
    let text = text.replace(' ', "_").replace('+', "_plus_").replace('*', "wildcard_");
    let text = text.replace(':', "-").replace("..", "");
    let is_kept = |letter: &char| letter.is_ascii_alphanumeric() || "_@.-".contains(*letter);
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests;
