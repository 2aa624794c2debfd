//! The kernel's table of connections. When it is full, whatever would be a new one is dropped, and
//! who sent it sees a timeout or nothing: what is said here is the only explanation there is.

use super::{State, Wanted};
use crate::network::Level;
use std::net::IpAddr;
use std::time::Duration;

/// How often it is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Files of the kernel about the network of the thread that reads them.
const ENTRIES: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const LIMIT: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const PER_CPU: &str = "/proc/thread-self/net/stat/nf_conntrack";

/// What was seen of it and said about it.
#[derive(Debug, Default)]
pub(super) struct Connections {
    full: bool,
    /// What the kernel had dropped at the last look, if it says so.
    dropped: Option<u64>,
    /// The same when the table became full.
    dropped_before: Option<u64>,
}

/// The table at one time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    entries: u64,
    limit: u64,
    /// Packets dropped since the network exists, for this or for rarer reasons.
    dropped: Option<u64>,
}

/// What has changed.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Full,
    /// There is room again; how many packets were dropped meanwhile, if the kernel says so.
    Room(Option<u64>),
}

impl Connections {
    /// Full is a table without a free entry, and one in which entries come and go at the limit while
    /// packets are dropped; it is full until a tenth is free.
    fn judge(&mut self, seen: Seen) -> Option<News> {
        let Seen { entries, limit, dropped } = seen;
        let since = |before: Option<u64>| Some(dropped?.saturating_sub(before?));
        let drops = since(self.dropped).is_some_and(|count| count > 0);
        let crowded = entries.saturating_mul(20) >= limit.saturating_mul(19);
        let news = if self.full {
            let room = entries.saturating_mul(10) < limit.saturating_mul(9);
            room.then(|| News::Room(since(self.dropped_before)))
        } else {
            (limit > 0 && (entries >= limit || (crowded && drops))).then_some(News::Full)
        };
        match news {
            Some(News::Full) => {
                self.full = true;
                self.dropped_before = self.dropped.or(dropped);
            }
            Some(News::Room(_)) => self.full = false,
            None => {}
        }
        self.dropped = dropped;
        news
    }
}

impl State {
    /// Looks at the table, and says when it becomes full and when there is room again.
    pub(crate) fn look_at_connections(&mut self) {
        // Without the kernel's module there is no table.
        let Some(seen) = look() else { return };
        let Seen { entries, limit, .. } = seen;
        match self.connections.judge(seen) {
            Some(News::Full) => {
                let text = format!(
                    "the kernel's table of connections is full ({entries} of {limit} entries, \
                     nf_conntrack_max) and drops whatever would be a new one: {}",
                    self.without_new_connections()
                );
                self.words.tell(Level::Warning, &text);
            }
            Some(News::Room(dropped)) => {
                let dropped = dropped.map_or_else(String::new, |count| {
                    format!("; {count} packets were dropped meanwhile")
                });
                let text = format!(
                    "the kernel's table of connections has room again ({entries} of {limit} \
                     entries){dropped}"
                );
                self.words.tell(Level::Info, &text);
            }
            None => {}
        }
    }

    /// What still works while there can be no new entries.
    fn without_new_connections(&self) -> String {
        if self.wanted != Wanted::All || !self.installed {
            return "queries of pods need one, too, and are lost".to_owned();
        }
        let addresses: Vec<String> = self.plan.addresses.iter().map(IpAddr::to_string).collect();
        format!(
            "queries to {} need none and are answered, upstreams are queried over the existing connections",
            addresses.join(", ")
        )
    }
}

fn look() -> Option<Seen> {
    let number = |path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let dropped = std::fs::read_to_string(PER_CPU).ok().and_then(|text| dropped(&text));
    Some(Seen { entries: number(ENTRIES)?, limit: number(LIMIT)?, dropped })
}

/// The sum of the column `drop`: a line of names, then one of hexadecimal numbers for each CPU.
fn dropped(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let column = lines.next()?.split_whitespace().position(|name| name == "drop")?;
    let counts =
        lines.map(|line| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entries: u64, dropped: u64) -> Seen {
        Seen { entries, limit: 1000, dropped: Some(dropped) }
    }

    #[test]
    fn a_full_table_is_news_once_until_a_tenth_is_free() {
        let mut table = Connections::default();
        let looks =
            [(10, 5), (999, 5), (1000, 7), (1000, 90), (950, 95), (900, 95), (899, 99), (10, 99)];
        let news: Vec<_> =
            looks.map(|(entries, dropped)| table.judge(seen(entries, dropped))).into();
        let mut expected = [const { None }; 8];
        expected[2] = Some(News::Full);
        expected[6] = Some(News::Room(Some(94)));
        assert_eq!(news, expected);
        assert_eq!(table.judge(seen(1000, 99)), Some(News::Full));
    }

    #[test]
    fn a_table_that_drops_at_its_limit_is_full() {
        let mut table = Connections::default();
        assert_eq!(table.judge(seen(960, 5)), None, "what was dropped before is not known");
        assert_eq!(table.judge(seen(960, 5)), None);
        assert_eq!(table.judge(seen(940, 6)), None);
        assert_eq!(table.judge(seen(950, 7)), Some(News::Full));
    }

    #[test]
    fn kernels_that_say_less_are_understood() {
        let mut table = Connections::default();
        let mut judge = |entries, limit| table.judge(Seen { entries, limit, dropped: None });
        assert_eq!(judge(5, 0), None, "no limit");
        assert_eq!(judge(1000, 1000), Some(News::Full));
        assert_eq!(judge(0, 1000), Some(News::Room(None)));
    }

    #[test]
    fn the_kernel_s_counts_are_added_up() {
        let text = "entries  clashres found new drop early_drop\n\
                    0000000a  00000000 00000001 00000000 0000000f 00000007\n\
                    0000000a  00000000 00000001 00000000 00000001 00000007\n";
        assert_eq!(dropped(text), Some(16));
        assert_eq!(dropped("entries found\n00000001 00000002\n"), None);
        assert_eq!(dropped(""), None);
    }
}
