//! A server on a node with `search` in front of the `kubernetes` handler of another server.

mod handover;
mod mixed;
mod modes;
mod properties;
mod setup;
mod whose;

use crate::Transport;
use crate::config::BuildOptions;
use crate::testing::{Bench, Reaction, request};
use nodens_wire::{Message, Rcode};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// By which a cluster is known: the first address is the same in many, the second is not.
const WITNESSES: &str = "
    namespace default
    namespace kube-system
    service default/kubernetes 10.96.0.1
    service kube-system/metrics 10.99.17.4
";

const CLUSTER: &str = "
    namespace shop
    namespace tools
    service shop/web 10.0.0.1 http:tcp:80
    headless shop/db
    slice shop/db/1 :tcp:3306 -- 10.1.0.1=db-0
    service tools/web 10.0.1.1 http:tcp:80
";

/// The Corefile of a node with `search`, its lines, and the directives around it.
fn written(search: &str, node: &str) -> String {
    format!("cluster.local {{\n search {{\n{search}\n}}\n{node}\n forward . 192.0.2.1\n}}")
}

/// A node's server, the cluster's server that it asks, and the names it has asked for.
struct Pair {
    node: Bench,
    central: Rc<RefCell<Bench>>,
    seen: Rc<RefCell<Vec<String>>>,
}

impl Pair {
    /// With the lines of `search` and the directives around `cluster.local` of the node, and the
    /// directives in front of `kubernetes` of the cluster's server.
    fn new(search: &str, node: &str, central: &str) -> Self {
        Self::of(&written(search, node), &BuildOptions::default(), central)
    }

    /// On a node, without a word about `search`.
    fn on_a_node(node: &str, central: &str) -> Self {
        let corefile = format!("cluster.local {{\n{node}\n forward . 192.0.2.1\n}}");
        let options = BuildOptions { ends_search_paths: true, ..BuildOptions::default() };
        Self::of(&corefile, &options, central)
    }

    fn of(corefile: &str, options: &BuildOptions, central: &str) -> Self {
        let mut pair = Self::unaware(corefile, options, central);
        pair.publish(CLUSTER);
        pair
    }

    /// Neither has heard of any cluster.
    fn unaware(corefile: &str, options: &BuildOptions, central: &str) -> Self {
        let mut node = Bench::with_options(corefile, options).unwrap();
        let options = "pods insecure\n zonal\n ttl 5";
        let zones = "cluster.local in-addr.arpa ip6.arpa";
        let corefile = format!(".:53 {{\n{central}\n kubernetes {zones} {{\n{options}\n}}\n}}");
        let mut bench = Bench::new(&corefile);
        bench.client.transport = Transport::Tcp;
        let (central, seen) = (Rc::new(RefCell::new(bench)), Rc::new(RefCell::new(Vec::new())));
        let (asked, log) = (central.clone(), seen.clone());
        node.upstream(move |_, question| {
            let q = &question.questions[0];
            let is_proof = ["kubernetes.default.svc.", "metrics.kube-system.svc."];
            let text = q.qname.to_folded().to_string();
            if !is_proof.iter().any(|name| text.starts_with(name)) {
                log.borrow_mut().push(format!("{text} {}", q.qtype));
            }
            let request = request(&format!("{} {}", q.qname, q.qtype));
            Reaction::Reply(asked.borrow_mut().ask_bytes(&request).unwrap())
        });
        Self { node, central, seen }
    }

    /// The node watches the cluster whose servers it asks.
    fn publish(&mut self, objects: &str) {
        self.publish_apart(objects, &format!("{WITNESSES}{objects}"));
    }

    /// The node watches `ours`, and the servers have `theirs`.
    fn publish_apart(&mut self, ours: &str, theirs: &str) {
        let now = self.node.now.unix_s;
        self.node.publish(&format!("{WITNESSES}{ours}"), now);
        self.central.borrow_mut().publish(theirs, now);
    }

    fn pass(&mut self, time: Duration) {
        self.node.pass(time);
        self.central.borrow_mut().pass(time);
    }

    /// The node's answer and how many questions reached the cluster's server for it.
    fn ask(&mut self, question: &str) -> (Message, usize) {
        let before = self.seen.borrow().len();
        let answer = self.node.ask(question);
        (answer, self.seen.borrow().len() - before)
    }

    /// The RCODE of the node's answer, and how many questions reached the cluster's server.
    fn rcode(&mut self, question: &str) -> (Rcode, usize) {
        let (answer, asked) = self.ask(question);
        (answer.flags.rcode(), asked)
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.node.shared.registry.render();
        let of = |line: &str| line.starts_with(name).then(|| line.rsplit(' ').next()?.parse::<f64>().ok());
        text.lines().filter_map(of).flatten().sum()
    }
}

