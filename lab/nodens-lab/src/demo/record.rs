//! The queries of the demonstration as a capture, to be sent again.

use super::Take;
use crate::term;
use anyhow::{Context, Result};
use lab_load::{Config, Plan, Workload};
use lab_workload::dnstap::{Role, Tapped, Transport, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::SystemTime;

/// The network of the pods: more addresses than there may be pods.
const PODS: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 0);
/// The port that each pod asks from.
const PORT: u16 = 40_000;

/// Writes the queries with the cache, and says where and what to do with them.
pub(super) fn keep(path: &Path, file: File, take: &Take) -> Result<()> {
    let (phase, workload) = (&take.after, &take.mix.workload);
    let count = write(path, file, &phase.config, workload, phase.outcome.started)?;
    let name = path.display().to_string();
    let queries = if count == 1 { "query" } else { "queries" };
    term::out(&format!("\n  {name} has {} {queries}, each at its time.", term::count(count)));
    let missing = count.saturating_sub(phase.outcome.tally.counts.sent);
    if missing > 0 {
        let missing = term::count(missing);
        term::out(&format!("  {missing} of them were not sent: the machine was too busy."));
    }
    let lab = std::env::args().next().unwrap_or_else(|| "nodens-lab".to_owned());
    term::out(&format!("    {lab} replay {} -s SERVER", term::shell_word(&name)));
    Ok(())
}

/// Writes every query of a run that began at `started` as dnstap, at the time for which it was planned, each
/// pod with an address of its own; returns their number.
fn write(
    path: &Path,
    file: File,
    config: &Config,
    workload: &Workload,
    started: SystemTime,
) -> Result<u64> {
    let told = || format!("cannot write {}", path.display());
    let began = started.duration_since(SystemTime::UNIX_EPOCH).context("the clock is wrong")?;
    let began = u64::try_from(began.as_nanos()).context("the clock is wrong")?;
    let mut writer = Writer::start(BufWriter::new(file)).with_context(told)?;
    let mut count = 0;
    for planned in Plan::of(config, workload).into_iter().flatten() {
        let mut query = Vec::new();
        // What is in flight on a socket at a time are far fewer queries than there are IDs.
        workload.append(planned.item, planned.item as u16, &mut query);
        let tapped = Tapped {
            role: Role::Client,
            is_response: false,
            transport: Some(Transport::Udp),
            asker: (Some(pod(planned.client)), Some(PORT)),
            asked: (Some(config.server.ip()), Some(config.server.port())),
            query_time: Some(began + planned.intended),
            response_time: None,
            query: Some(query),
            response: None,
        };
        writer.message(&tapped).with_context(told)?;
        count += 1;
    }
    writer.stop().with_context(told)?;
    Ok(count)
}

/// The address of a pod; neither the first nor the last of a network of 256.
fn pod(number: usize) -> IpAddr {
    let host = (number / 254 * 256 + number % 254 + 1) as u32;
    IpAddr::V4(Ipv4Addr::from(u32::from(PODS) | (host & 0xffff)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Authority, Data};
    use lab_load::cluster::{self, Cluster};
    use lab_load::schedule::Arrivals;
    use lab_load::{Pace, Spin};
    use lab_workload::capture;
    use lab_workload::recorded::Content;
    use std::collections::{HashMap, HashSet};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn the_capture_has_what_was_sent_when_and_by_whom() {
        let delay = Duration::ZERO..Duration::from_nanos(1);
        let server = Authority::start(Data::Cluster(Cluster::default()), delay, &[]).unwrap();
        let (pods, rate) = (12, 400.0);
        let mix = cluster::mix(&Cluster::default(), pods, 200, 1);
        let config = Config {
            pace: Pace::Open { rate, arrivals: Arrivals::Poisson },
            duration: Duration::from_secs(60),
            queries: mix.workload.period(),
            clients: pods,
            spin: Spin::Never,
            timeout: Duration::from_secs(30),
            ..Config::new(server.address, rate)
        };
        let outcome =
            lab_load::run(&config, &mix.workload, &AtomicBool::new(false), |_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.fstrm");
        let file = File::create(&path).unwrap();
        let count = write(&path, file, &config, &mix.workload, outcome.started).unwrap();
        assert_eq!(count, outcome.tally.counts.sent);
        let roles = [Role::Client];
        let records = capture::open(File::open(&path).unwrap(), 53, &roles).unwrap();
        let records: Vec<_> = records.map(Result::unwrap).collect();
        assert_eq!(records.len() as u64, count);
        assert!(records.is_sorted_by_key(|record| record.time));
        // The authority has counted what it was asked: the same questions, as often.
        let mut asked: HashMap<_, u64> = HashMap::new();
        for record in &records {
            let Content::Query(octets) = &record.content else { panic!("{record:?}") };
            let message = nodens_wire::Message::parse(octets).unwrap();
            let question = &message.questions[0];
            *asked.entry((question.qname.to_folded(), question.qtype)).or_default() += 1;
        }
        assert_eq!(asked, server.take_asked());
        assert_eq!(records.iter().map(|record| record.client).collect::<HashSet<_>>().len(), pods);
        // The span is that of the run: its last query was sent at its time, or later.
        let span = records.last().unwrap().time - records[0].time;
        let sent = outcome.tally.span.unwrap().sent;
        assert!(span > 0 && span <= sent.1, "{span} {sent:?}");
    }

    #[test]
    fn pods_have_addresses_of_their_own() {
        let all: HashSet<_> = (0..11_000).map(pod).collect();
        assert_eq!(all.len(), 11_000);
        assert_eq!((pod(0), pod(254)), ([10, 244, 0, 1].into(), [10, 244, 1, 1].into()));
    }
}
