use crate::config::{BuildOptions, build};
use crate::log::Record;
use crate::testing::{Bench, Reaction};
use nodens_corefile::{NoSources, parse};
use nodens_wire::{Message, Rcode};
use std::sync::Arc;

const COREFILE: &str = "example.org:5300 {\n loop\n forward . 192.0.2.1\n}";

fn probe(bench: &Bench) -> String {
    let name = bench.worker.config().services.loops[0].state.qname().to_string();
    format!("{name} HINFO")
}

fn nxdomain(question: &Message) -> Reaction {
    let mut reply = question.clone();
    reply.flags = question.flags.reply().with_rcode(Rcode::NXDOMAIN);
    let mut out = Vec::new();
    reply.write(&mut out).unwrap();
    Reaction::Reply(out)
}

fn errors(bench: &Bench) -> Vec<String> {
    let lines = bench.log.try_iter().filter_map(|record| match record {
        Record::Line { text, origin: "loop", .. } => Some(text),
        _ => None,
    });
    lines.collect()
}

#[test]
fn a_probe_that_comes_back_isolates_forward_until_one_does_not() {
    let mut bench = Bench::new(COREFILE);
    bench.upstream(|_, question| nxdomain(question));
    let question = probe(&bench);
    assert_eq!(bench.ask(&question).flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(bench.ask(&question).flags.rcode(), Rcode::NXDOMAIN);
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::NXDOMAIN);
    assert!(errors(&bench).is_empty());

    assert_eq!(bench.ask(&question).flags.rcode(), Rcode::SERVFAIL);
    let logged = errors(&bench);
    assert_eq!(logged.len(), 1);
    let expected = "Loop (192.0.2.53:40000 -> :5300) detected for zone \"example.org.\", see \
                    https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO ";
    assert!(logged[0].starts_with(expected), "{logged:?}");
    let answer = bench.ask("www.example.org. A +edns");
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    let (_, mut options) = answer.edns().unwrap();
    assert_eq!(options.next(), Some((15, &b"\0\x17loop detected"[..])));

    // Once more, and the loop is gone.
    let state = bench.worker.config().services.loops[0].state.clone();
    state.begin();
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(bench.ask(&question).flags.rcode(), Rcode::NXDOMAIN);
    assert!(!state.end());
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::NXDOMAIN);
    assert!(errors(&bench).is_empty());
}

#[test]
fn probes_do_not_count_when_none_are_sent() {
    let mut bench = Bench::new(COREFILE);
    bench.upstream(|_, question| nxdomain(question));
    let question = probe(&bench);
    assert!(!bench.worker.config().services.loops[0].state.end());
    for _ in 0..10 {
        assert_eq!(bench.ask(&question).flags.rcode(), Rcode::NXDOMAIN);
    }
}

#[test]
fn the_name_hangs_on_the_secret_and_on_the_block() {
    let text = "example.org:53 {\n loop\n}\nexample.org:54 {\n loop\n}";
    let tree = parse("Corefile", text, &NoSources).unwrap();
    let shared = Bench::new(COREFILE).shared.clone();
    let names = |secret| {
        let options = BuildOptions { secret: [secret; 16], ..BuildOptions::default() };
        let config = Arc::new(build(&tree, &options, &shared).unwrap());
        let names = config.services.loops.iter().map(|probe| probe.state.qname().to_string());
        names.collect::<Vec<_>>()
    };
    let (first, second) = (names(1), names(2));
    assert!(first.iter().all(|name| name.ends_with(".example.org.")));
    assert_ne!(first[0], first[1]);
    assert!(first.iter().all(|name| !second.contains(name)));
}

#[test]
fn arguments_and_repetition_are_refused() {
    assert!(Bench::try_new(".:53 {\n loop now\n}").is_err());
    let error = Bench::try_new(".:53 {\n loop\n loop\n}").unwrap_err().to_string();
    assert_eq!(error, "Corefile:3:2: this plugin can only be used once per Server Block");
}

/// Whether the process is ready when the blocks in `looped`, by their number, loop.
fn ready_when_looped(text: &str, looped: &[usize]) -> bool {
    let bench = Bench::new(text);
    let services = &bench.worker.config().services;
    let probe = |worker: &mut Bench, at: usize| {
        let state = worker.worker.config().services.loops[at].state.clone();
        state.begin();
        let question = format!("{} HINFO", state.qname());
        (0..3).for_each(|_| _ = worker.ask(&question));
        assert!(state.end());
    };
    assert!(services.readiness.iter().all(|readiness| (readiness.check)()));
    let mut bench = Bench::new(text);
    bench.upstream(|_, question| nxdomain(question));
    looped.iter().for_each(|at| probe(&mut bench, *at));
    let services = &bench.worker.config().services;
    assert!(services.readiness.iter().all(|readiness| readiness.can_be_lost));
    services.readiness.iter().all(|readiness| (readiness.check)())
}

#[test]
fn a_process_whose_every_forward_loops_is_not_ready() {
    assert!(!ready_when_looped(COREFILE, &[0]));
    let forward = "loop\n forward . 192.0.2.1";
    let two = format!("example.org {{\n {forward}\n}}\nexample.net {{\n {forward}\n}}");
    assert!(!ready_when_looped(&two, &[0, 1]));
    // A few names that differ are not what a client asks for.
    let hosts = format!(". {{\n hosts {{\n  192.0.2.7 a.example\n  fallthrough\n }}\n {forward}\n}}");
    assert!(!ready_when_looped(&hosts, &[0]));
}

#[test]
fn a_process_that_answers_something_is_ready_whatever_loops() {
    let forward = "loop\n forward . 192.0.2.1";
    let two = format!("example.org {{\n {forward}\n}}\nexample.net {{\n {forward}\n}}");
    assert!(ready_when_looped(&two, &[0]) && ready_when_looped(&two, &[1]));
    for other in ["whoami", "forward . 192.0.2.2"] {
        let text = format!("example.org {{\n {forward}\n}}\nexample.net {{\n {other}\n}}");
        assert!(ready_when_looped(&text, &[0]), "{other}");
    }
}

#[test]
fn a_process_is_ready_again_when_nothing_loops_any_more() {
    let mut bench = Bench::new(COREFILE);
    bench.upstream(|_, question| nxdomain(question));
    let question = probe(&bench);
    (0..3).for_each(|_| _ = bench.ask(&question));
    let config = bench.worker.config().clone();
    let [readiness] = &config.services.readiness[..] else { panic!("{:?}", config.services) };
    assert_eq!((readiness.directive, (readiness.check)()), ("loop", false));
    let state = &config.services.loops[0].state;
    assert!(state.end() && !(readiness.check)());
    state.begin();
    assert!(!state.end() && (readiness.check)());
}
