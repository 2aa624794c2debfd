//! Lookups in recorded traffic.

use super::{Args, NDOTS, saved, title, wait};
use crate::listen;
use crate::tapped::roles;
use crate::term::{self, Style, Table};
use anyhow::{Context, Result, bail};
use lab_workload::capture;
use lab_workload::recorded::{Broken, Record};
use lab_workload::search::observed::{Client, Looked, Observed, Observer, Options, Saving};
use lab_workload::search::resolv_conf::ResolvConf;
use lab_workload::search::{Libc, Measure, NDOTS_MAX};
use nodens_wire::Name;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Faults, lists and names that are shown one by one.
const FAULTS_SHOWN: usize = 10;
const LISTS_SHOWN: usize = 10;
const NAMES_SHOWN: usize = 15;

pub(super) fn run(
    args: &Args,
    conf: &ResolvConf,
    path: Option<&Path>,
    socket: Option<&str>,
    stop: &AtomicBool,
) -> Result<String> {
    let libc = match &*args.libc {
        [] => Libc::Glibc,
        [one] => one.libc(),
        _ => bail!("--libc with several resolvers, expected one: a capture is worked out for one"),
    };
    let given = !args.search.is_empty() || args.resolv_conf.is_some();
    let search = conf.list(libc).iter().map(|domain| Name::parse(domain));
    let search = search.collect::<Result<Vec<_>, _>>().context("the search list")?;
    let options = Options {
        search: given.then_some(search),
        libc,
        ndots: NDOTS.to_vec(),
        cache_ttl: (args.cache_success, args.cache_denial),
    };
    let mut taken = Taken { servers: args.server.clone(), ..Taken::default() };
    let source = match (path, socket) {
        (Some(path), _) => {
            file(path, args, stop, &mut taken)?;
            path.display().to_string()
        }
        (None, Some(socket)) => {
            let duration = args.duration.map(std::time::Duration::from_nanos);
            let roles = roles(&args.dnstap_role);
            listen::arrivals(socket, duration, &roles, stop, &mut |arrived| {
                arrived.map_or(Ok(()), |arrived| taken.push(arrived.message))
            })?;
            socket.to_owned()
        }
        (None, None) => bail!("no capture"),
    };
    taken.tell_rest(&source);
    let observed = taken.observer.finish(&options);
    if observed.queries == 0 {
        let others = term::count(observed.others);
        let left_out = match taken.left_out {
            0 => String::new(),
            count => format!("; {} messages of other servers than --server", term::count(count)),
        };
        bail!("{source} has no query for A or AAAA ({others} others{left_out})");
    }
    if args.json {
        return Ok(format!("{:#}\n", as_json(&observed, &source)));
    }
    Ok(told(&observed, &source, given))
}

/// Messages that were taken in, and faults.
#[derive(Default)]
struct Taken {
    observer: Observer,
    /// The servers that count; all if there are none.
    servers: Vec<IpAddr>,
    /// Messages of others.
    left_out: u64,
    faults: usize,
}

impl Taken {
    fn push(&mut self, item: Result<Record, Broken>) -> Result<()> {
        match item {
            Ok(record) if self.is_left_out(&record) => self.left_out += 1,
            Ok(record) => self.observer.push(&record)?,
            Err(broken) => {
                self.faults += 1;
                if self.faults <= FAULTS_SHOWN {
                    term::note(&format!("{broken}, skipped"));
                }
            }
        }
        Ok(())
    }

    fn is_left_out(&self, record: &Record) -> bool {
        !self.servers.is_empty() && !self.servers.contains(&record.server.ip())
    }

    fn tell_rest(&self, source: &str) {
        if self.faults > FAULTS_SHOWN {
            let more = term::count((self.faults - FAULTS_SHOWN) as u64);
            term::note(&format!("{source}: {more} more skipped"));
        }
    }
}

