//! Files that processes which died while they wrote a signed zone have left.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What every name of a file that is being written begins with; eight hexadecimal digits follow.
pub(super) const PREFIX: &str = "signed-";
/// A temporary file that was not modified for this long is removed. Writing one takes minutes, so its writer has died.
const AGE: Duration = Duration::from_secs(24 * 3600);

/// Removes them from `folder`. One that cannot be looked at or removed stays, as it does no more harm than before.
pub(super) fn remove(folder: &Path, now: SystemTime) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(is_temporary);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        if is_ours && age.is_some_and(|age| age >= AGE) {
            _ = fs::remove_file(entry.path());
        }
    }
}

fn is_temporary(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_ones_go_and_all_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["signed-0123abcd", "signed-zone", "db.example.orgsigned"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let left = || fs::read_dir(folder.path()).unwrap().count();
        let written = folder.path().join("signed-0123abcd");
        let now = fs::metadata(&written).unwrap().modified().unwrap();
        remove(folder.path(), now + AGE / 2);
        assert_eq!(left(), 3);
        remove(folder.path(), now + 2 * AGE);
        assert_eq!(left(), 2);
        assert!(!written.exists());
    }
}
