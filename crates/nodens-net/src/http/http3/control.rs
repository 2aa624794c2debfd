//! The client's control stream: settings, and what else it says of the connection (RFC 9114 section 6.2.1).

use super::frames::{Frames, Part, number};
use super::{code, kind};
use crate::limits::HTTP3_CONTROL_FRAME_MAX;
use std::collections::HashSet;

/// Where it is.
#[derive(Debug, Default)]
pub(super) struct Control {
    frames: Frames,
    /// Octets of a frame that means something.
    content: Vec<u8>,
    has_settings: bool,
    /// What GOAWAY said last.
    leaves_at: Option<u64>,
    /// What MAX_PUSH_ID said last.
    pushes: Option<u64>,
}

impl Control {
    /// Takes what has come; gives how many frames were of no use, or the code of the connection's error.
    pub(super) fn take(&mut self, mut octets: &[u8]) -> Result<usize, u32> {
        let mut idle = 0;
        while let Some(part) = self.frames.next(&mut octets) {
            match part {
                Part::Begin(kind, len) => {
                    idle += usize::from(self.has_settings);
                    self.begin(kind, len)?;
                }
                Part::Content(kind, content) if is_meant(kind) => {
                    self.content.extend_from_slice(content);
                }
                Part::Content(..) => {}
                Part::End(kind) => {
                    let content = std::mem::take(&mut self.content);
                    self.end(kind, &content)?;
                }
            }
        }
        Ok(idle)
    }

    /// Octets of memory.
    pub(super) fn cost(&self) -> usize {
        self.content.capacity()
    }

    fn begin(&self, kind: u64, len: u64) -> Result<(), u32> {
        if kind == kind::SETTINGS && self.has_settings {
            return Err(code::FRAME_UNEXPECTED);
        }
        if kind != kind::SETTINGS && !self.has_settings {
            return Err(code::MISSING_SETTINGS);
        }
        if matches!(kind, kind::DATA | kind::HEADERS | kind::PUSH_PROMISE) || kind::is_of_two(kind)
        {
            return Err(code::FRAME_UNEXPECTED);
        }
        if is_meant(kind) && len > HTTP3_CONTROL_FRAME_MAX as u64 {
            return Err(code::EXCESSIVE_LOAD);
        }
        Ok(())
    }

    fn end(&mut self, kind: u64, content: &[u8]) -> Result<(), u32> {
        if kind == kind::SETTINGS {
            self.has_settings = true;
            return settings(content);
        }
        if !is_meant(kind) {
            return Ok(());
        }
        let (number, rest) = number(content).ok_or(code::FRAME_ERROR)?;
        if !rest.is_empty() {
            return Err(code::FRAME_ERROR);
        }
        let is_fine = match kind {
            // It may say so again, of fewer.
            kind::GOAWAY => self.leaves_at.replace(number).is_none_or(|last| number <= last),
            kind::PUSHES => self.pushes.replace(number).is_none_or(|last| number >= last),
            // Nothing is ever pushed.
            _ => false,
        };
        is_fine.then_some(()).ok_or(code::ID_ERROR)
    }
}

/// Whether a frame of this type says something.
fn is_meant(kind: u64) -> bool {
    matches!(kind, kind::SETTINGS | kind::GOAWAY | kind::PUSHES | kind::CANCEL_PUSH)
}

/// Looks at settings: what they allow is not made use of.
fn settings(mut rest: &[u8]) -> Result<(), u32> {
    let mut seen = HashSet::new();
    while !rest.is_empty() {
        let (name, behind) = number(rest).ok_or(code::FRAME_ERROR)?;
        let (_, behind) = number(behind).ok_or(code::FRAME_ERROR)?;
        rest = behind;
        // Those of HTTP/2 must not come (RFC 9114 section 7.2.4.1), and none may come twice.
        if matches!(name, 2..=5) || !seen.insert(name) {
            return Err(code::SETTINGS_ERROR);
        }
    }
    Ok(())
}
