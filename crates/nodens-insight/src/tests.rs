use crate::{Collector, Domains, Leak, LeakKind, Place, Report, Surroundings, page};
use nodens_core::handlers::template::denies;
use nodens_core::testing::{Bench, Reaction, request};
use nodens_core::worker::Verdict;
use nodens_wire::{Flags, Message, Name, NameRef, Rcode};
use std::net::{IpAddr, SocketAddr};

/// Every name that begins with `good` exists.
const COREFILE: &str = "cluster.local:53 {\n errors\n forward . 192.0.2.53\n}
    .:53 {\n errors\n forward . 192.0.2.54\n}";
const DOMAINS: [&str; 5] = [
    "shop.svc.cluster.local",
    "svc.cluster.local",
    "cluster.local",
    "eu.compute.internal",
    "corp.example",
];

struct Scene {
    bench: Bench,
    collector: Collector,
}

fn wire(name: &str) -> Vec<u8> {
    name.parse::<Name>().unwrap().as_wire().to_vec()
}

impl Scene {
    fn new() -> Self {
        let mut bench = Bench::new(COREFILE);
        bench.shared.seeing.open(1);
        bench.reload(COREFILE).unwrap();
        bench.upstream(|_, question| {
            let mut answer = question.clone();
            let name = question.questions[0].qname.to_string();
            let exists = name.starts_with("good") && !name.contains("cluster.local");
            let rcode = match &*name {
                "broken.example." => Rcode::SERVFAIL,
                _ if exists => Rcode::NOERROR,
                _ => Rcode::NXDOMAIN,
            };
            answer.flags = question.flags.reply().with(Flags::RA, true).with_rcode(rcode);
            let mut out = Vec::new();
            answer.write(&mut out).unwrap();
            Reaction::Reply(out)
        });
        let collector = Collector::new(bench.shared.clone());
        Self { bench, collector }
    }

    fn ask(&mut self, client: [u8; 4], qname: &str) -> Rcode {
        self.bench.client.peer = SocketAddr::from((client, 40_000));
        let mut rcode = Rcode::NOERROR;
        for qtype in ["A", "AAAA"] {
            let mut out = Vec::new();
            let request = request(&format!("{qname} {qtype}"));
            let verdict =
                self.bench.worker.receive(self.bench.now, self.bench.client, &request, &mut out);
            let sent = self.bench.act();
            if verdict == Verdict::Pending {
                out.clone_from(&sent[0].1);
            }
            rcode = Message::parse(&out).unwrap().flags.rcode();
        }
        rcode
    }

    /// Looks for a name as a stub resolver does, with as many dots as `ndots:5` wants.
    fn look_up(&mut self, client: [u8; 4], name: &str) {
        for domain in DOMAINS {
            if self.ask(client, &format!("{name}.{domain}")) == Rcode::NOERROR {
                return;
            }
        }
        self.ask(client, name);
    }

    fn report(&mut self) -> Report {
        let config = self.bench.worker.config().clone();
        let domains = Domains::new(vec![wire("cluster.local")], Vec::new());
        let is_stopped = |name: &[u8]| NameRef::new(name).is_ok_and(|name| denies(&config, name));
        let place_of = |address: IpAddr| {
            let pod = format!("pod-{}", address.to_string().rsplit('.').next()?);
            Some(Place { namespace: "shop".to_owned(), pod })
        };
        self.collector.report(&Surroundings {
            host: "node-1".to_owned(),
            unix_s: 1_700_000_000,
            domains,
            is_stopped: &is_stopped,
            place_of: &place_of,
        })
    }

    /// A second in which `what` happens.
    fn second(&mut self, what: impl FnOnce(&mut Self)) {
        what(self);
        self.collector.collect(1.0);
    }
}

fn find<'r>(report: &'r Report, name: &str) -> &'r Leak {
    let leak = report.leaks.iter().find(|leak| leak.name == name);
    leak.unwrap_or_else(|| panic!("no {name} among {:#?}", report.leaks))
}

