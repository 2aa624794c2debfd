//! The store of answers: one table and one budget for the process.
//!
//! It knows keys, entries and their ages. Which answers are kept and served is up to the directive
//! `cache`.

pub(crate) mod entry;
mod evict;
pub(crate) mod key;
mod refresh;
pub(crate) mod store;
mod table;
mod warm;

pub(crate) use refresh::Refresh;
pub use store::Store;
