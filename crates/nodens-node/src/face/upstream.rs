//! What `-upstreamsvc` names, in every form.

use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Octets of a label (RFC 1035 section 2.3.4).
const LABEL_LEN_MAX: usize = 63;

/// The service of the central DNS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Addresses, with or without port, as in `10.96.0.11` or `10.96.0.11,[fd00::a]:53`.
    Literal(Vec<String>),
    /// A Kubernetes Service, `name` or `namespace/name`.
    Kubernetes {
        /// Its namespace; `None` for that of the pod.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// A host name, with at least one dot.
    Host(String),
}

/// Why the environment does not name the address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoEnvironment {
    /// There is no such variable.
    #[error("the environment has no {0}")]
    Unset(String),
    /// The variable holds no address, as that of a headless service does not.
    #[error("{variable} is {value:?}, which is not an address")]
    NotAnAddress {
        /// The variable.
        variable: String,
        /// What it holds.
        value: String,
    },
}

impl Service {
    /// Understands the value of `-upstreamsvc`.
    pub fn parse(text: &str) -> Self {
        let literals: Vec<_> = text.split(',').map(|part| part.trim().to_owned()).collect();
        if literals.iter().all(|part| is_address(part)) {
            return Self::Literal(literals);
        }
        match text.split_once('/') {
            Some((namespace, name)) => Self::Kubernetes {
                namespace: Some(namespace.to_owned()).filter(|name| !name.is_empty()),
                name: name.to_owned(),
            },
            // The name of a Service has no dots.
            None if text.contains('.') => Self::Host(text.to_owned()),
            None => Self::Kubernetes { namespace: None, name: text.to_owned() },
        }
    }

    /// Whether the text can name something: labels of letters, digits, hyphens and underscores. Kubernetes has none with
    /// underscores, but the variable of [`Service::from_environment`] is found with them, too.
    pub fn can_exist(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Kubernetes { namespace, name } => {
                is_label(name) && namespace.as_deref().is_none_or(is_label)
            }
            Self::Host(name) => name.strip_suffix('.').unwrap_or(name).split('.').all(is_label),
        }
    }

    /// The address that the kubelet put into the environment of the pod for a Service of its own
    /// namespace, read with `get`.
    ///
    /// # Errors
    /// The variable, and what is wrong with it. A Service of a named namespace is not looked for:
    /// the environment does not say which namespace it is about.
    pub fn from_environment(
        name: &str,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<IpAddr, NoEnvironment> {
        let variable = variable(name);
        let Some(value) = get(&variable) else { return Err(NoEnvironment::Unset(variable)) };
        value.parse().map_err(|_| NoEnvironment::NotAnAddress { variable, value })
    }
}

/// `kube-dns-upstream` → `KUBE_DNS_UPSTREAM_SERVICE_HOST`.
fn variable(name: &str) -> String {
    format!("{}_SERVICE_HOST", name.replace('-', "_").to_uppercase())
}

fn is_label(text: &str) -> bool {
    let is_part = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    (1..=LABEL_LEN_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_understood() {
        let named = |namespace: Option<&str>, name: &str| Service::Kubernetes {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(Service::parse("kube-dns-upstream"), named(None, "kube-dns-upstream"));
        assert_eq!(Service::parse("kube-system/kube-dns"), named(Some("kube-system"), "kube-dns"));
        assert_eq!(Service::parse("/kube-dns"), named(None, "kube-dns"));
        let two = vec!["10.96.0.11".to_owned(), "[fd00::a]:5353".to_owned()];
        assert_eq!(Service::parse("10.96.0.11, [fd00::a]:5353"), Service::Literal(two));
        assert_eq!(Service::parse("fd00::a"), Service::Literal(vec!["fd00::a".to_owned()]));
        assert_eq!(Service::parse("dns.example.org"), Service::Host("dns.example.org".to_owned()));
    }

    #[test]
    fn names_that_no_service_can_have_are_known() {
        for text in [
            "kube-dns",
            "kube-system/kube-dns",
            "/kube-dns",
            "10.96.0.11",
            "fd00::a",
            "dns.example.org.",
        ] {
            assert!(Service::parse(text).can_exist(), "{text}");
        }
        for text in [
            "",
            "/",
            "ns/",
            "ns/a/b",
            "a b/c",
            " kube-dns",
            "10.96.0.10,",
            "kube-dns,10.96.0.10",
            ".",
            "dns..org",
            "dns .org",
            "dns.org\u{b}",
            "ns/kube\u{a0}dns",
        ] {
            assert!(!Service::parse(text).can_exist(), "{text:?}");
        }
        assert!(!Service::parse(&"a".repeat(64)).can_exist());
    }

    #[test]
    fn the_environment_is_read_as_node_cache_reads_it() {
        let get = |name: &str| match name {
            "KUBE_DNS_UPSTREAM_SERVICE_HOST" => Some("10.96.0.11".to_owned()),
            "HEADLESS_SERVICE_HOST" => Some("None".to_owned()),
            _ => None,
        };
        let found = Service::from_environment("kube-dns-upstream", get);
        assert_eq!(found, Ok("10.96.0.11".parse().unwrap()));
        let unset = Service::from_environment("kube-dns", get).unwrap_err();
        assert_eq!(unset.to_string(), "the environment has no KUBE_DNS_SERVICE_HOST");
        let none = Service::from_environment("headless", get).unwrap_err();
        assert!(none.to_string().contains("\"None\", which is not an address"), "{none}");
    }
}
