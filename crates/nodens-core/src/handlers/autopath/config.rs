//! Reads `autopath` and the file it names.

use super::search::{Fixed, Pods, Source};
use crate::cluster::Scope;
use crate::config::BlockBuilder;
use crate::handlers::search::{ApiLines, optional_feed};
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use std::sync::Arc;

pub(super) fn read(
    directive: &Directive,
    block: &mut BlockBuilder<'_>,
) -> Result<(Zones, Source), Error> {
    let Some((file, zones)) = directive.args().split_last() else {
        let text = "no resolv-conf specified: expected a file such as /etc/resolv.conf";
        return Err(directive.invalid(text));
    };
    if let Some(source) = file.text.strip_prefix('@') {
        let zones = Zones::of(zones, &block.zones)?;
        let (node, lines) = pods(directive, block, source == "node")?;
        let pods = match source {
            "kubernetes" => Pods::OfBlock,
            "node" if zones.names().iter().any(|zone| zone.view().is_root()) => {
                let text = "@node has to know the cluster's zone: expected zones in front of it, such \
                            as cluster.local";
                return Err(Error::invalid(file, text));
            }
            "node" => {
                let scope = Scope::PodsOf(block.options.node.as_str().into());
                let feed = optional_feed(block, lines.api(), scope);
                Pods::OfNode { feed, zones: zones.clone() }
            }
            _ => {
                let text = format!(
                    "'{source}' has no search lists: expected @kubernetes, @node or a file such as \
                     /etc/resolv.conf"
                );
                return Err(Error::invalid(file, text));
            }
        };
        return Ok((zones, Source::Pods { pods, node }));
    }
    directive.expect_no_body()?;
    let text = std::fs::read(&file.text)
        .map_err(|error| Error::invalid(file, format!("failed to read {}: {error}", file.text)))?;
    let list = resolv_conf(&String::from_utf8_lossy(&text)).map_err(|domain| {
        let text = format!("{}: expected a domain name, found `{domain}`", file.text);
        Error::invalid(file, text)
    })?;
    Ok((Zones::of(zones, &block.zones)?, Source::File(list)))
}

/// The search domains that pods have from their nodes: those of `node_search`, else those of this
/// machine. And where the API server is, if that can be said here.
fn pods(
    directive: &Directive,
    block: &BlockBuilder<'_>,
    has_api: bool,
) -> Result<(Arc<[Name]>, ApiLines), Error> {
    let (mut node, mut lines) = (None, ApiLines::default());
    for line in directive.lines() {
        line.expect_no_body()?;
        if has_api && lines.take(line)? {
            continue;
        }
        if line.name.text != "node_search" {
            let own: &[&str] = &["node_search", "endpoint", "tls", "kubeconfig"];
            return Err(line.unknown_property(if has_api { own } else { &own[..1] }));
        }
        let name = |word: &Token| {
            Name::parse(&word.text)
                .map_err(|error| Error::expected(word, format!("a search domain ({error})")))
        };
        node = Some(line.args().iter().map(name).collect::<Result<_, _>>()?);
    }
    let node = node.unwrap_or_else(|| {
        // As in CoreDNS, there are none if the file cannot be read.
        let text = std::fs::read(&block.options.resolv_conf).unwrap_or_default();
        resolv_conf(&String::from_utf8_lossy(&text)).map_or([].into(), |list| list.domains)
    });
    Ok((node, lines))
}

/// The search list of resolv.conf(5): the last `search` or `domain` line counts, and the last
/// `ndots`. The text of a domain that is no name is the error.
pub(super) fn resolv_conf(text: &str) -> Result<Fixed, String> {
    let mut domains: Vec<&str> = Vec::new();
    let mut ndots = None;
    for line in text.lines().filter(|line| !line.starts_with([';', '#'])) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("search") => domains = words.collect(),
            Some("domain") => domains = words.take(1).collect(),
            Some("options") => {
                let values = words.filter_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                ndots = values.fold(ndots, |_, last| Some(last));
            }
            _ => {}
        }
    }
    let name = |domain: &&str| Name::parse(domain).map_err(|_| (*domain).to_owned());
    let domains = domains.iter().map(name).collect::<Result<_, _>>()?;
    Ok(Fixed { domains, ndots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_search_or_domain_line_counts() {
        let list = |text: &str| {
            let list = resolv_conf(text);
            list.map(|list| list.domains.iter().map(Name::to_string).collect::<Vec<_>>())
        };
        let text = "; search no.test\n#search no.test\nsearch old.test\nnameserver 192.0.2.1\n\
            domain b.test c.test\nsearch a.test\tb.test.\n";
        assert_eq!(list(text).unwrap(), ["a.test.", "b.test."]);
        assert_eq!(list("domain b.test c.test").unwrap(), ["b.test."]);
        assert_eq!(list("search a.test\nsearch\n").unwrap(), [""; 0]);
        assert_eq!(list("search a..b").unwrap_err(), "a..b");
    }

    #[test]
    fn the_last_ndots_counts() {
        let ndots = |text: &str| resolv_conf(text).unwrap().ndots;
        assert_eq!(ndots("search a.test"), None);
        assert_eq!(ndots("options ndots:2 timeout:1 ndots:5\noptions edns0 ndots:x"), Some(5));
    }
}
