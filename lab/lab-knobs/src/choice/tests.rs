use super::*;

#[test]
fn users_name_settings_and_values() {
    let rows = [
        ("tcp_sack", "tcp_sack", "present", "0"),
        ("net.ipv4.tcp_sack", "tcp_sack", "present", "0"),
        ("tcp_sack=1,0", "tcp_sack", "1", "0"),
        ("tcp_rmem=4096 4096 4096,1 2 3", "tcp_rmem", "4096 4096 4096", "1 2 3"),
        ("client:tcp_sack=1,0", "client:tcp_sack", "1", "0"),
        ("client:ip_local_port_range", "ip_local_port_range", "present", "2048 65500"),
        ("sysctl:net.ipv4.tcp_sack=1,7", "tcp_sack", "1", "7"),
        ("sysctl:net.ipv4.tcp_app_win=31,0", "net.ipv4.tcp_app_win", "31", "0"),
        ("sysctl:net.ipv4.conf.eth0/1.rp_filter=0,1", "net.ipv4.conf.eth0/1.rp_filter", "0", "1"),
        ("sysctl:net/ipv4/conf/eth0.1/rp_filter=0,1", "net.ipv4.conf.eth0/1.rp_filter", "0", "1"),
        ("server:threads=1,2", "server:threads", "1", "2"),
        ("qdisc=noqueue,fq maxrate 8gbit", "qdisc", "noqueue", "fq maxrate 8gbit"),
    ];
    for (text, name, low, high) in rows {
        let choice = Choice::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let got = (&*choice.knob.name, choice.low.as_str(), choice.high.as_str());
        assert_eq!(got, (name, low, high), "{text}");
    }
    let client = Choice::parse("client:tcp_sack").unwrap();
    assert_eq!(client.knob.side, Side::Client);
    assert_eq!(Choice::parse("sysctl:vm.swappiness=1,2").unwrap().knob.space, Space::Host);
}

#[test]
fn what_is_not_a_setting_is_refused() {
    let rows = [
        ("tcp_sack=", "is not a setting"),
        ("tcp_sack=1", "is not a setting"),
        ("tcp_sack=1,2", "tcp_sack does not take `2`"),
        ("tcp_sack=1,1", "both levels of tcp_sack are `1`"),
        ("tcp_rmem=1  2 3,1 2 3", "both levels"),
        ("tcp_sak", "similar are tcp_sack"),
        ("sysctl:net.ipv4.tcp_app_win", "is not a setting"),
        ("sysctl:../../etc/passwd=1,2", "not the name of a sysctl"),
        ("sysctl:net.ipv4//.//.x=1,2", "not the name of a sysctl"),
        ("sysctl:/etc/passwd=1,2", "not the name of a sysctl"),
        ("sysctl:net/../../etc/passwd=1,2", "not the name of a sysctl"),
        ("sysctl:net..x=1,2", "not the name of a sysctl"),
        ("sysctl:=1,2", "not the name of a sysctl"),
        ("sysctl:net=1,2", "not the name of a sysctl"),
        ("sysctl:net.ipv4.a b=1,2", "not the name of a sysctl"),
        ("server:=1,2", "cannot be replaced"),
        ("server:a{b=1,2", "cannot be replaced"),
        ("server:threads", "is not a setting"),
        ("client:file-max", "for the server only"),
        ("client:server:x=1,2", "for the server only"),
        ("client:socket_nodelay", "for the server only"),
        ("disk:x=1,2", "is not a setting"),
        ("", "no setting is called"),
    ];
    for (text, expected) in rows {
        let error = Choice::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
