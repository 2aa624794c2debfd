//! Where the numbers come from, and what was planned.

use crate::run::{Run, name_of_transport};
use crate::table::facts;
use crate::text;
use lab_result::{Connecting, Pace, Plan, ResultFile};
use maud::{Markup, html};

/// Plan and provenance of `run`.
pub(crate) fn provenance(run: &Run<'_>) -> Markup {
    let result = run.result;
    let argv = result.provenance.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    html! {
        div.columns {
            div { h3 { "Plan" } (facts(&plan(result))) }
            div { h3 { "Run" } (facts(&about(result))) }
            div { h3 { "Machine" } (facts(&machine(result))) }
        }
        @if !argv.is_empty() { p { "To repeat it:" } pre { code { (argv) } } }
        @if !result.provenance.sysctls.is_empty() {
            details { summary { "Kernel settings before the run" }
                dl.facts.dense { @for (name, value) in &result.provenance.sysctls {
                    div { dt { (name) } dd { (value) } }
                } }
            }
        }
    }
}

fn plan(result: &ResultFile) -> Vec<(&'static str, String)> {
    let plan = &result.plan;
    let pace = match &plan.pace {
        Pace::Open { rate, arrivals, profile } => {
            let profile =
                profile.as_ref().map(|profile| format!(", {profile}")).unwrap_or_default();
            format!("open loop, {} QPS ({arrivals}{profile})", text::asked_rate(*rate))
        }
        Pace::Closed { window_per_client } => {
            format!("closed loop, {window_per_client} in flight per client")
        }
    };
    let transports: Vec<String> = plan
        .transports
        .iter()
        .map(|share| {
            format!("{} {}", name_of_transport(&share.transport), text::percent(share.share))
        })
        .collect();
    let optional = |number: Option<u64>| number.map(text::count).unwrap_or_default();
    let cpus: Vec<String> = plan.cpus.iter().map(usize::to_string).collect();
    let warm_up =
        if plan.warm_up_ns > 0 { text::nanos(plan.warm_up_ns as f64) } else { String::new() };
    vec![
        ("hash", plan.hash.clone()),
        ("seed", plan.seed.to_string()),
        ("server", plan.server.clone()),
        ("transports", transports.join(", ")),
        ("pace", pace),
        ("queries", plan.workload.source.clone()),
        ("different queries", optional(plan.workload.questions)),
        ("repeats after", optional(plan.workload.period)),
        ("duration", text::nanos(plan.duration_ns as f64)),
        ("or until it has sent", optional(plan.queries)),
        ("warm-up, not measured", warm_up),
        ("timeout", text::nanos(plan.timeout_ns as f64)),
        ("clients", text::count(plan.clients as u64)),
        ("threads", plan.threads.to_string()),
        ("pinned to CPUs", cpus.join(", ")),
        ("idle threads", plan.idle.clone()),
        ("connections", plan.connecting.as_ref().map(connecting).unwrap_or_default()),
        ("sent from", sent_from(plan)),
        ("timestamps of answers by", plan.stamps.clone().unwrap_or_default()),
    ]
}

/// What connections are like, in a few words.
fn connecting(plan: &Connecting) -> String {
    let first = if plan.connect_first { "before the schedule" } else { "as the schedule begins" };
    let pipelining = plan.pipelining.map(|most| format!(", {most} queries in flight on each"));
    let resumption = if plan.resumption { "" } else { ", never resumed" };
    let early = if plan.early_data { ", early data" } else { "" };
    let (life, pipelining) = (&plan.life, pipelining.unwrap_or_default());
    format!("{life}, the first opened {first}{pipelining}{resumption}{early}")
}

/// Addresses and ports that clients send from; empty if the system chooses.
fn sent_from(plan: &Plan) -> String {
    let ports = plan.local_port.map(|port| format!("ports from {port} on"));
    plan.sources.iter().cloned().chain(ports).collect::<Vec<_>>().join(", ")
}

