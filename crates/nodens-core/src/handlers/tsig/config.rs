//! `tsig [ZONE…] { secret NAME KEY [ALGORITHM]; secrets FILE; require …; require_opcode … }`.

use super::{Required, Tsig};
use crate::config::{BlockBuilder, Config};
use crate::handlers::Handler;
use crate::limits::KEY_FILE_LEN_MAX;
use crate::shared::Shared;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::{Opcode, Type};
use nodens_zone::tsig::{Key, Keys, key_file};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

const PROPERTIES: [&str; 4] = ["secret", "secrets", "require", "require_opcode"];

/// The OPCODEs that may be named (those of the library that CoreDNS is built on).
const OPCODES: [Opcode; 5] =
    [Opcode::QUERY, Opcode::IQUERY, Opcode::STATUS, Opcode::NOTIFY, Opcode::UPDATE];

/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let zones = Zones::of(directive.args(), &block.zones)?;
    let mut keys = Keys::default();
    let (mut types, mut opcodes) = (Required::default(), Required::default());
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "secret" => {
                let key = secret(line)?;
                keys.add(key).map_err(|key| redefined(&line.name, &key))?;
            }
            "secrets" => {
                let [path] = line.expect_args()?;
                for key in secrets(path)?.iter() {
                    keys.add(key.clone()).map_err(|key| redefined(path, &key))?;
                }
            }
            "require" => types.read(line, qtype)?,
            "require_opcode" => opcodes.read(line, opcode)?,
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    let labels = [("server", &*block.server), ("view", &*block.view_name())];
    let help = "Queries that tsig refused because of their signature, or because they have none.";
    let refused = block.shared.registry.counter("nodens_tsig_refused_total", help, &labels);
    let keys = Arc::new(keys);
    block.settings.keys = keys.clone();
    block.push(Tsig { zones, keys, types, opcodes, refused });
    Ok(())
}

/// Gives each `tsig` the keys of all blocks of its server, as in CoreDNS; of several with one name, the
/// last.
pub(super) fn share(config: &mut Config, _: &Shared) {
    let mut servers: HashMap<String, Keys> = HashMap::new();
    for block in &config.blocks {
        for handler in &block.handlers {
            let Handler::Tsig(tsig) = handler else { continue };
            let all = servers.entry(block.server.clone()).or_default();
            tsig.keys.iter().for_each(|key| all.replace(key.clone()));
        }
    }
    let servers: HashMap<_, _> =
        servers.into_iter().map(|(server, keys)| (server, Arc::new(keys))).collect();
    for block in &mut config.blocks {
        for handler in &mut block.handlers {
            if let (Handler::Tsig(tsig), Some(all)) = (handler, servers.get(&block.server)) {
                tsig.keys = all.clone();
            }
        }
    }
}

fn redefined(at: &Token, key: &Key) -> Error {
    Error::invalid(at, format!("key {:?} redefined", key.name().to_string()))
}

/// `secret NAME KEY [ALGORITHM]`. Errors stand at the first word, so that no secret is shown with them
/// beside the line itself.
fn secret(line: &Directive) -> Result<Key, Error> {
    let args = line.expect_args_within(2..=3)?;
    let [name, secret, algorithm @ ..] = args else { return Err(line.invalid("NAME KEY")) };
    let algorithm = algorithm.first().map(|token| token.text.as_str());
    Key::parse(&name.text, &secret.text, algorithm).map_err(|error| line.invalid(error.to_string()))
}

/// The keys of a file.
fn secrets(path: &Token) -> Result<Keys, Error> {
    let refuse = |why: String| Error::invalid(path, format!("secrets {:?}: {why}", path.text));
    let file = File::open(&path.text).map_err(|error| refuse(error.to_string()))?;
    let mut text = String::new();
    let limit = KEY_FILE_LEN_MAX as u64 + 1;
    let read = file.take(limit).read_to_string(&mut text);
    read.map_err(|error| refuse(error.to_string()))?;
    if text.len() > KEY_FILE_LEN_MAX {
        return Err(refuse(format!("longer than {KEY_FILE_LEN_MAX} octets")));
    }
    key_file::parse(&text).map_err(|error| refuse(error.to_string()))
}

impl<T> Required<T> {
    /// Reads `all`, `none` or what is required; the last line of several counts, but `all` stays.
    fn read(
        &mut self,
        line: &Directive,
        read: fn(&Token) -> Result<T, Error>,
    ) -> Result<(), Error> {
        let args = line.expect_args_from(1)?;
        self.some = Vec::new();
        let [first, behind @ ..] = args else { return Ok(()) };
        if matches!(first.text.as_str(), "all" | "none") {
            self.all |= first.text == "all";
            return match behind.first() {
                None => Ok(()),
                Some(more) => Err(Error::expected(more, format!("nothing after {}", first.text))),
            };
        }
        self.some = args.iter().map(read).collect::<Result<_, _>>()?;
        Ok(())
    }
}

fn qtype(token: &Token) -> Result<Type, Error> {
    let exact = |qtype: &Type| qtype.mnemonic().is_none_or(|mnemonic| mnemonic == token.text);
    let found = token.text.parse().ok().filter(exact);
    found.ok_or_else(|| Error::expected(token, "a type such as AXFR, all, or none"))
}

fn opcode(token: &Token) -> Result<Opcode, Error> {
    let found = OPCODES.into_iter().find(|opcode| opcode.mnemonic() == Some(&token.text));
    found.ok_or_else(|| {
        Error::expected(token, "QUERY, IQUERY, STATUS, NOTIFY, UPDATE, all, or none")
    })
}
