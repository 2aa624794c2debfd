//! Answers questions from the cache again and again, for counting instructions; misses and answers
//! of `template` too. `cargo xtask bench-instructions` runs it under callgrind.
//!
//! ```sh
//! cargo build --release --example hits -p nodens-core
//! target/release/examples/hits                    # names the scenarios
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured*' \
//!     target/release/examples/hits kubernetes 1000
//! ```
//!
//! What a change of a cluster's endpoints costs whoever watches it is counted in the same way.
//!
//! Everything that is counted happens in [`measured`] and [`measured_changes`]; its instructions, divided by the number of
//! questions, are the cost of one question from octets to octets, without the socket.

#![allow(clippy::print_stdout, reason = "an example reports on stdout")]

use nodens_core::cluster::{Clusters, Editor, Feed, Key, NewEndpoint, Slice, Source};
use nodens_core::testing::{Bench, Reaction, request};
use nodens_core::worker::{Action, Verdict};
use nodens_wire::{Class, Flags, Message, Name, Rcode, Record, Type};
use std::net::IpAddr;

mod zone;

/// Names asked for in turn; each has one address.
const NAMES: usize = 64;

struct Scenario {
    name: &'static str,
    /// What the server block says.
    block: &'static str,
    /// What follows the name in each question.
    asked: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The same names again.
    Hit,
    /// The same names again, which do not exist.
    Denial,
    /// Another name each time, answered by an upstream.
    Miss,
    /// The same names again, of services in a cluster.
    Service,
    /// The same names again, which a search list makes and the cluster does not have.
    Search,
    /// The same on a node, which has heard from the cluster that it does not have them.
    NodeSearch,
    /// The same names again, of a zone from a file.
    Zone(InZone),
}

/// What of a zone is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InZone {
    /// Names that it has.
    Names,
    /// Names that it does not have.
    Denials,
    /// Names below zones that it delegates.
    Referrals,
}

impl Kind {
    /// Whether upstreams deny what they are asked.
    fn is_denied(self) -> bool {
        matches!(self, Self::Denial | Self::NodeSearch)
    }
}

const fn hit(name: &'static str, block: &'static str) -> Scenario {
    Scenario { name, block, asked: "A", kind: Kind::Hit }
}

const fn in_zone(name: &'static str, asked: &'static str, of: InZone) -> Scenario {
    Scenario { name, block: FILE, asked, kind: Kind::Zone(of) }
}

const CLUSTER: &str = "errors\n prometheus\n loadbalance\n cache 30\n forward . 192.0.2.53";
/// A cluster's usual chain; where `kubernetes` would stand, `forward` answers.
const KUBERNETES: &str = "errors\n health\n ready\n prometheus\n forward . 192.0.2.53 {
    max_concurrent 1000\n }\n cache 30\n loop\n reload\n loadbalance";

/// The same chain with the cluster itself.
const CLUSTER_SERVER: &str = "errors\n health\n ready\n prometheus
    kubernetes cluster.local in-addr.arpa ip6.arpa {
    pods insecure\n fallthrough in-addr.arpa ip6.arpa\n ttl 30\n }
    forward . 192.0.2.53 {\n max_concurrent 1000\n }\n cache 30\n loop\n reload\n loadbalance";
/// What a node does with a zone of the cluster.
const NODE: &str = "errors\n prometheus\n search cluster.local\n cache 30\n forward . 192.0.2.53";
/// A usual chain whose answers are counted for those who want to see them.
const SEEN: &str = "chain-seen";
/// By these a node sees that it asks the servers of its cluster.
const WITNESSES: [(&str, [u8; 4]); 2] = [
    ("kubernetes.default.svc.cluster.local.", [10, 96, 0, 1]),
    ("dns.kube-system.svc.cluster.local.", [10, 99, 17, 4]),
];
/// Services of the cluster; those asked for are among them.
const SERVICES: usize = 10_000;

/// A server of a zone; `ZONE` stands for the file.
const FILE: &str = "errors\n prometheus\n file ZONE svc.cluster.local";

