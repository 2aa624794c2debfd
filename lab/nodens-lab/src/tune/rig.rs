//! What is measured: a server that is started anew with every combination of settings, and its load.

use super::Args;
use super::network::{Inside, Tcp};
use crate::child::{Scratch, Server, free_address};
use crate::load::line::Load;
use crate::term::Live;
use anyhow::{Context, Result, bail};
use lab_experiment::Measured;
use lab_experiment::disturbance::{Machine, Signs};
use lab_histogram::Quantile;
use lab_knobs::{Choice, Keeper, Kind, Scope, Session, Side};
use lab_load::Outcome;
use lab_result::tuning::Values;
use lab_tune::{Stage, Tuned, metric};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The ports that servers get in turn in a namespace: no connection of the one before is in the way.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
/// What separates command and configuration while both are filled in together.
const BETWEEN: char = '\u{0}';

/// The settings, the server and the load.
pub(super) struct Rig<'a> {
    // In this order: back from the namespace before that is removed.
    inside: Option<Inside>,
    session: Session,
    choices: &'a [Choice],
    load: &'a Load,
    /// Command and configuration.
    template: String,
    measure: Duration,
    warm_up: Duration,
    stop: &'a AtomicBool,
    scratch: Scratch,
    server_cpus: Vec<usize>,
    cpus: Vec<usize>,
    started: usize,
    server: Option<(Server, SocketAddr)>,
    live: Live,
    begun: Option<(Stage, Instant)>,
}

/// Whether the server's command or configuration has a place for every setting of the server.
pub(super) fn check_places(args: &Args, choices: &[Choice]) -> Result<()> {
    let template = template(args)?;
    for choice in choices {
        if let Kind::Server { placeholder } = &choice.knob.kind {
            let hole = format!("{{{placeholder}}}");
            if !template.contains(&hole) {
                bail!("neither --server-cmd nor --config has {hole} for {}", choice.knob.name);
            }
        }
    }
    Ok(())
}

impl<'a> Rig<'a> {
    /// Saves the settings, and makes the namespaces if they are to be changed there.
    pub(super) fn begin(
        args: &Args,
        keeper: &Keeper,
        scope: Scope,
        (load, choices): (&'a Load, &'a [Choice]),
        (server_cpus, cpus): (Vec<usize>, Vec<usize>),
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        let knobs: Vec<&lab_knobs::Knob> = choices.iter().map(|choice| &*choice.knob).collect();
        let template = template(args)?;
        let session = Session::begin(keeper, scope, &knobs)?;
        for left in session.leftovers() {
            crate::term::note(&format!("note: {left}"));
        }
        let client = session.scope().namespace_name(Side::Client);
        let inside = client.map(|name| Inside::enter(&name)).transpose()?;
        Ok(Self {
            inside,
            session,
            choices,
            load,
            template,
            measure: Duration::from_nanos(args.measure),
            warm_up: Duration::from_nanos(args.warm_up),
            stop,
            scratch: Scratch::new()?,
            server_cpus,
            cpus,
            started: 0,
            server: None,
            live: Live::new(),
            begun: None,
        })
    }

    /// Where servers are, with the port of the first one.
    pub(super) fn address(&self) -> SocketAddr {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        (self.session.address(Side::Server).unwrap_or(host), PORTS.start).into()
    }

    /// Ends the server, restores all settings and removes the namespaces.
    pub(super) fn end(mut self) -> Result<()> {
        self.server = None;
        self.inside = None;
        self.live.clear();
        self.session.end().context("settings could not be restored")
    }

    /// The server with the settings as they are.
    fn start(&mut self) -> Result<()> {
        let address = if self.session.scope().is_namespace() {
            let port = PORTS.start + (self.started % PORTS.len()) as u16;
            SocketAddr::new(self.address().ip(), port)
        } else {
            free_address()?
        };
        self.started += 1;
        let filled = self.session.render(&self.template)?;
        let filled = filled.replace("{port}", &address.port().to_string());
        let (line, config) = filled.split_once(BETWEEN).unwrap_or((&filled, ""));
        let path = self.scratch.write("config", config)?;
        let line = line.replace("{config}", &path.to_string_lossy());
        let mut command = self.session.command(Side::Server, "sh");
        // `exec` makes the process of the shell that of the server; `ip netns exec` does so itself.
        command.arg("-c").arg(format!("exec {line}"));
        let log = self.scratch.path().join("server.log");
        let mut server = Server::start("the server", &mut command, &self.server_cpus, &log)?;
        let mut probe = Vec::new();
        self.load.workload.append(0, 0x4e6f, &mut probe);
        server.await_response(address, &probe, |_| true, self.stop)?;
        self.session.serving(server.pid())?;
        self.server = Some((server, address));
        Ok(())
    }

    fn run(&self, address: SocketAddr, length: Duration, seed: u64) -> Result<Outcome> {
        let mut config = self.load.on(address, length, seed);
        config.cpus.clone_from(&self.cpus);
        Ok(lab_load::run(&config, &self.load.workload, self.stop, |_| {})?)
    }
}

/// Command and configuration, with what separates them.
fn template(args: &Args) -> Result<String> {
    let command = args.server_cmd.as_deref().context("expected --server-cmd")?;
    let config = match &args.config {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?,
        None => String::new(),
    };
    Ok(format!("{command}{BETWEEN}{config}"))
}

/// What is read before and after a measurement.
struct Counted {
    machine: Machine,
    cpu: Duration,
    server: Tcp,
    client: Tcp,
}

