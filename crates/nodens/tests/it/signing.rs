//! `dnssec` and `sign`, judged by BIND's `delv` and `dnssec-verify`.

use crate::dynupdate::{KEY, update};
use crate::fixture::{Folder, Server, need};
use nodens_testkit::free_port;
use nodens_wire::Type;
use std::path::Path;
use std::process::Command;

const ALGORITHMS: [&str; 5] =
    ["ECDSAP256SHA256", "ECDSAP384SHA384", "ED25519", "RSASHA256", "RSASHA512"];

pub(crate) const ZONE: &str = "$TTL 300
@ 60 SOA ns hostmaster 1 3600 600 86400 30
@ NS ns
ns A 192.0.2.53
www A 192.0.2.1
www A 192.0.2.2
alias CNAME www
lost CNAME nowhere
cut NS ns.cut
cut A 192.0.2.55
ns.cut A 192.0.2.54
safe NS ns.cut
safe DS 1 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
*.wild TXT \"a \\\"text\\\"\" more
there.is.nothing.between A 192.0.2.9
old DNAME new.example.net.
UPPER MX 10 WWW
";

/// What is asked for, and what `delv` says.
const QUESTIONS: [(&str, &str); 10] = [
    ("@ SOA", "; fully validated"),
    ("@ DNSKEY", "; fully validated"),
    ("www A", "; fully validated"),
    ("upper MX", "; fully validated"),
    ("x.wild TXT", "; fully validated"),
    ("alias A", "; fully validated"),
    ("lost A", "; fully validated"),
    ("no A", "; negative response, fully validated"),
    ("www TXT", "; negative response, fully validated"),
    ("cut DS", "; negative response, fully validated"),
];

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// The name of a new key for `zone`, and its public part as a trust anchor.
pub(crate) fn key(folder: &Path, zone: &str, algorithm: &str) -> (String, String) {
    let mut command = Command::new("dnssec-keygen");
    command.arg("-K").arg(folder).args(["-q", "-f", "KSK", "-a", algorithm]);
    if algorithm.starts_with("RSA") {
        command.args(["-b", "2048"]);
    }
    let name = run(command.arg(zone)).trim().to_owned();
    let text = std::fs::read_to_string(folder.join(format!("{name}.key"))).unwrap();
    let record = text.lines().find(|line| !line.starts_with(';')).unwrap();
    let words: Vec<_> = record.split_whitespace().collect();
    let [_, _, _, flags, protocol, number, key @ ..] = &words[..] else { panic!("{record}") };
    let key = key.concat();
    (name, format!("{zone}. static-key {flags} {protocol} {number} \"{key}\";"))
}

/// What `delv` says of a name in a zone, as `www A` or `@ SOA`.
pub(crate) fn delv(server: &Server, zone: &str, anchors: &Path, question: &str) -> String {
    let root = format!("+root={zone}");
    let (name, rtype) = question.split_once(' ').unwrap();
    let name = if name == "@" { format!("{zone}.") } else { format!("{name}.{zone}.") };
    let port = server.address.port().to_string();
    let mut delv = Command::new("delv");
    run(delv.arg("-a").arg(anchors).args([&root, "@127.0.0.1", "-p", &port, &name, rtype]))
}

pub(crate) fn validates(server: &Server, zone: &str, anchors: &Path) {
    for (question, wanted) in QUESTIONS {
        let said = delv(server, zone, anchors, question);
        assert!(said.lines().any(|line| line == wanted), "{question} in {zone}: {said}");
    }
}

#[test]
fn what_is_signed_validates() {
    need("delv", "dnsutils");
    need("dnssec-verify", "bind9-utils");
    for algorithm in ALGORITHMS {
        let folder = Folder::new(&format!("signing-{algorithm}"));
        folder.write("db", ZONE);
        let (online, first) = key(&folder.0, "example.org", algorithm);
        let (whole, second) = key(&folder.0, "example.net", algorithm);
        let (_, third) = key(&folder.0, "example.com", algorithm);
        let anchors = format!("trust-anchors {{ {first} {second} {third} }};\n");
        let anchors = folder.write("anchors", &anchors);
        let root = folder.0.display();
        let corefile = format!(
            "example.org:PORT {{
    root {root}
    dnssec {{
        key file {online}
    }}
    file db
}}
example.net:PORT {{
    root {root}
    sign db {{
        key directory .
        directory {root}
    }}
    file db.example.net.signed
}}
example.com:PORT {{
    root {root}
    sign db {{
        key directory .
        directory {root}
        nsec3
    }}
    file db.example.com.signed
}}
"
        );
        let server = Server::start(&format!("signed-{algorithm}"), &corefile);
        for zone in ["example.net", "example.com"] {
            server.wait_for(&format!("Successfully reloaded zone \"{zone}.\""));
            let signed = folder.0.join(format!("db.{zone}.signed"));
            let mut verify = Command::new("dnssec-verify");
            let said = run(verify.args(["-z", "-o", zone]).arg(&signed));
            assert!(said.contains("Zone fully signed"), "{algorithm} {whole} {zone}: {said}");
            validates(&server, zone, &anchors);
        }
        validates(&server, "example.org", &anchors);
    }
}

