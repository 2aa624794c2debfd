//! The page as a browser gets it: whole, the same each time, without script or address of others.

use lab_histogram::Histogram;
use lab_report::{Document, Source, page};
use lab_result::comparison::ComparisonFile;
use lab_result::{ResultFile, Second};
use scraper::{ElementRef, Html, Selector};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const RESULT: &str = include_str!("data/result.json");
/// Set this to write the golden page anew.
const BLESS: &str = "NODENS_BLESS";

fn result() -> ResultFile {
    lab_result::from_json(Path::new("result.json"), RESULT.as_bytes()).unwrap()
}

fn load(name: &str, result: ResultFile) -> Source {
    Source { name: name.to_owned(), document: Document::Load(Box::new(result)) }
}

/// A comparison with every part that a page shows.
fn comparison() -> Value {
    let response = serde_json::from_str::<Value>(RESULT).unwrap()["response"].clone();
    let cell = json!({ "set": "internal", "load": "50 %", "metric": "p99" });
    let finding = |scale: &str, verdict: &str, interval: Value| {
        json!({
            "cell": cell, "rate": 1000.0, "unit": if scale == "ratio" { "ns" } else { "part" },
            "scale": scale, "primary": true, "pairs": 3, "pooled": 1, "a": 2e5, "b": 2.1e5,
            "estimate": 0.05, "median": 0.049, "interval": interval, "method": "bca", "p": 0.01,
            "p_exact": true, "p_adjusted": 0.02, "p_equivalent": 0.9, "p_worse": 0.8,
            "margin": 0.02, "sigma": 0.01, "pairs_needed": 30, "verdict": verdict,
            "differences": [0.04, 0.05, -0.01],
        })
    };
    let block = |side: &str| {
        json!({
            "phase": "comparison", "pair": 0, "first": true, "side": side, "set": "internal",
            "load": "50 %", "rate": 1000.0, "attempt": 0, "faults": [], "used": true,
            "started_unix_ns": 1, "elapsed_ns": 1, "sent": 1, "answered": 1, "lost": 0,
            "plan": "00", "response": response, "answers_so_far": 1, "incarnation": 0,
        })
    };
    let findings = [
        finding("ratio", "slower", json!([0.03, 0.07])),
        finding("difference", "inconclusive", Value::Null),
    ];
    json!({
        "kind": "comparison", "schema": lab_result::comparison::SCHEMA,
        "generator": { "name": "nodens-lab", "version": "0" },
        "provenance": { "argv": ["nodens-lab", "ab"], "sysctls": {}, "host": {
            "kernel": "Linux", "cpus_online": 1, "cpus_allowed": "0" } },
        "plan": {
            "seed": 1, "primary": cell, "metrics": [], "alpha": 0.05, "power": 0.8, "pairs": 3,
            "noise_pairs": 1, "group_pairs": 1, "block_ns": 1, "warm_up_ns": 1, "timeout_ns": 1,
            "clients": 1, "sets": [], "order": ["a", "b"], "resamples": 10, "resolution": 0.004,
            "loads": [{ "name": "50 %", "set": "internal", "rate": 1000.0 }],
            "rules": ["steal above 1 %"], "servers": ["one", "two"],
        },
        "plan_hash": "00", "started_unix_ns": 1, "finished_unix_ns": 2, "interrupted": true,
        "invalid_because": ["a reason"], "notes": ["a note"],
        "a": { "name": "old", "server": "one", "version": "1" },
        "b": { "name": "new", "server": "two" },
        "verdict": "slower", "no_worse": false, "findings": findings,
        "noise": [finding("ratio", "equivalent", json!([-0.01, 0.01]))],
        "costs": [{ "side": "a", "set": "internal", "idle": 1e6, "per_answer": 4e3, "r_squared": 0.9,
            "idle_interval": [0.9e6, 1.1e6], "per_answer_interval": [3e3, 5e3],
            "points": [[1000.0, 5e6], [2000.0, 9e6]], "memory_growth": -12.0 }],
        "omitted": [{ "cell": cell, "reason": "too few queries" }],
        "blocks": [block("a"), block("b")],
    })
}

