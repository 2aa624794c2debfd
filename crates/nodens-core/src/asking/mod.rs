//! How a query gets a response from one of several upstreams.

mod ended;
mod parts;
pub(crate) mod probes;

pub use parts::Parts;