/// Endpoints of each of them where endpoints change.
const ENDPOINTS: usize = 10;
/// How many changes are published together, as at a thousand a second.
const CHANGES_TOGETHER: usize = 4;
/// What is counted of changes instead of questions.
const CHANGE: &str = "cluster-change";

const SCENARIOS: &[Scenario] = &[
    hit("cache", "cache\n forward . 192.0.2.53"),
    hit("chain", CLUSTER),
    Scenario { name: SEEN, block: CLUSTER, asked: "A", kind: Kind::Hit },
    Scenario { name: "chain-edns", block: CLUSTER, asked: "A +edns", kind: Kind::Hit },
    hit("kubernetes", KUBERNETES),
    Scenario { name: "kubernetes-nxdomain", block: KUBERNETES, asked: "A", kind: Kind::Denial },
    hit("log", "log\n errors\n prometheus\n loadbalance\n cache 30\n forward . 192.0.2.53"),
    hit(
        "rewrite",
        "rewrite name suffix .example.internal .svc.cluster.local answer auto\n errors\n prometheus
         loadbalance\n cache 30\n forward . 192.0.2.53",
    ),
    hit(
        "template",
        "errors\n prometheus\n template IN A svc.cluster.local {
         match (?P<service>[a-z0-9-]+)[.]team-[0-9]+[.]svc[.]cluster[.]local[.]$
         answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }",
    ),
    hit(
        "acl",
        "acl {\n allow net 10.0.0.0/8 172.16.0.0/12 192.0.2.0/24\n block\n }\n errors\n prometheus
         loadbalance\n cache 30\n forward . 192.0.2.53",
    ),
    Scenario { name: "cluster", block: CLUSTER_SERVER, asked: "A", kind: Kind::Service },
    Scenario { name: "cluster-srv", block: CLUSTER_SERVER, asked: "SRV", kind: Kind::Service },
    Scenario { name: "cluster-search", block: CLUSTER_SERVER, asked: "A", kind: Kind::Search },
    Scenario { name: "search", block: NODE, asked: "A", kind: Kind::NodeSearch },
    Scenario { name: "miss", block: KUBERNETES, asked: "A", kind: Kind::Miss },
    in_zone("file", "A", InZone::Names),
    in_zone("file-do-signed", "A +do", InZone::Names),
    in_zone("file-nxdomain", "A", InZone::Denials),
    in_zone("file-nxdomain-do-signed", "A +do", InZone::Denials),
    in_zone("file-referral", "A", InZone::Referrals),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    if name.as_deref() == Some(CHANGE) {
        return change(arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1000));
    }
    let scenario = SCENARIOS.iter().find(|scenario| Some(scenario.name) == name.as_deref());
    let Some(scenario) = scenario else {
        SCENARIOS.iter().for_each(|scenario| println!("{}", scenario.name));
        println!("{CHANGE}");
        return;
    };
    let questions: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let names = if scenario.kind == Kind::Miss { 2 * questions } else { NAMES };
    let exchanges: Vec<Exchange> = (0..names).map(|n| exchange(scenario, n)).collect();
    let mut bench = bench(scenario);
    if scenario.name == SEEN {
        bench.shared.seeing.open(1);
        let config = bench.worker.config().clone();
        bench.worker.set_config(config);
    }
    if matches!(scenario.kind, Kind::Service | Kind::Search | Kind::NodeSearch) {
        bench.publish(&cluster(), 1);
    }
    let denial = scenario.kind.is_denied();
    // The addresses that show whose zone it is are there.
    let is_witness = |question: &Message| {
        WITNESSES.iter().find(|(name, _)| question.questions[0].qname.to_string() == *name)
    };
    bench.upstream(move |_, question| {
        Reaction::Reply(match is_witness(question) {
            Some((_, address)) => answer(question, *address),
            None => reply(question, denial),
        })
    });
    let (warm, counted) = exchanges.split_at(if denial { 0 } else { names / 2 });
    if scenario.kind == Kind::Miss {
        answered(&mut bench, warm, warm.len());
        measured(&mut bench, counted, questions);
    } else {
        // So many are all counted; what is measured is what comes behind them.
        let whole = nodens_core::seeing::COUNTED_WHOLE as usize;
        exchanges.iter().for_each(|exchange| _ = bench.ask_bytes(&exchange.request));
        answered(&mut bench, &exchanges, whole + 2 * names);
        measured(&mut bench, &exchanges, questions);
    }
}

