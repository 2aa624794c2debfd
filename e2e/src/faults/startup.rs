//! A server starts while there is no API server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nodens_wire::{Rcode, Type};

use super::{RECOVERY, Stage};
use crate::control_plane::Component;
use crate::measure::echo::Echo;
use crate::measure::probe::{Answer, Probe};
use crate::measure::{Which, corefile_with, variables};
use crate::server::{Endpoint, Server};

/// How long a server without any knowledge is watched.
const WATCHED: Duration = Duration::from_secs(12);
/// A reverse name of the cluster's addresses, which may be passed on only if they are not its.
const REVERSE: &str = "1.0.96.10.in-addr.arpa.";

impl Stage<'_> {
    /// SERVFAIL with the reason for names of the cluster as long as nothing is known, nothing of
    /// them passed on, other names answered; then all is right without a restart.
    pub(super) async fn start_without_api_server(&mut self) -> Result<String> {
        let known = self.population.name(1);
        let mut seen =
            Probe::new(self.server("start-before", &self.kubeconfig).await?.address()).await?;
        _ = seen.ask(&known, Type::A).await?;
        self.plane.kill(Component::ApiServer)?;
        let echo = Echo::recording()?;
        let corefile = corefile_with("", "5s", &format!("127.0.0.1:{}", echo.address.port()));
        let name = format!("{}-start", self.which.name());
        let program = self.which.program()?;
        let variables = variables(&self.kubeconfig);
        let mut server = Server::start(self.sandbox, &program, &name, &corefile, &variables)?;
        let checked = self.unknown(&server, &echo, &known).await;
        let refused = checked.with_context(|| server.process().last_words())?;
        self.plane.start_component(Component::ApiServer)?;
        self.plane.ready().await?;
        self.client = self.plane.admin().await?;
        let begin = Instant::now();
        let mut probe = Probe::new(server.address()).await?;
        let resolves = |answer: &Answer| !answer.addresses.is_empty();
        let right = probe.until((&known, Type::A), RECOVERY, resolves).await;
        right.with_context(|| server.process().last_words())?;
        server.ready().await?;
        let took = begin.elapsed();
        Ok(format!(
            "{refused} refused while nothing was known, right and ready {took:.1?} after the API server"
        ))
    }

    /// Asks a server that knows nothing for a while; how many queries it refused.
    async fn unknown(&self, server: &Server, echo: &Echo, known: &str) -> Result<usize> {
        let begin = Instant::now();
        let mut probe = Probe::new(server.address()).await?;
        let mut refused = 0;
        let absent = format!("nobody.{}", known.split_once('.').map_or("", |(_, rest)| rest));
        while begin.elapsed() < WATCHED {
            for name in [known, &absent] {
                match probe.ask(name, Type::A).await? {
                    // It need not listen yet.
                    None => {}
                    Some(answer) if is_refusal(&answer, self.which) => refused += 1,
                    Some(answer) => bail!("{name} while nothing is known: {answer}"),
                }
            }
            if let Some(answer) = probe.ask(REVERSE, Type::PTR).await?
                && !is_refusal(&answer, self.which)
            {
                bail!("{REVERSE} while nothing is known: {answer}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        if refused == 0 {
            bail!("no answer within {WATCHED:?}, expected SERVFAIL");
        }
        if let Some(question) = echo.seen().iter().find(|question| is_of_cluster(question)) {
            bail!("forwarded: {}", question.escape_ascii());
        }
        if server.get(Endpoint::Ready).is_ok_and(|(status, _)| status == 200) {
            bail!("/ready says ready while nothing is known");
        }
        let other = probe.ask("www.example.com.", Type::A).await?;
        if other.is_none_or(|answer| answer.rcode != Rcode::NOERROR) {
            bail!("www.example.com: no answer, though it is not the cluster's");
        }
        Ok(refused)
    }
}

fn is_refusal(answer: &Answer, which: Which) -> bool {
    let explained = which != Which::Nodens || !answer.extended_errors.is_empty();
    answer.rcode == Rcode::SERVFAIL && explained
}

/// Whether a query is about a name of the cluster, or the address of [`REVERSE`].
fn is_of_cluster(question: &[u8]) -> bool {
    let has = |part: &[u8]| question.windows(part.len()).any(|window| window == part);
    has(b"\x07cluster\x05local") || has(b"\x011\x010\x0296\x0210\x07in-addr")
}
