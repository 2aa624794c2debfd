//! Certificates and keys: from files to configurations of TLS. Whoever owns the sockets makes
//! connections of them.

#![forbid(unsafe_code)]

mod clients;
mod error;
mod files;
mod key_log;
mod protocol;
mod server;

pub use error::LoadError;
pub use protocol::Protocol;
pub use rustls;
pub use server::{ClientAuth, Server, ServerFiles};
