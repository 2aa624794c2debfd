//! The settings of each server: one thread per CPU given, a cache for a million entries where there
//! is one, no log of queries, no DNSSEC validation, everything else asked of one upstream.

use super::zones::ZoneFile;
use super::{INTERNAL, INTERNAL_ADDRESS};
use lab_load::Transport;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

mod authority;

pub(super) use authority::{knot, nsd, pdns, zone};

/// Where one started server listens and asks, and what it is to do.
pub(super) struct Setup {
    pub(super) address: SocketAddr,
    /// Three more addresses that are free: metrics, health, readiness.
    pub(super) extra: [SocketAddr; 3],
    pub(super) upstream: SocketAddr,
    /// Where the upstream is instead if it speaks TLS.
    pub(super) upstream_tls: Option<UpstreamTls>,
    /// CPUs that it may use, and so threads, processes or sockets.
    pub(super) threads: usize,
    /// Connections over TCP that it is to have room for.
    pub(super) connections: usize,
    pub(super) cached: bool,
    /// A hosts file with the internal name; nothing if the server is not to know it.
    pub(super) hosts: Option<PathBuf>,
    /// Whether the Corefile is watched for changes.
    pub(super) watched: bool,
    /// The zone that it serves instead of asking an upstream.
    pub(super) zone: Option<ZoneFile>,
    /// The API server that Services are read from.
    pub(super) services: Option<SocketAddr>,
    /// Where it listens with TLS, and with which certificate.
    pub(super) encrypted: Option<Encrypted>,
    /// For the server's own files.
    pub(super) folder: PathBuf,
}

/// An upstream with TLS; its certificate is for `localhost` and its address.
pub(super) struct UpstreamTls {
    pub(super) scheme: &'static str,
    pub(super) address: SocketAddr,
    /// The authority of its certificate, in PEM.
    pub(super) authority: PathBuf,
}

/// A listener with TLS, beside the plain one.
pub(super) struct Encrypted {
    pub(super) transport: Transport,
    pub(super) address: SocketAddr,
    /// In PEM, as the key.
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Setup {
    /// Certificate, key and port of the listener with TLS, if it speaks `transport`.
    fn tls(
        &self,
        transport: Transport,
    ) -> Option<(std::path::Display<'_>, std::path::Display<'_>, u16)> {
        let own = self.encrypted.as_ref().filter(|own| own.transport == transport)?;
        Some((own.certificate.display(), own.key.display(), own.address.port()))
    }
}

/// Which handlers a Corefile has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Chain {
    /// Cache and upstream.
    Short,
    /// The chain of a cluster's Corefile, with `kubernetes` only where there is an API server.
    Cluster,
    /// The short one with a socket per CPU, for CoreDNS.
    Multisocket,
}

pub(super) fn corefile(setup: &Setup, chain: Chain) -> String {
    if let Some(zone) = &setup.zone {
        return authority::corefile(setup, zone);
    }
    let Setup { address, extra: [metrics, health, ready], upstream, .. } = setup;
    let mut lines = vec![format!("bind {}", address.ip()), "errors".to_owned()];
    if chain == Chain::Cluster {
        lines.extend([
            format!("health {health} {{\n        lameduck 0s\n    }}"),
            format!("ready {ready}"),
            "loop".to_owned(),
            "loadbalance".to_owned(),
        ]);
    }
    if chain == Chain::Multisocket {
        lines.push(format!("multisocket {}", setup.threads));
    }
    if chain == Chain::Cluster || setup.watched {
        lines.push(format!("prometheus {metrics}"));
        lines.push(if setup.watched { "reload 2s 1s" } else { "reload" }.to_owned());
    }
    if let Some(api) = setup.services {
        let options = format!(
            "endpoint http://{api}\n        pods insecure\n        ttl 30\n        \
             fallthrough in-addr.arpa ip6.arpa"
        );
        let zones = "cluster.local in-addr.arpa ip6.arpa";
        lines.push(format!("kubernetes {zones} {{\n        {options}\n    }}"));
    }
    if setup.cached && setup.services.is_some() {
        lines.push("cache 30".to_owned());
    } else if setup.cached {
        let room = "success 1000000\n        denial 1000000";
        lines.push(format!("cache 3600 {{\n        {room}\n    }}"));
    }
    if let Some(hosts) = &setup.hosts {
        let options = "reload 500ms\n        fallthrough";
        lines.push(format!("hosts {} {{\n        {options}\n    }}", hosts.display()));
    }
    lines.push(match &setup.upstream_tls {
        None => format!("forward . {upstream}"),
        Some(UpstreamTls { scheme, address, authority }) => {
            let options = format!("tls {}", authority.display());
            format!("forward . {scheme}://{address} {{\n        {options}\n    }}")
        }
    });
    let mut text = block("", address.port(), &lines);
    if let Some(own) = &setup.encrypted {
        lines.push(format!("tls {} {}", own.certificate.display(), own.key.display()));
        let (scheme, bound) = match own.transport {
            Transport::Doh => ("https://", Some("https")),
            Transport::Doq => ("quic://", Some("quic")),
            Transport::Doh3 => ("https3://", Some("https3")),
            _ => ("tls://", None),
        };
        // Others have no such bounds.
        let most = setup.connections;
        lines.extend(bound.map(|of| format!("{of} {{\n        max_connections {most}\n    }}")));
        text += &block(scheme, own.address.port(), &lines);
    }
    text
}

