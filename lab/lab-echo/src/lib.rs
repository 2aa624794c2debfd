//! A server that answers every query with itself: the baseline that no server can beat, and,
//! configured to delay, lose or damage answers, the known truth that a load generator is tested
//! against.
//!
//! What it injects follows from a seed ([`inject`]), leaves on an absolute schedule ([`queue`]),
//! and is counted as it really happened ([`truth`]): whoever compares a measurement with the truth
//! takes the counts and not the wishes. All of that knows no socket and no clock; [`udp`] and
//! [`stream`] (TCP, and DoT with the certificate of an [`identity`]), [`doh`], [`quic`] (DoQ) and [`doh3`]
//! have both.
//!
//! What is deliberately absent: any look at names or types. A query is answered whatever it asks.

#![forbid(unsafe_code)]

pub mod arrivals;
pub mod doh;
pub mod doh3;
mod front;
pub mod identity;
pub mod inject;
pub mod latency;
mod listen;
pub mod queue;
pub mod quic;
pub mod stream;
pub mod truth;
pub mod udp;

pub use inject::{Fate, Injection, Injector, Medium};
pub use latency::Latency;
pub use truth::Truth;

/// Why a text does not say what to inject.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// A duration or part.
    #[error(transparent)]
    Unit(#[from] lab_units::UnitError),
    /// The parts of a mixture exceed the whole, or do not make it up.
    #[error("the parts of `{text}` add up to {percent:.4} %, expected {expected}")]
    Sum {
        /// What was written.
        text: String,
        /// The sum.
        percent: f64,
        /// What the sum should be.
        expected: &'static str,
    },
    /// A word that is not known.
    #[error("`{word}` in `{text}`: expected {expected}")]
    Word {
        /// What is wrong.
        word: String,
        /// What it stands in.
        text: String,
        /// What may stand there.
        expected: &'static str,
    },
}
