//! The checks on a node, in the order of an operator who migrates.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::caches;
use super::images::{COREDNS, NODENS, repository};
use super::load::Load;
use super::machine::{CLUSTER_DNS, Node};
use crate::limit::Limit;

/// CoreDNS as kubeadm sets it up.
pub(super) const KUBEADM: &str = include_str!("coredns.yaml");

/// Addresses of the Services of the chart's releases.
const TEMPLATE_DNS: &str = "10.96.0.11";
const RELEASE_DNS: &str = "10.96.0.12";

/// How long an update of a Deployment may take.
const ROLLOUT: &str = "--timeout=240s";

/// How long a check may take, with much to spare for a machine with other work.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the checks whose names contain `only`; returns how many failed.
pub(super) async fn run(node: &Node, only: &str) -> usize {
    let mut outcomes = Vec::new();
    macro_rules! check {
        ($name:literal, $check:expr) => {
            if $name.contains(only) {
                let begun = Instant::now();
                let spare = node.spare();
                let limit = Limit::start($name, LIMIT, move || all_pods(&spare));
                let outcome = $check.await;
                drop(limit);
                let seconds = begun.elapsed().as_secs_f64();
                match &outcome {
                    Ok(figures) => println!("ok      {}: {figures} ({seconds:.0} s)", $name),
                    Err(error) => println!("FAILED  {}: {error:#} ({seconds:.0} s)", $name),
                }
                outcomes.push(outcome.is_ok());
            }
        };
    }
    check!("values of the chart", values(node));
    check!("the image in place of CoreDNS's, and back", in_place(node));
    check!("the manifest beside CoreDNS", beside(node));
    check!("a rolling update", rolling_update(node));
    check!("helm template", template(node));
    check!("helm takes over a release of CoreDNS, and back", release(node));
    check!("the manifests of the node role", caches::manifests(node));
    let failed = outcomes.iter().filter(|passed| !**passed).count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    failed
}

/// The state of all pods, for a check that does not end.
fn all_pods(node: &Node) -> String {
    let pods = node.kubectl(&["describe", "pods", "--all-namespaces"]);
    pods.unwrap_or_else(|error| format!("{error:#}"))
}

