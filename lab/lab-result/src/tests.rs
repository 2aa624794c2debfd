use super::*;
use lab_histogram::Histogram;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TIMEOUT: u64 = 2 * SECOND;

/// Three seconds of 400 queries each, with a slow tail and a timeout in every second; all
/// numbers add up as those of a run do.
pub(crate) fn example() -> ResultFile {
    let mut all = Sums::default();
    let seconds: Vec<_> = (0..3).map(|second| all.second(second)).collect();
    let counts = Counts {
        scheduled: 1_200,
        sent: 1_200,
        answered: 1_197,
        timed_out: 3,
        received: 1_198,
        late: 1,
        answer_octets: 1_197 * 60,
        question_octets: 1_200 * 30,
        ..Counts::default()
    };
    let mut late = Histogram::new();
    late.record(TIMEOUT + 1_000);
    let mut lateness = Histogram::new();
    lateness.record_n(900, 1_200);
    let group = |name: &str, response: &Histogram| {
        let (answered, lost) = (response.recorded(), response.censored());
        Group {
            name: name.into(),
            sent: answered + lost,
            answered,
            lost,
            response: response.clone(),
        }
    };
    let [a, aaaa] = &all.by_qtype;
    let [noerror, nxdomain] = &all.by_rcode;
    ResultFile {
        schema: SCHEMA,
        generator: Generator { name: "nodens-lab".into(), version: "0.1.0".into() },
        provenance: provenance(),
        plan: plan(),
        run: Run {
            started_unix_ns: 1_800_000_000_000_000_000,
            finished_unix_ns: 1_800_000_005_000_000_000,
            active_ns: 3 * SECOND,
            elapsed_ns: 5 * SECOND,
            interrupted: false,
            clock: None,
        },
        verdict: Verdict {
            valid: true,
            invalid_because: vec![],
            only_late: false,
            notes: vec!["an example".into()],
        },
        counts,
        rcodes: all.rcodes.clone(),
        response: all.response.clone(),
        service: all.response.clone(),
        lateness,
        late,
        connect: Histogram::new(),
        connections: None,
        connection_fates: None,
        by_qtype: vec![group("A", a), group("AAAA", aaaa)],
        by_rcode: vec![group("NOERROR", noerror), group("NXDOMAIN", nxdomain)],
        by_transport: vec![],
        seconds,
        rate: Rate { step_ns: SECOND / 10, steps: vec![[40, 40]; 30] },
        threads: vec![Thread {
            cpu_ns: SECOND / 5,
            waited_ns: 0,
            wall_ns: 5 * SECOND,
            ..Thread::default()
        }],
        baseline: None,
        requirements: Vec::new(),
        server_cost: None,
        workers: Vec::new(),
    }
}

#[derive(Default)]
struct Sums {
    response: Histogram,
    by_qtype: [Histogram; 2],
    by_rcode: [Histogram; 2],
    rcodes: BTreeMap<String, u64>,
}

impl Sums {
    fn second(&mut self, second: u64) -> Second {
        let mut into = Second {
            second,
            is_final: true,
            sent: 400,
            answered: 399,
            lost: 1,
            timed_out: 1,
            ..Second::default()
        };
        for n in 0..400_u64 {
            let qtype = (n % 2) as usize;
            if n == 200 {
                into.response.record_censored(TIMEOUT);
                self.response.record_censored(TIMEOUT);
                self.by_qtype[qtype].record_censored(TIMEOUT);
                continue;
            }
            // A tenth takes ten times as long, a hundredth a hundred times.
            let slow = if n % 100 == 7 {
                100
            } else if n % 10 == 3 {
                10
            } else {
                1
            };
            let took = (40_000 + 113 * n + 1_000 * second) * slow;
            let (rcode, name) = if n % 5 == 1 { (1, "NXDOMAIN") } else { (0, "NOERROR") };
            into.response.record(took);
            self.response.record(took);
            self.by_qtype[qtype].record(took);
            self.by_rcode[rcode].record(took);
            *into.rcodes.entry(name.into()).or_default() += 1;
            *self.rcodes.entry(name.into()).or_default() += 1;
        }
        into
    }
}

