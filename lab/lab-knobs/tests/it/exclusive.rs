//! Trials of the machine itself exclude each other.

use crate::world::{self, Machine};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};

fn victim(machine: &Machine, folder: &Path) -> Command {
    let mut command = machine.command(std::env::current_exe().unwrap());
    command.env("LAB_KNOBS_VICTIM", format!("{};host;tcp_sack", folder.display()));
    command
}

/// Whether nobody has the folder's lock, and no journal is left.
fn is_quiet(folder: &Path) -> bool {
    let free = std::fs::File::open(folder).unwrap().try_lock().is_ok();
    free && std::fs::read_dir(folder).unwrap().count() == 0
}

#[test]
fn a_second_trial_of_the_machine_is_refused_while_the_first_one_goes_on() {
    let machine = Machine::new();
    let before = machine.state();
    let folder = world::folder();
    let (mut first, _) = world::start(victim(&machine, folder.path()), "roles::victim");
    let mut second = victim(&machine, folder.path());
    let output = second.args(world::only("roles::victim")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("another trial changes settings of this machine"), "{text}");
    kill_process(Pid::from_child(&first), Signal::KILL).unwrap();
    first.wait().unwrap();
    world::until("all is restored", || is_quiet(folder.path()));
    assert_eq!(machine.state(), before);
}

#[test]
fn a_trial_that_begins_while_a_killed_one_is_restored_saves_what_was_there_at_first() {
    let machine = Machine::new();
    let before = machine.state();
    let folder = world::folder();
    let (mut first, keeper) = world::start(victim(&machine, folder.path()), "roles::victim");
    let keeper = Pid::from_raw(keeper.parse().unwrap()).unwrap();
    // A keeper that is slow: the value that it has set stays for a while.
    world::until("something is changed", || {
        kill_process(keeper, Signal::STOP).unwrap();
        let changed = machine.state() != before;
        if !changed {
            kill_process(keeper, Signal::CONT).unwrap();
        }
        changed
    });
    kill_process(Pid::from_child(&first), Signal::KILL).unwrap();
    first.wait().unwrap();
    let mut second = victim(&machine, folder.path());
    second.args(world::only("roles::victim")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut second = second.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    kill_process(keeper, Signal::CONT).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(second.try_wait().unwrap().is_none(), "the second trial has ended");
    kill_process(Pid::from_child(&second), Signal::KILL).unwrap();
    second.wait().unwrap();
    world::until("all is restored", || is_quiet(folder.path()));
    assert_eq!(machine.state(), before);
}
