//! Children: what they used, and asking them to end.

use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

/// CPU time, user and system, of all children that have ended and been waited for.
pub fn children_time() -> io::Result<Duration> {
    // SAFETY: all zeroes is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is writable and lives during the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    crate::check(libc::c_long::from(result))?;
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let micros = u64::try_from(time.tv_usec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    Ok(time(usage.ru_utime) + time(usage.ru_stime))
}

/// Asks a child to end, as Ctrl-C does.
///
/// The child has not been waited for, or it could be another process by now: a [`Child`] that was is
/// refused by its own `try_wait` first.
pub fn interrupt(child: &mut Child) -> io::Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    let id = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: takes no pointer; the process is a child that has not been waited for.
    let result = unsafe { libc::kill(id, libc::SIGINT) };
    crate::check(libc::c_long::from(result)).map(drop)
}

/// Starts `command` in a session of its own: the terminal's signals do not reach it, and it ignores
/// requests to end, as do those it starts.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    let detach = || {
        // SAFETY: takes no argument and is safe to call between fork and exec.
        crate::check(libc::c_long::from(unsafe { libc::setsid() }))?;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            // SAFETY: takes no pointer and is safe to call between fork and exec.
            if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls and neither allocates nor takes a lock.
    unsafe { command.pre_exec(detach) }.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_child_that_has_ended_leaves_its_time_and_one_that_runs_can_be_ended() {
        let before = children_time().unwrap();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", work]).status().unwrap().success());
        assert!(children_time().unwrap() > before);
        // Who was started in the background by a shell ignores the signal, and so do its children.
        let sleep = ["--default-signal=INT", "sleep", "600"];
        let mut child = Command::new("env").args(sleep).spawn().unwrap();
        // The signal has to meet `sleep`, not `env` on the way to it.
        let running = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&running).unwrap() != "sleep\n" {
            std::thread::sleep(Duration::from_millis(1));
        }
        interrupt(&mut child).unwrap();
        assert!(!child.wait().unwrap().success());
        interrupt(&mut child).unwrap();
    }

    #[test]
    fn a_detached_process_leads_a_session_and_stays_when_it_is_asked_to_end() {
        let mut child = spawn_detached(Command::new("sleep").arg("600")).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // After the name: state, parent, process group, session.
        let session = status.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
        assert_eq!(session, child.id().to_string());
        interrupt(&mut child).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
