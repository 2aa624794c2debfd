//! Other processes that tests need: each is this program with one of these as its only test. Without
//! the variable that says so they do nothing.

use crate::world;
use lab_knobs::{Choice, Scope, Session};
use std::io::{BufRead, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;

/// The keeper of a session.
#[test]
fn keeper() {
    if std::env::var_os("NODENS_LAB_JOURNALS").is_some() {
        lab_knobs::keeper::run().unwrap();
    }
}

/// Changes settings until it is killed; the variable says where its journals are, in which scope,
/// and what it changes.
#[test]
fn victim() {
    let Ok(order) = std::env::var("LAB_KNOBS_VICTIM") else { return };
    let mut order = order.split(';');
    let keeper = world::keeper(Path::new(order.next().unwrap()));
    let scope = match order.next().unwrap() {
        "namespace" => Scope::namespace(),
        _ => Scope::host(Some("lab0")),
    };
    let choices: Vec<Choice> = order.map(|text| Choice::parse(text).unwrap()).collect();
    let knobs: Vec<_> = choices.iter().map(|choice| &*choice.knob).collect();
    let mut session = Session::begin(&keeper, scope, &knobs).unwrap();
    let mut output = std::io::stdout();
    writeln!(output, "ready {}", session.keeper()).unwrap();
    loop {
        for choice in &choices {
            session.set(&choice.knob, &choice.high).unwrap();
        }
        for choice in &choices {
            session.set(&choice.knob, &choice.low).unwrap();
        }
    }
}

/// A server's sockets, until its standard input ends.
#[test]
fn server() {
    if std::env::var_os("LAB_KNOBS_SERVER").is_none() {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
    connected.connect(udp.local_addr().unwrap()).unwrap();
    let mut output = std::io::stdout();
    writeln!(output, "ready {}", tcp.local_addr().unwrap()).unwrap();
    for line in std::io::stdin().lock().lines() {
        _ = line;
    }
}
