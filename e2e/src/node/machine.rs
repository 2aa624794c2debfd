//! A whole node: containerd, kubelet, kube-proxy and the scheduler, in the sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::json;

use super::tools::{self, Tool};
use crate::control_plane::{ControlPlane, kubernetes};
use crate::process::Process;
use crate::sandbox::{NODE_V4, Sandbox, call};

/// How long each part may take to start on a machine with other work.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// The address of the cluster's DNS.
pub(super) const CLUSTER_DNS: &str = "10.96.0.10";

/// Settings of the kernel that kubelet changes for the whole machine: it is given copies of them instead.
const MACHINE_SETTINGS: &[&str] = &[
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Where kubelet and the network's plug-ins write: kept in memory, and gone with the sandbox.
const MACHINE_FOLDERS: &[&str] = &["/var/log", "/var/lib/cni", "/var/lib/kubelet"];

/// How long a client's program may take, in seconds: more than it waits for anything itself.
const CLIENT_TIMEOUT: &str = "300";

/// The network of pods: a bridge on this one node, and ports of the host for those that ask for them.
const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {
    "type": "host-local", "dataDir": "/run/nodens-e2e/ipam",
    "ranges": [[{"subnet": "10.244.0.0/24", "rangeEnd": "10.244.0.99"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}"#;

/// What every pod's sandbox runs.
pub(super) const PAUSE: &str = "localhost/nodens-e2e-pause:1";

/// A running node; its processes end with the sandbox.
#[derive(Debug)]
pub(crate) struct Node {
    folder: PathBuf,
    kubeconfig: PathBuf,
    processes: Vec<Process>,
}

impl Node {
    /// Starts the container runtime; [`Node::join`] does the rest once images are there.
    pub(crate) async fn start(sandbox: &Sandbox, plane: &ControlPlane) -> Result<Self> {
        let folder = sandbox.folder("node")?;
        let kubeconfig = plane.folder().join("admin.kubeconfig");
        network()?;
        protect_machine(&folder)?;
        let mut node = Node { folder, kubeconfig, processes: Vec::new() };
        node.write("network/10-pods.conflist", NETWORK)?;
        node.write("containerd.toml", &node.containerd_configuration()?)?;
        let mut containerd = Command::new(tools::path(Tool::Containerd)?);
        containerd.arg("--config").arg(node.folder.join("containerd.toml"));
        // It starts its shim by name.
        let tools = tools::folder().display().to_string();
        containerd.env("PATH", format!("{tools}:{}", std::env::var("PATH").unwrap_or_default()));
        node.run("containerd", containerd)?;
        node.wait("containerd", |node| node.ctr(&["version"]).is_ok()).await?;
        Ok(node)
    }

    /// Starts kubelet, kube-proxy and the scheduler, and waits until the node is Ready.
    pub(crate) async fn join(&mut self, cgroup: &str, proxy_mode: &str) -> Result<()> {
        // A server outside of the cluster, where pods find it as the node does.
        self.write("resolv.conf", &format!("nameserver {NODE_V4}\n"))?;
        self.write("kubelet.yaml", &self.kubelet_configuration(cgroup))?;
        let program = |name: &str| -> Result<Command> {
            let mut command = Command::new(kubernetes(name)?);
            command.arg("--kubeconfig").arg(&self.kubeconfig);
            Ok(command)
        };
        let mut scheduler = program("kube-scheduler")?;
        scheduler.arg("--leader-elect=false");
        let mut proxy = program("kube-proxy")?;
        proxy.args(["--cluster-cidr=10.244.0.0/16", &format!("--proxy-mode={proxy_mode}")]);
        // Limits on remembered flows belong to the machine, not to the sandbox.
        proxy.args(["--hostname-override=node", "--conntrack-max-per-core=0"]);
        let mut kubelet = program("kubelet")?;
        kubelet.arg("--config").arg(self.folder.join("kubelet.yaml"));
        kubelet.arg("--root-dir").arg(self.folder.join("kubelet"));
        kubelet.args(["--hostname-override=node", &format!("--node-ip={NODE_V4}")]);
        // Counters of containers are read as often as short loads need.
        kubelet.arg("--housekeeping-interval=1s");
        self.run("kube-scheduler", scheduler)?;
        self.run("kube-proxy", proxy)?;
        self.run("kubelet", kubelet)?;
        let ready = ["wait", "--for=condition=Ready", "node/node", "--timeout=2s"];
        self.wait("kubelet", |node| node.kubectl(&ready).is_ok()).await
    }

    /// The kubeconfig of its administrator.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Makes the images of an archive known to kubelet.
    pub(crate) fn import(&self, archive: &Path) -> Result<()> {
        let archive = archive.display().to_string();
        self.ctr(&[
            "-n",
            "k8s.io",
            "images",
            "import",
            "--local",
            "--snapshotter",
            snapshotter()?,
            &archive,
        ])
        .map(|_| ())
    }

    /// Runs kubectl to its end and returns what it wrote.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        tools::output(self.client(kubernetes("kubectl")?).args(arguments))
    }

    /// Runs helm to its end and returns what it wrote.
    pub(crate) fn helm(&self, arguments: &[&str]) -> Result<String> {
        tools::output(self.client(tools::path(Tool::Helm)?).args(arguments))
    }

    /// Hands objects to the API server: `apply` arguments, then the objects.
    pub(crate) fn apply(&self, arguments: &[&str], objects: &str) -> Result<String> {
        let path = self.write("apply.yaml", objects)?.display().to_string();
        self.kubectl(&[&["apply", "-f", &path], arguments].concat())
    }

    /// Starts a program beside the node.
    pub(crate) fn run(&mut self, name: &str, command: Command) -> Result<()> {
        let log = self.folder.join(format!("{name}.log"));
        self.processes.push(Process::start(name, command, log)?);
        Ok(())
    }

    /// Sends a signal to one of its programs.
    pub(crate) fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let process = self.processes.iter().find(|process| process.name() == name);
        process.with_context(|| format!("no {name}"))?.signal(signal)
    }

    /// Writes a file of the node.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// The same node for another thread, without what only its owner may do: its programs are not in it.
    pub(crate) fn spare(&self) -> Self {
        let (folder, kubeconfig) = (self.folder.clone(), self.kubeconfig.clone());
        Node { folder, kubeconfig, processes: Vec::new() }
    }

    /// What programs wrote last, for a run that failed.
    pub(crate) fn last_words(&self) -> String {
        self.processes.iter().map(Process::last_words).collect::<Vec<_>>().join("\n")
    }

    fn client(&self, program: PathBuf) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", CLIENT_TIMEOUT]).arg(program);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.folder);
        command
    }

    fn ctr(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(tools::path(Tool::Ctr)?);
        command.arg("--address").arg(self.folder.join("containerd.sock"));
        tools::output(command.args(arguments))
    }

    async fn wait(&mut self, name: &str, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !done(self) {
            for process in &mut self.processes {
                if !process.runs() {
                    bail!("a program ended: {}", process.last_words());
                }
            }
            if Instant::now() > deadline {
                bail!("{name} is not ready:\n{}", self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    fn containerd_configuration(&self) -> Result<String> {
        let folder = self.folder.display();
        let plugins = tools::network_plugins();
        Ok(format!(
            r#"version = 3
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
  # A sandbox may itself have been given less than it asks for.
  restrict_oom_score_adj = true
  disable_apparmor = true
  # Harder than usual: port 53 has to come from the image and the manifest.
  enable_unprivileged_ports = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{}"]
    conf_dir = "{folder}/network"
"#,
            snapshotter()?,
            plugins.display(),
        ))
    }

    fn kubelet_configuration(&self, cgroup: &str) -> String {
        // JSON is YAML.
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup,
            "clusterDNS": [CLUSTER_DNS],
            "clusterDomain": "cluster.local",
            // Restarts and changed ConfigMaps are noticed quickly.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
            "syncFrequency": "1s",
            "containerRuntimeEndpoint": format!("unix://{}/containerd.sock", self.folder.display()),
            "enforceNodeAllocatable": [],
            "failCgroupV1": false,
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            "resolvConf": self.folder.join("resolv.conf"),
        })
        .to_string()
    }
}

/// A bridge for the way out, so that every address has a route: kube-proxy's rules come after the choice of a route.
fn network() -> Result<()> {
    call("ip", &["link", "add", "node0", "type", "bridge"])?;
    call("ip", &["link", "set", "node0", "up"])?;
    call("ip", &["address", "add", "10.99.1.1/24", "dev", "node0"])?;
    call("ip", &["route", "add", "default", "via", "10.99.1.254"])?;
    // Of this network namespace alone.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot forward packets")
}

fn protect_machine(folder: &Path) -> Result<()> {
    let copies = folder.join("settings");
    fs::create_dir_all(&copies)?;
    for setting in MACHINE_SETTINGS {
        let path = format!("/proc/sys/{setting}");
        let copy = copies.join(setting.replace('/', "."));
        fs::write(&copy, fs::read(&path).with_context(|| path.clone())?)?;
        call("mount", &["--bind", &copy.display().to_string(), &path])?;
    }
    for folder in MACHINE_FOLDERS {
        fs::create_dir_all(folder).with_context(|| (*folder).to_owned())?;
        call("mount", &["-t", "tmpfs", "-o", "mode=755", "nodens-e2e", folder])?;
    }
    Ok(())
}

/// Layers share files where the kernel can, and are copied where not.
fn snapshotter() -> Result<&'static str> {
    let known = fs::read_to_string("/proc/filesystems")?;
    let overlay = known.lines().any(|line| line.split_whitespace().last() == Some("overlay"));
    Ok(if overlay { "overlayfs" } else { "native" })
}
