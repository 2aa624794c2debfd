//! Transfers within TLS (RFC 9103) and over QUIC, between this server and others, in both directions.

use super::peers::{Kind, Peer, ZONE, bind_options, nsd_server};
use super::{Model, PATIENCE, records, serial, until};
use crate::encrypted::Files;
use crate::fixture::{Server, among_few, free_port};
use nodens_wire::Type;

/// What a primary is configured with: its folder, its port for DNS, and that for TLS.
type Conf<'c> = &'c dyn Fn(&str, u16, u16) -> String;

/// The lines of a primary at this port that has to be `name`, with a certificate to be shown or not.
fn from(files: &Files, scheme: &str, port: u16, (name, is_mutual): (&str, bool)) -> String {
    let Files { ca, certificate, key, .. } = files;
    let shown = if is_mutual { format!("{certificate} {key} ") } else { String::new() };
    format!(
        "secondary {{\n transfer from {scheme}://127.0.0.1:{port}\n tls {shown}{ca}\n \
         tls_servername {name}\n }}"
    )
}

fn secondary(here: u16, lines: &str) -> String {
    format!("{ZONE}:{here} {{\n bind 127.0.0.1\n {lines}\n transfer {{\n to *\n }}\n}}\n")
}

/// A primary of this kind gives its zone to whoever is believed, and to nobody else.
fn comes(kind: Kind, name: &str, files: &Files, is_mutual: bool, conf: Conf<'_>) {
    let _turn = among_few();
    let (mut model, here, encrypted) = (Model::new(), free_port(), free_port());
    let text = |path: &str, port| conf(path, port, encrypted).replace("HERE", &here.to_string());
    let Some(primary) = Peer::start_with(kind, (name, free_port()), &model.text(), &text) else {
        return;
    };
    let wrong =
        secondary(free_port(), &from(files, "tls", encrypted, ("other.example", is_mutual)));
    let server = Server::start(&format!("{name}-wrong"), &wrong);
    let line =
        server.wait_for(&format!("Failed to transfer {ZONE}. from tls://127.0.0.1:{encrypted}"));
    assert!(line.contains("certificate is valid for dns.example, not other.example"), "{line}");
    drop(server);
    if is_mutual {
        let strict = from(files, "tls", encrypted, ("dns.example", false));
        let server = Server::start(&format!("{name}-strict"), &secondary(free_port(), &strict));
        let line = server.wait_for(&format!("Failed to transfer {ZONE}. from tls://"));
        // CoreDNS says so itself.
        let wants = ["does it want a certificate?", "tls: certificate required"];
        assert!(wants.iter().any(|text| line.contains(text)), "{line}");
    }
    let lines = from(files, "tls", encrypted, ("dns.example", is_mutual));
    let server = Server::start(name, &secondary(here, &lines));
    server.wait_long_for(
        &format!("Transferred: {ZONE}. from tls://127.0.0.1:{encrypted}: serial 1,"),
        PATIENCE,
    );
    for _ in 0..3 {
        model.change(5);
        primary.change(&model.text());
        until(here, model.serial, || primary.log());
    }
    assert_eq!(records(here), until(primary.port, model.serial, || primary.log()));
    // CoreDNS gives whole zones alone.
    let differences = server.count_seen(", IXFR of ");
    assert_eq!(differences == 0, kind == Kind::Coredns, "{:#?}", server.seen(""));
}

/// Lines of a server block that hands the zone on within TLS or over QUIC.
fn hands_on(files: &Files, is_mutual: bool, to: &str) -> String {
    let Files { ca, certificate, key, .. } = files;
    let auth = if is_mutual { " {\n client_auth require_and_verify\n }" } else { "" };
    format!(
        "bind 127.0.0.1\n tls {certificate} {key} {ca}{auth}\n file zone {{\n reload 1s\n }}\n \
         transfer {{\n to * {to}\n encrypted\n }}"
    )
}

