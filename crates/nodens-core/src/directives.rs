//! The directives in the order in which they act: that of CoreDNS 1.15.0, whatever the order in
//! the Corefile, with our own among them.

use crate::handler::Spec;
use crate::handlers;

/// Directives that CoreDNS does not have.
pub const OWN: &[&str] = &["ddr", "rrl", "search"];

/// Every directive, in order.
pub static DIRECTIVES: &[Spec] = &[
    handlers::root::SPEC,
    handlers::metadata::SPEC,
    Spec::lacking("geoip"),
    handlers::cancel::SPEC,
    handlers::proxyproto::SPEC,
    handlers::quic::SPEC,
    handlers::grpc_server::SPEC,
    handlers::https::SPEC,
    handlers::https3::SPEC,
    handlers::timeouts::SPEC,
    handlers::multisocket::SPEC,
    handlers::reload::SPEC,
    handlers::nsid::SPEC,
    handlers::bufsize::SPEC,
    handlers::bind::SPEC,
    handlers::debug::SPEC,
    Spec::lacking("trace"),
    handlers::ready::SPEC,
    handlers::health::SPEC,
    Spec::lacking("pprof"),
    handlers::shed::SPEC,
    handlers::prometheus::SPEC,
    handlers::errors::SPEC,
    handlers::log::SPEC,
    handlers::dnstap::SPEC,
    handlers::local::SPEC,
    handlers::dns64::SPEC,
    Spec::lacking("siit"),
    handlers::any::SPEC,
    handlers::chaos::SPEC,
    handlers::loadbalance::SPEC,
    handlers::tsig::SPEC,
    handlers::rewrite::SPEC,
    handlers::autopath::SPEC,
    handlers::rrl::SPEC,
    handlers::acl::SPEC,
    handlers::ddr::SPEC,
    handlers::search::SPEC,
    handlers::cache::SPEC,
    handlers::header::SPEC,
    handlers::dnssec::SPEC,
    handlers::tls::SPEC,
    handlers::minimal::SPEC,
    handlers::template::SPEC,
    handlers::transfer::SPEC,
    handlers::dynupdate::SPEC,
    handlers::hosts::SPEC,
    Spec::lacking("route53"),
    Spec::lacking("azure"),
    Spec::lacking("clouddns"),
    handlers::k8s_external::SPEC,
    handlers::kubernetes::SPEC,
    handlers::file::SPEC,
    handlers::auto::SPEC,
    handlers::secondary::SPEC,
    Spec::lacking("etcd"),
    handlers::loops::SPEC,
    handlers::forward::SPEC,
    handlers::grpc::SPEC,
    handlers::erratic::SPEC,
    handlers::whoami::SPEC,
    Spec::lacking("on"),
    handlers::sign::SPEC,
    handlers::view::SPEC,
    Spec::lacking("nomad"),
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
