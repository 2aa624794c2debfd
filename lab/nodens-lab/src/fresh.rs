//! Names that are free, taken in one step: two programs that look at once never get the same.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Numbers tried before it is taken for a fault of the folder.
const NUMBERS: u32 = 100_000;

/// Makes the empty file `STEM.json` in `folder`, or with a number behind the stem if that or its page
/// (`.html`) is there.
pub(crate) fn file(folder: &Path, stem: &str) -> io::Result<PathBuf> {
    first(folder, stem, |path| {
        let path = path.with_file_name(format!(
            "{}.json",
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        if path.with_extension("html").exists() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        std::fs::File::create_new(&path).map(|_| path)
    })
}

/// Makes the folder `name` in `parent`, or with a number behind the name if that is there.
pub(crate) fn folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    first(parent, name, |path| std::fs::create_dir(&path).map(|()| path))
}

fn first(
    folder: &Path,
    name: &str,
    make: impl Fn(PathBuf) -> io::Result<PathBuf>,
) -> io::Result<PathBuf> {
    let numbers = (2..NUMBERS).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.to_owned()).chain(numbers) {
        match make(folder.join(name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nobody_gets_a_name_that_another_has() {
        const EACH: usize = 20;
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path();
        std::fs::write(at.join("r-2.html"), "a page of an old result").unwrap();
        let all: BTreeSet<PathBuf> = std::thread::scope(|scope| {
            let take = || (0..EACH).map(|_| file(at, "r").unwrap()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.len(), 4 * EACH);
        assert!(all.contains(&at.join("r.json")) && !all.contains(&at.join("r-2.json")));
        assert_eq!(folder(at, "f").unwrap(), at.join("f"));
        assert_eq!(folder(at, "f").unwrap(), at.join("f-2"));
        assert_eq!(folder(&at.join("none"), "f").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
