//! The order of what comes on a stream. QUIC gives octets away as they come: those that it kept until
//! others come that stand in front of them would not be counted.

use super::code;
use crate::limits::{HTTP3_EARLY_LEN_MAX, HTTP3_EARLY_PIECES_MAX};

/// Where a stream is.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// How many octets have been looked at.
    read: u64,
    /// What came early, with its places.
    early: Vec<(u64, Vec<u8>)>,
    len: usize,
}

impl Order {
    /// Whether octets at this place are the next; keeps them if they are not.
    pub(super) fn is_next(&mut self, place: u64, octets: &[u8]) -> Result<bool, u32> {
        if place <= self.read {
            self.read += octets.len() as u64;
            return Ok(true);
        }
        self.len += octets.len();
        if self.len > HTTP3_EARLY_LEN_MAX || self.early.len() >= HTTP3_EARLY_PIECES_MAX {
            return Err(code::EXCESSIVE_LOAD);
        }
        self.early.push((place, octets.to_vec()));
        Ok(false)
    }

    /// The next octets of those that came early.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let next = self.early.iter().position(|(place, _)| *place <= self.read)?;
        let (_, octets) = self.early.swap_remove(next);
        self.read += octets.len() as u64;
        self.len = self.len.saturating_sub(octets.len());
        Some(octets)
    }

    /// Octets of memory.
    pub(super) fn cost(&self) -> usize {
        self.early.capacity() * size_of::<(u64, Vec<u8>)>() + self.len
    }
}
