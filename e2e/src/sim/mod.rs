//! `nodens-e2e node-sim`: the node role in network namespaces, without Kubernetes: faults at scale, and what they cost.
//!
//! [`table`] is a subcommand of its own, `nodens-e2e node-table`: the same node, with an API server.

pub(crate) mod ask;
mod centrals;
pub(crate) mod changes;
mod cluster;
mod faults;
pub(crate) mod gap;
pub(crate) mod kill;
pub(crate) mod load;
pub(crate) mod net;
pub(crate) mod proxy;
mod role;
pub(crate) mod servers;
pub(crate) mod state;
pub(crate) mod table;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args as Arguments;

use self::net::central_address;
use self::proxy::{Mode, Proxy};
use self::role::{Kind, Role};
use self::servers::{Centrals, Names};
use crate::control_plane::peers;
use crate::limit::{self, Limit};
use crate::sandbox::{Sandbox, call};

/// How long a scenario may take, with much to spare for a machine with other work.
const LIMIT: Duration = Duration::from_secs(900);
/// Central servers behind the Services.
const CENTRALS: usize = 3;

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Args {
    /// What is in the node role.
    #[arg(long, value_enum, default_value = "nodens")]
    server: Kind,
    #[command(flatten)]
    setup: Setup,
    /// Only scenarios whose names contain one of these.
    #[arg(long, value_delimiter = ',', default_value = "")]
    only: Vec<String>,
    /// Start what is in the node role and keep everything until Ctrl-C instead of trying anything.
    #[arg(long)]
    keep: bool,
    /// Fewer repetitions.
    #[arg(long)]
    quick: bool,
}

/// What stands around the node, and how much is asked.
#[derive(Debug, Clone, Arguments)]
pub(crate) struct Setup {
    /// How the rules of the Services come to the kernel.
    #[arg(long, value_enum, default_value = "nftables")]
    proxy: Mode,
    /// QPS of the pods together.
    #[arg(long, default_value_t = 5000.0)]
    rate: f64,
    /// Pods on the node, at most 150.
    #[arg(long, default_value_t = 50)]
    pods: usize,
    /// The program in the node role [default: beside this one, or in the peers' cache].
    #[arg(long)]
    program: Option<PathBuf>,
    /// The program of the central servers [default: CoreDNS in the peers' cache].
    #[arg(long)]
    central: Option<PathBuf>,
}

impl Setup {
    /// Makes the namespaces.
    fn make(&self, sandbox: &Sandbox) -> Result<()> {
        net::make(self.pods, CENTRALS)?;
        let resolv = sandbox.folder("sim")?.join("resolv.conf");
        std::fs::write(&resolv, format!("nameserver {}\n", net::OUTSIDE_ADDRESS))?;
        call("mount", &["--bind", &resolv.display().to_string(), "/etc/resolv.conf"])
    }

    /// Starts the central servers, and leads the Services to them.
    fn start(&self, sandbox: &Sandbox, names: Names) -> Result<(Centrals, Proxy)> {
        let program = self.central.clone().unwrap_or_else(|| peers().join("bin/coredns"));
        let centrals = Centrals::start(sandbox, &program, CENTRALS, names)?;
        let mut proxy = Proxy::new(self.proxy);
        proxy.set(&all_centrals())?;
        Ok((centrals, proxy))
    }
}

/// A node, and everything around it.
struct World {
    args: Args,
    centrals: Centrals,
    proxy: Proxy,
    role: Role,
}

impl World {
    fn make(args: Args, sandbox: &Sandbox) -> Result<Self> {
        args.setup.make(sandbox)?;
        let (centrals, proxy) = args.setup.start(sandbox, Names::Files)?;
        let role = Role::new(sandbox, args.server, args.setup.program.as_deref())?;
        Ok(World { args, centrals, proxy, role })
    }

    /// How often something is done: `all` times, or `quick` times when that is asked for.
    fn times(&self, all: usize, quick: usize) -> usize {
        if self.args.quick { quick } else { all }
    }
}

fn all_centrals() -> Vec<Ipv4Addr> {
    (0..CENTRALS).map(central_address).collect()
}

type Scenario = (&'static str, fn(&mut World) -> Result<String>);

const SCENARIOS: &[Scenario] = &[
    ("a clean exit", changes::clean_exit),
    ("everything is killed", kill::run),
    ("hand-overs", changes::hand_overs),
    ("successors that crash", changes::crashes),
    ("changes of the configuration", changes::configurations),
    ("kube-proxy comes late", centrals::race),
    ("central pods are replaced", centrals::replaced),
    ("a central pod is frozen", centrals::frozen),
    ("fault: no upstream answers", faults::no_upstream),
    ("fault: a full table of connections", faults::full),
    ("fault: no program iptables", faults::no_program),
    ("fault: no CAP_NET_ADMIN", faults::no_right),
    ("fault: a foreign process on port 53", faults::port_taken),
    ("fault: an address of another link", faults::address_taken),
    ("fault: it hangs", faults::hangs),
];

/// Runs the scenarios one after the other; each leaves the node as it found it.
pub(crate) fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    println!("run {}", sandbox.name());
    let mut world = World::make(args.clone(), sandbox).context("the namespaces")?;
    if args.keep {
        world.role.start()?;
        println!("enter with: nsenter --all --target PID nsenter --net=/run/netns/node");
        loop {
            thread::park();
        }
    }
    let (mut passed, mut failed) = (0, 0);
    // The words of faults are Nodens's own.
    let wanted = |name: &str| {
        let asked = limit::wanted(name, &args.only);
        asked && (args.server == Kind::Nodens || !name.starts_with("fault: "))
    };
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| wanted(name)) {
        let begun = Instant::now();
        let words = world.role.log_tail();
        let limit = Limit::start(name, LIMIT, words);
        let outcome = scenario(&mut world);
        drop(limit);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(figures) => {
                passed += 1;
                println!("ok      {name}: {figures} ({seconds:.0} s)");
            }
            // Scenarios of other programs are only shown, they cannot fail the run.
            Err(error) if args.server != Kind::Nodens => {
                println!("broken  {name}: {error:#} ({seconds:.0} s)");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#} ({seconds:.0} s)");
            }
        }
        world.role.clean();
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
