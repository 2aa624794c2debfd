//! Response times by kind of query and answer.

use crate::headline;
use crate::run::{Run, name_of_transport};
use crate::table::{Head, Table};
use crate::text;
use lab_result::Group;
use maud::{Markup, html};

const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The tables of `run`, or nothing if it has none.
pub(crate) fn tables(run: &Run<'_>, named: bool) -> Markup {
    let result = run.result;
    let transports: Vec<Group> = result
        .by_transport
        .iter()
        .map(|group| Group { name: name_of_transport(&group.name), ..group.clone() })
        .collect();
    let all = [
        ("QTYPE", "qtype", result.by_qtype.as_slice()),
        ("RCODE", "rcode", result.by_rcode.as_slice()),
        ("transport", "transport", transports.as_slice()),
    ];
    html! {
        @if named && has_any(run) { h3 { (headline::key(run).sign()) (run.label) } }
        @for (name, id, groups) in all {
            @if !groups.is_empty() { (table(&format!("{id}{}", run.at), name, groups).render()) }
        }
    }
}

/// Whether the file tells groups apart.
pub(crate) fn has_any(run: &Run<'_>) -> bool {
    let result = run.result;
    let groups = [&result.by_qtype, &result.by_rcode, &result.by_transport];
    groups.iter().any(|groups| !groups.is_empty())
}

fn table(id: &str, name: &str, groups: &[Group]) -> Table {
    let mut head = vec![Head::plain(name)];
    head.extend(["sent", "answered", "lost", "fastest"].map(Head::plain));
    head.extend(PERCENTILES.iter().map(|(name, _)| Head::plain(*name)));
    head.push(Head::plain("slowest"));
    let mut table = Table::new(id, head);
    for group in groups {
        let mut row =
            vec![group.name.clone(), text::count(group.sent), text::count(group.answered)];
        row.push(text::count(group.lost));
        let parts = [0.0].into_iter().chain(PERCENTILES.iter().map(|(_, part)| *part)).chain([1.0]);
        row.extend(parts.map(|part| text::quantile(group.response.quantile(part))));
        table.rows.push(row);
    }
    table
}
