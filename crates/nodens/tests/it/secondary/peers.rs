//! Other servers as primaries of Nodens and as secondaries of it.

use crate::fixture::{Folder, free_port, need};
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The zone of all tests here.
pub(super) const ZONE: &str = "example.org";
/// The key of primaries that want one.
pub(super) const KEY: &str = "transfer.key";
pub(super) const SECRET: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Knot,
    Nsd,
    Bind,
    Coredns,
    Powerdns,
}

/// What a server is for the zone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// It has the zone in `zone`, and notifies the server at this port.
    Primary(u16),
    /// It transfers the zone from this port.
    Secondary(u16),
    /// It has the zone in `zone`, and gives it to those alone who have the key.
    Signing,
    /// It transfers the zone from this port with signed queries. PowerDNS alone.
    SignedSecondary(u16),
}

/// A server that runs until this is dropped.
pub(super) struct Peer {
    pub(super) port: u16,
    pub(super) kind: Kind,
    program: PathBuf,
    child: Child,
    folder: Folder,
}

impl Peer {
    /// Starts one at a port of its own; none if the program is not there, which has been said.
    pub(super) fn start(kind: Kind, name: &str, role: Role, zone: &str) -> Option<Self> {
        let text = |path: &str, port| match kind {
            Kind::Knot => knot(path, port, role),
            Kind::Nsd => nsd(path, port, role),
            Kind::Bind => bind(path, port, role),
            Kind::Coredns => coredns(path, port, role),
            Kind::Powerdns => powerdns_with_files(path, port, role),
        };
        let zone = if matches!(role, Role::Primary(_) | Role::Signing) { zone } else { "" };
        Self::start_with(kind, (name, free_port()), zone, &text)
    }

    /// The same at this port with a configuration by folder and port. Without text there is no zone in `zone`.
    pub(super) fn start_with(
        kind: Kind,
        (name, port): (&str, u16),
        zone: &str,
        text: &dyn Fn(&str, u16) -> String,
    ) -> Option<Self> {
        let folder = Folder::new(&format!("{name}-{kind:?}"));
        let program = program(kind)?;
        if !zone.is_empty() {
            folder.write("zone", zone);
        }
        // Knot keeps differences here, and does not make it.
        std::fs::create_dir_all(folder.0.join("db")).unwrap();
        let path = folder.0.display().to_string();
        folder.write(configuration(kind), &text(&path, port));
        let child = run(kind, &program, &folder);
        let peer = Self { port, kind, program, child, folder };
        peer.until_it_listens();
        Some(peer)
    }

