//! The directives in the order in which they act: that of CoreDNS 1.14.7, whatever the order in
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

    /// The order documented for CoreDNS 1.14.7.
    const COREDNS: &str = "root metadata geoip cancel proxyproto quic grpc_server https https3 timeouts \
        multisocket reload nsid bufsize bind debug trace ready health pprof shed \
        prometheus errors log dnstap local dns64 any chaos loadbalance tsig rewrite \
        autopath acl cache header dnssec tls minimal template transfer hosts route53 \
        azure clouddns k8s_external kubernetes file auto secondary etcd loop forward \
        grpc erratic whoami on sign view nomad";

    #[test]
    fn the_order_is_that_of_coredns() {
        let ours: Vec<_> =
            DIRECTIVES.iter().map(|spec| spec.name).filter(|name| !OWN.contains(name)).collect();
        assert_eq!(ours.join(" "), COREDNS);
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
