//! The programs of the control plane and their flags.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::pki::ISSUER;
use super::{Options, Store};
use crate::process::Process;
use crate::sandbox::{NODE_V4, call};

/// A part of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Component {
    /// The store.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    Controllers,
}

impl Component {
    fn name(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::ApiServer => "kube-apiserver",
            Component::Controllers => "kube-controller-manager",
        }
    }
}

/// The folder that `cargo xtask peers` fills: `$NODENS_PEERS_CACHE`, or `.cache/peers` in the repository.
pub(crate) fn peers() -> PathBuf {
    std::env::var_os("NODENS_PEERS_CACHE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers"),
        PathBuf::from,
    )
}

/// The path of a program of Kubernetes.
pub(crate) fn kubernetes(name: &str) -> Result<PathBuf> {
    let path = peers().join("kube/bin").join(name);
    if !path.is_file() {
        bail!("no {}: run 'cargo xtask peers kubernetes'", path.display());
    }
    Ok(path)
}

/// The program that is the store.
fn etcd(store: Store) -> Result<PathBuf> {
    if store == Store::Pages {
        return Ok("etcd".into());
    }
    let path = peers().join("etcd/etcd");
    if !path.is_file() {
        bail!("no {}: run 'cargo xtask peers etcd'", path.display());
    }
    Ok(path)
}

/// The processes.
#[derive(Debug)]
pub(crate) struct Components {
    folder: PathBuf,
    options: Options,
    processes: [Option<Process>; 3],
}

impl Components {
    pub(crate) fn new(folder: PathBuf, options: Options) -> Result<Self> {
        for component in [Component::ApiServer, Component::Controllers] {
            kubernetes(component.name())?;
        }
        if options.store == Store::Pages {
            call("etcd", &["--version"]).context("run 'cargo xtask peers etcd-server'")?;
        }
        etcd(options.store)?;
        Ok(Components { folder, options, processes: [None, None, None] })
    }

    /// Starts one; what ran before under its name has to have ended.
    pub(crate) fn start(&mut self, component: Component) -> Result<()> {
        let command = match component {
            Component::Etcd => self.etcd()?,
            Component::ApiServer => self.api_server()?,
            Component::Controllers => self.controllers()?,
        };
        let slot = &mut self.processes[component as usize];
        if slot.as_mut().is_some_and(Process::runs) {
            bail!("{} runs already", component.name());
        }
        let log = self.folder.join(format!("{}.log", component.name()));
        *slot = Some(Process::start(component.name(), command, log)?);
        Ok(())
    }

    /// The process of a part that was started.
    pub(crate) fn process(&mut self, component: Component) -> Result<&mut Process> {
        self.processes[component as usize]
            .as_mut()
            .with_context(|| format!("{} was not started", component.name()))
    }

    fn etcd(&self) -> Result<Command> {
        let mut command = Command::new(etcd(self.options.store)?);
        command.arg("--data-dir").arg(self.folder.join("etcd"));
        // Files are in memory and end with the run.
        command.args(["--unsafe-no-fsync", "--quota-backend-bytes=8589934592"]);
        command.args(["--listen-client-urls=http://127.0.0.1:2379"]);
        command.args(["--advertise-client-urls=http://127.0.0.1:2379"]);
        command.args(["--listen-peer-urls=http://127.0.0.1:2380"]);
        Ok(command)
    }

    fn api_server(&self) -> Result<Command> {
        let mut command = Command::new(kubernetes(Component::ApiServer.name())?);
        for (flag, file) in [
            ("client-ca-file", "ca.crt"),
            ("service-account-key-file", "sa.pub"),
            ("service-account-signing-key-file", "sa.key"),
            ("tls-cert-file", "apiserver.crt"),
            ("tls-private-key-file", "apiserver.key"),
        ] {
            command.arg(format!("--{flag}={}", self.pki(file).display()));
        }
        command.args([
            "--etcd-servers=http://127.0.0.1:2379",
            "--authorization-mode=Node,RBAC",
            "--secure-port=6443",
            "--bind-address=0.0.0.0",
            "--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/108",
            "--allow-privileged=true",
            "--event-ttl=10m",
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=4000",
        ]);
        command.arg(format!("--advertise-address={NODE_V4}"));
        command.arg(format!("--service-account-issuer={ISSUER}"));
        command.arg("--cert-dir").arg(&self.folder);
        command.args(&self.options.api_server_flags);
        Ok(command)
    }

    fn controllers(&self) -> Result<Command> {
        let mut command = Command::new(kubernetes(Component::Controllers.name())?);
        command.arg(format!("--controllers={}", self.options.controllers.join(",")));
        command.arg("--kubeconfig").arg(self.folder.join("admin.kubeconfig"));
        command.arg("--service-account-private-key-file").arg(self.pki("sa.key"));
        command.arg("--root-ca-file").arg(self.pki("ca.crt"));
        command.args([
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            "--concurrent-service-endpoint-syncs=20",
            "--concurrent-namespace-syncs=50",
            "--concurrent-gc-syncs=50",
        ]);
        Ok(command)
    }

    fn pki(&self, file: &str) -> PathBuf {
        self.folder.join("pki").join(file)
    }
}
