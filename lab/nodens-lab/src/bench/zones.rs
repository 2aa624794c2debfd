//! The zones of the rows for authoritative servers, and the queries about them.

use super::cells::Arrangement;
use crate::child::{Scratch, in_path};
use anyhow::{Context, Result, bail};
use lab_load::Workload;
use lab_random::{Stream, Zipf};
use lab_workload::edns::Edns;
use nodens_wire::{Name, Type};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of the large zone, with an address each.
const LARGE: usize = 100_000;
/// Names of the zone that is signed, with an address each.
const SIGNED: usize = 10_000;
/// Zones that the root zone delegates.
const DELEGATIONS: usize = 1_450;
/// Different queries for the root zone, drawn once and asked in turn.
const ROOT_QUERIES: usize = 50_000;
/// Part of the queries for the root that ask for something that does not exist.
const DENIED: f64 = 0.4;
/// Part of the queries for the root that ask for its own records.
const APEX: f64 = 0.02;
/// Part of the queries for the root with EDNS and DO.
const DNSSEC_OK: f64 = 0.85;
/// How much more often the first zones are asked for than the last.
const POPULARITY: f64 = 1.0;
/// Draws before the order of names repeats.
const ORDER_LEN: usize = 1 << 18;
/// Purpose of the random numbers.
const STREAM: u64 = 0x7a6f_6e65;
/// The origin of the two zones below the root.
const ORIGIN: &str = "bench.example.";

/// A zone that a server is to serve.
#[derive(Clone)]
pub(super) struct ZoneFile {
    /// The name, with its final dot.
    pub(super) origin: &'static str,
    pub(super) path: PathBuf,
    /// Whether it has signatures.
    pub(super) signed: bool,
    /// How long the responses of Nodens are on average; 0 while that is not known.
    pub(super) octets: u64,
}

/// A zone and the queries about it.
pub(super) struct Zone {
    pub(super) file: ZoneFile,
    pub(super) queries: Workload,
    /// RCODEs that the answers may have.
    pub(super) rcodes: &'static [u16],
}

/// The zones of the arrangements that are wanted.
pub(super) struct Zones {
    zones: HashMap<Arrangement, Zone>,
    /// Why there are no signatures, for the report.
    pub(super) unsigned: Option<String>,
}

impl Zones {
    pub(super) fn prepare(
        scratch: &Scratch,
        seed: u64,
        is_wanted: impl Fn(Arrangement) -> bool,
    ) -> Result<Self> {
        let mut zones = Self { zones: HashMap::new(), unsigned: None };
        let wanted = |arrangement: &Arrangement| arrangement.has_zone() && is_wanted(*arrangement);
        for arrangement in Arrangement::ALL.into_iter().filter(wanted) {
            let folder = scratch.folder(&format!("zone-{arrangement:?}"))?;
            if let Some(zone) = zones.make(arrangement, seed, &folder)? {
                zones.zones.insert(arrangement, zone);
            }
        }
        Ok(zones)
    }

    /// The zone of an arrangement, if it has one.
    pub(super) fn of(&self, arrangement: Arrangement) -> Option<&Zone> {
        self.zones.get(&arrangement)
    }

    /// Notes how long the responses of Nodens are.
    pub(super) fn set_octets(&mut self, of: Arrangement, octets: u64) {
        self.zones.get_mut(&of).into_iter().for_each(|zone| zone.file.octets = octets);
    }

