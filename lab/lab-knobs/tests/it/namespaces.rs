//! Settings in namespaces: what is there, what the kernel makes of a value, what is restored.

use crate::world;
use lab_knobs::{Choice, Earlier, Error, Keeper, Knob, Scope, Session, Side, Space, survey};

fn choices(names: &[&str]) -> Vec<Choice> {
    names.iter().map(|name| Choice::parse(name).unwrap()).collect()
}

fn begin(keeper: &Keeper, choices: &[Choice]) -> Result<Session, Error> {
    let knobs: Vec<&Knob> = choices.iter().map(|choice| &*choice.knob).collect();
    Session::begin(keeper, Scope::namespace(), &knobs)
}

#[test]
fn values_are_set_on_their_side_read_back_and_restored() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let names = ["tcp_sack", "client:tcp_rmem=present,1024 4096 8192", "ip_local_port_range"];
    let choices = choices(&names);
    let mut session = begin(&keeper, &choices).unwrap();
    let server = session.scope().namespace_name(Side::Server).unwrap();
    let client = session.scope().namespace_name(Side::Client).unwrap();
    let present = world::sysctl(&client, "net.ipv4.tcp_rmem");
    assert_eq!(session.present(&choices[1].knob).unwrap().as_str(), present);
    for choice in &choices {
        session.set(&choice.knob, &choice.high).unwrap();
    }
    assert_eq!(world::sysctl(&server, "net.ipv4.tcp_sack"), "0");
    assert_eq!(world::sysctl(&client, "net.ipv4.tcp_sack"), "1");
    assert_eq!(world::sysctl(&client, "net.ipv4.tcp_rmem"), "1024 4096 8192");
    assert_eq!(world::sysctl(&server, "net.ipv4.tcp_rmem"), present);
    assert_eq!(world::sysctl(&client, "net.ipv4.ip_local_port_range"), "2048 65500");
    session.set(&choices[0].knob, &choices[0].low).unwrap();
    assert_eq!(world::sysctl(&server, "net.ipv4.tcp_sack"), "1");
    session.restore().unwrap();
    assert_eq!(world::sysctl(&client, "net.ipv4.tcp_rmem"), present);
    assert_eq!(world::sysctl(&client, "net.ipv4.ip_local_port_range"), "32768 60999");
    session.end().unwrap();
    assert!(!world::ip(&["netns", "list"]).contains(&server));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn at_least_thirty_settings_work_in_namespaces_of_this_kernel() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let inside = lab_knobs::knobs().iter().filter(|knob| knob.space == Space::Namespace);
    let all: Vec<Choice> = inside.map(|knob| Choice::of(knob).unwrap()).collect();
    let found = survey(&keeper, &Scope::namespace(), &all, Earlier::Restore).unwrap().knobs;
    assert_eq!(found.len(), all.len());
    let works = found.iter().filter(|one| one.present.is_ok()).count();
    let missing: Vec<_> = found.iter().filter(|one| one.present.is_err()).collect();
    assert!(works >= 30, "{works}: {missing:#?}");
    for one in missing {
        assert!(!one.present.as_ref().unwrap_err().is_empty(), "{}", one.knob);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_a_namespace_lacks_is_said_at_once_with_the_reason() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let names = [
        "tcp_sack",
        "tcp_mem",
        "rmem_max",
        "sysctl:net.ipv4.tcp_nothing=1,2",
        "sysctl:net.core.message_cost=1,2",
        "sysctl:net.ipv4.tcp_available_congestion_control=reno,cubic",
        "sysctl:kernel.pid_max=1,2",
    ];
    let Error::Unavailable(problems) = begin(&keeper, &choices(&names)).unwrap_err() else {
        panic!("another error")
    };
    let reasons = [
        ("tcp_mem", "the whole machine has it in common"),
        ("rmem_max", "the whole machine has it in common"),
        ("net.ipv4.tcp_nothing", "this kernel lacks /proc/sys/net/ipv4/tcp_nothing"),
        ("net.core.message_cost", "exists in the initial network namespace only"),
        ("net.ipv4.tcp_available_congestion_control", "read-only"),
        ("kernel.pid_max", "the whole machine has it in common"),
    ];
    assert_eq!(problems.len(), reasons.len(), "{problems:?}");
    for (problem, (knob, reason)) in problems.iter().zip(reasons) {
        assert_eq!(problem.knob, knob);
        assert!(problem.reason.contains(reason), "{problem}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_setting_is_not_changed_under_two_names() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let names = ["qdisc=present,pfifo", "tcp_sack", "qdisc_pfifo", "sysctl:net/ipv4/tcp_sack=0,1"];
    let Error::Unavailable(problems) = begin(&keeper, &choices(&names)).unwrap_err() else {
        panic!("another error")
    };
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let same = ["qdisc_pfifo: is the same setting as qdisc"];
    assert_eq!(problems[0], same[0]);
    assert_eq!(problems[1], "tcp_sack: is the same setting as tcp_sack");
    assert_eq!(problems.len(), 2);
}

#[test]
fn a_survey_tries_both_values_and_leaves_nothing_changed() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let names = [
        "tcp_sack",
        "tcp_dsack=present,1",
        "qdisc=present,nothing",
        "qdisc_pfifo",
        "sysctl:net.ipv4.tcp_ecn=present,200",
        "socket_nodelay",
    ];
    let found =
        survey(&keeper, &Scope::namespace(), &choices(&names), Earlier::Report).unwrap().knobs;
    let said: Vec<String> = found
        .iter()
        .map(|one| match &one.present {
            Ok(Some(value)) => value.to_string(),
            Ok(None) => "the server's".to_owned(),
            Err(reason) => reason.clone(),
        })
        .collect();
    assert_eq!(said[0], "1");
    assert!(said[1].contains("has the value `1` already"), "{}", said[1]);
    assert!(said[2].contains("was not set to `nothing`"), "{}", said[2]);
    assert_eq!(said[3], "noqueue");
    assert!(said[4].contains("was not set to `200`"), "{}", said[4]);
    assert_eq!(said[5], "the server's");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_value_that_the_kernel_refuses_or_changes_is_an_error() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let names = [
        "tcp_congestion_control=present,nothing",
        "sysctl:net.ipv4.tcp_sack=present,300",
        // Milliseconds, which the kernel keeps as ticks.
        "sysctl:net.ipv4.tcp_invalid_ratelimit=present,1001",
        "qdisc=present,nothing",
        // What is read is not what was written, on every kernel.
        "sysctl:net.ipv4.tcp_ecn=present,01",
    ];
    let choices = choices(&names);
    let mut session = begin(&keeper, &choices).unwrap();
    let set = |session: &mut Session, index: usize| {
        session.set(&choices[index].knob, &choices[index].high).map_err(|error| error.to_string())
    };
    let refused = set(&mut session, 0).unwrap_err();
    assert!(refused.starts_with("tcp_congestion_control was not set to `nothing`: "), "{refused}");
    let refused = set(&mut session, 1).unwrap_err();
    assert!(refused.contains("tcp_sack was not set to `300`: Invalid argument"), "{refused}");
    // With 1,000 ticks a second every value can be kept.
    if let Err(kept) = set(&mut session, 2) {
        assert!(kept.contains("tcp_invalid_ratelimit was set to `1001`, and is `10"), "{kept}");
    }
    let refused = set(&mut session, 3).unwrap_err();
    assert!(refused.contains("qdisc was not set to `nothing`"), "{refused}");
    let kept = set(&mut session, 4).unwrap_err();
    assert_eq!(kept, "tcp_ecn was set to `01`, and is `1`");
    let other = Choice::parse("tcp_dsack").unwrap();
    let error = session.set(&other.knob, &other.high).unwrap_err().to_string();
    assert_eq!(error, "tcp_dsack is not part of this session, so its value is not saved");
    session.restore().unwrap();
    session.end().unwrap();
}

#[test]
fn several_sessions_run_at_once() {
    let folder = world::folder();
    let keeper = world::keeper(folder.path());
    let choices = choices(&["tcp_sack"]);
    let mut first = begin(&keeper, &choices).unwrap();
    let second = begin(&keeper, &choices).unwrap();
    assert_eq!(second.leftovers(), []);
    first.set(&choices[0].knob, &choices[0].high).unwrap();
    let server = second.scope().namespace_name(Side::Server).unwrap();
    assert_eq!(world::sysctl(&server, "net.ipv4.tcp_sack"), "1");
    second.end().unwrap();
    first.set(&choices[0].knob, &choices[0].low).unwrap();
    first.end().unwrap();
}

#[test]
fn both_sides_reach_each_other() {
    let folder = world::folder();
    let session = begin(&world::keeper(folder.path()), &[]).unwrap();
    let listener = "import socket,sys; s=socket.create_server(('', 53)); print('ready', flush=True); s.accept()";
    let mut server = session.command(Side::Server, "python3");
    let mut server =
        server.args(["-c", listener]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = [0; 5];
    std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut first).unwrap();
    let address = session.address(Side::Server).unwrap();
    let connect = format!("import socket; socket.create_connection(('{address}', 53))");
    let mut client = session.command(Side::Client, "python3");
    assert!(client.args(["-c", &connect]).status().unwrap().success());
    assert!(server.wait().unwrap().success());
    session.end().unwrap();
}
