//! What `acl`, `template`, `hosts`, `file` and `search` do for usual questions allocates nothing. In a binary of its
//! own, because it counts allocations.

use nodens_core::testing::{Bench, request};
use nodens_core::worker::Verdict;
use nodens_testkit::alloc::{Counting, allocations};
use std::fmt::Write;
use std::io::Write as _;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A Corefile whose questions pass 100 rules of `acl` and two of `template` before `hosts`.
fn corefile() -> String {
    let mut networks = String::new();
    for n in 0..100 {
        _ = write!(networks, " 10.{n}.0.0/16 2001:db8:{n:x}::/48");
    }
    format!(
        ".:53 {{
            acl {{
                block net {networks}
                filter type ANY
            }}
            template IN A {{
                match ^blocked[.] (bad|worse)[.]example[.]
                rcode NXDOMAIN
                authority \"example. 60 SOA ns.example. host.example. 1 60 60 60 60\"
                ederror 15 blocked
                fallthrough
            }}
            template IN AAAA v4only.example {{
            }}
            hosts /nonexistent/hosts {{
                192.0.2.1 www.example.org host.example.org
                2001:db8::1 www.example.org
                192.0.2.2 *.apps.example.org
            }}
        }}"
    )
}

/// `search` in front of what answers as a cluster's servers do.
const SEARCH: &str = "cluster.local {
    search
    template IN ANY cluster.local {
        rcode NXDOMAIN
        authority \"cluster.local. 30 SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 30\"
    }
}";

/// Asks until nothing has to be made any more, and then goes on without an allocation.
fn settles(bench: &mut Bench, requests: &[Vec<u8>]) {
    let mut out = Vec::with_capacity(4096);
    let mut ask_all = || {
        let before = allocations();
        for request in requests {
            let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
            assert_eq!(verdict, Verdict::Answered);
        }
        allocations() - before
    };
    assert!(ask_all() > 0, "buffers and series are made once, so the counter works");
    for _ in 0..10 {
        ask_all();
    }
    let usual: usize = (0..1000).map(|_| ask_all()).sum();
    assert_eq!(usual, 0);
}

#[test]
fn the_usual_questions_allocate_nothing() {
    let requests = [
        "www.Example.org. A",
        "www.example.org. AAAA +edns",
        "www.example.org. MX",
        "x.apps.example.org. A",
        "1.2.0.192.in-addr.arpa. PTR",
        "blocked.example.org. A +edns",
        "x.v4only.example. AAAA",
    ]
    .map(request);
    settles(&mut Bench::new(&corefile()), &requests);
    let mut node = Bench::new(SEARCH);
    node.publish("namespace shop\nservice shop/web 10.0.0.1 http:tcp:80", 1);
    let requests = [
        "www.example.org.shop.svc.cluster.local. A",
        "Www.Example.org.svc.cluster.local. AAAA +edns",
        "www.example.org.cluster.local. A",
        "example.net.shop.svc.cluster.local. A",
    ]
    .map(request);
    settles(&mut node, &requests);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ZONE.as_bytes()).unwrap();
    let mut zone = Bench::new(&format!("example.org {{\n file {}\n}}", file.path().display()));
    let requests = [
        "www.Example.org. A",
        "www.example.org. TXT +do",
        "none.example.org. AAAA +edns",
        "alias.example.org. A",
        "x.wild.example.org. MX +do",
        "x.cut.example.org. A",
        "example.org. NS",
        "www.example.org. ANY",
    ]
    .map(request);
    settles(&mut zone, &requests);
}

/// A zone with what can be found in one.
const ZONE: &str = "$TTL 60
@ SOA ns hostmaster 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
alias CNAME alias2
alias2 CNAME www
*.wild MX 10 www
cut NS ns.cut
ns.cut A 192.0.2.3
";
