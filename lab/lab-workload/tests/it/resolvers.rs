//! The walk along the search path, octet by octet, against glibc, musl and Go: each looks names up in
//! namespaces of its own, where a recorder on port 53 of loopback says which names exist.

use crate::{need, run};
use lab_workload::Workload;
use lab_workload::recorded::{Carrier, Content, Record};
use lab_workload::search::observed::{Observer, Options};
use lab_workload::search::{Existing, Libc, Measure, Resolver};
use nodens_wire::{Name, Type};
use std::path::Path;
use std::process::Command;

/// Looks each argument up with getaddrinfo, both families.
const LOOKUP_C: &str = r#"
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct addrinfo hints, *found;
        memset(&hints, 0, sizeof hints);
        hints.ai_socktype = SOCK_STREAM;
        if (getaddrinfo(argv[i], "80", &hints, &found) == 0) freeaddrinfo(found);
    }
    return 0;
}
"#;

const LOOKUP_GO: &str = r#"package main

import (
	"context"
	"net"
	"os"
)

func main() {
	resolver := &net.Resolver{PreferGo: true}
	for _, name := range os.Args[1:] {
		resolver.LookupIPAddr(context.Background(), name)
	}
}
"#;

/// Writes each query, the port that it came from, and its response to standard output, in hexadecimal. Arguments are the names that exist; those that
/// end with `!` have no address, all others NXDOMAIN.
const RECORDER_C: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(53) }, peer;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(s, (struct sockaddr *)&here, sizeof here)) { perror("bind"); return 1; }
    puts("ready");
    fflush(stdout);
    for (;;) {
        unsigned char q[4096], *p = q + 12;
        char name[300] = "";
        socklen_t peer_len = sizeof peer;
        int len = recvfrom(s, q, 2048, 0, (struct sockaddr *)&peer, &peer_len), exists = 0, empty = 0;
        if (len < 17) continue;
        for (int i = 0; i < len; i++) printf("%02x", q[i]);
        for (; *p; p += *p + 1) { strncat(name, (char *)p + 1, *p); strcat(name, "."); }
        int v6 = p[2] == 28;
        for (int i = 1; i < argc; i++) {
            size_t n = strlen(name);
            if (strncasecmp(argv[i], name, n)) continue;
            exists |= argv[i][n] == 0 || argv[i][n] == '!';
            empty |= argv[i][n] == '!';
        }
        int end = p + 5 - q;
        q[2] = 0x81; q[3] = exists ? 0x80 : 0x83;
        memset(q + 6, 0, 6);
        if (exists && !empty) {
            unsigned char a[28] = { 0xc0, 12, 0, p[2], 0, 1, 0, 0, 0, 60, 0, v6 ? 16 : 4, v6 ? 0xfd : 10, 1 };
            q[7] = 1;
            memcpy(q + end, a, v6 ? 28 : 16);
            end += v6 ? 28 : 16;
        }
        printf(" %04x ", ntohs(peer.sin_port));
        for (int i = 0; i < end; i++) printf("%02x", q[i]);
        puts("");
        fflush(stdout);
        sendto(s, q, end, 0, (struct sockaddr *)&peer, peer_len);
    }
}
"#;

/// Runs the program in namespaces where nothing but the recorder and `resolv.conf` is there.
const SCRIPT: &str = r#"set -e
folder=$1 program=$2; shift 2
ip link set lo up
mount --bind "$folder/resolv.conf" /etc/resolv.conf
if [ -e /etc/nsswitch.conf ]; then mount --bind "$folder/nsswitch.conf" /etc/nsswitch.conf; fi
rm -f "$folder/log"
"$folder/recorder" $(cat "$folder/exists") >"$folder/log" & recorder=$!
trap 'kill $recorder; wait $recorder 2>/dev/null || true' EXIT
for _ in $(seq 600); do grep -qs ready "$folder/log" && break; sleep 0.05; done
"$program" "$@"
"#;

/// One `resolv.conf`, what exists, and what is looked up.
struct Case {
    search: Vec<String>,
    ndots: usize,
    /// As [`Existing`] reads them.
    exists: &'static [&'static str],
    lookups: Vec<String>,
}

impl Case {
    /// Whether it is a pod's: lookups of all kinds along one list.
    fn is_pods(&self) -> bool {
        self.search.iter().any(|domain| domain == "svc.cluster.local")
    }
}

