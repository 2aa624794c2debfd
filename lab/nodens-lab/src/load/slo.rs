//! `nodens-lab load --slo`: the highest rate at which a server meets an objective.

mod words;

use super::Args;
use super::output::Places;
use super::questions::Questions;
use crate::export::Kept;
use crate::probing;
use crate::term::{self, Live};
use anyhow::{Context, Result, bail};
use lab_experiment::limit::{Bounds, CONFIDENCE, Found, Said, Search};
use lab_load::objective::Objective;
use lab_load::run::clients_needed;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace, Workload};
use lab_result::About;
use lab_result::search::{self, Probe, SearchFile};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the search starts, unless the bounds forbid it.
const START: f64 = 1_000.0;

/// Arguments of the search.
#[derive(clap::Args)]
#[command(next_help_heading = "Search for the highest rate")]
pub(crate) struct SloArgs {
    /// Search for the highest rate that meets this objective: p99.9=5ms,loss=0 (also p50, max, …).
    #[arg(long, value_name = "LIMITS", conflicts_with_all = ["rate", "require", "server_counters", "steps", "ramp", "closed_loop", "queries", "duration", "original_timing"])]
    pub(super) slo: Option<Objective>,
    /// End after this many probes, even if the interval is not as narrow as --slo-precision says.
    #[arg(long, value_name = "N", default_value_t = 60, requires = "slo")]
    slo_probes: usize,
    /// How long each probe sends.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = lab_units::nanos, requires = "slo")]
    slo_probe: u64,
    /// The lowest rate to try.
    #[arg(long, value_name = "RATE", default_value = "100", value_parser = lab_units::rate, requires = "slo")]
    slo_floor: f64,
    /// The highest rate to try.
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = lab_units::rate, requires = "slo")]
    slo_ceiling: f64,
    /// How wide the interval that has the limit with 95 % probability may be.
    #[arg(long, value_name = "PART", default_value = "3%", value_parser = lab_units::part, requires = "slo")]
    slo_precision: f64,
}

/// What a search is done with.
struct Setting<'a> {
    args: &'a SloArgs,
    objective: &'a Objective,
    /// The load of each probe but for its rate, length and seed.
    config: &'a Config,
    /// Whether the number of clients may grow with the rate.
    grow: bool,
    questions: &'a Questions,
    /// As it is before its clients have places for a rate.
    workload: &'a Workload,
    stop: &'a AtomicBool,
}

impl SloArgs {
    /// What is searched for, and with what.
    pub(super) fn plan(&self, objective: &Objective, arrivals: Arrivals) -> String {
        let (low, high) = (term::rate(self.slo_floor), term::rate(self.slo_ceiling));
        let probe = term::nanos(self.slo_probe as f64);
        format!("{low}/s to {high}/s {arrivals} for {objective}, probes of {probe}")
    }

    fn bounds(&self) -> Result<Bounds> {
        let (floor, ceiling, precision) = (self.slo_floor, self.slo_ceiling, self.slo_precision);
        let sound = floor >= 1.0 && ceiling >= floor && ceiling.is_finite();
        let probes_max = self.slo_probes;
        if !sound || probes_max == 0 || self.slo_probe == 0 || precision < 0.005 {
            bail!(
                "expected --slo-floor of at least 1, --slo-ceiling not below it, --slo-probes and \
                 --slo-probe above 0, --slo-precision of at least 0.5%"
            );
        }
        Ok(Bounds { floor, ceiling, precision, probes_max })
    }
}

/// Searches for the highest rate, shows how, and keeps it.
pub(super) fn search(
    args: &Args,
    objective: &Objective,
    (config, workload): (&Config, &Workload),
    about: About,
    places: &Places,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    crate::export::only_tables("a search", args.output.formats())?;
    let setting = Setting {
        args: &args.slo,
        objective,
        config,
        grow: args.clients.is_none(),
        questions: &args.questions,
        workload,
        stop,
    };
    let file = SearchFile {
        kind: search::KIND.to_owned(),
        schema: search::SCHEMA,
        generator: about.generator,
        provenance: about.provenance,
        server: config.server.to_string(),
        transport: super::transports(config),
        arrivals: args.arrivals.to_string(),
        workload: about.workload,
        seed: config.seed,
        ..SearchFile::default()
    };
    let file = match run(&setting, file) {
        Err(error) if error.is::<NothingListens>() => {
            term::note(&format!("nodens-lab: {error}"));
            return Ok(ExitCode::from(crate::EXIT_NOTHING_LISTENS));
        }
        found => found?,
    };
    if args.output.json {
        term::out(search::to_json(&file).trim_end());
    } else {
        term::out(&words::text(&setting, &file));
    }
    places.write(Kept::Search(&file)).context("the table above has the results")?;
    Ok(exit(&file))
}