const NO: Rcode = Rcode::NXDOMAIN;
const YES: Rcode = Rcode::NOERROR;

#[test]
fn what_the_cluster_denied_once_is_denied_here() {
    let mut pair = Pair::new("", "", "");
    let domains = ["shop.svc.cluster.local", "svc.cluster.local", "Cluster.Local"];
    for qtype in ["A", "AAAA", "HTTPS", "SRV"] {
        for domain in domains {
            // What is denied for one type may be there for another.
            assert_eq!(pair.rcode(&format!("www.example.com.{domain} {qtype}")), (NO, 1));
        }
        for name in ["www.example.com", "static.example.com", "example.com", "a.b.c.d.com"] {
            for domain in domains {
                let question = format!("{name}.{domain} {qtype}");
                assert_eq!(pair.rcode(&question), (NO, 0), "{question}");
            }
        }
    }
    assert_eq!(pair.metric("nodens_search_denied_total"), 48.0);
    assert_eq!(pair.metric("nodens_search_names{server=\"dns://:53\",kind=\"service\"}"), 5.0);
    // What exists is asked for, and what is another's business.
    assert_eq!(pair.rcode("web.shop.svc.cluster.local A"), (YES, 1));
    assert_eq!(pair.rcode("db-0.db.shop.svc.cluster.local A"), (YES, 1));
    assert_eq!(pair.rcode("10-0-0-1.shop.pod.cluster.local A"), (YES, 1));
    assert_eq!(pair.rcode("_http._tcp.web.shop.svc.cluster.local SRV"), (YES, 1));
    assert_eq!(pair.rcode("com.cluster.local SOA"), (YES, 1));
}

#[test]
fn nothing_is_learned_from_an_answer_without_recursion() {
    let mut pair = Pair::new("", "", "");
    assert_eq!(pair.rcode("www.example.com.shop.svc.cluster.local A +norec"), (NO, 1));
    assert_eq!(pair.rcode("www.example.com.shop.svc.cluster.local A"), (NO, 1));
    assert_eq!(pair.rcode("www.example.com.shop.svc.cluster.local A"), (NO, 0));
}

#[test]
fn a_denial_is_the_one_the_cluster_gives() {
    let mut pair = Pair::new("", "", "");
    let question = "Www.example.com.shop.svc.cluster.local AAAA +edns";
    let (theirs, asked) = pair.ask(question);
    assert_eq!(asked, 1);
    let (ours, asked) = pair.ask(question);
    assert_eq!(asked, 0);
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

#[test]
fn proofs_are_asked_for() {
    let mut pair = Pair::new("", "", "");
    for _ in 0..3 {
        assert_eq!(pair.rcode("www.example.com.cluster.local A +do"), (NO, 1));
    }
}

#[test]
fn without_names_shapes_alone_are_denied_and_no_longer_than_was_said() {
    let mut pair = Pair::new("learn", "", "");
    assert!(pair.node.worker.config().services.clusters.is_empty());
    for (name, asked) in [
        ("www.example.com.cluster.local", 0),
        ("www.example.com.shop.svc.cluster.local", 0),
        ("a.www.example.com.svc.cluster.local", 0),
        // A namespace `com` or a service `com` may come at any time.
        ("www.example.com.svc.cluster.local", 1),
        ("example.com.shop.svc.cluster.local", 1),
        ("com.shop.svc.cluster.local", 1),
    ] {
        assert_eq!(pair.rcode(&format!("{name} A")), (NO, 1), "{name}");
        assert_eq!(pair.rcode(&format!("{name} A")), (NO, asked), "{name}");
    }
    pair.pass(Duration::from_millis(4_750));
    assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 0));
    pair.pass(Duration::from_millis(250));
    assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
}

#[test]
fn a_service_created_a_moment_ago_resolves_at_once() {
    for cache in ["", "cache 30"] {
        let mut pair = Pair::new("", cache, "");
        let names = ["new.shop.svc", "new-0.new.shop.svc", "api.fresh.svc", "a.api.fresh.svc"];
        for name in names {
            for qtype in ["A", "AAAA", "A"] {
                pair.rcode(&format!("{name}.cluster.local {qtype}"));
            }
        }
        pair.pass(Duration::from_millis(10));
        let more = "
            namespace fresh
            headless shop/new
            slice shop/new/1 :tcp:80 -- 10.1.0.7=new-0
            headless fresh/api
            slice fresh/api/1 :tcp:80 -- 10.1.0.8=a";
        pair.publish(&format!("{CLUSTER}{more}"));
        for name in names {
            for qtype in ["A", "AAAA"] {
                let question = format!("{name}.cluster.local {qtype}");
                assert_eq!(pair.rcode(&question), (YES, 1), "{question}");
            }
        }
        // Once no old denial can be left, the cache has its turn again.
        pair.pass(Duration::from_secs(31));
        assert_eq!(pair.rcode("new.shop.svc.cluster.local A"), (YES, 1));
        let asked = usize::from(cache.is_empty());
        assert_eq!(pair.rcode("new.shop.svc.cluster.local A"), (YES, asked));
        // And what is gone is gone.
        pair.publish(CLUSTER);
        pair.pass(Duration::from_secs(31));
        assert_eq!(pair.rcode("new.shop.svc.cluster.local A"), (NO, 1));
    }
}

