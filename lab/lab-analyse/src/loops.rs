//! Whether a closed loop alone explains the latency of a trial: with a fixed number of queries in flight,
//! rate and latency are one number (Little, 1961).

use crate::group::Group;
use crate::trial::Trial;
use lab_result::analysis::LoopCheck;

/// How far from the loop's a latency may lie as a part of it: a run does not begin with all in flight.
const TOLERANCE: f64 = 0.05;

/// The trials of which the loop, the rate and the mean latency are known.
pub(crate) fn loops(groups: &[Group]) -> Vec<LoopCheck> {
    let all = groups.iter().flat_map(|group| group.trials.iter().map(move |trial| (group, trial)));
    all.filter_map(|(group, trial)| of_trial(&group.name, trial)).collect()
}

fn of_trial(group: &str, trial: &Trial) -> Option<LoopCheck> {
    let window = trial.window?;
    let (rate, mean_ns) = (trial.figure("qps").filter(|rate| *rate > 0.0)?, trial.figure("mean")?);
    let loss = trial.figure("loss").unwrap_or(0.0).clamp(0.0, 1.0);
    // A lost query is in flight for the timeout, or until the end of sending: its share of the loop is no
    // answer's.
    let (timeout, run) = (window.timeout_ns, window.run_ns);
    let waited = match () {
        () if run <= 0.0 => timeout,
        () if run <= timeout => run / 2.0,
        () => timeout * (1.0 - timeout / run / 2.0),
    };
    let taken = if loss < 1.0 { waited * loss / (1.0 - loss) } else { return None };
    let predicted_ns = (window.in_flight / rate * 1e9 - taken).max(0.0);
    let distance = (predicted_ns - mean_ns).abs();
    Some(LoopCheck {
        group: group.to_owned(),
        place: trial.place(),
        window: window.in_flight,
        rate,
        loss,
        timeout_ns: window.timeout_ns,
        predicted_ns,
        mean_ns,
        precision_ns: window.precision_ns,
        explained: distance <= window.precision_ns.max(TOLERANCE * predicted_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Figure, Measured, Unit, Window};

    fn trial(rate: f64, mean_ms: f64, loss: f64) -> Trial {
        let figures = vec![
            Figure::rate("qps", rate),
            Figure::time("mean", mean_ms * 1e6),
            Figure::new("loss", Unit::Part, loss),
        ];
        let window = Window { in_flight: 200.0, timeout_ns: 5e9, run_ns: 0.0, precision_ns: 1e6 };
        let whole = Measured { figures, ..Measured::default() };
        Trial { whole, window: Some(window), ..Trial::default() }
    }

    #[test]
    fn a_closed_loop_explains_its_latency_with_what_losses_took_of_it() {
        let found = of_trial("a", &trial(33_991.0, 4.0, 0.0003)).unwrap();
        assert!((found.predicted_ns / 1e6 - 4.38).abs() < 0.01 && found.explained, "{found:?}");
        assert!(!of_trial("a", &trial(811.0, 216.0, 0.0003)).unwrap().explained);
        assert!(!of_trial("a", &trial(33_991.0, 0.2, 0.0)).unwrap().explained);
        assert_eq!(of_trial("a", &trial(33_991.0, 4.0, 1.0)), None);
        // In a run of two timeouts a lost query waits for three quarters of one on average.
        let mut short = trial(1_000.0, 190.0, 0.002);
        short.window.iter_mut().for_each(|window| window.run_ns = 1e10);
        let expected = 200.0 - 5_000.0 * 0.75 * 0.002 / 0.998;
        assert!((of_trial("a", &short).unwrap().predicted_ns / 1e6 - expected).abs() < 1e-6);
        assert_eq!(of_trial("a", &Trial { window: None, ..trial(1.0, 1.0, 0.0) }), None);
    }
}