/// Searches; `file` comes with everything but the findings.
fn run(setting: &Setting<'_>, mut file: SearchFile) -> Result<SearchFile> {
    let bounds = setting.args.bounds()?;
    file.objective = setting.objective.to_string();
    file.probe_ns = setting.args.slo_probe;
    (file.floor, file.ceiling, file.precision) = (bounds.floor, bounds.ceiling, bounds.precision);
    let live = Live::new();
    let mut search = Search::new(bounds, START);
    while let Some(rate) = search.rate() {
        let done = file.probes.len();
        let text = format!("probe {}: {}/s", done + 1, term::rate(rate));
        live.show(done as f64, bounds.probes_max as f64, &text);
        let seed = setting.config.seed.wrapping_add(done as u64);
        let Some((said, probe)) = setting.probe(rate, seed)? else {
            file.interrupted = true;
            break;
        };
        probing::take(&mut search, said, probe, &mut file.probes);
        probing::pause(file.probes.last(), Duration::from_nanos(setting.args.slo_probe));
    }
    live.clear();
    if !file.interrupted {
        conclude(&search.found(), &mut file);
    }
    Ok(file)
}

/// Puts what was found into the file.
fn conclude(found: &Found, file: &mut SearchFile) {
    let rate = found.rate.unwrap_or(0.0);
    file.median = Some(rate);
    file.range = Some(found.interval.map_or((rate, rate), |it| (it.low, it.high)));
    file.confidence = found.interval.map(|_| CONFIDENCE);
    file.settled = Some(found.settled);
    file.limited_by = Some(probing::limited_by(found.why).to_owned());
    file.searches = vec![kept(found)];
}

impl Setting<'_> {
    /// One probe; `None` if it was interrupted.
    fn probe(&self, rate: f64, seed: u64) -> Result<Option<(Said, Probe)>> {
        let mut config = Config { seed, queries: None, ..self.config.clone() };
        config.duration = Duration::from_nanos(self.args.slo_probe);
        if let Pace::Open { rate: into, .. } = &mut config.pace {
            *into = rate;
        }
        if self.grow {
            let needed = clients_needed(config.peak_rate(), config.timeout);
            config.clients = config.clients.max(needed);
        }
        let mut workload = Cow::Borrowed(self.workload);
        let needed = self.questions.split_clients(&mut workload, &config);
        config.clients = if self.grow { needed } else { config.clients };
        let load = lab_load::run(&config, &workload, self.stop, |_| {});
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if load.as_ref().is_ok_and(Outcome::nothing_listens) {
            return Err(NothingListens(config.server).into());
        }
        probing::probe(self.objective, rate, load).map(Some)
    }
}

/// A search that found no server: its host said so.
#[derive(Debug)]
struct NothingListens(SocketAddr);

impl fmt::Display for NothingListens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing listens at {}: the search ends here", self.0)
    }
}

impl std::error::Error for NothingListens {}

fn kept(found: &Found) -> search::Found {
    let limited_by = probing::limited_by(found.why).to_owned();
    search::Found { highest: found.rate, above: found.above, limited_by }
}

/// 0 if the result is one of the server, 1 if it does not meet the objective at all, or that of an
/// invalid or interrupted run, as for a search without enough probes: what was done until then depends on when it was interrupted.
fn exit(file: &SearchFile) -> ExitCode {
    match (file.median, file.limited_by.as_deref()) {
        _ if file.interrupted => ExitCode::from(crate::EXIT_INTERRUPTED),
        (None, _) | (_, Some("generator" | "between" | "probes")) => {
            ExitCode::from(crate::EXIT_INVALID)
        }
        (Some(0.0), _) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}
