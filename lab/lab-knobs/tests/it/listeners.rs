//! Options of a server's sockets, set from outside.

use crate::world;
use lab_knobs::{Choice, Error, Knob, Scope, Session};
use std::process::{Child, Command};

fn server() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("LAB_KNOBS_SERVER", "1");
    world::start(command, "roles::server").0
}

fn session(folder: &std::path::Path, choices: &[Choice]) -> Session {
    let knobs: Vec<&Knob> = choices.iter().map(|choice| &*choice.knob).collect();
    Session::begin(&world::keeper(folder), Scope::host(None), &knobs).unwrap()
}

#[test]
fn options_are_set_on_all_sockets_that_serve_and_put_back() {
    let folder = world::folder();
    let names = [
        "socket_backlog=none,17",
        "socket_nodelay",
        "socket_defer_accept",
        "socket_fastopen",
        "socket_keepalive",
        "socket_rcvbuf=none,100000",
        "socket_sndbuf=none,100000",
        "socket_busy_poll",
    ];
    let choices = names.map(|name| Choice::parse(name).unwrap());
    let mut session = session(folder.path(), &choices);
    let mut server = server();
    for choice in &choices {
        session.set(&choice.knob, &choice.high).unwrap();
        session.serving(server.id()).unwrap_or_else(|error| panic!("{error}"));
        session.restore().unwrap();
    }
    drop(server.stdin.take());
    server.wait().unwrap();
    session.end().unwrap();
}

#[test]
fn a_value_that_the_kernel_cuts_is_an_error_and_so_is_a_process_without_sockets() {
    let folder = world::folder();
    let choices = [Choice::parse("socket_backlog=none,2000000000").unwrap()];
    let mut session = session(folder.path(), &choices);
    let mut server = server();
    session.serving(server.id()).unwrap();
    session.set(&choices[0].knob, &choices[0].high).unwrap();
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    match session.serving(server.id()).unwrap_err() {
        Error::Kept { value, kept, .. } => {
            assert_eq!((&*value, &*kept), ("2000000000", most.trim()));
        }
        other => panic!("{other}"),
    }
    session.restore().unwrap();
    session.set(&choices[0].knob, &choices[0].high).unwrap();
    drop(server.stdin.take());
    server.wait().unwrap();
    let error = session.serving(server.id()).unwrap_err().to_string();
    assert!(error.contains("it listens on no socket"), "{error}");
    session.end().unwrap();
}
