//! Queries as a stub resolver asks them along its search list.

use super::files::octets;
use super::{LibcName, MIX_MAX, Questions, Run};
use anyhow::{Result, anyhow, bail};
use lab_load::Workload;
use lab_workload::search::{Existing, Found, Libc, Lookup, Resolver, Weave};
use lab_workload::{Style, Template};
use nodens_wire::{Name, Type};
use std::path::Path;

impl Questions {
    /// What lookups of names become with a search list.
    pub(super) fn lookups(&self, style: &Style, run: &Run) -> Result<Workload> {
        let libc = match self.libc {
            LibcName::Glibc => Libc::Glibc,
            LibcName::Musl => Libc::Musl,
            LibcName::Go => Libc::Go,
        };
        let resolver = Resolver { libc, search: self.search.clone(), ndots: self.ndots };
        let existing = self.exists.as_deref().map(existing).transpose()?;
        let text = self.lookup_texts(run.seed)?;
        let mut next = 0..;
        let types: Vec<_> = match &self.qtype {
            Some(types) => types.types().collect(),
            None => vec![Type::A, Type::AAAA],
        };
        let fallback = resolver.style();
        let style = if style.edns.is_some() { style } else { &fallback };
        let questions = (run.wanted as usize).clamp(10_000, MIX_MAX);
        let weave = Weave { clients: run.clients, questions, types: &types, style, seed: run.seed };
        let mix = weave.mix(|_| {
            let text = text(next.next().unwrap_or(0));
            let absolute = Name::parse(&text).ok();
            let found = |name: &Name| match &existing {
                Some(existing) => existing.find(name),
                None if Some(name) == absolute.as_ref() => Found::Addresses,
                None => Found::NoName,
            };
            let names = resolver.walk(&text, found);
            let exists = names.last().is_some_and(|name| found(name) == Found::Addresses);
            Lookup { text, names, exists }
        });
        if mix.workload.is_empty() {
            bail!("it contains no name that a resolver would look up");
        }
        let each = mix.questions() as f64 / mix.lookups().max(1) as f64;
        eprintln!("search list: a lookup becomes {each:.1} queries on average");
        Ok(mix.workload)
    }

    /// What applications give to their resolvers, by number: lines of the file in turn, or the names that
    /// the template makes.
    fn lookup_texts(&self, seed: u64) -> Result<Box<dyn Fn(u64) -> String>> {
        if let Some(text) = &self.template {
            let template = Template::parse(text, |path| std::fs::read(path))?;
            let absolute = text.ends_with('.');
            return Ok(Box::new(move |n| {
                let mut name = template.name(seed, n).to_string();
                if !absolute {
                    name.pop();
                }
                name
            }));
        }
        let Some(path) = &self.names else { bail!("--search needs -d or --template") };
        let text = String::from_utf8_lossy(&octets(path)?).into_owned();
        let firsts = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
        let names: Vec<_> =
            firsts.filter(|name| !name.starts_with(';')).map(str::to_owned).collect();
        if names.is_empty() {
            bail!("{} has no query", path.display());
        }
        let count = names.len() as u64;
        Ok(Box::new(move |n| names.get((n % count) as usize).cloned().unwrap_or_default()))
    }
}

/// The names that exist, from a file.
fn existing(path: &Path) -> Result<Existing> {
    let text = String::from_utf8_lossy(&octets(path)?).into_owned();
    text.parse().map_err(|error| anyhow!("{}:{error}", path.display()))
}
