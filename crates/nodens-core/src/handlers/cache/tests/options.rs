//! What the options mean, and what is no option.

use super::*;

/// The TTLs of a success of 1000 s and a denial of 1000 s.
fn lifetimes(cache: &str) -> (u32, u32) {
    let script = |q: &Message| match q.questions[0].qtype {
        Type::A => reply(q, Rcode::NOERROR).a(1000, 1).send(),
        _ => reply(q, Rcode::NXDOMAIN).soa(1000).send(),
    };
    let mut bench = bench(cache, script);
    let (success, denial) = (bench.ask("www.example. A"), bench.ask("www.example. AAAA"));
    (ttls(&success)[0], ttls(&denial)[0])
}

#[test]
fn lifetimes_have_bounds() {
    assert_eq!(lifetimes("cache"), (1000, 1000));
    assert_eq!(lifetimes("cache 30"), (30, 30));
    assert_eq!(lifetimes("cache 30 {\n success 5000\n denial 5000 10\n }"), (30, 10));
    assert_eq!(lifetimes("cache {\n success 5000 3000 2000\n denial 1 10 20\n }"), (2000, 10));
    assert_eq!(lifetimes("cache 30 other.example"), (1000, 1000));
}

#[test]
fn without_a_least_lifetime_a_ttl_of_zero_is_not_kept() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(0, 1).send();
    let mut bench = bench("cache {\n success 5000 3600 0\n }", script);
    assert_eq!(first(&bench.ask("www.example. A")), (1, 0));
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 2);
}

#[test]
fn only_the_zones_named_are_cached() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(600, 1).send();
    let mut bench = bench("cache 60 a.example 192.0.2.0/24", script);
    let mut kept = |name: &str| {
        let before = bench.asked;
        bench.ask(name);
        bench.ask(name);
        bench.asked == before + 1
    };
    assert!(kept("a.example. A") && kept("x.A.example. A"));
    assert!(kept("1.2.0.192.in-addr.arpa. A"));
    assert!(!kept("xa.example. A") && !kept("example. A"));
    assert_eq!(metric(&bench, "coredns_cache_requests_total", "zones=\"a.example.,2.0.192"), 6.0);
}

#[test]
fn one_class_can_be_disabled_for_some_zones() {
    let script = |q: &Message| match q.questions[0].qtype {
        Type::A => reply(q, Rcode::NOERROR).a(60, 1).send(),
        _ => reply(q, Rcode::NXDOMAIN).soa(60).send(),
    };
    let options = "cache {\n disable denial a.example\n disable success b.example\n }";
    let mut bench = bench(options, script);
    let mut kept = |question: &str| {
        let before = bench.asked;
        bench.ask(question);
        bench.ask(question);
        bench.asked == before + 1
    };
    assert!(kept("x.a.example. A") && !kept("x.a.example. AAAA"));
    assert!(!kept("x.b.example. A") && kept("x.b.example. AAAA"));
    assert!(kept("c.example. A") && kept("c.example. AAAA"));
}

#[test]
fn keepttl_stops_the_count_but_not_the_expiry() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(60, 1).send();
    let mut bench = bench("cache {\n keepttl\n }", script);
    bench.ask("www.example. A");
    bench.pass(59 * SECOND);
    assert_eq!(first(&bench.ask("www.example. A")), (1, 60));
    bench.pass(SECOND);
    bench.ask("www.example. A");
    assert_eq!(bench.asked, 2);
}

#[test]
fn failures_are_kept_as_long_as_servfail_says() {
    let asked = |option: &str, pause| {
        let script = |q: &Message| reply(q, Rcode::SERVFAIL).send();
        let mut bench = bench(&format!("cache {{\n servfail {option}\n }}"), script);
        bench.ask("www.example. A");
        bench.pass(pause);
        bench.ask("www.example. A");
        bench.asked
    };
    assert_eq!(asked("0", Duration::ZERO), 2);
    assert_eq!(asked("1m", 59 * SECOND), 1);
    assert_eq!(asked("1m", 60 * SECOND), 2);
}

#[test]
fn the_largest_memory_counts_and_a_reload_takes_it_back() {
    let mut bench = Bench::new(
        "a {\n cache {\n memory 2MiB\n }\n whoami\n}\nb {\n cache {\n memory 3145728\n }\n whoami\n}",
    );
    assert_eq!(bench.shared.cache.budget(), 3 << 20);
    bench.reload("a {\n cache\n whoami\n}").unwrap();
    assert_eq!(bench.shared.cache.budget(), crate::limits::CACHE_MEMORY_DEFAULT);
}