    fn make(&mut self, of: Arrangement, seed: u64, folder: &Path) -> Result<Option<Zone>> {
        let (origin, text, algorithm) = match of {
            Arrangement::LargeZone => (ORIGIN, addresses(LARGE), None),
            Arrangement::SignedZone => (ORIGIN, addresses(SIGNED), Some("ECDSAP256SHA256")),
            _ => (".", root(), Some("RSASHA256")),
        };
        let mut path = folder.join("zone");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let mut signed = false;
        if let Some(algorithm) = algorithm {
            if in_path("dnssec-signzone").is_some() {
                path = sign(folder, origin, algorithm)?;
                signed = true;
            } else {
                self.unsigned = Some("get it with `cargo xtask peers bind9-utils`".to_owned());
            }
        }
        let (queries, rcodes): (_, &[u16]) = match of {
            Arrangement::RootZone => (root_queries(seed)?, &[0, 3]),
            Arrangement::SignedZone if !signed => return Ok(None),
            Arrangement::SignedZone => (hits(seed, SIGNED, Some(&Edns::new(1232, true)))?, &[0]),
            _ => (hits(seed, LARGE, None)?, &[0]),
        };
        Ok(Some(Zone { file: ZoneFile { origin, path, signed, octets: 0 }, queries, rcodes }))
    }
}

/// The name of address `n` below [`ORIGIN`].
fn label(n: usize) -> String {
    format!("n{n:06}")
}

/// A zone with `count` names.
fn addresses(count: usize) -> String {
    let mut text = "$TTL 3600\n@ SOA ns.bench.example. admin.bench.example. 1 3600 600 86400 300\n\
        @ NS ns.bench.example.\nns A 192.0.2.1\nready A 192.0.2.2\n"
        .to_owned();
    text.insert_str(0, &format!("$ORIGIN {ORIGIN}\n"));
    for n in 0..count {
        _ = writeln!(text, "{} A 192.0.2.{}", label(n), n % 250 + 1);
    }
    text
}

/// Names of such a zone, each as likely as the others.
fn hits(seed: u64, count: usize, edns: Option<&Edns>) -> Result<Workload> {
    let mut workload = Workload::new(seed);
    for n in 0..count {
        let name = Name::parse(&format!("{}.{ORIGIN}", label(n)))?;
        workload.push(name.view(), Type::A, edns.cloned());
    }
    workload.shuffle(ORDER_LEN);
    Ok(workload)
}

/// The zone that number `n` of the root zone's delegations leads to, the most popular first.
fn delegated(n: usize) -> String {
    const FIRST: [&str; 12] =
        ["com", "net", "org", "arpa", "example", "de", "io", "cn", "uk", "ru", "br", "info"];
    FIRST
        .get(n)
        .map_or_else(|| format!("{}{n:x}", ["t", "zone", "xn--zone"][n % 3]), |it| (*it).to_owned())
}

/// A zone like the root: its servers, and delegations with the addresses of their servers and, as in
/// the root, mostly one DS record.
fn root() -> String {
    let mut text = "$ORIGIN .\n$TTL 86400\n\
        . SOA a.root-servers.net. nstld.example. 2026010100 1800 900 604800 86400\n"
        .to_owned();
    for server in 'a'..='m' {
        _ = writeln!(text, ". 518400 NS {server}.root-servers.net.");
        host(&mut text, &format!("{server}.root-servers.net."), server as usize);
    }
    for n in 0..DELEGATIONS {
        let zone = delegated(n);
        // Some have all the servers there may be, most have four to six; one in three names them
        // below itself.
        let servers = if n < 3 || n % 50 == 0 { 13 } else { 4 + n % 3 };
        for server in 0..servers {
            let letter = char::from(b'a' + server as u8);
            let provider = n % 40;
            let name = match n % 3 {
                0 => format!("{letter}.nic.{zone}."),
                1 => format!("{letter}.ns-{provider}.example."),
                _ => format!("{letter}{provider}.servers.net."),
            };
            _ = writeln!(text, "{zone}. 172800 NS {name}");
            if n.is_multiple_of(3) || n <= 3 * 40 {
                host(&mut text, &name, n * 13 + server);
            }
        }
        if !n.is_multiple_of(10) {
            _ = writeln!(text, "{zone}. DS {} 8 2 {n:064x}", n + 1);
        }
    }
    text
}