/// A secondary of this kind gets the zone if it believes this server and is believed, and not otherwise.
fn goes(
    kind: Kind,
    name: &str,
    files: &Files,
    is_mutual: bool,
    conf: &dyn Fn(&str, u16, u16, &str) -> String,
) {
    let _turn = among_few();
    let (mut model, encrypted) = (Model::new(), free_port());
    // It is there first: who asks in vain asks again much later.
    let ports = [free_port(), free_port()];
    let to = format!("127.0.0.1:{} 127.0.0.1:{}", ports[0], ports[1]);
    let zone = files.write("zone", &model.text());
    let lines =
        hands_on(files, is_mutual, &to).replace("file zone", &format!("file {}", zone.display()));
    let corefile =
        format!("tls://{ZONE}:{encrypted} {{\n {lines}\n}}\n{ZONE}:PORT {{\n {lines}\n}}\n");
    let server = Server::start(name, &corefile);
    let peer = |host: &str, port| {
        let text = |path: &str, port| conf(path, port, encrypted, host);
        Peer::start_with(kind, (&format!("{name}-{host}"), port), "", &text)
    };
    let (Some(good), Some(wrong)) =
        (peer("dns.example", ports[0]), peer("other.example", ports[1]))
    else {
        return;
    };
    let first = until(good.port, 1, || good.log());
    for _ in 0..2 {
        model.change(5);
        files.write("zone", &model.text());
        until(good.port, model.serial, || good.log());
    }
    assert_ne!(first, records(good.port));
    // In the clear it is given to nobody.
    assert_eq!(records(server.address.port()), [""; 0]);
    assert_eq!(server.ask("ns.example.org.", Type::A).answer[0].rdata, [192, 0, 2, 1]);
    assert_eq!(serial(&records(wrong.port)), None, "{}", wrong.log());
}

/// `tls` of BIND: as a server, with an authority, it wants certificates.
fn bind_primary(files: &Files, is_mutual: bool) -> impl Fn(&str, u16, u16) -> String {
    let Files { ca, certificate, key, .. } = files;
    let ca = if is_mutual { format!("ca-file \"{ca}\"; ") } else { String::new() };
    let tls = format!("tls here {{ cert-file \"{certificate}\"; key-file \"{key}\"; {ca}}};");
    move |path, port, encrypted| {
        let options = bind_options(path, port).replace(
            "allow-transfer { any; };",
            &format!(
                "listen-on port {encrypted} tls here {{ 127.0.0.1; }}; allow-transfer {{ any; }};"
            ),
        );
        format!(
            "{tls}\n{options}zone \"{ZONE}\" {{ type primary; file \"zone\"; ixfr-from-differences yes; \
             notify explicit; also-notify {{ 127.0.0.1 port HERE; }}; }};\n"
        )
    }
}

fn bind_secondary(files: &Files, is_mutual: bool) -> impl Fn(&str, u16, u16, &str) -> String {
    let Files { ca, certificate, key, .. } = files;
    let own = match is_mutual {
        true => format!("cert-file \"{certificate}\"; key-file \"{key}\"; "),
        false => String::new(),
    };
    let ca = ca.clone();
    move |path, port, encrypted, host| {
        format!(
            "tls there {{ ca-file \"{ca}\"; remote-hostname \"{host}\"; {own}}};\n{}zone \"{ZONE}\" {{ type \
             secondary; file \"copy\"; primaries {{ 127.0.0.1 port {encrypted} tls there; }}; notify no; }};\n",
            bind_options(path, port)
        )
    }
}

#[test]
fn zones_of_bind_come_within_tls() {
    let files = Files::new("bind-strict");
    comes(Kind::Bind, "tls-from-bind", &files, false, &bind_primary(&files, false));
}

#[test]
fn zones_of_bind_come_within_mutual_tls() {
    let files = Files::new("bind-mutual");
    comes(Kind::Bind, "mutual-from-bind", &files, true, &bind_primary(&files, true));
}

#[test]
fn zones_go_to_bind_within_tls() {
    let files = Files::new("to-bind-strict");
    goes(Kind::Bind, "tls-to-bind", &files, false, &bind_secondary(&files, false));
}

#[test]
fn zones_go_to_bind_within_mutual_tls() {
    let files = Files::new("to-bind-mutual");
    goes(Kind::Bind, "mutual-to-bind", &files, true, &bind_secondary(&files, true));
}

#[test]
fn zones_of_nsd_come_within_tls() {
    let files = Files::new("nsd-strict");
    let Files { certificate, key, .. } = &files;
    let conf = |path: &str, port, encrypted| {
        let more = format!(
            "  ip-address: 127.0.0.1@{encrypted}\n  tls-port: {encrypted}\n  tls-service-key: \"{key}\"\n  \
             tls-service-pem: \"{certificate}\"\n"
        );
        nsd_server(path, port, &more)
            + "  zonefile: zone\n  notify: 127.0.0.1@HERE NOKEY\n  provide-xfr: 127.0.0.1 NOKEY\n  \
               create-ixfr: yes\n  store-ixfr: yes\n  ixfr-number: 200\n"
    };
    comes(Kind::Nsd, "tls-from-nsd", &files, false, &conf);
}

