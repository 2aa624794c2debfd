//! `nodens-e2e clients`: resolvers that applications have, in pods with the search lists that kubelets write, with
//! and without `autopath @kubernetes`.
//!
//! For each pod and resolver it counts the queries that reach the server, compares the addresses found with those
//! found without `autopath` and with the objects of the cluster, and compares the counts with what is promised: one
//! query for each type of address where the pod's search list is known, and none saved where it is not.

mod pods;
pub(crate) mod programs;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as Arguments;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use self::pods::Pod;
use self::programs::Program;
use crate::control_plane::{ControlPlane, Credential, Options, reader_rules};
use crate::sandbox::Sandbox;
use crate::server::{Endpoint, Program as ServerProgram, Server};

/// Seconds that the token of the servers is valid.
const DAY: i64 = 86_400;
/// How long the log may take to hold what has been counted.
const LOG_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the server may take to learn of a pod.
const KNOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// Names as applications write them.
const NAMES: [&str; 11] = [
    "www.example.org",
    "old.example.org",
    "printer",
    "box",
    "web",
    "db.other",
    "kubernetes.default.svc",
    "peers",
    "peer-0.peers",
    "ext",
    "nowhere.example.org",
];

/// Names outside of the cluster, which an upstream serves.
const OUTSIDE: [(&str, &str, &str); 7] = [
    ("www.example.org", "A", "192.0.2.80"),
    ("www.example.org", "AAAA", "2001:db8::80"),
    ("target.example.org", "A", "192.0.2.83"),
    ("target.example.org", "AAAA", "2001:db8::83"),
    ("old.example.org", "A", "192.0.2.81"),
    ("printer.node.test", "A", "192.0.2.82"),
    ("box.lab.test", "A", "192.0.2.84"),
];

#[derive(Arguments)]
pub(crate) struct Args {
    /// Ask CoreDNS, too, and show what it is asked.
    #[arg(long)]
    coredns: bool,
}

/// A server with an address, and how the report calls it.
struct Place {
    title: &'static str,
    address: &'static str,
    server: Server,
}

/// What a client found and asked.
#[derive(Debug)]
struct Walk {
    addresses: Vec<String>,
    /// By the places of [`NAMES`].
    questions: Vec<usize>,
    /// What the server logged.
    log: Vec<String>,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let plane = ControlPlane::start(sandbox, Options::default()).await?;
    let account = plane.account("dns", reader_rules()).await?;
    let kubeconfig = plane.kubeconfig("dns", &Credential::Token(plane.token(&account, DAY)?))?;
    let client = plane.admin().await?;
    let mut expected = populate(&client).await?;
    expected.extend(OUTSIDE.map(|(name, _, address)| format!("{name} {address}")));
    let pods = pods::all();
    for pod in &pods {
        pod.create(&client).await?;
    }
    let addresses = ["10.96.0.10", "10.96.0.11", "10.96.0.12"];
    let folder = pods::network(sandbox, &addresses)?;
    let mut places = vec![
        place(sandbox, "with", addresses[0], &ServerProgram::nodens()?, true, &kubeconfig).await?,
        place(sandbox, "without", addresses[1], &ServerProgram::nodens()?, false, &kubeconfig)
            .await?,
    ];
    if args.coredns {
        let program = ServerProgram::CoreDns;
        places.push(place(sandbox, "CoreDNS", addresses[2], &program, true, &kubeconfig).await?);
    }
    let programs = programs::build(&folder)?;
    let mut faults = Vec::new();
    for pod in &pods {
        pod.connect()?;
        println!("\npod {}: search {} ndots:{}", pod.name, pod.search.join(" "), pod.ndots);
        for program in &programs {
            check(&folder, pod, program, &mut places, &expected, &mut faults).await?;
        }
        pod.disconnect()?;
    }
    let successor = inherit(&client, &pods).await?;
    println!("\npod {}, with the address of pod {}", successor.name, pods[0].name);
    successor.connect()?;
    become_known(&folder, &successor, &programs[0], &mut places[0], &expected).await?;
    check(&folder, &successor, &programs[0], &mut places, &expected, &mut faults).await?;
    successor.disconnect()?;
    for fault in &faults {
        println!("{fault}");
    }
    println!("\n{} pods, {} resolvers, {} faults", pods.len(), programs.len(), faults.len());
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Deletes the first pod and gives its address to another one, in another namespace.
async fn inherit(client: &Client, pods: &[Pod]) -> Result<Pod> {
    let successor = pods::successor();
    let first =
        pods.iter().find(|pod| pod.address == successor.address).context("no such address")?;
    first.delete(client).await?;
    successor.create(client).await?;
    Ok(successor)
}

/// Looks names up until the server knows whose the address is now. Until then, too, what is found is what the pod's
/// own search list leads to.
async fn become_known(
    folder: &Path,
    pod: &Pod,
    program: &Program,
    place: &mut Place,
    expected: &[String],
) -> Result<()> {
    let deadline = Instant::now() + KNOWN_TIMEOUT;
    loop {
        let walk = walk(folder, pod, program, place).await?;
        if let Some(wrong) = walk.addresses.iter().find(|line| !is_expected(expected, line)) {
            bail!("pod {} found {wrong}", pod.name);
        }
        if check_labels(pod, &walk.log).is_ok() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("pod {} is not known: {:?}", pod.name, walk.log.last());
        }
    }
}