/// Addresses of a server of a zone.
fn host(text: &mut String, name: &str, n: usize) {
    _ = writeln!(text, "{name} 172800 A 198.51.{}.{}", n / 250 % 250, n % 250 + 1);
    _ = writeln!(text, "{name} 172800 AAAA 2001:db8:{n:x}::53");
}

/// What resolvers ask the root: mostly names in zones that it delegates, the popular ones more often;
/// many names that end with a label that does not exist; now and then its own records.
fn root_queries(seed: u64) -> Result<Workload> {
    let mut stream = Stream::new(seed, STREAM);
    let popularity = Zipf::new(DELEGATIONS, POPULARITY);
    let mut workload = Workload::new(seed);
    for _ in 0..ROOT_QUERIES {
        let kind = stream.unit();
        let (name, qtype) = if kind < DENIED {
            let (host, wrong) = (stream.below(1 << 20), stream.below(1 << 30));
            let name = if stream.unit() < 0.5 {
                format!("w{wrong:x}.")
            } else {
                format!("host-{host:x}.w{:x}.", wrong % 512)
            };
            (name, Type::A)
        } else if kind < DENIED + APEX {
            let types = [Type::NS, Type::SOA, Type::DNSKEY];
            (".".to_owned(), types[stream.below(types.len())])
        } else {
            let zone = delegated(popularity.draw(&mut stream));
            match stream.unit() {
                // Resolvers that minimise names ask for the zone itself (RFC 9156).
                kind if kind < 0.3 => (format!("{zone}."), Type::NS),
                kind if kind < 0.35 => (format!("{zone}."), Type::DS),
                kind => {
                    let name = format!("www.site-{:x}.{zone}.", stream.below(1 << 16));
                    (name, if kind < 0.8 { Type::A } else { Type::AAAA })
                }
            }
        };
        let edns = (stream.unit() < DNSSEC_OK).then(|| Edns::new(1232, true));
        workload.push(Name::parse(&name)?.view(), qtype, edns);
    }
    Ok(workload)
}

/// Signs the zone in `folder` with new keys, one for keys and one for records.
fn sign(folder: &Path, origin: &str, algorithm: &str) -> Result<PathBuf> {
    let path = folder.join("zone.signed");
    let keygen = |more: &[&str]| {
        let mut command = Command::new("dnssec-keygen");
        command.args(["-q", "-a", algorithm, "-K", "."]).args(more).arg(origin);
        run(command.current_dir(folder))
    };
    let rsa: &[&str] = if algorithm.starts_with("RSA") { &["-b", "2048"] } else { &[] };
    keygen(&[rsa, &["-f", "KSK"]].concat())?;
    keygen(rsa)?;
    let mut command = Command::new("dnssec-signzone");
    command.args(["-S", "-x", "-P", "-K", ".", "-d", ".", "-O", "full", "-o", origin]);
    run(command.args(["-f", "zone.signed", "zone"]).current_dir(folder))?;
    Ok(path)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_what_is_asked_for_and_the_root_delegates_each_name_once() {
        let zone = addresses(3);
        assert!(zone.contains("\nn000002 A ") && !zone.contains("n000003"), "{zone}");
        let names: std::collections::HashSet<String> = (0..DELEGATIONS).map(delegated).collect();
        assert_eq!(names.len(), DELEGATIONS);
        assert!(names.contains("example"), "every server is asked for a name there at first");
        let root = root();
        assert!(
            root.contains("\na.nic.com. 172800 A ") && root.contains("\ncom. 172800 NS m.nic.")
        );
        let queries = root_queries(1).unwrap();
        let denied = (0..1_000).filter(|n| is_denied(&queries, *n)).count();
        assert!((350..450).contains(&denied), "{denied}");
    }

    fn is_denied(queries: &Workload, n: u64) -> bool {
        let mut message = Vec::new();
        queries.append(n, 1, &mut message);
        let message = nodens_wire::Message::parse(&message).unwrap();
        let name = message.questions[0].qname.to_string();
        name.rsplit('.').nth(1).is_some_and(|label| label.starts_with('w'))
    }
}