fn cases() -> Vec<Case> {
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let pod = strings(&["default.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
    let exists: &[&str] = &[
        "web.default.svc.cluster.local.",
        "www.example.org.",
        "empty.svc.cluster.local. NODATA",
        "empty.cluster.local.",
    ];
    let lookups = [
        "web",
        "www.example.org",
        "www.example.org.",
        "nowhere",
        "empty",
        "nowhere.example",
        "web.default.svc.cluster.local",
        "under_score",
        "a.b.c.d.e.f",
        "a+b",
        "\u{e4}",
        "-a",
        "a-",
        "a.-b",
        "a-.b",
        "123",
        "10.1",
        "0x7f.1",
        "1.2.3.999",
        "1.2.3.4.5",
        "::1",
        "a..b",
        "a.b..",
        "x.onion",
    ];
    let long = vec!["a".repeat(49); 5].join(".");
    let wide: Vec<_> = (0..12).map(|n| format!("{}{n:02}.example", "s".repeat(11))).collect();
    vec![
        Case { search: pod.clone(), ndots: 5, exists, lookups: strings(&lookups) },
        Case { search: pod, ndots: 2, exists, lookups: strings(&lookups) },
        Case {
            search: strings(&["x.y", "too.long.for.this.name", "z"]),
            ndots: 5,
            exists: &[],
            lookups: vec![long, "b".repeat(64)],
        },
        Case { search: wide, ndots: 1, exists: &[], lookups: strings(&["a"]) },
    ]
}

/// A query of the program, the port that it came from, and its response.
struct Exchange {
    query: Vec<u8>,
    port: u16,
    response: Vec<u8>,
}

impl Exchange {
    fn read(line: &str) -> Self {
        let octets = |digits: &str| -> Vec<u8> {
            let octet = |at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
            (0..digits.len() / 2).map(octet).collect()
        };
        let columns: Vec<_> = line.split(' ').collect();
        let [query, port, response] = *columns else { panic!("{line}") };
        let port = u16::from_str_radix(port, 16).unwrap();
        Self { query: octets(query), port, response: octets(response) }
    }

    /// The query with ID 0.
    fn anonymous(&self) -> Vec<u8> {
        [&[0, 0], &self.query[2..]].concat()
    }
}

/// What the program at `program` asks, and gets.
fn asked(folder: &Path, program: &Path, case: &Case) -> Vec<Exchange> {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let (search, ndots) = (case.search.join(" "), case.ndots);
    let options = format!("options ndots:{ndots} timeout:30 attempts:1");
    write("resolv.conf", &format!("nameserver 127.0.0.1\nsearch {search}\n{options}\n"));
    write("nsswitch.conf", "hosts: dns\n");
    let exists = case.exists.iter().map(|line| line.replace(" NODATA", "!"));
    write("exists", &exists.collect::<Vec<_>>().join("\n"));
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", SCRIPT, "sh"]).arg(folder).arg(program);
    run(command.args(&case.lookups));
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    log.lines().skip(1).map(Exchange::read).collect()
}

/// The lookups that are found in what was asked are those that were made, and cost what the model says.
fn find_again(libc: Libc, case: &Case, asked: &[Exchange]) {
    let mut observer = Observer::default();
    for (at, exchange) in asked.iter().enumerate() {
        for (time, content) in [
            (1, Content::Query(exchange.query.clone())),
            (2, Content::Response(exchange.response.clone())),
        ] {
            let record = Record {
                number: at as u64 + 1,
                time: (10 * at as u64 + time) * 1_000,
                client: ([127, 0, 0, 1], exchange.port).into(),
                server: ([127, 0, 0, 1], 53).into(),
                carrier: Carrier::Udp,
                content,
            };
            observer.push(&record).unwrap();
        }
    }
    let search = case.search.iter().map(|domain| Name::parse(domain).unwrap());
    let ndots = vec![1, 2, 5];
    let options = Options { search: None, libc, ndots, cache_ttl: (0, 0) };
    let observed = observer.finish(&options);
    let [client] = &*observed.clients else { panic!("{:?}", observed.clients) };
    let search: Vec<_> = search.collect();
    assert_eq!(client.search, search, "{libc:?}");
    let resolver = Resolver { libc, search: case.search.clone(), ndots: case.ndots };
    let existing: Existing = case.exists.join("\n").parse().unwrap();
    let walks = case.lookups.iter().map(|text| resolver.walk(text, |name| existing.find(name)));
    let lookups = walks.filter(|walk| !walk.is_empty()).count();
    let found: Vec<_> = observed.lookups.iter().map(|l| (&l.text, l.lookups, l.queries)).collect();
    assert_eq!(observed.lookup_count(), lookups as u64, "{libc:?} {found:?}");
    assert_eq!(observed.queries, asked.len() as u64);
    let model = observed.savings.iter().find(|saving| saving.measure == Measure::AsItIs).unwrap();
    assert_eq!(model.cost.queries, observed.queries, "{libc:?} {found:?}");
}

/// What the plan says that `libc` asks, with ID 0.
fn planned(libc: Libc, case: &Case) -> Vec<Vec<u8>> {
    let resolver = Resolver { libc, search: case.search.clone(), ndots: case.ndots };
    let existing: Existing = case.exists.join("\n").parse().unwrap();
    let mut workload = Workload::new(0);
    for text in &case.lookups {
        for name in resolver.walk(text, |name| existing.find(name)) {
            for qtype in [Type::A, Type::AAAA] {
                workload.push_question(name.view(), qtype, &resolver.style());
            }
        }
    }
    let message = |n| {
        let mut out = Vec::new();
        workload.append(n, 0, &mut out);
        out
    };
    (0..workload.len() as u64).map(message).collect()
}

fn hold(libc: Libc, folder: &Path, program: &Path) {
    need("unshare", "util-linux");
    need("ip", "iproute2");
    need("cc", "gcc");
    std::fs::write(folder.join("recorder.c"), RECORDER_C).unwrap();
    run(Command::new("cc").current_dir(folder).args(["-o", "recorder", "recorder.c"]));
    for (at, case) in cases().iter().enumerate() {
        let exchanges = asked(folder, program, case);
        if case.is_pods() {
            find_again(libc, case, &exchanges);
        }
        let mut asked: Vec<_> = exchanges.iter().map(Exchange::anonymous).collect();
        let mut planned = planned(libc, case);
        if libc == Libc::Go {
            // Go asks for A and AAAA from two goroutines: their order is anyone's.
            asked.chunks_mut(2).for_each(<[_]>::sort);
            planned.chunks_mut(2).for_each(<[_]>::sort);
        }
        let differ = asked.iter().zip(&planned).position(|(asked, planned)| asked != planned);
        let at_most = asked.len().min(planned.len());
        if differ.is_some() || asked.len() != planned.len() {
            let first = differ.unwrap_or(at_most);
            let show = |messages: &[Vec<u8>]| {
                messages.get(first).map(|message| message.escape_ascii().to_string())
            };
            panic!(
                "{libc:?}, case {at}: {} queries asked, {} planned, query {first}:\n{:?}\n{:?}",
                asked.len(),
                planned.len(),
                show(&asked),
                show(&planned)
            );
        }
    }
}

#[test]
fn glibc_asks_what_the_plan_says() {
    need("cc", "gcc");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lookup.c"), LOOKUP_C).unwrap();
    run(Command::new("cc").current_dir(&folder).args(["-o", "lookup", "lookup.c"]));
    hold(Libc::Glibc, folder.path(), &folder.path().join("lookup"));
}

#[test]
fn musl_asks_what_the_plan_says() {
    need("musl-gcc", "musl-tools");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lookup.c"), LOOKUP_C).unwrap();
    run(Command::new("musl-gcc").current_dir(&folder).args(["-o", "lookup", "lookup.c"]));
    hold(Libc::Musl, folder.path(), &folder.path().join("lookup"));
}

#[test]
fn go_asks_what_the_plan_says() {
    need("go", "golang");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("go.mod"), "module lookup\n\ngo 1.21\n").unwrap();
    std::fs::write(folder.path().join("main.go"), LOOKUP_GO).unwrap();
    let mut build = Command::new("go");
    run(build.current_dir(&folder).env("CGO_ENABLED", "0").args(["build", "-o", "lookup"]));
    hold(Libc::Go, folder.path(), &folder.path().join("lookup"));
}
