//! The directives in the order in which they act: that of CoreDNS 1.15.0, whatever the order in
//! the Corefile, with our own among them.

use crate::config::BlockBuilder;
use crate::handlers;
use nodens_corefile::{Directive, Error};

/// Reads one occurrence of a directive and adds what it asks for to the block.
pub type Setup = fn(&Directive, &mut BlockBuilder<'_>) -> Result<(), Error>;

/// A directive.
pub struct Spec {
    /// Its name in a Corefile.
    pub name: &'static str,
    /// How to read it; `None` if Nodens does not have it yet.
    pub setup: Option<Setup>,
}

const fn has(name: &'static str, setup: Setup) -> Spec {
    Spec { name, setup: Some(setup) }
}

const fn lacks(name: &'static str) -> Spec {
    Spec { name, setup: None }
}

/// Handlers that answer questions of other classes than IN.
pub const CHAOS_CLASS_DIRECTIVES: &[&str] = &["chaos", "forward"];

/// Directives that CoreDNS does not have.
pub const OWN: &[&str] = &["search"];

/// Every directive, in order.
pub static DIRECTIVES: &[Spec] = &[
    has("root", handlers::root::setup),
    has("metadata", handlers::metadata::setup),
    lacks("geoip"),
    has("cancel", handlers::cancel::setup),
    lacks("proxyproto"),
    lacks("quic"),
    lacks("grpc_server"),
    lacks("https"),
    lacks("https3"),
    has("timeouts", handlers::timeouts::setup),
    has("multisocket", handlers::multisocket::setup),
    has("reload", handlers::reload::setup),
    has("nsid", handlers::nsid::setup),
    has("bufsize", handlers::bufsize::setup),
    has("bind", handlers::bind::setup),
    has("debug", handlers::debug::setup),
    lacks("trace"),
    has("ready", handlers::ready::setup),
    has("health", handlers::health::setup),
    lacks("pprof"),
    lacks("shed"),
    has("prometheus", handlers::prometheus::setup),
    has("errors", handlers::errors::setup),
    has("log", handlers::log::setup),
    has("dnstap", handlers::dnstap::setup),
    has("local", handlers::local::setup),
    has("dns64", handlers::dns64::setup),
    lacks("siit"),
    has("any", handlers::any::setup),
    has("chaos", handlers::chaos::setup),
    has("loadbalance", handlers::loadbalance::setup),
    lacks("tsig"),
    has("rewrite", handlers::rewrite::setup),
    has("autopath", handlers::autopath::setup),
    has("acl", handlers::acl::setup),
    has("search", handlers::search::setup),
    has("cache", handlers::cache::setup),
    has("header", handlers::header::setup),
    lacks("dnssec"),
    lacks("tls"),
    has("minimal", handlers::minimal::setup),
    has("template", handlers::template::setup),
    has("transfer", handlers::transfer::setup),
    lacks("dynupdate"),
    has("hosts", handlers::hosts::setup),
    lacks("route53"),
    lacks("azure"),
    lacks("clouddns"),
    has("k8s_external", handlers::k8s_external::setup),
    has("kubernetes", handlers::kubernetes::setup),
    lacks("file"),
    lacks("auto"),
    lacks("secondary"),
    lacks("etcd"),
    has("loop", handlers::loops::setup),
    has("forward", handlers::forward::setup),
    lacks("grpc"),
    has("erratic", handlers::erratic::setup),
    has("whoami", handlers::whoami::setup),
    lacks("on"),
    lacks("sign"),
    has("view", handlers::view::setup),
    lacks("nomad"),
];

/// The directive called `name`.
pub fn find(name: &str) -> Option<&'static Spec> {
    DIRECTIVES.iter().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// The list of the pinned CoreDNS. `cargo xtask acceptance` compares it with CoreDNS's own, and
    /// writes it with `--write`.
    const COREDNS: &str = include_str!("../testdata/coredns-directives");

    #[test]
    fn the_order_is_that_of_coredns() {
        let theirs: Vec<_> =
            COREDNS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        let ours: Vec<_> =
            DIRECTIVES.iter().map(|spec| spec.name).filter(|name| !OWN.contains(name)).collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn what_only_coredns_has_is_named_as_such() {
        for spec in DIRECTIVES.iter().filter(|spec| spec.setup.is_none()) {
            let error = Bench::try_new(&format!(". {{\n {}\n}}", spec.name)).err().unwrap();
            let wanted = format!(
                "directive '{}' is known to CoreDNS, but Nodens does not have it yet",
                spec.name
            );
            assert!(error.to_string().contains(&wanted), "{error}");
        }
    }

    #[test]
    fn a_block_without_a_key_has_directives_too() {
        let error = |text: &str| Bench::try_new(text).err().map(|error| error.to_string());
        for text in
            ["{\n log\n bogus x\n}\n. {\n whoami\n}", ". {\n whoami\n}\n\"\" {\n\n bogus\n}"]
        {
            let error = error(text).unwrap();
            assert!(error.contains(":2: Unknown directive 'bogus'"), "{error}");
        }
        // Nobody looks at what stands behind a name, or whether Nodens has it.
        assert_eq!(error("{\n template\n geoip\n}\n. {\n whoami\n}"), None);
    }
}
