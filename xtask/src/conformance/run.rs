//! Runs one case: starts both servers, asks every question over both transports, compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::adapt::adapt;
use super::authority::Upstreams;
use super::case::Case;
use super::client::Client;
use super::generate;
use super::http;
use super::primary::{self, Primary};
use super::server::{PortPool, Server, Started};
use super::streams::bad::Bad;
use super::streams::{Reply, Wrapping};
use super::transports::{Certificate, Transport};
use nodens_judge::answer::{self, Difference, Tolerance};
use nodens_judge::differences::{Differences, Place};
use nodens_judge::question::Question;

/// What every case needs.
pub(crate) struct Bench {
    pub(crate) coredns: PathBuf,
    pub(crate) nodens: PathBuf,
    pub(crate) upstreams: Upstreams,
    pub(crate) ports: PortPool,
    /// What both servers show to clients over TLS.
    pub(crate) certificate: Arc<Certificate>,
    pub(crate) differences: Differences,
    /// What the variations of the questions are drawn from, beside the case's name.
    pub(crate) seed: String,
    /// Where each case gets a folder.
    pub(crate) folder: PathBuf,
}

/// A comparison that no listed difference explains.
#[derive(Debug, Serialize)]
pub(crate) struct Unexplained {
    pub(crate) question: String,
    pub(crate) differences: Vec<Difference>,
    /// Both answers at length; empty when the differences say it all.
    pub(crate) coredns: String,
    pub(crate) nodens: String,
}

/// What a case came to.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CaseReport {
    pub(crate) directive: String,
    pub(crate) case: String,
    /// The case as `docs/differences.md` names it.
    #[serde(skip)]
    pub(crate) origin: String,
    /// Neither server accepted the Corefile.
    pub(crate) rejected: bool,
    pub(crate) equal: usize,
    /// How many questions and bad messages went over each transport.
    pub(crate) transports: BTreeMap<&'static str, usize>,
    /// How often each listed difference was seen.
    pub(crate) explained: BTreeMap<String, usize>,
    pub(crate) explained_questions: usize,
    pub(crate) unexplained: Vec<Unexplained>,
    /// What differed beside other cases and in no repetition alone: told, not failed.
    pub(crate) once: Vec<Unexplained>,
}

impl CaseReport {
    pub(crate) fn questions(&self) -> usize {
        self.passed() + self.unexplained.len()
    }

    /// Comparisons without a difference that counts.
    pub(crate) fn passed(&self) -> usize {
        self.equal + self.explained_questions + self.once.len()
    }

    /// Counts one comparison.
    fn record(
        &mut self,
        known: &Differences,
        question: String,
        differences: Vec<Difference>,
        answers: impl FnOnce() -> (String, String),
    ) {
        if differences.is_empty() {
            self.equal += 1;
            return;
        }
        let place = Place { directive: &self.directive, case: &self.origin, question: &question };
        if let Some(ids) = known.explain(place, &differences) {
            self.explained_questions += 1;
            for id in ids {
                *self.explained.entry(id.to_owned()).or_default() += 1;
            }
        } else {
            let (coredns, nodens) = answers();
            self.unexplained.push(Unexplained { question, differences, coredns, nodens });
        }
    }
}

/// Runs `case`.
pub(crate) fn run(bench: &Bench, case: &Case) -> Result<CaseReport> {
    let mut report = CaseReport {
        directive: case.directive.clone(),
        case: case.name.clone(),
        origin: case.origin().to_owned(),
        ..CaseReport::default()
    };
    let dir = bench.folder.join(case.name.replace(['/', ':', ' '], "-"));
    prepare(&dir, case)?;
    let primary = Primary::start(bench, case, &dir)?;
    let upstreams = match &primary {
        Some(primary) => &bench.upstreams.with_primary(primary.port),
        None => &bench.upstreams,
    };
    let start = |program: &Path, name: &str| {
        let adapted = adapt(&case.text, upstreams, || bench.ports.take());
        Server::start(program, name, &dir, adapted)
    };
    let (coredns, nodens) = (start(&bench.coredns, "coredns")?, start(&bench.nodens, "nodens")?);
    let verdict = |started: &Started| match started {
        Started::Running(_) => "accepted".to_owned(),
        Started::Rejected(_) => "rejected".to_owned(),
    };
    let (theirs, ours) = (verdict(&coredns), verdict(&nodens));
    let mut differences = Vec::new();
    if theirs != ours {
        differences.push(Difference { field: "start", coredns: theirs, nodens: ours });
    }
    let said = |started: &Started| match started {
        Started::Running(_) => "(runs)\n".to_owned(),
        Started::Rejected(log) => log.clone(),
    };
    report.record(&bench.differences, "start".into(), differences, || {
        (said(&coredns), said(&nodens))
    });
    match (coredns, nodens) {
        (Started::Running(mut coredns), Started::Running(mut nodens)) => {
            ask_all(bench, case, &mut report, [&mut coredns, &mut nodens])?;
        }
        (Started::Rejected(_), Started::Rejected(_)) => report.rejected = true,
        _ => {}
    }
    Ok(report)
}

/// Makes the folder with the files that the Corefile refers to.
fn prepare(dir: &Path, case: &Case) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let Some(files) = &case.files else { return Ok(()) };
    for entry in std::fs::read_dir(files)? {
        let entry = entry?;
        std::fs::copy(entry.path(), dir.join(entry.file_name()))?;
    }
    Ok(())
}