#[test]
fn a_zone_is_not_signed_again_without_a_reason() {
    need("dnssec-keygen", "bind9-utils");
    let folder = Folder::new("signing-again");
    folder.write("db", ZONE);
    key(&folder.0, "example.net", "ED25519");
    let root = folder.0.display();
    let corefile = |port: &str| {
        format!(
            "example.net:{port} {{\n bind 127.0.0.1\n sign {root}/db {{\n key directory {root}\n directory {root}\n}}\n file {root}/db.example.net.signed\n}}\n"
        )
    };
    let server = Server::start("signing-first", &corefile("PORT"));
    server.wait_for("Successfully signed zone");
    // A reload looks again.
    let again = format!(
        "{}.:{} {{\n whoami\n}}\n",
        corefile(&server.address.port().to_string()),
        free_port()
    );
    std::fs::write(&server.conf, again).unwrap();
    server.signal("-USR1");
    server.wait_for("Skipping signing zone \"example.net.\"");
    assert_eq!(server.count_seen("Signing \"example.net.\" because"), 1);
    assert_eq!(server.ask("www.example.net", Type::A).answer.len(), 2);
    assert!(server.end("-TERM").success());
}

#[test]
fn what_messages_change_validates_behind_dnssec() {
    const EXISTS: &str = "; fully validated";
    const DENIED: &str = "; negative response, fully validated";
    need("delv", "dnsutils");
    need("nsupdate", "dnsutils");
    let folder = Folder::new("signing-updates");
    folder.write("db", ZONE.replace("safe DS 1", "; safe DS 1").as_str());
    let (name, anchor) = key(&folder.0, "example.org", "ED25519");
    let anchors = folder.write("anchors", &format!("trust-anchors {{ {anchor} }};\n"));
    let (root, secret) = (folder.0.display(), KEY.rsplit(':').next().unwrap());
    let corefile = format!(
        "example.org:PORT {{
    root {root}
    tsig {{
        secret update.key. {secret}
        require_opcode UPDATE
    }}
    dnssec {{
        key file {name}
    }}
    dynupdate {{
        file db
        database db.kept
        allow update.key. * *
    }}
}}
"
    );
    let server = Server::start("signed-updates", &corefile);
    let is = |question: &str, wanted: &str| {
        let said = delv(&server, "example.org", &anchors, question);
        assert!(said.lines().any(|line| line == wanted), "{question}: {said}");
        said
    };
    let change = |lines: &str| {
        let (is_done, said) = update("nsupdate", server.address, lines);
        assert!(is_done, "{lines}: {said}");
    };
    validates(&server, "example.org", &anchors);
    is("new A", DENIED);
    change("update add new.example.org. 60 A 192.0.2.10\nupdate add *.any.example.org. 60 TXT a");
    assert!(is("new A", EXISTS).contains("192.0.2.10"));
    is("x.any TXT", EXISTS);
    is("new TXT", DENIED);
    change("update add new.example.org. 60 A 192.0.2.11");
    let both = is("new A", EXISTS);
    assert!(both.contains("192.0.2.10") && both.contains("192.0.2.11"), "{both}");
    change("update delete new.example.org. A 192.0.2.10\nupdate delete *.any.example.org.");
    let one = is("new A", EXISTS);
    assert!(!one.contains("192.0.2.10") && one.contains("192.0.2.11"), "{one}");
    is("x.any TXT", DENIED);
    change("update delete new.example.org.");
    is("new A", DENIED);
    validates(&server, "example.org", &anchors);
}