fn bench() -> Value {
    let sample = |server: &str, rate: f64| {
        json!({
            "server": server, "cell": "hits", "answers_per_second": rate, "cpu_us_per_answer": 4.0,
            "sent": 100, "lost": 1, "response_ns": { "p50": 40_000, "p99": null },
            "resident": 12_000_000, "invalid_because": ["late"],
        })
    };
    let samples = [sample("one", 1e5), sample("two", 2e5), sample("one", 1.1e5)];
    json!({ "kind": "bench", "schema": 1, "about": ["- a machine"], "samples": samples })
}

fn search() -> Value {
    let probe = |rate: f64, said: &str| {
        json!({
            "search": 1, "rate": rate, "said": said, "because": ["p99 of 7 ms"],
            "answered_per_second": rate, "sent": 100, "loss": 0.01, "p50": 40_000, "p99": 7_000_000,
            "p999": null, "plan": "00",
        })
    };
    let file = lab_result::search::SearchFile {
        kind: lab_result::search::KIND.to_owned(),
        schema: lab_result::search::SCHEMA,
        server: "192.0.2.1:53".to_owned(),
        median: Some(2e4),
        range: Some((1.9e4, 2.1e4)),
        ..Default::default()
    };
    let mut file = serde_json::to_value(file).unwrap();
    file["probes"] = json!([probe(1e3, "met"), probe(1e5, "missed"), probe(2e4, "invalid")]);
    file["searches"] = json!([{ "highest": 2e4, "above": null, "limited_by": "server" }]);
    file["limited_by"] = json!("server");
    file
}

/// A page of all kinds of documents, each from its JSON.
fn page_of_all([result, comparison, bench, search]: [&Value; 4]) -> String {
    let result: ResultFile = serde_json::from_value(result.clone()).unwrap();
    let comparison: ComparisonFile = serde_json::from_value(comparison.clone()).unwrap();
    let sources = [
        load("one", result.clone()),
        load("two", result),
        Source { name: "c".into(), document: Document::Comparison(Box::new(comparison)) },
        Source {
            name: "b".into(),
            document: Document::Bench(serde_json::from_value(bench.clone()).unwrap()),
        },
        Source {
            name: "s".into(),
            document: Document::Search(serde_json::from_value(search.clone()).unwrap()),
        },
    ];
    page(&sources, None)
}

fn select<'a>(html: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    html.select(&Selector::parse(selector).unwrap()).collect()
}

/// Everything that holds for every page.
fn check(page: &str) -> Html {
    let html = Html::parse_document(page);
    assert!(html.errors.is_empty(), "{:?}", html.errors);
    let mut ids = BTreeSet::new();
    for element in select(&html, "*") {
        let value = element.value();
        for (name, text) in value.attrs() {
            assert!(!name.starts_with("on"), "<{} {name}>", value.name());
            assert!(!matches!(name, "src" | "srcset" | "action" | "data" | "xlink:href"), "{name}");
            assert!(name != "href" || text.starts_with('#'), "{text}");
        }
        if let Some(id) = value.id() {
            assert!(ids.insert(id), "twice: {id}");
        }
        let foreign = ["link", "img", "iframe", "object", "embed", "base", "form", "image", "use"];
        assert!(!foreign.contains(&value.name()), "<{}>", value.name());
    }
    assert_eq!(select(&html, "script").len(), 1);
    for own in select(&html, "style, script") {
        let text: String = own.text().collect();
        assert!(!text.contains("http") && !text.contains("url(") && !text.contains("@import"));
    }
    let policy = select(&html, "meta[http-equiv=Content-Security-Policy]");
    assert!(policy[0].attr("content").unwrap().starts_with("default-src 'none'"));
    check_readouts(&html);
    html
}

