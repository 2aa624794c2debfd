//! The node role: node-cache's arguments on a node that is a network namespace.

mod handover;
mod hang;
mod outage;
mod place;
mod update;

use crate::fixture::{Folder, eventually, need, nodens};
use nodens_wire::Rcode;
use place::{Place, text, write_template};

const CLUSTER_DNS: &str = "10.96.0.10";
const WEB: &str = "web.default.svc.cluster.local";

/// The manifest's arguments, with the files in a folder of the test.
fn arguments(folder: &Folder) -> Vec<String> {
    let at = |name: &str| folder.0.join(name).display().to_string();
    let pairs = [
        ("-localip", "169.254.20.10,10.96.0.10".to_owned()),
        ("-conf", at("Corefile")),
        ("-upstreamsvc", "kube-dns-upstream".to_owned()),
        ("-pidfile", at("pid")),
        ("-basecorefile", write_template(folder)),
        ("-kubednscm", at("kube-dns")),
        // Names in it belong to a node.
        ("-handover-dir", crate::handover::rendezvous()),
    ];
    std::fs::create_dir_all(folder.0.join("kube-dns")).unwrap();
    pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn questions_come_here_once_an_upstream_answers_and_leave_with_the_process() {
    let place = Place::new();
    let folder = Folder::new("node-role");
    let arguments = arguments(&folder);
    let server = place.start(folder, &borrowed(&arguments));
    server.wait_for("waiting until an upstream answers, queries go to the central servers");
    assert!(!place.ip("address").contains(CLUSTER_DNS), "nothing diverts questions yet");
    let ready = || place.get("127.0.0.1:9353", "/ready").unwrap();
    assert!(ready().0.contains("503") && ready().1 == "node", "{:?}", ready());
    // The template is filled in as by node-cache, and ours is the process of the pidfile.
    let corefile = text(&server.conf);
    assert!(corefile.contains("    bind 169.254.20.10 10.96.0.10 \n    forward . 10.96.0.11 {\n"));
    let pid = text(&server.folder.0.join("pid"));
    assert!(pid.trim().parse::<u32>().is_ok(), "{pid:?}");

    // Its own health check finds no address, which is as it should be.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(server.count_seen("Local health request"), 0);

    let upstream = place.start_upstream("node-role-upstream");
    server.wait_for("upstream 10.96.0.11:53 answered over tcp after ");
    eventually("the address comes", || place.ip("address").contains(CLUSTER_DNS));
    for address in ["169.254.20.10", CLUSTER_DNS] {
        eventually("an answer", || {
            place.ask(address, WEB).is_some_and(|answer| answer.answer.len() == 1)
        });
    }
    eventually("ready", || ready().1 == "OK");
    assert_eq!(place.get("169.254.20.10:8080", "/health").unwrap().1, "OK");
    let (_, metrics) = place.get("127.0.0.1:9353", "/metrics").unwrap();
    for kind in ["iptables", "iptables_lock", "interface_add", "interface_check", "configmap"] {
        let line = format!("coredns_nodecache_setup_errors_total{{errortype=\"{kind}\"}} 0\n");
        assert!(metrics.contains(&line), "no {line} in\n{metrics}");
    }
    assert!(metrics.contains("\nnodens_node_attracting 1\n"), "{metrics}");

    let folder = server.folder.0.clone();
    assert_eq!(server.end("-TERM").code(), Some(0));
    assert!(!place.ip("link").contains("nodelocaldns"), "the link is gone");
    assert!(!folder.join("pid").exists());
    assert_eq!(upstream.end("-TERM").code(), Some(0));
}

#[test]
fn a_stub_domain_of_the_configmap_is_asked_where_it_says() {
    let place = Place::new();
    let _upstream = place.start_upstream("node-stub-upstream");
    let folder = Folder::new("node-stub");
    let arguments = arguments(&folder);
    let server = place.start(folder, &borrowed(&arguments));
    server.wait_for("Nodens-");
    eventually("an answer", || place.ask(CLUSTER_DNS, WEB).is_some());
    let stubs = server.folder.0.join("kube-dns/stubDomains");
    std::fs::write(&stubs, r#"{"test": ["10.96.0.11"]}"#).unwrap();
    server.wait_for("Updated Corefile with 1 custom stubdomains");
    server.wait_for("Reloading complete");
    eventually("the stub domain is served", || {
        place.ask(CLUSTER_DNS, "a.test").is_some_and(|answer| answer.answer.len() == 1)
    });
    // What does not fit is said, and what was there stays.
    std::fs::write(&stubs, "{").unwrap();
    server.wait_for("ignoring this update: stubDomains: EOF");
    assert!(text(&server.conf).contains("test:53 {"));
    assert_eq!(server.end("-TERM").code(), Some(0));
}

#[test]
fn an_upstream_service_that_is_not_known_is_waited_for_and_never_written() {
    let place = Place::new();
    let folder = Folder::new("node-nil");
    let mut arguments = arguments(&folder);
    arguments.extend(["-upstreamsvc".to_owned(), "no-such-service".to_owned()]);
    let server = place.start(folder, &borrowed(&arguments));
    let line = server.wait_for("waiting for the address of the upstream service no-such-service");
    assert!(line.contains("the environment has no NO_SUCH_SERVICE_SERVICE_HOST"), "{line}");
    assert_eq!(text(&server.conf), "", "no Corefile without an upstream");
    assert_eq!(server.end("-TERM").code(), Some(0));
}

#[test]
fn a_foreign_process_on_the_port_is_named_and_waited_for() {
    need("python3", "python3");
    let place = Place::new();
    let _upstream = place.start_upstream("node-foreign-upstream");
    let script = "import socket, time\n\
                  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  s.bind(('169.254.20.10', 53))\nprint('bound', flush=True)\ntime.sleep(600)\n";
    place.ip("address add 169.254.20.10/32 dev lo");
    let mut foreign = place.command("python3");
    let mut foreign =
        foreign.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut bound = [0; 5];
    std::io::Read::read_exact(foreign.stdout.as_mut().unwrap(), &mut bound).unwrap();
    let folder = Folder::new("node-foreign");
    let mut arguments = arguments(&folder);
    // In the folder of the template it would be a change.
    let elsewhere = Folder::new("node-foreign-pid");
    arguments.extend(["-pidfile".to_owned(), elsewhere.0.join("pid").display().to_string()]);
    let base = folder.0.join("Corefile.base");
    folder.write("Corefile.base", &text(&base).replace("    reload\n", ""));
    let server = place.start(folder, &borrowed(&arguments));
    let line = server.wait_for("listen udp 169.254.20.10:53: bind: address already in use");
    let holder = format!("python3 (process {}) has it; trying again", foreign.id());
    assert!(line.contains(&holder), "{line}");
    assert!(!place.ip("address").contains(CLUSTER_DNS), "nothing diverts questions meanwhile");
    std::fs::write(server.folder.0.join("kube-dns/stubDomains"), r#"{"test": ["10.96.0.11"]}"#)
        .unwrap();
    server.signal("-USR1");
    std::thread::sleep(std::time::Duration::from_secs(1));
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    place.ip("address del 169.254.20.10/32 dev lo");
    eventually("an answer", || place.ask(CLUSTER_DNS, WEB).is_some());
    // What changed meanwhile is seen all the same.
    server.wait_for("Updated Corefile with 1 custom stubdomains");
    server.wait_for("SIGUSR1: Reloading");
    assert_eq!(server.end("-TERM").code(), Some(0));
}

/// What the manifest for Cilium has besides. There is nothing to hand over, and a folder that is missing
/// for it would be said to send queries to the central servers during updates.
const FOR_CILIUM: [&str; 5] =
    ["-handover", "off", "-setupinterface=false", "-setupiptables=false", "-skipteardown=true"];

/// The arguments of a manifest of `deploy/node`.
fn of_manifest(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let words = lines.map_while(|line| line.trim().strip_prefix("- "));
    words.map(|word| word.trim_matches('"')).collect()
}

/// A template for a server that is at no address of its own.
fn write_for_cilium(folder: &Folder) {
    let text = "cluster.local:53 {\n bind 127.0.0.1\n forward . __PILLAR__CLUSTER__DNS__ {\n  force_tcp\n }\n}\n";
    folder.write("Corefile.base", text);
}

#[test]
fn for_cilium_the_network_is_left_alone() {
    let mut besides = of_manifest(include_str!("../../../../../deploy/node/cilium.yaml"));
    let usual = of_manifest(include_str!("../../../../../deploy/node/kube-proxy.yaml"));
    besides.retain(|word| !usual.contains(word));
    assert_eq!(besides, FOR_CILIUM);
    let place = Place::new();
    let _upstream = place.start_upstream("node-cilium-upstream");
    let folder = Folder::new("node-cilium");
    let mut arguments = arguments(&folder);
    write_for_cilium(&folder);
    arguments.extend(FOR_CILIUM.map(str::to_owned));
    let server = place.start(folder, &borrowed(&arguments));
    server.wait_for("answered over tcp after ");
    eventually("ready", || {
        place.get("127.0.0.1:9353", "/ready").is_some_and(|(_, body)| body == "OK")
    });
    let answer = place.ask("127.0.0.1", WEB).unwrap();
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 1));
    assert!(!place.ip("link").contains("nodelocaldns"));
    assert_eq!(server.end("-TERM").code(), Some(0));
}

#[test]
fn what_a_template_becomes_can_be_seen_beforehand() {
    let folder = Folder::new("node-check");
    let base = folder.write("Corefile.base", ".:53 {\n forward . __PILLAR__CLUSTER__DNS__\n}\n");
    let check = |more: &[&str]| {
        let mut command = nodens();
        command.args(["-localip", "169.254.20.10", "-basecorefile"]).arg(&base);
        let output = command.args(["-conf", "/no/such/file"]).args(more).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = check(&["-print-effective", "-upstreamsvc", "10.96.0.11"]);
    assert!(code == Some(0) && text.contains("forward . 10.96.0.11  # "), "{text}");
    let (code, text) = check(&["-check"]);
    assert!(code == Some(1) && text.contains("the address of that service is not known"), "{text}");
}
