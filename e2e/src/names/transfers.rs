//! The cluster's zone as both servers hand it on (AXFR), record by record.
//!
//! What `docs/differences.md` says of it (`transfer-as-answered`) is left out of the comparison: weights, the names of
//! the servers and the version, and SRV records at the name of a service itself.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nodens_judge::answer::{Difference, Outcome};
use nodens_judge::question::Question;
use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Message, Name, Record, Type};

use super::Pair;
use super::report::Report;

/// The zone.
const ZONE: &str = "cluster.local.";

/// How long a server may take for the next message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records shown of a difference.
const SHOWN: usize = 5;

/// What an AXFR gave.
struct Transfer {
    /// The first message.
    first: Vec<u8>,
    records: Vec<Record>,
}

/// Transfers the zone from both servers of a case, and compares; leaves one record out for `tampered`.
pub(super) fn compare(
    pair: &Pair,
    wave: &'static str,
    tampered: bool,
    report: &mut Report,
) -> Result<()> {
    let theirs = transfer(pair.coredns.address()).context("AXFR from CoreDNS")?;
    let ours = transfer(pair.nodens.address()).context("AXFR from Nodens")?;
    let (mut found, wanted) = (told(&ours.records), told(&theirs.records));
    ensure!(wanted.len() > 100, "CoreDNS transferred {} records only", wanted.len());
    if tampered {
        found.pop_first();
        report.tampered(1);
    }
    let part = |set: &BTreeSet<String>, other: &BTreeSet<String>| -> (usize, String) {
        let only: Vec<&str> = set.difference(other).map(String::as_str).collect();
        let shown = only.iter().take(SHOWN).copied().collect::<Vec<_>>().join("; ");
        (only.len(), shown)
    };
    let (missing, more) = (part(&wanted, &found), part(&found, &wanted));
    let mut differences = Vec::new();
    if missing.0 + more.0 > 0 {
        differences.push(Difference {
            field: "transfer",
            coredns: format!("{} of {} records alone: {}", missing.0, wanted.len(), missing.1),
            nodens: format!("{} of {} records alone: {}", more.0, found.len(), more.1),
        });
    }
    let asked = format!("TCP {ZONE} AXFR, {} records", wanted.len());
    let outcomes = [Outcome::read(&theirs.first), Outcome::read(&ours.first)];
    report.record(pair.case.name, wave, asked, differences, [&outcomes[0], &outcomes[1]]);
    Ok(())
}

fn transfer(server: SocketAddr) -> Result<Transfer> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let question = Question::new(Ipv4Addr::LOCALHOST.into(), ZONE, Type::AXFR.0).to_bytes(1);
    stream.write_all(&framed(&question))?;
    let mut all = Transfer { first: Vec::new(), records: Vec::new() };
    loop {
        let octets = read_message(&mut stream).context("the transfer ended early")?;
        let message = Message::parse(&octets).map_err(|error| anyhow::anyhow!("{error}"))?;
        if all.records.is_empty() {
            all.first = octets;
        }
        if message.answer.is_empty() {
            bail!("no records: {}", Outcome::read(&all.first));
        }
        all.records.extend(message.answer);
        // It begins and ends with the SOA record (RFC 5936, section 2.2).
        let is_soa = |record: Option<&Record>| record.is_some_and(|r| r.rtype == Type::SOA);
        ensure!(is_soa(all.records.first()), "it does not begin with the SOA record");
        if all.records.len() > 1 && is_soa(all.records.last()) {
            return Ok(all);
        }
    }
}

/// What is compared of each record.
fn told(records: &[Record]) -> BTreeSet<String> {
    let servers = records.iter().filter(|record| record.rtype == Type::NS);
    let servers: Vec<Name> = servers.filter_map(|ns| Name::from_wire(&ns.rdata).ok()).collect();
    let is_of_server = |record: &&Record| {
        [Type::A, Type::AAAA].contains(&record.rtype) && servers.contains(&record.owner)
    };
    records.iter().filter(|record| !is_of_server(record)).filter_map(line).collect()
}

fn line(record: &Record) -> Option<String> {
    let owner = record.owner.to_string().to_lowercase();
    if record.rtype == Type::SOA
        || owner.starts_with("ns.dns.")
        || owner.starts_with("dns-version.")
    {
        return None;
    }
    let mut rdata = record.rdata.clone();
    if record.rtype == Type::SRV {
        if !owner.starts_with('_') {
            return None;
        }
        rdata.get_mut(2..4)?.fill(0);
    }
    Some(format!("{owner} {} {} {}", record.ttl, record.rtype, rdata.escape_ascii()))
}
