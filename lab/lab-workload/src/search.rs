//! What one lookup of an application becomes on the wire: the walk along the search path that the
//! stub resolvers of glibc, musl and Go take.
//!
//! The queries after the first depend on answers, and in an open loop no answer is waited for. So a
//! walk is laid out beforehand, from a statement about which names exist: every candidate before the
//! first that ends the walk is taken to be denied. If the server answers otherwise, the plan asks more or
//! less than that resolver would; the answers' RCODEs in the result tell.
//!
//! Where the three differ, as tests against the real ones show:
//!
//! | | glibc | musl | Go |
//! |---|---|---|---|
//! | `ndots` dots or more | as it is, then the search list | as it is only | as glibc |
//! | fewer | the search list, then as it is | same | same |
//! | no data at a candidate (NOERROR) | continues | ends | continues |
//! | a failure at a candidate (SERVFAIL) | continues | ends | continues |
//! | a candidate that is too long | ends the list, then as it is | leaves it out | leaves it out |
//! | anything but letters, digits, `-`, `_`, `.` | no query at all | asked | no query at all |
//! | search list in `resolv.conf` | any length | line up to 255 octets, else none | any length |
//! | several words behind `domain` there | the first | all | the first |
//! | no list there | the domain of the host's name, not modelled | none | as glibc |
//! | `NAME.onion` as it is (RFC 7686) | asked | asked | no query |
//! | EDNS | none | none | of 1232 octets |
//! | A and AAAA of a candidate | both at once, A first | same | both at once, any order |
//!
//! Retries, several servers, `single-request` and caches are not modelled.

mod measure;
pub mod observed;
pub mod resolv_conf;

pub use measure::{Course, Measure};

use crate::edns::Edns;
use crate::workload::{Step, Style, Workload};
use nodens_wire::{Name, Type};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::str::FromStr;

/// The most dots that `ndots` can ask for in all three.
pub const NDOTS_MAX: usize = 15;
/// The longest line that musl reads, with its end.
const MUSL_LINE_MAX: usize = 255;

/// Whose stub resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// The GNU C library's `getaddrinfo`.
    Glibc,
    /// musl's `getaddrinfo`, as in Alpine Linux.
    Musl,
    /// Go's own resolver, in programs without cgo.
    Go,
}

/// What a server says to a query for addresses of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Addresses of one type or both.
    Addresses,
    /// The name exists and has none.
    NoData,
    /// There is no such name.
    NoName,
    /// The server failed (SERVFAIL), or gave no other answer that says anything about the name.
    Failed,
}

/// A stub resolver as `resolv.conf` sets it up.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// Whose.
    pub libc: Libc,
    /// The search list.
    pub search: Vec<String>,
    /// Names with fewer dots go through the search list first.
    pub ndots: usize,
}

/// A name that one lookup tries, and whether the list continues behind it.
enum Candidate {
    Name(Name),
    TooLong,
}

impl Resolver {
    /// The names that a lookup of `text` asks for, in order, until one ends it.
    pub fn walk(&self, text: &str, found: impl Fn(&Name) -> Found) -> Vec<Name> {
        let mut names = Vec::new();
        for name in self.candidates(text) {
            let answer = found(&name);
            names.push(name);
            if self.ends_with(answer) {
                break;
            }
        }
        names
    }

    /// Whether a lookup asks for no other name after this answer. musl gives a failure to the application,
    /// which may try again; the others take the next candidate.
    fn ends_with(&self, answer: Found) -> bool {
        let is_musl = self.libc == Libc::Musl;
        match answer {
            Found::Addresses => true,
            Found::NoData | Found::Failed => is_musl,
            Found::NoName => false,
        }
    }

    /// How its queries look.
    pub fn style(&self) -> Style {
        let edns = (self.libc == Libc::Go).then(Edns::default);
        Style { edns, ..Style::default() }
    }

