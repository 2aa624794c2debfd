use super::*;
use proptest::prelude::*;

const SEARCH: [&str; 3] = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local."];

fn resolver(libc: Libc) -> Resolver {
    Resolver { libc, search: SEARCH.map(str::to_owned).to_vec(), ndots: 5 }
}

fn walk(resolver: &Resolver, text: &str, existing: &str) -> Vec<String> {
    let existing: Existing = existing.parse().unwrap();
    resolver.walk(text, |name| existing.find(name)).iter().map(ToString::to_string).collect()
}

#[test]
fn all_walk_the_list_first_for_names_with_few_dots() {
    for libc in [Libc::Glibc, Libc::Musl, Libc::Go] {
        let resolver = resolver(libc);
        assert_eq!(
            walk(&resolver, "www.example.org", "www.example.org"),
            [
                "www.example.org.default.svc.cluster.local.",
                "www.example.org.svc.cluster.local.",
                "www.example.org.cluster.local.",
                "www.example.org.",
            ]
        );
        let web = "web.default.svc.cluster.local";
        assert_eq!(walk(&resolver, "web", web), ["web.default.svc.cluster.local."]);
        assert_eq!(walk(&resolver, "www.example.org.", web), ["www.example.org."]);
        assert_eq!(walk(&resolver, "nowhere", "").len(), 4);
        assert_eq!(walk(&resolver, "", ""), [""; 0]);
    }
}

#[test]
fn enough_dots_go_first_as_they_are_and_musl_stops_there() {
    let asked = |libc| {
        let resolver = Resolver { ndots: 2, ..resolver(libc) };
        walk(&resolver, "a.b.c", "").len()
    };
    assert_eq!([Libc::Glibc, Libc::Musl, Libc::Go].map(asked), [4, 1, 4]);
    let resolver = Resolver { ndots: 40, ..resolver(Libc::Musl) };
    let many = vec!["a"; 17].join(".");
    assert_eq!(walk(&resolver, &many, "").len(), 1, "16 dots are enough whatever ndots says");
}

#[test]
fn only_musl_ends_where_a_name_has_no_data() {
    let asked = |libc| walk(&resolver(libc), "web", "web.svc.cluster.local NODATA").len();
    assert_eq!([Libc::Glibc, Libc::Musl, Libc::Go].map(asked), [4, 2, 4]);
}

#[test]
fn only_musl_ends_where_the_server_fails() {
    let asked = |libc| walk(&resolver(libc), "web", "web.svc.cluster.local SERVFAIL").len();
    assert_eq!([Libc::Glibc, Libc::Musl, Libc::Go].map(asked), [4, 2, 4]);
    // A server that walks the list passes a failure on, and the client goes as far as it would alone.
    let fails = "web.svc.cluster.local SERVFAIL\nweb.cluster.local";
    let all = [Libc::Glibc, Libc::Musl, Libc::Go];
    let asked = all.map(|libc| course(libc, Measure::Autopath, "web", fails));
    assert_eq!(asked, [(3, 2, 0), (2, 2, 0), (3, 2, 0)]);
}

