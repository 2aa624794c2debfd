//! `nodens-e2e names`: a cluster's worth of objects, wave after wave of changes, and the same queries to both.
//!
//! Objects, changes and queries come from a seed. After each wave this waits until the API server, its controllers
//! and every name server have come to rest, and then asks; while a wave is under way it asks, too, and wants an answer.
//! What differs must match a line of `docs/differences.md`; anything else fails the run.

mod about;
mod corefiles;
mod during;
mod object;
mod population;
mod questions;
mod report;
mod settle;
mod tamper;
mod transfers;
mod waves;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args as Arguments;
use kube::Client;
use nodens_judge::answer::{Outcome, Tolerance, compare};
use nodens_judge::differences::Differences;

use self::about::About;
use self::corefiles::{CASES, Case};
use self::questions::Source;
use self::report::Report;
use self::settle::State;
use self::waves::{Plan, Stages, WAVES, markers};
use crate::api::apply;
use crate::ask::ask_all;
use crate::control_plane::{ControlPlane, Credential, Options, Store, reader_rules};
use crate::sandbox::Sandbox;
use crate::server::{Program, Server};

/// Serials are seconds of the last change, as each server saw it. CoreDNS does not count that namespaces come and go,
/// which may take minutes.
const TOLERANCE: Tolerance = Tolerance { serial: 300, truncated: true };

/// Seconds that the servers' token is valid.
const DAY: i64 = 86_400;

#[derive(Arguments)]
pub(crate) struct Args {
    /// Number that objects, changes and queries are made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Queries in all, each to both servers.
    #[arg(long, default_value_t = 12_000)]
    questions: usize,
    /// Services and ServiceImports at the start.
    #[arg(long, default_value_t = 2400)]
    services: usize,
    /// Namespaces at the start.
    #[arg(long, default_value_t = 240)]
    namespaces: usize,
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: Store,
    /// Only the Corefiles of these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The server to compare with CoreDNS; Nodens beside this program when not given.
    #[arg(long)]
    nodens: Option<PathBuf>,
    /// Change one answer in so many, to see that the comparison notices; the run must then find nine of ten, and no
    /// others.
    #[arg(long)]
    tamper: Option<usize>,
    /// Kinds of differences to show.
    #[arg(long, default_value_t = 30)]
    show: usize,
}

