//! What happens to the objects: first they are made, then wave after wave changes them.

use serde_json::{Value, json};

use super::population::{Maker, Planned, Shape, nodes, pod_status};
use crate::api::{Change, Key, Kind};

/// Changes of a wave: stages follow each other, the changes of one have no order.
pub(crate) type Stages = Vec<Vec<Change>>;

/// What a wave is about, and what makes its changes.
type Wave = (&'static str, fn(&mut Plan) -> Stages);

/// The waves after the first.
pub(crate) const WAVES: &[Wave] = &[
    ("create", Plan::create),
    ("scale and flip readiness", Plan::scale),
    ("delete and rename", Plan::rename),
    ("change in place", Plan::change),
    ("delete namespaces", Plan::delete_namespaces),
];

/// Names of namespaces that look like something else.
const ODD_NAMESPACES: [&str; 6] =
    ["svc", "pod", "1st", "cluster", "local", "ns-with-a-rather-long-name"];

/// The namespace of objects that show whether servers have caught up.
pub(crate) const SETTLE: &str = "settle";

/// What is there, as far as this program made it.
pub(crate) struct Plan {
    pub(crate) maker: Maker,
    pub(crate) namespaces: Vec<String>,
    services: Vec<Planned>,
    /// `NAME.NAMESPACE` of Services that were deleted.
    pub(crate) gone: Vec<String>,
    /// Services that a wave of creation adds, and about how many each other wave touches.
    step: usize,
}

impl Plan {
    /// A plan for so many Services in so many namespaces, and the changes that make them.
    pub(crate) fn new(seed: u64, services: usize, namespaces: usize) -> (Self, Stages) {
        let maker = Maker::new(seed);
        let mut plan =
            Plan { maker, namespaces: vec![], services: vec![], gone: vec![], step: services / 8 };
        let mut stages = vec![nodes(), Vec::new(), Vec::new()];
        let odd = ODD_NAMESPACES.iter().map(|name| (*name).to_owned());
        let names: Vec<String> = odd.chain((0..namespaces).map(|n| format!("team-{n}"))).collect();
        for name in names {
            stages[0].push(plan.maker.namespace(&name));
            plan.namespaces.push(name);
        }
        let labels = json!({"metadata": {"labels": {"team": "red"}}});
        stages[0].push(Change::Create(Key::new(Kind::Namespace, "", SETTLE), labels));
        stages[1].extend(name_service());
        plan.add(services, &mut stages);
        (plan, stages)
    }

    /// Adds so many Services; `stages` has to have at least three.
    fn add(&mut self, count: usize, stages: &mut Stages) {
        let inside: Vec<String> = self.names();
        for _ in 0..count {
            let namespace = self.maker.one_of(&self.namespaces).clone();
            let shape = self.shape();
            let name = match self.maker.random.below(60) {
                0 => "svc".to_owned(),
                1 => "pod".to_owned(),
                _ => self.maker.service_name(),
            };
            let taken = |planned: &Planned| planned.namespace == namespace && planned.name == name;
            if self.services.iter().any(taken) {
                continue;
            }
            let (planned, [first, second]) = self.maker.service(&namespace, name, shape, &inside);
            self.services.push(planned);
            stages[1].extend(first);
            stages[2].extend(second);
        }
    }

    fn shape(&mut self) -> Shape {
        match self.maker.random.below(20) {
            0..=4 => Shape::ClusterIp,
            5..=8 => Shape::Headless,
            9 => Shape::Empty,
            10 | 11 => Shape::External,
            12..=14 => Shape::ExternalName,
            15 => Shape::Pods { headless: false },
            16 => Shape::Pods { headless: true },
            17 | 18 => Shape::Import { headless: true },
            _ => Shape::Import { headless: false },
        }
    }

    /// `NAME.NAMESPACE` of every Service.
    pub(crate) fn names(&self) -> Vec<String> {
        self.services
            .iter()
            .map(|planned| format!("{}.{}", planned.name, planned.namespace))
            .collect()
    }

    fn create(&mut self) -> Stages {
        let mut stages = vec![Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..5 {
            let name = format!("new-{}", self.maker.fresh());
            stages[0].push(self.maker.namespace(&name));
            self.namespaces.push(name);
        }
        self.add(self.step, &mut stages);
        stages
    }

    /// Services of the plan, some of them, by their place.
    fn some(&mut self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> =
            (0..count).map(|_| self.maker.random.below(self.services.len())).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn scale(&mut self) -> Stages {
        let mut stages = vec![Vec::new(), Vec::new()];
        for place in self.some(self.step * 2) {
            let mut planned = self.services[place].clone();
            let namespace = planned.namespace.clone();
            match planned.shape {
                Shape::Pods { .. } if !planned.pods.is_empty() => {
                    let pod = planned.pods[self.maker.random.below(planned.pods.len())].clone();
                    let key = Key::new(Kind::Pod, &namespace, &pod);
                    match self.maker.random.below(3) {
                        0 => {
                            stages[0].push(Change::Delete(key));
                            planned.pods.retain(|name| *name != pod);
                        }
                        1 => {
                            let ips = [format!("10.127.0.{}", 1 + self.maker.random.below(250))];
                            let ready = self.maker.once_in(2);
                            stages[0].push(Change::Status(key, pod_status(ready, &ips)));
                        }
                        _ => {
                            let index = 10 + self.maker.fresh() as usize;
                            let [pod, status] = self.maker.pod(&mut planned, index);
                            stages[0].push(pod);
                            stages[1].push(status);
                        }
                    }
                }
                _ if !planned.slices.is_empty() => {
                    let slice =
                        planned.slices[self.maker.random.below(planned.slices.len())].clone();
                    let key = Key::new(Kind::Slice, &namespace, &slice);
                    if self.maker.once_in(3) {
                        stages[0].push(Change::Delete(key));
                        planned.slices.retain(|name| *name != slice);
                        let labels = json!({"tier": "front"});
                        let ports = [json!({"name": "http", "port": 80, "protocol": "TCP"})];
                        stages[1].push(self.maker.slice(&mut planned, &ports, &labels));
                    } else {
                        stages[0].push(Change::Patch(key, json!({"endpoints": []})));
                    }
                }
                _ => {}
            }
            self.services[place] = planned;
        }
        stages
    }

    /// Deletes Services, half of them to come back under another name or as another kind.
    fn rename(&mut self) -> Stages {
        let mut stages = vec![Vec::new(), Vec::new(), Vec::new()];
        let inside = self.names();
        let mut places = self.some(self.step);
        places.reverse();
        for place in places {
            let old = self.services.swap_remove(place);
            stages[0].extend(deletion(&old));
            self.gone.push(format!("{}.{}", old.name, old.namespace));
            let same_name = self.maker.once_in(3);
            if !same_name && self.maker.once_in(2) {
                continue;
            }
            // Pods and slices of the old one may not have gone yet, so a controller must not make the same again.
            let shape = match self.shape() {
                Shape::Pods { .. } => Shape::Headless,
                Shape::Import { .. } if same_name => Shape::ClusterIp,
                shape => shape,
            };
            let same_name = same_name && !matches!(old.shape, Shape::Import { .. });
            let name = if same_name { old.name } else { self.maker.service_name() };
            let (planned, [first, second]) =
                self.maker.service(&old.namespace, name, shape, &inside);
            self.services.push(planned);
            stages[1].extend(first);
            stages[2].extend(second);
        }
        stages
    }

    /// Other ports, targets, addresses and labels for what exists.
    fn change(&mut self) -> Stages {
        let mut stage = Vec::new();
        for place in self.some(self.step * 2) {
            let planned = self.services[place].clone();
            let ports = json!([
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "other", "port": 53, "protocol": "UDP"},
            ]);
            let spec = match planned.shape {
                Shape::ExternalName => json!({"externalName": "changed.example.org"}),
                Shape::External => json!({"externalIPs": ["198.51.100.250"]}),
                _ => json!({"ports": ports}),
            };
            let labels = json!({"tier": self.maker.one_of(&["front", "back", "middle"])});
            let patch = if self.maker.once_in(3) {
                json!({"metadata": {"labels": labels}})
            } else {
                json!({"spec": spec, "metadata": {"labels": labels}})
            };
            stage.push(Change::Patch(planned.key(), patch));
            for slice in planned.slices.iter().take(1) {
                let key = Key::new(Kind::Slice, &planned.namespace, slice);
                stage.push(Change::Patch(key, self.slice_patch()));
            }
        }
        for _ in 0..10 {
            let namespace = self.maker.one_of(&self.namespaces).clone();
            let team: Value =
                [json!("red"), json!("green"), json!(null)][self.maker.random.below(3)].clone();
            let patch = json!({"metadata": {"labels": {"team": team}}});
            stage.push(Change::Patch(Key::new(Kind::Namespace, "", &namespace), patch));
        }
        vec![stage]
    }

    /// A slice that is another Service's from now on, has other labels, or other ports.
    fn slice_patch(&mut self) -> Value {
        let other = self.services[self.maker.random.below(self.services.len())].name.clone();
        match self.maker.random.below(3) {
            0 => json!({"metadata": {"labels": {"kubernetes.io/service-name": other}}}),
            1 => json!({"metadata": {"labels": {"tier": "back"}}}),
            _ => json!({"ports": [{"name": "http", "port": 9090, "protocol": "TCP"}]}),
        }
    }

    /// Deletes namespaces with all they have; one comes back, empty but for one Service.
    fn delete_namespaces(&mut self) -> Stages {
        let count = (self.namespaces.len() / 12).max(2);
        let mut stages = vec![Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..count {
            let namespace =
                self.namespaces.swap_remove(self.maker.random.below(self.namespaces.len()));
            stages[0].push(Change::Delete(Key::new(Kind::Namespace, "", &namespace)));
            let (gone, rest) =
                self.services.drain(..).partition(|planned| planned.namespace == namespace);
            self.services = rest;
            let gone: Vec<Planned> = gone;
            self.gone.extend(gone.iter().map(|p| format!("{}.{}", p.name, p.namespace)));
        }
        self.add(self.step / 2, &mut stages);
        stages
    }
}

fn deletion(planned: &Planned) -> Vec<Change> {
    let slices = planned.slices.iter().map(|name| (Kind::Slice, name));
    let pods = planned.pods.iter().map(|name| (Kind::Pod, name));
    let parts = slices.chain(pods).map(|(kind, name)| Key::new(kind, &planned.namespace, name));
    [planned.key()].into_iter().chain(parts).map(Change::Delete).collect()
}

/// The Service of the name servers, whose endpoint is the address of this sandbox.
fn name_service() -> Vec<Change> {
    let namespace = "kube-system";
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]);
    let service = json!({"spec": {
        "clusterIP": "10.96.0.10", "ports": ports,
        "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"],
    }});
    let slice = |family: &str, address: &str| {
        let value = json!({
            "metadata": {"labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": family, "ports": ports, "endpoints": [{"addresses": [address]}],
        });
        let name = format!("kube-dns-{}", family.to_lowercase());
        Change::Create(Key::new(Kind::Slice, namespace, &name), value)
    };
    vec![
        Change::Create(Key::new(Kind::Service, namespace, "kube-dns"), service),
        slice("IPv4", crate::sandbox::NODE_V4),
        slice("IPv6", crate::sandbox::NODE_V6),
    ]
}

/// Objects of every kind that show that servers have caught up with wave `number`.
pub(crate) fn markers(number: usize) -> Stages {
    let key = |kind, name: &str| Key::new(kind, SETTLE, name);
    let label = json!({"tier": "front"});
    let name = |letter: &str| format!("{letter}{number}");
    let address = json!([{"addresses": [marker_address(number)]}]);
    let slice = |service: &str, labels: Value| {
        let mut labels = labels;
        labels["tier"] = "front".into();
        let value = json!({"metadata": {"labels": labels}, "addressType": "IPv4",
            "ports": [{"name": "p", "port": 1, "protocol": "TCP"}], "endpoints": address});
        Change::Create(key(Kind::Slice, service), value)
    };
    let ports = json!([{"name": "p", "port": 1}]);
    let service = |letter: &str, address: Value| {
        let spec = json!({"clusterIP": address, "ports": ports});
        Change::Create(
            key(Kind::Service, &name(letter)),
            json!({"metadata": {"labels": label}, "spec": spec}),
        )
    };
    let import = json!({"metadata": {"labels": {"team": "red"}}, "spec": {"type": "Headless", "ports": ports}});
    let pod = json!({"metadata": {"labels": label},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "local/none"}]}});
    let of = |letter: &str| json!({"kubernetes.io/service-name": name(letter)});
    let imported = json!({
        "multicluster.kubernetes.io/service-name": name("i"),
        "multicluster.kubernetes.io/source-cluster": "east",
    });
    let namespace = Key::new(Kind::Namespace, "", &format!("{SETTLE}-{number}"));
    let labelled = json!({"metadata": {"labels": {"team": "red"}}});
    vec![
        vec![
            Change::Create(namespace, labelled),
            service("h", "None".into()),
            service("c", Value::Null),
            Change::Create(key(Kind::Import, &name("i")), import),
            Change::Create(key(Kind::Pod, &name("p")), pod),
        ],
        vec![
            slice(&name("h"), of("h")),
            slice(&name("c"), of("c")),
            slice(&name("i"), imported),
            Change::Status(key(Kind::Pod, &name("p")), pod_status(true, &[marker_address(number)])),
        ],
    ]
}

/// The address of the endpoints and the pod of a wave's markers.
pub(crate) fn marker_address(number: usize) -> String {
    format!("192.0.2.{}", number + 1)
}
