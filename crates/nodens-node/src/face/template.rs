//! `Corefile.base` and its `__PILLAR__` words → the Corefile, octet for octet as node-cache.

use super::KubeDns;
use std::fmt::Write;
use thiserror::Error;

/// Where node-cache puts the servers for names outside the cluster.
const UPSTREAM_SERVERS: &str = "__PILLAR__UPSTREAM__SERVERS__";
/// Where it puts the address of the service that `-upstreamsvc` names.
const CLUSTER_DNS: &str = "__PILLAR__CLUSTER__DNS__";
/// Where it puts the addresses of `-localip`.
const LOCAL_DNS: &str = "__PILLAR__LOCAL__DNS__";
/// A second word for local addresses; the first stands for all of them.
const DNS_SERVER: &str = "__PILLAR__DNS__SERVER__";
/// Where it puts `-prometheus-listen-address`.
const PROMETHEUS: &str = "__PROMETHEUS__ENDPOINT__";

/// The one way to write `force_tcp` that node-cache takes out for servers of the ConfigMap.
const TCP_BLOCK: &str =
    "\n    forward . __PILLAR__UPSTREAM__SERVERS__ {\n            force_tcp\n    }\n";
/// What it puts there.
const UDP_BLOCK: &str = "\n    forward . __PILLAR__UPSTREAM__SERVERS__\n";

/// The servers for names outside the cluster where the ConfigMap names none.
const SYSTEM_SERVERS: &str = "/etc/resolv.conf";
/// Seconds that answers for stub domains are cached.
const STUB_TTL: u32 = 30;

/// What is put into a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The upstream service: addresses with spaces between them; empty if not known (yet).
    pub cluster_dns: String,
    /// `-localip` as given: addresses with commas between them.
    pub local: String,
    /// `-dns.port`, for stub domains.
    pub port: u16,
    /// `-prometheus-listen-address`.
    pub prometheus: String,
    /// What the ConfigMap `kube-dns` says.
    pub kube_dns: KubeDns,
}

/// A Corefile made from a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The Corefile.
    pub text: String,
    /// The same with the word for the upstream service left in: that it is elsewhere makes no other Corefile.
    pub known_as: String,
    /// The servers for names outside the cluster, as in the Corefile.
    pub upstream_servers: String,
    /// Whether servers of the ConfigMap went into a template that has not the block with
    /// `force_tcp` which they replace, so that the template's own transport stands.
    pub transport_kept: bool,
}

/// Why there is no Corefile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The template wants the upstream service, and its address is not known.
    #[error("the template wants {CLUSTER_DNS}, and the address of that service is not known")]
    NoClusterDns,
}

/// Whether `template` cannot be rendered without [`Values::cluster_dns`].
pub fn wants_cluster_dns(template: &str) -> bool {
    template.contains(CLUSTER_DNS)
}

/// Puts `values` into `template`.
///
/// # Errors
/// [`TemplateError::NoClusterDns`]; node-cache would write `<nil>`.
pub fn render(template: &str, values: &Values) -> Result<Rendered, TemplateError> {
    if values.cluster_dns.is_empty() && wants_cluster_dns(template) {
        return Err(TemplateError::NoClusterDns);
    }
    let known_as =
        fill_in(template, &Values { cluster_dns: CLUSTER_DNS.to_owned(), ..values.clone() });
    Ok(Rendered { known_as: known_as.text, ..fill_in(template, values) })
}