/// What the script will look for is there.
fn check_readouts(html: &Html) {
    for area in select(html, ".area[data-table]") {
        let table = area.attr("data-table").unwrap();
        let places = match (area.attr("data-even"), area.attr("data-at")) {
            (Some(even), None) => even.parse().unwrap(),
            (None, Some(at)) => at.split(' ').count(),
            other => panic!("{other:?}"),
        };
        assert_eq!(select(html, &format!("#{table} tbody tr")).len(), places, "{table}");
        let heads = select(html, &format!("#{table} thead th")).len();
        for row in select(html, &format!("#{table} tbody tr")) {
            assert_eq!(row.child_elements().count(), heads, "{table}");
        }
        let columns = area.attr("data-columns").unwrap();
        assert!(columns.split(' ').all(|column| column.parse::<usize>().unwrap() < heads));
        if let Some(heat) = area.attr("data-heat") {
            assert_eq!(heat.rsplit('|').next().unwrap().split(';').count(), places);
        }
        assert!(!area.attr("aria-label").unwrap().is_empty());
    }
}

#[test]
fn the_page_of_a_result_is_the_golden_one_octet_for_octet() {
    let before = result();
    let sources = [load("result", before.clone())];
    let made = page(&sources, None);
    assert_eq!(made, page(&sources, None));
    let Document::Load(after) = &sources[0].document else { unreachable!() };
    assert_eq!(**after, before, "a report changes nothing");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/page.html");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&golden, &made).unwrap();
    }
    let wanted = std::fs::read_to_string(&golden).unwrap();
    let lines = made.split('>').zip(wanted.split('>'));
    let differs = lines.enumerate().find(|(_, (made, wanted))| made != wanted);
    assert!(
        made == wanted,
        "{differs:?}; if it is meant, run the test with {BLESS}=1 and look at it"
    );
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_but_itself() {
    check(&page(&[load("result", result())], None));
    let all =
        page_of_all([&serde_json::from_str(RESULT).unwrap(), &comparison(), &bench(), &search()]);
    let html = check(&all);
    for id in [
        "percentiles",
        "time",
        "groups",
        "health",
        "provenance",
        "compare2",
        "both2",
        "cost2",
        "bench3",
        "search4",
    ] {
        assert_eq!(select(&html, &format!("section#{id}")).len(), 1, "{id}");
    }
}

#[test]
fn a_benchmark_compares_what_was_measured_in_the_same_repeat() {
    let sample = |server: &str, repeat: usize, rate: f64| {
        json!({ "server": server, "cell": "hits", "repeat": repeat, "answers_per_second": rate,
            "cpu_us_per_answer": 1e6 / rate, "sent": 100, "lost": 0 })
    };
    // The machine is slower in the second repeat; the first server has a third one.
    let samples =
        [("one", 0, 1e5), ("two", 0, 3e5), ("one", 1, 2e4), ("two", 1, 6e4), ("one", 2, 2e4)]
            .map(|(server, repeat, rate)| sample(server, repeat, rate));
    let file = json!({ "kind": "bench", "schema": 1, "about": [], "samples": samples });
    let page =
        page_of_all([&serde_json::from_str(RESULT).unwrap(), &comparison(), &file, &search()]);
    let html = check(&page);
    let cells = select(&html, "section#bench3 td").into_iter();
    let cells: Vec<String> = cells.map(|cell| cell.text().collect()).collect();
    assert!(cells.contains(&"3.00".to_owned()), "{cells:?}");
    assert!(cells.contains(&"0.33".to_owned()), "{cells:?}");
}

#[test]
fn a_comparison_is_told_by_its_primary_metric_and_by_no_other() {
    let told = |change: &dyn Fn(&mut Value)| {
        let mut file = comparison();
        for (finding, metric) in
            file["findings"].as_array_mut().unwrap().iter_mut().zip(["p50", "p99"])
        {
            finding["cell"]["metric"] = metric.into();
            finding["primary"] = (metric == "p99").into();
        }
        change(&mut file);
        let html = check(&page_of_all([
            &serde_json::from_str(RESULT).unwrap(),
            &file,
            &bench(),
            &search(),
        ]));
        let text = |selector: &str| -> String {
            select(&html, selector).iter().flat_map(|element| element.text()).collect()
        };
        (text("div.verdict.invalid"), text("section#compare2 h3"))
    };
    let (verdict, pairs) = told(&|_| {});
    assert!(verdict.contains("p99 of new beside old") && !verdict.contains("p50"), "{verdict}");
    assert!(pairs.contains("Every pair: p99"), "{pairs}");
    let (verdict, pairs) = told(&|file| {
        file["findings"].as_array_mut().unwrap().pop();
    });
    let reason = "p99, internal, 50 %, decides and was not measured: too few queries";
    assert!(verdict.contains(reason) && !verdict.contains("p50"), "{verdict}");
    assert!(!pairs.contains("Every pair"), "{pairs}");
}