#[test]
fn too_long_candidates_end_the_list_of_glibc_and_are_left_out_by_the_others() {
    let long = vec!["a".repeat(49); 5].join(".");
    let asked = |libc| {
        let search = ["x.y", "too.long.for.this.name", "z"].map(str::to_owned).to_vec();
        walk(&Resolver { search, ..resolver(libc) }, &long, "")
            .iter()
            .map(|name| name.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(asked(Libc::Glibc), [254, 250]);
    assert_eq!(asked(Libc::Musl), [254, 252, 250]);
    assert_eq!(asked(Libc::Go), [254, 252, 250]);
}

#[test]
fn a_search_line_that_musl_cannot_read_is_none() {
    let search: Vec<_> = (0..12).map(|n| format!("{}{n:02}.example", "s".repeat(11))).collect();
    let asked = |libc| walk(&Resolver { search: search.clone(), ..resolver(libc) }, "a", "").len();
    assert_eq!([Libc::Glibc, Libc::Musl, Libc::Go].map(asked), [13, 1, 13]);
}

#[test]
fn lines_about_what_exists_are_read_or_named() {
    let text = "; comment\n*.example.org\n\nweb.example NODATA\na.example\n";
    let existing: Existing = text.parse().unwrap();
    let find = |name: &str| existing.find(&Name::parse(name).unwrap());
    assert_eq!(find("x.y.EXAMPLE.org"), Found::Addresses);
    assert_eq!(find("example.org"), Found::NoName);
    assert_eq!([find("web.example"), find("a.example")], [Found::NoData, Found::Addresses]);
    for (wrong, line) in [("a..b", 1), ("ok\nname MAYBE", 2), ("*.a..b", 1)] {
        let error = wrong.parse::<Existing>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{line}:1: ")), "{error}");
    }
}

#[test]
fn lookups_of_all_clients_are_woven_and_counted() {
    let resolver = resolver(Libc::Glibc);
    let existing: Existing = "web.default.svc.cluster.local".parse().unwrap();
    let style = resolver.style();
    let types = [Type::A, Type::AAAA];
    let weave = Weave { clients: 3, questions: 100, types: &types, style: &style, seed: 1 };
    let mix = weave.mix(|client| {
        let text = if client == 0 { "nowhere" } else { "web" }.to_owned();
        let names = resolver.walk(&text, |name| existing.find(name));
        Lookup { exists: client > 0, text, names }
    });
    let period = mix.workload.period().unwrap();
    assert!((100..106).contains(&period), "{period}");
    let first: Vec<_> =
        (0..8).map(|n| (mix.workload.client(n, 3), mix.workload.name_of(n))).collect();
    assert_eq!(
        first.iter().map(|(client, _)| *client).collect::<Vec<_>>(),
        [0, 0, 1, 1, 2, 2, 0, 0]
    );
    assert_eq!(first[6].1.to_string(), "nowhere.svc.cluster.local.");
    // Walks that are under way at the end are counted whole.
    assert!(mix.questions() >= period && mix.questions() < period + 3 * 8);
    let web = mix.looked.iter().find(|looked| looked.text == "web").unwrap();
    assert!(web.exists && web.questions == 2 * web.lookups);
    let none = weave.mix(|_| Lookup { text: "_".into(), names: vec![], exists: false });
    assert!(none.workload.is_empty());
}

proptest! {
    #[test]
    fn every_walk_ends_and_asks_for_no_name_twice_in_a_row(
        text: String, search: Vec<String>, ndots in 0_usize..20, exists: bool,
    ) {
        for libc in [Libc::Glibc, Libc::Musl, Libc::Go] {
            let resolver = Resolver { libc, search: search.clone(), ndots };
            let found = if exists { Found::Addresses } else { Found::NoName };
            let names = resolver.walk(&text, |_| found);
            prop_assert!(names.len() <= search.len() + 1);
            prop_assert!(!exists || names.len() <= 1);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text: String) {
        _ = text.parse::<Existing>();
    }
}

fn course(libc: Libc, measure: Measure, text: &str, existing: &str) -> (usize, usize, usize) {
    let existing: Existing = existing.parse().unwrap();
    let course = resolver(libc).with(measure, text, |name| existing.find(name));
    (course.asked.len(), course.denied, course.by_server.len())
}

#[test]
fn each_measure_saves_what_it_should() {
    let all = [Libc::Glibc, Libc::Musl, Libc::Go];
    let outside = "www.example.org";
    for (measure, text, existing, expected) in [
        (Measure::AsItIs, outside, outside, (4, 3, 0)),
        (Measure::Ndots(2), outside, outside, (1, 0, 0)),
        (Measure::Ndots(3), outside, outside, (4, 3, 0)),
        (Measure::TrailingDot, outside, outside, (1, 0, 0)),
        (Measure::TrailingDot, "www.example.org.", outside, (1, 0, 0)),
        (Measure::TrailingDot, "db.other", "db.other.svc.cluster.local", (1, 0, 0)),
        (Measure::TrailingDot, "nowhere", "", (1, 1, 0)),
        (Measure::Autopath, outside, outside, (1, 0, 4)),
        (Measure::Autopath, "db.other", "db.other.svc.cluster.local", (1, 0, 2)),
        (Measure::Autopath, "web", "web.default.svc.cluster.local", (1, 0, 1)),
        (Measure::Autopath, "nowhere", "", (4, 4, 0)),
        (Measure::Autopath, "www.example.org.", outside, (1, 0, 0)),
        (Measure::Ndots(1), "a b", "", (0, 0, 0)),
    ] {
        for libc in all {
            if text == "a b" && libc == Libc::Musl {
                continue;
            }
            assert_eq!(
                course(libc, measure, text, existing),
                expected,
                "{libc:?} {measure:?} {text}"
            );
        }
    }
    // Other resolvers end where the name itself is denied.
    let short = "db.other.svc.cluster.local";
    let asked = all.map(|libc| course(libc, Measure::Ndots(1), "db.other", short));
    assert_eq!(asked, [(3, 2, 0), (1, 1, 0), (3, 2, 0)]);
    // What a server finds first ends its walk, whatever the client does with it.
    let empty = "web.svc.cluster.local NODATA\nweb.cluster.local";
    let asked = all.map(|libc| course(libc, Measure::Autopath, "web", empty));
    assert_eq!(asked, [(3, 2, 0), (1, 1, 2), (3, 2, 0)]);
}

#[test]
fn a_server_that_walks_takes_between_its_last_name_and_all() {
    let existing: Existing = "www.example.org".parse().unwrap();
    let wait = |measure| {
        let course = resolver(Libc::Glibc).with(measure, "www.example.org", |n| existing.find(n));
        course.wait(|name| if name.view().label_count() == 3 { 100 } else { 1 })
    };
    assert_eq!(wait(Measure::AsItIs), (103, 103));
    assert_eq!(wait(Measure::Autopath), (100, 103));
    assert_eq!(wait(Measure::TrailingDot), (100, 100));
}

#[test]
fn resolv_conf_is_read_as_resolvers_read_it() {
    use resolv_conf::ResolvConf;
    let text = "# a comment\nnameserver 10.96.0.10\nsearch a.example\nsearch b.example c.example.\n\
        ; another\noptions timeout:1 ndots:5 single-request-reopen\nserach d.example\n";
    let conf = ResolvConf::parse(text).unwrap();
    assert_eq!(
        (conf.ndots, &*conf.search),
        (5, &["b.example", "c.example."].map(str::to_owned)[..])
    );
    assert_eq!(
        conf.notes,
        [
            "6:27: `single-request-reopen` is not modelled",
            "7:1: `serach` is ignored, resolvers know nameserver, domain, search, sortlist, options",
        ]
    );
    let read = |text: &str| ResolvConf::parse(text).unwrap();
    assert_eq!(ResolvConf { notes: Vec::new(), ..read("") }, ResolvConf::default());
    assert_eq!((read("options ndots:99").ndots, ResolvConf::default().ndots), (15, 1));
    let conf = read("search x.example\ndomain y.example z.example");
    assert_eq!(conf.list(Libc::Glibc), ["y.example"]);
    assert_eq!(conf.list(Libc::Go), ["y.example"]);
    assert_eq!(conf.list(Libc::Musl), ["y.example", "z.example"]);
    assert_eq!(read("domain y.example\nsearch z.example").list(Libc::Musl), ["z.example"]);
    let missing = &read("nameserver 10.96.0.10\noptions ndots:5\n").notes;
    let [note] = &**missing else { panic!("{missing:?}") };
    assert!(note.starts_with("3:1: ") && note.contains("--search"), "{note}");
    for (text, expected) in [
        ("options ndots:x", "1:9: `ndots:x`, expected ndots: and a number"),
        ("options ndots:", "1:9: `ndots:`, expected ndots: and a number"),
        ("options ndots:-1", "1:9: `ndots:-1`, expected ndots: and a number"),
        ("nameserver 1.1.1.1\nsearch", "2:1: `search`, expected a domain name behind it"),
        ("search a..b", "1:8: `a..b`, expected a domain name"),
        ("search a.example # my own", "1:18: `#`, expected a domain name"),
        (
            " search a.example",
            "1:2: `search`, expected it at the start of the line, where glibc looks for it",
        ),
    ] {
        assert_eq!(ResolvConf::parse(text).unwrap_err().to_string(), expected);
    }
}
