//! From the workers' sketches to a report.

use crate::domains::Domains;
use crate::leaks::{self, text};
use crate::ledger::{Ledger, Sums};
use crate::limits::ROWS_SHOWN;
use crate::report::{Bucket, Client, Leak, Moment, Name, Place, RcodeShare, Report, Source};
use nodens_core::Shared;
use nodens_core::seeing::{LATENCIES, RCODES, Sketch};
use nodens_wire::Rcode;
use std::net::IpAddr;
use std::sync::Arc;

/// The version of the format of [`Report`].
const FORMAT: u32 = 1;

/// Empties the sketches of workers into a ledger.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    /// To be put, emptied, in the place of a full one.
    spare: Option<Box<Sketch>>,
    ledger: Ledger,
}

/// What a report has to know beside what was counted.
pub struct Surroundings<'s> {
    /// The host's name.
    pub host: String,
    /// Seconds since 1970.
    pub unix_s: u64,
    /// Domains of search lists.
    pub domains: Domains,
    /// Whether a name, folded and in wire form, is refused because the Corefile says so.
    pub is_stopped: &'s dyn Fn(&[u8]) -> bool,
    /// Whose an address is.
    pub place_of: &'s dyn Fn(IpAddr) -> Option<Place>,
}

impl Collector {
    /// For the workers of `shared`, whose `seeing` is open.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, spare: None, ledger: Ledger::default() }
    }

    /// Takes up what was counted in the last `seconds`.
    pub fn collect(&mut self, seconds: f64) {
        let (panes, spare) = (self.shared.seeing.panes(), &mut self.spare);
        let workers = panes.len();
        self.ledger.take_up(seconds, |see| {
            for pane in panes {
                let empty = spare.take().unwrap_or_else(|| Sketch::for_workers(workers).into());
                see(spare.insert(pane.take(empty)));
            }
        });
    }

    /// What there is to see now.
    pub fn report(&self, around: &Surroundings<'_>) -> Report {
        let ledger = &self.ledger;
        let (stopped, rows): (Vec<_>, Vec<_>) =
            leaks::rows(ledger).into_iter().partition(|row| (around.is_stopped)(row.qname()));
        let mut report = Report {
            format: FORMAT,
            unix_s: around.unix_s,
            counted_s: ledger.seconds as u64,
            host: around.host.clone(),
            now: Moment::default(),
            history: ledger.history.iter().copied().collect(),
            rcodes: rcodes(ledger),
            latency: latency(ledger),
            leaks: leaks::leaks(&rows, &around.domains, ledger),
            stopped: leaks::leaks(&stopped, &around.domains, ledger),
            clients: clients(ledger),
            names: names(ledger, ledger.names.by(|sums| sums.questions)),
            slow: names(ledger, ledger.slow.by(|sums| sums.wait_us)),
        };
        report.now = report.history.last().copied().unwrap_or_default();
        report.located(around.place_of)
    }
}

impl Report {
    /// Every address in it.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let leaks = self.leaks.iter().chain(&self.stopped).flat_map(|leak| &leak.sources);
        let clients = self.clients.iter().map(|client| &client.source);
        leaks.chain(clients).map(|source| source.address)
    }

    /// The same with what is known of addresses now.
    pub fn located(mut self, place_of: &dyn Fn(IpAddr) -> Option<Place>) -> Self {
        let sources = |leaks: &mut Vec<Leak>| {
            for source in leaks.iter_mut().flat_map(|leak| &mut leak.sources) {
                source.place = place_of(source.address);
            }
        };
        sources(&mut self.leaks);
        sources(&mut self.stopped);
        for client in &mut self.clients {
            client.source.place = place_of(client.source.address);
        }
        self
    }
}

fn rcodes(ledger: &Ledger) -> Vec<RcodeShare> {
    let share = |(code, sum): (usize, &f64)| RcodeShare {
        rcode: match code {
            RCODES => "others".to_owned(),
            code => Rcode(code as u16).to_string(),
        },
        rate: ledger.rate(*sum),
    };
    let mut shares: Vec<_> = ledger.rcodes.iter().enumerate().map(share).collect();
    shares.retain(|share| share.rate > 0.005);
    shares.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    shares
}

/// From the first bucket with something in it to the last.
fn latency(ledger: &Ledger) -> Vec<Bucket> {
    let bucket = |index: usize| {
        let sum = ledger.latencies.get(index).copied().unwrap_or_default();
        Bucket { below_us: 1 << index, rate: ledger.rate(sum) }
    };
    let all: Vec<_> = (0..LATENCIES).map(bucket).collect();
    let filled = |bucket: &Bucket| bucket.rate > 0.005;
    let first = all.iter().position(filled).unwrap_or(LATENCIES);
    let last = all.iter().rposition(filled).map_or(first, |last| last + 1);
    all.get(first..last).unwrap_or_default().to_vec()
}

fn clients(ledger: &Ledger) -> Vec<Client> {
    let client = |(key, sums): (&[u8], &Sums)| {
        let address = <[u8; 16]>::try_from(key).ok()?;
        let address = IpAddr::from(address).to_canonical();
        let rate = ledger.rate(sums.questions);
        Some(Client {
            source: Source { address, place: None, rate },
            upstream: ledger.rate(sums.waited),
            denied: ledger.rate(sums.denied),
            failed: ledger.rate(sums.failed),
        })
    };
    let all = ledger.clients.by(|sums| sums.questions);
    all.into_iter().filter_map(client).take(ROWS_SHOWN).collect()
}

fn names(ledger: &Ledger, keys: Vec<(&[u8], &Sums)>) -> Vec<Name> {
    let name = |(key, sums): (&[u8], &Sums)| Name {
        name: text(key),
        rate: ledger.rate(sums.questions),
        upstream: ledger.rate(sums.waited),
        denied: ledger.rate(sums.denied),
        failed: ledger.rate(sums.failed),
        wait_ms: sums.wait_us / sums.waited.max(1e-9) / 1e3,
        wait_max_ms: sums.longest_us() / 1e3,
    };
    keys.into_iter().map(name).take(ROWS_SHOWN).collect()
}
