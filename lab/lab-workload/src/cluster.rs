//! The queries of one Kubernetes node: pods that look names up through a search list.
//!
//! A pod's stub resolver (glibc, `ndots:5`) does not ask for the name an application gives it. It
//! appends each suffix of the search list in turn, asks for A and AAAA together, and continues while
//! the answer is NXDOMAIN; a name with fewer than five dots is tried as it is only at the end. In an
//! open loop no answer is waited for, so the walk is computed from the names known to exist.
//!
//! What is modelled: services of the own namespace by short name, of others by `service.namespace`,
//! by full name without the final dot, external names, mistyped names, and one *leaking* name that
//! exists nowhere and that a few pods ask for all the time. What is not: retries, caches inside the
//! pod, other libraries' resolvers.

use crate::search::{Found, Libc, Lookup, Resolver, Weave};
pub use crate::search::{Looked, Mix};
use crate::workload::Style;
use lab_random::{Stream, Zipf};
use nodens_wire::{Name, Type};
use std::collections::HashSet;

/// Names with fewer dots go through the search list first.
const NDOTS: usize = 5;
/// The search suffix that a node gives to its pods behind those of the cluster.
const VPC_DOMAIN: &str = "eu-central-1.compute.internal";
const NAMESPACES: [&str; 8] =
    ["default", "kube-system", "shop", "payments", "search", "data", "monitoring", "batch"];
/// Of [`NAMESPACES`], those whose pods run on the node.
const NODE_NAMESPACES: usize = 5;
const SERVICES: [&str; 20] = [
    "api",
    "web",
    "auth",
    "cart",
    "orders",
    "users",
    "billing",
    "catalog",
    "postgres",
    "redis",
    "kafka",
    "rabbitmq",
    "metrics",
    "tracing",
    "gateway",
    "mailer",
    "worker",
    "scheduler",
    "images",
    "config",
];
const EXTERNALS: [&str; 24] = [
    "storage.eu-central-1.cloud.example",
    "queue.eu-central-1.cloud.example",
    "secrets.eu-central-1.cloud.example",
    "tokens.cloud.example",
    "api.payments.example",
    "hooks.chat.example",
    "api.mail.example",
    "registry.containers.example",
    "fonts.cdn.example",
    "static.cdn.example",
    "images.cdn.example",
    "telemetry.vendor.example",
    "logs.vendor.example",
    "flags.vendor.example",
    "maps.geo.example",
    "rates.bank.example",
    "sso.identity.example",
    "keys.identity.example",
    "api.tax.example",
    "www.partner.example",
    "feed.partner.example",
    "search.partner.example",
    "updates.os.example",
    "time.os.example",
];
/// What a few pods ask for because somebody once wrote it into a file.
const LEAK: &str = "legacy-db.old-datacenter";
/// One pod in this many leaks.
const LEAKING_PODS: usize = 12;

/// The names that exist.
#[derive(Clone, Debug)]
pub struct Cluster {
    names: HashSet<Name>,
}

impl Default for Cluster {
    fn default() -> Self {
        let services = NAMESPACES.iter().flat_map(|namespace| {
            SERVICES.iter().map(move |service| format!("{service}.{namespace}.svc.cluster.local"))
        });
        let externals = EXTERNALS.iter().map(|name| (*name).to_owned());
        // All texts are constants of this file; a test reads every one of them.
        let names = services.chain(externals).filter_map(|name| Name::parse(&name).ok());
        Self { names: names.collect() }
    }
}

impl Cluster {
    /// Whether `name` has records. Nothing else exists but the names above these.
    pub fn exists(&self, name: &Name) -> bool {
        self.names.contains(name)
    }

    fn find(&self, name: &Name) -> Found {
        if self.exists(name) { Found::Addresses } else { Found::NoName }
    }

    /// The names that exist, in no order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.names.iter()
    }

    /// Whether names like `name` are those of the cluster itself.
    pub fn is_internal(name: &Name) -> bool {
        Name::parse("cluster.local").is_ok_and(|zone| name.view().is_in_domain(zone.view()))
    }
}

/// Makes the queries of `pods` pods, at least `questions` of them unless that is 0.
pub fn mix(cluster: &Cluster, pods: usize, questions: usize, seed: u64) -> Mix {
    mix_with(cluster, pods, questions, seed, &Style::default())
}

/// As [`mix`], with queries that look like `style`.
pub fn mix_with(cluster: &Cluster, pods: usize, questions: usize, seed: u64, style: &Style) -> Mix {
    let mut maker = Maker {
        cluster,
        stream: Stream::new(seed, 4),
        services: Zipf::new(SERVICES.len(), 1.0),
        externals: Zipf::new(EXTERNALS.len(), 1.0),
    };
    let types = [Type::A, Type::AAAA];
    Weave { clients: pods, questions, types: &types, style, seed }.mix(|pod| maker.lookup(pod))
}