/// How many queries each worker sent; empty if one process did all.
fn generators(result: &ResultFile) -> String {
    let sent = result.workers.iter().map(|worker| text::count(worker.sent));
    match result.workers.len() {
        0 => String::new(),
        workers => format!("{workers}, which sent {}", sent.collect::<Vec<_>>().join(", ")),
    }
}

fn about(result: &ResultFile) -> Vec<(&'static str, String)> {
    let counts = &result.counts;
    let mut about = vec![
        ("started", text::utc(result.run.started_unix_ns / 1_000_000_000)),
        ("active", text::nanos(result.run.active_ns as f64)),
        ("ended after", text::nanos(result.run.elapsed_ns as f64)),
        ("measured by", format!("{} {}", result.generator.name, result.generator.version)),
        ("server version", result.provenance.server_version.clone().unwrap_or_default()),
        ("generators", generators(result)),
    ];
    let numbers = [
        ("scheduled", counts.scheduled),
        ("sent", counts.sent),
        ("answered", counts.answered),
        ("timed out", counts.timed_out),
        ("ICMP refused", counts.refused),
        ("connection failed", counts.connection_failed),
        ("interrupted", counts.interrupted),
        ("messages received", counts.received),
        ("late answers", counts.late),
        ("duplicate answers", counts.duplicate),
        ("mismatched", counts.mismatched),
        ("with an unknown ID", counts.unknown),
        ("malformed", counts.malformed),
        ("truncated answers", counts.truncated),
    ];
    let shown = |(at, number): (usize, u64)| {
        if at < 3 || number > 0 { text::count(number) } else { String::new() }
    };
    about.extend(
        numbers.iter().enumerate().map(|(at, (name, number))| (*name, shown((at, *number)))),
    );
    let mean = |octets: u64, of: u64| octets.checked_div(of).map(text::octets).unwrap_or_default();
    about.push(("mean query", mean(counts.question_octets, counts.sent)));
    about.push(("mean answer", mean(counts.answer_octets, counts.answered)));
    if let Some(cost) = &result.server_cost {
        let per = cost.cpu_ns.checked_div(counts.answered).map(|nanos| text::nanos(nanos as f64));
        about.push(("server’s CPU per answer", per.unwrap_or_default()));
        about.push((
            "server’s memory, at most",
            cost.memory_peak.map(text::octets).unwrap_or_default(),
        ));
        about.push(("read from", cost.source.clone()));
    }
    about
}

fn machine(result: &ResultFile) -> Vec<(&'static str, String)> {
    let host = &result.provenance.host;
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut facts = vec![
        ("kernel", host.kernel.clone()),
        ("CPU", optional(&host.cpu_model)),
        ("CPUs online", host.cpus_online.to_string()),
        ("CPUs it may use", host.cpus_allowed.clone()),
        ("governor", host.governors.join(", ")),
        ("clock", optional(&host.clocksource)),
        ("virtualisation", optional(&host.virtualisation)),
        ("memory", host.memory.map(text::octets).unwrap_or_default()),
    ];
    if let Some(route) = &result.provenance.route {
        let place =
            if route.local { "this machine: it shares the CPUs" } else { "another machine" };
        facts.push(("server is on", place.to_owned()));
        facts.push(("device", route.device.clone()));
        facts.push(("driver", optional(&route.driver)));
        facts.push(("source address", route.source.clone()));
        facts.push(("MTU", route.mtu.map(|mtu| mtu.to_string()).unwrap_or_default()));
        facts.push((
            "speed",
            route.speed.map(|speed| format!("{speed} Mbit/s")).unwrap_or_default(),
        ));
    }
    facts
}

/// A word of a command line as a shell reads it.
fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        assert_eq!(quoted("--rate=5"), "--rate=5");
        assert_eq!(quoted("{rand:8} it's"), r"'{rand:8} it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
