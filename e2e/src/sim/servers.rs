//! The central servers, and the one outside of the cluster.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lab_load::cluster::Cluster;
use rustix::process::Signal;

use super::load::NEW;
use super::net::{self, NODE, OUTSIDE, OUTSIDE_ADDRESS, central, central_address};
use crate::process::Process;
use crate::sandbox::Sandbox;

/// How long anything may take to begin to answer on a machine with other work.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the servers of the cluster have its names from.
#[derive(Debug)]
pub(super) enum Names {
    /// A zone file, which needs no other server.
    Files,
    /// An API server, as this kubeconfig says.
    Api(PathBuf),
}

/// The servers of the cluster behind the Service, and one outside.
#[derive(Debug)]
pub(super) struct Centrals {
    folder: PathBuf,
    program: PathBuf,
    names: Names,
    /// By number; none where it is stopped.
    servers: Vec<Option<Process>>,
    outside: Process,
}

impl Centrals {
    /// Starts them and waits until they answer.
    pub(super) fn start(
        sandbox: &Sandbox,
        program: &Path,
        count: usize,
        names: Names,
    ) -> Result<Self> {
        let folder = sandbox.folder("sim")?;
        std::fs::write(folder.join("cluster.zone"), zone("cluster.local."))?;
        std::fs::write(folder.join("outside.zone"), zone("."))?;
        let text = format!(
            ".:53 {{\n    bind {OUTSIDE_ADDRESS}\n    prometheus {OUTSIDE_ADDRESS}:9153\n    file {}\n}}\n",
            folder.join("outside.zone").display()
        );
        let outside = run(&folder, OUTSIDE, program, &text)?;
        let mut centrals = Centrals {
            folder,
            program: program.to_owned(),
            names,
            servers: (0..count).map(|_| None).collect(),
            outside,
        };
        (0..count).try_for_each(|number| centrals.start_one(number))?;
        Ok(centrals)
    }

    /// Starts the server `number` and waits until it answers.
    pub(super) fn start_one(&mut self, number: usize) -> Result<()> {
        let address = central_address(number);
        let text = match &self.names {
            Names::Files => with_files(address, &self.folder.join("cluster.zone")),
            Names::Api(kubeconfig) => with_api(kubeconfig),
        };
        let process = run(&self.folder, &central(number), &self.program, &text)?;
        self.servers[number] = Some(process);
        let deadline = Instant::now() + START_TIMEOUT;
        while !net::inside(NODE, || Ok(super::ask::answers(address.into())))? {
            if Instant::now() > deadline {
                bail!("{} does not answer: {}", central(number), self.last_words());
            }
        }
        Ok(())
    }

    /// Ends the server `number` as a kubelet does, or kills it.
    pub(super) fn signal(&mut self, number: usize, signal: Signal) -> Result<()> {
        self.servers[number].as_ref().context("it does not run")?.signal(signal)
    }

    /// Waits for the end of the server `number`.
    pub(super) fn forget(&mut self, number: usize) {
        self.servers[number] = None;
    }

    /// Queries that reached the servers of the cluster since they began.
    pub(super) fn questions(&self) -> Result<u64> {
        self.count("coredns_dns_requests_total{", "")
    }

    /// Names that these servers have denied since they began.
    pub(super) fn denials(&self) -> Result<u64> {
        self.count("coredns_dns_responses_total{", "rcode=\"NXDOMAIN\"")
    }

    /// The sum of a metric over the servers that run, of the series with this label.
    fn count(&self, metric: &str, label: &str) -> Result<u64> {
        let mut sum = 0.0;
        for (number, _) in self.servers.iter().enumerate().filter(|(_, server)| server.is_some()) {
            let address = (central_address(number), 9153).into();
            let text = net::inside(&central(number), || super::ask::http(address, "/metrics"))?;
            let wanted = |line: &&str| line.starts_with(metric) && line.contains(label);
            let numbers = text.lines().filter(wanted).filter_map(|line| line.rsplit(' ').next());
            sum += numbers.filter_map(|number| number.parse::<f64>().ok()).sum::<f64>();
        }
        Ok(sum as u64)
    }

    /// What they wrote last.
    pub(super) fn last_words(&self) -> String {
        let all = self.servers.iter().flatten().chain([&self.outside]);
        all.map(Process::last_words).collect::<Vec<_>>().join("\n")
    }
}

fn with_files(address: Ipv4Addr, zone: &Path) -> String {
    format!(
        "cluster.local:53 {{\n    bind {address}\n    prometheus {address}:9153\n    \
         errors\n    file {}\n}}\n.:53 {{\n    bind {address}\n    prometheus {address}:9153\n    errors\n    \
         cache 30\n    forward . {OUTSIDE_ADDRESS}\n}}\n",
        zone.display()
    )
}

/// What kubeadm 1.36 writes (`cmd/kubeadm/app/phases/addons/dns/manifests.go`), and where the API server is.
fn with_api(kubeconfig: &Path) -> String {
    format!(
        ".:53 {{
    errors
    health {{
       lameduck 5s
    }}
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
       kubeconfig {}
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }}
    prometheus :9153
    forward . /etc/resolv.conf {{
       max_concurrent 1000
    }}
    cache 30 {{
       disable success cluster.local
       disable denial cluster.local
    }}
    loop
    reload
    loadbalance
}}
",
        kubeconfig.display()
    )
}

fn run(folder: &Path, namespace: &str, program: &Path, corefile: &str) -> Result<Process> {
    let path = folder.join(format!("{namespace}.Corefile"));
    std::fs::write(&path, corefile)?;
    let mut command = net::command(namespace, &program.display().to_string());
    command.arg("-conf").arg(path);
    Process::start(namespace, command, folder.join(format!("{namespace}.log")))
}

/// Every name of the model of a cluster below `zone`, with addresses of both families, as a zone file.
fn zone(zone: &str) -> String {
    let mut head =
        format!("{zone} 30 IN SOA ns.dns.test. hostmaster.dns.test. 1 7200 1800 86400 30\n");
    head += &format!("{zone} 30 IN NS ns.dns.test.\n");
    if zone != "." {
        head += &format!("*.{NEW}. 30 IN A 192.0.2.2\n");
    }
    let cluster = Cluster::default();
    let names = cluster.names().map(|name| name.to_string());
    let inside = names.filter(|name| name.ends_with("cluster.local.") == (zone != "."));
    let records =
        inside.map(|name| format!("{name} 30 IN A 192.0.2.1\n{name} 30 IN AAAA 2001:db8::1\n"));
    [head].into_iter().chain(records).collect()
}
