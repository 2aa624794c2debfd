//! A real control plane: etcd, kube-apiserver and kube-controller-manager, with an own authority for certificates.
//!
//! Each part can be stopped, killed and started again while the others run. There is one control plane in a sandbox:
//! it takes the usual ports.

mod account;
mod components;
pub(crate) mod node_role;
mod pki;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

#[allow(unused_imports, reason = "subcommands to come use the rest")]
pub(crate) use self::account::{Account, reader_rules};
use self::components::Components;
#[allow(unused_imports, reason = "subcommands to come use the rest")]
pub(crate) use self::components::{Component, kubernetes, peers};
use self::pki::Pki;
use crate::node::tools;
use crate::sandbox::{NODE_V4, NODE_V6, Sandbox};

/// How long the API server may take until it is ready, on a machine with other work.
const READY_TIMEOUT: Duration = Duration::from_secs(180);

/// The URL of the API server.
pub(crate) const URL: &str = "https://10.99.0.1:6443";

/// Which etcd keeps the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Store {
    /// 3.6, with which the API server streams lists.
    #[default]
    Streaming,
    /// Debian's 3.4, with which it does not: lists come in pages.
    Pages,
}

/// What the control plane is to be like.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Controllers that run in kube-controller-manager, as its flag `--controllers` names them.
    pub(crate) controllers: Vec<&'static str>,
    /// The store.
    pub(crate) store: Store,
    /// Further flags of kube-apiserver.
    pub(crate) api_server_flags: Vec<String>,
}

impl Default for Options {
    /// What names need: slices of endpoints, and namespaces and dependents that go away. Pods need no ServiceAccount.
    fn default() -> Self {
        Options {
            controllers: vec![
                "endpointslice-controller",
                "garbage-collector-controller",
                "namespace-controller",
            ],
            store: Store::default(),
            api_server_flags: vec!["--disable-admission-plugins=ServiceAccount".to_owned()],
        }
    }
}

/// How a client authenticates.
#[derive(Debug, Clone)]
pub(crate) enum Credential {
    /// A bearer token.
    Token(String),
    /// A file with a bearer token, which clients read again.
    TokenFile(PathBuf),
    /// The certificate of an administrator.
    Admin,
}

/// A running control plane.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    folder: PathBuf,
    pki: Pki,
    components: Components,
}

impl ControlPlane {
    /// Starts all parts and waits until the API server is ready.
    pub(crate) async fn start(sandbox: &Sandbox, options: Options) -> Result<Self> {
        let folder = sandbox.folder("control-plane")?;
        let names = [NODE_V4, NODE_V6, "127.0.0.1", "::1", "10.96.0.1", "localhost"];
        let names = [&names[..], &["kubernetes", "kubernetes.default.svc"]].concat();
        let pki = Pki::make(sandbox.folder("control-plane/pki")?, &names)?;
        pki.client("admin", &["system:masters"])?;
        let components = Components::new(folder.clone(), options)?;
        let mut plane = ControlPlane { folder, pki, components };
        plane.kubeconfig("admin", &Credential::Admin)?;
        for component in [Component::Etcd, Component::ApiServer] {
            plane.components.start(component)?;
        }
        plane.ready().await?;
        plane.components.start(Component::Controllers)?;
        plane.install_service_imports().await?;
        Ok(plane)
    }

    /// Starts a part that was stopped or killed; [`ControlPlane::ready`] waits for the whole.
    pub(crate) fn start_component(&mut self, component: Component) -> Result<()> {
        self.components.start(component)
    }

    /// Asks a part to end and waits for its end.
    pub(crate) async fn stop(&mut self, component: Component) -> Result<()> {
        self.components.process(component)?.stop().await
    }

    /// Kills a part (SIGKILL).
    pub(crate) fn kill(&mut self, component: Component) -> Result<()> {
        self.components.process(component)?.kill()
    }

    /// Waits until the API server says that it is ready.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            for component in [Component::Etcd, Component::ApiServer] {
                let process = self.components.process(component)?;
                if !process.runs() {
                    bail!("{component:?} ended: {}", process.last_words());
                }
            }
            let answer = async {
                let request = http_get("/readyz")?;
                Ok::<_, anyhow::Error>(self.admin().await?.request_text(request).await?)
            };
            let limited = tokio::time::timeout(Duration::from_secs(5), answer).await;
            match limited {
                Ok(Ok(text)) if text == "ok" => return Ok(()),
                other if Instant::now() > deadline => {
                    let words = self.components.process(Component::ApiServer)?.last_words();
                    bail!("the API server does not become ready: {other:?}\n{words}");
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// A client that may do everything.
    pub(crate) async fn admin(&self) -> Result<Client> {
        self.client("admin").await
    }

    /// A program that finds the control plane as its administrator does.
    pub(crate) fn command(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", self.kubeconfig_path("admin")).env("HOME", &self.folder);
        command
    }

    /// Runs kubectl as the administrator and gives what it wrote.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        tools::output(self.command(kubernetes("kubectl")?).args(arguments))
    }

    /// A client with the kubeconfig of this name.
    pub(crate) async fn client(&self, name: &str) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig_path(name))?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.read_timeout = Some(Duration::from_secs(60));
        Client::try_from(config).context("cannot make a client")
    }

    /// Writes a kubeconfig for the user `name` and returns its path.
    pub(crate) fn kubeconfig(&self, name: &str, credential: &Credential) -> Result<PathBuf> {
        let user = match credential {
            Credential::Token(token) => json!({"token": token}),
            Credential::TokenFile(path) => json!({"tokenFile": path}),
            Credential::Admin => json!({
                "client-certificate": self.pki.file("admin.crt"),
                "client-key": self.pki.file("admin.key"),
            }),
        };
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "e2e",
                "cluster": {"server": URL, "certificate-authority": self.authority()},
            }],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": "e2e", "user": name}}],
            "current-context": name,
        });
        let path = self.kubeconfig_path(name);
        // JSON is YAML.
        std::fs::write(&path, config.to_string()).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// The certificate of the authority that signed the API server's.
    pub(crate) fn authority(&self) -> PathBuf {
        self.pki.file("ca.crt")
    }

    /// The certificate and the key of the administrator.
    pub(crate) fn admin_identity(&self) -> (PathBuf, PathBuf) {
        (self.pki.file("admin.crt"), self.pki.file("admin.key"))
    }

    /// The folder with all files of the control plane.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn kubeconfig_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.kubeconfig"))
    }
}

/// A GET request without a body.
pub(crate) fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(path).body(Vec::new()).with_context(|| format!("GET {path}"))
}
