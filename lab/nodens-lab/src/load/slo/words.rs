//! What a search found, for people.

use super::Setting;
use crate::term::{self, Style, Table};
use lab_result::search::SearchFile;

/// The table of probes and the verdict.
pub(super) fn text(setting: &Setting<'_>, file: &SearchFile) -> String {
    let header = ["probe", "offered/s", "answered/s", "p50", "p99", "p99.9", "lost", "objective"];
    let mut table = Table::new(&header);
    for (at, probe) in file.probes.iter().enumerate() {
        let [p50, p99, p999] = probe.times().map(|(_, time)| term::quantile(time));
        let because = probe.because.first().cloned().unwrap_or_default();
        let because: String = because.chars().take(48).collect();
        let cells = vec![
            (at + 1).to_string(),
            term::count(probe.rate.round() as u64),
            term::count(probe.answered_per_second.round() as u64),
            p50,
            p99,
            p999,
            term::percent(probe.loss),
            format!("{} {because}", probe.said).trim_end().to_owned(),
        ];
        match probe.said.as_str() {
            "met" => table.styled(Style::Good, cells),
            "invalid" => table.styled(Style::Dim, cells),
            _ => table.row(cells),
        }
    }
    let mut lines = vec![table.framed()];
    lines.extend(few(setting, file));
    lines.push(verdict(file));
    lines.join("\n")
}

/// A warning if percentiles of the lowest rates rest on too few queries.
fn few(setting: &Setting<'_>, file: &SearchFile) -> Option<String> {
    let needed = setting.objective.questions_needed();
    let met = file.probes.iter().filter(|probe| probe.said == "met");
    let least = met.map(|probe| probe.sent).min().filter(|sent| (*sent as f64) < needed)?;
    let text = format!(
        "  note       a probe had {} queries; {} needs {} for every percentile to rest on 10: \
         take a longer --slo-probe",
        term::count(least),
        file.objective,
        term::count(needed.ceil() as u64)
    );
    Some(text)
}

fn verdict(file: &SearchFile) -> String {
    let interrupted = if file.interrupted { "interrupted; " } else { "" };
    let (Some(median), Some((lowest, highest)), Some(by)) =
        (file.median, file.range, &file.limited_by)
    else {
        return term::paint(Style::Bad, &format!("{interrupted}the search was not finished"));
    };
    if median == 0.0 {
        return term::paint(Style::Bad, &format!("{interrupted}{}", nothing(file, by)));
    }
    let objective = &file.objective;
    let range = match (file.confidence, file.settled) {
        (None, _) => String::new(),
        (Some(part), settled) => {
            let wide = match settled {
                Some(false) => ", wider than asked for: more --slo-probes narrow it",
                _ => "",
            };
            let (low, high) = (rate(lowest), rate(highest));
            format!(" ({low} to {high} with {} probability{wide})", term::percent(part))
        }
    };
    let (style, relation, why) = match by.as_str() {
        "server" => (Style::Good, "up to", "the server misses it above".to_owned()),
        "between" => {
            let missed = file.searches.iter().filter(|found| found.limited_by == "between");
            let missed = missed.filter_map(|found| found.above).reduce(f64::min).unwrap_or(median);
            let why = format!(
                "INVALID between that and {} QPS, where the server misses it: the probes in between were INVALID ({})",
                rate(missed),
                reason(file)
            );
            (Style::Bad, "up to", why)
        }
        "probes" => {
            let why = format!(
                "what is above is not known, all {} --slo-probes were taken before",
                file.probes.len()
            );
            (Style::Bad, "up to at least", why)
        }
        "ceiling" => (Style::Good, "up to at least", "higher rates were not tried".to_owned()),
        _ => {
            let why = format!(
                "INVALID above: the limit is the generator's and not the server's ({})",
                reason(file)
            );
            (Style::Bad, "up to at least", why)
        }
    };
    let text = format!("{interrupted}{objective} is met {relation} {} QPS", rate(median));
    term::paint(style, &format!("{text}{range}; {why}"))
}

/// What is said of a search that found no rate at which the objective is met.
fn nothing(file: &SearchFile, limited_by: &str) -> String {
    let (objective, floor) = (&file.objective, rate(file.floor));
    match limited_by {
        "generator" => format!(
            "INVALID: whether {objective} is met at {floor} QPS is not known, the generator itself could not keep \
             that schedule ({})",
            reason(file)
        ),
        "probes" => {
            let missed = file.probes.iter().filter(|probe| probe.said == "missed");
            let known = match missed.map(|probe| probe.rate).reduce(f64::min) {
                Some(missed) => format!("it is not met at {} QPS", rate(missed)),
                None => format!("each of them was INVALID ({})", reason(file)),
            };
            format!(
                "INVALID: whether {objective} is met at {floor} QPS is not known, all {} --slo-probes were taken \
                 before: {known}",
                file.probes.len()
            )
        }
        _ => format!("{objective} is not met at {floor} QPS, the lowest rate tried"),
    }
}

fn rate(rate: f64) -> String {
    term::count(rate.round() as u64)
}

/// Why the last invalid probe was none.
fn reason(file: &SearchFile) -> &str {
    let invalid = file.probes.iter().rev().find(|probe| probe.said == "invalid");
    invalid.and_then(|probe| probe.because.first()).map_or("unknown", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_result::search::Probe;

    #[test]
    fn a_search_without_enough_probes_says_that_its_result_is_not_known() {
        let probe = |said: &str| Probe { rate: 250.0, said: said.to_owned(), ..Probe::default() };
        let of = |median, said| {
            verdict(&SearchFile {
                objective: "loss=0".to_owned(),
                floor: 100.0,
                median: Some(median),
                range: Some((median, median)),
                limited_by: Some("probes".to_owned()),
                probes: vec![probe(said); 2],
                ..SearchFile::default()
            })
        };
        let missed = of(0.0, "missed");
        assert!(missed.contains("at 100 QPS is not known, all 2 --slo-probes"), "{missed}");
        assert!(missed.contains("it is not met at 250 QPS"), "{missed}");
        assert!(of(0.0, "invalid").contains("each of them was INVALID"));
        assert!(
            of(4_000.0, "met").contains("up to at least 4,000 QPS; what is above is not known")
        );
    }
}
