//! A cluster's worth of objects from a seed: what each of them is like.

use std::net::{Ipv4Addr, Ipv6Addr};

use lab_random::Stream;
use serde_json::{Value, json};

use crate::api::{Change, Key, Kind};

/// What a Service is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// With cluster IPs; its slices are ours.
    ClusterIp,
    /// Without; its slices are ours.
    Headless,
    /// With cluster IPs and no slice.
    Empty,
    /// With cluster IPs, external addresses and a load balancer's.
    External,
    /// A name.
    ExternalName,
    /// With pods that the controller makes slices of; headless or not.
    Pods { headless: bool },
    /// A ServiceImport with slices of several clusters.
    Import { headless: bool },
}

/// A Service or ServiceImport of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Names of its slices.
    pub(crate) slices: Vec<String>,
    /// Names of its pods.
    pub(crate) pods: Vec<String>,
}

impl Planned {
    pub(crate) fn key(&self) -> Key {
        let kind = match self.shape {
            Shape::Import { .. } => Kind::Import,
            _ => Kind::Service,
        };
        Key::new(kind, &self.namespace, &self.name)
    }
}

/// Topology zones of nodes and endpoints.
pub(crate) const ZONES: [&str; 4] = ["zone-a", "zone-b", "eu-west-1c", "Rack.7"];

const CLUSTERS: [&str; 3] = ["east", "west-2", "c3"];

/// What outside names ExternalName Services have, and some that are none.
const OUTSIDE: [&str; 7] = [
    "fail.example.org",
    "www.example.org",
    "no.such.example.org",
    "1st.example.net",
    "a.b.c.d.e.example.net",
    "192.0.2.7",
    "trailing.example.org.",
];

/// Makes objects; all numbers come from one seed.
pub(crate) struct Maker {
    pub(crate) random: Stream,
    next: u32,
}

impl Maker {
    pub(crate) fn new(seed: u64) -> Self {
        Maker { random: Stream::new(seed, 1), next: 0 }
    }

    /// A number that was not given before.
    pub(crate) fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// True once in `many` times.
    pub(crate) fn once_in(&mut self, many: usize) -> bool {
        self.random.below(many) == 0
    }