fn fill_in(template: &str, values: &Values) -> Rendered {
    let custom = values.kube_dns.upstream_nameservers.join(" ");
    let mut text = template.to_owned();
    let mut transport_kept = false;
    if !custom.is_empty() {
        text = text.replace(TCP_BLOCK, &UDP_BLOCK.replace(UPSTREAM_SERVERS, &custom));
        transport_kept = text.contains(UPSTREAM_SERVERS);
    }
    let upstream_servers = if custom.is_empty() { SYSTEM_SERVERS.to_owned() } else { custom };
    let local = values.local.replace(',', " ");
    // One after the other, as node-cache does it: what a value brings in may hold a later word.
    let words = [
        (UPSTREAM_SERVERS, &*upstream_servers),
        (CLUSTER_DNS, &values.cluster_dns),
        (LOCAL_DNS, &local),
        (DNS_SERVER, ""),
        (PROMETHEUS, &values.prometheus),
    ];
    for (word, value) in words {
        text = text.replace(word, value);
    }
    for (domain, servers) in &values.kube_dns.stub_domains {
        // Writing to a String cannot fail.
        _ = write!(
            text,
            "\n{domain}:{port} {{\n    errors\n    cache {STUB_TTL}\n    bind {local}\n    forward . {servers}\n}}\n",
            port = values.port,
            servers = servers.join(" "),
        );
    }
    Rendered { text, known_as: String::new(), upstream_servers, transport_kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values {
            cluster_dns: "10.96.0.11".into(),
            local: "169.254.20.10,10.96.0.10".into(),
            port: 53,
            prometheus: ":9253".into(),
            kube_dns: KubeDns::default(),
        }
    }

    #[test]
    fn every_word_is_replaced() {
        let template = "bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__\n\
                        forward . __PILLAR__CLUSTER__DNS__\nforward . __PILLAR__UPSTREAM__SERVERS__\n\
                        prometheus __PROMETHEUS__ENDPOINT__\n__PILLAR__DNS__DOMAIN__\n";
        let rendered = render(template, &values()).unwrap();
        assert_eq!(
            rendered.text,
            "bind 169.254.20.10 10.96.0.10 \nforward . 10.96.0.11\nforward . /etc/resolv.conf\n\
             prometheus :9253\n__PILLAR__DNS__DOMAIN__\n"
        );
        assert_eq!(rendered.upstream_servers, "/etc/resolv.conf");
        assert!(!rendered.transport_kept);
        let known_as = rendered.text.replace("10.96.0.11", CLUSTER_DNS);
        assert_eq!(rendered.known_as, known_as);
    }

    #[test]
    fn an_unknown_service_is_an_error_only_where_it_is_wanted() {
        let nothing = Values { cluster_dns: String::new(), ..values() };
        let wanted = render("forward . __PILLAR__CLUSTER__DNS__\n", &nothing);
        assert_eq!(wanted, Err(TemplateError::NoClusterDns));
        assert!(render("forward . 192.0.2.1\n", &nothing).is_ok());
    }

    #[test]
    fn servers_of_the_configmap_are_asked_over_udp() {
        let mut values = values();
        values.kube_dns.upstream_nameservers = vec!["192.0.2.1".into(), "192.0.2.2:5353".into()];
        let tcp = format!(".:53 {{{TCP_BLOCK}}}\n");
        let rendered = render(&tcp, &values).unwrap();
        assert_eq!(rendered.text, ".:53 {\n    forward . 192.0.2.1 192.0.2.2:5353\n}\n");
        assert!(!rendered.transport_kept);
        // Other indentation is not recognised, and said to be kept.
        let other = ".:53 {\n  forward . __PILLAR__UPSTREAM__SERVERS__ {\n   force_tcp\n  }\n}\n";
        let rendered = render(other, &values).unwrap();
        assert!(rendered.text.contains("force_tcp") && rendered.transport_kept);
    }

    #[test]
    fn stub_domains_are_blocks_of_their_own() {
        let mut values = values();
        let servers = vec!["192.0.2.1".to_owned(), "192.0.2.2:10053".to_owned()];
        values.kube_dns.stub_domains = [("acme.local".to_owned(), servers)].into();
        assert_eq!(
            render(".:53 {\n}\n", &values).unwrap().text,
            ".:53 {\n}\n\nacme.local:53 {\n    errors\n    cache 30\n    \
             bind 169.254.20.10 10.96.0.10\n    forward . 192.0.2.1 192.0.2.2:10053\n}\n"
        );
    }
}
