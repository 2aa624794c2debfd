use crate::config::Timeouts;
use crate::testing::Bench;
use std::num::NonZeroU32;
use std::time::Duration;

fn timeouts(lines: &str) -> Timeouts {
    let bench = Bench::new(&format!(". {{\n timeouts {{\n {lines}\n }}\n whoami\n}}"));
    bench.worker.config().servers[0].timeouts
}

#[test]
fn each_limit_is_set_alone_and_a_bare_number_is_in_seconds() {
    let expected = Timeouts { read: Duration::from_secs(90), ..Timeouts::default() };
    assert_eq!(timeouts("read 1m30s"), expected);
    let all = timeouts("read 1s\n write 24h\n idle 20\n maxtcpqueries 100");
    assert_eq!(all.write, Duration::from_secs(86_400));
    assert_eq!(all.idle, Duration::from_secs(20));
    assert_eq!(all.queries_max, NonZeroU32::new(100));
    assert_eq!(timeouts("maxtcpqueries -1").queries_max, None);
    assert_eq!(timeouts("maxtcpqueries 5000000000").queries_max, None);
    assert_eq!(timeouts("read 1s\n }\n timeouts {\n read 2s").read, Duration::from_secs(2));
}

#[test]
fn of_several_blocks_the_last_that_sets_a_limit_counts() {
    let bench = Bench::new(
        "a.test {\n timeouts {\n read 7s\n idle 8s\n maxtcpqueries 9\n }\n whoami\n}\n\
         b.test {\n timeouts {\n idle 20s\n maxtcpqueries -1\n }\n whoami\n}\n\
         c.test {\n whoami\n}\n\
         d.test:1053 {\n whoami\n}",
    );
    let servers = &bench.worker.config().servers;
    let (read, idle) = (Duration::from_secs(7), Duration::from_secs(20));
    assert_eq!(servers[0].timeouts, Timeouts { read, idle, ..Timeouts::default() });
    assert_eq!(servers[1].timeouts, Timeouts::default());
}

#[test]
fn what_is_out_of_range_is_refused() {
    let cases = [
        ("timeouts", "2:2: timeouts block with no timeouts specified"),
        ("timeouts {\n }", "2:2: timeouts block with no timeouts specified"),
        ("timeouts 5s {\n read 5s\n }", "2:11: Wrong argument count"),
        ("timeouts {\n read\n }", "3:2: Wrong argument count after 'read': expected 1"),
        ("timeouts {\n read 1s 2s\n }", "3:10: Wrong argument count"),
        ("timeouts {\n read soon\n }", "3:7: expected a duration from 1s to 24h, found `soon`"),
        ("timeouts {\n read 999ms\n }", "3:7: expected a duration from 1s to 24h"),
        ("timeouts {\n idle 24h1s\n }", "3:7: expected a duration from 1s to 24h"),
        ("timeouts {\n idle 0\n }", "3:7: expected a duration from 1s to 24h"),
        ("timeouts {\n idel 5s\n }", "3:2: unknown property 'idel', did you mean 'idle'?"),
        ("timeouts {\n maxtcpqueries 0\n }", "3:16: expected -1 (unlimited) or a positive number"),
        ("timeouts {\n maxtcpqueries -2\n }", "expected -1 (unlimited) or a positive number"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
