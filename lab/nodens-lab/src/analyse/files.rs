//! Which files are read, and for which group.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Folders within folders that are looked into.
const DEPTH_MAX: usize = 4;

/// The files of the command line, each with the name of its group if it was given. The words of `--group`
/// begin a group with `NAME=`, or continue the one before.
pub(super) fn wanted(
    files: &[PathBuf],
    words: &[String],
) -> Result<Vec<(Option<String>, PathBuf)>> {
    let mut all = Vec::new();
    for path in files {
        all.extend(expand(path)?.into_iter().map(|path| (None, path)));
    }
    let mut group: Option<&str> = None;
    for word in words {
        // A path with `=` in it has a `/` before it, or ends up as a name that cannot be opened.
        let begins = word.split_once('=').filter(|(name, _)| !name.contains('/'));
        let path = match begins {
            Some(("", _)) => bail!("--group {word}: a name is missing before `=`"),
            Some((name, path)) => {
                group = Some(name);
                path
            }
            None => word,
        };
        let Some(name) = group else {
            bail!("--group {word}: expected NAME=FILE, such as old=a.txt");
        };
        all.extend(expand(Path::new(path))?.into_iter().map(|path| (Some(name.to_owned()), path)));
    }
    Ok(all)
}

/// A file, or those in a folder by their names, hidden ones aside.
fn expand(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(path, 0, &mut files)?;
    if files.is_empty() {
        bail!("{}: no file in it", path.display());
    }
    Ok(files)
}

fn walk(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    if depth >= DEPTH_MAX {
        bail!("{}: more than {DEPTH_MAX} folders deep, name it itself", path.display());
    }
    let cannot = || format!("cannot read {}", path.display());
    let mut inside = Vec::new();
    for entry in path.read_dir().with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            inside.push(entry.path());
        }
    }
    inside.sort();
    inside.iter().try_for_each(|path| walk(path, depth + 1, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_group_begin_it_or_continue_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["2.txt", "1.txt", ".hidden"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let inside = folder.path().display().to_string();
        let words = [format!("old={inside}"), "b=c.txt".to_owned(), "./x=y.txt".to_owned()];
        let found = wanted(&[PathBuf::from("z.txt")], &words).unwrap();
        let found: Vec<_> =
            found.iter().map(|(name, path)| (name.as_deref(), path.file_name().unwrap())).collect();
        let expected = [
            (None, "z.txt"),
            (Some("old"), "1.txt"),
            (Some("old"), "2.txt"),
            (Some("b"), "c.txt"),
            (Some("b"), "x=y.txt"),
        ];
        assert!(
            found.iter().zip(expected).all(|(a, b)| (a.0, a.1.to_str().unwrap()) == b),
            "{found:?}"
        );
    }

    #[test]
    fn a_group_without_a_name_or_an_empty_folder_is_refused() {
        let refused = |word: &str| wanted(&[], &[word.to_owned()]).unwrap_err().to_string();
        assert!(refused("a.txt").contains("expected NAME=FILE"));
        assert!(refused("=a.txt").contains("a name is missing"));
        let folder = tempfile::tempdir().unwrap();
        let error = wanted(&[folder.path().to_owned()], &[]).unwrap_err().to_string();
        assert!(error.contains("no file in it"), "{error}");
    }

    #[test]
    fn nothing_in_a_folder_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("1/2/3");
        std::fs::create_dir_all(deep.join("4")).unwrap();
        for place in [&deep, &deep.join("4")] {
            std::fs::write(place.join("r.txt"), "x").unwrap();
        }
        assert_eq!(wanted(&[folder.path().join("1")], &[]).unwrap().len(), 2);
        let error = wanted(&[folder.path().to_owned()], &[]).unwrap_err().to_string();
        assert!(error.contains("1/2/3/4: more than 4 folders deep"), "{error}");
    }
}