fn block(scheme: &str, port: u16, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!("{scheme}.:{port} {{\n{lines}}}\n")
}

pub(super) fn unbound(setup: &Setup) -> String {
    let Setup { address, upstream, threads, connections, .. } = setup;
    let (ip, port, to, to_port) = (address.ip(), address.port(), upstream.ip(), upstream.port());
    let internal = if setup.hosts.is_some() {
        format!("    local-data: \"{INTERNAL} IN A {INTERNAL_ADDRESS}\"\n")
    } else {
        String::new()
    };
    let tls = match (setup.tls(Transport::Dot), setup.tls(Transport::Doh)) {
        (Some((certificate, key, port)), _) => format!(
            "    interface: {ip}@{port}
    tls-port: {port}
    tls-service-pem: \"{certificate}\"
    tls-service-key: \"{key}\"
"
        ),
        (_, Some((certificate, key, port))) => format!(
            "    interface: {ip}@{port}
    https-port: {port}
    tls-service-pem: \"{certificate}\"
    tls-service-key: \"{key}\"
"
        ),
        _ => String::new(),
    };
    let no_cache = if setup.cached { "" } else { "    cache-max-ttl: 0\n" };
    let (bundle, forward) = match &setup.upstream_tls {
        None => (String::new(), format!("    forward-addr: {to}@{to_port}\n")),
        Some(UpstreamTls { address, authority, .. }) => {
            let (ip, port) = (address.ip(), address.port());
            let forward =
                format!("    forward-tls-upstream: yes\n    forward-addr: {ip}@{port}#localhost\n");
            (format!("    tls-cert-bundle: \"{}\"\n", authority.display()), forward)
        }
    };
    format!(
        "server:
    interface: {ip}@{port}
    port: {port}
    num-threads: {threads}
    so-reuseport: yes
    do-daemonize: no
    chroot: \"\"
    username: \"\"
    pidfile: \"\"
    use-syslog: no
    verbosity: 0
    module-config: \"iterator\"
    do-not-query-localhost: no
    access-control: 0.0.0.0/0 allow
    msg-cache-size: 512m
    rrset-cache-size: 1g
    outgoing-range: 4096
    incoming-num-tcp: {connections}
    num-queries-per-thread: 2048
    minimal-responses: yes
{internal}{tls}{bundle}{no_cache}remote-control:
    control-enable: no
forward-zone:
    name: \".\"
{forward}"
    )
}

