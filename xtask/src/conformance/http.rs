//! Compares the HTTP endpoints of two servers: status and body of `/health` and `/ready`, and which metrics
//! `/metrics` has with which labels and counts.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::adapt::Adapted;
use super::authority::loopback;
use nodens_judge::answer::Difference;

/// One comparison: what was asked, and the difference if there is one.
pub(crate) type Comparison = (String, Option<Difference>);

const TIMEOUT: Duration = Duration::from_secs(3);

/// Metrics whose values cannot be equal: times, and how often the health check asked itself.
const OTHER_VALUES: &[&str] = &["coredns_health_", "_seconds"];
/// Metrics that tell about the process in their labels.
const OTHER_LABELS: &[&str] = &["coredns_build_info", "coredns_reload_version_info"];

const RESPONSES: &str = "coredns_dns_responses_total";

/// Compares every endpoint that the Corefile opens; `adapted` are the first and the second server's.
pub(crate) fn compare(adapted: [&Adapted; 2]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let pairs = adapted[0].http_ports.iter().zip(&adapted[1].http_ports);
    for ((directive, theirs), (_, ours)) in pairs {
        let path = match directive.as_str() {
            "prometheus" => "/metrics",
            "health" => "/health",
            "ready" => "/ready",
            _ => continue,
        };
        let (coredns, nodens) = (get(*theirs, path), get(*ours, path));
        if path == "/metrics" {
            comparisons.extend(compare_metrics(
                &normal(&coredns, adapted[0]),
                &normal(&nodens, adapted[1]),
            ));
        } else {
            let difference =
                (coredns != nodens).then_some(Difference { field: "http", coredns, nodens });
            comparisons.push((format!("GET {path}"), difference));
        }
    }
    comparisons
}

/// Status line without the reason, a blank, and the body; or what went wrong.
fn get(port: u16, path: &str) -> String {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::new(loopback(1), port);
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    };
    match ask() {
        Ok(response) => {
            let status = response.split_whitespace().nth(1).unwrap_or("no status").to_owned();
            let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            format!("{status} {body}")
        }
        Err(error) => error.kind().to_string(),
    }
}

/// The text with the ports as the Corefile called them.
fn normal(text: &str, adapted: &Adapted) -> String {
    let mut text = text.to_owned();
    for ((_, name), port) in &adapted.dns_ports {
        text = text.replace(&format!(":{port}"), &format!(":{name}"));
    }
    text
}

/// Compares the exposition by metric family.
fn compare_metrics(coredns: &str, nodens: &str) -> Vec<Comparison> {
    let (theirs, ours) = (families(coredns), families(nodens));
    let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| {
            let empty = Vec::new();
            let theirs = theirs.get(name).unwrap_or(&empty);
            let ours = ours.get(name).unwrap_or(&empty);
            let only = |a: &[String], b: &[String]| {
                let missing: Vec<&str> =
                    a.iter().filter(|line| !b.contains(line)).map(String::as_str).collect();
                missing.join("; ")
            };
            let (coredns, nodens) = (only(theirs, ours), only(ours, theirs));
            let difference =
                (coredns != nodens).then_some(Difference { field: "metrics", coredns, nodens });
            (format!("GET /metrics {name}"), difference)
        })
        .collect()
}

/// The lines of each `coredns_` family that can be compared: of histograms the count, of others all but zeros, which a
/// server may show from the start or leave out until something happens.
fn families(exposition: &str) -> BTreeMap<String, Vec<String>> {
    let mut families: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in exposition.lines().filter(|line| line.starts_with("coredns_")) {
        let name = line.split(['{', ' ']).next().unwrap_or(line);
        if name.ends_with("_bucket") || name.ends_with("_sum") || line.ends_with(" 0") {
            continue;
        }
        let is_any = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let line = if is_any(OTHER_LABELS) {
            name.to_owned()
        } else if is_any(OTHER_VALUES) {
            sorted(line.rsplit_once(' ').map_or(line, |(labels, _)| labels))
        } else {
            sorted(line)
        };
        if name == RESPONSES {
            add_without_plugin(&mut families, &line);
        }
        families.entry(name.to_owned()).or_default().push(line);
    }
    families
}

