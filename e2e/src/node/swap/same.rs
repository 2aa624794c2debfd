//! Compares CoreDNS with itself many times and counts false differences.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use lab_stats::proportion;
use serde_json::Value;

use super::{Compared, DEPLOYMENT, Swap, usable};
use crate::node::checks::KUBEADM;
use crate::node::images::COREDNS;

/// What compares, with names of the cluster alone: what decides is measured with those.
const SHORT: [&str; 5] = ["--noise-rounds", "0", "--settle", "1s", "--no-html"];
/// Of so many comparisons, or fewer, one may call a difference.
const ONE_OF: u64 = 20;
/// Of so many comparisons one may be invalid.
const INVALID_ONE_OF: u64 = 4;

/// How long pods that are about to end still answer: in the manifest, and here, where no client queries them any
/// more and each rollout waits for the last of them.
const LAMEDUCK: [&str; 2] = ["lameduck 5s", "lameduck 100ms"];

/// Compares the image with itself, and counts what is found.
pub(super) fn run(swap: &Swap<'_>) -> Result<String> {
    swap.node.apply(&[], &KUBEADM.replace(LAMEDUCK[0], LAMEDUCK[1]))?;
    let told = compared(swap);
    swap.node.apply(&[], KUBEADM)?;
    told
}

fn compared(swap: &Swap<'_>) -> Result<String> {
    let mut tally = Tally::default();
    for at in 1..=swap.args.same {
        let seed = (swap.args.seed + at as u64 - 1).to_string();
        let more = [&SHORT[..], &["--seed", &seed]].concat();
        let compared = swap.compared(&format!("same-{at}"), DEPLOYMENT, COREDNS, &more)?;
        let told = tally.add(&compared).with_context(|| compared.text)?;
        println!("itself {at} of {}: {told}", swap.args.same);
    }
    tally.judge()
}

/// What comparisons have found.
#[derive(Debug, Default)]
struct Tally {
    /// Those that were invalid, which say nothing.
    invalid: u64,
    /// The others.
    valid: u64,
    /// Of those: which called a difference in what decides.
    called: u64,
    equivalent: u64,
    /// By metric: those in which p was at most the level, whether that is called or not.
    below: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts one; tells what it found.
    fn add(&mut self, compared: &Compared) -> Result<String> {
        let result = &compared.result;
        if let Err(why) = usable(result) {
            self.invalid += 1;
            return Ok(format!("{why:#}"));
        }
        let findings = result.get("findings").and_then(Value::as_array).context("no findings")?;
        let primary = |finding: &&Value| finding.get("primary") == Some(&Value::Bool(true));
        let Some(primary) = findings.iter().find(primary) else {
            self.invalid += 1;
            return Ok(format!("what decides was not measured: {:?}", result.get("omitted")));
        };
        let alpha = result.pointer("/plan/alpha").and_then(Value::as_f64).context("no level")?;
        let number = |finding: &Value, at: &str| finding.get(at).and_then(Value::as_f64);
        for finding in findings {
            let metric = finding.pointer("/cell/metric").and_then(Value::as_str);
            let p = number(finding, "p").context("no p")?;
            *self.below.entry(metric.context("no metric")?.to_owned()).or_default() +=
                u64::from(p <= alpha);
        }
        let verdict = primary.get("verdict").and_then(Value::as_str).context("no verdict")?;
        self.valid += 1;
        self.called += u64::from(matches!(verdict, "faster" | "slower"));
        self.equivalent += u64::from(verdict == "equivalent");
        let [estimate, p] = ["estimate", "p"].map(|at| number(primary, at).unwrap_or(f64::NAN));
        Ok(format!("{verdict}, {:+.1} %, p = {p:.3}", estimate * 100.0))
    }

    /// The figures; an error if there are more false differences than chance explains.
    fn judge(&self) -> Result<String> {
        let Self { invalid, valid, called, equivalent, below } = self;
        let interval = proportion::interval(*called, *valid, 0.05);
        let [part, low, high] =
            [*called as f64 / *valid as f64, interval.low, interval.high].map(|part| part * 100.0);
        let below: Vec<String> =
            below.iter().map(|(metric, count)| format!("{metric} {count}")).collect();
        let told = format!(
            "{called} of {valid} call a difference, {part:.1} % (95 % interval {low:.1} % to {high:.1} %), \
             {equivalent} equivalent, {} inconclusive; {invalid} more were invalid; p within the level: {}",
            valid - called - equivalent,
            below.join(", "),
        );
        ensure!(*valid > 0 && *called <= valid.div_ceil(ONE_OF), "{told}");
        ensure!(*invalid <= (valid + invalid) / INVALID_ONE_OF, "too many are invalid: {told}");
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result_of(verdict: &str, p: f64, invalid: &[&str]) -> Compared {
        let finding = |metric: &str, primary: bool, p: f64| {
            json!({
                "cell": {"metric": metric}, "primary": primary, "estimate": 0.02, "p": p, "verdict": verdict,
            })
        };
        let findings = [finding("cpu", true, p), finding("memory", false, 0.9)];
        let result = json!({
            "plan": {"alpha": 0.05}, "findings": findings, "invalid_because": invalid, "blocks": [],
        });
        Compared { text: String::new(), result }
    }

    #[test]
    fn one_false_difference_in_twenty_is_chance_and_two_are_not() {
        let mut tally = Tally::default();
        for _ in 0..18 {
            tally.add(&result_of("inconclusive", 0.5, &[])).unwrap();
        }
        tally.add(&result_of("equivalent", 0.05, &[])).unwrap();
        let told = tally.add(&result_of("slower", 0.031, &[])).unwrap();
        assert_eq!(told, "slower, +2.0 %, p = 0.031");
        assert_eq!(
            tally.judge().unwrap(),
            "1 of 20 call a difference, 5.0 % (95 % interval 0.1 % to 24.9 %), 1 equivalent, 18 \
             inconclusive; 0 more were invalid; p within the level: cpu 2, memory 0"
        );
        tally.called += 1;
        assert!(tally.judge().is_err());
    }

    #[test]
    fn invalid_comparisons_are_counted_apart() {
        let mut tally = Tally::default();
        assert!(tally.judge().is_err(), "nothing was compared");
        tally.add(&result_of("slower", 0.031, &["late"])).unwrap();
        assert!(tally.judge().is_err(), "none is valid");
        (0..3).for_each(|_| _ = tally.add(&result_of("inconclusive", 0.4, &[])).unwrap());
        assert!(tally.judge().unwrap().contains("0 of 3 call a difference"));
        tally.add(&result_of("faster", 0.031, &["late"])).unwrap();
        assert!(tally.judge().unwrap_err().to_string().starts_with("too many are invalid"));
    }
}
