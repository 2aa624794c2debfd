//! What the lab promises, seen from outside.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn an_interrupt_leaves_a_result_that_adds_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-p", &port, "-Q", "500", "-l", "600", "-t", "60", "--clients", "8"])
        .args(["--no-version", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..100 {
        silent.recv(&mut [0; 512]).unwrap();
    }
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let result = super::load::json(&child.wait_with_output().unwrap());
    assert!(result.run.interrupted);
    let c = result.counts;
    assert!(c.interrupted >= 100, "{c:?}");
    assert_eq!(c.scheduled, c.sent + c.skipped + c.send_errors);
    assert_eq!(c.sent, c.answered + c.lost() + c.interrupted);
    assert!(result.seconds.iter().all(|second| !second.is_final));
    assert!(result.verdict.invalid_because.iter().all(|why| !why.contains("fault")), "{c:?}");
}

#[test]
fn a_baseline_is_kept_beside_the_numbers_and_not_subtracted() {
    let echo = super::Echo::start();
    let arguments = ["load", "-p", &echo.port, "-Q", "200", "-l", "0.5", "--no-version", "--json"];
    let result = super::load::json(&super::lab(&[&arguments[..], &["--baseline"]].concat()));
    let runs = result.baseline.unwrap().runs;
    let names: Vec<_> = runs.iter().map(|run| &*run.when).collect();
    assert_eq!(names, ["before", "after", "headroom"]);
    for run in &runs {
        assert!(run.sent > 0 && run.response.recorded() + run.lost == run.sent, "{run:?}");
    }
    // The load was on an echo, too: it is not faster by what an echo takes.
    assert!(result.response.min().unwrap() > 0);
    let text = result.verdict.notes.join("; ");
    assert!(text.contains("do not subtract one from the other"), "{text}");
}
