//! Real clients resolve through the server: dig, kdig, glibc's and musl's getaddrinfo with a search
//! path, Go's own resolver, c-ares and dnspython.
//!
//! The ones that read `/etc/resolv.conf` run in a network and mount namespace of their own, where
//! the server listens on port 53 of loopback; nothing is left behind when the test ends.

use crate::fixture::{Folder, Server, need};
use crate::pod::{Pod, build_c, build_go, run};
use std::process::Command;

/// Answers as a cluster would, with an external name that only the search path's end finds.
const COREFILE: &str = r#"cluster.local:PORT {
    bind 127.0.0.1
    hosts {
        10.0.0.7 web.default.svc.cluster.local
        fd00::7 web.default.svc.cluster.local
    }
    template ANY ANY {
        match \.example\.org\.
        rcode NXDOMAIN
        authority "cluster.local. 60 IN SOA ns.cluster.local. root.cluster.local. 1 2 3 4 60"
        fallthrough
    }
}
.:PORT {
    bind 127.0.0.1
    cache 30
    hosts {
        192.0.2.80 www.example.org
        2001:db8::80 www.example.org
    }
}
"#;

#[test]
fn dig_and_kdig() {
    need("dig", "dnsutils");
    need("kdig", "knot-dnsutils");
    let server = Server::start("dig", COREFILE);
    let port = server.address.port().to_string();
    for tool in ["dig", "kdig"] {
        for transport in ["+notcp", "+tcp"] {
            let args = ["@127.0.0.1", "-p", &port, transport, "+short", "www.example.org", "AAAA"];
            assert_eq!(run(Command::new(tool).args(args)).trim(), "2001:db8::80", "{tool}");
        }
    }
}

#[test]
fn dnspython() {
    let server = Server::start("dnspython", COREFILE);
    let script = "
import sys, dns.resolver
r = dns.resolver.Resolver(configure=False)
r.nameservers, r.port = ['127.0.0.1'], int(sys.argv[1])
for tcp in (False, True):
    print(r.resolve('www.example.org', 'A', tcp=tcp)[0])
";
    let python = python_with("dns.resolver", "python3-dnspython");
    let port = server.address.port().to_string();
    let text = run(Command::new(python).args(["-c", script, &port]));
    assert_eq!(text, "192.0.2.80\n192.0.2.80\n");
}

/// The distribution's Python has the distribution's packages; another one on PATH may not.
pub(crate) fn python_with(module: &str, package: &str) -> &'static str {
    let has = |python: &&str| {
        let import = format!("import {module}");
        Command::new(python).args(["-c", &import]).output().is_ok_and(|out| out.status.success())
    };
    let found = ["/usr/bin/python3", "python3"].into_iter().find(has);
    found.unwrap_or_else(|| panic!("no python3 has {module}: apt-get install {package}"))
}

const ARES_C: &str = r#"
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/select.h>
static void done(void *arg, int status, int timeouts, struct ares_addrinfo *found) {
    (void)timeouts;
    if (status != ARES_SUCCESS) { printf("%s: %s\n", (char *)arg, ares_strerror(status)); return; }
    for (struct ares_addrinfo_node *a = found->nodes; a; a = a->ai_next)
        if (a->ai_family == AF_INET) {
            char text[64];
            void *ip = &((struct sockaddr_in *)a->ai_addr)->sin_addr;
            printf("%s %s\n", (char *)arg, inet_ntop(AF_INET, ip, text, sizeof text));
        }
    ares_freeaddrinfo(found);
}
int main(int argc, char **argv) {
    ares_channel channel;
    struct ares_addrinfo_hints hints = { .ai_family = AF_INET };
    if (ares_library_init(ARES_LIB_INIT_ALL) || ares_init(&channel)) return 1;
    for (int i = 1; i < argc; i++) ares_getaddrinfo(channel, argv[i], NULL, &hints, done, argv[i]);
    for (int round = 0; round < 1000; round++) {
        fd_set readable, writable;
        struct timeval wait, *tv;
        FD_ZERO(&readable); FD_ZERO(&writable);
        int n = ares_fds(channel, &readable, &writable);
        if (n == 0) break;
        tv = ares_timeout(channel, NULL, &wait);
        select(n, &readable, &writable, NULL, tv);
        ares_process(channel, &readable, &writable);
    }
    return 0;
}
"#;

const NAMES: [&str; 2] = ["web", "www.example.org"];
const ADDRESSES: &str =
    "web 10.0.0.7\nweb fd00::7\nwww.example.org 192.0.2.80\nwww.example.org 2001:db8::80\n";

const SEARCH: &str = "default.svc.cluster.local svc.cluster.local cluster.local";

#[test]
fn glibc_and_musl_getaddrinfo_walk_the_search_path() {
    let folder = Folder::new("libc");
    for compiler in ["cc", "musl-gcc"] {
        let program = build_c(&folder, compiler);
        assert_eq!(
            Pod::new(&folder, COREFILE, SEARCH).run(&program, &NAMES),
            ADDRESSES,
            "{compiler}"
        );
    }
}

#[test]
fn go_resolves_without_libc() {
    let folder = Folder::new("go");
    let program = build_go(&folder);
    assert_eq!(Pod::new(&folder, COREFILE, SEARCH).run(&program, &NAMES), ADDRESSES);
}

#[test]
fn c_ares() {
    need("cc", "gcc");
    let folder = Folder::new("ares");
    let source = folder.write("lookup.c", ARES_C);
    let program = folder.0.join("lookup");
    run(Command::new("cc").arg("-o").arg(&program).arg(&source).arg("-lcares"));
    let text = Pod::new(&folder, COREFILE, SEARCH).run(&program, &NAMES);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["web 10.0.0.7", "www.example.org 192.0.2.80"]);
}