fn deploy(path: &str) -> PathBuf {
    repository().join("deploy").join(path)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn rolled_out(node: &Node, namespace: &str, deployment: &str) -> Result<()> {
    let status = ["rollout", "status", deployment, "-n", namespace, ROLLOUT];
    if let Err(error) = node.kubectl(&status) {
        let pods = node.kubectl(&["describe", "pods", "-n", namespace])?;
        let log = node.kubectl(&["logs", "-n", namespace, deployment, "--tail=20"]);
        bail!("{error:#}\n{pods}\n{}", log.unwrap_or_default());
    }
    Ok(())
}

/// Checks that pods of this Deployment run this image, and no other.
fn runs(node: &Node, namespace: &str, selector: &str, image: &str) -> Result<()> {
    let path = "jsonpath={range .items[*]}{.spec.containers[0].image}{\"\\n\"}{end}";
    let running = "--field-selector=status.phase=Running";
    let images =
        node.kubectl(&["get", "pods", "-n", namespace, "-l", selector, running, "-o", path])?;
    let images: Vec<&str> = images.lines().collect();
    ensure!(
        !images.is_empty() && images.iter().all(|other| *other == image),
        "pods run {images:?}"
    );
    Ok(())
}

/// CoreDNS as the cluster's DNS.
pub(super) fn deploy_coredns(node: &Node) -> Result<()> {
    node.apply(&[], KUBEADM)?;
    rolled_out(node, "kube-system", "deployment/coredns")
}

/// CoreDNS serves, its Deployment gets the image of Nodens, and CoreDNS's again, under load.
async fn in_place(node: &Node) -> Result<String> {
    deploy_coredns(node)?;
    let patch = text(&deploy("cluster/readiness.yaml"));
    node.kubectl(&["patch", "deployment", "coredns", "-n", "kube-system", "--patch-file", &patch])?;
    rolled_out(node, "kube-system", "deployment/coredns")?;
    runs(node, "kube-system", "k8s-app=kube-dns", COREDNS)?;
    let load = Load::start(node, CLUSTER_DNS).await?;
    let image = format!("coredns={NODENS}");
    node.kubectl(&["set", "image", "deployment/coredns", "-n", "kube-system", &image])?;
    rolled_out(node, "kube-system", "deployment/coredns")?;
    let there = load.finish().await?;
    runs(node, "kube-system", "k8s-app=kube-dns", NODENS)?;
    let load = Load::start(node, CLUSTER_DNS).await?;
    node.kubectl(&["rollout", "undo", "deployment/coredns", "-n", "kube-system"])?;
    rolled_out(node, "kube-system", "deployment/coredns")?;
    let back = load.finish().await?;
    runs(node, "kube-system", "k8s-app=kube-dns", COREDNS)?;
    Ok(format!("there: {there}\n        back: {back}"))
}

/// The manifest's Deployment joins CoreDNS behind the Service `kube-dns`, then CoreDNS goes.
async fn beside(node: &Node) -> Result<String> {
    let manifest = text(&deploy("cluster/nodens.yaml"));
    let coredns = node.kubectl(&["get", "deployment", "coredns", "-n", "kube-system"]).is_ok();
    let load = if coredns { Some(Load::start(node, CLUSTER_DNS).await?) } else { None };
    node.kubectl(&["apply", "-f", &manifest])?;
    rolled_out(node, "kube-system", "deployment/nodens")?;
    if coredns {
        node.kubectl(&["delete", "deployment", "coredns", "-n", "kube-system", "--wait"])?;
    }
    let load = match load {
        Some(load) => load,
        None => Load::start(node, CLUSTER_DNS).await?,
    };
    let figures = load.finish().await?;
    runs(node, "kube-system", "k8s-app=kube-dns", NODENS)?;
    let user = "jsonpath={.items[0].status.containerStatuses[0].user.linux.uid}";
    let user =
        node.kubectl(&["get", "pods", "-n", "kube-system", "-l", "k8s-app=kube-dns", "-o", user])?;
    ensure!(user == "65532", "it runs as the user {user:?}");
    Ok(figures.to_string())
}

/// All pods of the manifest's Deployment are replaced under load.
async fn rolling_update(node: &Node) -> Result<String> {
    node.kubectl(&["apply", "-f", &text(&deploy("cluster/nodens.yaml"))])?;
    rolled_out(node, "kube-system", "deployment/nodens")?;
    let load = Load::start(node, CLUSTER_DNS).await?;
    node.kubectl(&["rollout", "restart", "deployment/nodens", "-n", "kube-system"])?;
    rolled_out(node, "kube-system", "deployment/nodens")?;
    let figures = load.finish().await?;
    let memory = memory_of_pods()?;
    ensure!(!memory.is_empty(), "no pods to measure");
    Ok(format!("{figures}resident memory of pods {} MiB", memory.join(" and ")))
}

/// Resident memory of each server in a pod, in MiB: their processes are those of the sandbox.
fn memory_of_pods() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // A process may end while it is looked at.
        let arguments = fs::read(path.join("cmdline")).unwrap_or_default();
        if !arguments.starts_with(b"/nodens\0-conf\0/etc/coredns/Corefile") {
            continue;
        }
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.trim().strip_suffix(" kB")).unwrap_or_default();
        found.push(format!("{:.1}", kib.trim().parse::<f64>()? / 1024.0));
    }
    Ok(found)
}

/// What `helm template` writes is accepted whole by the API server, with values of many kinds.
async fn values(node: &Node) -> Result<String> {
    let chart = text(&deploy("charts/nodens"));
    let folder = repository().join("e2e/src/node/values");
    let mut names: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    names.sort();
    let mut objects = 0;
    for path in &names {
        let file = text(path);
        let mut arguments = template_arguments(&chart);
        arguments.extend(["--values", &file]);
        let rendered = node.helm(&arguments);
        let name = path.file_stem().context("no name")?.to_string_lossy().into_owned();
        if let Some(reason) = refused(path)? {
            let error = rendered.err().with_context(|| format!("{name} was not refused"))?;
            ensure!(format!("{error:#}").contains(&reason), "{name}: refused otherwise: {error:#}");
            continue;
        }
        let rendered = rendered.context(name.clone())?;
        ports_are_in_order(&rendered).context(name.clone())?;
        has_what_is_said(path, &rendered).context(name.clone())?;
        let accepted = node.apply(&["--dry-run=server"], &rendered).context(name)?;
        objects += accepted.lines().count();
    }
    ensure!(names.len() >= 2, "no values in {}", folder.display());
    Ok(format!("{} files of values, {objects} objects accepted", names.len()))
}

