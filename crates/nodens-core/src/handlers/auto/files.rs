//! The files of a folder that are zones by their names.

use super::Settings;
use nodens_wire::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Files with zones.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// By origin; of several for one, the first in the order of paths.
    pub(super) found: BTreeMap<Name, PathBuf>,
    /// Folders that are there but cannot be read.
    failed: Vec<PathBuf>,
    /// Whether the folder itself could be read.
    pub(super) is_complete: bool,
    pub(super) warnings: BTreeSet<String>,
}

impl Files {
    /// Those in a folder and in all folders below it.
    pub(super) fn below(directory: &Path, settings: &Settings) -> Self {
        let mut files = Self::default();
        // The folder itself may be a link, as that of a ConfigMap.
        match fs::canonicalize(directory) {
            Ok(top) => files.look(top, settings),
            // All paths begin with the empty one.
            Err(error) => files.fail(directory, PathBuf::new(), &error),
        }
        files
    }

    /// Adds a zone as it was before, if its file lies in a folder that cannot be read.
    pub(super) fn keep(&mut self, origin: &Name, path: &Path) {
        if self.failed.iter().any(|folder| path.starts_with(folder)) {
            self.found.entry(origin.clone()).or_insert_with(|| path.to_owned());
        }
    }

    fn fail(&mut self, shown: &Path, folder: PathBuf, error: &io::Error) {
        self.warnings.insert(format!("error reading {}: failed: {error}", shown.display()));
        // What is not there any more has no zones.
        if error.kind() != ErrorKind::NotFound {
            self.failed.push(folder);
        }
    }

    fn look(&mut self, top: PathBuf, settings: &Settings) {
        // The next one is the last.
        let mut left: Vec<(PathBuf, Option<FileType>)> = Vec::new();
        self.is_complete = self.open(top, &mut left);
        while let Some((path, kind)) = left.pop() {
            let is_folder = kind.is_some_and(|kind| kind.is_dir());
            let name = path.file_name().unwrap_or_default();
            if is_folder {
                // A ConfigMap has its files in one that begins so, and links to them beside it.
                if !name.as_bytes().starts_with(b"..") {
                    _ = self.open(path, &mut left);
                }
                continue;
            }
            // What cannot be read is said when it is read.
            let is_none = || fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file());
            let name = name.to_string_lossy();
            match settings.pattern.origin(&name) {
                None => {}
                Some(_) if !kind.is_some_and(|kind| kind.is_file()) && is_none() => {}
                Some(Ok(origin)) => self.add(origin, path),
                Some(Err(error)) => {
                    let text = format!("{}: failed: no origin: {error}", path.display());
                    self.warnings.insert(text);
                }
            }
        }
    }

    /// Puts what is in a folder before all that is `left`; false if it cannot be read.
    fn open(&mut self, folder: PathBuf, left: &mut Vec<(PathBuf, Option<FileType>)>) -> bool {
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        match entries {
            Ok(mut entries) => {
                entries.sort_by_key(DirEntry::file_name);
                // A link to a folder is a link.
                let kind = |entry: &DirEntry| entry.file_type().ok();
                left.extend(entries.iter().rev().map(|entry| (entry.path(), kind(entry))));
                true
            }
            Err(error) => {
                self.fail(&folder.clone(), folder, &error);
                false
            }
        }
    }

    fn add(&mut self, origin: Name, path: PathBuf) {
        let Some(first) = self.found.get(&origin) else {
            self.found.insert(origin, path);
            return;
        };
        let (first, other) = (first.display(), path.display());
        let text = format!(
            "Multiple zone files match origin \"{origin}\": using \"{first}\" instead of \"{other}\""
        );
        self.warnings.insert(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_folders_that_cannot_be_read_stay() {
        let origin = |text| Name::parse(text).unwrap();
        for (folder, kind, kept) in [
            ("/zones/a", ErrorKind::PermissionDenied, &["1.", "2."][..]),
            ("/zones/b", ErrorKind::Other, &["1."]),
            ("/zones/a", ErrorKind::NotFound, &["1."]),
            ("", ErrorKind::TimedOut, &["1.", "2.", "3."]),
        ] {
            let mut files = Files::default();
            files.add(origin("1."), "/zones/db.1".into());
            files.fail(Path::new("/zones"), folder.into(), &kind.into());
            files.keep(&origin("2."), Path::new("/zones/a/x/db.2"));
            files.keep(&origin("3."), Path::new("/zones/ab/db.3"));
            assert_eq!(files.found.into_keys().collect::<Vec<_>>(), kept.iter().map(|name| origin(name)).collect::<Vec<_>>());
        }
    }
}
