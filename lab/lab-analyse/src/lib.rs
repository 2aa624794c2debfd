//! Results of load generators, others' and our own, analysed with the statistics of our own comparisons.
//!
//! - [`read`]: files as they are. Nothing is altered, and what a file does not say and has to be taken for
//!   true is named;
//! - [`trial`]: what a file says about a run, whatever its format;
//! - [`group`]: trials that belong together, by folder, file, label, or as given;
//! - [`analyse()`]: every value, every test, and what weakens them, as one file.
//!
//! The unit is a run. Its seconds, intervals or readings depend on each other, so they take the place of
//! runs only where there are no others, and then nothing is judged.
//!
//! What is deliberately absent: removal of outliers, a clock, sockets, printing.

#![forbid(unsafe_code)]

mod analyse;
mod column;
mod contrast;
mod family;
pub mod group;
pub mod limits;
mod loops;
mod rates;
pub mod read;
pub mod trial;
mod twice;
mod warn;

pub use analyse::{AnalyseError, Settings, analyse};
pub use column::{MARGINS, margin};
