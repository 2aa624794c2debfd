//! What becomes of queries when all upstreams are gone.

use super::place::Place;
use super::{CLUSTER_DNS, FOR_CILIUM, WEB, arguments, borrowed, write_for_cilium};
use crate::fixture::{Folder, Server};
use nodens_wire::Rcode;
use std::time::{Duration, Instant};

/// Many times the ten seconds that an outage has to last.
const LONG: Duration = Duration::from_secs(120);
/// A name that nobody has, and hence no cache.
const ABSENT: &str = "absent.default.svc.cluster.local";

/// Waits until something is so, for as long as a busy machine may take.
fn in_time(what: &str, so: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !so() {
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A node whose queries come to a server with an upstream.
struct Scene {
    server: Server,
    place: Place,
}

impl Scene {
    /// On `place`, with the template that `edit` makes of the usual one; and its upstream.
    fn new(name: &str, place: Place, edit: impl Fn(&str) -> String) -> (Self, Server) {
        let upstream = place.start_upstream(&format!("{name}-upstream"));
        let folder = Folder::new(name);
        let arguments = arguments(&folder);
        let base = folder.0.join("Corefile.base");
        let text = std::fs::read_to_string(&base).unwrap();
        std::fs::write(base, edit(&text)).unwrap();
        let server = place.start(folder, &borrowed(&arguments));
        server.wait_long_for("taking over this node's queries", LONG);
        let scene = Self { server, place };
        in_time("the node answers", || scene.web() == [10, 1, 1, 1]);
        (scene, upstream)
    }

    /// What those who ask the address of the cluster's DNS are told of a name.
    fn web(&self) -> Vec<u8> {
        let answer = self.place.ask(CLUSTER_DNS, WEB);
        let records = answer.into_iter().flat_map(|answer| answer.answer);
        records.map(|record| record.rdata).next().unwrap_or_default()
    }

    /// Whether the node itself answers, that it cannot.
    fn is_helpless(&self) -> bool {
        let answer = self.place.ask(CLUSTER_DNS, ABSENT);
        answer.is_some_and(|answer| answer.flags.rcode() == Rcode::SERVFAIL)
    }

    fn attracts(&self) -> bool {
        self.place.ip("address").contains(CLUSTER_DNS)
    }

    fn ready(&self) -> String {
        self.place.get("127.0.0.1:9353", "/ready").unwrap_or_default().1
    }

    fn metric(&self, line: &str) -> bool {
        let (_, metrics) = self.place.get("127.0.0.1:9353", "/metrics").unwrap();
        metrics.contains(&format!("\n{line}\n"))
    }
}

#[test]
fn without_upstreams_queries_go_to_the_central_servers_until_one_answers() {
    let place = Place::new();
    let central = place.start_central("outage-central", CLUSTER_DNS);
    let (scene, upstream) = Scene::new("outage", place, str::to_owned);
    assert!(scene.metric("nodens_node_withdrawals_total 0"));
    assert_eq!(upstream.end("-TERM").code(), Some(0));
    in_time("SERVFAIL", || scene.is_helpless());
    let died = Instant::now();
    // A central server that answers late is found the next time.
    let text = "queries to 10.96.0.10 go to the central servers until one recovers: dial tcp";
    let line = scene.server.wait_long_for(text, LONG);
    assert!(line.contains("all upstreams are down, none has answered for "), "{line}");
    assert!(died.elapsed() > Duration::from_secs(8), "after {:?}: {line}", died.elapsed());
    in_time("the central server answers", || scene.web() == [10, 1, 1, 9]);
    assert!(!scene.attracts() && scene.place.ip("address").contains("169.254.20.10"));
    in_time("not ready", || scene.ready() == "node");
    // Where liveness is asked for, nothing has changed.
    assert_eq!(scene.place.get("169.254.20.10:8080", "/health").unwrap().1, "OK");
    assert!(scene.metric("nodens_node_withdrawals_total 1"));
    assert!(scene.metric("nodens_node_attracting 0"));

    let upstream = scene.place.start_upstream("outage-upstream-again");
    let line = scene.server.wait_long_for("taking queries again: ", LONG);
    assert!(line.contains("upstream 10.96.0.11:53 answers over tcp, after "), "{line}");
    in_time("the node answers again", || scene.attracts() && scene.web() == [10, 1, 1, 1]);
    in_time("ready", || scene.ready() == "OK");
    assert!(scene.metric("coredns_nodecache_setup_errors_total{errortype=\"interface_add\"} 0"));
    assert_eq!(scene.server.count_seen("Added"), 0, "nobody else took anything away");
    for server in [scene.server, upstream, central] {
        assert_eq!(server.end("-TERM").code(), Some(0));
    }
}

/// An address of this node alone that does not look like one, as fd00:53::10 in a cluster without IPv4.
#[test]
fn only_addresses_at_which_the_central_servers_answer_are_left_to_them() {
    const OWN: &str = "10.53.0.10";
    let place = Place::new();
    let central = place.start_central("outage-own-central", CLUSTER_DNS);
    let upstream = place.start_upstream("outage-own-upstream");
    let folder = Folder::new("outage-own");
    let mut arguments = arguments(&folder);
    arguments.extend(["-localip".to_owned(), format!("{OWN},{CLUSTER_DNS}")]);
    // Both blocks ask the same servers, in two ways, and clients ask for names of the first alone.
    let base = folder.0.join("Corefile.base");
    let text = std::fs::read_to_string(&base).unwrap();
    // A probe of `loop` would be a query of the second, too.
    let text = text.replace("169.254.20.10:8080", &format!("{OWN}:8080")).replace("    loop\n", "");
    let ways = "forward . __PILLAR__CLUSTER__DNS__ {\n            prefer_udp\n    }";
    let text = text
        .replace("forward . __PILLAR__UPSTREAM__SERVERS__ {\n            force_tcp\n    }", ways);
    assert!(text.contains("prefer_udp"), "{text}");
    std::fs::write(base, text).unwrap();
    let server = place.start(folder, &borrowed(&arguments));
    server.wait_long_for("taking over this node's queries", LONG);
    let scene = Scene { server, place };
    in_time("the node answers", || scene.web() == [10, 1, 1, 1]);
    assert_eq!(upstream.end("-TERM").code(), Some(0));
    in_time("SERVFAIL", || scene.is_helpless());
    let text = "queries to 10.96.0.10 go to the central servers until one recovers: ";
    scene.server.wait_long_for(text, LONG);
    in_time("the central server answers", || scene.web() == [10, 1, 1, 9]);
    assert!(!scene.attracts() && scene.place.ip("address").contains(OWN));
    assert_eq!(scene.place.get(&format!("{OWN}:8080"), "/health").unwrap().1, "OK");
    let answer = scene.place.ask(OWN, ABSENT).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);

    let upstream = scene.place.start_upstream("outage-own-upstream-again");
    scene.server.wait_long_for("taking queries again: ", LONG);
    in_time("the node answers again", || scene.attracts() && scene.web() == [10, 1, 1, 1]);
    assert_eq!(scene.server.count_seen("Added"), 0, "nobody else took anything away");
    for server in [scene.server, upstream, central] {
        assert_eq!(server.end("-TERM").code(), Some(0));
    }
}

#[test]
fn whoever_directs_questions_here_sees_that_no_upstream_answers() {
    let place = Place::new();
    let upstream = place.start_upstream("outage-directed-upstream");
    let folder = Folder::new("outage-directed");
    let mut arguments = arguments(&folder);
    write_for_cilium(&folder);
    arguments.extend(FOR_CILIUM.map(str::to_owned));
    let server = place.start(folder, &borrowed(&arguments));
    server.wait_long_for("taking over this node's queries", LONG);
    let scene = Scene { server, place };
    in_time("ready", || scene.ready() == "OK");
    assert_eq!(upstream.end("-TERM").code(), Some(0));
    in_time("not ready", || {
        let answer = scene.place.ask("127.0.0.1", ABSENT);
        answer.is_some_and(|answer| answer.flags.rcode() == Rcode::SERVFAIL)
            && scene.ready() == "node"
    });
    // What Cilium does then.
    let central = scene.place.start_central("outage-directed-central", CLUSTER_DNS);
    let text = "queries to 10.96.0.10 go to the central servers until one recovers: dial tcp";
    scene.server.wait_long_for(text, LONG);
    assert!(scene.ready() == "node" && scene.web() == [10, 1, 1, 9]);
    assert!(scene.metric("nodens_node_withdrawals_total 1"));

    let upstream = scene.place.start_upstream("outage-directed-upstream-again");
    scene.server.wait_long_for("taking queries again: ", LONG);
    in_time("ready again", || scene.ready() == "OK");
    assert!(!scene.place.ip("link").contains("nodelocaldns"), "nothing was made");
    for server in [scene.server, upstream, central] {
        assert_eq!(server.end("-TERM").code(), Some(0));
    }
}

#[test]
fn a_loop_leaves_queries_to_the_central_servers_until_a_reload_mends_it() {
    let place = Place::new();
    let central = place.start_central("outage-loop-central", CLUSTER_DNS);
    let upstream = place.start_upstream("outage-loop-upstream");
    let folder = Folder::new("outage-loop");
    let mut arguments = arguments(&folder);
    // The Service that this node's queries are for, in the place of the upstream service.
    arguments.extend(["-upstreamsvc".to_owned(), CLUSTER_DNS.to_owned()]);
    let base = folder.0.join("Corefile.base");
    let text = std::fs::read_to_string(&base).unwrap();
    // The central server is behind kube-proxy over UDP alone.
    let text = text.replace("force_tcp", "prefer_udp");
    std::fs::write(&base, &text).unwrap();
    let scene = Scene { server: place.start(folder, &borrowed(&arguments)), place };
    scene.server.wait_long_for("plugin/loop: Loop (", LONG);
    assert!(scene.attracts());
    let line = scene.server.wait_long_for("all upstreams have led back here for ", LONG);
    let what = "(loop): queries to 10.96.0.10 go to the central servers until the loop is gone";
    assert!(line.contains(what), "{line}");
    in_time("the central server answers", || scene.web() == [10, 1, 1, 9]);
    assert!(!scene.attracts());
    in_time("not ready", || scene.ready().contains("node"));
    assert!(scene.metric("nodens_node_withdrawals_total 1"));

    std::fs::write(base, text.replace("__PILLAR__CLUSTER__DNS__", "10.96.0.11")).unwrap();
    let line = scene.server.wait_long_for("taking queries again: ", LONG);
    assert!(line.contains("upstream 10.96.0.11:53 answers over udp, after "), "{line}");
    in_time("the node answers again", || scene.attracts() && scene.web() == [10, 1, 1, 1]);
    in_time("ready", || scene.ready() == "OK");
    for server in [scene.server, upstream, central] {
        assert_eq!(server.end("-TERM").code(), Some(0));
    }
}

#[test]
fn questions_stay_where_nobody_else_would_answer_them() {
    let (scene, upstream) = Scene::new("outage-alone", Place::new(), str::to_owned);
    assert_eq!(upstream.end("-TERM").code(), Some(0));
    in_time("SERVFAIL", || scene.is_helpless());
    let line = scene.server.wait_long_for("all upstreams are down, none has answered for ", LONG);
    let why = "the central servers are down at 10.96.0.10 too: queries stay on this node: ";
    assert!(line.contains(why), "{line}");
    in_time("the node answers", || scene.is_helpless());
    in_time("it attracts and is ready", || scene.attracts() && scene.ready() == "OK");
    assert!(scene.metric("nodens_node_withdrawals_total 0"));
    // Whoever ends it does not wait for an upstream that is silent.
    assert_eq!(scene.server.end("-TERM").code(), Some(0));
}

#[test]
fn questions_stay_while_stale_answers_may_be_served() {
    let place = Place::new();
    let _central = place.start_central("outage-stale-central", CLUSTER_DNS);
    let with_stale =
        |text: &str| text.replace("cache 30", "cache 30 {\n        serve_stale\n    }");
    let (scene, upstream) = Scene::new("outage-stale", place, with_stale);
    assert_eq!(upstream.end("-TERM").code(), Some(0));
    in_time("SERVFAIL", || scene.is_helpless());
    // Longer than it takes without: see above.
    std::thread::sleep(Duration::from_secs(20));
    assert_eq!(scene.server.count_seen("all upstreams are down"), 0);
    assert!(scene.attracts());
    in_time("what is known is served", || scene.web() == [10, 1, 1, 1]);
}
