//! Secrets of connections in a file, so that others can decrypt what was captured.

use rustls::KeyLog;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Appends to a file in the format of NSS, a line for each secret.
#[derive(Debug)]
pub(crate) struct FileLog(File);

impl FileLog {
    /// Opens the file, or makes one that only its owner reads.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(Self)
    }
}

impl KeyLog for FileLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        let mut hex = |octets: &[u8], end: char| {
            octets.iter().for_each(|octet| _ = write!(line, "{octet:02x}"));
            line.push(end);
        };
        hex(client_random, ' ');
        hex(secret, '\n');
        // One write, so that lines of several threads stay whole. A full disk is no reason to refuse
        // clients.
        _ = (&self.0).write_all(line.as_bytes());
    }
}
