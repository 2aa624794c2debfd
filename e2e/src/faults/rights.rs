//! The API server no longer believes the server, or no longer lets it read.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use super::outages::Changes;
use super::{DAY, Stage, finish};
use crate::control_plane::{Component, Credential};

/// The API server believes a token this long after its end (the leeway of its library).
const LEEWAY: i64 = 60;
/// Seconds that the token is believed from its making on.
const VALID: i64 = 20;
/// How long a server is left without rights, or believed nothing.
const WITHOUT: Duration = Duration::from_secs(15);
/// How often one state may be said in that time.
const SAID_MAX: usize = 6;

impl Stage<'_> {
    /// The token ends: said clearly and not for every attempt, known names answered; with a new one
    /// in the file all is right without a restart.
    pub(super) async fn token_ends(&mut self) -> Result<String> {
        let file = self.sandbox.folder("faults")?.join("token");
        std::fs::write(&file, self.plane.token(&self.account, VALID - LEEWAY)?)?;
        let kubeconfig = self.plane.kubeconfig("rotated", &Credential::TokenFile(file.clone()))?;
        let mut server = self.server("token", &kubeconfig).await?;
        let changes = Changes::prepare(self, &server, "token").await?;
        let from = server.process().log().len();
        let load = self.ask(&server)?;
        tokio::time::sleep(Duration::from_secs(VALID as u64 + 2)).await;
        // A watch that is open does not notice: the next one does.
        self.restart(&[Component::ApiServer], Duration::ZERO).await?;
        let said = self.says(&mut server, from, &["401"]).await;
        tokio::time::sleep(WITHOUT).await;
        let expected = changes.make(self).await?;
        let stale = expected.is_seen(&server).await?;
        std::fs::write(&file, self.plane.token(&self.account, DAY)?)?;
        let took = expected.await_at(&server).await;
        let answered = finish(load).await?;
        let took = took.with_context(|| server.process().last_words())?;
        said?;
        if stale {
            bail!("changes were seen with a token that has ended");
        }
        let times = self.said_times(&mut server, from, "401")?;
        Ok(format!(
            "{answered} queries answered, logged {times} times, right {took:.1?} after the new token"
        ))
    }

    /// The right to read is revoked: logged clearly, with the missing right; once it is granted again, all answers are
    /// right.
    pub(super) async fn rights_are_taken(&mut self) -> Result<String> {
        let mut server = self.server("rights", &self.kubeconfig).await?;
        let changes = Changes::prepare(self, &server, "rights").await?;
        let from = server.process().log().len();
        let load = self.ask(&server)?;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let name = &self.account.name.clone();
        let mut binding = bindings.get(name).await?;
        bindings.delete(name, &DeleteParams::default()).await?;
        // Watches that are open stay open.
        self.restart(&[Component::ApiServer], Duration::ZERO).await?;
        let said = self.says(&mut server, from, &["ervices", "list", "watch"]).await;
        tokio::time::sleep(WITHOUT).await;
        let expected = changes.make(self).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        binding.metadata.resource_version = None;
        binding.metadata.uid = None;
        bindings.create(&PostParams::default(), &binding).await?;
        let took = expected.await_at(&server).await;
        let answered = finish(load).await?;
        let took = took.with_context(|| server.process().last_words())?;
        said?;
        let times = self.said_times(&mut server, from, "does not let us read services")?;
        Ok(format!(
            "{answered} queries answered, logged {times} times, right {took:.1?} after the rights"
        ))
    }

    /// Fails if something was said too often.
    fn said_times(
        &self,
        server: &mut crate::server::Server,
        from: usize,
        what: &str,
    ) -> Result<usize> {
        let times = self.said(server, from, &[what])?;
        if times > SAID_MAX {
            bail!("`{what}` was logged {times} times in {WITHOUT:?}");
        }
        Ok(times)
    }
}
