//! `nodens-lab ab` on servers whose counters tell of a restart.

use crate::{Echo, lab};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// A page of metrics. Each time it is asked it is of a process with more CPU time; with `restarts` it is another
/// one.
fn metrics(restarts: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let started = if restarts { count } else { 0 };
            write!(
                stream,
                "HTTP/1.1 200 OK\r\n\r\nprocess_cpu_seconds_total {count}\n\
                 process_start_time_seconds {started}\n"
            )
            .unwrap();
        }
    });
    url
}

#[test]
fn a_server_that_was_restarted_has_no_cpu_time_and_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (echo, out) = (Echo::start(), folder.path().to_str().unwrap());
    let address = format!("127.0.0.1:{}", echo.port);
    let (a, b) = (metrics(false), metrics(true));
    let mut all = vec!["ab", "--out", out, "--a", &address, "--b", &address, "--no-html"];
    all.extend(["--a-prometheus", &a, "--b-prometheus", &b, "--noise-pairs", "0"]);
    all.extend(["--rates", "500", "--block", "100ms", "--warm-up", "0s", "--pairs", "6"]);
    all.extend(["--retries", "0"]);
    let output = lab(&all);
    let text = std::fs::read_to_string(folder.path().join("result.json"));
    let result: Value =
        serde_json::from_str(&text.unwrap_or_else(|_| panic!("{output:?}"))).unwrap();
    let blocks = result["blocks"].as_array().unwrap();
    for block in blocks {
        let is_counted = block["side"] == "a";
        assert_eq!(block["cpu_ns"].is_u64(), is_counted, "{block}");
    }
    let told = |block: &&Value| block["faults"].to_string().contains("the server was restarted");
    let loaded = |side: &str| {
        let mine = |block: &&Value| block["side"] == side && block["load"] != "idle";
        blocks.iter().filter(mine).filter(told).count()
    };
    assert_eq!(loaded("b"), 6, "{blocks:?}");
    // Half of all blocks are disturbed: that is too many, whatever else disturbed them.
    assert_ne!(result["invalid_because"].to_string(), "[]", "{result}");
}
