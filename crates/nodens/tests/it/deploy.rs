//! The dashboard and the alert rules of `deploy/` ask for metrics that the server has; the unit starts it
//! with flags that it knows, and each kernel setting tells what is known of it.

use crate::fixture::{Folder, Server, eventually, free_port, http_get, need, nodens};
use crate::upstreams::{Habit, Upstream};
use nodens_wire::Type;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Labels that Prometheus adds, and the bucket of a histogram.
const OF_PROMETHEUS: &[&str] = &["instance", "job", "le"];

fn chart(file: &str) -> (PathBuf, String) {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/charts/nodens-node");
    let path = chart.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (path, text)
}

/// Type and labels of each metric that a scrape has.
#[derive(Default)]
struct Metrics(BTreeMap<String, (String, BTreeSet<String>)>);

impl Metrics {
    fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        let label = Regex::new(r#"([a-z_]+)=""#).unwrap();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                metrics.0.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let base = metrics.base(name).unwrap_or_else(|| panic!("no type: {line}"));
                let labels = &mut metrics.0.get_mut(&base).unwrap().1;
                labels.extend(label.captures_iter(line).map(|found| found[1].to_owned()));
            }
        }
        metrics
    }

    /// The metric that the series `name` is of.
    fn base(&self, name: &str) -> Option<String> {
        let whole = self.0.get(name).filter(|(kind, _)| kind != "histogram");
        if whole.is_some() {
            return Some(name.to_owned());
        }
        let (base, _) = name
            .rsplit_once('_')
            .filter(|(_, suffix)| ["bucket", "sum", "count"].contains(suffix))?;
        self.0.get(base).filter(|(kind, _)| kind == "histogram").map(|_| base.to_owned())
    }

    /// What is wrong with an expression, if anything is.
    fn complaint(&self, expression: &str) -> Option<String> {
        let name =
            Regex::new(r"\b((?:coredns|nodens|process)_[a-z0-9_]+)(?:\{([^}]*)\})?").unwrap();
        let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|!=|!~|=)\s*""#).unwrap();
        let mut known: BTreeSet<&str> = OF_PROMETHEUS.iter().copied().collect();
        let mut found = 0;
        for series in name.captures_iter(expression) {
            found += 1;
            let Some(base) = self.base(&series[1]) else {
                return Some(format!("no metric {}", &series[1]));
            };
            let (kind, labels) = &self.0[&base];
            known.extend(labels.iter().map(String::as_str));
            let inside = series.get(2).map_or("", |matchers| matchers.as_str());
            for label in matcher.captures_iter(inside) {
                if !labels.contains(&label[1]) && !OF_PROMETHEUS.contains(&&label[1]) {
                    return Some(format!("{base} has no label {}", &label[1]));
                }
            }
            let before = &expression[..series.get(0).unwrap().start()];
            let grows = before.ends_with("rate(") || before.ends_with("increase(");
            if grows == (kind == "gauge") {
                return Some(format!(
                    "{base} is a {kind}: rate() and increase() are for what grows"
                ));
            }
        }
        let grouped = Regex::new(r"\b(?:by|on|ignoring) \(([a-z_, ]*)\)").unwrap();
        for labels in grouped.captures_iter(expression) {
            let unknown = labels[1].split(", ").find(|label| !known.contains(label));
            if let Some(label) = unknown {
                return Some(format!("no metric of it has the label {label:?}"));
            }
        }
        (found == 0).then(|| "no metric at all".to_owned())
    }
}

/// A scrape of a server in the node role that has answered, forwarded and cached.
fn scraped() -> Metrics {
    let upstream = Upstream::start(Habit::Answers(Duration::ZERO));
    let metrics = free_port();
    // The port comes from the command line.
    let block = |zone: &str| {
        format!(
            "{zone} {{\n bind 127.0.0.1\n errors\n cache 30\n reload\n loop\n prometheus 127.0.0.1:{metrics}\n forward . {} {{\n  force_tcp\n }}\n}}\n",
            upstream.address
        )
    };
    let folder = Folder::new("deploy-base");
    let base = folder.write("Corefile.base", &(block(".") + &block("cluster.local")));
    let base = base.display().to_string();
    // As with Cilium: nothing of the network is touched.
    let arguments = [
        "-localip=127.0.0.1",
        "-setupinterface=false",
        "-setupiptables=false",
        "-skipteardown=true",
        "-metrics-listen-address=",
        "-upstreamsvc=127.0.0.1",
        "-kubednscm=",
        "-basecorefile",
        &base,
    ];
    let server = Server::start_with("deploy", "", &arguments);
    server.ask("a.example", Type::A);
    let scrape = || http_get(metrics, "/metrics").unwrap().1;
    eventually("a series of the upstream", || scrape().contains("proxy_request_duration_seconds"));
    Metrics::parse(&scrape())
}

