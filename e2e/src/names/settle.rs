//! Waiting until nothing changes any more, first in the API server, then in each name server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kube::Client;
use nodens_judge::answer::Outcome;
use nodens_judge::question::Question;
use nodens_judge::transport::Transport;
use serde_json::Value;

use super::corefiles::Case;
use super::waves::{SETTLE, marker_address};
use crate::api::{Change, Key, Kind, apply, list};
use crate::ask::ask_all;
use crate::server::Server;

/// How long controllers may take.
const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(240);

/// For how long nothing may have changed.
const QUIET: Duration = Duration::from_millis(2000);

/// How long a name server may take to follow, on a machine with other work.
const SERVER_TIMEOUT: Duration = Duration::from_secs(90);

/// Every object of the kinds that name servers read.
#[derive(Debug, Default, Clone)]
pub(crate) struct State {
    pub(crate) namespaces: Vec<Value>,
    pub(crate) services: Vec<Value>,
    pub(crate) slices: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) imports: Vec<Value>,
}

impl State {
    async fn read(client: &Client) -> Result<Self> {
        Ok(State {
            namespaces: list(client, Kind::Namespace).await?,
            services: list(client, Kind::Service).await?,
            slices: list(client, Kind::Slice).await?,
            pods: list(client, Kind::Pod).await?,
            imports: list(client, Kind::Import).await?,
        })
    }

    fn objects(&self) -> impl Iterator<Item = &Value> {
        let kinds = [&self.namespaces, &self.services, &self.slices, &self.pods, &self.imports];
        kinds.into_iter().flatten()
    }

    /// Names and versions of all objects.
    fn versions(&self) -> BTreeSet<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.objects()
            .map(|object| &object["metadata"])
            .map(|metadata| (text(&metadata["uid"]), text(&metadata["resourceVersion"])))
            .collect()
    }

    /// Slices whose Service has gone; their deletion is under way.
    fn orphans(&self) -> usize {
        let uids: BTreeSet<&str> = self
            .services
            .iter()
            .filter_map(|service| service["metadata"]["uid"].as_str())
            .collect();
        let orphan = |slice: &&Value| {
            let owner = slice["metadata"]["ownerReferences"][0]["uid"].as_str();
            owner.is_some_and(|owner| !uids.contains(owner))
        };
        self.slices.iter().filter(orphan).count()
    }

    /// Objects that are being deleted.
    fn ending(&self) -> usize {
        self.objects().filter(|object| !object["metadata"]["deletionTimestamp"].is_null()).count()
    }
}

/// Waits until the controllers have done what there is to do.
pub(crate) async fn controllers(client: &Client) -> Result<State> {
    let deadline = Instant::now() + CONTROLLER_TIMEOUT;
    let mut state = State::read(client).await?;
    let mut versions = state.versions();
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(QUIET / 4).await;
        end_pods(client, &state).await?;
        state = State::read(client).await?;
        let now = state.versions();
        if now != versions {
            since = Instant::now();
            versions = now;
        }
        if since.elapsed() >= QUIET && state.orphans() == 0 && state.ending() == 0 {
            return Ok(state);
        }
        if Instant::now() > deadline {
            bail!(
                "the cluster does not become stable: {} objects being deleted, {} slices without Service",
                state.ending(),
                state.orphans()
            );
        }
    }
}

/// Ends the pods that are to end, as the kubelet of their node would.
async fn end_pods(client: &Client, state: &State) -> Result<()> {
    let ending = state.pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
    for pod in ending {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
        let key = Key::new(Kind::Pod, text("namespace"), text("name"));
        // A controller may have been faster.
        let _ = apply(client, vec![Change::Delete(key)]).await;
    }
    Ok(())
}

/// Waits until the server answers from the markers of a wave: then it has seen all that was done before.
pub(crate) async fn server(server: &Server, case: &Case, number: usize) -> Result<()> {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    let waits = markers(case, number);
    loop {
        let questions: Vec<_> =
            waits.iter().map(|marker| (Transport::Udp, marker.question.clone())).collect();
        let outcomes: Vec<Outcome> = ask_all(server.address(), &questions)?
            .into_iter()
            .map(|answer| answer.map_or(Outcome::Silent, |answer| Outcome::read(&answer)))
            .collect();
        let behind = waits.iter().zip(&outcomes).find(|(marker, outcome)| !marker.is_seen(outcome));
        let Some((marker, outcome)) = behind else { return Ok(()) };
        if Instant::now() > deadline {
            bail!("{} is not up to date: {} is\n{outcome}", case.name, marker.question);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

struct Marker {
    question: Question,
    /// What the answer has to contain.
    wanted: String,
}

impl Marker {
    fn new(name: &str, wanted: String) -> Self {
        let localhost = std::net::Ipv4Addr::LOCALHOST.into();
        Marker { question: Question::new(localhost, name, 1), wanted }
    }

    fn is_seen(&self, outcome: &Outcome) -> bool {
        outcome.to_string().contains(&self.wanted)
    }
}

fn markers(case: &Case, number: usize) -> Vec<Marker> {
    let address = marker_address(number);
    let record = || format!(" A {address}");
    let zone = "cluster.local.";
    let imports = "clusterset.local.";
    let mut markers = Vec::new();
    if case.asked.contains(&zone.trim_end_matches('.')) {
        markers.push(Marker::new(&format!("c{number}.{SETTLE}.svc.{zone}"), " A 10.".to_owned()));
        markers.push(Marker::new(&format!("{SETTLE}-{number}.svc.{zone}"), "NOERROR".to_owned()));
        if !case.no_endpoints {
            markers.push(Marker::new(&format!("h{number}.{SETTLE}.svc.{zone}"), record()));
        }
        if case.is_verified() {
            let label = address.replace('.', "-");
            markers.push(Marker::new(&format!("{label}.{SETTLE}.pod.{zone}"), record()));
        }
    }
    if case.asked.contains(&imports.trim_end_matches('.')) {
        markers.push(Marker::new(&format!("i{number}.{SETTLE}.svc.{imports}"), record()));
        markers
            .push(Marker::new(&format!("{SETTLE}-{number}.svc.{imports}"), "NOERROR".to_owned()));
    }
    markers
}
