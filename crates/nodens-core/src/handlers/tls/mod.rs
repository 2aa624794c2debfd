//! `tls`: the certificate that listeners with encryption show.

use crate::config::{BlockBuilder, Renewal};
use crate::handler::Spec;
use crate::limits::CERTIFICATE_RELOAD as RELOAD_INTERVAL;
use crate::log::Level;
use nodens_corefile::{Directive, Error, Token};
use nodens_tls::{ClientAuth, Server, ServerFiles};
use std::sync::Arc;

mod acme;
#[cfg(test)]
mod tests;

pub use acme::Tls;

/// How the directive is read.
pub const SPEC: Spec = Spec { complete: Some(acme::complete), ..Spec::new("tls", setup) };

const CLIENT_AUTHS: [(&str, ClientAuth); 5] = [
    ("nocert", ClientAuth::None),
    ("request", ClientAuth::Request),
    ("require", ClientAuth::Require),
    ("verify_if_given", ClientAuth::VerifyIfGiven),
    ("require_and_verify", ClientAuth::RequireAndVerify),
];

/// Reads `tls CERT KEY [CA] { client_auth KIND; keylog FILE }`, or what [`acme`] reads.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    if directive.args.is_empty() {
        block.settings.tls = Some(acme::setup(directive, block)?);
        return Ok(());
    }
    let args = directive.expect_args_within(2..=3)?;
    let path = |place: usize| args.get(place).map(|arg| block.path(&arg.text));
    let mut files = ServerFiles {
        certificate: path(0).unwrap_or_default(),
        key: path(1).unwrap_or_default(),
        authorities: path(2),
        client_auth: ClientAuth::None,
        key_log: None,
    };
    for property in directive.lines() {
        let [value] = property.expect_args()?;
        property.expect_no_body()?;
        match property.name.text.as_str() {
            "client_auth" => files.client_auth = client_auth(value)?,
            "keylog" => files.key_log = Some(block.path(&value.text)),
            _ => return Err(property.unknown_property(&["client_auth", "keylog"])),
        }
    }
    block.settings.tls = Some(shared(directive, files, block)?);
    Ok(())
}

/// What the other addresses and blocks with the same files have, or what is loaded now.
fn shared(
    directive: &Directive,
    files: ServerFiles,
    block: &mut BlockBuilder<'_>,
) -> Result<Arc<Server>, Error> {
    let known = block.services.kept.all::<Arc<Server>>().find(|own| own.files() == Some(&files));
    if let Some(server) = known {
        return Ok(server.clone());
    }
    if let Some(path) = &files.key_log {
        let text = format!("Writing TLS Key Log to {:?}", path.display().to_string());
        block.shared.sink.line(Level::Warning, "tls", text);
    }
    let certificate = files.certificate.display().to_string();
    let server = Server::load(files).map_err(|error| directive.invalid(error.to_string()))?;
    let server = Arc::new(server);
    block.services.kept.add(server.clone());
    let renewed = server.clone();
    let renewal = Renewal {
        origin: "tls",
        interval: RELOAD_INTERVAL,
        changed: format!("Certificate {certificate} changed: new connections get it"),
        failed: "Certificate reload failed, the old one stays in use".to_owned(),
        subject: certificate,
        reload: Box::new(move || renewed.reload()),
    };
    block.services.tasks.push(renewal.into_task(block.shared.sink.clone()));
    Ok(server)
}

fn client_auth(value: &Token) -> Result<ClientAuth, Error> {
    let known = CLIENT_AUTHS.iter().find(|(word, _)| *word == value.text);
    let wanted = CLIENT_AUTHS.map(|(word, _)| word).join(", ");
    known.map(|(_, auth)| *auth).ok_or_else(|| Error::expected(value, format!("one of {wanted}")))
}
