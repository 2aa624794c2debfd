//! Queries for names that exist, that existed, and that never did.

use std::net::{IpAddr, Ipv4Addr};

use lab_random::Stream;
use nodens_judge::question::{Edns, Question, bits};
use nodens_judge::transport::Transport;
use serde_json::Value;

use super::corefiles::Case;
use super::object::{base, name, namespace, reverse_name};
use super::population::ZONES;
use super::settle::State;

mod rtype {
    pub(super) const A: u16 = 1;
    pub(super) const NS: u16 = 2;
    pub(super) const CNAME: u16 = 5;
    pub(super) const SOA: u16 = 6;
    pub(super) const PTR: u16 = 12;
    pub(super) const MX: u16 = 15;
    pub(super) const TXT: u16 = 16;
    pub(super) const AAAA: u16 = 28;
    pub(super) const SRV: u16 = 33;
    pub(super) const DS: u16 = 43;
    pub(super) const HTTPS: u16 = 65;
    pub(super) const ANY: u16 = 255;
    pub(super) const CAA: u16 = 257;
}
use rtype::{A, AAAA, ANY, CAA, CNAME, DS, HTTPS, MX, NS, PTR, SOA, SRV, TXT};

/// Types that any name may be asked for; what clients ask most is here more often.
const ANY_TYPE: [u16; 22] = [
    A, A, A, A, A, AAAA, AAAA, AAAA, SRV, SRV, SRV, TXT, CNAME, MX, NS, SOA, PTR, HTTPS, ANY, CAA,
    DS, 64,
];

/// What queries are made from.
pub(crate) struct Source<'a> {
    state: &'a State,
    /// `NAME.NAMESPACE` of Services that are no more.
    gone: &'a [String],
    random: Stream,
    case: &'a Case,
}

impl<'a> Source<'a> {
    pub(crate) fn new(state: &'a State, gone: &'a [String], case: &'a Case, seed: u64) -> Self {
        Source { state, gone, random: Stream::new(seed, 2), case }
    }

    /// So many queries, each with its transport.
    pub(crate) fn questions(&mut self, count: usize) -> Vec<(Transport, Question)> {
        let mut questions: Vec<(Transport, Question)> = Vec::with_capacity(count);
        let mut names = std::collections::HashSet::new();
        while questions.len() < count {
            let (name, qtype) = self.name();
            // A cache answers the second time from the first.
            if self.case.cached && !names.insert((name.to_lowercase(), qtype)) {
                continue;
            }
            questions.push(self.question(&name, qtype));
        }
        questions
    }

