use super::*;

#[test]
fn settings_are_found_by_their_own_names_and_by_those_of_sysctls() {
    assert_eq!(Knob::find("tcp_sack").unwrap().path(), Some("net.ipv4.tcp_sack"));
    assert_eq!(Knob::find("net.ipv4.tcp_sack").unwrap().name, "tcp_sack");
    assert_eq!(Knob::find("fs.file-max").unwrap().name, "file-max");
}

#[test]
fn an_unknown_name_is_refused_with_those_that_are_like_it() {
    let rows = [
        ("tcp_sak", "no setting is called `tcp_sak`; similar are tcp_sack, tcp_dsack"),
        ("net.ipv4.tcp_abort_on_overflo", "similar are tcp_abort_on_overflow"),
        ("backlog", "similar are netdev_max_backlog, socket_backlog, tcp_backlog_ack_defer"),
        ("colour", "no setting is called `colour`"),
        ("", "no setting is called ``"),
    ];
    for (name, expected) in rows {
        let error = Knob::find(name).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    assert!(!Knob::find("colour").unwrap_err().to_string().contains("similar"));
}

#[test]
fn values_are_those_that_a_setting_takes() {
    let rows = [
        ("tcp_sack", "0", true),
        ("tcp_sack", "2", false),
        ("tcp_sack", "", false),
        ("tcp_sack", "1\n0", false),
        ("tcp_sack", "present", true),
        ("tcp_rmem", "4096 131072 6291456", true),
        ("tcp_rmem", "4096\t131072  6291456", true),
        ("tcp_rmem", "4096 131072", false),
        ("tcp_rmem", "4096 6291456 131072", false),
        ("ip_local_port_range", "2048 65500", true),
        ("ip_local_port_range", "2048 65536", false),
        ("ip_local_port_range", "65500 2048", false),
        ("initcwnd", "none", true),
        ("initcwnd", "0", false),
        ("rps_cpus", "all", true),
        ("rps_cpus", "0-1,3", true),
        ("rps_cpus", "1-0", false),
        ("rps_cpus", "0-99999", false),
        ("rps_cpus", "ff,ff", false),
        ("governor", "performance", true),
        ("governor", "fast", false),
        ("file-max", "9223372036854775807", true),
        ("file-max", "9223372036854775808", false),
    ];
    for (name, text, taken) in rows {
        assert_eq!(Knob::find(name).unwrap().value(text).is_ok(), taken, "{name}={text}");
    }
    let rmem = Knob::find("tcp_rmem").unwrap();
    assert_eq!(rmem.value("1\t2   3").unwrap().as_str(), "1 2 3");
    assert_eq!(
        rmem.value("1 2").unwrap_err().to_string(),
        "tcp_rmem does not take `1 2`: expected three numbers of octets from 1 to 2147483647"
    );
}
