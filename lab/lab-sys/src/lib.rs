//! The system calls that the lab needs and the standard library lacks, behind safe functions.
//!
//! This is the only crate of the lab that may hold `unsafe`, and it holds nothing else: no DNS, no
//! schedule, no statistics. Linux only.
//!
//! - [`batch`]: many datagrams per system call (`recvmmsg`, `sendmmsg`);
//! - [`socket`]: what went wrong on a socket (ICMP errors, datagrams dropped by the kernel);
//! - [`option`]: options of sockets that are one number;
//! - [`limits`]: how many descriptors the process may have;
//! - [`poll`]: readiness of many descriptors, with a wait in nanoseconds;
//! - [`cpu`]: CPU time, pinning, and children that end with their parent;
//! - [`process`]: what children used, and asking them to end.

pub mod batch;
pub mod cpu;
pub mod limits;
pub mod option;
pub mod poll;
pub mod process;
pub mod socket;

/// The result of a system call that says -1 for "see errno".
fn check(result: libc::c_long) -> std::io::Result<usize> {
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error())
}