#[test]
fn a_value_among_lost_queries_is_a_bound_and_so_is_the_difference() {
    let cells = |a: bool, b: bool| {
        let mut file = comparison();
        let finding = &mut file["findings"][0];
        (finding["a_is_bound"], finding["b_is_bound"]) = (a.into(), b.into());
        let result = serde_json::from_str(RESULT).unwrap();
        let html = check(&page_of_all([&result, &file, &bench(), &search()]));
        let cells = select(&html, "#findings2 tbody tr:first-child td[data-of]");
        let texts = cells.iter().map(|cell| cell.text().collect::<String>());
        texts.collect::<Vec<_>>()
    };
    let later = cells(false, true);
    assert_eq!((&*later[1], &*later[2]), ("≥ +5.0 %", "≥ +3.0 %"), "{later:?}");
    assert!(later[5].starts_with("≥ ") && !later[4].starts_with('≥'), "{later:?}");
    assert_eq!(cells(true, false)[2], "≤ +7.0 %");
    assert_eq!(cells(true, true)[1..3], ["unknown", "unknown"]);
    assert_eq!(cells(false, false)[2], "[+3.0 %, +7.0 %]");
}

/// The path of the answers a second of a run of these seconds, sent for `length` nanoseconds.
fn answers(length: u64, seconds: [u64; 3]) -> (String, String) {
    let mut result = result();
    let second = result.seconds[0].clone();
    (result.plan.duration_ns, result.run.active_ns) = (length, length + 20_000_000);
    result.seconds = (0..3)
        .zip(seconds)
        .map(|(at, count)| Second { second: at, sent: count, answered: count, ..second.clone() })
        .collect();
    let html = check(&page(&[load("result", result)], None));
    let path = select(&html, ".area path.answered")[0].attr("d").unwrap().to_owned();
    let last = select(&html, "#time0 tbody tr:last-child th")[0].text().collect();
    (path, last)
}

#[test]
fn a_second_in_which_the_run_ended_is_no_collapse() {
    let whole = answers(3_000_000_000, [300, 300, 300]);
    assert_eq!(whole.1, "2 s");
    assert_eq!(
        answers(2_300_000_000, [300, 300, 90]),
        (whole.0.clone(), "2 s (0.3 s of it)".into())
    );
    assert_ne!(answers(3_000_000_000, [300, 300, 90]).0, whole.0);
    // Of a twentieth of a second no rate is drawn: it would be chance.
    assert_eq!(answers(2_050_000_000, [300, 300, 90]).0, answers(2_050_000_000, [300, 300, 1]).0);
}

#[test]
fn what_decides_a_comparison_stands_first_and_says_what_it_is_in_a_narrow_window() {
    let all =
        page_of_all([&serde_json::from_str(RESULT).unwrap(), &comparison(), &bench(), &search()]);
    let html = check(&all);
    let text = |element: &ElementRef<'_>| element.text().collect::<String>();
    let heads: Vec<_> = select(&html, "#findings2 thead th").iter().map(text).collect();
    assert_eq!(
        heads,
        ["metric", "verdict", "difference", "interval", "p", "less0more", "old", "new"]
    );
    let cells: Vec<_> = select(&html, "#findings2 tbody td[data-of]")
        .iter()
        .map(|cell| cell.attr("data-of").unwrap().to_owned())
        .collect();
    assert_eq!(cells, ["verdict", "difference", "interval", "p", "old", "new"]);
}

/// Replaces every text but those that a file's layout prescribes.
fn poison(value: &mut Value, with: &str) {
    const KEPT: [&str; 4] = ["kind", "loop", "verdict", "scale"];
    match value {
        Value::String(text) => with.clone_into(text),
        Value::Array(values) => values.iter_mut().for_each(|value| poison(value, with)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if !KEPT.contains(&name.as_str()) || value.is_object() {
                    poison(value, with);
                }
            }
            for name in ["rcodes", "sysctls", "response_ns"] {
                if let Some(Value::Object(map)) = fields.get_mut(name) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(k, v)| (format!("{with}{k}"), v))
                        .collect();
                }
            }
        }
        _ => {}
    }
}

