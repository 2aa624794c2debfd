use super::*;

#[test]
fn masks_are_those_of_the_kernel() {
    let rows: [(&[usize], &str); 5] = [
        (&[], "00000000"),
        (&[0], "00000001"),
        (&[0, 1, 3], "0000000b"),
        (&[31, 32], "00000001,80000000"),
        (&[64], "00000001,00000000,00000000"),
    ];
    for (cpus, text) in rows {
        assert_eq!(mask(cpus), text);
        assert_eq!(unmask(text).unwrap(), cpus);
    }
    assert_eq!(unmask("3").unwrap(), [0, 1]);
    assert_eq!(unmask("x"), None);
}

#[test]
fn a_file_says_which_cpus_in_its_own_way() {
    assert_eq!(Form::Mask.text("0-1"), "00000003");
    assert_eq!(Form::Mask.text("none"), "00000000");
    assert_eq!(Form::List.text("0-1"), "0-1");
    assert_eq!(Form::Text.text("0-1"), "0-1");
    assert!(Form::Mask.same("00000000,00000003", "0,1"));
    assert!(!Form::Mask.same("3", "3"));
    assert!(Form::List.same("0-1", "0,1"));
    assert!(Form::Text.same("4096\t131072\t6291456\n", "4096 131072 6291456"));
    assert!(!Form::Text.same("1", "01"));
}

#[test]
fn words_of_tc_are_the_same_with_their_units() {
    let rows = [
        ("1000p", "1000", true),
        ("1000p", "100", false),
        ("8Gbit", "8gbit", true),
        ("8Gbit", "8", true),
        ("limit", "limit", true),
        ("limited", "limit", false),
    ];
    for (shown, given, same) in rows {
        assert_eq!(same_word(shown, given), same, "{shown} {given}");
    }
}

#[test]
fn names_of_sysctls_are_files() {
    let rows = [
        ("net.ipv4.tcp_sack", "/proc/sys/net/ipv4/tcp_sack"),
        ("net.ipv4.conf.eth0/100.rp_filter", "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"),
    ];
    for (name, path) in rows {
        assert_eq!(sysctl_file(name), Path::new(path));
    }
}

#[test]
fn what_is_not_there_is_said_to_be_missing() {
    let find = |target: Target| Setting::find(&Place::Host, Some("lab-none"), &target);
    let sysctl = Target::Sysctl { path: "net.ipv4.tcp_nothing".to_owned() };
    assert!(find(sysctl).unwrap_err().contains("this kernel lacks"));
    assert!(find(Target::Irq).unwrap_err().contains("interrupts of lab-none"));
    assert!(find(Target::Device { file: "mtu".to_owned() }).unwrap_err().contains("lacks"));
    let queues = Target::Queues { queue: "rx-".to_owned(), file: "rps_cpus".to_owned() };
    assert!(find(queues).is_err());
}