    pub(crate) fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.random.below(items.len())]
    }

    fn ipv4(&mut self) -> String {
        // Now and then an address that others have as well.
        let number = if self.once_in(40) { 7 } else { self.fresh() };
        Ipv4Addr::from(0x0a80_0000 + number).to_string()
    }

    fn ipv6(&mut self) -> String {
        let number = u128::from(self.fresh());
        let shape = self.random.below(3);
        // Addresses whose text ends in "::" and such with few zeros, too.
        let bits = match shape {
            0 => 0xfd00_0010_0244_0000_0000_0000_0000_0000 + number,
            1 => 0xfd00_0010_0245_0000_0000_0000_0000_0000 + (number << 16),
            _ => 0xfd01_0010_0246_0001_0002_0003_0004_0000 + number,
        };
        Ipv6Addr::from(bits).to_string()
    }

    /// A name of a Service: a label of RFC 1035.
    pub(crate) fn service_name(&mut self) -> String {
        let number = self.fresh();
        match self.random.below(12) {
            0 => format!("{}-{number}", "x".repeat(62 - number.to_string().len())),
            1 => format!("svc--{number}"),
            2 => format!("a{number}"),
            _ => format!("{}-{number}", self.one_of(&["api", "web", "db", "queue", "auth"])),
        }
    }

    fn ports(&mut self) -> Vec<Value> {
        let count = [1, 1, 1, 2, 3][self.random.below(5)];
        let named = count > 1 || self.once_in(2);
        (0..count)
            .map(|index| {
                let protocol = *self.one_of(&["TCP", "TCP", "UDP", "SCTP"]);
                let mut port = json!({"port": 80 + index, "protocol": protocol});
                if named {
                    let name = ["http", "dns-tcp", "p3"][index];
                    port["name"] = name.into();
                }
                port
            })
            .collect()
    }

    fn labels(&mut self) -> Value {
        json!({"tier": self.one_of(&["front", "back", "middle"])})
    }

    pub(crate) fn namespace(&mut self, name: &str) -> Change {
        let team = *self.one_of(&["red", "blue", "green"]);
        let mut value = json!({"metadata": {"labels": {"team": team}}});
        if self.once_in(8) {
            value = json!({});
        }
        Change::Create(Key::new(Kind::Namespace, "", name), value)
    }

    /// A Service or ServiceImport of this shape with all that belongs to it, in stages.
    pub(crate) fn service(
        &mut self,
        namespace: &str,
        name: String,
        shape: Shape,
        inside: &[String],
    ) -> (Planned, [Vec<Change>; 2]) {
        let mut planned =
            Planned { namespace: namespace.to_owned(), name, shape, slices: vec![], pods: vec![] };
        let ports = self.ports();
        let labels = self.labels();
        let mut first = Vec::new();
        let mut second = Vec::new();
        let mut balanced = false;
        if let Shape::Import { headless } = shape {
            first.push(self.import(&planned, headless, &ports));
        } else {
            let spec = self.spec(&planned, &ports, inside);
            balanced = spec["type"] == "LoadBalancer";
            let value = json!({"metadata": {"labels": labels}, "spec": spec});
            first.push(Change::Create(planned.key(), value));
        }
        match shape {
            Shape::ClusterIp | Shape::Headless | Shape::Import { .. } => {
                for _ in 0..[1, 1, 2, 3, 0][self.random.below(5)] {
                    second.push(self.slice(&mut planned, &ports, &labels));
                }
            }
            Shape::External => {
                second.push(self.slice(&mut planned, &ports, &labels));
                if balanced {
                    second.push(self.load_balancer(&planned));
                }
            }
            Shape::Pods { .. } => {
                for index in 0..1 + self.random.below(3) {
                    let [pod, status] = self.pod(&mut planned, index);
                    first.push(pod);
                    second.push(status);
                }
            }
            Shape::Empty | Shape::ExternalName => {}
        }
        (planned, [first, second])
    }

    fn spec(&mut self, planned: &Planned, ports: &[Value], inside: &[String]) -> Value {
        let mut spec = json!({"ports": ports});
        if let Shape::ExternalName = planned.shape {
            let target = match self.random.below(3) {
                0 => (*self.one_of(&OUTSIDE)).to_owned(),
                _ if inside.is_empty() => OUTSIDE[0].to_owned(),
                _ => format!("{}.svc.cluster.local", self.one_of(inside)),
            };
            return json!({"type": "ExternalName", "externalName": target, "ports": ports});
        }
        let headless = matches!(planned.shape, Shape::Headless | Shape::Pods { headless: true });
        if headless {
            spec["clusterIP"] = "None".into();
            spec["publishNotReadyAddresses"] = self.once_in(3).into();
            if self.once_in(6) && planned.shape == Shape::Headless {
                spec["ports"] = json!([]);
            }
        }
        let families =
            [json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"]), json!(["IPv6", "IPv4"])];
        let families = self.one_of(&families).clone();
        let both = families.as_array().is_some_and(|families| families.len() == 2);
        spec["ipFamilyPolicy"] = if both { "RequireDualStack" } else { "SingleStack" }.into();
        spec["ipFamilies"] = families;
        if let Shape::Pods { .. } = planned.shape {
            spec["selector"] = json!({"app": planned.name});
            if self.once_in(3) {
                spec["trafficDistribution"] = "PreferSameZone".into();
            }
        }
        if planned.shape == Shape::External {
            let address = Ipv4Addr::from(0xc633_6400 + self.random.below(200) as u32).to_string();
            let other = format!("2001:db8:5::{:x}", self.fresh());
            spec["externalIPs"] = [json!([address]), json!([address, other]), json!([])]
                [self.random.below(3)]
            .clone();
            if !self.once_in(4) {
                spec["type"] = "LoadBalancer".into();
                spec["allocateLoadBalancerNodePorts"] = false.into();
            }
        }
        spec
    }

    fn load_balancer(&mut self, planned: &Planned) -> Change {
        let number = self.fresh();
        let address =
            json!({"ip": Ipv4Addr::from(0xcb00_7100 + number % 250).to_string(), "ipMode": "VIP"});
        let host = json!({"hostname": format!("lb-{number}.example.org")});
        let ingress = match self.random.below(3) {
            0 => json!([address]),
            1 => json!([host]),
            _ => json!([{"ip": format!("2001:db8:6::{number:x}"), "ipMode": "VIP"}, address]),
        };
        Change::Status(planned.key(), json!({"loadBalancer": {"ingress": ingress}}))
    }

    fn import(&mut self, planned: &Planned, headless: bool, ports: &[Value]) -> Change {
        let kind = if headless { "Headless" } else { "ClusterSetIP" };
        let mut spec = json!({"type": kind, "ports": ports});
        if !headless {
            let number = self.fresh();
            let four = Ipv4Addr::from(0x0af0_0000 + number).to_string();
            let six = format!("fd00:20::{number:x}");
            let ips = [json!([four]), json!([four, six]), json!([six])];
            spec["ips"] = self.one_of(&ips).clone();
        }
        let team = *self.one_of(&["red", "green"]);
        Change::Create(planned.key(), json!({"metadata": {"labels": {"team": team}}, "spec": spec}))
    }

    /// A slice of the Service, with endpoints of every kind.
    pub(crate) fn slice(
        &mut self,
        planned: &mut Planned,
        ports: &[Value],
        labels: &Value,
    ) -> Change {
        let name = format!("{}-{}", planned.name, self.fresh());
        planned.slices.push(name.clone());
        let six = self.once_in(3);
        let mut labels = labels.clone();
        match planned.shape {
            Shape::Import { .. } => {
                labels["multicluster.kubernetes.io/service-name"] = (*planned.name).into();
                labels["multicluster.kubernetes.io/source-cluster"] =
                    (*self.one_of(&CLUSTERS)).into();
            }
            _ => labels["kubernetes.io/service-name"] = (*planned.name).into(),
        }
        let count = [0, 1, 1, 2, 3, 9][self.random.below(6)];
        let endpoints: Vec<Value> = (0..count).map(|index| self.endpoint(six, index)).collect();
        let ports: Vec<Value> =
            if self.once_in(10) { Vec::new() } else { ports.iter().map(slice_port).collect() };
        let value = json!({
            "metadata": {"labels": labels},
            "addressType": if six { "IPv6" } else { "IPv4" },
            "endpoints": endpoints,
            "ports": ports,
        });
        Change::Create(Key::new(Kind::Slice, &planned.namespace, &name), value)
    }

    fn endpoint(&mut self, six: bool, index: usize) -> Value {
        let address = if six { self.ipv6() } else { self.ipv4() };
        let mut endpoint = json!({"addresses": [address]});
        match self.random.below(5) {
            0 => endpoint["conditions"] = json!({"ready": false}),
            1 => {
                endpoint["conditions"] =
                    json!({"ready": true, "serving": true, "terminating": false})
            }
            2 => {
                endpoint["conditions"] =
                    json!({"ready": false, "serving": true, "terminating": true})
            }
            _ => {}
        }
        if self.once_in(3) {
            endpoint["hostname"] = format!("db-{index}").into();
        }
        if self.once_in(2) {
            let name = match self.random.below(8) {
                0 => format!("{}-{index}", "very-long-name".repeat(5)),
                1 => format!("with.dot-{index}"),
                _ => format!("pod-{}", self.fresh()),
            };
            endpoint["targetRef"] = json!({"kind": "Pod", "name": name});
        }
        if !self.once_in(3) {
            let zone = *self.one_of(&ZONES);
            endpoint["zone"] = zone.into();
            endpoint["hints"] = json!({"forZones": [{"name": zone}]});
        }
        endpoint
    }

    /// A pod of the Service and the status that a kubelet would give it.
    pub(crate) fn pod(&mut self, planned: &mut Planned, index: usize) -> [Change; 2] {
        let headless = planned.shape == Shape::Pods { headless: true };
        let name = if headless {
            format!("{}-{index}", planned.name.trim_start_matches('x'))
        } else {
            format!("{}-{}", planned.name, self.fresh())
        };
        let name = name.trim_matches('-').to_owned();
        planned.pods.push(name.clone());
        let node = format!("node-{}", self.random.below(ZONES.len()));
        let mut spec = json!({
            "containers": [{"name": "c", "image": "local/none"}], "nodeName": node,
        });
        if headless {
            // As a StatefulSet has it.
            spec["hostname"] = (*name).into();
            spec["subdomain"] = (*planned.name).into();
        }
        let labels = json!({"app": planned.name, "tier": self.one_of(&["front", "back"])});
        let key = Key::new(Kind::Pod, &planned.namespace, &name);
        let pod =
            Change::Create(key.clone(), json!({"metadata": {"labels": labels}, "spec": spec}));
        let ready = !self.once_in(4);
        let (four, six) = (self.ipv4(), self.ipv6());
        let ips = if self.once_in(2) { vec![four] } else { vec![four, six] };
        [pod, Change::Status(key, pod_status(ready, &ips))]
    }
}

/// The status of a pod that runs.
pub(crate) fn pod_status(ready: bool, ips: &[String]) -> Value {
    let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    json!({
        "phase": "Running",
        "podIP": ips.first(),
        "podIPs": all,
        "hostIP": "10.99.0.1",
        "conditions": [
            {"type": "Ready", "status": if ready { "True" } else { "False" }},
            {"type": "PodScheduled", "status": "True"},
        ],
    })
}

fn slice_port(port: &Value) -> Value {
    let mut port = port.clone();
    // What pods listen on need not be what the Service has.
    port["port"] = (port["port"].as_u64().unwrap_or(0) + 8000).into();
    if port.get("name").is_none() {
        port["name"] = "".into();
    }
    port
}

/// Nodes, one in each zone.
pub(crate) fn nodes() -> Vec<Change> {
    let node = |(index, zone): (usize, &&str)| {
        let key = Key::new(Kind::Node, "", &format!("node-{index}"));
        let labels = json!({"topology.kubernetes.io/zone": zone});
        Change::Create(key, json!({"metadata": {"labels": labels}}))
    };
    ZONES.iter().enumerate().map(node).collect()
}
