use super::*;
use crate::choice::Choice;
use std::collections::BTreeSet;

#[test]
fn every_setting_has_a_name_of_its_own_and_two_levels_that_it_takes() {
    let names: BTreeSet<&str> = knobs().iter().map(|knob| &*knob.name).collect();
    assert_eq!(names.len(), knobs().len());
    for knob in knobs() {
        let choice = Choice::of(knob).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(choice.low, choice.high, "{}", knob.name);
        assert_eq!(Choice::parse(&knob.name).unwrap(), choice);
        assert!(!knob.about.is_empty() && !knob.default.is_empty(), "{}", knob.name);
        for claim in knob.claims {
            assert!(!claim.value.is_empty() && !claim.says.is_empty(), "{}", knob.name);
        }
    }
}

#[test]
fn more_than_thirty_can_be_changed_in_a_network_namespace() {
    let inside = knobs().iter().filter(|knob| knob.space == Space::Namespace);
    assert!(inside.count() >= 30);
}

#[test]
fn every_setting_of_the_page_on_tcp_queries_is_there() {
    let page =
        "net.ipv4.ip_local_port_range fs.file-max fs.nr_open net.core.rmem_max net.core.wmem_max
        net.core.rmem_default net.core.wmem_default net.ipv4.tcp_rmem net.ipv4.tcp_wmem
        net.ipv4.tcp_congestion_control net.ipv4.tcp_mtu_probing net.core.default_qdisc
        net.core.optmem_max net.ipv4.udp_mem net.ipv4.tcp_mem net.ipv4.tcp_fin_timeout
        net.ipv4.tcp_low_latency net.ipv4.tcp_max_tw_buckets net.ipv4.tcp_no_metrics_save
        net.ipv4.tcp_orphan_retries net.ipv4.tcp_sack net.ipv4.tcp_synack_retries
        net.core.netdev_max_backlog net.ipv4.tcp_max_syn_backlog net.core.somaxconn
        net.ipv4.tcp_tw_reuse net.ipv4.tcp_timestamps net.ipv4.tcp_abort_on_overflow
        net.ipv4.tcp_tso_win_divisor qdisc governor irq_affinity";
    for name in page.split_whitespace() {
        let knob = Knob::find(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(name == "net.core.somaxconn" || !knob.claims.is_empty(), "{name}");
    }
}