/// Whether a line `NAME ADDRESS`, or an address, stands for an object.
fn is_expected(expected: &[String], line: &str) -> bool {
    let address = line.rsplit(' ').next().unwrap_or_default();
    expected.iter().any(|known| known.ends_with(&format!(" {address}")))
}

/// Runs one client against all servers, prints its queries, and notes what differs from the promise.
async fn check(
    folder: &Path,
    pod: &Pod,
    program: &Program,
    places: &mut [Place],
    expected: &[String],
    faults: &mut Vec<String>,
) -> Result<()> {
    let mut walks = Vec::new();
    for place in places.iter_mut() {
        walks.push(walk(folder, pod, program, place).await?);
    }
    for walk in &walks {
        check_labels(pod, &walk.log)?;
    }
    let at = |text: &str| format!("{} in pod {}: {text}", program.name, pod.name);
    let (with, without) = (&walks[0], &walks[1]);
    if with.addresses != without.addresses {
        faults.push(at(&format!("found {:?}, without {:?}", with.addresses, without.addresses)));
    }
    if let Some(line) = with.addresses.iter().find(|line| !is_expected(expected, line)) {
        faults.push(at(&format!("found {line}, which is in no object")));
    }
    if let Some(other) = walks.get(2).filter(|other| other.addresses != without.addresses) {
        let wrong = other.addresses.iter().filter(|line| !without.addresses.contains(line));
        println!(
            "  CoreDNS leads {} to {}",
            program.name,
            wrong.cloned().collect::<Vec<_>>().join(", ")
        );
    }
    println!("  {:6} {:24} {}", program.name, "", titles(places));
    for (at_name, name) in NAMES.iter().enumerate() {
        let counts: Vec<usize> = walks.iter().map(|walk| walk.questions[at_name]).collect();
        let shown: Vec<String> = counts.iter().map(|count| format!("{count:>9}")).collect();
        println!("  {:6} {name:24} {}", "", shown.join(" "));
        let exists = program.finds(pod, name);
        // dig does not say which name it found.
        let found = with.addresses.iter().any(|line| line.starts_with(&format!("{name} ")));
        if program.types == 2 && found != exists {
            faults.push(at(&format!("{name}: found {found}, not {exists}")));
        }
        let promised = match pod.is_known && exists && dots(name) < pod.ndots {
            true => program.types,
            false => counts[1],
        };
        if counts[0] != promised {
            faults.push(at(&format!("{name} took {} queries, not {promised}", counts[0])));
        }
    }
    Ok(())
}

fn dots(name: &str) -> usize {
    name.matches('.').count()
}

fn titles(places: &[Place]) -> String {
    let titles: Vec<String> = places.iter().map(|place| format!("{:>9}", place.title)).collect();
    titles.join(" ")
}

