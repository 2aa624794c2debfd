//! The JSON of the DNS part of Kubernetes' perf-tests: the items that its `jsonify` writes, each a run of
//! dnsperf, and a result of its runner (`.out`, which is YAML) converted to JSON as it is.

use super::{Fault, Found, json};
use crate::trial::{Figure, Measured, Trial, Unit};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const MILLI: f64 = 1e6;
const SECOND: f64 = 1e9;

#[derive(Deserialize)]
#[serde(untagged)]
enum Root {
    Items {
        #[serde(rename = "dataItems")]
        items: Vec<Item>,
    },
    Run {
        data: Map<String, Value>,
        params: Map<String, Value>,
    },
}

#[derive(Deserialize)]
struct Item {
    data: BTreeMap<String, f64>,
    unit: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

pub(super) fn read(text: &str) -> Result<Found, Fault> {
    let mut found = Found::default();
    match json(text, 1)? {
        Root::Items { items } => {
            for item in &items {
                let trial = of_item(item, &mut found);
                found.trials.push(trial);
            }
        }
        Root::Run { data, params } => {
            let trial = of_run(&data, &params)?;
            found.trials.push(trial);
            found.assume(
                "averages are seconds, percentiles the milliseconds of dnsperf's patched histogram",
            );
            found.assume("max_perfserver_cpu is the highest reading of `kubectl top` every 2 s, in millicores");
        }
    }
    found.assume(
        "dnsperf's numbers: latency counts from sending, and lost queries are in no percentile and in no mean",
    );
    found.assume("runs are closed loops with 100 queries in flight unless max_qps is set");
    Ok(found)
}

fn of_item(item: &Item, found: &mut Found) -> Trial {
    let scale = match item.unit.as_str() {
        "ms" => MILLI,
        "s" => SECOND,
        "us" => 1e3,
        _ => 0.0,
    };
    let data = |name: &str| item.data.get(name).copied();
    let mut figures = Vec::new();
    for (name, value) in &item.data {
        let metric = match name.as_str() {
            "perc50" => "p50",
            "perc90" => {
                found.assume(
                    "`perc90` is the 95th percentile, which jsonify writes under this name",
                );
                "p95"
            }
            "perc99" => "p99",
            "avg_latency" => "mean",
            "min_latency" => "min",
            "max_latency" => "max",
            "qps" => {
                figures.push(Figure::rate("qps", *value));
                continue;
            }
            // They count how long a run was, and not how fast.
            "queries_sent" | "queries_completed" | "queries_lost" => continue,
            other => other,
        };
        figures.push(match scale {
            0.0 => Figure::new(metric, Unit::Other(item.unit.clone()), *value),
            scale => Figure::time(metric, value * scale),
        });
    }
    if let (Some(lost), Some(sent)) =
        (data("queries_lost"), data("queries_sent").filter(|n| *n > 0.0))
    {
        figures.push(Figure::new("loss", Unit::Part, lost / sent));
    }
    let whole = Measured { figures, ..Measured::default() };
    Trial { line: 1, labels: item.labels.clone(), whole, ..Trial::default() }
}

fn of_run(data: &Map<String, Value>, params: &Map<String, Value>) -> Result<Trial, Fault> {
    let number = |name: &str| data.get(name).and_then(Value::as_f64);
    if data.get("ok") == Some(&Value::Bool(false)) {
        return Err(Fault::new(1, "the runner says `ok: false`: this run has no results"));
    }
    let times = [
        ("mean", "avg_latency", SECOND),
        ("min", "min_latency", SECOND),
        ("max", "max_latency", SECOND),
        ("deviation", "stddev_latency", SECOND),
        ("p50", "latency_50_percentile", MILLI),
        ("p95", "latency_95_percentile", MILLI),
        ("p99", "latency_99_percentile", MILLI),
    ];
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(number("qps").map(|rate| Figure::rate("qps", rate)));
    figures.extend(
        times
            .iter()
            .filter_map(|(metric, name, scale)| Some(Figure::time(metric, number(name)? * scale))),
    );
    if let (Some(lost), Some(sent)) =
        (number("queries_lost"), number("queries_sent").filter(|n| *n > 0.0))
    {
        figures.push(Figure::new("loss", Unit::Part, lost / sent));
    }
    figures.extend(
        number("max_perfserver_cpu")
            .map(|cpu| Figure::new("cpu", Unit::Other("m".to_owned()), cpu)),
    );
    if figures.is_empty() {
        return Err(Fault::new(
            1,
            "`data` has none of `qps`, `avg_latency`, `latency_50_percentile`",
        ));
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let known = params.iter().filter(|(_, value)| !value.is_null());
    let labels = known.map(|(name, value)| (name.clone(), text(value))).collect();
    let whole = Measured { figures, ..Measured::default() };
    Ok(Trial { line: 1, labels, whole, ..Trial::default() })
}