#[test]
fn entries_are_counted_by_class() {
    let script = |q: &Message| match q.questions[0].qtype {
        Type::A => reply(q, Rcode::NOERROR).a(60, 1).send(),
        _ => reply(q, Rcode::NXDOMAIN).soa(60).send(),
    };
    let mut bench = bench("cache {\n success 1\n denial 1\n }", script);
    for n in 0..1500 {
        bench.ask(&format!("n{n}.example. A"));
        bench.ask(&format!("n{n}.example. AAAA"));
    }
    for class in ["type=\"success\"", "type=\"denial\""] {
        assert_eq!(metric(&bench, "coredns_cache_entries", class), 1024.0);
        assert_eq!(metric(&bench, "coredns_cache_evictions_total", class), 476.0);
    }
    assert_eq!(metric(&bench, "coredns_cache_misses_total", "server=\"dns://:53\""), 3000.0);
}

#[test]
fn a_configuration_that_is_not_taken_up_is_not_seen_in_metrics() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(60, 1).send();
    let mut bench = bench("cache", script);
    bench.ask("www.example. A");
    let entries = |bench: &Bench| metric(bench, "coredns_cache_entries", "type=\"success\"");
    assert_eq!(entries(&bench), 1.0);
    let text = ".:53 {\n cache 77\n forward . 192.0.2.9\n}";
    let tree = nodens_corefile::parse("Corefile", text, &nodens_corefile::NoSources).unwrap();
    drop(crate::config::build(&tree, &Default::default(), &bench.shared).unwrap());
    assert_eq!(entries(&bench), 1.0);
}

#[test]
fn everything_coredns_accepts_is_accepted() {
    for body in [
        "success 9984 30",
        "success -1 +30 0 ignored",
        "denial 9984 5",
        "prefetch 0",
        "prefetch 10 1m 90%",
        "serve_stale",
        "serve_stale 0",
        "serve_stale 1h IMMEDIATE 30s 5m",
        "serve_stale 1h verify 0 30s 30s",
        "serve_stale 1h verify 100ms\n serve_stale_policy PREFER_POSITIVE",
        "servfail 5m",
        "disable success\n disable denial a.example b.example",
    ] {
        let corefile = format!(". {{\n cache 3600 . {{\n {body}\n }}\n whoami\n}}");
        assert!(Bench::try_new(&corefile).is_ok(), "{body}: {:?}", Bench::try_new(&corefile).err());
    }
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    for (body, error) in [
        ("success", "3:2: Wrong argument count after 'success': expected 1 or more, found 0"),
        ("success many", "3:10: expected a number of entries, found `many`"),
        ("success 1 0", "3:12: expected a number from 1 to 4294967295, found `0`"),
        ("denial 1 1 -1", "3:13: expected a number from 0"),
        ("prefetch", "3:2: Wrong argument count"),
        ("prefetch -1", "3:11: expected a number from 0"),
        ("prefetch 1 1m 9%", "3:16: expected a percentage from 10% to 90%, found `9%`"),
        ("prefetch 1 1m 10", "3:16: expected a percentage"),
        ("serve_stale -1s", "3:14: expected a duration"),
        ("serve_stale 1h now", "3:17: expected immediate or verify, found `now`"),
        ("serve_stale 1h immediate 1500ms", "3:27: expected a TTL in whole seconds"),
        ("serve_stale 1h immediate 1s 6m", "3:30: expected a duration from 0s to 5m0s"),
        ("serve_stale 1h immediate 1s 1s 1s", "3:33: expected the end of the line"),
        ("serve_stale_policy prefer_positive", "serve_stale_policy requires serve_stale"),
        ("serve_stale_policy never", "3:21: expected prefer_positive, found `never`"),
        ("servfail 6m", "3:11: expected a duration from 0s to 5m0s, found `6m`"),
        ("disable", "3:2: Wrong argument count"),
        ("disable all", "3:10: expected success or denial, found `all`"),
        ("keepttl now", "3:10: Wrong argument count"),
        ("memory 1KiB", "3:9: expected a size from 1MiB to 16GiB such as 64MiB, found `1KiB`"),
        ("client_subnet keep", "3:16: expected strip or forward, found `keep`"),
        ("prefetc 1", "3:2: unknown property 'prefetc', did you mean 'prefetch'?"),
    ] {
        let corefile = format!(".:53 {{\n cache {{\n {body}\n }}\n whoami\n}}");
        let found = Bench::try_new(&corefile).unwrap_err().to_string();
        assert!(found.contains(error), "{body}: {found}");
    }
    let zero = Bench::try_new(". {\n cache 0\n whoami\n}").unwrap_err().to_string();
    assert!(zero.starts_with("Corefile:2:8: expected a number from 1"), "{zero}");
    let twice = Bench::try_new(". {\n cache\n cache\n whoami\n}").unwrap_err().to_string();
    assert!(twice.contains("only be used once per Server Block"), "{twice}");
}
