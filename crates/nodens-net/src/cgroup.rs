//! Where the limits of the process's control group are written, in either version.

use std::path::{Path, PathBuf};

/// Folders with the limits of `controller`, from the process's control group up to the root; true
/// for those of the unified hierarchy. `groups` is the text of `/proc/self/cgroup`, `root` where
/// the hierarchies are mounted.
pub(crate) fn folders(groups: &str, root: &Path, controller: &str) -> Vec<(PathBuf, bool)> {
    let group = |line: &str| -> Option<(PathBuf, bool)> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            return Some((root.join(path), true));
        }
        let wanted = controllers.split(',').any(|known| known == controller);
        wanted.then(|| (root.join(controller).join(path), false))
    };
    let mut folders = Vec::new();
    for (start, unified) in groups.lines().filter_map(group) {
        let way_up = start.ancestors().take_while(|path| path.starts_with(root));
        folders.extend(way_up.map(|folder| (folder.to_owned(), unified)));
    }
    folders
}

/// [`folders`] of this process.
pub(crate) fn own_folders(controller: &str) -> Vec<(PathBuf, bool)> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    folders(&groups, Path::new("/sys/fs/cgroup"), controller)
}
