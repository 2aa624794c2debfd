//! The ConfigMap `kube-dns`, mounted as a folder: `stubDomains` and `upstreamNameservers`.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The most servers that `upstreamNameservers` may name.
const UPSTREAM_MAX: usize = 3;
/// The most octets a domain name has in presentation format, as Kubernetes counts.
const DOMAIN_LEN_MAX: usize = 253;

/// What the ConfigMap says; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeDns {
    /// Domain → its servers, each an address with or without port. Sorted, so that the same
    /// ConfigMap always gives the same Corefile.
    pub stub_domains: BTreeMap<String, Vec<String>>,
    /// The servers for all other names, instead of the node's.
    pub upstream_nameservers: Vec<String>,
}

/// Why a folder says nothing.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The folder or a file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// What cannot be read.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// A file is not UTF-8.
    #[error("{0}: not UTF-8")]
    NotText(PathBuf),
    /// A value is not of the expected shape.
    #[error("{key}: {error}, expected {expected}")]
    NotJson {
        /// The file, which is the key of the ConfigMap.
        key: &'static str,
        /// What the reader says.
        error: serde_json::Error,
        /// What would fit.
        expected: &'static str,
    },
    /// A name that no domain can have.
    #[error(
        "stubDomains: invalid domain name {0:?}, expected one such as \"acme.local\" in lower case"
    )]
    Domain(String),
    /// Something that is no server.
    #[error("{key}: invalid nameserver {server:?}, expected an IP address, or one and a port")]
    Server {
        /// The file.
        key: &'static str,
        /// As written.
        server: String,
    },
    /// A domain that nobody could be asked about.
    #[error("stubDomains: no nameserver for {0:?}, expected at least one")]
    NoServer(String),
    /// More servers than allowed.
    #[error("upstreamNameservers: {0} entries, expected at most three")]
    TooMany(usize),
}

impl KubeDns {
    /// Reads the folder. Hidden files, other files and sub-folders do not matter, so that the
    /// links of a mounted ConfigMap do not.
    ///
    /// # Errors
    /// The first thing that does not fit; nothing of the folder is used then.
    pub fn read(folder: &Path) -> Result<Self, FolderError> {
        let unreadable = |error| FolderError::Unreadable { path: folder.to_owned(), error };
        // A folder that is gone is another thing than one without our files.
        std::fs::read_dir(folder).map_err(unreadable)?;
        let stub_domains = value(folder, "stubDomains")?;
        let upstream_nameservers = value(folder, "upstreamNameservers")?;
        Self::parse(stub_domains.as_deref(), upstream_nameservers.as_deref())
    }

    /// Reads the values of the two keys.
    ///
    /// # Errors
    /// As [`KubeDns::read`].
    pub fn parse(
        stub_domains: Option<&str>,
        upstream_nameservers: Option<&str>,
    ) -> Result<Self, FolderError> {
        let json = |key, expected| move |error| FolderError::NotJson { key, error, expected };
        let stub_domains: Option<BTreeMap<String, Option<Vec<String>>>> =
            stub_domains.map_or(Ok(None), serde_json::from_str).map_err(json(
                "stubDomains",
                "a JSON object of lists: {\"acme.local\": [\"192.0.2.1\"]}",
            ))?;
        let upstream_nameservers: Option<Vec<String>> = upstream_nameservers
            .map_or(Ok(None), serde_json::from_str)
            .map_err(json("upstreamNameservers", "a JSON list: [\"192.0.2.1\"]"))?;
        let named = stub_domains.unwrap_or_default().into_iter();
        let config = Self {
            stub_domains: named
                .map(|(name, servers)| (name, servers.unwrap_or_default()))
                .collect(),
            upstream_nameservers: upstream_nameservers.unwrap_or_default(),
        };
        config.check().map(|()| config)
    }

    fn check(&self) -> Result<(), FolderError> {
        for (domain, servers) in &self.stub_domains {
            if !is_domain(domain) {
                return Err(FolderError::Domain(domain.clone()));
            }
            if servers.is_empty() {
                return Err(FolderError::NoServer(domain.clone()));
            }
            check_servers("stubDomains", servers, 0)?;
        }
        let count = self.upstream_nameservers.len();
        if count > UPSTREAM_MAX {
            return Err(FolderError::TooMany(count));
        }
        check_servers("upstreamNameservers", &self.upstream_nameservers, 1)
    }
}