/// Of ports with one number UDP has to come first, as in CoreDNS's chart: an upgrade from there would fail otherwise, for
/// Kubernetes tells them apart by their place (kubernetes/kubernetes#105610).
fn ports_are_in_order(rendered: &str) -> Result<()> {
    for object in rendered.split("\n---") {
        let place = |name: &str| object.find(&format!("- name: {name}-"));
        if let (Some(udp), Some(tcp)) = (place("udp"), place("tcp")) {
            ensure!(udp < tcp, "TCP before UDP:\n{object}");
        }
    }
    Ok(())
}

/// Lines `# rendered: TEXT` of a file of values say what becomes of it.
fn has_what_is_said(path: &Path, rendered: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    for wanted in text.lines().filter_map(|line| line.strip_prefix("# rendered: ")) {
        ensure!(rendered.contains(wanted), "no {wanted:?} in:\n{rendered}");
    }
    Ok(())
}

fn template_arguments(chart: &str) -> Vec<&str> {
    vec!["template", "dns", chart, "--namespace", "default", "--kube-version", "1.36.3"]
}

/// The first line of a file of values that the chart has to refuse says why: `# refused: REASON`.
fn refused(path: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(path)?;
    let first = text.lines().next().unwrap_or_default();
    Ok(first.strip_prefix("# refused: ").map(str::to_owned))
}

/// `helm template | kubectl apply`.
async fn template(node: &Node) -> Result<String> {
    let chart = text(&deploy("charts/nodens"));
    let address = format!("service.clusterIP={TEMPLATE_DNS}");
    let mut arguments = template_arguments(&chart);
    arguments.extend(["--set", &address, "--set", "replicaCount=1"]);
    let rendered = node.helm(&arguments)?;
    node.apply(&[], &rendered)?;
    rolled_out(node, "default", "deployment/dns-nodens")?;
    let figures = Load::start(node, TEMPLATE_DNS).await?.finish().await?;
    let path = node.write("apply.yaml", &rendered)?;
    node.kubectl(&["delete", "-f", &text(&path)])?;
    Ok(figures.to_string())
}

/// A release with the names of CoreDNS's chart runs CoreDNS; an upgrade brings Nodens, a rollback CoreDNS, under load.
async fn release(node: &Node) -> Result<String> {
    let chart = text(&deploy("charts/nodens"));
    let address = format!("service.clusterIP={RELEASE_DNS}");
    let (repository, tag) = COREDNS.rsplit_once(':').context("no tag")?;
    let image = format!("image.repository={repository},image.tag={tag}");
    let common = [
        "coredns",
        &chart,
        "--namespace",
        "dns",
        "--set",
        &address,
        "--set",
        "nameOverride=coredns",
    ];
    let wait = ["--wait", "--timeout=240s"];
    let install = ["--create-namespace", "--set", &image];
    node.helm(&[&["install"], &common[..], &install, &wait].concat())?;
    let selector = "app.kubernetes.io/instance=coredns";
    runs(node, "dns", selector, COREDNS)?;
    let load = Load::start(node, RELEASE_DNS).await?;
    node.helm(&[&["upgrade"], &common[..], &wait].concat())?;
    rolled_out(node, "dns", "deployment/coredns")?;
    let there = load.finish().await?;
    runs(node, "dns", selector, NODENS)?;
    let load = Load::start(node, RELEASE_DNS).await?;
    node.helm(&[&["rollback", "coredns", "1", "--namespace", "dns"], &wait[..]].concat())?;
    rolled_out(node, "dns", "deployment/coredns")?;
    let back = load.finish().await?;
    runs(node, "dns", selector, COREDNS)?;
    node.helm(&["uninstall", "coredns", "--namespace", "dns", "--wait"])?;
    Ok(format!("there: {there}\n        back: {back}"))
}
