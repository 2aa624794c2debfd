//! Lookups of names that are given: every query, and what each measure saves.

use super::cost::{Lookups, Row, TYPES, find};
use super::{Args, LibcName, octets, saved, wait};
use crate::term::{self, Style, Table};
use anyhow::{Result, anyhow, bail};
use lab_workload::search::resolv_conf::ResolvConf;
use lab_workload::search::{Existing, Found, Libc, Measure};
use nodens_wire::Name;
use serde_json::{Value, json};

/// Names that are shown one by one.
const NAMES_SHOWN: usize = 20;

pub(super) fn run(args: &Args, conf: &ResolvConf) -> Result<String> {
    let texts = texts(args)?;
    let existing = args.exists.as_deref().map(|path| {
        let text = String::from_utf8_lossy(&octets(path)?).into_owned();
        text.parse::<Existing>().map_err(|error| anyhow!("{}:{error}", path.display()))
    });
    let existing = existing.transpose()?;
    let lookups = Lookups {
        texts: &texts,
        search: conf.list(Libc::Glibc),
        musl_search: conf.list(Libc::Musl),
        ndots: conf.ndots,
        existing: existing.as_ref(),
        times: &args.time,
        cached_time: args.cached_time,
    };
    let all = [LibcName::Glibc, LibcName::Musl, LibcName::Go];
    let libcs = if args.libc.is_empty() { &all[..] } else { &args.libc };
    let mut groups: Vec<Group> = Vec::new();
    for name in libcs {
        let (libc, rows) = (name.libc(), lookups.rows(name.libc()));
        let walks: Vec<_> =
            texts.iter().map(|text| lookups.course(libc, Measure::AsItIs, text).asked).collect();
        let same = groups.iter_mut().find(|group| group.rows == rows && group.walks == walks);
        match same {
            Some(group) if !group.libcs.contains(&libc) => group.libcs.push(libc),
            Some(_) => {}
            None => groups.push(Group { libcs: vec![libc], rows, walks }),
        }
    }
    if groups.iter().all(|group| group.walks.iter().all(Vec::is_empty)) {
        bail!("no resolver sends a query for {}, expected domain names", texts.join(", "));
    }
    if args.json {
        return Ok(format!("{:#}\n", as_json(&lookups, &groups)));
    }
    let mut text = head(&lookups);
    for group in &groups {
        text.push_str(&format!("\n{}\n", term::paint(Style::Bold, &group.title())));
        match (&*texts, &*group.walks) {
            ([name], [walk]) => text.push_str(&one_walk(&lookups, name, walk)),
            _ => text.push_str(&many_walks(&lookups, group)),
        }
        text.push_str(&format!(
            "{}\n",
            table(&group.rows, texts.len(), !args.time.is_empty()).framed()
        ));
    }
    Ok(text)
}

/// Resolvers that do the same.
struct Group {
    libcs: Vec<Libc>,
    rows: Vec<Row>,
    /// By name, the names asked for as it is.
    walks: Vec<Vec<Name>>,
}

impl Group {
    fn names(&self) -> Vec<&'static str> {
        let name = |libc: &Libc| match libc {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
            Libc::Go => "Go",
        };
        self.libcs.iter().map(name).collect()
    }

    fn title(&self) -> String {
        match &*self.names() {
            [one] => (*one).to_owned(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
            [] => String::new(),
        }
    }
}

/// The names to look up.
fn texts(args: &Args) -> Result<Vec<String>> {
    let mut texts = args.names.clone();
    if let Some(path) = &args.file {
        let text = String::from_utf8_lossy(&octets(path)?).into_owned();
        let firsts = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
        texts.extend(firsts.filter(|name| !name.starts_with([';', '#'])).map(str::to_owned));
        if texts.is_empty() {
            bail!("{} has no name, expected one a line", path.display());
        }
    }
    if texts.is_empty() {
        bail!("nothing to look up, expected names, -d FILE, --capture FILE or --listen SOCKET");
    }
    Ok(texts)
}

fn head(lookups: &Lookups<'_>) -> String {
    let search = match lookups.search {
        [] => "no search list".to_owned(),
        list => format!("search {}", list.join(" ")),
    };
    format!("{search}, ndots:{}\n", lookups.ndots)
}

