//! DNS messages as bytes: reading with bounds checks, admission of requests, names, records,
//! building and shaping of responses.
//!
//! What is deliberately absent: sockets, clocks, threads, `unsafe`, and any opinion about what an
//! answer should be. Everything that touches byte positions of a message lives here, so that the
//! rest of the house can be written without an index into a datagram.
//!
//! The layers, lowest first:
//!
//! - [`reader`]: the cursor, the only code that turns positions into slices;
//! - [`name`]: domain names (RFC 1035 section 3.1) as validated wire bytes;
//! - [`types`]: integer codes with mnemonics (TYPE, CLASS, RCODE, OPCODE);
//! - [`header`]: the 12 octets in front (RFC 1035 section 4.1.1);
//! - [`edns`]: the OPT record and its options (RFC 6891);
//! - [`record`]: views over the records of a message, and owned records;
//! - `rdata`: whether RDATA has the form of its type, for [`RecordView::validate`];
//! - [`admission`]: one function that decides whether a request may be looked at;
//! - [`builder`]: writes messages with name compression;
//! - [`message`]: a whole message as values, for code that edits answers;
//! - [`framing`]: messages in a stream, behind their lengths;
//! - [`shape`]: the last step of a response: OPT, size limit, TC.

#![forbid(unsafe_code)]

pub mod admission;
mod block;
pub mod builder;
pub mod edns;
pub mod framing;
pub mod header;
pub mod message;
pub mod name;
pub mod padding;
pub mod proxy;
mod rdata;
pub mod reader;
pub mod record;
pub mod shape;
mod suffixes;
pub mod types;

pub use admission::{Admission, Query, admit, not_implemented, qname_of};
pub use block::Block;
pub use builder::{Builder, Owner};
pub use header::{Flags, Header};
pub use message::Message;
pub use name::{Name, NameError, NameRef, SharedName};
pub use reader::{Reader, WireError};
pub use record::{Record, RecordView, Records, Section};
pub use types::{Class, Opcode, Rcode, Type};

/// Octets of the fixed header (RFC 1035 section 4.1.1).
pub const HEADER_LEN: usize = 12;
/// The largest message: what the two-octet length of a stream can say (RFC 1035 section 4.2.2).
pub const MESSAGE_LEN_MAX: usize = 65_535;
/// What a client without EDNS accepts over UDP (RFC 1035 section 4.2.1).
pub const UDP_SIZE_MIN: u16 = 512;