    /// Ends it as a machine that fails does, with all of its processes, and starts it with what it has on disk.
    pub(super) fn crash(&mut self) {
        let group = format!("-{}", self.child.id());
        let status = Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
        assert!(status.success());
        self.child.wait().unwrap();
        // Some have children, whose sockets go a moment later.
        let (since, address) = (Instant::now(), ("127.0.0.1", self.port));
        while TcpListener::bind(address).is_err() || UdpSocket::bind(address).is_err() {
            assert!(since.elapsed() < Duration::from_secs(30), "{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.kind == Kind::Bind {
            // It does not load a file that was changed behind a journal that was not finished.
            _ = std::fs::remove_file(self.folder.0.join("zone.jnl"));
        }
        self.child = run(self.kind, &self.program, &self.folder);
        self.until_it_listens();
    }

    fn until_it_listens(&self) {
        let (since, address) = (Instant::now(), SocketAddr::from(([127, 0, 0, 1], self.port)));
        while TcpStream::connect(address).is_err() {
            assert!(since.elapsed() < Duration::from_secs(30), "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its folder.
    pub(super) fn path(&self) -> &Path {
        &self.folder.0
    }

    /// What it has written.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }

    /// Serves another version of the zone.
    pub(super) fn change(&self, zone: &str) {
        let (new, path) = (self.folder.0.join("new"), self.folder.0.join("zone"));
        std::fs::write(&new, zone).unwrap();
        std::fs::rename(new, path).unwrap();
        let mut command = match self.kind {
            // It looks at the file by itself.
            Kind::Coredns => return,
            Kind::Knot => {
                let mut command = Command::new("knotc");
                command.arg("-c").arg(self.folder.0.join("knot.conf")).args(["zone-reload", ZONE]);
                command
            }
            Kind::Powerdns => {
                let mut command = Command::new("pdns_control");
                command.arg(powerdns_folder(&self.folder.0)).args(["bind-reload-now", ZONE]);
                command
            }
            Kind::Nsd | Kind::Bind => {
                let mut command = Command::new("kill");
                command.args(["-HUP", &self.child.id().to_string()]);
                command
            }
        };
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.kind == Kind::Nsd {
            // It has children, which end with it if it is asked to end.
            _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let since = Instant::now();
            while matches!(self.child.try_wait(), Ok(None))
                && since.elapsed() < Duration::from_secs(5)
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn configuration(kind: Kind) -> &'static str {
    match kind {
        Kind::Knot => "knot.conf",
        Kind::Nsd => "nsd.conf",
        Kind::Bind => "named.conf",
        Kind::Coredns => "Corefile",
        Kind::Powerdns => "pdns.conf",
    }
}

/// Starts the program in a group of processes of its own; what it writes is added to what it wrote before.
fn run(kind: Kind, program: &Path, folder: &Folder) -> Child {
    let conf = folder.0.join(configuration(kind));
    let mut command = Command::new(program);
    match kind {
        Kind::Knot => command.arg("-c").arg(&conf),
        Kind::Nsd => command.arg("-d").arg("-c").arg(&conf),
        Kind::Bind => command.arg("-g").arg("-c").arg(&conf),
        Kind::Coredns => command.arg("-conf").arg(&conf),
        Kind::Powerdns => command.arg(powerdns_folder(&folder.0)),
    };
    let log = File::options().create(true).append(true).open(folder.0.join("log")).unwrap();
    command.current_dir(&folder.0).stdout(log.try_clone().unwrap()).stderr(log);
    command.stdin(Stdio::null()).process_group(0).spawn().unwrap()
}

fn program(kind: Kind) -> Option<PathBuf> {
    let (program, package) = match kind {
        Kind::Knot => ("knotd", "knot"),
        Kind::Nsd => ("nsd", "nsd"),
        Kind::Bind => ("named", "bind9"),
        Kind::Powerdns => ("pdns_server", "pdns-server"),
        Kind::Coredns => return built("coredns"),
    };
    need(program, package);
    Some(PathBuf::from(program))
}

/// Where `make setup` builds it. Without it, the tests that need it do nothing.
pub(crate) fn built(program: &str) -> Option<PathBuf> {
    let cache = match std::env::var_os("NODENS_PEERS_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/peers"),
    };
    let path = Some(cache.join("bin").join(program)).filter(|path| path.exists());
    if path.is_none() {
        eprintln!("`{program}` is missing: cargo xtask peers {program}");
    }
    path
}

fn knot(path: &str, port: u16, role: Role) -> String {
    let (remote, zone) = match role {
        Role::Primary(to) => (to, "    notify: other\n    zonefile-load: difference\n"),
        Role::Secondary(from) | Role::SignedSecondary(from) => {
            (from, "    master: other\n    journal-content: all\n")
        }
        Role::Signing => {
            return format!(
                "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\ndatabase:\n  storage: \
                 \"{path}/db\"\nkey:\n  - id: {KEY}\n    algorithm: hmac-sha512\n    secret: \
                 {SECRET}\nacl:\n  - id: keyed\n    key: {KEY}\n    action: transfer\nzone:\n  - \
                 domain: {ZONE}\n    storage: \"{path}\"\n    file: zone\n    acl: keyed\n"
            );
        }
    };
    format!(
        "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\nlog:\n  - target: stderr\n    \
         any: info\ndatabase:\n  storage: \"{path}/db\"\nremote:\n  - id: other\n    address: \
         127.0.0.1@{remote}\nacl:\n  - id: all\n    address: 127.0.0.1\n    action: [transfer, \
         notify]\nzone:\n  - domain: {ZONE}\n    storage: \"{path}\"\n    file: zone\n    \
         acl: all\n    zonefile-sync: -1\n{zone}"
    )
}

fn nsd(path: &str, port: u16, role: Role) -> String {
    let zone = match role {
        Role::Primary(to) => format!(
            "  zonefile: zone\n  notify: 127.0.0.1@{to} NOKEY\n  provide-xfr: 127.0.0.1 NOKEY\n  \
             create-ixfr: yes\n  store-ixfr: yes\n  ixfr-number: 200\n"
        ),
        Role::Secondary(from) | Role::SignedSecondary(from) => format!(
            "  request-xfr: 127.0.0.1@{from} NOKEY\n  allow-notify: 127.0.0.1 NOKEY\n  \
             provide-xfr: 127.0.0.1 NOKEY\n"
        ),
        // A key may stand behind the zone that names it.
        Role::Signing => format!(
            "  zonefile: zone\n  provide-xfr: 127.0.0.1 {KEY}\nkey:\n  name: {KEY}\n  algorithm: \
             hmac-sha512\n  secret: \"{SECRET}\"\n"
        ),
    };
    nsd_server(path, port, "") + &zone
}

/// All but the lines of the zone.
pub(super) fn nsd_server(path: &str, port: u16, more: &str) -> String {
    format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \
         \"{path}\"\n  pidfile: \"{path}/pid\"\n  database: \"\"\n  xfrdfile: \"{path}/xfrd\"\n  \
         xfrdir: \"{path}\"\n  zonelistfile: \"{path}/list\"\n  cookie-secret-file: \"\"\n{more}\
         remote-control:\n  control-enable: no\nzone:\n  name: {ZONE}\n"
    )
}

fn bind(path: &str, port: u16, role: Role) -> String {
    let zone = match role {
        Role::Primary(to) => format!(
            "type primary; file \"zone\"; ixfr-from-differences yes; notify explicit; also-notify {{ \
             127.0.0.1 port {to}; }};"
        ),
        Role::Secondary(from) | Role::SignedSecondary(from) => format!(
            "type secondary; file \"copy\"; primaries {{ 127.0.0.1 port {from}; }}; notify no;"
        ),
        Role::Signing => {
            format!("type primary; file \"zone\"; notify no; allow-transfer {{ key {KEY}; }};")
        }
    };
    let key = format!("key \"{KEY}\" {{ algorithm hmac-sha512; secret \"{SECRET}\"; }};\n");
    format!("{}{key}zone \"{ZONE}\" {{ {zone} }};\n", bind_options(path, port))
}

/// What it has beside zones and keys.
pub(super) fn bind_options(path: &str, port: u16) -> String {
    format!(
        "options {{ directory \"{path}\"; pid-file \"{path}/pid\"; session-keyfile \"{path}/key\"; \
         listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; allow-transfer {{ any; }}; \
         allow-notify {{ 127.0.0.1; }}; recursion no; dnssec-validation no; notify-delay 0; \
         max-ixfr-ratio unlimited; }};\ncontrols {{ }};\n"
    )
}

fn coredns(path: &str, port: u16, role: Role) -> String {
    let zone = match role {
        Role::Primary(to) => {
            format!("file {path}/zone {{\n reload 1s\n }}\n transfer {{\n to * 127.0.0.1:{to}\n }}")
        }
        Role::Secondary(from) | Role::SignedSecondary(from) => {
            format!("secondary {{\n transfer from 127.0.0.1:{from}\n }}\n transfer {{\n to *\n }}")
        }
        Role::Signing => format!(
            "tsig {{\n secret {KEY} {SECRET}\n require AXFR IXFR\n }}\n file {path}/zone\n \
             transfer {{\n to *\n }}"
        ),
    };
    format!("{ZONE}:{port} {{\n bind 127.0.0.1\n {zone}\n}}\n")
}

fn powerdns_folder(path: &Path) -> String {
    format!("--config-dir={}", path.display())
}

/// A configuration for zones in files, with keys in a database, which is made.
fn powerdns_with_files(path: &str, port: u16, role: Role) -> String {
    let folder = Path::new(path);
    std::fs::write(folder.join("zones"), powerdns_zones(path, role)).unwrap();
    let text = powerdns(path, port, role);
    std::fs::write(folder.join(configuration(Kind::Powerdns)), &text).unwrap();
    prepare_powerdns(folder, role);
    text
}

/// The same for a primary that signs its zone as it answers, with a key that is made.
pub(super) fn powerdns_that_signs(path: &str, port: u16, here: u16) -> String {
    let text = powerdns_with_files(path, port, Role::Primary(here));
    // With this algorithm, what is signed again gets the same signature.
    pdnsutil(Path::new(path), &["add-zone-key", ZONE, "ksk", "active", "ed25519"]);
    pdnsutil(Path::new(path), &["set-nsec3", ZONE, "1 0 0 -"]);
    text
}

/// It looks at serials of its primaries, and tells of its own, once a second; and keeps no answers.
fn powerdns(path: &str, port: u16, role: Role) -> String {
    let more = match role {
        Role::Primary(to) => format!("primary=yes\nalso-notify=127.0.0.1:{to}\n"),
        Role::Secondary(_) | Role::SignedSecondary(_) => "secondary=yes\n".to_owned(),
        Role::Signing => String::new(),
    };
    // Without a key everybody may have the zone, unless it is for those with one.
    let allowed = if matches!(role, Role::Signing) { "" } else { "127.0.0.1" };
    let backend = format!("launch=bind\nbind-config={path}/zones\nbind-dnssec-db={path}/db/keys\n");
    powerdns_server(path, port, allowed) + &backend + &more
}

/// What it has beside zones.
fn powerdns_server(path: &str, port: u16, allowed: &str) -> String {
    format!(
        "local-address=127.0.0.1\nlocal-port={port}\nsocket-dir={path}\ndaemon=no\nguardian=no\n\
         disable-syslog=yes\nallow-axfr-ips={allowed}\nonly-notify=127.0.0.1\nallow-notify-from=127.0.0.1\n\
         xfr-cycle-interval=1\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n\
         zone-cache-refresh-interval=0\nsecurity-poll-suffix=\nversion-string=anonymous\n"
    )
}

/// A configuration of PowerDNS for zones in a database of SQLite, which is made; `pdnsutil` does the rest.
pub(super) fn powerdns_with_database(path: &str, port: u16, more: &str) -> String {
    const SCHEMA: &str = "/usr/share/doc/pdns-backend-sqlite3/schema.sqlite3.sql";
    need("sqlite3", "sqlite3");
    let database = format!("{path}/db/zones.sqlite");
    let schema = File::open(SCHEMA).expect("pdns-backend-sqlite3 (cargo xtask peers --tests)");
    assert!(Command::new("sqlite3").arg(&database).stdin(schema).status().unwrap().success());
    let text = powerdns_server(path, port, "127.0.0.1")
        + &format!("launch=gsqlite3\ngsqlite3-database={database}\n{more}");
    std::fs::write(Path::new(path).join(configuration(Kind::Powerdns)), &text).unwrap();
    text
}

/// Has `pdnsutil` do something in the folder of a server.
pub(super) fn pdnsutil(path: &Path, arguments: &[&str]) {
    let mut command = Command::new("pdnsutil");
    let output = command.arg(powerdns_folder(path)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

fn powerdns_zones(path: &str, role: Role) -> String {
    match role {
        Role::Primary(_) | Role::Signing => {
            format!("zone \"{ZONE}\" {{ type master; file \"{path}/zone\"; }};\n")
        }
        Role::Secondary(from) | Role::SignedSecondary(from) => format!(
            "zone \"{ZONE}\" {{ type slave; file \"{path}/copy\"; masters {{ 127.0.0.1:{from}; }}; }};\n"
        ),
    }
}

/// The database of keys, and who uses the key for what.
fn prepare_powerdns(path: &Path, role: Role) {
    let database = path.join("db/keys").display().to_string();
    let mut commands = vec![vec!["create-bind-db", &database]];
    let import = vec!["import-tsig-key", KEY, "hmac-sha512", SECRET];
    match role {
        Role::Primary(_) | Role::Secondary(_) => {}
        Role::Signing => {
            commands.extend([import, vec!["activate-tsig-key", ZONE, KEY, "primary"]]);
        }
        Role::SignedSecondary(_) => {
            commands.extend([import, vec!["activate-tsig-key", ZONE, KEY, "secondary"]]);
        }
    }
    commands.iter().for_each(|arguments| pdnsutil(path, arguments));
}
