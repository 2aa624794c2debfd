//! Certificates, and upstreams that answer within TLS.

use super::configs::{Encrypted, Setup, UpstreamTls};
use super::{Bench, ready_name};
use crate::child::{Server, free_address};
use anyhow::{Context, Result};
use lab_echo::identity::Identity;
use lab_load::Transport;
use std::process::Command;

impl Bench<'_> {
    pub(super) fn encrypted(&self, transport: Transport) -> Result<Encrypted> {
        let address = free_address()?;
        let names = [address.ip().to_string(), "localhost".to_owned()];
        let identity = Identity::make(&names)?;
        let made = identity.made.context("no certificate was made")?;
        let certificate = self.scratch.write("server.pem", &made.chain)?;
        let key = self.scratch.write("server.key", &made.key)?;
        Ok(Encrypted { transport, address, certificate, key })
    }

    /// Starts an upstream that answers over TLS, HTTPS or QUIC: an echo.
    pub(super) fn upstream_tls(&self, setup: &mut Setup, transport: Transport) -> Result<Server> {
        let (plain, address) = (free_address()?, free_address()?);
        let names = [address.ip().to_string(), "localhost".to_owned()];
        let identity = Identity::make(&names)?;
        let made = identity.made.context("no certificate was made")?;
        let authority = identity.authority.context("no authority was made")?;
        let authority = self.scratch.write("upstream-ca.pem", &authority)?;
        let mut command = Command::new(std::env::current_exe()?);
        let (mode, scheme) = match transport {
            Transport::Doq => ("udp,doq", "quic"),
            Transport::Doh => ("udp,doh", "https"),
            _ => ("udp,dot", "tls"),
        };
        command.args(["echo", "--mode", mode, "--listen", &plain.to_string()]);
        command.args(["--tls-listen", &address.to_string()]);
        command.arg("--tls-cert").arg(self.scratch.write("upstream.pem", &made.chain)?);
        command.arg("--tls-key").arg(self.scratch.write("upstream.key", &made.key)?);
        let log = setup.folder.join("upstream.log");
        let mut upstream = Server::start("echo", &mut command, &self.cpus.helper, &log)?;
        upstream.await_answer(plain, &ready_name()?, self.stop)?;
        setup.upstream_tls = Some(UpstreamTls { scheme, address, authority });
        Ok(upstream)
    }
}