/// One Corefile and the two servers that run it.
pub(crate) struct Pair {
    case: &'static Case,
    coredns: Server,
    nodens: Server,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let started = Instant::now();
    let mut report = Report::new(differences()?, args.show);
    let plane =
        ControlPlane::start(sandbox, Options { store: args.store, ..Options::default() }).await?;
    let client = plane.admin().await?;
    let (mut plan, stages) = Plan::new(args.seed, args.services, args.namespaces);
    make(&client, stages).await.context("making the cluster")?;
    make(&client, markers(0)).await?;
    let mut state = settle::controllers(&client).await?;
    println!("{}; made in {:.0?}", describe(&state), started.elapsed());
    let upstream = upstream(sandbox).await?;
    let mut pairs = start(args, sandbox, &plane, &plan, &upstream).await?;
    println!("{} Corefiles run on both servers after {:.0?}", pairs.len(), started.elapsed());
    let rounds = (WAVES.len() + 1) * pairs.len();
    let each = args.questions.div_ceil(rounds);
    ask(args, &mut pairs, &state, &plan, &mut report, (0, "start", each)).await?;
    for (number, (name, wave)) in (1..).zip(WAVES) {
        let begun = Instant::now();
        let stages = wave(&mut plan);
        let changes: usize = stages.iter().map(Vec::len).sum();
        let watch = during::Watch::start(&pairs, &state)?;
        make(&client, stages).await.with_context(|| format!("wave {number}: {name}"))?;
        watch.stop(&mut report)?;
        make(&client, markers(number)).await?;
        state = settle::controllers(&client).await?;
        println!("wave {number}, {name}: {changes} changes in {:.0?}", begun.elapsed());
        ask(args, &mut pairs, &state, &plan, &mut report, (number, name, each)).await?;
    }
    for pair in &mut pairs {
        for server in [&mut pair.coredns, &mut pair.nodens] {
            if !server.process().runs() {
                report.broken(pair.case.name, &server.process().last_words());
            }
        }
    }
    report.print();
    println!("{}; names took {:.0?}", describe(&state), started.elapsed());
    Ok(if report.conclude(args.tamper.is_some(), args.only.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn differences() -> Result<Differences> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/differences.md");
    let document = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(Differences::parse(&document)?.of_check("names"))
}

fn describe(state: &State) -> String {
    format!(
        "{} services, {} slices, {} pods and {} imports in {} namespaces",
        state.services.len(),
        state.slices.len(),
        state.pods.len(),
        state.imports.len(),
        state.namespaces.len()
    )
}

async fn make(client: &Client, stages: Stages) -> Result<()> {
    for stage in stages {
        apply(client, stage).await?;
    }
    Ok(())
}

async fn upstream(sandbox: &Sandbox) -> Result<Server> {
    let mut server =
        Server::start(sandbox, &Program::CoreDns, "upstream", corefiles::UPSTREAM, &[])?;
    server.ready().await.context("the upstream")?;
    Ok(server)
}

/// Starts both servers of every case, all at a time, and waits until they are ready.
async fn start(
    args: &Args,
    sandbox: &Sandbox,
    plane: &ControlPlane,
    plan: &Plan,
    upstream: &Server,
) -> Result<Vec<Pair>> {
    let account = plane.account("name-server", reader_rules()).await?;
    let token = Credential::Token(plane.token(&account, DAY)?);
    let kubeconfig = plane.kubeconfig("name-server", &token)?;
    let variables = [
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("UPSTREAM", upstream.address().to_string()),
    ];
    let nodens = match &args.nodens {
        Some(path) => Program::Nodens(std::path::absolute(path)?),
        None => Program::nodens()?,
    };
    // Every third namespace, those of the markers, and one that does not exist.
    let listed = plan.namespaces.iter().step_by(3).cloned();
    let own = (0..=WAVES.len()).map(|number| format!("{}-{number}", waves::SETTLE));
    let listed: Vec<String> = listed.chain(own).chain(["never-made".to_owned()]).collect();
    let mut pairs = Vec::new();
    for case in CASES {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == case.name) {
            continue;
        }
        let text = case.text(&listed);
        let server = |program: &Program, name: &str| {
            let name = format!("{}-{name}", case.name);
            Server::start(sandbox, program, &name, &text, &variables)
        };
        let (coredns, nodens) = (server(&Program::CoreDns, "coredns")?, server(&nodens, "nodens")?);
        pairs.push(Pair { case, coredns, nodens });
    }
    if pairs.is_empty() {
        bail!("no Corefile to run");
    }
    for pair in &mut pairs {
        pair.coredns.ready().await.with_context(|| format!("CoreDNS, {}", pair.case.name))?;
        pair.nodens.ready().await.with_context(|| format!("Nodens, {}", pair.case.name))?;
    }
    Ok(pairs)
}

/// Waits until the servers have caught up with a wave, asks both of each case, and compares.
async fn ask(
    args: &Args,
    pairs: &mut [Pair],
    state: &State,
    plan: &Plan,
    report: &mut Report,
    (number, wave, count): (usize, &'static str, usize),
) -> Result<()> {
    if pairs.iter().any(|pair| pair.case.cached) && number > 0 {
        // What a cache took before the wave ended must have run out.
        tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    }
    let about = About::new(state);
    for (place, pair) in (0..).zip(pairs) {
        for (server, name) in [(&pair.coredns, "CoreDNS"), (&pair.nodens, "Nodens")] {
            settle::server(server, pair.case, number)
                .await
                .with_context(|| format!("wave {number}, {name}"))?;
        }
        if pair.case.transferred {
            transfers::compare(pair, wave, args.tamper.is_some(), report)?;
        }
        let seed = args.seed.wrapping_mul(1000).wrapping_add(number as u64 * 100 + place);
        let questions = Source::new(state, &plan.gone, pair.case, seed).questions(count);
        let theirs = ask_all(pair.coredns.address(), &questions)?;
        let mut ours = ask_all(pair.nodens.address(), &questions)?;
        let tampered = args.tamper.map_or(0, |every| tamper::tamper(&mut ours, every));
        report.tampered(tampered);
        for ((transport, question), (theirs, ours)) in
            questions.iter().zip(theirs.iter().zip(&ours))
        {
            let read = |answer: &Option<Vec<u8>>| {
                answer.as_ref().map_or(Outcome::Silent, |answer| Outcome::read(answer))
            };
            let (theirs, ours) = (read(theirs), read(ours));
            let found = compare(&theirs, &ours, TOLERANCE);
            let about = about.of(&question.qname);
            let asked = format!("{} {question}{about}", transport.name());
            report.record(pair.case.name, wave, asked, found, [&theirs, &ours]);
        }
    }
    Ok(())
}
