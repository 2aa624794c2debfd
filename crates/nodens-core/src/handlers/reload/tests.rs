use crate::config::ReloadService;
use crate::testing::Bench;
use std::time::Duration;

fn service(line: &str) -> Option<ReloadService> {
    let bench = Bench::new(&format!(". {{\n {line}\n whoami\n}}"));
    bench.worker.config().services.reload
}

fn seconds(interval: u64, jitter: u64) -> Option<ReloadService> {
    let (interval, jitter) = (Duration::from_secs(interval), Duration::from_secs(jitter));
    Some(ReloadService { interval, jitter })
}

#[test]
fn interval_and_jitter_have_defaults_and_jitter_is_at_most_half() {
    assert_eq!(service("whoami"), None);
    assert_eq!(service("reload"), seconds(30, 15));
    assert_eq!(service("reload 10s"), seconds(10, 5));
    assert_eq!(service("reload 2m 20s"), seconds(120, 20));
    assert_eq!(service("reload 2m 0"), seconds(120, 0));
    assert_eq!(service("reload 2s 1h"), seconds(2, 1));
}

#[test]
fn short_times_are_refused() {
    let cases = [
        ("reload 1s", "2:9: expected a duration of 2s or more, found `1s`"),
        ("reload 0", "2:9: expected a duration of 2s or more"),
        ("reload off", "2:9: expected a duration of 2s or more"),
        ("reload 10", "2:9: expected a duration of 2s or more"),
        ("reload 10s 500ms", "2:13: expected a duration: 0, or 1s or more, found `500ms`"),
        ("reload 10s x", "2:13: expected a duration: 0, or 1s or more"),
        ("reload 10s 1s 1s", "2:16: Wrong argument count"),
        ("reload 10s {\n now\n }", "3:2: unknown property 'now'"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
