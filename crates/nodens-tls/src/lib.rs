//! Certificates and keys: from files to configurations of TLS. Whoever owns the sockets makes
//! connections of them.

#![forbid(unsafe_code)]

mod acme;
mod authorities;
mod chain;
mod client;
mod clients;
mod error;
mod fault;
mod files;
mod key_log;
mod protocol;
mod server;
mod untrusted;

pub use acme::{AcmeDomainError, AcmeOptions, Life, Managed, Storage, Stored};
pub use authorities::Authorities;
pub use client::{Client, ClientFiles, Peer, server_name};
pub use error::LoadError;
pub use fault::{alert_text, go_text};
pub use protocol::Protocol;
pub use rustls;
pub use server::{ClientAuth, Server, ServerFiles};
pub use untrusted::{Untrusted, UntrustedKind};
