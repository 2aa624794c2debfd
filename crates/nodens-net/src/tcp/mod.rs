//! Questions and answers in streams with two-octet lengths (RFC 1035 section 4.2.2, RFC 7766).

mod accept;
mod addresses;
mod closing;
mod connection;
mod deadlines;
mod endpoint;
mod few;
mod frame;
mod gauges;
mod handshakes;
mod holding;
mod http;
mod idle;
mod leaving;
mod opening;
mod pressure;
mod quota;
mod rare;
mod server;
mod shares;
mod streams;
mod unsent;

pub(crate) use connection::NEVER;
pub(crate) use endpoint::{Endpoint, Times};
pub(crate) use few::{Entry, Few, Open};
pub(crate) use frame::{Frame, first_frame, refusal};
pub(crate) use gauges::register_gauges;
pub use leaving::HandedConnection;
pub(crate) use leaving::Leaving;
pub(crate) use quota::{Full, Place, Quota};
pub(crate) use server::TcpServer;
pub(crate) use unsent::{Holding, Unsent};
