//! What the server blocks of one listener have to agree on.

use super::ServerBlock;
use crate::transport::ListenerKind;
use nodens_corefile::{Corefile, Error};
use nodens_tls::{ClientAuth, ServerFiles};
use nodens_wire::Name;
use std::sync::Arc;

/// Refuses blocks that share a server and would show different certificates at it: its clients do not
/// say which zone they ask for before they see one. The texts are CoreDNS's.
pub(super) fn check<'b>(
    corefile: &Corefile,
    blocks: impl Iterator<Item = (ListenerKind, &'b ServerBlock)>,
) -> Result<(), Error> {
    let encrypted: Vec<_> = blocks.filter(|(kind, _)| *kind != ListenerKind::Dns).collect();
    for (kind, block) in &encrypted {
        let refused = if kind.needs_certificate() && block.settings.tls.is_none() {
            "without a certificate nothing can be spoken there: 'tls' is missing"
        } else if kind.needs_certificate() && block.settings.proxy.is_some() {
            "'proxyproto' is not there yet for QUIC"
        } else {
            continue;
        };
        let source = corefile.blocks.get(block.source);
        if let Some(key) = source.and_then(|block| block.keys.first()) {
            return Err(Error::invalid(key, format!("{}: {refused}", block.server)));
        }
    }
    let encrypted: Vec<_> = encrypted.into_iter().map(|(_, block)| block).collect();
    for block in &encrypted {
        let first = encrypted.iter().find(|first| first.server == block.server).unwrap_or(block);
        let Some(differs) = difference(first, block) else { continue };
        let zone =
            |block: &ServerBlock| block.zones.first().map(Name::to_string).unwrap_or_default();
        let (server, one, other) = (&block.server, zone(first), zone(block));
        let text = format!(
            "conflicting TLS configuration for shared listener {server} between zones \"{one}\" and \
             \"{other}\": {differs}"
        );
        let source = corefile.blocks.get(block.source);
        if let Some(key) = source.and_then(|block| block.keys.first()) {
            return Err(Error::invalid(key, text));
        }
    }
    Ok(())
}

fn difference(one: &ServerBlock, other: &ServerBlock) -> Option<&'static str> {
    let (one, other) = match (&one.settings.tls, &other.settings.tls) {
        (None, None) => return None,
        (Some(one), Some(other)) => match (one.files(), other.files()) {
            (Some(one), Some(other)) => (one, other),
            // The same certificates of an ACME server are one source.
            _ if Arc::ptr_eq(one, other) => return None,
            (None, None) => return Some("dynamic TLS callbacks differ"),
            (Some(files), None) | (None, Some(files)) => return Some(not_managed(files)),
        },
        _ => return Some("TLS is configured for only one server block"),
    };
    if one.client_auth != other.client_auth {
        Some("client authentication policies differ")
    } else if one.authorities != other.authorities {
        Some("client CA pools differ")
    } else if (&one.certificate, &one.key) != (&other.certificate, &other.key) {
        Some("server certificates differ")
    } else {
        None
    }
}

/// In what a certificate of files differs first from one of an ACME server.
fn not_managed(files: &ServerFiles) -> &'static str {
    if files.client_auth != ClientAuth::None {
        "client authentication policies differ"
    } else if files.authorities.is_some() {
        "client CA pools differ"
    } else {
        "server certificates differ"
    }
}