/// Every string under a key `expr`, and the queries of variables.
fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if key == "expr" => found.push(text.to_owned()),
                    Some(text) if key == "query" && text.contains('(') => {
                        found.push(text.to_owned())
                    }
                    _ => expressions(value, found),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|v| expressions(v, found)),
        _ => {}
    }
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_are_there() {
    let metrics = scraped();
    let (dashboard, text) = chart("files/dashboard.json");
    let mut all = Vec::new();
    expressions(&serde_json::from_str(&text).unwrap(), &mut all);
    assert!(all.len() > 30, "{} expressions in {}", all.len(), dashboard.display());
    let (alerts, text) = chart("files/alerts.yaml");
    let rules = text.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let rules: Vec<String> = rules.map(str::to_owned).collect();
    assert_eq!(
        rules.len(),
        text.matches("- alert: ").count(),
        "{}: one line each",
        alerts.display()
    );
    assert!(rules.len() > 10);
    for expression in all.iter().chain(&rules) {
        assert_eq!(metrics.complaint(expression), None, "{expression}");
    }
}

#[test]
fn a_wrong_expression_is_noticed() {
    let text = "# TYPE coredns_a_total counter\ncoredns_a_total{zone=\".\"} 1\n\
                # TYPE nodens_b gauge\nnodens_b 1\n\
                # TYPE nodens_c_seconds histogram\nnodens_c_seconds_bucket{le=\"+Inf\"} 1\n";
    let metrics = Metrics::parse(text);
    let complaint = |expression| metrics.complaint(expression).unwrap_or_default();
    assert_eq!(complaint(r#"sum by (zone) (rate(coredns_a_total{zone="."}[5m])) / nodens_b"#), "");
    assert_eq!(complaint("sum by (le) (rate(nodens_c_seconds_bucket[5m]))"), "");
    assert_eq!(complaint("rate(coredns_gone_total[5m])"), "no metric coredns_gone_total");
    assert_eq!(complaint("rate(nodens_c_seconds[5m])"), "no metric nodens_c_seconds");
    assert!(complaint(r#"rate(coredns_a_total{to="."}[5m])"#).contains("no label to"));
    assert!(complaint("sum by (to) (rate(coredns_a_total[5m]))").contains("\"to\""));
    assert!(complaint("rate(nodens_b[5m])").contains("gauge"));
    assert!(complaint("coredns_a_total > 0").contains("counter"));
    assert_eq!(complaint("1 > 0"), "no metric at all");
}

/// The alert on memory warns at nine tenths of the chart's limit.
#[test]
fn the_alert_on_memory_knows_the_limit() {
    let (_, values) = chart("values.yaml");
    let limit = Regex::new(r"limits:\n    memory: ([0-9]+)Mi\n").unwrap();
    let limit: u64 = limit.captures(&values).unwrap()[1].parse().unwrap();
    let (_, alerts) = chart("files/alerts.yaml");
    let wanted = format!("process_resident_memory_bytes > {}", (limit << 20) / 10 * 9);
    assert!(alerts.contains(&wanted), "no {wanted:?}");
}

/// The rules of a file: the expression of each alert.
fn rules(text: &str) -> Vec<(&str, &str)> {
    let alerts = text.split("- alert: ").skip(1);
    alerts
        .map(|alert| {
            let name = alert.lines().next().unwrap();
            let expression = alert.lines().find_map(|line| line.trim().strip_prefix("expr: "));
            (name, expression.unwrap_or_else(|| panic!("{name}: no expression in one line")))
        })
        .collect()
}

#[test]
fn the_alerts_of_the_cluster_are_those_of_the_node_and_know_the_limit() {
    let (_, node) = chart("files/alerts.yaml");
    let (_, cluster) = chart("../../cluster/alerts.yaml");
    let (_, manifest) = chart("../../cluster/nodens.yaml");
    let node: std::collections::HashMap<_, _> = rules(&node).into_iter().collect();
    let cluster = rules(&cluster);
    assert!(cluster.len() > 10);
    let limit = Regex::new(r"limits:\n +memory: ([0-9]+)Mi\n").unwrap();
    let limit: u64 = limit.captures(&manifest).unwrap()[1].parse().unwrap();
    let memory = format!("process_resident_memory_bytes > {} ", (limit << 20) / 10 * 9);
    for (name, expression) in cluster {
        match name {
            "NodensClusterMemory" => assert!(expression.starts_with(&memory), "{expression}"),
            // Whose metrics are asked of a server above.
            _ => assert_eq!(node.get(name), Some(&expression), "{name}"),
        }
    }
}

const UNIT: &str = include_str!("../../../../deploy/systemd/nodens.service");
const SETTINGS: &str = include_str!("../../../../deploy/sysctl/90-nodens.conf");

/// The values of a key of the unit.
fn unit(key: &str) -> Vec<&str> {
    UNIT.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn the_unit_starts_the_server_with_flags_that_it_knows() {
    let starts = unit("ExecStart");
    let [start] = starts[..] else { panic!("{starts:?}") };
    let mut words = start.split(' ');
    assert_eq!(words.next(), Some("/usr/local/bin/nodens"));
    let help = nodens().arg("-help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags: Vec<&str> = words.filter(|word| word.starts_with('-')).collect();
    assert!(flags.contains(&"-conf"), "{flags:?}");
    for flag in flags {
        let flag = flag.split('=').next().unwrap();
        let known = help.lines().any(|line| line.split_whitespace().next() == Some(flag));
        assert!(known, "{flag} is none of `nodens -help`");
    }
    assert_eq!(unit("ExecReload"), ["/bin/kill -USR1 $MAINPID"], "the signal that reloads");
    // The exit code of a command line that is not understood.
    let wrong = nodens().arg("-nonsense").output().unwrap().status.code().unwrap();
    assert_eq!(unit("RestartPreventExitStatus"), [wrong.to_string()]);
}

#[test]
fn systemd_understands_the_unit_and_finds_little_exposed() {
    need("systemd-analyze", "systemd");
    let folder = Folder::new("unit");
    let path = folder.write(
        "nodens.service",
        &UNIT.replace("/usr/local/bin/nodens", env!("CARGO_BIN_EXE_nodens")),
    );
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(arguments).arg(&path).env("LC_ALL", "C").output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{text:?}");
        text.concat()
    };
    assert_eq!(analyze(&["verify", "--man=no"]), "", "systemd has something to say");
    // In tenths; more than 2.0 fails.
    analyze(&["security", "--offline=yes", "--no-pager", "--threshold=20"]);
}

/// The settings, each with the comment above it: several may share one.
fn settings() -> Vec<(String, &'static str, &'static str)> {
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut ended = true;
    for line in SETTINGS.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            if std::mem::take(&mut ended) {
                comment.clear();
            }
            comment += text;
            comment.push(' ');
        } else if let Some(setting) = line.strip_prefix('#').filter(|rest| !rest.is_empty()) {
            let (key, value) = setting.split_once(" = ").unwrap_or_else(|| panic!("{line:?}"));
            found.push((comment.clone(), key, value));
            ended = true;
        } else {
            assert!(line.is_empty() || line == "#", "in force: {line:?}");
            ended |= line.is_empty();
        }
    }
    found
}

#[test]
fn every_kernel_setting_is_off_and_tells_what_is_known_of_it() {
    let settings = settings();
    assert!(settings.len() > 25, "{}", settings.len());
    let keys: BTreeSet<&str> = settings.iter().map(|(_, key, _)| *key).collect();
    assert_eq!(keys.len(), settings.len(), "one of them twice");
    for (comment, key, value) in &settings {
        assert!(comment.starts_with("said: "), "{key}: {comment:?}");
        for part in [" measured: ", " here: "] {
            assert_eq!(comment.matches(part).count(), 1, "{key}: {comment:?}");
        }
        assert!(value.split(' ').all(|word| !word.is_empty()), "{key}: {value:?}");
    }
    let value = |name| settings.iter().find(|(_, key, _)| *key == name).map(|found| found.2);
    let backlog = nodens_net::limits::BACKLOG.to_string();
    assert_eq!(value("net.core.somaxconn"), Some(&*backlog));
    let buffer = nodens_net::limits::RECEIVE_BUFFER.to_string();
    assert_eq!(value("net.core.rmem_max"), Some(&*buffer));
}

/// `docs/machine.md` names settings of the file, and what the unit has.
#[test]
fn the_page_on_the_machine_knows_unit_and_settings() {
    let page = include_str!("../../../../docs/machine.md");
    let name = Regex::new(r"net\.[a-z0-9_]+\.[a-z0-9_]+").unwrap();
    let keys: BTreeSet<&str> = settings().iter().map(|(_, key, _)| *key).collect();
    let named: BTreeSet<&str> = name.find_iter(page).map(|found| found.as_str()).collect();
    assert!(named.len() >= 6, "{named:?}");
    assert_eq!(named.difference(&keys).collect::<Vec<_>>(), [] as [&&str; 0]);
    for line in
        ["Type=exec", "StartLimitIntervalSec=0", "AllowedCPUs=", "MemoryMax=", "LoadCredential="]
    {
        assert!(page.contains(line) && UNIT.contains(line), "{line}");
    }
}
