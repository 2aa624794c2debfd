//! Results of the lab as one HTML page.
//!
//! The page needs no network and no other file: style sheet, script and pictures are in it. It is
//! made from the result files alone, and made again it is the same, octet for octet. Every number a
//! plot shows is in a table of the page; the script reads the tables to tell what lies under the
//! pointer or, moved by the arrow keys, under the focus. Without the script everything but this can
//! be seen.
//!
//! All text of a file passes through maud's escaping. Drawings hold numbers only. The page's own
//! content security policy lets no script run but ours, and loads nothing.
//!
//! What is deliberately absent: statistics that the result files do not hold.

#![forbid(unsafe_code)]

mod analysis;
mod bench;
mod boxes;
mod compare;
mod connect;
mod costs;
mod groups;
mod headline;
mod health;
mod heat;
mod overtime;
mod page;
mod percentiles;
mod plot;
mod provenance;
mod rates;
mod run;
mod scale;
mod scenario;
mod search;
mod source;
mod svg;
mod swap;
mod table;
pub mod text;
mod tuning;

pub use bench::{BenchFile, Sample};
pub use page::page;
pub use scenario::{Column, Row, ScenarioFile, Unit};
pub use source::{Document, Source, SourceError, read};

/// Colours of results, classes `s0` to `s5`.
const COLOURS: usize = 6;
