//! `nodens-e2e node`: the manifest and the chart on a real node, and CoreDNS replaced under load.

mod caches;
mod checks;
mod images;
mod load;
mod machine;
mod role;
mod swap;
pub(crate) mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as Arguments;

use self::machine::Node;
pub(crate) use self::swap::SwapArgs;
use crate::control_plane::{ControlPlane, Options};
use crate::limit::Limit;
use crate::sandbox::{NODE_V4, Sandbox};
use crate::server::Program;

/// How long a node may take to be there, with the images that it needs.
const START_LIMIT: Duration = Duration::from_secs(900);

/// A name that only a server outside of the cluster knows.
pub(crate) const OUTSIDE: &str = "www.outside.example";

#[derive(Arguments)]
pub(crate) struct Args {
    /// Keep the node until Ctrl-C instead of checking anything.
    #[arg(long)]
    keep: bool,
    /// How kube-proxy leads addresses of Services to pods.
    #[arg(long, default_value = "nftables", value_parser = ["nftables", "iptables"])]
    proxy_mode: String,
    /// Only checks whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// The static program that is Nodens [default: the one beside this program].
    #[arg(long)]
    program: Option<PathBuf>,
}

#[derive(Arguments)]
pub(crate) struct RoleArgs {
    /// Only checks whose names contain one of these.
    #[arg(long, value_delimiter = ',', default_value = "")]
    only: Vec<String>,
    /// The static program that is Nodens [default: the one beside this program].
    #[arg(long)]
    program: Option<PathBuf>,
    /// How kube-proxy configures the kernel.
    #[arg(long, default_value = "nftables", value_parser = ["nftables", "iptables"])]
    proxy: String,
    /// QPS.
    #[arg(long, default_value_t = 5000.0)]
    rate: f64,
    /// Fewer repetitions.
    #[arg(long)]
    quick: bool,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let start = Instant::now();
    if !args.keep {
        println!("run {}", sandbox.name());
    }
    let (plane, node) = bring_up(sandbox, args.program.as_deref(), &args.proxy_mode).await?;
    if args.keep {
        println!("run {}", sandbox.name());
        println!("KUBECONFIG={}", plane.folder().join("admin.kubeconfig").display());
        println!("enter with: nsenter --all --target PID, end with Ctrl-C");
        return std::future::pending().await;
    }
    let failed = checks::run(&node, &args.only).await;
    if failed > 0 {
        eprintln!("{}", node.last_words());
    }
    println!("{:.0} s in all", start.elapsed().as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// As [`run`], with Nodens in the node role.
pub(crate) async fn run_role(args: &RoleArgs, sandbox: &Sandbox) -> Result<ExitCode> {
    let start = Instant::now();
    println!("run {}", sandbox.name());
    let (_plane, node) = bring_up(sandbox, args.program.as_deref(), &args.proxy).await?;
    let failed = tokio::task::block_in_place(|| role::run(&node, sandbox, args))?;
    if failed > 0 {
        eprintln!("{}", node.last_words());
    }
    println!("{:.0} s in all", start.elapsed().as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// As [`run`], with `nodens-lab swap`.
pub(crate) async fn run_swap(args: &SwapArgs, sandbox: &Sandbox) -> Result<ExitCode> {
    println!("run {}", sandbox.name());
    let (_plane, node) = bring_up(sandbox, args.program.as_deref(), "nftables").await?;
    let failed = tokio::task::block_in_place(|| swap::run(&node, sandbox, args))?;
    if failed > 0 {
        eprintln!("{}", node.last_words());
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A control plane and a node that is Ready and has the images; `program` is Nodens, for pods.
async fn bring_up(
    sandbox: &Sandbox,
    program: Option<&Path>,
    proxy: &str,
) -> Result<(ControlPlane, Node)> {
    let start = Instant::now();
    let _limit = Limit::start("a node", START_LIMIT, || "it did not become Ready".to_owned());
    let Program::Nodens(own) = Program::nodens()? else { bail!("no Nodens") };
    // kube-proxy drops what goes to addresses of Services that do not exist: the node's may not be among them.
    let services = "--service-cluster-ip-range=10.96.0.0/16".to_owned();
    // Nothing resolves the node's name.
    let addresses = "--kubelet-preferred-address-types=InternalIP".to_owned();
    let api_server_flags = vec![services, addresses];
    let options = Options { controllers: vec!["*"], api_server_flags, ..Options::default() };
    let plane = ControlPlane::start(sandbox, options).await?;
    let mut node = Node::start(sandbox, &plane).await?;
    outside(&mut node, &own)?;
    images::provide(&node, &sandbox.folder("images")?, program.unwrap_or(&own))?;
    node.join(sandbox.name(), proxy).await?;
    println!("a node is Ready after {:.0} s", start.elapsed().as_secs_f64());
    Ok((plane, node))
}

/// The configuration of a server outside of the cluster. It knows every name: those below `example.` have an IPv4
/// address, no other name exists. A name that it had no answer for would be SERVFAIL, to be measured as such.
const OUTSIDE_COREFILE: &str = r#"
.:53 {
    bind ADDRESS
    hosts {
        192.0.2.80 NAME
        fallthrough
    }
    template IN A example {
        answer "{{ .Name }} 60 IN A 192.0.2.81"
    }
    template IN ANY example {
        authority "example. 60 IN SOA ns.example. admin.example. 1 60 60 60 60"
    }
    template ANY ANY {
        rcode NXDOMAIN
        authority ". 60 IN SOA ns.example. admin.example. 1 60 60 60 60"
    }
}
invalid:53 {
    bind ADDRESS
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"#;

/// A server outside of the cluster, for `forward . /etc/resolv.conf`.
fn outside(node: &mut Node, program: &std::path::Path) -> Result<()> {
    let corefile = OUTSIDE_COREFILE.replace("ADDRESS", NODE_V4);
    let path = node.write("outside/Corefile", &corefile.replace("NAME", OUTSIDE))?;
    let mut command = Command::new(program);
    command.arg("-conf").arg(path);
    node.run("outside", command).context("a server outside of the cluster")
}