impl Counted {
    fn read(server: &Server) -> Result<Self> {
        let folder = PathBuf::from(format!("/proc/{}", server.pid()));
        let own = Path::new("/proc/thread-self");
        Ok(Self {
            machine: Machine::read(),
            cpu: server.cpu()?,
            // Where both are in one namespace they have the same counters.
            client: if apart(&folder, own) { Tcp::read(own) } else { Tcp::default() },
            server: Tcp::read(&folder),
        })
    }
}

impl Tuned for Rig<'_> {
    type Error = anyhow::Error;

    fn set(&mut self, high: &[usize]) -> Result<()> {
        for (at, choice) in self.choices.iter().enumerate() {
            let value = if high.contains(&at) { &choice.high } else { &choice.low };
            self.session.set(&choice.knob, value)?;
        }
        let changed = high.iter().filter_map(|at| self.choices.get(*at));
        let changed = changed.map(|choice| format!("{}={}", choice.knob.name, choice.high));
        let changed: Vec<String> = changed.collect();
        let names = if changed.is_empty() { "the baseline".to_owned() } else { changed.join(", ") };
        match self.start() {
            // A start that was interrupted is no failure of the server: nothing is measured.
            Err(_) if self.stop.load(Ordering::Relaxed) => Ok(()),
            started => started.with_context(|| format!("with {names}")),
        }
    }

    fn measure(&mut self, seed: u64) -> Result<Option<Measured<Values>>> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (server, address) = self.server.as_ref().context("the server was not started")?;
        let address = *address;
        if !self.warm_up.is_zero() && self.run(address, self.warm_up, !seed)?.interrupted {
            return Ok(None);
        }
        let before = Counted::read(server)?;
        let outcome = self.run(address, self.measure, seed)?;
        if outcome.interrupted {
            return Ok(None);
        }
        let after = Counted::read(server)?;
        let value = values(&outcome, (&before, &after), self.load.is_closed());
        let stolen = before.machine.stolen_until(after.machine);
        // At such rates threads of the server wait for each other more than for anybody else, and the
        // scheduler's account does not tell the two apart: as in `ab`, nothing is made of it.
        let faults = Signs { stolen, robbed: 0.0, invalid: outcome.verdict.invalid }.faults();
        Ok(Some(Measured { value, faults }))
    }

    fn restore(&mut self) -> Result<()> {
        self.server = None;
        Ok(self.session.restore()?)
    }

    fn passed(&mut self, stage: Stage, done: usize, all: usize) {
        let begun = match self.begun {
            Some((same, begun)) if same == stage => begun,
            _ => self.begun.insert((stage, Instant::now())).1,
        };
        let each = begun.elapsed().as_secs_f64() / (done.saturating_sub(1) as f64).max(1.0);
        let left = each * all.saturating_sub(done) as f64;
        let text = format!("{}: {done} of {all}, {left:.0} s left", stage.name());
        // Without a terminal, a line for each of hundreds would bury the rest.
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) || done.is_multiple_of(50) {
            self.live.show(done as f64, all as f64, &text);
        }
    }
}

/// Whether two processes, by their folders under `/proc`, are in two network namespaces.
fn apart(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|process| std::fs::read_link(process.join("ns/net")).ok());
    one != other
}

/// A response time and the name that values have it under.
fn time(name: &str, quantile: Quantile) -> Option<(String, f64)> {
    match quantile {
        Quantile::Empty => None,
        Quantile::Value(nanos) => Some((name.to_owned(), nanos as f64)),
        // Of a quantile among lost queries it is known that it is at least the timeout.
        Quantile::AtLeast(nanos) => Some((metric::at_least(name), nanos as f64)),
    }
}

/// The metrics of a measurement.
fn values(outcome: &Outcome, (before, after): (&Counted, &Counted), closed: bool) -> Values {
    let (counts, connections) = (&outcome.tally.counts, &outcome.tally.connections);
    let mut values = Values::new();
    let mut put = |name: &str, value: f64| {
        values.insert(name.to_owned(), value);
    };
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some((name, nanos)) = time(name, outcome.tally.response.quantile(part)) {
            put(&name, nanos);
        }
    }
    if closed {
        put("qps", outcome.answer_rate());
    }
    if counts.sent > 0 {
        put("failures", counts.lost() as f64 / counts.sent as f64);
    }
    if counts.answered > 0 {
        let cpu = after.cpu.saturating_sub(before.cpu);
        put("cpu", cpu.as_nanos() as f64 / counts.answered as f64);
    }
    if connections.attempts > 0 {
        put("failed_connects", connections.failed() as f64 / connections.attempts as f64);
        let (server, client) =
            (after.server.since(before.server), after.client.since(before.client));
        let thousands = (counts.sent as f64 / 1_000.0).max(0.001);
        put("resets", server.resets as f64 / thousands);
        put("retransmits", (server.retransmits + client.retransmits) as f64 / thousands);
        put("overflows", server.drops as f64 / thousands);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_one_namespace_count_once() {
        let own = Path::new("/proc/thread-self");
        assert!(!apart(Path::new("/proc/self"), own));
        assert!(apart(Path::new("/proc/none"), own));
        let log = Scratch::new().unwrap();
        let mut command = std::process::Command::new("sleep");
        let path = log.path().join("log");
        let server = Server::start("sleep", command.arg("9"), &[], &path).unwrap();
        let counted = Counted::read(&server).unwrap();
        assert_eq!(counted.client, Tcp::default());
    }

    #[test]
    fn a_time_among_lost_queries_is_kept_as_a_bound() {
        let named = |name: &str| Some((name.to_owned(), 5.0));
        assert_eq!(time("p99", Quantile::Value(5)), named("p99"));
        assert_eq!(time("p99", Quantile::AtLeast(5)), named("p99_at_least"));
        assert_eq!(time("p99", Quantile::Empty), None);
    }
}
