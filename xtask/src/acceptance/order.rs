//! The order of directives: that of CoreDNS's `plugin.cfg`, kept where the tests of the core read it.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{peers, repo};

const KEPT: &str = "crates/nodens-core/testdata/coredns-directives";

/// Compares what is kept with CoreDNS's own list, or keeps that.
pub(super) fn check(source: &Path, write: bool) -> Result<()> {
    let configuration = source.join("plugin.cfg");
    let configuration = std::fs::read_to_string(&configuration)
        .with_context(|| configuration.display().to_string())?;
    let theirs = text(&configuration);
    let kept = repo::root().join(KEPT);
    if write {
        return std::fs::write(&kept, theirs).with_context(|| KEPT.to_owned());
    }
    if std::fs::read_to_string(&kept).with_context(|| KEPT.to_owned())? != theirs {
        bail!("{KEPT} is not the order of CoreDNS {}: --write", peers::COREDNS_VERSION);
    }
    Ok(())
}

/// The names of `plugin.cfg`, a line each, below a line that says where they are from.
fn text(configuration: &str) -> String {
    let lines = configuration.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let head = format!("# plugin.cfg of CoreDNS {}\n", peers::COREDNS_VERSION);
    names.fold(head, |text, name| text + name + "\n")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn names_in_order_without_comments() {
        let text = text("# a: b\n\nroot:root\nprometheus:metrics\non:github.com/x/y\n");
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["root", "prometheus", "on"]);
    }
}