/// Adds a line of [`RESPONSES`] to the sums over all plugins: who answered is told differently, what is not.
fn add_without_plugin(families: &mut BTreeMap<String, Vec<String>>, line: &str) {
    let Some((labels, value)) = line.rsplit_once(' ') else { return };
    let Ok(value) = value.parse::<f64>() else { return };
    let start = labels.find("plugin=\"").unwrap_or(labels.len());
    let end = labels[start..].find(',').map_or(labels.len(), |length| start + length + 1);
    let key = format!("{}{}", &labels[..start], &labels[end..]);
    let sums = families.entry(format!("{RESPONSES} over all plugins")).or_default();
    let of_key = |sum: &&mut String| sum.rsplit_once(' ').is_some_and(|(labels, _)| labels == key);
    match sums.iter_mut().find(of_key) {
        Some(sum) => {
            let before = sum.rsplit_once(' ').and_then(|(_, sum)| sum.parse::<f64>().ok());
            *sum = format!("{key} {}", before.unwrap_or(0.0) + value);
        }
        None => sums.push(format!("{key} {value}")),
    }
}

/// The line with its labels in alphabetical order. No value of a label of ours has a quote in it.
fn sorted(line: &str) -> String {
    let parts = line.split_once('{').zip(line.rsplit_once('}'));
    let Some(((name, _), (_, value))) = parts else { return line.to_owned() };
    let labels = &line[name.len() + 1..line.len() - value.len() - 1];
    let labels = labels.strip_suffix('"').unwrap_or(labels).split("\",");
    let mut labels: Vec<String> = labels.map(|label| format!("{}\"", once(label))).collect();
    labels.sort_unstable();
    format!("{name}{{{}}}{value}", labels.join(","))
}

/// A label, each zone in it once: CoreDNS names those of a block once for each key.
fn once(label: &str) -> String {
    let Some(zones) = label.strip_prefix("zones=\"") else { return label.to_owned() };
    let mut different: Vec<&str> = Vec::new();
    for zone in zones.split(',') {
        if !different.contains(&zone) {
            different.push(zone);
        }
    }
    format!("zones=\"{}", different.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_summed_over_plugins() {
        let line = |plugin, value| {
            format!("{RESPONSES}{{plugin=\"{plugin}\",rcode=\"NOERROR\"}} {value}\n")
        };
        let theirs = line("errors", 5);
        let ours = line("cache", 2) + &line("forward", 3);
        let found = compare_metrics(&theirs, &ours);
        assert!(found[0].1.is_some());
        assert_eq!(found[1], (format!("GET /metrics {RESPONSES} over all plugins"), None));
    }

    #[test]
    fn metrics_are_compared_by_family() {
        let theirs = "# TYPE x\ncoredns_a_total{zone=\".\"} 3\ncoredns_b_seconds_count{zone=\".\"} 3\n\
                      coredns_b_seconds_bucket{le=\"1\"} 2\ngo_threads 5\n";
        let ours = "coredns_a_total{zone=\".\"} 4\ncoredns_b_seconds_count{zone=\".\"} 9\n";
        let found = compare_metrics(theirs, ours);
        assert_eq!(found.len(), 2);
        assert!(found[0].1.as_ref().is_some_and(|d| d.coredns.ends_with('3')));
        assert_eq!(found[1], ("GET /metrics coredns_b_seconds_count".into(), None));
        assert!(compare_metrics(theirs, "")[1].1.is_some());
        assert_eq!(
            compare_metrics("coredns_a{b=\"1\",c=\"2\"} 3", "coredns_a{c=\"2\",b=\"1\"} 3")[0].1,
            None
        );
        assert!(compare_metrics("coredns_panics_total 0", "").is_empty());
        let zones = |zones| format!("coredns_a{{zones=\"{zones}\",b=\"1\"}} 3");
        assert_eq!(compare_metrics(&zones("b.,a.,b."), &zones("b.,a."))[0].1, None);
        assert!(compare_metrics(&zones("b.,a."), &zones("a.,b."))[0].1.is_some());
    }
}
