//! `dnssec [ZONES…] { key file KEY…; cache_capacity CAPACITY }`.

use super::{Dnssec, SPEC};
use crate::config::BlockBuilder;
use crate::limits::{SIGNATURES_DEFAULT, SIGNATURES_MAX};
use crate::log::Level;
use crate::zone_keys;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token, take};
use nodens_zone::dnssec::SigningKey;
use std::sync::Arc;

const PROPERTIES: [&str; 2] = ["key", "cache_capacity"];

/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let zones = Zones::of(directive.args(), &block.zones)?;
    let (mut keys, mut capacity) = (Vec::new(), SIGNATURES_DEFAULT);
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "key" => keys.extend(read_keys(line, block)?),
            "cache_capacity" => {
                let [token] = line.expect_args()?;
                let asked = take::parse_integer(token, i64::MIN..=i64::MAX)?;
                capacity = usize::try_from(asked).unwrap_or(0);
                if capacity > SIGNATURES_MAX {
                    let text = format!(
                        "{}: at most {SIGNATURES_MAX} signatures are kept, not {capacity}",
                        token.position
                    );
                    block.shared.sink.line(Level::Warning, SPEC.name, text);
                }
            }
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    check(directive, &zones, &keys)?;
    warn(directive, &keys, block);
    block.settings.signs = !keys.is_empty();
    let handler = handler(zones, keys, capacity, block);
    block.push(handler);
    Ok(())
}

fn handler(
    zones: Zones,
    keys: Vec<SigningKey>,
    capacity: usize,
    block: &mut BlockBuilder<'_>,
) -> Dnssec {
    let signatures = block.shared.signatures.of(block.fingerprint, &keys, (capacity, zones.names().len()));
    let address = block.server.to_string();
    let server = ("server", &*address);
    let counted = Arc::downgrade(&signatures);
    let read = move || counted.upgrade().map_or(0.0, |signatures| signatures.len() as f64);
    let help = "RRsets whose signatures are kept.";
    let labels = [server, ("type", "signature")];
    block.gauge("coredns_dnssec_cache_entries", help, &labels, Arc::new(read));
    let registry = &block.shared.registry;
    let help = "RRsets whose signatures were known.";
    let hits = registry.counter("coredns_dnssec_cache_hits_total", help, &[server]);
    let help = "RRsets that had to be signed.";
    let misses = registry.counter("coredns_dnssec_cache_misses_total", help, &[server]);
    let help = "Responses that were not given as too many signatures were to be made.";
    let refused = registry.counter("nodens_dnssec_refused_total", help, &[server]);
    let is_split = keys.iter().any(SigningKey::is_ksk) && keys.iter().any(SigningKey::is_zsk);
    Dnssec { zones, keys, is_split, signatures, hits, misses, refused }
}

/// `key file KEY…`.
fn read_keys(line: &Directive, block: &BlockBuilder<'_>) -> Result<Vec<SigningKey>, Error> {
    let [source, names @ ..] = line.expect_args_from(2)? else {
        return Err(line.invalid("expected `key file KEY…`"));
    };
    if source.text != "file" {
        return Err(Error::expected(source, "`file`: keys are read from files alone"));
    }
    let read = |name: &Token| zone_keys::read(name, &block.path(zone_keys::base(&name.text)));
    names.iter().map(read).collect()
}

/// Refuses a key that is made for a name which no zone lies at or below.
fn check(directive: &Directive, zones: &Zones, keys: &[SigningKey]) -> Result<(), Error> {
    let can_sign = |key: &&SigningKey| {
        zones.names().iter().any(|zone| zone.view().is_in_domain(key.owner()))
    };
    match keys.iter().find(|key| !can_sign(key)) {
        None => Ok(()),
        Some(key) => {
            let (owner, tag) = (key.owner(), key.tag());
            let text = format!("key {owner} (keyid: {tag}) can not sign any of the zones");
            Err(directive.invalid(text))
        }
    }
}

fn warn(directive: &Directive, keys: &[SigningKey], block: &BlockBuilder<'_>) {
    let position = &directive.name.position;
    let say = |text| block.shared.sink.line(Level::Warning, SPEC.name, text);
    if keys.is_empty() {
        say(format!("{position}: nothing is signed, as there is no key"));
    }
    if let Some(key) = keys.iter().find(|key| key.algorithm().is_rsa()) {
        let (algorithm, tag) = (key.algorithm(), key.tag());
        say(format!(
            "{position}: key {tag} is {algorithm}, whose signatures take some 30 times longer than those of ECDSAP256SHA256; queries wait for them"
        ));
    }
}
