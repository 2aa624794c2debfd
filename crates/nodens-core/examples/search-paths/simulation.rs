//! A cluster in which every server is real and nothing else is: nodes with pods that look names up
//! as glibc does, and one server of the cluster that they ask. The clock is virtual, and there is
//! no network. What is counted is what reaches the cluster's server.

use nodens_core::Transport;
use nodens_core::testing::{Bench, Reaction, request};
use nodens_wire::{Builder, Flags, Message, Rcode, Type};
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

/// What stands on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Nothing: pods ask the cluster's server.
    Nothing,
    /// A cache.
    Cache,
    /// A cache behind `search`, which learns from answers.
    Learning,
    /// A cache behind `search`, which knows the names of all services.
    Names,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// What stands on the nodes.
    pub(crate) node: Node,
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// Pods on each of them.
    pub(crate) pods: usize,
    /// Seconds that are counted, after [`WARM_UP_S`] that are not.
    pub(crate) seconds: u64,
}

/// Questions that reached the cluster's server while they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// All of them.
    pub(crate) questions: u64,
    /// Those for names that do not exist.
    pub(crate) denied: u64,
    /// What the pods asked.
    pub(crate) asked: u64,
}

/// Seconds until what a node sees for the first time, and what follows from that, is over.
const WARM_UP_S: u64 = 45;
/// Namespaces in which the pods are, and services of each.
const NAMESPACES: usize = 10;
const SERVICES: usize = 20;
/// Names outside that all pods look up, one more often than the next.
const SITES: usize = 200;
const TOP: [&str; 5] = ["com", "net", "org", "io", "dev"];
/// Lookups of a pod in a hundred seconds, and how many of them in a hundred are for names outside,
/// and for names outside that are looked up only once.
const PER_100_S: u64 = 50;
const OUTSIDE: usize = 80;
const ONCE: usize = 10;

/// The cluster: its services, as text.
fn objects() -> String {
    // The last is drawn at random, which shows whose zone it is.
    let mut text = "namespace default\nnamespace kube-system
        service default/kubernetes 10.96.0.1
        service kube-system/kube-dns-upstream 10.99.17.4\n"
        .to_owned();
    for namespace in 0..NAMESPACES {
        _ = writeln!(text, "namespace team-{namespace}");
        for service in 0..SERVICES {
            _ = writeln!(
                text,
                "service team-{namespace}/s{service} 10.0.{namespace}.{service} http:tcp:80"
            );
        }
    }
    text
}

/// The cluster's server, with what it was asked.
struct Central {
    server: RefCell<Bench>,
    load: Cell<Load>,
}

impl Central {
    fn new() -> Self {
        let mut server = Bench::new("cluster.local {\n kubernetes {\n ttl 30\n}\n}");
        server.client.transport = Transport::Tcp;
        server.publish(&objects(), server.now.unix_s);
        Self { server: RefCell::new(server), load: Cell::default() }
    }

    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let answer = self.server.borrow_mut().ask_bytes(request).unwrap_or_default();
        let denied = nodens_wire::Header::read(&answer)
            .is_ok_and(|header| header.flags.rcode() == Rcode::NXDOMAIN);
        let load = self.load.get();
        let (questions, denied) = (load.questions + 1, load.denied + u64::from(denied));
        self.load.set(Load { questions, denied, ..load });
        answer
    }
}

/// A server on a node. Names outside are another's business, and exist.
fn node(kind: Node, central: &Rc<Central>) -> Option<Bench> {
    let search = match kind {
        Node::Nothing => return None,
        Node::Cache => "",
        Node::Learning => "search {\n learn\n}",
        Node::Names => "search",
    };
    let cache = "cache 30 {\n success 9984 30\n denial 9984 5\n}";
    let corefile = format!("cluster.local {{\n {search}\n {cache}\n forward . 192.0.2.1\n}}");
    let mut bench = Bench::new(&corefile);
    bench.publish(&objects(), bench.now.unix_s);
    let central = central.clone();
    bench.upstream(move |_, question| Reaction::Reply(central.answer(&wire(question))));
    Some(bench)
}

/// The question as it stands in a message.
fn wire(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    if let Some(question) = message.questions.first() {
        Builder::new(&mut out, 1, Flags(Flags::RD)).question(
            question.qname.view(),
            question.qtype,
            question.qclass,
        );
    }
    out
}

/// What a pod looks up.
fn name(rng: &mut fastrand::Rng, namespace: usize) -> String {
    let draw = rng.usize(..100);
    if draw < ONCE {
        let top = TOP[rng.usize(..TOP.len())];
        return format!("r{}.cdn.{top}", rng.u64(..));
    }
    if draw < OUTSIDE {
        // Half of all lookups are for a tenth of the names.
        let most = if rng.bool() { SITES / 10 } else { SITES };
        let site = rng.usize(..most);
        let www = if site.is_multiple_of(3) { "" } else { "www." };
        return format!("{www}site{site}.{}", TOP[site % TOP.len()]);
    }
    let service = rng.usize(..SERVICES);
    match rng.bool() {
        true => format!("s{service}"),
        false => format!("s{service}.team-{}", (namespace + 1) % NAMESPACES),
    }
}

/// Runs a scenario.
pub(crate) fn run(scenario: Scenario) -> Load {
    let central = Rc::new(Central::new());
    let mut rng = fastrand::Rng::with_seed(4711);
    let mut nodes: Vec<_> = (0..scenario.nodes).map(|_| node(scenario.node, &central)).collect();
    let mut asked = 0;
    for second in 0..WARM_UP_S + scenario.seconds {
        if second == WARM_UP_S {
            central.load.set(Load::default());
            asked = 0;
        }
        for bench in &mut nodes {
            for pod in 0..scenario.pods {
                if rng.u64(..100) < PER_100_S {
                    let namespace = pod % NAMESPACES;
                    let name = name(&mut rng, namespace);
                    asked += look_up(bench.as_mut(), &central, &name, namespace);
                }
            }
            if let Some(bench) = bench {
                bench.pass(Duration::from_secs(1));
            }
        }
        central.server.borrow_mut().pass(Duration::from_secs(1));
    }
    Load { asked, ..central.load.get() }
}

/// Walks the search list as glibc does: both types of addresses, until a name exists. Gives how
/// many questions for names of the cluster it took.
fn look_up(node: Option<&mut Bench>, central: &Central, name: &str, namespace: usize) -> u64 {
    let mut node = node;
    let mut asked = 0;
    let domains = [format!("team-{namespace}.svc."), "svc.".to_owned(), String::new()];
    for domain in domains {
        let mut exists = false;
        for qtype in [Type::A, Type::AAAA] {
            let request = request(&format!("{name}.{domain}cluster.local {qtype}"));
            let answer = match &mut node {
                Some(node) => node.ask_bytes(&request).unwrap_or_default(),
                None => central.answer(&request),
            };
            asked += 1;
            exists |= nodens_wire::Header::read(&answer)
                .is_ok_and(|header| header.flags.rcode() == Rcode::NOERROR);
        }
        if exists {
            break;
        }
    }
    asked
}