#[test]
fn names_that_the_cluster_has_from_elsewhere_stay() {
    let central = "rewrite stop name exact legacy.shop.svc.cluster.local web.shop.svc.cluster.local answer auto
        template IN A office.cluster.local {
            match \"^printer[.]office\"
            answer \"{{ .Name }} 60 IN A 192.0.2.9\"
            fallthrough
        }";
    let mut pair = Pair::new("", "", central);
    for _ in 0..3 {
        assert_eq!(pair.rcode("legacy.shop.svc.cluster.local A"), (YES, 1));
        assert_eq!(pair.rcode("printer.office.cluster.local A"), (YES, 1));
        // Their neighbours are asked for from then on, and nothing else is.
        assert_eq!(pair.rcode("scanner.office.cluster.local A"), (NO, 1));
        pair.rcode("www.example.com.cluster.local A");
        assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 0));
    }
    assert_eq!(pair.metric("nodens_search_elsewhere_total"), 6.0);
    assert_eq!(pair.metric("nodens_search_surprises_total"), 0.0);
    // The other way round it takes a while, unless it is said.
    let mut pair = Pair::new("", "", central);
    assert_eq!(pair.rcode("scanner.office.cluster.local A"), (NO, 1));
    assert_eq!(pair.rcode("printer.office.cluster.local A"), (NO, 0));
    pair.pass(Duration::from_secs(30));
    assert_eq!(pair.rcode("printer.office.cluster.local A"), (YES, 1));
    let mut pair = Pair::new("except office.cluster.local", "", central);
    assert_eq!(pair.rcode("scanner.office.cluster.local A"), (NO, 1));
    assert_eq!(pair.rcode("printer.office.cluster.local A"), (YES, 1));
}

#[test]
fn a_denial_ends_after_half_a_minute_whatever_is_asked() {
    let mut pair = Pair::new("", "", "");
    pair.rcode("first.com.cluster.local A");
    let mut asked = Vec::new();
    for second in 0..150 {
        for (name, log) in [("a", true), ("b", false)] {
            let (rcode, count) = pair.rcode(&format!("{name}.com.cluster.local A"));
            assert_eq!(rcode, NO);
            if log && count > 0 {
                asked.push(second);
            }
        }
        pair.pass(Duration::from_secs(1));
    }
    assert_eq!(asked, [30, 60, 90, 120]);
}

#[test]
fn names_are_not_gone_by_when_they_may_be_old() {
    let mut pair = Pair::new("", "", "");
    let question = "example.com.shop.svc.cluster.local A";
    pair.rcode(question);
    assert_eq!(pair.rcode(question), (NO, 0));
    let lost = crate::cluster::Link::Lost { since_unix_s: 1, reason: "gone".to_owned() };
    pair.node.worker.config().services.clusters[0].feed.set_link(lost);
    assert_eq!(pair.rcode(question), (NO, 1));
    assert_eq!(pair.rcode(question), (NO, 1));
    assert_eq!(pair.metric("nodens_search_names"), 0.0);
    // Shapes do not age.
    pair.rcode("www.example.com.cluster.local A");
    assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 0));
}

#[test]
fn nothing_is_denied_where_the_servers_are_no_clusters() {
    let mut pair = Pair::new("", "", "template IN ANY cluster.local {
            rcode NXDOMAIN
            authority \"cluster.local. 60 IN SOA ns1.cluster.local. admin.cluster.local. 1 2 3 4 60\"
        }");
    for _ in 0..3 {
        assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
    }
}

#[test]
fn a_stale_answer_teaches_nothing() {
    let mut pair = Pair::new("", "cache 30 {\n serve_stale 1h immediate\n}", "");
    assert_eq!(pair.rcode("a.example.com.cluster.local A"), (NO, 1));
    pair.pass(Duration::from_secs(40));
    pair.node.upstream(|_, _| Reaction::Silence);
    // The denial in the cache is old by now: it is given once more, and to nobody else.
    assert_eq!(pair.node.ask("a.example.com.cluster.local A").flags.rcode(), NO);
    assert!(pair.node.ask_bytes(&request("b.example.com.cluster.local A")).is_none());
}
