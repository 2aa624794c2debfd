//! What a Corefile may reach outside its own text.

use std::io;
use std::path::{Path, PathBuf};

/// Environment and files, injected so that parsing is a pure function of its arguments.
pub trait Sources {
    /// The value of an environment variable; `None` reads as the empty string.
    fn environment(&self, name: &str) -> Option<String>;

    /// The text of a file. Octets that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// Whatever the system says, with [`io::ErrorKind::IsADirectory`] for a directory.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// The files that a pattern names, sorted, as absolute paths: `*` and `?` match within one
    /// path component, also names that start with a dot. A pattern without wildcards names itself
    /// if it exists. What cannot be read matches nothing.
    ///
    /// # Errors
    /// A pattern that is malformed.
    fn glob(&self, pattern: &str) -> Result<Vec<PathBuf>, PatternError>;
}

/// A glob pattern that is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(pub String);

/// The process's environment and file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSources;

impl Sources for SystemSources {
    fn environment(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        if std::fs::metadata(path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        }
        Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
    }

    fn glob(&self, pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        if !pattern.contains(['*', '?', '[']) {
            let path = PathBuf::from(pattern);
            // A dangling link counts as found: the error is then about reading it.
            let found = path.symlink_metadata().is_ok();
            return Ok(found.then(|| absolute(path)).into_iter().collect());
        }
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        let paths =
            glob::glob_with(pattern, options).map_err(|error| PatternError(error.to_string()))?;
        Ok(paths.flatten().map(absolute).collect())
    }
}

/// No variable is set and no file exists.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSources;

impl Sources for NoSources {
    fn environment(&self, _name: &str) -> Option<String> {
        None
    }

    fn read(&self, _path: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_globbed_in_order_with_dot_files() {
        let folder = std::env::temp_dir().join(format!("nodens-corefile-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        for name in ["b.conf", "a.conf", ".c.conf", "sub/d.conf", "other"] {
            std::fs::write(folder.join(name), "log\n").unwrap();
        }
        let glob = |pattern: &str| {
            SystemSources
                .glob(&format!("{}/{pattern}", folder.display()))
                .unwrap()
                .iter()
                .map(|path| path.strip_prefix(&folder).unwrap().display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(glob("*.conf"), [".c.conf", "a.conf", "b.conf"]);
        assert_eq!(glob("?.conf"), ["a.conf", "b.conf"]);
        assert_eq!(glob("*/d.conf"), ["sub/d.conf"]);
        assert_eq!(glob("other"), ["other"]);
        assert_eq!(glob("missing"), [""; 0]);
        assert_eq!(glob("*.missing"), [""; 0]);
        assert_eq!(SystemSources.read(&folder.join("other")).unwrap(), "log\n");
        let error = SystemSources.read(&folder).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        std::fs::write(folder.join("bad"), b"a\xffb").unwrap();
        assert_eq!(SystemSources.read(&folder.join("bad")).unwrap(), "a\u{fffd}b");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
