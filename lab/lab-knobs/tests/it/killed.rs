//! A run that is killed leaves everything as it was.

use crate::world::{self, Machine};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What victims change: a bit of everything.
const CHOICES: &str = "tcp_sack;tcp_abort_on_overflow;tcp_rmem;ip_local_port_range;somaxconn;\
    tcp_fin_timeout;qdisc_pfifo;tx_queue_len;rps_cpus;mtu=1500,1400";

fn victim(command: &mut Command, folder: &Path, scope: &str) {
    let order = format!("{};{scope};{CHOICES}", folder.display());
    command.env("LAB_KNOBS_VICTIM", order);
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn journals(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Processes whose command line is a keeper's and whose folder is `folder`.
fn keepers(folder: &Path) -> usize {
    let wanted = format!("NODENS_LAB_JOURNALS={}", folder.display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let environment = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("environ"));
    all.filter_map(|entry| environment(entry).ok())
        .filter(|text| text.split(|octet| *octet == 0).any(|word| word == wanted.as_bytes()))
        .count()
}

#[test]
fn what_a_killed_run_had_changed_is_restored_whenever_it_is_killed() {
    let machine = Machine::new();
    let before = machine.state();
    assert!(before.contains("tcp_sack") && before.contains("rps_cpus"), "{before}");
    let folder = world::folder();
    let mut changed = 0;
    for turn in 0..20_u64 {
        let mut command = machine.command(std::env::current_exe().unwrap());
        victim(&mut command, folder.path(), "host");
        command.args(world::only("roles::victim")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + turn * 37 % 400));
        changed += usize::from(machine.state() != before);
        kill_process(pid(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        world::until("the keeper ends", || keepers(folder.path()) == 0);
        assert_eq!(machine.state(), before, "turn {turn}");
        assert_eq!(journals(folder.path()), 0, "turn {turn}");
    }
    assert!(changed >= 5, "only {changed} of 20 runs had changed anything when they were killed");
}

#[test]
fn no_namespace_and_no_process_in_one_outlives_a_killed_run() {
    let folder = world::folder();
    let mut met = 0;
    for turn in 0..20_u64 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        victim(&mut command, folder.path(), "namespace");
        command.args(world::only("roles::victim")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let name = format!("nodens-lab-{}-0", child.id());
        std::thread::sleep(Duration::from_millis(10 + turn * 53 % 500));
        // A server that is not told that the run has ended.
        let inside = format!("{name}-s");
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &inside, "sleep", "60"]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = server.spawn().unwrap();
        kill_process(pid(&child), Signal::KILL).unwrap();
        met += usize::from(world::ip(&["netns", "list"]).contains(&name));
        child.wait().unwrap();
        world::until("the keeper ends", || keepers(folder.path()) == 0);
        assert!(!world::ip(&["netns", "list"]).contains(&name), "turn {turn}");
        assert_eq!(journals(folder.path()), 0, "turn {turn}");
        // It was killed, or there was no namespace for it.
        let mut ended = None;
        world::until("the server ends", || {
            ended = server.try_wait().unwrap();
            ended.is_some()
        });
        assert!(!ended.unwrap().success());
    }
    assert!(met >= 5, "only {met} of 20 runs had namespaces when they were killed");
}

#[test]
fn signals_of_the_terminal_end_the_run_and_not_its_keeper() {
    let machine = Machine::new();
    let before = machine.state();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let folder = world::folder();
        let mut command = machine.command(std::env::current_exe().unwrap());
        victim(&mut command, folder.path(), "host");
        command.process_group(0);
        let (mut child, keeper) = world::start(command, "roles::victim");
        let keeper = Pid::from_raw(keeper.parse().unwrap()).unwrap();
        // The keeper gets it as well, as if the terminal reached it.
        kill_process(keeper, signal).unwrap();
        kill_process_group(pid(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        world::until("the keeper ends", || keepers(folder.path()) == 0);
        assert_eq!(machine.state(), before, "{signal:?}");
        assert_eq!(journals(folder.path()), 0, "{signal:?}");
    }
}

#[test]
fn what_stays_when_run_and_keeper_are_killed_is_restored_at_the_next_start() {
    let machine = Machine::new();
    let before = machine.state();
    let folder = world::folder();
    let mut command = machine.command(std::env::current_exe().unwrap());
    victim(&mut command, folder.path(), "host");
    let (mut child, keeper) = world::start(command, "roles::victim");
    world::until("something is changed", || machine.state() != before);
    // Both are stopped first, so that neither sees the other one's end.
    kill_process(pid(&child), Signal::STOP).unwrap();
    let keeper = Pid::from_raw(keeper.parse().unwrap()).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    kill_process(pid(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_eq!(journals(folder.path()), 1);
    // The journal's paths are those of that machine, so the next run has to be there, too.
    let mut command = machine.command(std::env::current_exe().unwrap());
    victim(&mut command, folder.path(), "host");
    let (mut next, _) = world::start(command, "roles::victim");
    kill_process(pid(&next), Signal::KILL).unwrap();
    next.wait().unwrap();
    world::until("the keeper ends", || keepers(folder.path()) == 0);
    assert_eq!(machine.state(), before);
    assert_eq!(journals(folder.path()), 0);
}
