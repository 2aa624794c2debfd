use super::*;
use crate::Host;
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Section, Type};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A machine as a folder of files.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn a_described_machine_is_read_back() {
    let root = machine(&[
        ("proc/sys/kernel/ostype", "Linux\n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/sys/kernel/version", "#1 SMP\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor sse\n\n",
        ),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,3\n"),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("proc/meminfo", "MemTotal:       1024 kB\n"),
        ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "not allowed\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/class/dmi/id/sys_vendor", "Maker\n"),
        ("sys/class/dmi/id/product_name", "Machine 1\n"),
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ]);
    let expected = Host {
        kernel: "Linux 6.12.1 #1 SMP".into(),
        cpu_model: Some("Some CPU".into()),
        cpus_online: 4,
        cpus_allowed: "0-1,3".into(),
        cpu_quota: Some(1.5),
        governors: vec!["performance".into(), "powersave".into()],
        clocksource: Some("tsc".into()),
        virtualisation: Some("Maker Machine 1".into()),
        steal: None,
        busy: None,
        memory: Some(1 << 20),
    };
    let mut found = host::look(root.path());
    // The test itself may run in a container.
    found.virtualisation = found.virtualisation.map(|text| text.replace(", kubernetes", ""));
    assert_eq!(found, expected);
    let sysctls = sysctls(root.path());
    assert_eq!(sysctls["net.core.rmem_max"], "212992");
    assert_eq!(sysctls["net.ipv4.ip_local_port_range"], "32768 60999");
    assert_eq!(sysctls.len(), 2);
}

#[test]
fn a_machine_that_tells_nothing_is_no_error() {
    let root = machine(&[]);
    let found = host::look(root.path());
    assert!(!found.kernel.is_empty() && found.cpus_online > 0);
    assert_eq!((found.cpu_model, found.memory, found.cpu_quota), (None, None, None));
    assert_eq!(sysctls(root.path()).len(), 0);
    assert_eq!(host::CpuTime::read(root.path()), None);
}

#[test]
fn lists_of_cpus_are_read_and_a_huge_one_ends() {
    assert_eq!(host::cpus("0-2,5"), [0, 1, 2, 5]);
    assert_eq!(host::cpus("x,3-,-1,7"), [7]);
    assert!(host::cpus("0-18446744073709551614").len() <= 4_096);
}

#[test]
fn stolen_and_used_time_are_parts_of_what_passed() {
    let at = |text: &str| host::CpuTime::read(machine(&[("proc/stat", text)]).path());
    let before = at("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1\n").unwrap();
    let after = at("cpu  150 0 120 720 100 0 0 10 0 0\n").unwrap();
    let (steal, busy) = before.parts_until(after);
    assert_eq!((steal, busy), (Some(0.1), Some(0.8)));
    assert_eq!(before.parts_until(before), (None, None));
    assert_eq!(at("cpu  100 0\n"), None);
    assert_eq!(at("intr 100 0\n"), None);
}

#[test]
fn the_way_to_an_address_of_this_machine_is_the_loopback_device() {
    let route = route::to(Path::new("/"), "127.0.0.1:53".parse().unwrap()).unwrap();
    assert!(route.local && route.source.starts_with("127."), "{route:?}");
    let root =
        machine(&[("sys/class/net/eth9/mtu", "1400\n"), ("sys/class/net/eth9/speed", "-1\n")]);
    let ip: IpAddr = "192.0.2.1".parse().unwrap();
    let route = route::describe(root.path(), "eth9".into(), ip, false);
    assert_eq!((route.mtu, route.speed, route.driver), (Some(1400), None, None));
}

/// A version answer with these RDATA octets.
fn answer(rcode: Rcode, rdata: &[u8]) -> Vec<u8> {
    let name = Name::parse("version.bind.").unwrap();
    let mut message = Vec::new();
    let flags = Flags(Flags::QR).with_rcode(rcode);
    let mut builder = Builder::new(&mut message, 0x6c61, flags);
    builder.question(name.view(), Type::TXT, Class(3));
    builder.record(Section::Answer, name.view(), (Type::TXT, Class(3), 0), rdata).unwrap();
    message
}

#[test]
fn a_version_is_the_strings_of_the_answer_and_nothing_else() {
    let read = |rcode, rdata: &[u8]| version::read(&Message::parse(&answer(rcode, rdata)).unwrap());
    assert_eq!(read(Rcode::NOERROR, b"\x03abc\x03 1\n"), Some("abc 1".into()));
    assert_eq!(read(Rcode::REFUSED, b"\x03abc"), None);
    assert_eq!(read(Rcode::NOERROR, b"\x09abc"), None);
    assert_eq!(read(Rcode::NOERROR, b"\x00"), None);
}

#[test]
fn a_server_is_asked_once_and_a_silent_one_holds_nothing_up() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 512];
        let (len, client) = server.recv_from(&mut buffer).unwrap();
        let asked = Message::parse(&buffer[..len]).unwrap();
        assert_eq!(asked.questions[0].qclass, Class(3));
        server.send_to(b"noise", client).unwrap();
        server.send_to(&answer(Rcode::NOERROR, b"\x07lab 1.0"), client).unwrap();
    });
    let found = version::ask(address);
    thread.join().unwrap();
    // On a machine that stalls for longer than the patience there is no version, which is right.
    assert!(found.is_none() || found.as_deref() == Some("lab 1.0"), "{found:?}");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    assert_eq!(version::ask(silent.local_addr().unwrap()), None);
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn secrets_of_keys_do_not_get_into_files() {
    let keys = ["other:b3RoZXI=", "hmac-sha1:k:c2Vj"].map(|key| key.parse().unwrap());
    for (given, kept) in [
        ("load -y hmac-sha1:k:c2Vj -s ::1", "load -y hmac-sha1:k:… -s ::1"),
        ("--tsig=hmac-sha1:k:c2Vj -n 3", "--tsig=hmac-sha1:k:… -n 3"),
        ("--tsig hmac-sha1:k:c2Vj", "--tsig hmac-sha1:k:…"),
        ("-yhmac-sha1:k:c2Vj", "-yhmac-sha1:k:…"),
        ("-y=hmac-sha1:k:c2Vj", "-y=hmac-sha1:k:…"),
        ("-Dy hmac-sha1:k:c2Vj -d names", "-Dy hmac-sha1:k:… -d names"),
        ("-eDyhmac-sha1:k:c2Vj", "-eDyhmac-sha1:k:…"),
        ("-Dy=hmac-sha1:k:c2Vj", "-Dy=hmac-sha1:k:…"),
        ("-y other:b3RoZXI -y k:c2Vj", "-y other:… -y k:…"),
    ] {
        let words = || given.split(' ').map(str::to_owned);
        assert_eq!(argv(words(), &keys).join(" "), kept);
        assert_eq!(argv(words(), None).join(" "), given);
    }
}
