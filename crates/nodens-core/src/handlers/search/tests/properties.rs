//! What holds for every cluster, every name and every order of events: the node never says that a
//! name does not exist which the `kubernetes` handler has.

use super::*;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const NAMESPACES: [&str; 4] = ["shop", "tools", "com", "svc"];
const SERVICES: [&str; 5] = ["web", "db", "com", "example", "tcp"];
/// Labels of names: those of objects, and what search paths put in front of them.
const LABELS: &[&str] = &[
    "shop", "tools", "com", "svc", "web", "db", "example", "tcp", "udp", "_tcp", "_http", "http",
    "www", "pod", "dns", "ns", "dns-version", "_zone", "pin", "db-0", "10-1-0-1", "org", "x",
];
const TYPES: &[&str] = &["A", "AAAA", "SRV", "TXT", "CNAME", "SOA", "NS", "PTR", "MX", "HTTPS"];

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// Somebody asks.
    Ask(String),
    /// A namespace or service comes or goes.
    Toggle(Index),
    /// Milliseconds go by.
    Pass(u64),
    /// What is known of names may be old, or not any more.
    Link(bool),
}

fn name() -> impl Strategy<Value = String> {
    let label = || select(LABELS);
    let below = |most| prop::collection::vec(label(), 0..most);
    let any = below(8).prop_map(|labels| [&labels[..], &["cluster.local"]].concat().join("."));
    let service = (below(4), select(&SERVICES[..]), select(&NAMESPACES[..]));
    let service = service.prop_map(|(below, service, namespace)| {
        [&below[..], &[service, namespace, "svc.cluster.local"]].concat().join(".")
    });
    prop_oneof![any, service]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (name(), select(TYPES)).prop_map(|(name, qtype)| Step::Ask(format!("{name} {qtype}"))),
        3 => any::<Index>().prop_map(Step::Toggle),
        1 => (0_u64..40_000).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Link),
    ]
}

/// All objects that can come and go; a service is a line or several.
fn objects() -> Vec<String> {
    let namespaces = NAMESPACES.map(|name| format!("namespace {name}\n"));
    let service = |namespace: &str, (at, name): (usize, &str)| match at % 5 {
        0 => format!("service {namespace}/{name} 10.0.0.1 http:tcp:80\n"),
        1 => format!(
            "headless {namespace}/{name}\nslice {namespace}/{name}/1 http:tcp:80 -- 10.1.0.1=db-0\n"
        ),
        2 => format!("headless {namespace}/{name}\n"),
        3 => format!("alias {namespace}/{name} www.example.org\n"),
        _ => format!("service {namespace}/{name} 10.0.0.2,fd00::2\n"),
    };
    let services = NAMESPACES.iter().enumerate().flat_map(|(shift, namespace)| {
        let names = SERVICES.iter().enumerate();
        names.map(move |(at, name)| service(namespace, (at + shift, name)))
    });
    namespaces.into_iter().chain(services).collect()
}

/// Runs the steps; gives what the node answered otherwise than the cluster's server.
fn differences(search: &str, steps: &[Step]) -> Vec<String> {
    let mut pair = Pair::new(search, "", "");
    let objects = objects();
    let mut present = vec![true; objects.len()];
    let mut different = Vec::new();
    pair.publish(&objects.concat());
    for step in steps {
        match step {
            Step::Pass(ms) => pair.pass(Duration::from_millis(*ms)),
            Step::Link(connected) => {
                for cluster in &pair.node.worker.config().services.clusters {
                    use crate::cluster::Link::{Connected, Connecting};
                    cluster.feed.set_link(if *connected { Connected } else { Connecting });
                }
            }
            Step::Toggle(index) => {
                let place = index.index(objects.len());
                present[place] = !present[place];
                let there = objects.iter().zip(&present).filter(|(_, there)| **there);
                pair.publish(&there.map(|(object, _)| object.as_str()).collect::<String>());
            }
            Step::Ask(question) => {
                let ours = pair.node.ask(question);
                let theirs = pair.central.borrow_mut().ask(question);
                let said = |message: &Message| (message.flags, message.answer.clone());
                if said(&ours) != said(&theirs) {
                    different.push(format!("{question}: {ours:?} instead of {theirs:?}"));
                }
            }
        }
    }
    different
}