fn provenance() -> Provenance {
    Provenance {
        argv: ["nodens-lab", "load", "-s", "192.0.2.1", "-Q", "400", "-l", "3"]
            .map(String::from)
            .into(),
        host: Host {
            kernel: "Linux 6.12.0 #1 SMP".into(),
            cpu_model: Some("Example CPU @ 3.00GHz".into()),
            cpus_online: 4,
            cpus_allowed: "0-3".into(),
            cpu_quota: Some(2.5),
            governors: vec!["performance".into()],
            clocksource: Some("tsc".into()),
            virtualisation: Some("none".into()),
            steal: Some(0.0),
            busy: Some(0.25),
            memory: Some(16 << 30),
        },
        route: Some(Route {
            device: "eth0".into(),
            source: "192.0.2.9".into(),
            mtu: Some(1500),
            driver: Some("virtio_net".into()),
            speed: Some(10_000),
            local: false,
        }),
        sysctls: [("net.core.rmem_max".to_owned(), "212992".to_owned())].into(),
        server_version: Some("example 1.0".into()),
    }
}

fn plan() -> Plan {
    Plan {
        hash: "0123456789abcdef".into(),
        seed: 1,
        server: "192.0.2.1:53".into(),
        pace: Pace::Open { rate: 400.0, arrivals: "uniform".into(), profile: None },
        workload: Workload { source: "an example".into(), questions: Some(400), period: Some(400) },
        transports: vec![Share {
            transport: "udp".into(),
            share: 1.0,
            server: Some("192.0.2.1:53".into()),
        }],
        duration_ns: 3 * SECOND,
        warm_up_ns: 0,
        queries: None,
        timeout_ns: TIMEOUT,
        clients: 32,
        threads: 1,
        cpus: vec![],
        idle: "auto".into(),
        stamps: Some("user".into()),
        sources: vec![],
        local_port: None,
        connecting: None,
        worker: None,
    }
}

#[test]
fn a_plan_without_what_was_added_later_is_read() {
    let mut result = example();
    let connecting =
        Connecting { connect_first: true, life: "persistent".into(), ..Connecting::default() };
    result.plan.connecting = Some(connecting.clone());
    let text = to_json(&result);
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let back = from_json(Path::new("r.json"), text.as_bytes()).unwrap();
    assert_eq!(back.plan.connecting, Some(connecting));
    let plan = value["plan"].as_object_mut().unwrap();
    assert!(plan.remove("connecting").is_some() && plan.remove("stamps").is_some());
    assert!(plan["transports"][0].as_object_mut().unwrap().remove("server").is_some());
    let older = from_json(Path::new("r.json"), value.to_string().as_bytes()).unwrap();
    assert_eq!((older.plan.connecting, older.plan.stamps), (None, None));
    assert_eq!(older.plan.transports[0].server, None);
}

/// Compares `text` with a file of the repository; `UPDATE_GOLDEN=1` writes it instead.
pub(crate) fn golden(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{file} is not what the code makes; UPDATE_GOLDEN=1 rewrites it");
}

#[test]
fn the_layout_of_the_file_stays_unless_its_version_changes() {
    golden("testdata/small.json", &to_json(&example()));
}

#[test]
fn the_schema_in_the_documentation_is_that_of_the_types() {
    golden("../../docs/result.schema.json", &json_schema());
    golden("../../docs/search.schema.json", &crate::search::json_schema());
    golden("../../docs/comparison.schema.json", &crate::comparison::json_schema());
    golden("../../docs/analysis.schema.json", &crate::analysis::json_schema());
    golden("../../docs/tuning.schema.json", &crate::tuning::json_schema());
}