fn file(path: &Path, args: &Args, stop: &AtomicBool, taken: &mut Taken) -> Result<()> {
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Box::new(BufReader::new(file))
    };
    let messages = capture::open(input, args.capture_port, &roles(&args.dnstap_role));
    for item in messages.with_context(|| path.display().to_string())? {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        taken.push(item)?;
    }
    Ok(())
}

fn told(observed: &Observed, source: &str, given: bool) -> String {
    let lookups = observed.lookup_count();
    let each = observed.queries as f64 / lookups.max(1) as f64;
    let mut text = format!(
        "{source}: {} for A and AAAA of {} in {}, {} denied\n",
        of_queries(observed.queries),
        term::of(observed.clients.len(), "client"),
        term::nanos(observed.span as f64),
        term::count(observed.denied),
    );
    text.push_str(&format!(
        "  {} of {each:.1} queries each{}\n",
        term::of(lookups as usize, "lookup"),
        mean_time(observed).map_or_else(String::new, |time| format!(", {time} on average")),
    ));
    text.push_str(&format!(
        "  besides {} sent again or recorded twice, and {} for other types\n",
        term::count(observed.repeated),
        term::count(observed.others),
    ));
    if observed.answered == 0 {
        text.push_str("  no responses: what was denied is unknown, and every name may be\n");
    }
    text.push_str(&lists(observed, given));
    text.push_str(&format!("\n{}\n", names(observed).framed()));
    if observed.lookups.len() > NAMES_SHOWN {
        let more = observed.lookups.len() - NAMES_SHOWN;
        text.push_str(&format!("  and {} more\n", term::of(more, "row")));
    }
    text.push_str(&format!("\n{}\n", savings(observed).framed()));
    text
}

fn of_queries(count: u64) -> String {
    format!("{} {}", term::count(count), if count == 1 { "query" } else { "queries" })
}

/// The mean time of a lookup that found something.
fn mean_time(observed: &Observed) -> Option<String> {
    let (sum, count) = observed.time;
    (count > 0 && observed.answered > 0).then(|| term::nanos(sum as f64 / count as f64))
}

fn lists(observed: &Observed, given: bool) -> String {
    let lists = observed.search_lists();
    if lists.is_empty() {
        return "\nno client walked a search list\n".to_owned();
    }
    let how = if given { "search list, as given" } else { "search lists, as walks show them" };
    let mut text = format!("\n{}\n", term::paint(Style::Bold, how));
    for (list, clients) in lists.iter().take(LISTS_SHOWN) {
        let of_list = || observed.clients.iter().filter(|client| client.search == *list);
        let least = of_list().map(|client| client.ndots.0).max().unwrap_or(0);
        let most = of_list().map(|client| client.ndots.1).min().unwrap_or(0);
        let ndots = match (least, most) {
            (0, NDOTS_MAX..) => String::new(),
            (0, most) => format!(", ndots at most {most}"),
            (least, NDOTS_MAX..) => format!(", ndots at least {least}"),
            (least, most) if least <= most => format!(", ndots from {least} to {most}"),
            _ => ", with more than one ndots".to_owned(),
        };
        let domains: Vec<_> = list.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "  {}: {}{ndots}\n",
            term::of(*clients, "client"),
            domains.join(" ")
        ));
    }
    if lists.len() > LISTS_SHOWN {
        text.push_str(&format!("  and {} more\n", term::of(lists.len() - LISTS_SHOWN, "list")));
    }
    let without = observed.clients.iter().filter(|client| client.search.is_empty()).count();
    if without > 0 {
        text.push_str(&format!("  {}: none seen\n", term::of(without, "client")));
    }
    text
}

fn names(observed: &Observed) -> Table {
    let mut table =
        Table::new(&["looked up", "by", "lookups", "queries", "each", "denied", "found as"]);
    for looked in observed.lookups.iter().take(NAMES_SHOWN) {
        let client = observed.clients.get(looked.client);
        table.row(vec![
            looked.text.clone(),
            client.map_or_else(String::new, |client| client.address.to_string()),
            term::count(looked.lookups),
            term::count(looked.queries),
            format!("{:.1}", looked.queries as f64 / looked.lookups.max(1) as f64),
            term::count(looked.denied),
            looked.found.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        ]);
    }
    table
}

