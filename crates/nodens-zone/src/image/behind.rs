//! What was written to an image since it was read.

use super::{Frames, Image, ImageError, Kind, Written, apply, read_step};
use crate::data::Data;
use crate::journal::Step;
use crate::limits::{JOURNAL_OCTETS, JOURNAL_STEPS_MAX};
use std::collections::VecDeque;
use std::sync::Arc;

impl Image {
    /// Reads what stands behind an image of the version `data`, of which this is known: no more than `octets`, which
    /// begin there.
    ///
    /// # Errors
    /// [`ImageError::NoRoom`]; not for what is cut or damaged, which is not read.
    pub fn read_behind(data: Data, known: Written, octets: &[u8]) -> Result<Self, ImageError> {
        let [version_len, len] = [known.version_len, known.len]
            .map(|octets| usize::try_from(octets).unwrap_or(usize::MAX));
        let mut image = Self { data, steps: Vec::new(), version_len, len, check: known.check };
        let frames = Frames { octets, at: 0, check: known.check };
        image.take_steps(frames, len, None)?;
        Ok(image)
    }

    /// Takes up the differences in `frames`, in front of which so many octets stand.
    pub(super) fn take_steps(
        &mut self,
        mut frames: Frames<'_>,
        before: usize,
        like: Option<&Data>,
    ) -> Result<(), ImageError> {
        let mut latest = Latest::default();
        while let Some((Kind::Step, payload)) = frames.next() {
            let Some(step) = read_step(payload) else { break };
            let Some(data) = apply(&self.data, &step, like)? else { break };
            self.data = data;
            latest.push(Arc::new(step));
            (self.len, self.check) = (before.saturating_add(frames.at), frames.check);
        }
        self.steps = latest.steps.into();
        Ok(())
    }
}

/// As many of the last differences as are kept for one zone: all that an image has may take much more memory.
#[derive(Default)]
struct Latest {
    steps: VecDeque<Arc<Step>>,
    octets: usize,
}

impl Latest {
    fn push(&mut self, step: Arc<Step>) {
        self.octets += step.octets();
        self.steps.push_back(step);
        while self.octets > JOURNAL_OCTETS || self.steps.len() > JOURNAL_STEPS_MAX {
            let Some(first) = self.steps.pop_front() else { break };
            self.octets -= first.octets();
        }
    }
}
