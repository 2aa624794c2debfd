//! The settings of each server in the scenarios: what a server does by default, but for limits that would
//! be measured instead of it (transfers at once, queries for serial numbers a second), and without logs of queries.

use super::servers::{Role, Setup};
use super::zones::{CATALOG, LARGE};
use std::fmt::Write as _;

/// Transfers at once of those that have a limit.
const TRANSFERS: usize = 64;

fn without_dot(name: &str) -> &str {
    name.trim_end_matches('.')
}

fn zone(setup: &Setup) -> &'static str {
    if setup.role == Role::Members { CATALOG } else { LARGE }
}

pub(super) fn corefile(setup: &Setup) -> String {
    let Setup { role, address, primary, folder, file, secondaries, .. } = setup;
    let name = without_dot(zone(setup));
    let (store, file) = (folder.join("store"), file.display());
    let mut lines = vec![format!("bind {}", address.ip()), "errors".to_owned()];
    if *role == Role::File {
        lines.push(format!("file {file} {name} {{\n        reload 1s\n    }}"));
    } else {
        let catalog = if *role == Role::Members { "\n        catalog" } else { "" };
        let store = store.display();
        lines.push(format!(
            "secondary {name} {{\n        transfer from {primary}{catalog}\n        store {store}\n    }}"
        ));
    }
    if *role != Role::Members {
        let to: String = secondaries.iter().map(|to| format!(" {to}")).collect();
        lines.push(format!("transfer {{\n        to *{to}\n    }}"));
    }
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!(".:{} {{\n{lines}}}\n", address.port())
}

pub(super) fn knot(setup: &Setup) -> String {
    let Setup { role, address, primary, folder, threads, file, secondaries, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), folder.display());
    let notified: Vec<_> = (0..secondaries.len()).map(|at| format!("s{at}")).collect();
    let mut remotes =
        format!("  - id: primary\n    address: {}@{}\n", primary.ip(), primary.port());
    for (id, to) in notified.iter().zip(secondaries) {
        _ = write!(remotes, "  - id: {id}\n    address: {}@{}\n", to.ip(), to.port());
    }
    let notify = match notified.is_empty() {
        true => String::new(),
        false => format!("    notify: [{}]\n", notified.join(", ")),
    };
    let secondary = "    master: primary\n    acl: primary\n";
    let zone = match role {
        Role::Members => {
            format!("{secondary}    catalog-role: interpret\n    catalog-template: member\n")
        }
        Role::Secondary => format!("{secondary}{notify}"),
        Role::File => format!(
            "    file: {}\n    zonefile-load: difference\n    zonefile-sync: -1\n    \
             journal-content: changes\n    acl: primary\n{notify}",
            file.display()
        ),
    };
    format!(
        "server:
    listen: {ip}@{port}
    rundir: {folder}
    udp-workers: {threads}
    tcp-workers: {threads}
    background-workers: {TRANSFERS}
log:
  - target: stderr
    any: warning
database:
    storage: {folder}/db
remote:
{remotes}acl:
  - id: primary
    address: 127.0.0.0/8
    action: [notify, transfer]
template:
  - id: default
    storage: {folder}/zones
  - id: member
    storage: {folder}/zones
{secondary}zone:
  - domain: {name}
{zone}",
        name = self::zone(setup),
    )
}

pub(super) fn nsd(setup: &Setup) -> String {
    let Setup { role, address, primary, folder, threads, file, secondaries, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), folder.display());
    let from = format!(
        "    allow-notify: 127.0.0.1 NOKEY\n    request-xfr: {}@{} NOKEY\n",
        primary.ip(),
        primary.port()
    );
    let mut own = String::new();
    for to in secondaries {
        _ = writeln!(own, "    notify: {}@{} NOKEY", to.ip(), to.port());
    }
    own.push_str("    provide-xfr: 127.0.0.0/8 NOKEY\n");
    let zones = match role {
        Role::Members => {
            format!("pattern:\n    name: member\n    zonefile: \"zones/%s.zone\"\n{from}")
        }
        Role::Secondary => {
            format!("zone:\n    name: {LARGE}\n    zonefile: \"zones/large.zone\"\n{from}{own}")
        }
        Role::File => {
            format!("zone:\n    name: {LARGE}\n    zonefile: \"{}\"\n{own}", file.display())
        }
    };
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
    pidfile: {folder}/nsd.pid
    zonefiles-write: 5
    rrl-ratelimit: 0
    verbosity: 0
remote-control:
    control-enable: no
{zones}"
    )
}

pub(super) fn bind(setup: &Setup) -> String {
    let Setup { role, address, primary, folder, file, secondaries, .. } = setup;
    let (ip, port, folder) = (address.ip(), address.port(), folder.display());
    let from = format!("{} port {};", primary.ip(), primary.port());
    let name = without_dot(zone(setup));
    let catalogs = if *role == Role::Members {
        format!(
            "    catalog-zones {{ zone \"{name}\" default-primaries {{ {from} }} zone-directory \
             \"{folder}/zones\" in-memory no min-update-interval 1; }};\n"
        )
    } else {
        String::new()
    };
    let also: String =
        secondaries.iter().map(|to| format!("{} port {}; ", to.ip(), to.port())).collect();
    let also = format!("    notify explicit;\n    also-notify {{ {also}}};\n");
    let zone = match role {
        Role::File => format!(
            "type primary;\n    file \"{}\";\n    ixfr-from-differences yes;\n{also}",
            file.display()
        ),
        Role::Secondary => {
            format!(
                "type secondary;\n    primaries {{ {from} }};\n    file \"zones/large.db\";\n{also}"
            )
        }
        Role::Members => {
            format!("type secondary;\n    primaries {{ {from} }};\n    file \"catalog.db\";\n")
        }
    };
    format!(
        "options {{
    directory \"{folder}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile \"{folder}/session.key\";
    recursion no;
    allow-query {{ any; }};
    allow-transfer {{ any; }};
    dnssec-validation no;
    notify no;
    max-journal-size unlimited;
    transfers-in {TRANSFERS};
    transfers-per-ns {TRANSFERS};
    serial-query-rate 10000;
    notify-rate 10000;
    startup-notify-rate 10000;
    flush-zones-on-shutdown yes;
{catalogs}}};
controls {{ }};
logging {{
    channel log {{ stderr; severity warning; }};
    category default {{ log; }};
}};
zone \"{name}\" {{
    {zone}}};
"
    )
}
