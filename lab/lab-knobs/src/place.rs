//! Where a setting is changed: here, or in a network namespace.

use crate::tools;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Where a setting is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// In the namespace of this process.
    Host,
    /// In a network namespace, by its name.
    Namespace(String),
}

impl Place {
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Host => None,
            Self::Namespace(name) => Some(name),
        }
    }

    /// Calls `work` inside: on a thread of its own, which ends with it.
    pub(crate) fn enter<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let Self::Namespace(name) = self else { return work() };
        let file = fs::File::open(tools::namespace_file(name))?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                work()
            });
            inside.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })
    }

    pub(crate) fn read(&self, path: &Path) -> Result<String, String> {
        match self {
            Self::Namespace(name) if path.starts_with("/sys") => {
                tools::inside(name, &["cat", &path.to_string_lossy()], None)
            }
            _ => self.enter(|| fs::read_to_string(path)).map_err(|error| error.to_string()),
        }
    }

    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        match self {
            Self::Namespace(name) if path.starts_with("/sys") => {
                tools::inside(name, &["tee", &path.to_string_lossy()], Some(text)).map(drop)
            }
            // A kernel's file takes a value with one system call, and is neither made nor cut.
            _ => self
                .enter(|| {
                    let mut file = fs::OpenOptions::new().write(true).open(path)?;
                    io::Write::write_all(&mut file, text.as_bytes())
                })
                .map_err(|error| error.to_string()),
        }
    }

    pub(crate) fn list(&self, folder: &Path) -> Result<Vec<String>, String> {
        let Self::Namespace(name) = self else {
            let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
            let names = entries.flatten().map(|entry| entry.file_name().into_string());
            return Ok(names.flatten().collect());
        };
        let text = tools::inside(name, &["ls", &folder.to_string_lossy()], None)?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}
