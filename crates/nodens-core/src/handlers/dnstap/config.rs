//! `dnstap SOCKET [full] [WRITEBUFFER] [QUEUE] { identity, version, extra, skipverify }`.

use super::{Dnstap, QUEUE};
use crate::config::BlockBuilder;
use crate::handlers::Handler;
use crate::tap::{Spec, Tap, Target};
use nodens_corefile::take::parse_integer;
use nodens_corefile::{Directive, Error, Token};
use std::sync::Arc;

const PROPERTIES: &[&str] = &["identity", "version", "extra", "skipverify"];

/// Reads the directive; a repeated one is a further tap.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let args = directive.expect_args_within(1..=4)?;
    let Some(socket) = args.first() else { return Ok(()) };
    let mut spec = Spec {
        target: target(socket)?,
        full: false,
        buffer: 1 << 20,
        queue: QUEUE,
        identity: block.options.hostname.clone().into_bytes(),
        version: concat!("Nodens-", env!("CARGO_PKG_VERSION")).as_bytes().to_vec(),
        extra: String::new(),
        skip_verify: false,
    };
    if let Some(word) = args.get(1) {
        match word.text.as_str() {
            "full" => spec.full = true,
            _ => return Err(Error::expected(word, "`full`, or nothing")),
        }
    }
    if let Some(buffer) = args.get(2) {
        spec.buffer = parse_integer::<usize>(buffer, 1..=1024)? << 20;
    }
    if let Some(queue) = args.get(3) {
        spec.queue = parse_integer::<usize>(queue, 1..=4096)? * QUEUE;
    }
    for property in directive.body.iter().flatten() {
        let text = |property: &Directive| -> Result<String, Error> {
            let [value] = property.expect_args()?;
            Ok(value.text.clone())
        };
        match property.name.text.as_str() {
            "identity" => spec.identity = text(property)?.into_bytes(),
            "version" => spec.version = text(property)?.into_bytes(),
            "extra" => spec.extra = text(property)?,
            "skipverify" => {
                property.expect_no_args()?;
                spec.skip_verify = true;
            }
            "tls" => {
                let text = "is for `listen`, which Nodens does not have yet";
                return Err(Error::invalid(&property.name, text));
            }
            _ => return Err(property.unknown_property(PROPERTIES)),
        }
    }
    let tap = shared(spec, block);
    if let Some(Handler::Dnstap(dnstap)) = block.handlers.last_mut() {
        dnstap.taps.push(tap);
    } else {
        block.push(Dnstap { taps: vec![tap] });
    }
    Ok(())
}

/// All that want the same in the same place share a connection.
fn shared(spec: Spec, block: &mut BlockBuilder<'_>) -> Arc<Tap> {
    if let Some(known) = block.services.taps.iter().find(|tap| tap.spec == spec) {
        return known.clone();
    }
    let tap = Arc::new(Tap::new(spec));
    block.services.taps.push(tap.clone());
    tap
}

fn target(socket: &Token) -> Result<Target, Error> {
    let text = socket.text.as_str();
    if text == "listen" {
        let wanted = "a path, unix://PATH, tcp://HOST:PORT or tls://HOST:PORT (listen is not there \
                      yet)";
        return Err(Error::expected(socket, wanted));
    }
    let address = |address: &str| match address.trim_end_matches('/').rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(address.trim_end_matches('/').to_owned())
        }
        _ => Err(Error::expected(socket, "HOST:PORT behind tcp:// or tls://")),
    };
    match (text.strip_prefix("tcp://"), text.strip_prefix("tls://")) {
        (Some(tcp), _) => address(tcp).map(Target::Tcp),
        (None, Some(tls)) => address(tls).map(Target::Tls),
        (None, None) => match text.strip_prefix("unix://").unwrap_or(text) {
            "" => Err(Error::expected(socket, "the path of a socket")),
            path => Ok(Target::Unix(path.to_owned())),
        },
    }
}
