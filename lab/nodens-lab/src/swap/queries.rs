//! What is asked: names of the cluster itself, and names outside of it, as files of dnsperf's format.

use super::args::Args;
use crate::{given, term};
use anyhow::{Context, Result, bail};
use lab_load::workload::PlanHash;
use lab_load::{Workload as Queries, names};
use lab_result::comparison::SetPlan;
use lab_swap::Api;
use lab_workload::{Style, TypeMix};
use nodens_wire::Type;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Services whose names are asked for at most.
const SERVICES_MAX: usize = 1_000;

/// A set of queries.
pub(super) struct Set {
    pub(super) name: String,
    /// Where they come from.
    source: String,
    /// A name and a type in each line.
    pub(super) text: String,
}

impl Set {
    /// The file's name.
    pub(super) fn file(&self) -> String {
        format!("{}.txt", self.name)
    }

    /// The set as the plan has it.
    pub(super) fn plan(&self, seed: u64) -> Result<SetPlan> {
        let mut queries = Queries::new(seed);
        let types = TypeMix::only(Type::A);
        let style = Style::default();
        let faults = names::read(self.text.as_bytes(), &style, &types, seed, &mut queries);
        given::tell_faults(&self.source, &faults);
        if queries.is_empty() {
            bail!("{} has no query", self.source);
        }
        let mut hash = PlanHash::default();
        queries.hash_into(&mut hash);
        Ok(SetPlan {
            name: self.name.clone(),
            source: self.source.clone(),
            questions: Some(queries.len() as u64),
            hash: format!("{:016x}", hash.finish()),
        })
    }
}

/// The sets that were asked for; without any, the names of the cluster's Services.
pub(super) fn sets(args: &Args, api: &dyn Api) -> Result<Vec<Set>> {
    let mut sets = Vec::new();
    match &args.internal {
        Some(given) => sets.push(given_set("internal", given).context("--internal")?),
        None => sets.push(services(api, &args.domain)?),
    }
    if let Some(given) = &args.external {
        sets.push(given_set("external", given).context("--external")?);
    }
    Ok(sets)
}

fn given_set(name: &str, given: &str) -> Result<Set> {
    let (name, source) = (name.to_owned(), given.to_owned());
    if Path::new(given).exists() {
        let text =
            std::fs::read_to_string(given).with_context(|| format!("cannot read {given}"))?;
        return Ok(Set { name, source, text });
    }
    let mut text = String::new();
    for name in given::below(given)? {
        text += &format!("{} A\n", name?);
    }
    let source = given::told_suffix(given);
    Ok(Set { name, source, text })
}

/// The Services that have an address: their names are the cluster's to answer.
fn services(api: &dyn Api, domain: &str) -> Result<Set> {
    let list = api.get("/api/v1/services")?.unwrap_or_default();
    let domain = domain.trim_end_matches('.');
    let mut lines = Vec::new();
    for service in items(&list) {
        let of = |pointer| service.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if of("/spec/clusterIP").parse::<IpAddr>().is_ok() {
            let (name, namespace) = (of("/metadata/name"), of("/metadata/namespace"));
            lines.push(format!("{name}.{namespace}.svc.{domain}. A\n"));
        }
    }
    let all = term::of(lines.len(), "Service");
    let source = match lines.len() > SERVICES_MAX {
        true => format!("the first {} of {all} of the cluster", term::count(SERVICES_MAX as u64)),
        false => format!("{all} of the cluster"),
    };
    lines.truncate(SERVICES_MAX);
    let text = lines.concat();
    Ok(Set { name: "internal".to_owned(), source, text })
}