fn ask_all(
    bench: &Bench,
    case: &Case,
    report: &mut CaseReport,
    mut servers: [&mut Server; 2],
) -> Result<()> {
    let questions = generate::questions(case, &servers[0].adapted, &bench.seed)?;
    let [first, second] = &servers;
    let adapted = [&first.adapted, &second.adapted];
    let mut client = Client::new(adapted, case.settings.silence, bench.certificate.clone())?;
    primary::until_transferred(&mut client, &case.settings.until)?;
    let started = Instant::now();
    let rounds = 1 + usize::from(case.settings.pause.is_some());
    for round in 0..rounds {
        if round > 0 {
            thread::sleep(case.settings.pause.unwrap_or_default());
        }
        for question in &questions {
            for transport in &case.transports {
                thread::sleep(case.settings.gap.unwrap_or_default());
                let replies = client.ask(question, *transport)?;
                let again = if round > 0 { "again " } else { "" };
                let text = format!("{again}{} {question}", transport.name());
                compare(bench, report, *transport, text, &replies);
            }
        }
    }
    if case.settings.bad {
        send_bad(bench, case, report, &mut client, &questions)?;
    }
    // Counters and log lines follow the answer that they are about.
    let settled = case.settings.settle.unwrap_or_default().saturating_sub(started.elapsed());
    thread::sleep(settled.max(Duration::from_millis(200)));
    for (question, difference) in http::compare([&first.adapted, &second.adapted]) {
        let differences = difference.into_iter().collect();
        report.record(&bench.differences, question, differences, Default::default);
    }
    let alive = servers
        .each_mut()
        .map(|server| if server.is_alive() { "runs".to_owned() } else { "ended".to_owned() });
    let [coredns, nodens] = alive;
    let ended = (coredns != nodens).then_some(Difference { field: "exit", coredns, nodens });
    let logs = || (servers[0].log(), servers[1].log());
    report.record(&bench.differences, "exit".into(), ended.into_iter().collect(), logs);
    if case.settings.log {
        compare_logs(bench, report, servers.each_ref().map(|server| log_lines(&server.log())));
    }
    Ok(())
}

/// Sends what is wrong around a message, made of the case's first question.
fn send_bad(
    bench: &Bench,
    case: &Case,
    report: &mut CaseReport,
    client: &mut Client<'_>,
    questions: &[Question],
) -> Result<()> {
    let question = questions.first().context("no question")?;
    for transport in &case.transports {
        for bad in Bad::of(*transport) {
            let replies = client.send_bad(question, *transport, bad)?;
            let text = format!("{} ({}) {question}", transport.name(), bad.name());
            compare(bench, report, *transport, text, &replies);
        }
    }
    Ok(())
}

/// Counts one comparison of what both did with a question.
fn compare(
    bench: &Bench,
    report: &mut CaseReport,
    transport: Transport,
    question: String,
    [theirs, ours]: &[Reply; 2],
) {
    let mut differences = answer::compare(&theirs.outcome, &ours.outcome, Tolerance::NONE);
    differences.extend(Wrapping::difference(&theirs.wrapping, &ours.wrapping));
    *report.transports.entry(transport.name()).or_default() += 1;
    report.record(&bench.differences, question, differences, || {
        (theirs.outcome.to_string(), ours.outcome.to_string())
    });
}

/// Counts one comparison for each line that either log has.
fn compare_logs(bench: &Bench, report: &mut CaseReport, logs: [BTreeMap<String, usize>; 2]) {
    let lines: BTreeSet<&String> = logs.iter().flat_map(BTreeMap::keys).collect();
    for line in lines {
        let [coredns, nodens] =
            logs.each_ref().map(|log| format!("{} times", log.get(line).copied().unwrap_or(0)));
        let difference =
            (coredns != nodens).then_some(Difference { field: "log", coredns, nodens });
        let differences = difference.into_iter().collect();
        report.record(&bench.differences, format!("log {line}"), differences, Default::default);
    }
}

/// The lines of a server's log about questions, with how often each occurs; durations are made equal.
fn log_lines(log: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in log.lines() {
        let about_a_question = line.starts_with("[INFO] ") || line.starts_with("[ERROR] ");
        let plugin = line.split_whitespace().nth(1).unwrap_or("");
        let other_plugin = plugin.starts_with("plugin/") && plugin != "plugin/errors:";
        if about_a_question && !other_plugin {
            *lines.entry(without_duration(line)).or_default() += 1;
        }
    }
    lines
}

/// The line with what looks like a duration in seconds replaced.
fn without_duration(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let number = word.strip_suffix('s').and_then(|number| number.parse::<f64>().ok());
        if number.is_some() { "DURATION" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_made_comparable() {
        let log = "CoreDNS-1.15.0\n[INFO] plugin/reload: x\n\
                   [INFO] 127.0.0.1:5 - 1 \"A IN a. udp 1 false 512\" NOERROR qr 68 0.037990251s\n\
                   [ERROR] plugin/errors: 2 a. A: x\n";
        let lines = log_lines(log);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.keys().any(|line| line.ends_with("qr 68 DURATION")));
    }
}
