//! Where zones come from: the lines that a `secondary` has, and each `group` of it.

use super::SPEC;
use crate::config::BlockBuilder;
use crate::destinations::{self, Encryption, Rules};
use crate::transport::ListenerKind;
use crate::upstream::PrimaryPeer;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use nodens_zone::secondary::{Group, Primary};
use nodens_zone::tsig::Key;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The port of DNS.
const PORT: u16 = 53;

/// What is spoken with primaries whose address has a scheme.
const KINDS: [ListenerKind; 2] = [ListenerKind::Tls, ListenerKind::Quic];

/// What the lines say.
#[derive(Clone)]
pub(super) struct Source {
    from: Vec<Token>,
    encryption: Encryption,
    /// Whether `tls` or `tls_servername` is among the lines.
    encrypts: bool,
    /// What queries are signed with.
    pub(super) key: Option<Key>,
    pub(super) store: Option<PathBuf>,
}

impl Default for Source {
    fn default() -> Self {
        let encryption = Encryption::for_transfers(SPEC.name);
        Self { from: Vec::new(), encryption, encrypts: false, key: None, store: None }
    }
}

impl Source {
    /// The properties, as their users know them.
    pub(super) const PROPERTIES: [&str; 5] = ["transfer", "key", "tls", "tls_servername", "store"];

    /// One that says the same of all but the primaries.
    pub(super) fn within(&self) -> Self {
        Self { from: Vec::new(), encrypts: false, ..self.clone() }
    }

    /// Takes a line; gives whether it is one of these.
    pub(super) fn read(
        &mut self,
        line: &Directive,
        block: &mut BlockBuilder<'_>,
    ) -> Result<bool, Error> {
        if !Self::PROPERTIES.contains(&line.name.text.as_str()) {
            return Ok(false);
        }
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "transfer" => self.from.extend_from_slice(addresses(line)?),
            "key" => self.key = Some(key(line, block)?),
            "tls" => self.encryption.read_files(line, block)?,
            "tls_servername" => self.encryption.read_name(line)?,
            _ => {
                let [folder] = line.expect_args::<1>()?;
                self.store = Some(block.path(&folder.text));
            }
        }
        self.encrypts |= line.name.text.starts_with("tls");
        Ok(true)
    }

    /// Whether any primaries are named.
    pub(super) fn names_primaries(&self) -> bool {
        !self.from.is_empty()
    }

    /// Whether `tls` or `tls_servername` is among the lines.
    pub(super) fn is_encrypted_anew(&self) -> bool {
        self.encrypts
    }

    /// What the lines come to; `directive` is what they belong to.
    pub(super) fn finish(
        mut self,
        directive: &Directive,
        block: &mut BlockBuilder<'_>,
    ) -> Result<Group, Error> {
        if self.from.is_empty() {
            return Err(directive.invalid("secondary zones require a transfer from property"));
        }
        let mut primaries = Vec::new();
        for word in std::mem::take(&mut self.from) {
            primaries.extend(self.primary(&word, directive, block)?);
        }
        if self.encrypts && primaries.iter().all(|primary| primary.identity.is_none()) {
            let text = "tls and tls_servername have no effect: write tls:// or quic:// in front of addresses";
            return Err(directive.invalid(text));
        }
        Ok(Group { name: Box::default(), primaries: primaries.into(), key: self.key, store: self.store })
    }

    /// An address, perhaps with what is spoken there in front.
    fn primary(
        &mut self,
        word: &Token,
        directive: &Directive,
        block: &mut BlockBuilder<'_>,
    ) -> Result<Vec<Primary>, Error> {
        let Some((scheme, _)) = word.text.split_once("://") else {
            return Ok(vec![address(word)?.into()]);
        };
        if !KINDS.iter().any(|kind| kind.scheme().name() == scheme) {
            return Err(Error::expected(word, "an IP address, alone or behind tls:// or quic://"));
        }
        let (origin, kind) = (SPEC.name, ListenerKind::Dns);
        let rules = Rules { origin, kind, kinds: &KINDS, resolvers: None };
        let mut primaries = Vec::new();
        for to in destinations::all(std::slice::from_ref(word), rules, block)? {
            let (address, kind) = (to.address, to.kind);
            let peer = self.encryption.peer(&to, directive, block)?;
            let identity = peer.map(|peer| Arc::new(PrimaryPeer { kind, peer }) as Arc<_>);
            primaries.push(Primary { address, identity });
        }
        Ok(primaries)
    }
}

/// `key NAME`: one of the keys of `tsig`.
fn key(line: &Directive, block: &BlockBuilder<'_>) -> Result<Key, Error> {
    let [arg] = line.expect_args()?;
    let name: Name = arg.text.parse().map_err(|_| Error::expected(arg, "the name of a key"))?;
    let known = block.settings.keys.get(&name).cloned();
    known.ok_or_else(|| Error::expected(arg, "a key of tsig in the same server block"))
}

/// `from ADDRESS…`.
fn addresses(line: &Directive) -> Result<&[Token], Error> {
    match line.expect_args_from(1)? {
        [from, addresses @ ..] if from.text == "from" => {
            if addresses.is_empty() {
                return Err(Error::expected(from, "one or more addresses behind 'from'"));
            }
            Ok(addresses)
        }
        [other, ..] => Err(Error::expected(other, "from")),
        [] => Ok(&[]),
    }
}

/// An IP address, perhaps with a port: `192.0.2.1`, `192.0.2.1:5300`, `[2001:db8::1]:5300`.
fn address(arg: &Token) -> Result<SocketAddr, Error> {
    let text = arg.text.as_str();
    let alone = text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    let address = alone.or_else(|_| match text.strip_suffix(':') {
        // An empty port is none, as in CoreDNS.
        Some(_) => format!("{text}{PORT}").parse(),
        None => text.parse(),
    });
    address.map_err(|_| Error::expected(arg, "an IP address, with or without a port"))
}
