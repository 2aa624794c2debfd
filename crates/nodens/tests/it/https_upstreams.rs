//! Upstreams over HTTPS and gRPC: other servers, as they are installed, and this one.

use crate::encrypted::{Files, Upstream, asks_by, coredns};
use crate::fixture::{ask_udp, eventually, free_port, need, nodens};
use nodens_wire::{Rcode, Type};
use std::net::SocketAddr;
use std::process::Command;

/// Is asked over HTTPS, with either method.
fn asks(name: &str, files: &Files, port: u16) {
    for method in ["POST", "GET"] {
        let directive = format!("forward . https://127.0.0.1:{port}");
        let name = format!("{name}-{}", method.to_lowercase());
        asks_by(&name, files, port, &directive, &format!("doh_method {method}"));
    }
}

#[test]
fn unbound_is_asked_over_https() {
    need("unbound", "unbound");
    let (files, port) = (Files::new("unbound-https"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "server:\n interface: 127.0.0.1@{port}\n https-port: {port}\n tls-service-pem: {certificate}\n tls-service-key: {key}\n \
         do-daemonize: no\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         module-config: iterator\n local-zone: \"www.example.\" redirect\n local-data: \"www.example. A 192.0.2.7\"\nremote-control:\n control-enable: no\n"
    );
    let mut command = Command::new("unbound");
    command.arg("-d").arg("-c").arg(files.write("unbound.conf", &text));
    let _upstream = Upstream::start(command);
    asks("unbound-https", &files, port);
}

#[test]
fn dnsdist_is_asked_over_https() {
    need("dnsdist", "dnsdist");
    let (files, port) = (Files::new("dnsdist-https"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "setSecurityPollSuffix(\"\")\nsetLocal(\"127.0.0.1:{}\")\n\
         addDOHLocal(\"127.0.0.1:{port}\", \"{certificate}\", \"{key}\", \"/dns-query\")\n\
         addAction(AllRule(), SpoofAction(\"192.0.2.7\"))\n",
        free_port()
    );
    let mut command = Command::new("dnsdist");
    command
        .args(["--supervised", "--disable-syslog", "-C"])
        .arg(files.write("dnsdist.conf", &text));
    let _upstream = Upstream::start(command);
    asks("dnsdist-https", &files, port);
}

#[test]
fn knot_resolver_is_asked_over_https() {
    need("kresd", "knot-resolver");
    let (files, port) = (Files::new("kresd-https"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "net.listen('127.0.0.1', {port}, {{ kind = 'doh2' }})\nnet.tls('{certificate}', '{key}')\n\
         modules.unload('detect_time_skew')\nmodules.unload('ta_update')\nmodules.unload('priming')\n\
         trust_anchors.remove('.')\ncache.size = 10 * MB\n\
         policy.add(policy.all(policy.ANSWER({{ [kres.type.A] = {{ rdata = kres.str2ip('192.0.2.7') }} }})))\n"
    );
    let mut command = Command::new("kresd");
    command.arg("-n").arg("-c").arg(files.write("kresd.conf", &text)).arg(&files.folder.0);
    let _upstream = Upstream::start(command);
    asks("kresd-https", &files, port);
}

#[test]
fn bind_is_asked_over_https() {
    need("named", "bind9");
    let (files, port) = (Files::new("named-https"), free_port());
    let Files { certificate, key, .. } = &files;
    let zone = files.write(
        "zone",
        "$TTL 60\n@ SOA . . 1 1 1 1 1\n@ NS .\nwww A 192.0.2.7\n*.www A 192.0.2.7\n",
    );
    let (zone, folder) = (zone.display(), files.folder.0.display());
    let text = format!(
        "tls own {{ cert-file \"{certificate}\"; key-file \"{key}\"; }};\n\
         http own {{ endpoints {{ \"/dns-query\"; }}; }};\n\
         options {{ directory \"{folder}\"; pid-file none; session-keyfile none; recursion no;\n \
         listen-on port {port} tls own http own {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};\n\
         controls {{ }};\nzone \"example\" {{ type primary; file \"{zone}\"; }};\n"
    );
    let mut command = Command::new("named");
    command.arg("-g").arg("-c").arg(files.write("named.conf", &text));
    let _upstream = Upstream::start(command);
    asks("named-https", &files, port);
}

/// What CoreDNS and Nodens serve by this scheme.
fn served(scheme: &str, files: &Files, port: u16) -> String {
    let Files { certificate, key, .. } = files;
    format!(
        "{scheme}://.:{port} {{\n bind 127.0.0.1\n tls {certificate} {key}\n template IN A example {{\n answer \"{{{{ .Name }}}} 60 IN A 192.0.2.7\"\n }}\n}}\n"
    )
}

#[test]
fn nodens_is_asked_over_https_and_grpc() {
    for scheme in ["https", "grpc"] {
        let (files, port) = (Files::new(&format!("nodens-{scheme}")), free_port());
        let mut command = nodens();
        command.arg("-conf").arg(files.write("Corefile", &served(scheme, &files, port)));
        let _upstream = Upstream::start(command);
        match scheme {
            "https" => asks("nodens-https", &files, port),
            _ => asks_by("nodens-grpc", &files, port, &format!("grpc . 127.0.0.1:{port}"), ""),
        }
    }
}

/// CoreDNS, where `cargo xtask peers` has built it; in both directions.
#[test]
fn coredns_is_asked_over_https_and_grpc_and_asks() {
    let Some(coredns) = coredns() else { return };
    for scheme in ["https", "grpc"] {
        let (files, port) = (Files::new(&format!("coredns-{scheme}")), free_port());
        let text = served(scheme, &files, port);
        let mut command = Command::new(&coredns);
        command.arg("-conf").arg(files.write("Corefile", &text));
        let upstream = Upstream::start(command);
        let directive = match scheme {
            "https" => format!("forward . https://127.0.0.1:{port}"),
            _ => format!("grpc . 127.0.0.1:{port}"),
        };
        match scheme {
            "https" => asks("coredns-https", &files, port),
            _ => asks_by("coredns-grpc", &files, port, &directive, ""),
        }
        drop(upstream);
        // The same file for Nodens, which CoreDNS asks.
        let mut command = nodens();
        command.arg("-conf").arg(files.write("Corefile", &text));
        let _upstream = Upstream::start(command);
        let (at, ca) = (free_port(), &files.ca);
        let asking = format!(
            ".:{at} {{\n bind 127.0.0.1\n {directive} {{\n tls {ca}\n tls_servername dns.example\n }}\n}}\n"
        );
        let mut command = Command::new(&coredns);
        command.arg("-conf").arg(files.write("Corefile.asking", &asking));
        let _asking = Upstream::start(command);
        let address = SocketAddr::from(([127, 0, 0, 1], at));
        eventually("an answer", || {
            let answer = ask_udp(address, "www.example.", Type::A);
            answer.is_some_and(|answer| answer.flags.rcode() == Rcode::NOERROR)
        });
    }
}
