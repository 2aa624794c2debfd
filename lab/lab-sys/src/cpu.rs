//! CPU time, pinning, and children that end with their parent.

use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// The CPU time that the calling thread has used.
pub fn thread_time() -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and lives during the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    crate::check(libc::c_long::from(result))?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// The CPU time that all threads of process `pid` have used, those that have ended included.
pub fn process_time(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is writable and lives during the call.
    let errno = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and lives during the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    crate::check(libc::c_long::from(result))?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// The time that the calling thread could have run and others had its CPU; zero if the kernel keeps
/// no account of it.
pub fn thread_waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_ascii_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

/// The CPUs that the calling thread may run on, in order.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is writable and its true size is given.
    let result =
        unsafe { libc::sched_getaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw mut set) };
    crate::check(libc::c_long::from(result))?;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the index is below `CPU_SETSIZE`.
    Ok(all.filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Lets the calling thread, and the threads it starts from now on, run on `cpus` only.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let set = set_of(cpus);
    // SAFETY: `set` is readable and its true size is given.
    let result =
        unsafe { libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw const set) };
    crate::check(libc::c_long::from(result)).map(drop)
}

/// Lets all threads of a process, and those that they start from now on, run on `cpus` only.
///
/// # Errors
///
/// A process that does not exist or is not ours to move.
pub fn move_process(pid: u32, cpus: &[usize]) -> io::Result<()> {
    let set = set_of(cpus);
    let mut moved = std::collections::BTreeSet::new();
    // A thread that was started meanwhile may have been started by one that was not moved yet.
    loop {
        let before = moved.len();
        for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let name = entry?.file_name();
            let Some(thread) = name.to_str().and_then(|name| name.parse::<libc::pid_t>().ok())
            else {
                continue;
            };
            if moved.insert(thread) {
                move_thread(thread, &set)?;
            }
        }
        if moved.len() == before {
            return Ok(());
        }
    }
}