/// The server of a scenario.
fn bench(scenario: &Scenario) -> Bench {
    let block = |text: &str| Bench::new(&format!(".:53 {{\n {text}\n}}"));
    if !matches!(scenario.kind, Kind::Zone(_)) {
        return block(scenario.block);
    }
    let path = std::env::temp_dir().join(format!("nodens-hits-{}", std::process::id()));
    let text = zone::text(scenario.name.ends_with("signed"));
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let bench = block(&scenario.block.replace("ZONE", &path.display().to_string()));
    // It has been read.
    _ = std::fs::remove_file(&path);
    bench
}

fn cluster() -> String {
    let namespaces = (0..7).map(|n| format!("namespace team-{n}\n"));
    let services = (0..SERVICES).map(|n| {
        format!("service team-{}/service-{n} 10.0.{}.{} http:tcp:80\n", n % 7, n / 256, n % 256)
    });
    let witnesses =
        ["service default/kubernetes 10.96.0.1\n", "service kube-system/dns 10.99.17.4\n"];
    namespaces.chain(services).chain(witnesses.map(str::to_owned)).collect()
}

/// What a client asks, and what an upstream would answer.
struct Exchange {
    request: Vec<u8>,
    reply: Vec<u8>,
}

fn exchange(scenario: &Scenario, n: usize) -> Exchange {
    let zone = if scenario.name == "rewrite" { "example.internal" } else { "svc.cluster.local" };
    let question = match scenario.kind {
        Kind::Search | Kind::NodeSearch => {
            format!("www.site-{n}.example.team-{}.{zone}. {}", n % 7, scenario.asked)
        }
        Kind::Zone(InZone::Denials) => {
            format!("service-{n}x.team-{}.{zone}. {}", n % 7, scenario.asked)
        }
        Kind::Zone(InZone::Referrals) => {
            format!("www.example.below-{n}.{zone}. {}", scenario.asked)
        }
        _ => format!("service-{n}.team-{}.{zone}. {}", n % 7, scenario.asked),
    };
    let request = request(&question);
    let question = Message::parse(&request).unwrap_or_else(|error| panic!("{question}: {error}"));
    Exchange { request, reply: reply(&question, scenario.kind.is_denied()) }
}

fn answer(question: &Message, address: [u8; 4]) -> Vec<u8> {
    let mut answer = question.clone();
    answer.additional.clear();
    answer.flags = question.flags.reply().with(Flags::RA, true);
    let owner = question.questions[0].qname.clone();
    let (rtype, class, ttl, rdata) = (Type::A, Class::IN, 60, address.to_vec());
    answer.answer.push(Record { owner, rtype, class, ttl, rdata });
    let mut out = Vec::new();
    answer.write(&mut out).unwrap_or_else(|error| panic!("a reply: {error}"));
    out
}

fn reply(question: &Message, denial: bool) -> Vec<u8> {
    let mut answer = question.clone();
    answer.additional.clear();
    answer.flags = question.flags.reply().with(Flags::RA, true);
    let owner = question.questions[0].qname.clone();
    let (class, ttl) = (Class::IN, 60);
    if denial {
        answer.flags = answer.flags.with_rcode(Rcode::NXDOMAIN);
        let owner: Name = "cluster.local.".parse().unwrap_or_default();
        let soa = b"\x02ns\x03dns\x07cluster\x05local\x00\x0ahostmaster\x07cluster\x05local\x00\
            \0\0\0\x01\0\0\x1c\x20\0\0\x07\x08\0\x01\x51\x80\0\0\0\x1e";
        let rdata = soa.to_vec();
        answer.authority.push(Record { owner, rtype: Type::SOA, class, ttl, rdata });
    } else {
        let rdata = vec![192, 0, 2, 1];
        answer.answer.push(Record { owner, rtype: Type::A, class, ttl, rdata });
    }
    let mut out = Vec::new();
    answer.write(&mut out).unwrap_or_else(|error| panic!("a reply: {error}"));
    out
}

