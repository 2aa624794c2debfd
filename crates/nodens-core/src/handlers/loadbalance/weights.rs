//! The weight file.

use arc_swap::ArcSwap;
use nodens_wire::Name;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an address weighs if the file says nothing.
const WEIGHT_DEFAULT: u8 = 1;

/// Addresses and their weights, by the name that owns them.
type Table = HashMap<Name, Vec<(IpAddr, u8)>>;

/// A weight file and what it said when it was last read.
#[derive(Debug)]
pub(super) struct Weights {
    path: PathBuf,
    table: ArcSwap<Table>,
}

/// Why a weight file cannot be used. The words are CoreDNS's, the line is ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum WeightsError {
    #[error("weight file open error: {path}: {source}")]
    Open { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}: {fault}")]
    Line { path: PathBuf, line: usize, fault: Fault },
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("wrong domain name:\"{0}\", expected a name (maybe a missing weight value?)")]
    Name(String),
    #[error("wrong IP address:\"{0}\", expected an address such as 192.0.2.1")]
    Address(String),
    #[error("wrong weight value:\"{0}\", expected a number from 1 to 255")]
    Weight(String),
    #[error("missing domain name, expected one in front of the first address")]
    NoName,
    #[error("could not parse weight line:\"{0}\", expected a name, or an address and its weight")]
    Words(String),
}

impl Weights {
    /// No weights yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, table: ArcSwap::default() }
    }

    /// Reads the file, unless its text is still `known`.
    pub(super) fn refresh(&self, known: &mut String) -> Result<bool, WeightsError> {
        let open = |source| WeightsError::Open { path: self.path.clone(), source };
        let text = String::from_utf8_lossy(&std::fs::read(&self.path).map_err(open)?).into_owned();
        if text == *known {
            return Ok(false);
        }
        // A faulty text is reported once, not at every look.
        known.clone_from(&text);
        let fault = |(line, fault)| WeightsError::Line { path: self.path.clone(), line, fault };
        self.table.store(Arc::new(parse(&text).map_err(fault)?));
        Ok(true)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Which of the addresses comes first; 0 if there are none.
    pub(super) fn draw<'n>(
        &self,
        choices: impl Iterator<Item = (&'n Name, Option<IpAddr>)> + Clone,
        rng: &mut fastrand::Rng,
    ) -> usize {
        let table = self.table.load();
        let weights = choices.map(|(owner, ip)| u32::from(weight(&table, owner, ip)));
        let total: u32 = weights.clone().sum();
        if total == 0 {
            return 0;
        }
        let mut drawn = rng.u32(..total);
        for (at, weight) in weights.enumerate() {
            match drawn.checked_sub(weight) {
                None => return at,
                Some(rest) => drawn = rest,
            }
        }
        0
    }
}

fn weight(table: &Table, owner: &Name, ip: Option<IpAddr>) -> u8 {
    let known = table.get(owner).zip(ip);
    let found = known.and_then(|(weights, ip)| weights.iter().find(|(address, _)| *address == ip));
    found.map_or(WEIGHT_DEFAULT, |(_, weight)| *weight)
}

fn parse(text: &str) -> Result<Table, (usize, Fault)> {
    let mut table = Table::new();
    let mut owner: Option<Name> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |fault| (index + 1, fault);
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [name] => {
                let fault = || fail(Fault::Name((*name).to_owned()));
                if name.parse::<IpAddr>().is_ok() {
                    return Err(fault());
                }
                let name: Name = name.parse().map_err(|_| fault())?;
                table.entry(name.clone()).or_default();
                owner = Some(name);
            }
            [address, weight] => {
                let entry = entry(address, weight).map_err(fail)?;
                let owner = owner.as_ref().ok_or_else(|| fail(Fault::NoName))?;
                table.entry(owner.clone()).or_default().push(entry);
            }
            _ => return Err(fail(Fault::Words(line.to_owned()))),
        }
    }
    Ok(table)
}

fn entry(address: &str, weight: &str) -> Result<(IpAddr, u8), Fault> {
    let ip: IpAddr = address.parse().map_err(|_| Fault::Address(address.to_owned()))?;
    let number = weight.parse().ok().filter(|weight| *weight > 0);
    Ok((ip.to_canonical(), number.ok_or_else(|| Fault::Weight(weight.to_owned()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_the_addresses_that_follow_them() {
        let text = "# weights\n\nwww.example.com\n192.0.2.1 3\n2001:db8::1\t255\n\
            WWW.example.org.\n192.0.2.2 1\nwww.example.com\n192.0.2.1 9\n192.0.2.3 2\n";
        let table = parse(text).unwrap();
        let of = |name: &str, ip: &str| weight(&table, &name.parse().unwrap(), ip.parse().ok());
        assert_eq!(of("www.Example.com", "192.0.2.1"), 3);
        assert_eq!(of("www.example.com", "2001:db8::1"), 255);
        assert_eq!(of("www.example.com", "192.0.2.3"), 2);
        assert_eq!(of("www.example.org", "192.0.2.1"), WEIGHT_DEFAULT);
        assert_eq!(of("example.org", "192.0.2.2"), WEIGHT_DEFAULT);
    }

    #[test]
    fn what_coredns_refuses_is_refused_with_its_line() {
        for (text, line, fault) in [
            ("a.\n\n192.0.2.1", 3, Fault::Name("192.0.2.1".into())),
            ("a..b", 1, Fault::Name("a..b".into())),
            ("a.\nb 1", 2, Fault::Address("b".into())),
            ("a.\n192.0.2.1 0", 2, Fault::Weight("0".into())),
            ("a.\n192.0.2.1 256", 2, Fault::Weight("256".into())),
            ("192.0.2.1 1", 1, Fault::NoName),
            ("a.\n192.0.2.1 1 1", 2, Fault::Words("192.0.2.1 1 1".into())),
        ] {
            assert_eq!(parse(text), Err((line, fault)), "{text}");
        }
    }
}