/// The cluster IP of the Service whose selector fits the pods of the workload, and its port for DNS.
pub(super) fn server(api: &dyn Api, namespace: &str, workload: &Value) -> Result<SocketAddr> {
    let path = format!("/api/v1/namespaces/{namespace}/services");
    let list = api.get(&path)?.unwrap_or_default();
    let labels = workload.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    let fits = |service: &Value| {
        let selector = service.pointer("/spec/selector").and_then(Value::as_object);
        selector.is_some_and(|all| all.iter().all(|(key, value)| labels.get(key) == Some(value)))
    };
    let address = |service: &Value| {
        let ports = service.pointer("/spec/ports")?.as_array()?;
        let udp: Vec<u64> = ports
            .iter()
            .filter(|port| port.get("protocol").and_then(Value::as_str) == Some("UDP"))
            .filter_map(|port| port.get("port")?.as_u64())
            .collect();
        let port = udp.iter().find(|port| **port == 53).or(udp.first())?;
        let ip: IpAddr = service.pointer("/spec/clusterIP")?.as_str()?.parse().ok()?;
        Some(SocketAddr::new(ip, u16::try_from(*port).ok()?))
    };
    let mut found = items(&list).filter(|service| fits(service)).filter_map(address);
    match (found.next(), found.next()) {
        (Some(server), None) => Ok(server),
        (None, _) => bail!("no Service in front of the workload: name the address with --server"),
        (Some(_), Some(_)) => {
            bail!("several Services are in front of the workload: name the address with --server")
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.pointer("/items").and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_swap::Error;
    use serde_json::json;

    /// Answers every request with one list.
    struct List(Value);

    impl Api for List {
        fn get(&self, _: &str) -> Result<Option<Value>, Error> {
            Ok(Some(self.0.clone()))
        }

        fn text(&self, path: &str) -> Result<String, Error> {
            Err(Error::new(path, "no text"))
        }

        fn create(&self, path: &str, _: &Value) -> Result<Value, Error> {
            Err(Error::new(path, "read only"))
        }

        fn patch(&self, path: &str, _: &Value) -> Result<Value, Error> {
            Err(Error::new(path, "read only"))
        }

        fn delete(&self, path: &str, _: Option<&str>) -> Result<(), Error> {
            Err(Error::new(path, "read only"))
        }
    }

    fn service(name: &str, ip: &str, selector: Value) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"clusterIP": ip, "selector": selector, "ports": [
                {"port": 9153, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"},
            ]},
        })
    }

    #[test]
    fn the_service_in_front_is_asked() {
        let workload = json!({"spec": {"template": {"metadata": {"labels": {"k8s-app": "kube-dns", "x": "y"}}}}});
        let dns = || service("kube-dns", "10.96.0.10", json!({"k8s-app": "kube-dns"}));
        let other = service("other", "10.96.0.11", json!({"k8s-app": "other"}));
        let headless = service("headless", "None", json!({"k8s-app": "kube-dns"}));
        let found =
            |items: Value| server(&List(json!({ "items": items })), "kube-system", &workload);
        assert_eq!(
            found(json!([other, headless, dns()])).unwrap(),
            "10.96.0.10:53".parse().unwrap()
        );
        for items in [json!([other]), json!([dns(), dns()])] {
            assert!(found(items).unwrap_err().to_string().contains("--server"));
        }
        let set = services(&List(json!({"items": [dns(), headless]})), "cluster.local.").unwrap();
        assert_eq!(set.text, "kube-dns.kube-system.svc.cluster.local. A\n");
        assert_eq!(set.plan(1).unwrap().questions, Some(1));
        assert!(services(&List(json!({})), "cluster.local").unwrap().plan(1).is_err());
        assert_eq!(set.source, "1 Service of the cluster");
        let all: Vec<Value> =
            (0..1_200).map(|n| service(&format!("s{n}"), "10.0.0.1", json!({}))).collect();
        let set = services(&List(json!({"items": all})), "cluster.local").unwrap();
        assert_eq!(set.source, "the first 1,000 of 1,200 Services of the cluster");
        assert_eq!(set.text.lines().count(), 1_000);
    }

    #[test]
    fn a_suffix_makes_names_and_anything_else_is_refused() {
        let set = given_set("external", "example.org").unwrap();
        assert_eq!(set.text.lines().next(), Some("name0.example.org. A"));
        assert_eq!(set.plan(1).unwrap().questions, Some(given::NAMES as u64));
        assert!(given_set("external", "/nonexistent/names.txt").is_err());
    }
}
