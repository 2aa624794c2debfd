//! How much the operating system lets this process have.

use std::io;

/// How many descriptors the process may have open, and the most it could ask for.
pub fn descriptors() -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and lives during the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    crate::check(libc::c_long::from(result)).map(|_| (limit.rlim_cur, limit.rlim_max))
}

/// Asks for `wanted` descriptors and says how many the process may have now: at most what it could
/// ask for, and never fewer than before.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    let (now, most) = descriptors()?;
    if now >= wanted {
        return Ok(now);
    }
    let limit = libc::rlimit { rlim_cur: wanted.min(most), rlim_max: most };
    // SAFETY: `limit` is readable and lives during the call.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    crate::check(libc::c_long::from(result)).map(|_| limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_raised_as_far_as_allowed_and_never_lowered() {
        let (before, most) = descriptors().unwrap();
        assert_eq!(raise_descriptors(before.saturating_sub(1)).unwrap(), before);
        assert_eq!(raise_descriptors(u64::MAX).unwrap(), most);
        assert_eq!(descriptors().unwrap(), (most, most));
    }
}
