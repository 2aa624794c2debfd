//! Where the threads of a replay run.

/// The CPUs of the threads; anywhere if empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) sending: Vec<usize>,
    pub(crate) reading: Vec<usize>,
}

impl Places {
    /// A thread that does not sleep between queries has a CPU for itself: moved to the one on which the recording
    /// is read, or the server runs, it would wait for it, and the scheduler takes its time to see that.
    pub(crate) fn of(spins: bool, allowed: &[usize]) -> Self {
        match allowed {
            // Interrupts, and servers that have one CPU, have the first as a rule.
            [others @ .., last] if spins && !others.is_empty() => {
                Self { sending: vec![*last], reading: others.to_vec() }
            }
            _ => Self::default(),
        }
    }
}

/// Takes the place of the calling thread, with short turns there: neither thread waits long for the other.
/// Where one is not allowed, all is as it was.
pub(crate) fn settle(cpus: &[usize]) {
    if !cpus.is_empty() {
        _ = lab_sys::cpu::pin(cpus);
    }
    _ = lab_sys::cpu::take_short_turns();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_sleep_has_a_cpu_for_itself_if_there_are_two() {
        let both = Places::of(true, &[2, 5, 7]);
        assert_eq!((both.sending, both.reading), (vec![7], vec![2, 5]));
        assert_eq!(Places::of(true, &[2]), Places::default());
        assert_eq!(Places::of(true, &[]), Places::default());
        assert_eq!(Places::of(false, &[2, 5]), Places::default());
    }

    #[test]
    fn a_thread_takes_its_place_and_another_does_not() {
        let allowed = || lab_sys::cpu::allowed().unwrap();
        let before = allowed();
        let last = *before.last().unwrap();
        let inside = std::thread::spawn(move || {
            settle(&[last]);
            allowed()
        });
        assert_eq!(inside.join().unwrap(), [last]);
        assert_eq!(allowed(), before);
    }
}