#[test]
fn zones_go_to_nsd_within_mutual_tls() {
    let files = Files::new("to-nsd");
    let Files { ca, certificate, key, .. } = &files;
    let conf = |path: &str, port, encrypted, host: &str| {
        let more = format!("  tls-cert-bundle: \"{ca}\"\n");
        let zone = format!(
            "  request-xfr: 127.0.0.1@{encrypted} NOKEY there\n  allow-notify: 127.0.0.1 NOKEY\n  \
             provide-xfr: 127.0.0.1 NOKEY\n"
        );
        let auth = format!(
            "tls-auth:\n  name: there\n  auth-domain-name: {host}\n  client-cert: \"{certificate}\"\n  \
             client-key: \"{key}\"\n"
        );
        auth + &nsd_server(path, port, &more) + &zone
    };
    goes(Kind::Nsd, "mutual-to-nsd", &files, true, &conf);
}

fn coredns_primary(files: &Files, is_mutual: bool) -> impl Fn(&str, u16, u16) -> String {
    let Files { ca, certificate, key, .. } = files;
    let tls = match is_mutual {
        true => format!("tls {certificate} {key} {ca} {{\n client_auth require_and_verify\n }}"),
        false => format!("tls {certificate} {key}"),
    };
    move |path, port, encrypted| {
        let zone = format!(
            "bind 127.0.0.1\n file {path}/zone {{\n reload 1s\n }}\n transfer {{\n to * 127.0.0.1:HERE\n }}"
        );
        format!("tls://{ZONE}:{encrypted} {{\n {tls}\n {zone}\n}}\n{ZONE}:{port} {{\n {zone}\n}}\n")
    }
}

#[test]
fn zones_of_coredns_come_within_tls() {
    let files = Files::new("coredns-strict");
    let conf = coredns_primary(&files, false);
    comes(Kind::Coredns, "tls-from-coredns", &files, false, &conf);
}

#[test]
fn zones_of_coredns_come_within_mutual_tls() {
    let files = Files::new("coredns-mutual");
    let conf = coredns_primary(&files, true);
    comes(Kind::Coredns, "mutual-from-coredns", &files, true, &conf);
}

/// This server at both ends, over QUIC: whole zones and differences, strict and mutual.
#[test]
fn zones_come_and_go_over_quic() {
    let _turn = among_few();
    let files = Files::new("quic");
    let (mut model, encrypted, here) = (Model::new(), free_port(), free_port());
    let zone = files.write("zone", &model.text());
    let lines = hands_on(&files, true, &format!("127.0.0.1:{here}"))
        .replace("file zone", &format!("file {}", zone.display()));
    let primary =
        Server::start("quic-primary", &format!("quic://{ZONE}:{encrypted} {{\n {lines}\n}}\n"));
    let wrong = secondary(free_port(), &from(&files, "quic", encrypted, ("other.example", true)));
    let server = Server::start("quic-wrong", &wrong);
    let line =
        server.wait_for(&format!("Failed to transfer {ZONE}. from quic://127.0.0.1:{encrypted}"));
    assert!(line.contains("certificate is valid for dns.example, not other.example"), "{line}");
    drop(server);
    let strict = secondary(free_port(), &from(&files, "quic", encrypted, ("dns.example", false)));
    let server = Server::start("quic-strict", &strict);
    let line = server.wait_for(&format!("Failed to transfer {ZONE}. from quic://"));
    assert!(line.contains("CRYPTO_ERROR"), "{line}");
    drop(server);
    let lines = from(&files, "quic", encrypted, ("dns.example", true));
    let server = Server::start("quic-secondary", &secondary(here, &lines));
    server.wait_for(&format!("Transferred: {ZONE}. from quic://127.0.0.1:{encrypted}: serial 1,"));
    let log = || primary.seen("").join("\n");
    for _ in 0..3 {
        model.change(5);
        files.write("zone", &model.text());
        until(here, model.serial, log);
    }
    let names = records(here);
    assert!(names.len() > 200, "{}", names.len());
}
