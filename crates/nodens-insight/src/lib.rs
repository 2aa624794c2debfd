//! Query insight: top clients and names, and wasted queries.
//!
//! Workers count into sketches ([`nodens_core::seeing`]). A [`Collector`] empties them once a
//! second into a [`Ledger`], whose counts fade; a [`Report`] is what the ledger says at one moment:
//! busy clients, names, slow names, and leaks, ranked by what they cost. A report is plain data:
//! JSON on a socket ([`socket`] reads it), [`page`] in a browser, a screen in `nodens-top`.

#![forbid(unsafe_code)]

mod collector;
mod domains;
mod leaks;
mod ledger;
pub mod limits;
pub mod page;
mod places;
mod report;
pub mod socket;
#[cfg(test)]
mod tests;
pub mod text;
pub mod zones;

pub use collector::{Collector, Surroundings};
pub use domains::Domains;
pub use ledger::Ledger;
pub use places::{Found, Places, look};
pub use report::{Bucket, Client, Leak, LeakKind, Moment, Name, Place, RcodeShare, Report, Source};