    /// All names that a lookup of `text` may ask for, in order.
    fn candidates(&self, text: &str) -> Vec<Name> {
        if !self.is_looked_up(text) {
            return Vec::new();
        }
        let onion = self.libc == Libc::Go && text.trim_end_matches('.').ends_with(".onion");
        let absolute = Name::parse(text).ok().filter(|_| !onion);
        if text.ends_with('.') {
            return absolute.into_iter().collect();
        }
        let enough = text.matches('.').count() >= self.ndots.min(NDOTS_MAX);
        if enough && self.libc == Libc::Musl {
            return absolute.into_iter().collect();
        }
        let (mut listed, mut rooted) = (Vec::new(), false);
        for suffix in self.suffixes() {
            rooted |= suffix.is_empty();
            match candidate(text, suffix) {
                Candidate::Name(name) => listed.push(name),
                Candidate::TooLong if self.libc == Libc::Glibc => break,
                Candidate::TooLong => {}
            }
        }
        if enough {
            absolute.into_iter().chain(listed).collect()
        } else {
            listed.extend(absolute.filter(|_| !rooted));
            listed
        }
    }

    /// Whether there is any query for `text`.
    fn is_looked_up(&self, text: &str) -> bool {
        let labels = text.strip_suffix('.').unwrap_or(text);
        let plain =
            |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
        let fits = !labels.is_empty() && labels.len() < 254;
        let fits = fits && text.parse::<IpAddr>().is_err();
        fits && match self.libc {
            Libc::Glibc | Libc::Musl if is_address(text) => false,
            Libc::Glibc => !text.starts_with('-') && text.bytes().all(plain),
            Libc::Musl => !labels.ends_with('.'),
            Libc::Go => {
                let dashed = |label: &str| label.starts_with('-') || label.ends_with('-');
                let numeric = |octet: u8| octet.is_ascii_digit() || octet == b'.';
                text.bytes().all(plain)
                    && !text.bytes().all(numeric)
                    && !labels.split('.').any(dashed)
            }
        }
    }

    /// The suffixes that count, without their final dots.
    fn suffixes(&self) -> impl Iterator<Item = &str> {
        // `search` with a space in front of each suffix, and the end of the line.
        let line = 7 + self.search.iter().map(|suffix| 1 + suffix.len()).sum::<usize>();
        let read = self.libc != Libc::Musl || line <= MUSL_LINE_MAX;
        let suffixes = self.search.iter().filter(move |_| read);
        let suffixes = suffixes.map(|suffix| suffix.strip_suffix('.').unwrap_or(suffix));
        // Go leaves the root out of the list, glibc asks for the name as it is in its place.
        suffixes.filter(|suffix| self.libc != Libc::Go || !suffix.is_empty())
    }
}

/// Whether text stands for an address by itself, as `10.1` does for 10.0.0.1 (inet_aton(3)).
fn is_address(text: &str) -> bool {
    let number = |part: &str| match (part.strip_prefix("0x"), part.strip_prefix('0')) {
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        _ => part.parse().ok(),
    };
    let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
    let fits = |parts: Vec<u32>| {
        let bits = 32 - 8 * u32::try_from(parts.len() - 1).unwrap_or(4).min(4);
        let last = parts.last().is_some_and(|last| last.checked_shr(bits).unwrap_or(0) == 0);
        parts.len() <= 4 && last && parts.iter().rev().skip(1).all(|part| *part < 256)
    };
    parts.is_some_and(fits)
}

fn candidate(text: &str, suffix: &str) -> Candidate {
    Name::parse(&format!("{text}.{suffix}")).map_or(Candidate::TooLong, Candidate::Name)
}

/// Which names exist, as a user states it.
///
/// As text: a name per line; `*.` in front stands for everything below; a second column `NODATA` says
/// that the name has no address, and `SERVFAIL` that the server fails.
#[derive(Clone, Debug, Default)]
pub struct Existing {
    names: HashMap<Name, Found>,
    below: HashSet<Name>,
}

/// A line of [`Existing`] that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:1: `{text}`, expected a name, *.name, or a name and NODATA or SERVFAIL")]
pub struct ExistingError {
    line: usize,
    text: String,
}

impl FromStr for Existing {
    type Err = ExistingError;

    fn from_str(text: &str) -> Result<Self, ExistingError> {
        let mut existing = Self::default();
        for (at, line) in text.lines().enumerate() {
            let mut columns = line.split_ascii_whitespace();
            let Some(name) = columns.next().filter(|name| !name.starts_with([';', '#'])) else {
                continue;
            };
            let wrong = || ExistingError { line: at + 1, text: line.trim().to_owned() };
            let found = match columns.next() {
                None => Found::Addresses,
                Some(word) if word.eq_ignore_ascii_case("nodata") => Found::NoData,
                Some(word) if word.eq_ignore_ascii_case("servfail") => Found::Failed,
                Some(_) => return Err(wrong()),
            };
            if let Some(zone) = name.strip_prefix("*.") {
                existing.below.insert(Name::parse(zone).map_err(|_| wrong())?);
            } else {
                existing.names.insert(Name::parse(name).map_err(|_| wrong())?, found);
            }
        }
        Ok(existing)
    }
}