struct Maker<'c> {
    cluster: &'c Cluster,
    stream: Stream,
    services: Zipf,
    externals: Zipf,
}

impl Maker<'_> {
    /// A pod's next lookup.
    fn lookup(&mut self, pod: usize) -> Lookup {
        let namespace = NAMESPACES.get(pod % NODE_NAMESPACES).copied().unwrap_or("default");
        let text = self.text(pod);
        let names = pod_resolver(namespace).walk(&text, |name| self.cluster.find(name));
        let exists = names.last().is_some_and(|name| self.cluster.exists(name));
        Lookup { text, names, exists }
    }

    /// The name that an application in the pod gives to its resolver.
    fn text(&mut self, pod: usize) -> String {
        let kind = self.stream.below(100);
        if pod % LEAKING_PODS == LEAKING_PODS / 2 && kind < 50 {
            return LEAK.to_owned();
        }
        let service_rank = self.services.draw(&mut self.stream);
        let service = SERVICES.get(service_rank).copied().unwrap_or("api");
        let other = NAMESPACES.get(self.stream.below(NAMESPACES.len())).copied().unwrap_or("data");
        match kind {
            0..=59 => service.to_owned(),
            60..=74 => format!("{service}.{other}"),
            75..=79 => format!("{service}.{other}.svc.cluster.local"),
            80..=97 => {
                let external = self.externals.draw(&mut self.stream);
                EXTERNALS.get(external).copied().unwrap_or("time.os.example").to_owned()
            }
            _ => format!("{service}-old"),
        }
    }
}

/// The resolver of a pod, with glibc.
fn pod_resolver(namespace: &str) -> Resolver {
    let search = vec![
        format!("{namespace}.svc.cluster.local"),
        "svc.cluster.local".to_owned(),
        "cluster.local".to_owned(),
        VPC_DOMAIN.to_owned(),
    ];
    Resolver { libc: Libc::Glibc, search, ndots: NDOTS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, ndots: usize) -> Vec<String> {
        let cluster = Cluster::default();
        let resolver = Resolver { ndots, ..pod_resolver("shop") };
        resolver.walk(text, |name| cluster.find(name)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_constant_is_a_name() {
        let cluster = Cluster::default();
        assert_eq!(cluster.names().count(), NAMESPACES.len() * SERVICES.len() + EXTERNALS.len());
        assert!(Name::parse(LEAK).is_ok() && Name::parse(VPC_DOMAIN).is_ok());
        let internal = cluster.names().filter(|name| Cluster::is_internal(name)).count();
        assert_eq!(internal, NAMESPACES.len() * SERVICES.len());
    }

    #[test]
    fn a_short_name_takes_one_try_and_an_external_one_five() {
        assert_eq!(asked("api", NDOTS), ["api.shop.svc.cluster.local."]);
        assert_eq!(
            asked("api.data", NDOTS),
            ["api.data.shop.svc.cluster.local.", "api.data.svc.cluster.local."]
        );
        assert_eq!(
            asked("api.mail.example", NDOTS),
            [
                "api.mail.example.shop.svc.cluster.local.",
                "api.mail.example.svc.cluster.local.",
                "api.mail.example.cluster.local.",
                "api.mail.example.eu-central-1.compute.internal.",
                "api.mail.example.",
            ]
        );
        assert_eq!(asked("api.mail.example", 2), ["api.mail.example."]);
        assert_eq!(asked("api.mail.example.", NDOTS), ["api.mail.example."]);
        assert_eq!(asked(LEAK, NDOTS).len(), 5);
    }

    #[test]
    fn the_mix_repeats_with_its_seed_and_counts_its_queries() {
        let cluster = Cluster::default();
        let hash = |seed| {
            let mix = mix(&cluster, 24, 20_000, seed);
            let mut hash = crate::plan::PlanHash::default();
            mix.workload.hash_into(&mut hash);
            (hash.finish(), mix)
        };
        let (first, mix) = hash(1);
        assert_eq!(hash(1).0, first);
        assert_ne!(hash(2).0, first);
        let period = mix.workload.period().unwrap();
        assert!((20_000..20_048).contains(&period));
        // The walks that are under way at the end are counted whole.
        assert!(mix.questions() >= period && mix.questions() < period + 24 * 10);
        let leak = mix.looked.iter().find(|looked| looked.text == LEAK).unwrap();
        assert!(!leak.exists);
        assert_eq!(leak.questions, 10 * leak.lookups);
    }
}