    fn question(&mut self, name: &str, qtype: u16) -> (Transport, Question) {
        let name = if self.once_in(6) { self.mixed_case(name) } else { name.to_owned() };
        let mut question = Question::new(Ipv4Addr::LOCALHOST.into(), &name, qtype);
        question.edns = match self.below(8) {
            0..=2 => None,
            3 => Some(Edns::of_size(512)),
            4 => Some(Edns { dnssec_ok: true, ..Edns::of_size(1232) }),
            5 => Some(Edns::of_size(4096)),
            _ => Some(Edns::of_size(1232)),
        };
        if self.once_in(12) {
            question.flags &= !bits::RD;
        }
        if self.once_in(12) {
            question.flags |= [bits::AD, bits::CD][self.below(2)];
        }
        let transport = if self.below(10) < 3 { Transport::Tcp } else { Transport::Udp };
        (transport, question)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    fn once_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn one_of<'b, T: ?Sized>(&mut self, items: &[&'b T]) -> &'b T {
        items[self.below(items.len())]
    }

    fn mixed_case(&mut self, name: &str) -> String {
        let flip = |letter: char| {
            if self.random.below(2) == 0 { letter.to_ascii_uppercase() } else { letter }
        };
        name.chars().map(flip).collect()
    }

    fn any_type(&mut self) -> u16 {
        ANY_TYPE[self.below(ANY_TYPE.len())]
    }

    fn object(&mut self, objects: &'a [Value]) -> &'a Value {
        static NONE: Value = Value::Null;
        let place = self.below(objects.len());
        objects.get(place).unwrap_or(&NONE)
    }

    fn zone(&mut self) -> &'static str {
        self.one_of(self.case.asked)
    }

    /// A name without its last dot, and the type to ask it for.
    fn name(&mut self) -> (String, u16) {
        match self.below(24) {
            0..=6 => self.service(),
            7..=9 => self.endpoint(),
            10..=12 => self.port(),
            13 | 14 => self.pod(),
            15 | 16 => self.reverse(),
            17 | 18 => self.absent(),
            19 => self.apex(),
            20 => self.noise(),
            21 => self.odd(),
            22 => self.zonal(),
            _ => self.outside(),
        }
    }

    /// `svc` for zones of clusters, nothing for those of `k8s_external`, with the zone.
    fn suffix(&mut self) -> String {
        match self.zone() {
            "example.com" => "example.com.".to_owned(),
            zone => format!("svc.{zone}."),
        }
    }

    /// An object that is a Service or, in zones of several clusters, mostly a ServiceImport.
    fn service_object(&mut self, suffix: &str) -> &'a Value {
        let imports = suffix.contains("clusterset") && !self.once_in(6);
        let external = suffix == "example.com." && !self.once_in(3);
        if imports {
            return self.object(&self.state.imports);
        }
        for _ in 0..40 {
            let service = self.object(&self.state.services);
            let has = |path: &str| service.pointer(path).is_some_and(|value| !value.is_null());
            if !external || has("/spec/externalIPs") || has("/status/loadBalancer/ingress") {
                return service;
            }
        }
        self.object(&self.state.services)
    }

    fn service(&mut self) -> (String, u16) {
        let suffix = self.suffix();
        let service = self.service_object(&suffix);
        let kinds = [A, A, AAAA];
        let qtype = if self.once_in(2) { kinds[self.below(3)] } else { self.any_type() };
        (format!("{}.{suffix}", base(service)), qtype)
    }

    fn endpoint(&mut self) -> (String, u16) {
        let suffix = self.suffix();
        let (slice, service) = self.slice(&suffix);
        let namespace = namespace(slice);
        let place = self.below(slice["endpoints"].as_array().map_or(0, Vec::len));
        let endpoint = &slice["endpoints"][place];
        let address = endpoint["addresses"][0].as_str().unwrap_or("10.1.2.3");
        let dashed = address.replace(['.', ':'], "-");
        let label = match self.below(5) {
            0 => endpoint["hostname"].as_str().unwrap_or(&dashed),
            1 => endpoint["targetRef"]["name"].as_str().unwrap_or(&dashed),
            2 if dashed.ends_with('-') => &format!("{dashed}0"),
            3 => "db-1",
            _ => &dashed,
        };
        let label = if label.is_empty() { "x" } else { label };
        let cluster =
            slice["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"].as_str();
        let label = match cluster {
            Some(cluster) if !self.once_in(5) => format!("{label}.{cluster}"),
            _ => label.to_owned(),
        };
        let qtype = [A, A, AAAA, SRV, TXT, self.any_type()][self.below(6)];
        (format!("{label}.{service}.{namespace}.{suffix}"), qtype)
    }

    /// A slice, of several clusters where the zone is, and the name of its Service.
    fn slice(&mut self, suffix: &str) -> (&'a Value, &'a str) {
        let key = if suffix.contains("clusterset") && !self.once_in(6) {
            "multicluster.kubernetes.io/service-name"
        } else {
            "kubernetes.io/service-name"
        };
        for _ in 0..60 {
            let slice = self.object(&self.state.slices);
            if let Some(name) = slice["metadata"]["labels"][key].as_str() {
                return (slice, name);
            }
        }
        (self.object(&self.state.slices), "none")
    }

    /// Names with a port and a protocol.
    fn port(&mut self) -> (String, u16) {
        let suffix = self.suffix();
        let service = self.service_object(&suffix);
        let place = self.below(service["spec"]["ports"].as_array().map_or(0, Vec::len));
        let port = &service["spec"]["ports"][place];
        let name = port["name"].as_str().unwrap_or(self.one_of(&["http", "x"])).to_owned();
        let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
        let (name, protocol) = match self.below(10) {
            0 => (name, "udp".to_owned()),
            1 => ("http".to_owned(), protocol),
            2 => (self.one_of(&["_", "*", "no-such", "any"]).to_owned(), protocol),
            _ => (name, protocol),
        };
        let prefix = match self.below(10) {
            0 => format!("{name}.{protocol}"),
            1 => format!("_{name}.{protocol}"),
            2 => format!("_{protocol}"),
            3 => format!("_{protocol}._{name}"),
            _ => format!("_{name}._{protocol}"),
        };
        let qtype = if self.once_in(4) { self.any_type() } else { SRV };
        (format!("{prefix}.{}.{suffix}", base(service)), qtype)
    }

    fn pod(&mut self) -> (String, u16) {
        let zone = self.zone();
        let pod = self.object(&self.state.pods);
        let place = self.below(pod["status"]["podIPs"].as_array().map_or(0, Vec::len));
        let address = pod["status"]["podIPs"][place]["ip"].as_str().unwrap_or("10.0.0.1");
        let namespace = match self.below(6) {
            0 => "default",
            1 => "no-such-namespace",
            _ => namespace(pod),
        };
        let label = match self.below(10) {
            0 => self
                .one_of(&["10-0-0-300", "1-2-3", "fd00--1", "--1", "1-2-3-4-5", "x", "01-2-3-4"])
                .to_owned(),
            1 => "172-16-0-1".to_owned(),
            _ => address.replace(['.', ':'], "-"),
        };
        let prefix = match self.below(12) {
            0 => String::new(),
            1 => format!("more.{label}."),
            _ => format!("{label}."),
        };
        let qtype = [A, A, A, AAAA, AAAA, self.any_type()][self.below(6)];
        (format!("{prefix}{namespace}.pod.{zone}."), qtype)
    }

    fn reverse(&mut self) -> (String, u16) {
        let address = match self.below(10) {
            0..=3 => {
                let service = self.object(&self.state.services);
                let ips = service["spec"]["clusterIPs"].clone();
                ips[self.below(ips.as_array().map_or(0, Vec::len))].as_str().map(str::to_owned)
            }
            4..=7 => {
                let slice = self.object(&self.state.slices);
                let place = self.below(slice["endpoints"].as_array().map_or(0, Vec::len));
                slice["endpoints"][place]["addresses"][0].as_str().map(str::to_owned)
            }
            8 => {
                let service = self.service_object("example.com.");
                service["spec"]["externalIPs"][0].as_str().map(str::to_owned)
            }
            _ => None,
        };
        let address: Option<IpAddr> = address.and_then(|address| address.parse().ok());
        let other = self.one_of(&["10.77.0.9", "10.96.0.1", "fd00:10::77", "127.0.0.1", "8.8.8.8"]);
        let address = address.or_else(|| other.parse().ok()).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let mut name = reverse_name(address);
        match self.below(12) {
            0 => name = name.split_once('.').map_or(name.clone(), |(_, rest)| rest.to_owned()),
            1 => name = format!("x.{name}"),
            2 => name = name.replacen(|c: char| c.is_ascii_digit(), "z", 1),
            _ => {}
        }
        (name, if self.once_in(6) { self.any_type() } else { PTR })
    }

    fn absent(&mut self) -> (String, u16) {
        let suffix = self.suffix();
        let service = base(self.service_object(&suffix));
        let name = match self.below(8) {
            0..=3 if !self.gone.is_empty() => self.gone[self.below(self.gone.len())].clone(),
            4 => format!("no-such.{}", service.split('.').nth(1).unwrap_or("default")),
            5 => format!("{}.no-such", service.split('.').next().unwrap_or("x")),
            6 => format!("a.b.c.d.{service}"),
            7 => service.replace('.', "-"),
            _ => "no-such.default".to_owned(),
        };
        let qtype = if self.once_in(3) { self.any_type() } else { A };
        (format!("{name}.{suffix}"), qtype)
    }

    fn apex(&mut self) -> (String, u16) {
        let zone = self.zone();
        let namespace = name(self.object(&self.state.namespaces));
        let prefix = match self.below(16) {
            0..=3 => String::new(),
            4 => "svc.".to_owned(),
            5 => "pod.".to_owned(),
            6 => format!("{namespace}.svc."),
            7 => format!("{namespace}.pod."),
            8 => format!("{namespace}."),
            9 | 10 => "dns-version.".to_owned(),
            11 | 12 => "ns.dns.".to_owned(),
            13 => ["ns1.dns.", "ns1.sub.", "sub.", "x.dns."][self.below(4)].to_owned(),
            14 => "dns.".to_owned(),
            _ => [
                "hostmaster.",
                "kubernetes.default.svc.",
                "kube-dns.kube-system.svc.",
                "x.dns-version.",
            ][self.below(4)]
            .to_owned(),
        };
        let qtype = [A, AAAA, NS, SOA, TXT, SRV, self.any_type()][self.below(7)];
        (format!("{prefix}{zone}."), qtype)
    }

    /// What search lists make of names.
    fn noise(&mut self) -> (String, u16) {
        let zone = self.zone();
        let namespace = name(self.object(&self.state.namespaces));
        let service = base(self.object(&self.state.services));
        let first = match self.below(5) {
            0 => "www.example.org".to_owned(),
            1 => "localhost".to_owned(),
            2 => format!("{service}.svc.{zone}"),
            3 => service,
            _ => "api.github.com".to_owned(),
        };
        let search = match self.below(4) {
            0 => zone.to_owned(),
            1 => format!("svc.{zone}"),
            _ => format!("{namespace}.svc.{zone}"),
        };
        (format!("{first}.{search}."), if self.once_in(2) { A } else { AAAA })
    }

    /// Names at the limits and with letters that names seldom have.
    fn odd(&mut self) -> (String, u16) {
        let suffix = self.suffix();
        let service = base(self.service_object(&suffix));
        let long = "l".repeat(63);
        let name = match self.below(9) {
            0 => format!("{long}.{service}"),
            1 => format!("{long}.{long}.{long}.{service}"),
            2 => format!("*.{service}"),
            3 => format!("_.{service}"),
            4 => format!("_._.{service}"),
            5 => format!("a\\032b.{service}"),
            6 => format!("a\\.b.{service}"),
            7 => format!("\\000\\255.{service}"),
            _ => format!("_x._y._z.{service}"),
        };
        let name = format!("{name}.{suffix}");
        // More than 255 octets cannot be asked at all.
        let name = if name.len() > 250 { format!("{long}.{suffix}") } else { name };
        (name, self.any_type())
    }

    fn zonal(&mut self) -> (String, u16) {
        let suffix = self.suffix();
        let (slice, service) = self.slice(&suffix);
        let zone = self.one_of(&[ZONES[0], ZONES[1], ZONES[2], ZONES[3], "no-such", "rack.7"]);
        let directive = self.one_of(&["pin", "pin", "pin", "prefer", "prefer", "other"]);
        let anchor = self.one_of(&["_zone", "_zone", "_zone", "_zone", "zone"]);
        let qtype = [A, AAAA, SRV, TXT, self.any_type()][self.below(5)];
        (format!("{zone}.{directive}.{anchor}.{service}.{}.{suffix}", namespace(slice)), qtype)
    }

    fn outside(&mut self) -> (String, u16) {
        let names =
            ["www.example.org.", "no.such.example.org.", ".", "cluster.local.example.", "local."];
        (self.one_of(&names).to_owned(), [A, AAAA, TXT][self.below(3)])
    }
}
