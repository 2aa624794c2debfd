//! Reads `autopath` and the file it names.

use crate::config::BlockBuilder;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error};
use nodens_wire::Name;

pub(super) fn read(
    directive: &Directive,
    block: &BlockBuilder<'_>,
) -> Result<(Zones, Vec<Name>), Error> {
    directive.expect_no_body()?;
    let Some((file, zones)) = directive.args().split_last() else {
        let text = "no resolv-conf specified: expected a file such as /etc/resolv.conf";
        return Err(directive.invalid(text));
    };
    if let Some(source) = file.text.strip_prefix('@') {
        let text = format!(
            "search domains from '{source}' are not available yet: expected a file such as \
             /etc/resolv.conf"
        );
        return Err(Error::invalid(file, text));
    }
    let text = std::fs::read(&file.text)
        .map_err(|error| Error::invalid(file, format!("failed to read {}: {error}", file.text)))?;
    let search = search_list(&String::from_utf8_lossy(&text)).map_err(|domain| {
        let text = format!("{}: expected a domain name, found `{domain}`", file.text);
        Error::invalid(file, text)
    })?;
    Ok((Zones::of(zones, block)?, search))
}

/// The search domains of resolv.conf(5) and the root; nothing if there are none. The last
/// `search` or `domain` line counts.
fn search_list(text: &str) -> Result<Vec<Name>, String> {
    let mut domains: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with([';', '#'])) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("search") => domains = words.collect(),
            Some("domain") => domains = words.take(1).collect(),
            _ => {}
        }
    }
    if domains.is_empty() {
        return Ok(Vec::new());
    }
    let name = |domain: &&str| Name::parse(domain).map_err(|_| (*domain).to_owned());
    let mut search = domains.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    search.push(Name::root());
    Ok(search)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_search_or_domain_line_counts() {
        let list = |text: &str| {
            search_list(text).map(|names| names.iter().map(Name::to_string).collect::<Vec<_>>())
        };
        let text = "; search no.test\n#search no.test\nsearch old.test\nnameserver 192.0.2.1\n\
            domain b.test c.test\nsearch a.test\tb.test.\n";
        assert_eq!(list(text).unwrap(), ["a.test.", "b.test.", "."]);
        assert_eq!(list("domain b.test c.test").unwrap(), ["b.test.", "."]);
        assert_eq!(list("search a.test\nsearch\n").unwrap(), [""; 0]);
        assert_eq!(list("search a..b").unwrap_err(), "a..b");
    }
}
