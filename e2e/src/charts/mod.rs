//! `nodens-e2e charts`: the chart and the manifests of the node role, handed to a real API server.
//!
//! Nothing runs: what counts is that every mode is rendered, passes the linter and is admitted whole, that values which
//! would be without effect are refused, and that the manifests say the same as the chart.

mod objects;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args as Arguments;

use self::objects::{Objects, can_be_asked, hold};
use crate::control_plane::{ControlPlane, Options};
use crate::node::tools::{self, Tool};
use crate::sandbox::Sandbox;

/// What others define and the chart makes objects of.
const DEFINITIONS: &str = include_str!("definitions.yaml");

/// The modes of the chart, and the manifests that do the same.
const MODES: &[(&str, &[&str])] = &[
    ("iptables", &["upstream-service.yaml", "kube-proxy.yaml"]),
    ("nftables", &["upstream-service.yaml", "kube-proxy.yaml"]),
    ("ipvs", &["upstream-service.yaml", "ipvs.yaml"]),
    ("cilium", &["upstream-service.yaml", "cilium.yaml", "cilium-redirect.yaml"]),
];

/// The address of the cluster's DNS in the manifests.
const SERVER: &str = "config.dnsServer=10.96.0.10";

/// A check: its name, and the function that returns its figures or its fault.
type Check = (&'static str, fn(&Cluster) -> Result<String>);

#[derive(Arguments)]
pub(crate) struct Args {}

/// An API server, and the programs that hand it objects.
struct Cluster {
    plane: ControlPlane,
    folder: PathBuf,
}

pub(crate) async fn run(_: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let plane = ControlPlane::start(sandbox, Options::default()).await?;
    let cluster = Cluster { plane, folder: sandbox.folder("charts")? };
    cluster.plane.kubectl(&["apply", "-f", &cluster.write("definitions.yaml", DEFINITIONS)?])?;
    let established = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.plane.kubectl(&established)?;
    let mut failed = 0;
    let checks: [Check; 4] = [
        ("every mode is linted and admitted", modes),
        ("the manifests say what the chart says", manifests),
        ("values are admitted or refused", values),
        ("helm finds the address of the cluster's DNS", found),
    ];
    for (name, check) in checks {
        match check(&cluster) {
            Ok(figures) => println!("ok      {name}: {figures}"),
            Err(error) => {
                println!("FAILED  {name}: {error:#}");
                failed += 1;
            }
        }
    }
    println!("{} passed, {failed} failed", checks.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn modes(cluster: &Cluster) -> Result<String> {
    let mut admitted = 0;
    for (mode, _) in MODES {
        let arguments = arguments_of(mode);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let chart = text(&chart());
        let lint = ["lint", &chart, "--strict", "--kube-version", "1.36.3"];
        cluster.helm(&[&lint[..], &arguments].concat()).context(*mode)?;
        let rendered = cluster.template(&arguments).context(*mode)?;
        admitted += cluster.admit(&rendered).context(*mode)?.count();
    }
    Ok(format!("{} modes, {admitted} objects", MODES.len()))
}

fn manifests(cluster: &Cluster) -> Result<String> {
    let mut compared = 0;
    for (mode, files) in MODES {
        let mut manifest = Objects::default();
        for file in *files {
            let path = repository().join("deploy/node").join(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            manifest.extend(cluster.admit(&text).context(*file)?);
        }
        let arguments = arguments_of(mode);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let rendered = cluster.admit(&cluster.template(&arguments)?)?;
        hold(&rendered, &manifest).with_context(|| format!("mode {mode} beside {files:?}"))?;
        compared += rendered.count();
    }
    Ok(format!("{compared} objects are the same"))
}

fn values(cluster: &Cluster) -> Result<String> {
    let folder = repository().join("e2e/src/charts/values");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let (mut admitted, mut refused) = (0, 0);
    for path in &files {
        let file = text(path);
        let rendered = cluster.template(&["--values", &file]);
        let first = fs::read_to_string(path)?.lines().next().unwrap_or_default().to_owned();
        if let Some(reason) = first.strip_prefix("# refused: ") {
            let error = rendered.err().with_context(|| format!("{file} was not refused"))?;
            ensure!(format!("{error:#}").contains(reason), "{file}: refused otherwise: {error:#}");
            refused += 1;
        } else {
            let rendered = rendered.with_context(|| file.clone())?;
            if let Some(text) = first.strip_prefix("# lacks: ") {
                ensure!(!rendered.contains(text), "{file}: {text:?} is there");
            }
            admitted += cluster.admit(&rendered).context(file)?.count();
        }
    }
    ensure!(admitted > 0 && refused > 0, "no values in {}", folder.display());
    Ok(format!("{admitted} objects of {} files, {refused} files refused", files.len() - refused))
}

/// Without `config.dnsServer`, helm asks the cluster, and names the missing value when it cannot.
fn found(cluster: &Cluster) -> Result<String> {
    let refused = cluster.template(&[]).err().context("no address was asked for")?;
    ensure!(format!("{refused:#}").contains("config.dnsServer"), "{refused:#}");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\n\
                   spec: {clusterIP: 10.96.0.99, ports: [{port: 53, protocol: UDP}]}\n";
    cluster.plane.kubectl(&["apply", "-f", &cluster.write("service.yaml", service)?])?;
    let chart = text(&chart());
    let install = ["install", "dns", &chart, "--namespace", "kube-system", "--dry-run=server"];
    let rendered = cluster.helm(&install)?;
    ensure!(rendered.contains("\"169.254.20.10,10.96.0.99\""), "{rendered}");
    Ok("10.96.0.99".to_owned())
}

fn arguments_of(mode: &str) -> Vec<String> {
    let redirect = mode == "cilium";
    vec!["--set".to_owned(), format!("mode={mode},{SERVER},cilium.redirect={redirect}")]
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn chart() -> PathBuf {
    repository().join("deploy/charts/nodens-node")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Cluster {
    fn helm(&self, arguments: &[&str]) -> Result<String> {
        tools::output(self.plane.command(tools::path(Tool::Helm)?).args(arguments))
    }

    fn template(&self, arguments: &[&str]) -> Result<String> {
        let chart = text(&chart());
        let own = ["template", "node-local-dns", &chart, "--namespace", "kube-system"];
        self.helm(&[&own[..], &["--kube-version", "1.36.3"], arguments].concat())
    }

    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path.display().to_string())
    }

    /// What the API server makes of the objects, with all its defaults; none of them stays.
    fn admit(&self, objects: &str) -> Result<Objects> {
        let path = self.write("admit.yaml", objects)?;
        // Fields that the API server does not know are errors.
        let strict = ["create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", &path];
        let text = self.plane.kubectl(&strict)?;
        if text.trim().is_empty() {
            bail!("nothing was admitted");
        }
        let objects = Objects::parse(&text)?;
        can_be_asked(&objects)?;
        Ok(objects)
    }
}