/// How long a lookup waits on average.
fn mean(saving: &Saving, lookups: u64) -> (u64, u64) {
    let (least, most) = saving.cost.wait;
    (least / lookups.max(1), most / lookups.max(1))
}

fn savings(observed: &Observed) -> Table {
    let lookups = observed.lookup_count();
    let timed = observed.answered > 0;
    let header = ["", "queries", "each", "denied", "saved", "found", "waits for each lookup"];
    let columns = if timed { header.len() } else { header.len() - 1 };
    let mut table = Table::new(header.get(..columns).unwrap_or_default());
    let before = observed.queries;
    let each = |queries: u64| format!("{:.1}", queries as f64 / lookups.max(1) as f64);
    let mut add = |title: String, queries: u64, [denied, found, time]: [String; 3]| {
        let less = saved(before, queries);
        let mut cells = vec![title, term::count(queries), each(queries), denied, less, found];
        if timed {
            cells.push(time);
        }
        table.row(cells);
    };
    let count = |of: fn(&Looked) -> u64| observed.lookups.iter().map(of).sum::<u64>();
    let found = count(|looked| if looked.found.is_some() { looked.lookups } else { 0 });
    let (denied, time) = (term::count(observed.denied), "-".to_owned());
    add("recorded".to_owned(), before, [denied, term::count(found), time]);
    for saving in &observed.savings {
        let title = match saving.measure {
            Measure::AsItIs => "as the model has it".to_owned(),
            measure => title(measure),
        };
        let cost = saving.cost;
        let cells =
            [term::count(cost.denied), term::count(cost.found), wait(mean(saving, lookups))];
        add(title, cost.queries, cells);
    }
    if let Some(cached) = observed.cached {
        let title = "beyond a cache on the node".to_owned();
        let unknown = || "-".to_owned();
        let cells = [unknown(), term::count(found), unknown()];
        add(title, before.saturating_sub(cached), cells);
    }
    table
}

fn as_json(observed: &Observed, source: &str) -> Value {
    let list = |list: &[Name]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let client = |client: &Client| {
        json!({
            "address": client.address.to_string(),
            "search": list(&client.search),
            "ndots": {"least": client.ndots.0, "most": client.ndots.1},
            "lookups": client.lookups,
            "queries": client.queries,
        })
    };
    let looked = |looked: &Looked| {
        let client = observed.clients.get(looked.client);
        json!({
            "name": looked.text,
            "client": client.map(|client| client.address.to_string()),
            "searched_first": looked.is_listed_first,
            "lookups": looked.lookups,
            "names": looked.names,
            "queries": looked.queries,
            "denied": looked.denied,
            "found": looked.found.as_ref().map(ToString::to_string),
        })
    };
    let lookups = observed.lookup_count();
    let saving = |saving: &Saving| {
        let (least, most) = mean(saving, lookups);
        json!({
            "measure": title(saving.measure),
            "queries": saving.cost.queries,
            "denied": saving.cost.denied,
            "found": saving.cost.found,
            "mean_wait_ns": (observed.answered > 0).then(|| json!({"least": least, "most": most})),
        })
    };
    json!({
        "source": source,
        "queries": observed.queries,
        "denied": observed.denied,
        "repeated": observed.repeated,
        "others": observed.others,
        "answered": observed.answered,
        "span_ns": observed.span,
        "lookups": lookups,
        "clients": observed.clients.iter().map(client).collect::<Vec<_>>(),
        "names": observed.lookups.iter().map(looked).collect::<Vec<_>>(),
        "measures": observed.savings.iter().map(saving).collect::<Vec<_>>(),
        "beyond_node_cache": observed.cached.map(|cached| observed.queries.saturating_sub(cached)),
    })
}
