//! What the servers cost and how fast they are: the parts that `latency`, `scale` and `faults` share.

pub(crate) mod bulk;
pub(crate) mod cpus;
pub(crate) mod echo;
mod etcd;
pub(crate) mod memory;
pub(crate) mod population;
pub(crate) mod probe;
pub(crate) mod steady;
pub(crate) mod store;
pub(crate) mod table;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use nodens_wire::{Rcode, Type};

use self::probe::Probe;
use crate::control_plane::http_get;
use crate::sandbox::Sandbox;
use crate::server::{Program, Server};

/// Variable of a Corefile: the kubeconfig of a reader.
const KUBECONFIG: &str = "KUBECONFIG_OF_READER";

/// The chain of the Corefile that kubeadm and the Helm chart write, with `cache` and its options as
/// given. What no server here knows is not answered: a port where no process listens.
pub(crate) fn corefile(cache: &str) -> String {
    corefile_with(cache, "60s", "127.0.0.1:9")
}

/// As [`corefile`], with the time that a server may wait for the API server, and its upstream.
pub(crate) fn corefile_with(cache: &str, startup_timeout: &str, upstream: &str) -> String {
    format!(
        ".:{{$PORT}} {{
    bind 127.0.0.1
    errors
    health 127.0.0.1:{{$HEALTH}}
    ready 127.0.0.1:{{$READY}}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {{${KUBECONFIG}}}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
        startup_timeout {startup_timeout}
    }}
    prometheus 127.0.0.1:{{$METRICS}}
    forward . {upstream}
    {cache}
    loop
    reload
    loadbalance
}}
"
    )
}

/// The variables for [`corefile`].
pub(crate) fn variables(kubeconfig: &Path) -> Vec<(&'static str, String)> {
    vec![(KUBECONFIG, kubeconfig.display().to_string())]
}

/// How long a server that is ready may take until it answers.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a server with [`corefile`] and waits until it is ready.
pub(crate) async fn start(
    sandbox: &Sandbox,
    which: Which,
    name: &str,
    (cache, kubeconfig): (&str, &Path),
) -> Result<Server> {
    let variables = variables(kubeconfig);
    let mut server = Server::start(sandbox, &which.program()?, name, &corefile(cache), &variables)?;
    server.ready().await?;
    await_answer(&server).await?;
    Ok(server)
}

/// How many whole lists of EndpointSlices the API server has served since it started.
pub(crate) async fn whole_lists(client: &Client) -> Result<u64> {
    let metrics = client.request_text(http_get("/metrics")?).await?;
    let counts = metrics.lines().filter(|line| {
        let list = line.starts_with("apiserver_request_total{") && line.contains("verb=\"LIST\"");
        let stream = line.starts_with("apiserver_watch_list_duration_seconds_count{");
        (list || stream) && line.contains("resource=\"endpointslices\"")
    });
    let numbers = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(numbers.sum::<f64>() as u64)
}

/// Waits until a server that is ready answers: CoreDNS says that it is before it listens.
pub(crate) async fn await_answer(server: &Server) -> Result<()> {
    let known = ("kubernetes.default.svc.cluster.local.", Type::A);
    let mut probe = Probe::new(server.address()).await?;
    probe.until(known, LISTEN_TIMEOUT, |answer| answer.rcode == Rcode::NOERROR).await?;
    Ok(())
}

/// One of the programs that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    Nodens,
    Coredns,
}

impl Which {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Which::Nodens => "nodens",
            Which::Coredns => "coredns",
        }
    }

    pub(crate) fn program(self) -> Result<Program> {
        match self {
            Which::Nodens => Program::nodens(),
            Which::Coredns => Ok(Program::CoreDns),
        }
    }
}