#[test]
fn what_is_written_is_read_back_and_written_again_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    write(&path, &example()).unwrap();
    let read_back = read(&path).unwrap();
    assert_eq!(read_back, example());
    assert_eq!(to_json(&read_back).as_bytes(), std::fs::read(&path).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

fn error(text: &str) -> String {
    from_json(&PathBuf::from("r.json"), text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_layout_before_is_read_with_its_own_name_for_icmp_refusals() {
    let mut result = example();
    (result.schema, result.counts.refused, result.counts.timed_out) = (2, 1, 2);
    let text = to_json(&result).replace("\"icmp_refused\"", "\"refused\"");
    assert!(!text.contains("icmp"));
    assert_eq!(from_json(&PathBuf::from("r.json"), text.as_bytes()).unwrap(), result);
}

#[test]
fn a_file_that_is_no_result_is_refused_with_the_reason() {
    let text = to_json(&example());
    let cases = [
        (
            String::new(),
            "r.json: not a result of nodens-lab, expected a JSON object with a field `schema`",
        ),
        (
            "{}".into(),
            "r.json: not a result of nodens-lab, expected a JSON object with a field `schema`",
        ),
        (
            "[1, 2]".into(),
            "r.json: not a result of nodens-lab, expected a JSON object with a field `schema`",
        ),
        ("hello".into(), "r.json: line 1, column 1: not JSON: expected value"),
        (
            text.replacen("\"schema\": 4", "\"schema\": 9", 1),
            "r.json: layout 9, expected 4: use the nodens-lab that wrote it (nodens-lab 0.1.0)",
        ),
        (text.replacen("\"seed\": 1", "\"seed\": \"x\"", 1), "field `plan.seed`: invalid type"),
        (
            text.replacen("\"answered\": 399, ", "", 1),
            "field `seconds[0]`: missing field `answered`",
        ),
        (
            text.replacen("\"recorded\": 1197", "\"recorded\": 1196", 1),
            "the buckets add up to 1197",
        ),
        (
            text.replacen("\"scheduled\": 1200", "\"scheduled\": 1300", 1),
            "r.json: field `counts.scheduled` is 1300, but sent, skipped and send_errors say 1200",
        ),
        (text.replacen("\"min\": 40000", "\"min\": 4", 1), "min and max are not in"),
    ];
    for (text, expected) in cases {
        let found = error(&text);
        assert!(found.contains(expected), "{found}\nexpected {expected}");
    }
    assert!(error("{\"schema\": 2}").contains("missing field"));
}

#[test]
fn a_cut_file_is_called_cut_wherever_it_ends() {
    let text = to_json(&example());
    let whole = text.trim_end().len();
    for len in (1..whole).step_by(97).chain([whole - 1]) {
        let found = error(&text[..len]);
        assert!(found.contains("truncated or not completely written"), "{len}: {found}");
    }
}

#[test]
fn a_path_that_cannot_be_written_is_named_and_an_old_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("r.json");
    let found = write(&path, &example()).unwrap_err().to_string();
    assert!(found.starts_with(&format!("cannot write {}: ", path.display())), "{found}");
    if Path::new("/dev/full").exists() {
        let found = write(Path::new("/dev/full"), &example()).unwrap_err().to_string();
        assert!(found.starts_with("cannot write /dev/full: No space left"), "{found}");
    }
}

fn values() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    let value = (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift);
    (prop::collection::vec(value, 0..60), prop::collection::vec(any::<u64>(), 0..5))
}

proptest! {
    #[test]
    fn every_histogram_comes_back_equal((recorded, censored) in values()) {
        let mut histogram = Histogram::new();
        recorded.iter().for_each(|value| histogram.record(*value));
        censored.iter().for_each(|floor| histogram.record_censored(*floor));
        let result = ResultFile { connect: histogram, ..example() };
        let text = to_json(&result);
        let back = from_json(Path::new("r"), text.as_bytes()).unwrap();
        prop_assert_eq!(&back, &result);
        prop_assert_eq!(to_json(&back), text);
    }

    #[test]
    fn no_change_of_an_octet_makes_reading_panic(at in 0_usize..20_000, octet in any::<u8>()) {
        let mut text = to_json(&example()).into_bytes();
        let at = at % text.len();
        text[at] = octet;
        _ = from_json(Path::new("r"), &text);
    }
}

#[test]
fn percentiles_stand_beside_the_buckets_and_those_among_lost_queries_are_named() {
    let mut result = example();
    // These are not the times of its counts.
    result.verdict.valid = false;
    result.response = Histogram::new();
    result.response.record_n(1_000, 98);
    (0..2).for_each(|_| result.response.record_censored(5_000_000));
    let text = to_json(&result);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let response = &value["response"];
    assert_eq!(response["percentiles"]["p50"], result.response.quantile(0.5).nanos().unwrap());
    assert_eq!(response["percentiles"]["p99"], 5_000_000);
    assert_eq!(response["at_least"], serde_json::json!(["p99", "p99.9", "max"]));
    for second in value["seconds"].as_array().unwrap() {
        assert!(second["service"]["percentiles"].is_object() && second["lateness"].is_object());
    }
    // What was written before has neither, and is read.
    let older = text.replacen("\"schema\": 4", "\"schema\": 3", 1);
    let mut older: serde_json::Value = serde_json::from_str(&older).unwrap();
    older["response"].as_object_mut().unwrap().remove("percentiles");
    older["response"].as_object_mut().unwrap().remove("at_least");
    for second in older["seconds"].as_array_mut().unwrap() {
        for field in ["service", "lateness", "connect"] {
            assert!(second.as_object_mut().unwrap().remove(field).is_some());
        }
    }
    let older = from_json(Path::new("r.json"), older.to_string().as_bytes()).unwrap();
    assert_eq!(older.response, result.response);
}
