//! Ends of a session other than its own.

use crate::world::{self, Machine};
use lab_knobs::{Choice, Error, Knob, Scope, Session, Side};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_session_whose_keeper_was_killed_says_so_and_restores_itself() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let choice = Choice::parse("tcp_sack").unwrap();
    let mut session = Session::begin(&keeper, Scope::namespace(), &[&choice.knob]).unwrap();
    session.set(&choice.knob, &choice.high).unwrap();
    let server = session.scope().namespace_name(Side::Server).unwrap();
    let process = Pid::from_raw(i32::try_from(session.keeper()).unwrap()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    world::until("the keeper is gone", || {
        matches!(session.set(&choice.knob, &choice.low), Err(Error::Keeper(_)))
    });
    session.end().unwrap();
    assert!(!world::ip(&["netns", "list"]).contains(&server));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_session_that_is_dropped_restores() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let choice = Choice::parse("tcp_sack").unwrap();
    let mut session = Session::begin(&keeper, Scope::namespace(), &[&choice.knob]).unwrap();
    session.set(&choice.knob, &choice.high).unwrap();
    let server = session.scope().namespace_name(Side::Server).unwrap();
    drop(session);
    assert!(!world::ip(&["netns", "list"]).contains(&server));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_queueing_discipline_that_somebody_configured_is_not_touched() {
    let machine = Machine::new();
    let tc = machine
        .command("tc")
        .args(["qdisc", "add", "dev", "lab0", "root", "pfifo", "limit", "77"])
        .status();
    assert!(tc.unwrap().success());
    let folder = world::folder();
    let mut command = machine.command(std::env::current_exe().unwrap());
    let order = format!("{};host;tcp_sack;qdisc_pfifo", folder.path().display());
    command.env("LAB_KNOBS_VICTIM", order).args(world::only("roles::victim"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("it could not be restored exactly"), "{text}");
    assert!(machine.state().contains("limit 77p"));
}

#[test]
fn placeholders_of_a_template_are_replaced_and_no_other_braces() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let choices =
        ["server:threads=1,4", "server:size=10,20"].map(|text| Choice::parse(text).unwrap());
    let knobs: Vec<&Knob> = choices.iter().map(|choice| &*choice.knob).collect();
    let mut session = Session::begin(&keeper, Scope::namespace(), &knobs).unwrap();
    for choice in &choices {
        session.set(&choice.knob, &choice.high).unwrap();
    }
    let text = session.render(". {\n threads {threads}\n cache {size} {size}\n}\n").unwrap();
    assert_eq!(text, ". {\n threads 4\n cache 20 20\n}\n");
    let error = session.render("threads {threads}").unwrap_err().to_string();
    assert_eq!(error, "the template of the server's configuration has no `{size}`");
    session.end().unwrap();
}

#[test]
fn a_keeper_that_somebody_else_starts_ends_at_once() {
    if std::env::var_os("NODENS_LAB_JOURNALS").is_none() {
        let error = lab_knobs::keeper::run().unwrap_err().to_string();
        assert!(error.contains("is started by other commands"), "{error}");
    }
}