/// The story of seed 000.
#[test]
fn a_bad_name_through_five_search_domains_is_first_with_its_pod_and_gone_when_stopped() {
    let mut scene = Scene::new();
    let busy = |scene: &mut Scene| {
        for n in 0..20 {
            scene.ask([10, 0, 0, 1 + n], &format!("good-{n}.example.org"));
        }
        scene.look_up([10, 0, 0, 3], "good.example.org");
        scene.ask([10, 0, 0, 4], "typo.example.org");
        scene.look_up([10, 0, 0, 7], "db.bad.invalid");
        scene.look_up([10, 0, 0, 7], "db.bad.invalid");
    };
    for _ in 0..3 {
        scene.second(busy);
    }
    let report = scene.report();
    let leak = &report.leaks[0];
    assert_eq!((leak.kind, &*leak.name), (LeakKind::Name, "db.bad.invalid."));
    // Two lookups a second, each of two types in five domains and by itself.
    assert!((leak.rate - 24.0).abs() < 0.1 && (leak.upstream - 24.0).abs() < 0.1, "{leak:?}");
    assert!((leak.amplification - 12.0).abs() < 0.1 && (leak.lookups - 2.0).abs() < 0.1);
    assert_eq!(leak.domains, DOMAINS.map(|domain| format!("{domain}.")));
    assert!(leak.bare);
    let source = &leak.sources[0];
    assert_eq!((source.address.to_string(), leak.source_count), ("10.0.0.7".to_owned(), 1));
    assert_eq!(source.place.as_ref().unwrap().pod, "pod-7");
    let domains = DOMAINS.join(",");
    assert_eq!(leak.command, format!("nodens blackhole db.bad.invalid -search {domains}"));
    assert_eq!(find(&report, "typo.example.org.").amplification, 2.0);
    // What is found after a walk is noise of search lists, and no bad name.
    let noise = find(&report, "good.example.org.");
    assert_eq!((noise.kind, noise.bare), (LeakKind::Search, false));
    assert!(noise.command.contains(" -search-only shop.svc.cluster.local,"), "{noise:?}");

    let stopped = COREFILE.replace(
        "forward",
        "template IN ANY {\n match ^db[.]bad[.]invalid[.]\n rcode NXDOMAIN\n fallthrough\n }\n forward",
    );
    scene.bench.reload(&stopped).unwrap();
    scene.second(busy);
    let report = scene.report();
    assert!(report.leaks.iter().all(|leak| leak.name != "db.bad.invalid."), "{:?}", report.leaks);
    assert_eq!(report.stopped[0].name, "db.bad.invalid.");
    let page = page::render(&report);
    assert!(page.contains("db.bad.invalid.") && page.contains("Stopped"));
}

#[test]
fn ever_new_names_are_one_storm_and_a_failing_name_is_said_to_fail() {
    let mut scene = Scene::new();
    scene.second(|scene| {
        for n in 0..2000 {
            scene.ask([10, 0, 0, 9], &format!("x{n}.attack.example"));
        }
        scene.ask([10, 0, 0, 8], "broken.example");
    });
    let report = scene.report();
    let storm = &report.leaks[0];
    assert_eq!((storm.kind, &*storm.name), (LeakKind::Storm, "*.attack.example."));
    assert_eq!(storm.command, "nodens blackhole '*.attack.example'");
    // Few of the names are kept, and what all of them cost is known still.
    assert!((storm.rate / 4000.0 - 1.0).abs() < 0.05, "{storm:?}");
    assert_eq!(report.leaks.len(), 2, "{:?}", report.leaks);
    let failure = find(&report, "broken.example.");
    assert_eq!((failure.kind, &*failure.rcode), (LeakKind::Failure, "SERVFAIL"));
    assert!(failure.command.is_empty());
}

#[test]
fn what_ends_fades_and_is_forgotten() {
    let mut scene = Scene::new();
    scene.second(|scene| scene.look_up([10, 0, 0, 7], "bad.invalid"));
    assert!((find(&scene.report(), "bad.invalid.").rate - 12.0).abs() < 0.1);
    (0..10).for_each(|_| scene.second(|_| {}));
    assert!(find(&scene.report(), "bad.invalid.").rate < 1.0);
    (0..60).for_each(|_| scene.second(|_| {}));
    assert!(scene.report().leaks.is_empty());
    assert_eq!(scene.report().history.len(), 71);
}

#[test]
fn a_command_is_safe_to_paste_whatever_the_name() {
    let mut scene = Scene::new();
    scene.second(|scene| {
        scene.ask([10, 0, 0, 7], "a;reboot.invalid");
        scene.ask([10, 0, 0, 7], "<script>.invalid");
        scene.ask([10, 0, 0, 7], "-write.invalid");
    });
    let report = scene.report();
    assert_eq!(report.leaks.len(), 3);
    assert!(report.leaks.iter().all(|leak| leak.command.is_empty()), "{:?}", report.leaks);
    assert!(!page::render(&report).contains("<script>.invalid"));
}

#[test]
fn the_page_runs_its_own_script_alone() {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let mut scene = Scene::new();
    let evil = "<script>alert(1)</script>.invalid";
    scene.second(|scene| _ = scene.ask([10, 0, 0, 7], evil));
    let page = page::render(&scene.report());
    let mut scripts = page.split("<script>").skip(1).map(|rest| rest.split("</script>").next());
    let script = scripts.next().flatten().unwrap();
    assert_eq!(scripts.next(), None);
    let hash = base64::prelude::BASE64_STANDARD.encode(Sha256::digest(script));
    assert!(page::policy().contains(&format!("script-src 'sha256-{hash}';")), "{script}");
    assert!(page.contains("&lt;script&gt;alert"), "the name is shown");
}

#[test]
fn a_report_is_the_same_after_a_way_through_json() {
    let mut scene = Scene::new();
    scene.second(|scene| scene.look_up([10, 0, 0, 7], "bad.invalid"));
    let mut report = scene.report();
    let json = serde_json::to_string(&report).unwrap();
    let again: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(again.leaks[0].name, report.leaks[0].name);
    report.leaks.clear();
    assert_ne!(again, report);
}
