//! Clients in a pod that ask without a pause, and the figures of what they saw.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::OUTSIDE;
use super::images::CLIENTS;
use super::machine::Node;

/// How long clients may take until their first answers.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Clients continue for so long after a change: longer than it takes to see that an answer does not come.
const AFTER: Duration = Duration::from_secs(7);

/// The load of one server's address.
pub(super) struct Load<'a> {
    node: &'a Node,
    pod: String,
}

/// What became of the queries.
pub(super) struct Figures(Value);

impl<'a> Load<'a> {
    /// Starts it and waits for the first answers.
    pub(super) async fn start(node: &'a Node, server: &str) -> Result<Self> {
        let pod = format!("clients-{}", server.replace('.', "-"));
        let names = format!("kubernetes.default.svc.cluster.local,{OUTSIDE}");
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": "default"},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "enableServiceLinks": false,
                "containers": [{
                    "name": "clients",
                    "image": CLIENTS,
                    "imagePullPolicy": "Never",
                    "args": ["steady", "--server", format!("{server}:53"), "--names", names],
                }],
            },
        });
        node.apply(&[], &object.to_string())?;
        let load = Load { node, pod };
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match load.figures() {
                Ok(figures) if figures.kinds().all(|(_, kind)| kind["asked"] != 0) => break,
                other if Instant::now() > deadline => {
                    let pods = load.node.kubectl(&["describe", "pod", &load.pod])?;
                    other.with_context(|| format!("no clients:\n{pods}"))?;
                    bail!("clients send no queries");
                }
                _ => tokio::time::sleep(Duration::from_millis(300)).await,
            }
        }
        Ok(load)
    }

    /// Lets the clients continue for a while, ends them and says what they saw.
    pub(super) async fn finish(self) -> Result<Figures> {
        tokio::time::sleep(AFTER).await;
        let figures = self.figures()?;
        let log = self.node.kubectl(&["logs", &self.pod])?;
        self.node.kubectl(&["delete", "pod", &self.pod, "--now"])?;
        if let Err(error) = figures.check() {
            let words: Vec<&str> = log.lines().filter(|line| !line.starts_with('{')).collect();
            bail!("{error:#}: {figures}\n{}", words.join("\n"));
        }
        Ok(figures)
    }

    fn figures(&self) -> Result<Figures> {
        let log = self.node.kubectl(&["logs", &self.pod, "--tail=50"])?;
        let last = log.lines().rev().find(|line| line.starts_with('{')).context("no figures")?;
        Ok(Figures(serde_json::from_str(last)?))
    }
}

impl Figures {
    /// No query without its answer. Where a client keeps its port, kube-proxy forgets the flow when a server stops,
    /// and the answer to a query of that moment finds no way back, whatever the server does: it is sent again.
    fn check(&self) -> Result<()> {
        for (name, kind) in self.kinds() {
            ensure!(kind["failed"] == 0, "{name}: queries without a response");
        }
        ensure!(self.0["fresh"]["again"] == 0, "fresh: answers that did not come the first time");
        Ok(())
    }

    fn kinds(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        ["fresh", "kept", "connected"].into_iter().map(|name| (name, &self.0[name]))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, kind) in self.kinds() {
            let [asked, again, failed] = ["asked", "again", "failed"].map(|what| &kind[what]);
            let longest = kind["longest_ms"].as_f64().unwrap_or(f64::NAN);
            write!(
                f,
                "{name} {asked} sent, {again} retried, {failed} failed, longest {longest:.0} ms; "
            )?;
        }
        Ok(())
    }
}
