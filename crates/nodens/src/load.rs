//! Corefile on disk → configuration.

use crate::flags::Flags;
use nodens_core::config::BuildOptions;
use nodens_core::{Config, Shared};
use nodens_corefile::{Corefile, Error, SystemSources};
use sha2::{Digest, Sha512};
use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What is served where there is no Corefile: everything gets `whoami`, and a log line.
const BUILT_IN: &str = "{\n whoami\n log\n}\n";
const DEFAULT_FILE: &str = "Corefile";

/// A Corefile's text and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The name for messages.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
    /// The file, if it can be read again.
    pub(crate) path: Option<PathBuf>,
    /// What its blocks are known by, if not by the text: see [`BuildOptions::known_as`].
    pub(crate) known_as: Option<String>,
}

impl Source {
    fn new(name: &str, text: String, path: Option<PathBuf>) -> Self {
        Self { name: name.to_owned(), text, path, known_as: None }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The file cannot be read.
    #[error("loading Corefile: open {name}: {}", nodens_net::errno_text(.error))]
    Unreadable {
        /// The file.
        name: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// The text is not accepted; the message shows the line.
    #[error("{0}")]
    Rejected(String),
}

impl LoadError {
    /// One line, for logs.
    pub(crate) fn brief(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}

/// A Corefile that was read and parsed.
pub(crate) struct Loaded {
    /// The text.
    pub(crate) source: Source,
    /// The syntax tree.
    pub(crate) tree: Corefile,
    /// That of [`Source::known_as`].
    known_as: Option<Corefile>,
    /// SHA-512 of what the Corefile and its imports say, in hexadecimal.
    pub(crate) hash: String,
}

/// Finds and reads the Corefile that the flags name.
pub(crate) fn read(flags: &Flags) -> Result<Source, LoadError> {
    match flags.conf.as_str() {
        "stdin" => {
            let mut octets = Vec::new();
            std::io::stdin()
                .read_to_end(&mut octets)
                .map_err(|error| LoadError::Unreadable { name: "stdin".into(), error })?;
            Ok(Source::new("stdin", text_of(&octets), None))
        }
        "" => match read_file(DEFAULT_FILE) {
            Err(LoadError::Unreadable { error, .. })
                if error.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(Source::new("built-in", built_in(flags), None))
            }
            found => found,
        },
        name => read_file(name),
    }
}

fn read_file(name: &str) -> Result<Source, LoadError> {
    match std::fs::read(name) {
        Ok(bytes) => Ok(Source::new(name, text_of(&bytes), Some(PathBuf::from(name)))),
        Err(error) => Err(LoadError::Unreadable { name: name.to_owned(), error }),
    }
}

/// A Corefile's text, wherever it came from. Octets that are not UTF-8, as in a comment, become U+FFFD.
fn text_of(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Parses a Corefile that is to replace a running one. One without any server block is refused:
/// it is a file that is being written far more often than a wish to serve nothing.
pub(crate) fn parse_anew(source: Source) -> Result<Loaded, LoadError> {
    let loaded = parse(source)?;
    if loaded.tree.blocks.is_empty() {
        let text =
            format!("{}: no server block, expected one such as `.:53 {{ }}`", loaded.source.name);
        return Err(LoadError::Rejected(text));
    }
    Ok(loaded)
}

/// Parses what was read at start. One without any server block stands for the built-in
/// Corefile, as in CoreDNS.
pub(crate) fn parse_first(source: Source, flags: &Flags) -> Result<Loaded, LoadError> {
    let loaded = parse(source)?;
    if loaded.tree.blocks.is_empty() {
        nodens_core::config::check_unserved(&loaded.tree)
            .map_err(|error| rejected(&error, &loaded.source))?;
        return parse(Source { text: built_in(flags), known_as: None, ..loaded.source });
    }
    Ok(loaded)
}

fn built_in(flags: &Flags) -> String {
    format!(".:{} {BUILT_IN}", flags.port)
}

fn parse(source: Source) -> Result<Loaded, LoadError> {
    let tree = nodens_corefile::parse(&source.name, &source.text, &SystemSources)
        .map_err(|error| rejected(&error, &source))?;
    let known_as = source.known_as.as_ref();
    let known_as =
        known_as.and_then(|text| nodens_corefile::parse(&source.name, text, &SystemSources).ok());
    let hash = hash(&tree);
    Ok(Loaded { source, tree, known_as, hash })
}

/// Compiles what was parsed.
pub(crate) fn compile(
    loaded: &Loaded,
    flags: &Flags,
    shared: &Arc<Shared>,
) -> Result<Config, LoadError> {
    let ends_search_paths = flags.node.is_some();
    let search = flags.search.unwrap_or_default();
    let known_as = loaded.known_as.clone();
    let options = BuildOptions { ends_search_paths, search, known_as, ..build_options(flags.port) };
    nodens_core::build(&loaded.tree, &options, shared)
        .map_err(|error| rejected(&error, &loaded.source))
}

/// The message with the line it is about, read anew if it is in an imported file.
fn rejected(error: &Error, source: &Source) -> LoadError {
    let file = &*error.position.file;
    let text = if file == source.name {
        source.text.clone()
    } else {
        text_of(&std::fs::read(file).unwrap_or_default())
    };
    LoadError::Rejected(error.render(&text).trim_end().to_owned())
}

/// Of the tree printed back: imports are in it, comments and spaces are not.
fn hash(tree: &Corefile) -> String {
    Sha512::digest(tree.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn build_options(port: u16) -> BuildOptions {
    let mut interfaces: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for interface in if_addrs::get_if_addrs().unwrap_or_default() {
        let ip = interface.ip();
        interfaces.entry(interface.name).or_default().push(ip);
    }
    let mut secret = [0; 16];
    if getrandom::fill(&mut secret).is_err() {
        // No entropy source: time and process are better than nothing for a name to look for.
        secret.iter_mut().for_each(|byte| *byte = fastrand::u8(..));
    }
    let (hostname, lookup_host) = (hostname(), nodens_net::lookup::lookup_host);
    let node = node_name();
    let options = BuildOptions::default();
    BuildOptions { port, interfaces, hostname, secret, lookup_host, node, ..options }
}

/// What the cluster calls this host: what the pod is told, else the host's own name.
pub(crate) fn node_name() -> String {
    let node = std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
    node.unwrap_or_else(hostname)
}

/// What this host is called.
pub(crate) fn hostname() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = read.or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(text: &str) -> String {
        let source = Source::new("Corefile", text.into(), None);
        parse(source).unwrap().hash
    }

    #[test]
    fn only_what_means_something_changes_the_hash() {
        let hash = hash_of(".:53 {\n whoami\n}\n");
        assert_eq!(hash_of("# new\n.:53 {\n\n    whoami # here\n}"), hash);
        assert_eq!(hash_of("(a) {\n whoami\n}\n.:53 {\n import a\n}"), hash);
        assert_ne!(hash_of(".:54 {\n whoami\n}\n"), hash);
        assert_ne!(hash_of(".:53 {\n whoami\n any\n}\n"), hash);
    }
}