/// A cluster in which each change gives one endpoint of a service another address.
fn change(changes: usize) {
    let feed = Clusters::default().feed(&Source::default());
    let mut editor = Editor::default();
    for service in 0..SERVICES {
        let slice = slice(&editor, service, 0);
        editor.set_slice(slice);
    }
    feed.publish(editor.snapshot(1));
    measured_changes(&mut editor, &feed, changes);
}

/// The slice of a service after so many changes of it.
fn slice(editor: &Editor, service: usize, version: usize) -> Slice {
    let key = Key::new("team", &format!("service-{service}"));
    let key = key.unwrap_or_else(|error| panic!("a name: {error}"));
    let id = editor.slice_id(key, &format!("service-{service}-x7k2p"));
    let endpoints = (0..ENDPOINTS).map(|endpoint| {
        let [.., high, middle, low] = (service * ENDPOINTS + endpoint).to_be_bytes();
        let first = if endpoint == 0 { 11 + version % 200 } else { 10 };
        let address = IpAddr::from([first as u8, high, middle, low]);
        NewEndpoint { address, hostname: "", pod: "", zone: "" }
    });
    Slice::new(id, "", [].into(), endpoints)
}

/// What the instructions are counted of: changes of one service after the other.
#[inline(never)]
fn measured_changes(editor: &mut Editor, feed: &Feed, changes: usize) {
    for number in 0..changes {
        // Neighbours in the cluster do not change one after the other.
        let slice = slice(editor, number * 7919 % SERVICES, 1 + number / SERVICES);
        editor.set_slice(slice);
        if number % CHANGES_TOGETHER == CHANGES_TOGETHER - 1 {
            feed.publish(editor.snapshot(1 + number as u64 / 1000));
        }
    }
}

/// What the instructions are counted of: `questions` of the exchanges, in turn.
#[inline(never)]
fn measured(bench: &mut Bench, exchanges: &[Exchange], questions: usize) {
    answered(bench, exchanges, questions);
}

#[inline(never)]
fn answered(bench: &mut Bench, exchanges: &[Exchange], questions: usize) {
    let mut out = Vec::with_capacity(512);
    let mut actions = Vec::with_capacity(16);
    for exchange in exchanges.iter().cycle().take(questions) {
        match bench.worker.receive(bench.now, bench.client, &exchange.request, &mut out) {
            // One in a batch, which is the dearest.
            Verdict::Answered => bench.worker.sent(bench.now.mono_ns),
            Verdict::Pending => finish(bench, exchange, &mut actions),
            Verdict::Streaming => panic!("an answer of many messages"),
            Verdict::Silent => panic!("no answer"),
        }
    }
}

/// Does for a question that waits what the owner of the sockets does.
fn finish(bench: &mut Bench, exchange: &Exchange, actions: &mut Vec<Action>) {
    bench.now.mono_ns += 100_000;
    bench.worker.take_actions(actions);
    for action in actions.drain(..) {
        let Action::Ask(ask) = action else { continue };
        assert!(bench.worker.ask_message(ask.ticket).is_some(), "somebody waits");
        bench.worker.tick(bench.now);
        bench.worker.reply(bench.now, ask.ticket, ask.attempt, &exchange.reply);
    }
    bench.worker.take_actions(actions);
    assert_eq!(actions.len(), 1, "one answer");
    for action in actions.drain(..) {
        let Action::Send { wire, .. } = action else { panic!("{action:?}") };
        bench.worker.sent(bench.now.mono_ns);
        bench.worker.reuse(wire);
    }
}