#[test]
fn a_hostile_file_brings_no_script_and_no_element() {
    let attacks = [
        "<script>alert(1)</script>",
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onfocus='alert(1)' x='",
        "</style><link rel=stylesheet href=http://192.0.2.1/x>",
        "<!--",
        "]]><svg onload=alert(1)>",
        "\u{0}\u{2028}&lt;b&gt;",
    ];
    let documents: [Value; 4] =
        [serde_json::from_str(RESULT).unwrap(), comparison(), bench(), search()];
    let elements = |page: &str| {
        let html = Html::parse_document(page);
        select(&html, "*")
            .iter()
            .map(|element| element.value().name().to_owned())
            .collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    for attack in attacks {
        let mut poisoned = documents.clone();
        poisoned.iter_mut().for_each(|value| poison(value, attack));
        let page = page_of_all(poisoned.each_ref());
        // The parser says that a NUL is an error; a browser shows a replacement for it.
        if !attack.contains('\0') {
            check(&page);
        }
        assert!(!page.contains("<script>alert") && !page.contains("<img"));
        seen.insert(elements(&page));
    }
    assert_eq!(seen.len(), 1, "the elements of a page depend on no text");
}

/// Ten minutes of a server with a long tail and some loss.
fn ten_minutes() -> ResultFile {
    let mut result = result();
    let mut random = 1_u64;
    result.seconds = (0..600)
        .map(|second| {
            let mut response = Histogram::new();
            for _ in 0..2_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let part = (random >> 11) as f64 / (1_u64 << 53) as f64;
                response.record((30_000.0 / part.max(1e-4)) as u64);
            }
            response.record_censored(2_000_000_000);
            let rcodes =
                [("NOERROR", 1_500), ("NXDOMAIN", 500)].map(|(k, v)| (k.to_owned(), v)).into();
            Second {
                second,
                is_final: true,
                sent: 2_001,
                answered: 2_000,
                lost: 1,
                timed_out: 1,
                rcodes,
                response,
                ..Second::default()
            }
        })
        .collect();
    result
}

#[test]
fn the_page_of_ten_minutes_stays_small() {
    let page = page(&[load("long", ten_minutes())], None);
    assert!(page.len() < 1_500_000, "{}", page.len());
    check(&page);
}

#[test]
fn longer_runs_have_columns_of_several_seconds() {
    let mut result = ten_minutes();
    result.seconds =
        (0..3_601).map(|second| Second { second, is_final: true, ..Second::default() }).collect();
    (result.plan.duration_ns, result.run.active_ns) = (3_601_000_000_000, 3_601_000_000_000);
    let html = check(&page(&[load("long", result)], None));
    let rows = select(&html, "#time0 tbody th");
    assert_eq!(rows.len(), 3_601_usize.div_ceil(7));
    assert_eq!(rows[1].text().collect::<String>(), "7–13 s");
    assert_eq!(rows.last().unwrap().text().collect::<String>(), "3598–3600 s");
}

#[test]
fn a_result_of_nothing_is_a_page_without_numbers_that_are_none() {
    let mut nothing = result();
    nothing.counts = lab_result::Counts::default();
    for histogram in
        [&mut nothing.response, &mut nothing.service, &mut nothing.lateness, &mut nothing.late]
    {
        *histogram = Histogram::new();
    }
    nothing.seconds = vec![Second::default()];
    nothing.baseline = None;
    nothing.run = lab_result::Run::default();
    for seconds in [nothing.seconds.clone(), Vec::new()] {
        let page = page(&[load("nothing", ResultFile { seconds, ..nothing.clone() })], None);
        let html = check(&page);
        let text: String = select(&html, "main")[0].text().collect();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(text.contains("No query was sent"));
    }
    check(&page(&[], Some("<nothing>")));
}

