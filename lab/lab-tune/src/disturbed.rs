//! Which measurements a machine disturbed too much to say anything: those of each stage are judged
//! by themselves, and in the confirmation those of each arm. Many quiet measurements of one would hide
//! that what a verdict rests on is disturbed.

use crate::trial::{Stage, Trial};
use lab_experiment::screening::BASELINE;
use lab_result::tuning::Measurement;
use std::collections::BTreeSet;

/// The part of the measurements that may stay disturbed before they say nothing.
const DISTURBED_MAX: f64 = 0.25;

/// Puts into the trial what is disturbed. Returns the knobs that fresh data does not confirm for this
/// reason.
pub(crate) fn tell(trial: &mut Trial) -> BTreeSet<String> {
    let used: Vec<&Measurement> = trial.measurements.iter().filter(|one| one.used).collect();
    let (mut invalid, mut notes, mut unconfirmed) = (Vec::new(), Vec::new(), BTreeSet::new());
    if used.is_empty() {
        invalid.push("nothing was measured".to_owned());
    }
    for stage in [Stage::Screening, Stage::Confirmation] {
        let of_stage: Vec<&Measurement> =
            used.iter().copied().filter(|one| one.phase == stage.name()).collect();
        let share = Share::of(&of_stage);
        let place = format!("of the {}", stage.name());
        if share.is_too_large() {
            invalid.push(share.text(&place));
        } else if share.faulty > 0 {
            notes.push(share.text(&place));
        }
        if stage == Stage::Confirmation {
            let arms = arms(&of_stage);
            unconfirmed = arms.unconfirmed(share.is_too_large());
            let others = arms.disturbed.iter().filter(|_| !share.is_too_large());
            invalid
                .extend(others.map(|(arm, share)| share.text(&format!("of {arm} on fresh data"))));
        }
    }
    trial.invalid_because.extend(invalid);
    trial.notes.extend(notes);
    unconfirmed
}

/// How many of some measurements are disturbed.
struct Share {
    all: usize,
    faulty: usize,
    why: String,
}

impl Share {
    fn of(measured: &[&Measurement]) -> Self {
        let faulty = measured.iter().filter(|one| !one.faults.is_empty()).count();
        let why = measured.iter().flat_map(|one| &one.faults).next();
        Self { all: measured.len(), faulty, why: why.cloned().unwrap_or_default() }
    }

    fn is_too_large(&self) -> bool {
        self.faulty as f64 > DISTURBED_MAX * self.all as f64
    }

    fn text(&self, place: &str) -> String {
        let Self { all, faulty, why } = self;
        format!("{faulty} of {all} measurements {place} are disturbed, such as: {why}")
    }
}

/// The arms of the confirmation, and those of which too much is disturbed.
struct Arms {
    all: BTreeSet<String>,
    disturbed: Vec<(String, Share)>,
}

fn arms(measured: &[&Measurement]) -> Arms {
    let all: BTreeSet<String> = measured.iter().map(|one| one.arm.clone()).collect();
    let share = |arm: &String| {
        let of_arm: Vec<_> = measured.iter().copied().filter(|one| one.arm == *arm).collect();
        (arm.clone(), Share::of(&of_arm))
    };
    let disturbed = all.iter().map(share).filter(|(_, share)| share.is_too_large()).collect();
    Arms { all, disturbed }
}

impl Arms {
    /// Every knob is compared with the baseline, so that without it none is confirmed.
    fn unconfirmed(&self, whole: bool) -> BTreeSet<String> {
        let disturbed: BTreeSet<String> =
            self.disturbed.iter().map(|(arm, _)| arm.clone()).collect();
        if whole || disturbed.contains(BASELINE) { self.all.clone() } else { disturbed }
    }
}
