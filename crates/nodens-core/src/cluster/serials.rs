//! Serials of the zones that show a cluster.

/// By so many seconds at least the clock was set back if it is behind the last serial.
const CLOCK_STEP_MIN: u32 = 10;
/// The greatest distance of a later serial (RFC 1982, section 3.2).
const MIDDLE: u32 = i32::MAX as u32;

/// The second of the last change of what a zone shows, by kind of zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Serials {
    pub(super) cluster: u32,
    pub(super) external: u32,
    pub(super) imports: u32,
}

/// Which kinds of zones show something else than their serials say.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) cluster: bool,
    pub(super) external: bool,
    pub(super) imports: bool,
}

impl Changed {
    /// Gives what changed a new serial, as far as there can be one at `now_unix_s`.
    pub(super) fn settle(&mut self, serials: &mut Serials, now_unix_s: u64) {
        // Serials are 32 bits wide and have no end.
        let now = now_unix_s as u32;
        let places = [
            (&mut self.cluster, &mut serials.cluster),
            (&mut self.external, &mut serials.external),
            (&mut self.imports, &mut serials.imports),
        ];
        for (changed, serial) in places {
            if let Some(next) = after(*serial, now).filter(|_| *changed) {
                (*serial, *changed) = (next, false);
            }
        }
    }

    /// Whether any kind of zone waits for a serial.
    pub(super) fn any(&self) -> bool {
        self.cluster || self.external || self.imports
    }
}

/// The serial after `serial` at `now`, if there can be one yet. Where the clock was set back,
/// serials count on.
fn after(serial: u32, now: u32) -> Option<u32> {
    let ahead = serial.wrapping_sub(now);
    if ahead > MIDDLE {
        return Some(now);
    }
    (ahead > CLOCK_STEP_MIN).then(|| serial.wrapping_add(1))
}