/// The queries of one lookup.
fn one_walk(lookups: &Lookups<'_>, text: &str, walk: &[Name]) -> String {
    if walk.is_empty() {
        return format!("  {text}: no query\n");
    }
    let names: Vec<String> = walk.iter().map(ToString::to_string).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let mut lines = String::new();
    for (name, text_of) in walk.iter().zip(&names) {
        let (style, answer) = match find(lookups.existing, text, name) {
            Found::Addresses => (Style::Good, "found"),
            Found::NoData => (Style::Bad, "no address"),
            Found::NoName => (Style::Bad, "NXDOMAIN"),
            Found::Failed => (Style::Bad, "SERVFAIL"),
        };
        let answer = term::paint(style, answer);
        lines.push_str(&format!("  {text_of:width$}  A, AAAA  {answer}\n"));
    }
    lines
}

/// What each lookup takes.
fn many_walks(lookups: &Lookups<'_>, group: &Group) -> String {
    let mut table = Table::new(&["name", "queries", "denied", "found as"]);
    let mut walks: Vec<_> = lookups.texts.iter().zip(&group.walks).collect();
    walks.sort_by_key(|(_, walk)| std::cmp::Reverse(walk.len()));
    for (text, walk) in walks.iter().take(NAMES_SHOWN) {
        let found = |name: &Name| find(lookups.existing, text, name);
        let denied = walk.iter().filter(|name| found(name) != Found::Addresses).count() as u64;
        let last = walk.last().filter(|name| found(name) == Found::Addresses);
        table.row(vec![
            (*text).clone(),
            term::count(walk.len() as u64 * TYPES),
            term::count(denied * TYPES),
            last.map_or_else(|| "-".to_owned(), ToString::to_string),
        ]);
    }
    let mut text = format!("{}\n", table.framed());
    if walks.len() > NAMES_SHOWN {
        text.push_str(&format!("  and {} more\n", term::of(walks.len() - NAMES_SHOWN, "name")));
    }
    text
}

fn table(rows: &[Row], names: usize, timed: bool) -> Table {
    let header = ["", "queries", "denied", "saved", "found", "to the servers", "time"];
    let columns = if timed { header.len() } else { header.len() - 1 };
    let mut table = Table::new(header.get(..columns).unwrap_or_default());
    let before = rows.first().map_or(0, |row| row.cost.queries);
    for row in rows {
        let cost = row.cost;
        let mut cells = vec![
            row.title.clone(),
            term::count(cost.queries),
            term::count(cost.denied),
            saved(before, cost.queries),
            format!("{} of {}", term::count(cost.found), term::count(names as u64)),
            term::count(cost.to_servers),
        ];
        if timed {
            cells.push(cost.wait.map_or_else(|| "-".to_owned(), wait));
        }
        table.row(cells);
    }
    table
}

fn as_json(lookups: &Lookups<'_>, groups: &[Group]) -> Value {
    let measure = |row: &Row| {
        json!({
            "measure": row.title,
            "queries": row.cost.queries,
            "denied": row.cost.denied,
            "found": row.cost.found,
            "to_servers": row.cost.to_servers,
            "wait_ns": row.cost.wait.map(|(least, most)| json!({"least": least, "most": most})),
        })
    };
    let walk = |(text, walk): (&String, &Vec<Name>)| {
        let name = |name: &Name| {
            let found = match find(lookups.existing, text, name) {
                Found::Addresses => "addresses",
                Found::NoData => "no data",
                Found::NoName => "NXDOMAIN",
                Found::Failed => "SERVFAIL",
            };
            json!({"name": name.to_string(), "answer": found})
        };
        json!({"name": text, "asked": walk.iter().map(name).collect::<Vec<_>>()})
    };
    let group = |group: &Group| {
        json!({
            "resolvers": group.names(),
            "lookups": lookups.texts.iter().zip(&group.walks).map(walk).collect::<Vec<_>>(),
            "measures": group.rows.iter().map(measure).collect::<Vec<_>>(),
        })
    };
    json!({
        "search": lookups.search,
        "ndots": lookups.ndots,
        "types": ["A", "AAAA"],
        "results": groups.iter().map(group).collect::<Vec<_>>(),
    })
}