/// A thread that has ended meanwhile needs no place.
fn move_thread(thread: libc::pid_t, set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` is readable and its true size is given.
    let result = unsafe {
        libc::sched_setaffinity(thread, mem::size_of::<libc::cpu_set_t>(), std::ptr::from_ref(set))
    };
    match crate::check(libc::c_long::from(result)) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

fn set_of(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below `CPU_SETSIZE`.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    set
}

/// Makes timers of the calling thread fire when they are due and not up to 50 µs later.
pub fn tighten_timers() {
    // SAFETY: the call takes no pointer. It cannot fail with a positive slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// For how long a thread may run before others on its CPU get their turn, in nanoseconds; the kernel's
/// default is 2 to 3 ms.
const SLICE_NS: u64 = 500_000;

/// Asks for short turns. Since Linux 6.12 a thread that wakes up with a shorter turn than that of the
/// thread at work need not wait for the end of the latter's, so that less is late on a CPU that others
/// use as well. It changes neither policy nor niceness, nor how much of the CPU the thread gets. Older kernels ignore it.
///
/// # Errors
///
/// Where it is not allowed; all is then as it was.
pub fn take_short_turns() -> io::Result<()> {
    let attributes = libc::sched_attr { sched_runtime: SLICE_NS, ..scheduling()? };
    // SAFETY: the kernel reads a live structure of the length that the structure states.
    crate::check(unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0 as libc::c_uint)
    })
    .map(drop)
}

/// How the kernel schedules the calling thread (`sched_getattr`).
fn scheduling() -> io::Result<libc::sched_attr> {
    // SAFETY: all fields are numbers, which may be zero.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let len = mem::size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `len` octets to a live structure of that length, whose fields
    // may have any value.
    crate::check(unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0 as libc::c_uint)
    })?;
    Ok(attributes)
}

/// Starts `command` on `cpus` (anywhere if empty), to be killed when the calling thread ends.
pub fn spawn_confined(command: &mut Command, cpus: &[usize]) -> io::Result<std::process::Child> {
    let set = (!cpus.is_empty()).then(|| set_of(cpus));
    let confine = move || {
        // SAFETY: takes no pointer and is safe to call between fork and exec.
        let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
        crate::check(libc::c_long::from(result))?;
        let Some(set) = set else { return Ok(()) };
        // SAFETY: `set` is owned by this closure and its true size is given; the call is safe
        // between fork and exec.
        let result = unsafe {
            libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw const set)
        };
        crate::check(libc::c_long::from(result)).map(drop)
    };
    // SAFETY: the closure makes two system calls and neither allocates nor takes a lock.
    unsafe { command.pre_exec(confine) }.spawn()
}

/// Ends a process at once.
pub fn kill(process: u32) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    // SAFETY: the call takes no pointer.
    crate::check(libc::c_long::from(unsafe { libc::kill(process, libc::SIGKILL) })).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_time_of_its_thread() {
        let before = thread_time().unwrap();
        let sum = (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        std::hint::black_box(sum);
        assert!(thread_time().unwrap() > before);
    }

    #[test]
    fn a_process_keeps_the_time_of_threads_that_have_ended() {
        let before = process_time(std::process::id()).unwrap();
        let thread = std::thread::spawn(|| {
            let sum = (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
            std::hint::black_box(sum);
            thread_time().unwrap()
        });
        let used = thread.join().unwrap();
        assert!(process_time(std::process::id()).unwrap() - before >= used);
        assert!(process_time(u32::MAX).is_err());
        assert!(process_time(u32::MAX >> 4).is_err());
    }

    #[test]
    fn a_thread_stays_where_it_is_pinned() {
        std::thread::spawn(|| {
            let cpu = *allowed().unwrap().last().unwrap();
            pin(&[cpu]).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn short_turns_change_neither_niceness_nor_policy() {
        let inside = std::thread::spawn(|| {
            let before = scheduling().unwrap();
            take_short_turns().unwrap();
            (before, scheduling().unwrap())
        });
        let (before, after) = inside.join().unwrap();
        assert_eq!(
            (before.sched_nice, before.sched_policy),
            (after.sched_nice, after.sched_policy)
        );
        // Kernels that know turns tell how long they are; others tell 0.
        let expected = if before.sched_runtime == 0 { 0 } else { SLICE_NS };
        assert_eq!(after.sched_runtime, expected);
    }

    #[test]
    fn a_process_moves_with_all_its_threads() {
        let mut command = Command::new("sleep");
        let mut child = spawn_confined(command.arg("60"), &[]).unwrap();
        let cpu = *allowed().unwrap().last().unwrap();
        move_process(child.id(), &[cpu]).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
        assert_eq!(line.split_ascii_whitespace().nth(1), Some(&*cpu.to_string()));
        assert!(move_process(u32::MAX >> 4, &[cpu]).is_err());
    }

    #[test]
    fn a_thread_that_shares_its_cpu_waits_for_it() {
        let cpu = *allowed().unwrap().last().unwrap();
        let share = move || {
            pin(&[cpu]).unwrap();
            let begin = std::time::Instant::now();
            while begin.elapsed() < Duration::from_millis(200) {
                std::hint::black_box(0);
            }
            thread_waited()
        };
        let others: Vec<_> = (0..2).map(|_| std::thread::spawn(share)).collect();
        let waited: Vec<_> = others.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(waited.iter().any(|waited| *waited > Duration::from_millis(20)), "{waited:?}");
    }

    #[test]
    fn a_confined_child_runs_where_it_is_told() {
        let cpu = allowed().unwrap()[0];
        let script = "grep Cpus_allowed_list /proc/self/status";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(std::process::Stdio::piped());
        let output = spawn_confined(&mut command, &[cpu]).unwrap().wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.trim_end().ends_with(&format!("\t{cpu}")), "{text}");
    }
}