pub(super) fn dnsdist(setup: &Setup) -> String {
    let Setup { address, upstream, threads, .. } = setup;
    let listen = |at: usize| {
        let how = if at == 0 { "setLocal" } else { "addLocal" };
        format!("{how}(\"{address}\", {{reusePort=true, maxInFlight=64}})\n")
    };
    let mut text: String = (0..*threads).map(listen).collect();
    text.push_str("setACL(\"0.0.0.0/0\")\nsetSecurityPollSuffix(\"\")\n");
    if setup.hosts.is_some() {
        let action = format!("SpoofAction(\"{INTERNAL_ADDRESS}\")");
        _ = writeln!(text, "addAction(QNameRule(\"{INTERNAL}\"), {action})");
    }
    let (upstream, tls) = match &setup.upstream_tls {
        None => (upstream, String::new()),
        Some(UpstreamTls { scheme, address, authority }) => {
            let authority = authority.display();
            let how = "tls=\"openssl\", subjectName=\"localhost\"";
            let path = if *scheme == "https" { ", dohPath=\"/dns-query\"" } else { "" };
            (address, format!(", {how}, caStore=\"{authority}\"{path}"))
        }
    };
    _ = writeln!(text, "newServer({{address=\"{upstream}\", sockets=8{tls}}}):setUp()");
    let tls = [(Transport::Dot, "addTLSLocal"), (Transport::Doh, "addDOHLocal")];
    for (transport, how) in tls {
        let Some((certificate, key, port)) = setup.tls(transport) else { continue };
        let files = format!("\"{certificate}\", \"{key}\"");
        let at = SocketAddr::new(address.ip(), port);
        let path = if transport == Transport::Doh { "\"/dns-query\", " } else { "" };
        _ = writeln!(text, "{how}(\"{at}\", {files}, {path}{{reusePort=true}})");
    }
    if setup.cached {
        text.push_str("getPool(\"\"):setCache(newPacketCache(1000000))\n");
    }
    text
}

/// Knot Resolver. It has no switch that turns its cache off.
pub(super) fn kresd(setup: &Setup) -> String {
    let Setup { address, upstream, .. } = setup;
    let (ip, port, to, to_port) = (address.ip(), address.port(), upstream.ip(), upstream.port());
    let internal = if setup.hosts.is_some() {
        let name = INTERNAL.trim_end_matches('.');
        format!("modules = {{ 'hints > iterate' }}\nhints['{name}'] = '{INTERNAL_ADDRESS}'\n")
    } else {
        String::new()
    };
    let tls = [(Transport::Dot, "tls"), (Transport::Doh, "doh2")];
    let tls: String = tls
        .into_iter()
        .filter_map(|(transport, kind)| Some((setup.tls(transport)?, kind)))
        .map(|((certificate, key, port), kind)| {
            format!(
                "net.tls('{certificate}', '{key}')\nnet.listen('{ip}', {port}, {{ kind = '{kind}' }})\n"
            )
        })
        .collect();
    let forward = match &setup.upstream_tls {
        None => format!("policy.STUB('{to}@{to_port}')"),
        Some(UpstreamTls { address, authority, .. }) => {
            let (at, authority) =
                (format!("{}@{}", address.ip(), address.port()), authority.display());
            format!(
                "policy.TLS_FORWARD({{{{'{at}', hostname='localhost', ca_file='{authority}'}}}})"
            )
        }
    };
    format!(
        "net.listen('{ip}', {port})
{tls}net.ipv6 = false
trust_anchors.remove('.')
cache.size = 500 * MB
{internal}policy.add(policy.all({forward}))
"
    )
}

pub(super) fn recursor(setup: &Setup) -> String {
    let Setup { address, upstream, threads, connections, .. } = setup;
    let folder = setup.folder.display();
    format!(
        "local-address={address}
allow-from=0.0.0.0/0
forward-zones-recurse=.={upstream}
dont-query=
query-local-address=127.0.0.1
daemon=no
disable-syslog=yes
loglevel=3
quiet=yes
threads={threads}
pdns-distributes-queries=no
reuseport=yes
dnssec=off
security-poll-suffix=
socket-dir={folder}
setuid=
write-pid=no
max-cache-entries=1000000
max-packetcache-entries=1000000
max-tcp-clients={connections}
max-tcp-per-client=0
"
    )
}

pub(super) fn bind(setup: &Setup) -> String {
    if let Some(zone) = &setup.zone {
        return authority::bind(setup, zone);
    }
    let Setup { address, upstream, connections, .. } = setup;
    let (ip, port, to, to_port) = (address.ip(), address.port(), upstream.ip(), upstream.port());
    let folder = setup.folder.display();
    format!(
        "options {{
    directory \"{folder}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile \"{folder}/session.key\";
    recursion yes;
    allow-query {{ any; }};
    allow-recursion {{ any; }};
    allow-query-cache {{ any; }};
    forwarders {{ {to} port {to_port}; }};
    forward only;
    dnssec-validation no;
    minimal-responses yes;
    max-cache-size 1g;
    recursive-clients 10000;
    tcp-clients {connections};
}};
controls {{ }};
logging {{ category default {{ null; }}; }};
"
    )
}