#[test]
fn only_lost_queries_are_a_page_too() {
    let mut dead = result();
    dead.response = Histogram::new();
    dead.seconds.truncate(1);
    for _ in 0..1_000 {
        dead.response.record_censored(600_000_000);
    }
    dead.seconds[0].response = dead.response.clone();
    dead.counts.answered = 0;
    dead.counts.sent = 1_000;
    dead.counts.timed_out = 1_000;
    let html = check(&page(&[load("dead", dead)], None));
    let text: String = select(&html, ".sentence")[0].text().collect();
    assert!(text.contains("got no answer") && text.contains("1,000 timed out"), "{text}");
}

#[test]
fn a_scenario_has_every_number_and_bars_of_those_that_there_are() {
    let file = json!({
        "kind": "authority", "schema": 1, "scenario": "catalog-start", "title": "Start <b>",
        "about": ["a machine"],
        "columns": [
            { "id": "network", "name": "from network", "unit": "seconds" },
            { "id": "lost", "name": "lost", "unit": "count" },
        ],
        "rows": [
            { "server": "nodens", "values": [3.25, 0.0] },
            { "server": "nsd", "values": [null, 0.0] },
        ],
    });
    let document = Document::Scenario(serde_json::from_value(file.clone()).unwrap());
    let html = check(&page(&[Source { name: "s".into(), document }], None));
    let texts = |selector: &str| -> Vec<String> {
        select(&html, selector).iter().map(|it| it.text().collect()).collect()
    };
    assert_eq!(texts("section#scenario0 td"), ["3.25 s", "0", "–", "0"]);
    // None lost, so there is nothing to draw.
    assert_eq!(texts("section#scenario0 .bars-name"), ["from network"]);
    assert_eq!(texts("section#scenario0 h2"), ["Start <b>"]);
    assert_eq!(texts("section#scenario0 .setting li"), ["a machine"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let read = lab_report::read(&path).unwrap();
    assert!(matches!(read.document, Document::Scenario(_)));
}

#[test]
fn files_are_told_apart_and_broken_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        lab_report::read(&path)
    };
    assert!(matches!(read("r.json", RESULT).unwrap().document, Document::Load(_)));
    let comparison = comparison().to_string();
    assert!(matches!(read("c.json", &comparison).unwrap().document, Document::Comparison(_)));
    let search = search().to_string();
    assert!(matches!(read("s.json", &search).unwrap().document, Document::Search(_)));
    assert!(matches!(read("b.json", &bench().to_string()).unwrap().document, Document::Bench(_)));
    let broken = [("x.json", "hello"), ("y.json", "{\"kind\":\"bench\"}"), ("z.json", "")];
    for (name, text) in broken {
        let error = read(name, text).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(lab_report::read(&folder.path().join("missing.json")).is_err());
}

#[test]
fn a_search_says_what_was_not_met_and_what_does_not_count_and_marks_bounds() {
    let page_of = |change: &dyn Fn(&mut Value)| {
        let mut file = search();
        file["floor"] = json!(100.0);
        change(&mut file);
        let document = Document::Search(serde_json::from_value(file).unwrap());
        page(&[Source { name: "s".into(), document }], None)
    };
    let verdict = |page: &str| {
        let html = check(page);
        let of = |selector| select(&html, selector).first().map(|it| it.text().collect::<String>());
        let class = select(&html, ".verdict")[0].value().attr("class").unwrap().to_owned();
        (class, of(".verdict .badge").unwrap(), of(".verdict p").unwrap())
    };
    let none = page_of(&|file| (file["median"], file["range"]) = (json!(0.0), json!([0.0, 0.0])));
    let (class, badge, text) = verdict(&none);
    assert_eq!((&*class, &*badge), ("verdict open", "NOT MET"));
    assert!(text.contains("does not meet") && text.contains("100/s"), "{text}");
    let unknown = page_of(&|file| {
        (file["median"], file["range"]) = (json!(0.0), json!([0.0, 0.0]));
        file["limited_by"] = json!("generator");
    });
    let (class, badge, _) = verdict(&unknown);
    assert_eq!((&*class, &*badge), ("verdict invalid", "INVALID"));
    let short = page_of(&|file| {
        (file["median"], file["range"]) = (json!(0.0), json!([0.0, 0.0]));
        file["limited_by"] = json!("probes");
    });
    let (class, badge, text) = verdict(&short);
    assert_eq!((&*class, &*badge), ("verdict invalid", "INVALID"));
    assert!(text.contains("is not known: all"), "{text}");
    let some = page_of(&|file| {
        let search = file["searches"][0].clone();
        file["searches"] = json!([search, search, search]);
        file["counted"] = json!(2);
        file["probes"][1]["at_least"] = json!(["p99"]);
    });
    let (class, _, text) = verdict(&some);
    assert_eq!(class, "verdict valid");
    assert!(text.contains("in 2 of 3 searches; the generator stopped the others"), "{text}");
    let holes = |page: &str| select(&Html::parse_document(page), "path.hole[d*=M]").len();
    assert_eq!((holes(&some), holes(&page_of(&|_| {}))), (1, 0));
}

#[test]
fn an_analysis_has_its_findings_values_and_what_weakens_them_as_text() {
    let hostile = "<script>alert(1)</script>";
    let contrast = |shown: &str, interval: Value| {
        json!({
            "group": "new", "with": hostile, "test": "Mann–Whitney test", "values": [6, 6],
            "estimate": 0.05, "interval": interval, "p": 0.004, "p_exact": true, "p_adjusted": 0.008,
            "shown": shown, "because": "",
        })
    };
    let sample = |group: &str| {
        json!({
            "group": group, "values": [281.0, 284.0, 286.0], "bounds": 0, "mean": 283.7, "deviation": 2.0,
            "five": [281.0, 282.5, 284.0, 285.0, 286.0], "median_interval": [281.0, 286.0], "changes": 3,
        })
    };
    let response = serde_json::from_str::<Value>(RESULT).unwrap()["response"].clone();
    let group = |name: &str| json!({ "name": name, "trials": [], "response": response });
    let metric = |name: &str, scale: &str| {
        json!({
            "name": name, "unit": "m", "better": "lower", "scale": scale, "margin": 0.02,
            "samples": [sample(hostile), sample("new")], "notes": ["its buckets are wide"],
            "contrasts": [contrast("lower", json!([0.01, 0.09])), contrast("unjudged", Value::Null)],
            "families": [{ "test": "Kruskal–Wallis", "statistic": 7.1, "p": 0.02, "pairs": [],
                "assumes": [{ "what": "independent values", "refuted": true, "by": "neighbours" }] },
                { "test": "Tukey", "assumes": [], "pairs": [
                    { "group": "new", "with": hostile, "difference": 3.0, "p": 0.1, "interval": [1.0, 5.0] }] }],
        })
    };
    let file = json!({
        "kind": "analysis", "schema": lab_result::analysis::SCHEMA,
        "generator": { "name": "nodens-lab", "version": "0" },
        "settings": { "alpha": 0.05, "unit": "part", "paired": false, "once": true, "seed": 1 },
        "sources": [{ "path": hostile, "format": "table", "sha256": "00", "trials": 6 }],
        "assumptions": [hostile], "warnings": ["one run each"],
        "groups": [group(hostile), group("new")],
        "metrics": [metric("cpu", "ratio"), metric("loss", "difference")],
        "loops": [{ "group": "new", "place": "t:4", "window": 100.0, "rate": 26706.0, "loss": 0.0,
            "timeout_ns": 5e9, "predicted_ns": 3.74e6, "mean_ns": 3e6, "precision_ns": 1e6, "explained": true }],
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let source = lab_report::read(&path).unwrap();
    let page = page(&[source], None);
    let html = check(&page);
    let titles: Vec<String> = select(&html, "h2").iter().map(|h2| h2.text().collect()).collect();
    assert_eq!(
        titles,
        [
            "Groups compared",
            "Every value",
            "Latency",
            "Closed loops",
            "As papers test it",
            "Files and what was taken for true",
        ]
    );
    let said: String = html.root_element().text().collect();
    for text in ["one run each", "not judged", "REFUTED", "3.74 ms", "281 m", hostile] {
        assert!(said.contains(text), "{text}");
    }
}
