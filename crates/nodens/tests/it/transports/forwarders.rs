//! Servers that forward to this one, within TLS and over HTTPS.

use super::{NAME, Ours, Program};
use crate::fixture::{ask_udp, eventually, free_port, need};
use nodens_wire::{Rcode, Type};
use std::net::SocketAddr;
use std::process::Command;

/// Queries to whatever forwards at this port are answered, those of many clients at once.
fn assert_forwards(what: &str, port: u16) {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    eventually(&format!("an answer by {what}"), || {
        let answer = ask_udp(address, "first.example.", Type::A);
        answer.is_some_and(|answer| answer.flags.rcode() == Rcode::NOERROR)
    });
    let clients: Vec<_> = (0..8)
        .map(|client| {
            std::thread::spawn(move || {
                for n in 0..25 {
                    let name = format!("n{n}.c{client}.example.");
                    let answer = ask_udp(address, &name, Type::A).unwrap();
                    let rdata = answer.answer.first().map(|record| record.rdata.clone());
                    assert_eq!(rdata.as_deref(), Some(&[192, 0, 2, 7][..]), "{name}: {answer:?}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// Queries to whatever forwards at this port and does not believe who answers get no answer.
fn assert_refuses(what: &str, port: u16) {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let answer = ask_udp(address, "wrong.example.", Type::A);
    let answer = answer.unwrap_or_else(|| panic!("{what} says nothing"));
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL, "{what}: {answer:?}");
}

#[test]
fn unbound_asks_over_tls() {
    need("unbound", "unbound");
    let ours = Ours::start("unbound");
    let (tls, ca) = (ours.ports.tls, ours.ca());
    for (name, is_good) in [(NAME, true), ("other.example", false)] {
        let port = free_port();
        let text = format!(
            "server:\n interface: 127.0.0.1@{port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n \
             module-config: iterator\n do-not-query-localhost: no\n tls-cert-bundle: \"{ca}\"\nremote-control:\n control-enable: no\n\
             forward-zone:\n name: \".\"\n forward-tls-upstream: yes\n forward-addr: 127.0.0.1@{tls}#{name}\n"
        );
        let conf = ours.server.folder.write("unbound.conf", &text);
        let _unbound =
            Program::start_at(Command::new("unbound").arg("-d").arg("-c").arg(conf), port);
        if is_good { assert_forwards("unbound", port) } else { assert_refuses("unbound", port) }
    }
    ours.end();
}

#[test]
fn stubby_asks_over_tls() {
    need("stubby", "stubby");
    let ours = Ours::start("stubby");
    let (tls, ca, port) = (ours.ports.tls, ours.ca(), free_port());
    let folder = ours.server.folder.0.display();
    let text = format!(
        "resolution_type: GETDNS_RESOLUTION_STUB\ndns_transport_list:\n  - GETDNS_TRANSPORT_TLS\n\
         tls_authentication: GETDNS_AUTHENTICATION_REQUIRED\ntls_query_padding_blocksize: 128\n\
         idle_timeout: 10000\ntls_ca_file: \"{ca}\"\nappdata_dir: \"{folder}\"\n\
         listen_addresses:\n  - 127.0.0.1@{port}\nupstream_recursive_servers:\n  - address_data: 127.0.0.1\n    \
         tls_port: {tls}\n    tls_auth_name: \"{NAME}\"\n"
    );
    let conf = ours.server.folder.write("stubby.yml", &text);
    let _stubby = Program::start_at(Command::new("stubby").arg("-C").arg(conf), port);
    assert_forwards("stubby", port);
    ours.end();
}

#[test]
fn dnsdist_asks_over_tls_and_https() {
    need("dnsdist", "dnsdist");
    let ours = Ours::start("dnsdist-client");
    let (tls, https, ca) = (ours.ports.tls, ours.ports.https, ours.ca());
    for (at, more) in [(tls, ""), (https, ", dohPath=\"/dns-query\"")] {
        let port = free_port();
        let text = format!(
            "setSecurityPollSuffix(\"\")\nsetLocal(\"127.0.0.1:{port}\")\n\
             newServer({{address=\"127.0.0.1:{at}\", tls=\"openssl\", subjectName=\"{NAME}\", validateCertificates=true, \
             caStore=\"{ca}\", checkName=\"check.example.\", checkType=\"A\"{more}}})\n"
        );
        let conf = ours.server.folder.write("dnsdist.conf", &text);
        let mut command = Command::new("dnsdist");
        command.args(["--supervised", "--disable-syslog", "-C"]).arg(conf);
        let _dnsdist = Program::start_at(&mut command, port);
        assert_forwards("dnsdist", port);
    }
    ours.end();
}

#[test]
fn knot_resolver_asks_over_tls() {
    need("kresd", "knot-resolver");
    let ours = Ours::start("kresd-client");
    let (tls, ca, port) = (ours.ports.tls, ours.ca(), free_port());
    let text = format!(
        "net.listen('127.0.0.1', {port}, {{ kind = 'dns' }})\n\
         modules.unload('detect_time_skew')\nmodules.unload('ta_update')\nmodules.unload('priming')\n\
         trust_anchors.remove('.')\ncache.size = 10 * MB\n\
         policy.add(policy.all(policy.TLS_FORWARD({{ {{ '127.0.0.1@{tls}', hostname = '{NAME}', ca_file = '{ca}' }} }})))\n"
    );
    let conf = ours.server.folder.write("kresd.conf", &text);
    let mut command = Command::new("kresd");
    command.arg("-n").arg("-c").arg(conf).arg(&ours.server.folder.0);
    let _kresd = Program::start_at(&mut command, port);
    assert_forwards("kresd", port);
    ours.end();
}

#[test]
fn coredns_asks_over_tls_and_grpc() {
    let Some(coredns) = crate::encrypted::coredns() else {
        eprintln!("CoreDNS as a client was not tried: `cargo xtask peers coredns` builds it");
        return;
    };
    let ours = Ours::start("coredns-client");
    let (tls, grpc, ca) = (ours.ports.tls, ours.ports.grpc, ours.ca());
    for (directive, to) in
        [("forward", format!("tls://127.0.0.1:{tls}")), ("grpc", format!("127.0.0.1:{grpc}"))]
    {
        let port = free_port();
        let text = format!(
            ".:{port} {{\n bind 127.0.0.1\n {directive} . {to} {{\n  tls {ca}\n  tls_servername {NAME}\n }}\n}}\n"
        );
        let conf = ours.server.folder.write("Corefile.coredns", &text);
        let _coredns = Program::start_at(Command::new(&coredns).arg("-conf").arg(conf), port);
        assert_forwards(&format!("CoreDNS with {directive}"), port);
    }
    ours.end();
}
