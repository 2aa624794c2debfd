//! One zone of very many records in a master file: how long it takes to be served, and the memory.

use super::probe::{PAUSE, Probe, stopped};
use super::servers::{Peer, Role, Setup};
use super::sheet::{Part, Sheet, Unit};
use super::zones::{master_file, name_of_large};
use super::{Lab, Progress, experiment};
use crate::child::free_address;
use crate::term;
use anyhow::{Result, bail};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Until what was needed for loading alone is given back.
const REST: Duration = Duration::from_secs(2);

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("load", "until served", Unit::Seconds),
        ("load_cpu", "CPU", Unit::Seconds),
        ("memory", "memory", Unit::Octets),
        ("each", "octets a record", Unit::Octets),
        ("peak", "peak", Unit::Octets),
    ];
    let records = lab.args.records;
    let title = format!("A zone of {} records from a master file", term::count(records.into()));
    let mut sheet = Sheet::new("memory-million", title, &columns);
    let (small, large) = (file(lab, 1)?, file(lab, records)?);
    let one = |lab: &Lab<'_>, peer: &Peer, part: &mut Part| {
        let progress = Progress::new(peer.name);
        part.notes.push(format!("{}: {}", peer.name, peer.version));
        // What the server takes without the records.
        let none = measured(lab, peer, &small, 1, &progress)?;
        let all = measured(lab, peer, &large, records, &progress)?;
        part.values = values(&none, &all, records);
        Ok(())
    };
    experiment::run(lab, lab.peers.iter().collect(), &mut sheet, one)?;
    sheet.notes.push("memory is the proportional set size of all processes two seconds after the first answer; octets a record are what is more than with a zone of one record".to_owned());
    Ok(sheet)
}

fn values(none: &Loaded, all: &Loaded, records: u32) -> Vec<Option<f64>> {
    let memory = |of: &Loaded| of.memory.map(|octets| octets as f64);
    let each = memory(all).zip(memory(none)).map(|(all, none)| (all - none) / f64::from(records));
    let (took, cpu) = (all.took.as_secs_f64(), all.cpu.as_secs_f64());
    let peak = all.peak.map(|octets| octets as f64);
    vec![Some(took), Some(cpu), memory(all), each, peak]
}

/// The master file of a zone of so many addresses.
pub(super) fn file(lab: &Lab<'_>, records: u32) -> Result<PathBuf> {
    let path = lab.scratch.path().join(format!("large-{records}.zone"));
    write(&path, records, 1)?;
    Ok(path)
}

/// Puts that version of the zone into the place of another, at once.
pub(super) fn write(path: &Path, records: u32, serial: u32) -> Result<()> {
    let new = path.with_extension("new");
    let mut out = BufWriter::new(std::fs::File::create(&new)?);
    master_file(records, serial, &mut out)?;
    out.flush()?;
    drop(out);
    Ok(std::fs::rename(&new, path)?)
}

struct Loaded {
    took: Duration,
    cpu: Duration,
    memory: Option<u64>,
    peak: Option<u64>,
}

fn measured(
    lab: &Lab<'_>,
    peer: &Peer,
    file: &Path,
    records: u32,
    progress: &Progress,
) -> Result<Loaded> {
    let setup = Setup {
        role: Role::File,
        address: free_address()?,
        primary: free_address()?,
        folder: lab.scratch.folder(&format!("file-{}", peer.name))?,
        threads: lab.cpus.subject.len(),
        members: 0,
        file: file.to_owned(),
        secondaries: Vec::new(),
    };
    let mut probe = Probe::new(setup.address)?;
    let last = name_of_large(records - 1)?;
    let begin = Instant::now();
    let mut server = peer.start(&setup, &lab.cpus.subject)?;
    while !probe.has(&last, |_| true) {
        stopped(lab.stop)?;
        server.check()?;
        progress.show(&format!("{records} records, {:.1} s", begin.elapsed().as_secs_f64()));
        if begin.elapsed() > lab.patience() {
            bail!("the zone was not served within {:.0} s", begin.elapsed().as_secs_f64());
        }
        std::thread::sleep(PAUSE);
    }
    let (took, cpu) = (begin.elapsed(), server.account()?.ran);
    std::thread::sleep(REST);
    let (memory, peak) = (server.proportional(), server.peak());
    drop(server);
    _ = std::fs::remove_dir_all(&setup.folder);
    Ok(Loaded { took, cpu, memory, peak })
}