/// The file's text; `None` where there is no such file.
fn value(folder: &Path, key: &str) -> Result<Option<String>, FolderError> {
    let path = folder.join(key);
    match std::fs::read(&path) {
        Ok(octets) => match String::from_utf8(octets) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(FolderError::NotText(path)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FolderError::Unreadable { path, error }),
    }
}

/// A subdomain by RFC 1123 in lower case, as Kubernetes wants its names.
fn is_domain(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= DOMAIN_LEN_MAX && name.split('.').all(label)
}

fn check_servers(key: &'static str, servers: &[String], port_min: u16) -> Result<(), FolderError> {
    match servers.iter().find(|server| !is_server(server, port_min)) {
        None => Ok(()),
        Some(server) => Err(FolderError::Server { key, server: server.clone() }),
    }
}

/// `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` or `[2001:db8::1]:53`.
fn is_server(text: &str, port_min: u16) -> bool {
    if text.parse::<IpAddr>().is_ok() {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host,
        // More colons than one need brackets.
        None if host.contains(':') => return false,
        None => host,
    };
    let digits = port.bytes().all(|c| c.is_ascii_digit());
    let port = port.parse::<u16>().is_ok_and(|port| port >= port_min);
    host.parse::<IpAddr>().is_ok() && digits && port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_keys_are_read() {
        let stubs =
            r#"{"acme.local": ["192.0.2.1"], "b.test": ["192.0.2.2:10053", "2001:db8::1"]}"#;
        let config =
            KubeDns::parse(Some(stubs), Some(r#"["8.8.8.8","[2001:db8::2]:53"]"#)).unwrap();
        assert_eq!(config.stub_domains["b.test"], ["192.0.2.2:10053", "2001:db8::1"]);
        assert_eq!(config.upstream_nameservers, ["8.8.8.8", "[2001:db8::2]:53"]);
        assert_eq!(KubeDns::parse(None, None).unwrap(), KubeDns::default());
        assert_eq!(KubeDns::parse(Some("null"), Some(" null\n")).unwrap(), KubeDns::default());
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_would() {
        let error = |stubs: &str| KubeDns::parse(Some(stubs), None).unwrap_err().to_string();
        assert!(error("{").starts_with("stubDomains: EOF"), "{}", error("{"));
        assert!(error("[]").contains("expected a JSON object of lists"), "{}", error("[]"));
        assert!(error(r#"{"Acme": ["192.0.2.1"]}"#).contains("invalid domain name \"Acme\""));
        assert!(error(r#"{"a.": ["192.0.2.1"]}"#).contains("invalid domain name"));
        assert!(error(r#"{"a": []}"#).contains("no nameserver for \"a\""));
        for server in ["tls://192.0.2.1", "ns.test", "192.0.2.1:x", "::1:53:", "192.0.2.1:65536"] {
            let text = error(&format!(r#"{{"a": ["{server}"]}}"#));
            assert!(text.contains(&format!("invalid nameserver {server:?}")), "{text}");
        }
        let upstream = |text| KubeDns::parse(None, Some(text)).unwrap_err().to_string();
        assert!(upstream(r#"["192.0.2.1:0"]"#).contains("invalid nameserver"));
        assert!(upstream(r#"["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4"]"#).contains("4 entries"));
    }

    #[test]
    fn a_mounted_configmap_is_read_through_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("..2026")).unwrap();
        std::fs::write(at("..2026/stubDomains"), r#"{"a.test": ["192.0.2.1"]}"#).unwrap();
        std::os::unix::fs::symlink("..2026", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/stubDomains", at("stubDomains")).unwrap();
        std::fs::write(at("federations"), "anything").unwrap();
        assert_eq!(KubeDns::read(folder.path()).unwrap().stub_domains.len(), 1);
        std::fs::write(at("upstreamNameservers"), b"[\"\xff\"]").unwrap();
        assert!(matches!(KubeDns::read(folder.path()), Err(FolderError::NotText(_))));
        let gone = KubeDns::read(&at("gone")).unwrap_err();
        assert!(matches!(gone, FolderError::Unreadable { .. }), "{gone}");
    }
}