impl Existing {
    /// What a server says to `name`.
    pub fn find(&self, name: &Name) -> Found {
        if let Some(found) = self.names.get(name) {
            return *found;
        }
        let mut above = name.view().parent();
        while let Some(zone) = above {
            if self.below.contains(&zone.to_name()) {
                return Found::Addresses;
            }
            above = zone.parent();
        }
        Found::NoName
    }
}

/// One lookup of an application.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// As the application wrote it.
    pub text: String,
    /// The names asked for, one after the other.
    pub names: Vec<Name>,
    /// Whether the last of them has addresses.
    pub exists: bool,
}

/// What one name that applications asked for has cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// As the application wrote it.
    pub text: String,
    /// How often it was looked up.
    pub lookups: u64,
    /// The queries that this took.
    pub questions: u64,
    /// Whether any of them could be answered.
    pub exists: bool,
}

/// A workload and the lookups behind it.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The queries, in order, by client.
    pub workload: Workload,
    /// Per name, the most queries first.
    pub looked: Vec<Looked>,
}

impl Mix {
    /// Lookups of applications.
    pub fn lookups(&self) -> u64 {
        self.looked.iter().map(|looked| looked.lookups).sum()
    }

    /// Queries sent for them.
    pub fn questions(&self) -> u64 {
        self.looked.iter().map(|looked| looked.questions).sum()
    }
}

/// How lookups become queries.
#[derive(Clone, Debug)]
pub struct Weave<'a> {
    /// How many clients look names up at the same time.
    pub clients: usize,
    /// At least so many queries are made, if there is any client.
    pub questions: usize,
    /// The types asked for at each name, one right after the other.
    pub types: &'a [Type],
    /// How queries look.
    pub style: &'a Style,
    /// The plan's seed.
    pub seed: u64,
}

impl Weave<'_> {
    /// Lays the lookups of all clients out side by side. `lookup` gives a client's next one.
    ///
    /// Round by round each client asks for one name with all types: so its next name leaves after the
    /// answers to the last are there, if the rate is not far beyond what clients wait for.
    pub fn mix(&self, mut lookup: impl FnMut(usize) -> Lookup) -> Mix {
        let mut workload = Workload::new(self.seed);
        let mut messages = HashMap::new();
        let mut looked: HashMap<String, Looked> = HashMap::new();
        let mut walks = vec![Vec::new().into_iter(); self.clients];
        let mut steps = Vec::with_capacity(self.questions + self.types.len() * self.clients);
        // Lookups without a query, as of invalid names, must not keep this from ending.
        let (mut fruitless, patience) = (0, 1_000 + 10 * self.clients);
        while steps.len() < self.questions && fruitless < patience && self.clients > 0 {
            for (client, walk) in walks.iter_mut().enumerate() {
                if walk.len() == 0 {
                    let lookup = lookup(client);
                    fruitless = if lookup.names.is_empty() { fruitless + 1 } else { 0 };
                    note(&mut looked, &lookup, self.types.len());
                    *walk = lookup.names.into_iter();
                }
                let Some(name) = walk.next() else { continue };
                let client = u32::try_from(client).unwrap_or(u32::MAX);
                for qtype in self.types {
                    let push = || workload.push_question(name.view(), *qtype, self.style);
                    let message = *messages.entry((name.clone(), *qtype)).or_insert_with(push);
                    steps.push(Step { message, client });
                }
            }
        }
        workload.script(steps);
        let mut looked: Vec<_> = looked.into_values().collect();
        looked.sort_by(|a, b| b.questions.cmp(&a.questions).then_with(|| a.text.cmp(&b.text)));
        Mix { workload, looked }
    }
}

fn note(looked: &mut HashMap<String, Looked>, lookup: &Lookup, types: usize) {
    let fresh =
        || Looked { text: lookup.text.clone(), lookups: 0, questions: 0, exists: lookup.exists };
    let looked = looked.entry(lookup.text.clone()).or_insert_with(fresh);
    looked.lookups += 1;
    looked.questions += (types * lookup.names.len()) as u64;
}

#[cfg(test)]
mod tests;
