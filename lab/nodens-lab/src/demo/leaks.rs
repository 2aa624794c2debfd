//! Names that cost queries and exist nowhere, and how an operator stops them on the node.

use crate::authority::Asked;
use crate::term::{self, Style, Table};
use lab_load::cluster::{Looked, Mix};

/// How many names that exist nowhere are shown.
const LEAKS_SHOWN: usize = 3;

/// Which names cost queries and exist nowhere, and how many of those went further than the node.
pub(super) fn show(mix: &Mix, asked: &Asked) {
    let per_lookup = mix.questions() as f64 / (mix.lookups() as f64).max(1.0);
    term::out(&format!(
        "\n  {} lookups by applications became {} queries: {per_lookup:.1} each.",
        term::count(mix.lookups()),
        term::count(mix.questions()),
    ));
    let leaks: Vec<&Looked> = mix.looked.iter().filter(|looked| !looked.exists).collect();
    let Some(worst) = leaks.first().copied() else { return };
    let header =
        ["names that exist nowhere", "lookups", "queries", "per lookup", "reached cluster DNS"];
    let mut table = Table::new(&header);
    for (at, leak) in leaks.into_iter().take(LEAKS_SHOWN).enumerate() {
        let prefix = format!("{}.", leak.text);
        let reached = asked.iter().filter(|((name, _), _)| name.to_string().starts_with(&prefix));
        let cells = vec![
            leak.text.clone(),
            term::count(leak.lookups),
            term::count(leak.questions),
            format!("×{:.0}", leak.questions as f64 / leak.lookups.max(1) as f64),
            term::count(reached.map(|(_, count)| count).sum()),
        ];
        if at == 0 { table.styled(Style::Bad, cells) } else { table.row(cells) }
    }
    term::out(&table.framed());
    remedy(worst);
}

/// How an operator stops a leak on the node.
fn remedy(leak: &Looked) {
    let pattern = leak.text.replace('.', "\\.");
    term::out(&format!(
        "  {}\n{}",
        "To answer the first of them on the node until its source is fixed:",
        term::paint(
            Style::Accent,
            &format!(
                "    template IN ANY {{\n        match \"^{pattern}\\.\"\n        rcode NXDOMAIN\n        fallthrough\n    }}"
            )
        ),
    ));
}
