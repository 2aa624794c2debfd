//! `nodens-lab zones`: master files and a Corefile out of what authoritative servers answered.

mod told;

use crate::tapped::{RoleName, roles};
use crate::term;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use lab_workload::capture;
use lab_workload::dnstap::Role;
use lab_zones::output::{self, Apart};
use lab_zones::report::Report;
use lab_zones::{Rebuilt, Rule, Trace};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Broken packets that are named.
const FAULTS_SHOWN: usize = 10;

/// Arguments of `zones`.
#[derive(clap::Args)]
#[command(after_help = "\
The folder gets a master file for each zone, a Corefile with which one Nodens serves all of them by the \
address that was asked, the root hints for a resolver, the commands that give a network namespace all \
addresses, and the report as JSON.")]
pub(crate) struct Args {
    /// Captures (pcap, pcapng or dnstap) of what a resolver asks; - is standard input.
    #[arg(required = true)]
    captures: Vec<PathBuf>,
    /// Folder to write, which must not exist or be empty.
    #[arg(short = 'o', long = "out", value_name = "FOLDER")]
    folder: PathBuf,
    /// Take only what servers answered this address, the resolver's; may be repeated [default: all].
    #[arg(long, value_name = "ADDRESS")]
    resolver: Vec<IpAddr>,
    /// Which of several versions of the same records is taken.
    #[arg(long, value_enum, default_value = "most-common")]
    conflicts: RuleName,
    /// How the Corefile tells addresses apart: by views on one socket, or by a socket for each, which CoreDNS needs.
    #[arg(long, value_enum, default_value = "view")]
    apart: ApartName,
    /// Port of the servers in the Corefile.
    #[arg(long, value_name = "PORT", default_value_t = 53, value_parser = crate::server::port)]
    port: u16,
    /// Port of the servers in a capture of packets.
    #[arg(long, value_name = "PORT", default_value_t = 53, value_parser = crate::server::port)]
    capture_port: u16,
    /// Between whom messages of dnstap are taken [default: resolver,auth].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLES")]
    dnstap_role: Vec<RoleName>,
    /// Exit with 5 if the zones give a smaller part of the recorded answers, as 99%.
    #[arg(long, value_name = "PART", value_parser = lab_units::part)]
    require_same: Option<f64>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuleName {
    MostCommon,
    First,
    Last,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApartName {
    View,
    Bind,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    check_folder(&args.folder)?;
    let mut trace = Trace::new(&args.resolver);
    for path in &args.captures {
        read(path, args, stop, &mut trace)?;
    }
    let rule = match args.conflicts {
        RuleName::MostCommon => Rule::MostCommon,
        RuleName::First => Rule::First,
        RuleName::Last => Rule::Last,
    };
    let rebuilt = lab_zones::rebuild(&trace, rule);
    if rebuilt.distinct == 0 {
        bail!("{}", nothing(&rebuilt));
    }
    let report = serde_json::to_string_pretty(&Report::of(&rebuilt))? + "\n";
    write(args, &rebuilt, &report)?;
    let text = if args.json { report } else { told::text(&rebuilt, &args.folder) };
    term::all(&text).context("cannot write to standard output")?;
    let (same, all) = (rebuilt.check.same as f64, rebuilt.check.questions as f64);
    let is_met = args.require_same.is_none_or(|part| same >= part * all);
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::from(crate::EXIT_REQUIREMENT) })
}

/// Why there is nothing to rebuild.
fn nothing(rebuilt: &Rebuilt) -> String {
    let mut text = "no response of an authoritative server".to_owned();
    if rebuilt.responses > 0 {
        let parts = told::left_out(rebuilt);
        text += &format!(
            " among {}: {}",
            term::of(rebuilt.responses as usize, "response"),
            parts.join(", ")
        );
    }
    if rebuilt.others > 0 {
        text += &format!(
            "; {} to other addresses than --resolver",
            term::of(rebuilt.others as usize, "response")
        );
    }
    text + "; expected a capture of what a resolver asks"
}

fn check_folder(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).map(|mut entries| entries.next()) {
        Ok(Some(_)) => {
            bail!("{} is not empty, expected a new or an empty folder", folder.display())
        }
        Ok(None) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.display())),
    }
}

fn read(path: &Path, args: &Args, stop: &AtomicBool, trace: &mut Trace) -> Result<()> {
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Box::new(BufReader::new(file))
    };
    let roles = match &*args.dnstap_role {
        [] => vec![Role::Resolver, Role::Auth],
        names => roles(names),
    };
    let messages = capture::open(input, args.capture_port, &roles);
    let mut faults = 0;
    for item in messages.with_context(|| path.display().to_string())? {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        match item {
            Ok(record) => trace.push(&record)?,
            Err(broken) => {
                faults += 1;
                if faults <= FAULTS_SHOWN {
                    term::note(&format!("{}: {broken}, left out", path.display()));
                }
            }
        }
    }
    if faults > FAULTS_SHOWN {
        let more = term::count((faults - FAULTS_SHOWN) as u64);
        term::note(&format!("{}: {more} more left out", path.display()));
    }
    Ok(())
}

fn write(args: &Args, rebuilt: &Rebuilt, report: &str) -> Result<()> {
    let apart = match args.apart {
        ApartName::View => Apart::View,
        ApartName::Bind => Apart::Bind,
    };
    let mut files = output::files(&rebuilt.zones, apart, args.port);
    files.push(("report.json".to_owned(), report.to_owned()));
    let zones = args.folder.join("zones");
    fs::create_dir_all(&zones).with_context(|| format!("cannot create {}", zones.display()))?;
    for (name, text) in files {
        let path = args.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
