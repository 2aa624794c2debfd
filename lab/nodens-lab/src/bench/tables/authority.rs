//! Tables of authoritative servers.

use super::{Column, Numbers, Section, cost_column, rate_column, ratio_column, section};
use crate::bench::cells::Cell;
use crate::bench::peers::Peer;

const TABLES: [(Cell, &str); 3] = [
    (Cell::Authority, "A zone of 100,000 names, an address each"),
    (
        Cell::AuthorityRoot,
        "A zone like the root: referrals, and 40 % names that do not exist; DO in 85 %",
    ),
    (Cell::AuthoritySigned, "A signed zone of 10,000 names, every query with DO"),
];

pub(super) fn all(peers: &[Peer], n: &Numbers<'_>) -> Vec<Section> {
    TABLES.iter().map(|(cell, title)| table(title, peers, n, *cell)).collect()
}

fn table(title: &str, peers: &[Peer], n: &Numbers<'_>, cell: Cell) -> Section {
    let best = best(peers, n, cell);
    let to_best: Column<'_> =
        ("×best peer", Box::new(move |server| n.ratio(server, cell, best?, cell)));
    let columns = [
        rate_column(n, "queries a second", cell),
        cost_column(n, cell),
        ratio_column(n, "×echo", cell, ("echo", cell)),
        ratio_column(n, "×echo-long", cell, ("echo-long", cell)),
        to_best,
        ratio_column(n, "×CoreDNS", cell, ("coredns", cell)),
    ];
    let peer = best.map_or(String::new(), |best| format!("; the best peer is {best}"));
    section(&format!("{title}, server on one CPU{peer}"), peers, &columns)
}

/// The fastest server that is neither Nodens nor an echo.
fn best<'p>(peers: &'p [Peer], n: &Numbers<'_>, cell: Cell) -> Option<&'p str> {
    let others = peers.iter().filter(|peer| !matches!(peer.name, "echo" | "echo-long" | "nodens"));
    let cost = |peer: &Peer| Some((peer.name, n.cost(peer.name, cell)?.median));
    let cheapest = others.filter_map(cost).min_by(|a, b| a.1.total_cmp(&b.1));
    cheapest.map(|(name, _)| name)
}