/// The objects that are there, as text.
fn there(objects: &[String], present: &[bool]) -> String {
    let there = objects.iter().zip(present).filter(|(_, there)| **there);
    there.map(|(object, _)| object.as_str()).collect()
}

/// By which the other cluster is known: as in most, the API server is at the same address.
const OTHER: &str = "namespace default\nnamespace kube-system
    service default/kubernetes 10.96.0.1\nservice kube-system/metrics 10.97.0.1\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_denied_that_the_cluster_has(
        steps in prop::collection::vec(step(), 1..120),
        learn in any::<bool>(),
    ) {
        let different = differences(if learn { "learn" } else { "" }, &steps);
        prop_assert!(different.is_empty(), "{:#?}", different);
    }

    /// The servers are those of another cluster than the one that is watched.
    #[test]
    fn nothing_is_denied_that_another_cluster_has(
        steps in prop::collection::vec(step(), 1..120),
        mut watched in prop::collection::vec(any::<bool>(), objects().len()),
        present in prop::collection::vec(any::<bool>(), objects().len()),
        written in any::<bool>(),
    ) {
        let mut pair = if written { Pair::new("", "", "") } else { Pair::on_a_node("", "") };
        let objects = objects();
        let theirs = format!("{OTHER}{}", there(&objects, &present));
        pair.publish_apart(&there(&objects, &watched), &theirs);
        for step in steps {
            match step {
                Step::Pass(ms) => pair.pass(Duration::from_millis(ms)),
                Step::Toggle(index) => {
                    let place = index.index(objects.len());
                    watched[place] = !watched[place];
                    pair.publish_apart(&there(&objects, &watched), &theirs);
                }
                Step::Link(_) => {}
                Step::Ask(question) => {
                    let ours = pair.node.ask(&question);
                    let theirs = pair.central.borrow_mut().ask(&question);
                    let said = |message: &Message| (message.flags, message.answer.clone());
                    prop_assert_eq!(said(&ours), said(&theirs), "{}", question);
                }
            }
        }
    }

    /// With a cache between them, too, what a service has is there as soon as it is.
    #[test]
    fn a_new_service_resolves_at_once_whatever_was_asked_before(
        questions in prop::collection::vec((name(), select(TYPES), 0_u64..200), 0..40),
        object in NAMESPACES.len()..objects().len(),
        asked in (name(), select(&["A", "AAAA", "SRV"][..])),
        again in any::<prop::sample::Index>(),
    ) {
        let mut pair = Pair::new("", "cache 30", "");
        let all = objects();
        let without: String =
            all.iter().enumerate().filter(|(at, _)| *at != object).map(|(_, o)| o.as_str()).collect();
        pair.publish(&without);
        let place = object - NAMESPACES.len();
        let (namespace, service) = (NAMESPACES[place / SERVICES.len()], SERVICES[place % SERVICES.len()]);
        let own = format!("{service}.{namespace}.svc.cluster.local {}", asked.1);
        let below = format!("db-0.{own}");
        let impatient = [&own, &below].map(String::clone);
        let asked_before = questions.iter().map(|(name, qtype, _)| format!("{name} {qtype}"));
        for (question, (_, _, ms)) in impatient.into_iter().chain(asked_before).zip(&questions) {
            pair.node.ask(&question);
            pair.pass(Duration::from_millis(*ms));
        }
        pair.publish(&all.concat());
        let before = (!questions.is_empty()).then(|| questions[again.index(questions.len())].clone());
        let questions = [own, below, format!("{} {}", asked.0, asked.1)];
        for question in questions.into_iter().chain(before.map(|(name, qtype, _)| format!("{name} {qtype}"))) {
            let is_of_it = question.contains(&format!("{service}.{namespace}.svc."));
            let ours = pair.node.ask(&question).flags.rcode();
            let theirs = pair.central.borrow_mut().ask(&question).flags.rcode();
            // What was in the cache of other names is the cache's business, and underscores are
            // nobody's service.
            if is_of_it && !question.contains('_') {
                prop_assert_eq!(ours, theirs, "{}", question);
            }
        }
    }
}
