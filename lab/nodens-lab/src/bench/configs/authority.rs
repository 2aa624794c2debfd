//! The settings of authoritative servers: one zone from a file.

use super::Setup;
use crate::bench::NAMES;
use crate::bench::zones::ZoneFile;
use std::fmt::Write;

/// The zone that is served: that of the arrangement, or the one with the names that others have in their caches.
fn served(setup: &Setup) -> (&str, String) {
    match &setup.zone {
        Some(ZoneFile { origin, path, .. }) => (origin, path.display().to_string()),
        None => ("example.", "example.zone".to_owned()),
    }
}

/// Of Nodens and CoreDNS.
pub(super) fn corefile(setup: &Setup, ZoneFile { origin, path, .. }: &ZoneFile) -> String {
    let (ip, port) = (setup.address.ip(), setup.address.port());
    format!("{origin}:{port} {{\n    bind {ip}\n    errors\n    file {}\n}}\n", path.display())
}

pub(in crate::bench) fn knot(setup: &Setup) -> String {
    let Setup { address, threads, connections, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), setup.folder.display());
    let (origin, file) = served(setup);
    format!(
        "server:
    listen: {ip}@{port}
    rundir: {folder}
    udp-workers: {threads}
    tcp-workers: {threads}
    background-workers: 1
    tcp-max-clients: {connections}
database:
    storage: {folder}/db
template:
  - id: default
    storage: {folder}
    journal-content: none
    zonefile-sync: -1
zone:
  - domain: {origin}
    file: {file}
"
    )
}

pub(in crate::bench) fn nsd(setup: &Setup) -> String {
    let Setup { address, threads, connections, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), setup.folder.display());
    let (origin, file) = served(setup);
    format!(
        "server:
    ip-address: {ip}@{port}
    server-count: {threads}
    reuseport: yes
    username: \"\"
    chroot: \"\"
    database: \"\"
    zonesdir: {folder}
    zonelistfile: {folder}/zone.list
    xfrdfile: {folder}/xfrd.state
    xfrdir: {folder}
    pidfile: \"\"
    tcp-count: {connections}
    rrl-ratelimit: 0
    verbosity: 0
remote-control:
    control-enable: no
zone:
    name: {origin}
    zonefile: {file}
"
    )
}

/// BIND as an authoritative server.
pub(super) fn bind(setup: &Setup, ZoneFile { origin, path, .. }: &ZoneFile) -> String {
    let Setup { address, connections, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), setup.folder.display());
    format!(
        "options {{
    directory \"{folder}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile \"{folder}/session.key\";
    recursion no;
    allow-query {{ any; }};
    dnssec-validation no;
    notify no;
    tcp-clients {connections};
}};
zone \"{origin}\" {{ type primary; file \"{}\"; }};
controls {{ }};
logging {{ category default {{ null; }}; }};
",
        path.display()
    )
}

/// PowerDNS, and the list of zones for its backend. Its caches of whole answers and of records are
/// as they are without settings: they are how it is meant to be run.
pub(in crate::bench) fn pdns(setup: &Setup) -> (String, String) {
    let Setup { address, threads, connections, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), setup.folder.display());
    let (origin, file) = served(setup);
    let settings = format!(
        "launch=bind
bind-config={folder}/zones.conf
bind-check-interval=0
bind-dnssec-db={folder}/signed.db
local-address={ip}
local-port={port}
daemon=no
guardian=no
disable-syslog=yes
loglevel=3
receiver-threads={threads}
distributor-threads=1
reuseport=yes
max-tcp-connections={connections}
security-poll-suffix=
setuid=
setgid=
socket-dir={folder}
write-pid=no
"
    );
    (settings, format!("zone \"{origin}\" {{ type master; file \"{file}\"; }};\n"))
}

/// The zone of the authoritative servers: the names that the others are asked from their caches.
pub(in crate::bench) fn zone() -> String {
    let mut text =
        "$ORIGIN example.\n$TTL 3600\n@ SOA ns.example. admin.example. 1 3600 600 86400 300\n\
        @ NS ns.example.\nns A 192.0.2.1\nready.bench A 192.0.2.2\n"
            .to_owned();
    for n in 0..NAMES {
        _ = writeln!(text, "n{n:05}.bench A 192.0.2.{}", n % 250 + 1);
    }
    text
}
