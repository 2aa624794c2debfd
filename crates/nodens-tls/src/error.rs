//! Why certificates or keys are of no use.

use std::io;
use std::path::PathBuf;

/// Why files could not be made a configuration of TLS.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error("could not read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file for the secrets of connections cannot be written.
    #[error("unable to write TLS Key Log to {path}: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not have in it what it is named for.
    #[error("{path}: expected {wanted} in PEM format{detail}")]
    Content {
        /// Which.
        path: PathBuf,
        /// What it should have.
        wanted: &'static str,
        /// What is wrong with it, if more is known: begins with a colon.
        detail: String,
    },
    /// The files do not go together, or cannot be used.
    #[error("{path}: {source}")]
    Unusable {
        /// The file of the certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}