/// Runs one client against one server.
async fn walk(folder: &Path, pod: &Pod, program: &Program, place: &mut Place) -> Result<Walk> {
    let seen = place.server.process().log().len();
    let before = questions(&place.server)?;
    let output = pod.run(folder, place.address, &program.command(&NAMES))?;
    let deadline = Instant::now() + LOG_TIMEOUT;
    let log = loop {
        let (log, after) = (place.server.process().log(), questions(&place.server)?);
        let new: Vec<String> =
            log.get(seen..).unwrap_or_default().lines().map(str::to_owned).collect();
        let asked: Vec<String> = new.into_iter().filter(|line| line.contains("asked ")).collect();
        if asked.len() == after - before {
            break asked;
        }
        if Instant::now() > deadline {
            bail!("{}: {} queries counted, {} logged", place.title, after - before, asked.len());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let count = |name: &str| {
        let qname =
            |line: &String| line.split_whitespace().nth_back(1).unwrap_or_default().to_owned();
        let begins =
            |qname: String| qname.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        log.iter().map(qname).filter(|qname| begins(qname.clone())).count()
    };
    let questions = NAMES.map(count).to_vec();
    Ok(Walk { addresses: program.addresses(&output), questions, log })
}

/// The log names the pod that sent the query, if it can be known.
fn check_labels(pod: &Pod, log: &[String]) -> Result<()> {
    let alone = !pod.name.contains("host");
    let wanted = match alone {
        true => format!("{}/{}", pod.namespace, pod.name),
        false => return Ok(()),
    };
    match log.iter().find(|line| !line.ends_with(&format!(" {wanted}"))) {
        Some(line) => bail!("'{line}' does not end with {wanted}"),
        None => Ok(()),
    }
}

/// How many queries of clients the server has counted at its own address.
fn questions(server: &Server) -> Result<usize> {
    let (_, text) = server.get(Endpoint::Metrics)?;
    let lines = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total{"));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum::<f64>() as usize)
}

async fn place(
    sandbox: &Sandbox,
    title: &'static str,
    address: &'static str,
    program: &ServerProgram,
    autopath: bool,
    kubeconfig: &Path,
) -> Result<Place> {
    let upstream = format!("127.0.0.{}", address.rsplit('.').next().unwrap_or("1"));
    let corefile = corefile(address, &upstream, autopath, kubeconfig);
    let mut server = Server::start(sandbox, program, title, &corefile, &[])?;
    server.ready().await.with_context(|| format!("server {title}"))?;
    Ok(Place { title, address, server })
}

/// The server of the cluster, and an upstream with [`OUTSIDE`] that is neither logged nor counted.
fn corefile(address: &str, upstream: &str, autopath: bool, kubeconfig: &Path) -> String {
    let autopath = if autopath { "autopath @kubernetes" } else { "" };
    let label = "{/kubernetes/client-namespace}/{/kubernetes/client-pod-name}";
    let mut text = format!(
        ".:53 {{
    bind {address}
    metadata
    log . \"asked {{type}} {{name}} {label}\"
    errors
    ready 127.0.0.1:{{$READY}}
    prometheus 127.0.0.1:{{$METRICS}}
    {autopath}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {}
        pods verified
        fallthrough in-addr.arpa ip6.arpa
    }}
    cache 30
    forward . {upstream}:5300
}}
.:5300 {{
    bind {upstream}
",
        kubeconfig.display()
    );
    let pattern = |name: &str| name.replace('.', "[.]");
    for (name, rtype, address) in OUTSIDE {
        let answer = format!("\"{{{{ .Name }}}} 30 IN {rtype} {address}\"");
        let name = pattern(name);
        text += &format!(
            "    template IN {rtype} {{\n        match ^{name}[.]$\n        answer {answer}\n        \
             fallthrough\n    }}\n"
        );
    }
    for (name, _, _) in OUTSIDE {
        let name = pattern(name);
        text += &format!(
            "    template ANY ANY {{\n        match ^{name}[.]$\n        fallthrough\n    }}\n"
        );
    }
    let soa = "\". 60 IN SOA ns. root. 1 2 3 4 60\"";
    text += &format!(
        "    template ANY ANY {{\n        rcode NXDOMAIN\n        authority {soa}\n    }}\n}}\n"
    );
    text
}

/// Makes the services that [`NAMES`] name; gives their names and addresses.
async fn populate(client: &Client) -> Result<Vec<String>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let other = json!({"metadata": {"name": "other"}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(other)?).await?;
    let ports = json!([{"port": 80, "name": "http"}]);
    let services = [
        ("default", "web", json!({"ports": ports, "ipFamilyPolicy": "PreferDualStack"})),
        ("other", "db", json!({"ports": ports})),
        ("default", "peers", json!({"ports": ports, "clusterIP": "None"})),
        ("default", "ext", json!({"type": "ExternalName", "externalName": "target.example.org"})),
    ];
    let mut found = Vec::new();
    for (namespace, name, spec) in services {
        found.extend(service(client, namespace, name, spec).await?);
    }
    let default: Api<Service> = Api::namespaced(client.clone(), "default");
    found.extend(addresses_of(&default.get("kubernetes").await?));
    found.extend(peers(client).await?);
    Ok(found)
}

async fn service(client: &Client, namespace: &str, name: &str, spec: Value) -> Result<Vec<String>> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let service = json!({"metadata": {"name": name}, "spec": spec});
    let service = services
        .create(&PostParams::default(), &serde_json::from_value(service)?)
        .await
        .with_context(|| format!("service {name}"))?;
    Ok(addresses_of(&service))
}

fn addresses_of(service: &Service) -> Vec<String> {
    let name = service.metadata.name.clone().unwrap_or_default();
    let ips = service.spec.as_ref().and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default();
    ips.iter().filter(|ip| *ip != "None").map(|ip| format!("{name} {ip}")).collect()
}

async fn peers(client: &Client) -> Result<Vec<String>> {
    let peers = BTreeMap::from([("peer-0", "10.244.9.1"), ("peer-1", "10.244.9.2")]);
    let endpoint = |(name, ip): (&&str, &&str)| json!({"addresses": [ip], "hostname": name, "conditions": {"ready": true}});
    let slice = json!({
        "metadata": {"name": "peers-1", "labels": {"kubernetes.io/service-name": "peers"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "endpoints": peers.iter().map(endpoint).collect::<Vec<_>>(),
    });
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    slices.create(&PostParams::default(), &serde_json::from_value(slice)?).await?;
    Ok(peers.iter().map(|(name, ip)| format!("{name} {ip}")).collect())
}
