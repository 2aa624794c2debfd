//! `dig`, `kdig`, `curl` and `openssl` as clients.

use super::{ADDRESS, MANY, NAME, Ours};
use crate::fixture::{Folder, framed, need, read_message, request};
use crate::pod::run;
use nodens_wire::{Message, Type};
use std::io::Write;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[test]
fn dig_asks_over_tls_and_https() {
    need("dig", "dnsutils");
    let ours = Ours::start("dig");
    let (tls, https) = (ours.ports.tls.to_string(), ours.ports.https.to_string());
    let ca = format!("+tls-ca={}", ours.ca());
    let hostname = format!("+tls-hostname={NAME}");
    let encrypted = [(&tls, "+tls"), (&https, "+https"), (&https, "+https-get")];
    for (port, transport) in encrypted {
        let mut command = Command::new("dig");
        command.args(["@127.0.0.1", "-p", port, transport, &ca, &hostname, "+tries=1", "+short"]);
        // Three queries on one connection.
        command.args(["+keepopen", "a.example", "A", "b.example", "A", "many.test", "A"]);
        let text = run(&mut command);
        assert_eq!(text.matches(ADDRESS).count(), 2, "{transport}: {text}");
        assert_eq!(text.matches("198.18.").count(), MANY, "{transport}: {text}");
        // Another name is none of the certificate's.
        let mut command = Command::new("dig");
        command.args(["@127.0.0.1", "-p", port, transport, &ca, "+tls-hostname=other.example"]);
        let output = command.args(["+tries=1", "+short", "a.example", "A"]).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains(ADDRESS), "{transport}");
    }
    let http = ours.ports.http.to_string();
    for transport in ["+http-plain", "+http-plain-get"] {
        let mut command = Command::new("dig");
        command.args(["@127.0.0.1", "-p", &http, transport, "+tries=1", "+short", "a.example"]);
        assert_eq!(run(&mut command).trim(), ADDRESS, "{transport}");
    }
    ours.end();
}

#[test]
fn kdig_asks_over_tls_https_and_quic() {
    need("kdig", "knot-dnsutils");
    let ours = Ours::start("kdig");
    let (tls, https) = (ours.ports.tls.to_string(), ours.ports.https.to_string());
    let quic = ours.ports.quic.to_string();
    let (ca, hostname) = (format!("+tls-ca={}", ours.ca()), format!("+tls-hostname={NAME}"));
    let path = format!("+https={NAME}/dns-query");
    let cases: [(&str, &[&str], &str); 4] = [
        (&tls, &["+tls"], "TLS session (TLS1.3)"),
        (&https, &[&path], "HTTP session (HTTP/2-POST)"),
        (&https, &[&path, "+https-get"], "HTTP session (HTTP/2-GET)"),
        (&quic, &["+quic"], "QUIC session (QUICv1)"),
    ];
    for (port, transport, session) in cases {
        let mut command = Command::new("kdig");
        // The last one of these decides what is spoken.
        command.args(["@127.0.0.1", "-p", port, "+retry=0", &ca, &hostname]).args(transport);
        command.args(["+keepopen", "+padding"]);
        let text = run(command.args(["a.example", "A", "b.example", "A", "many.test", "A"]));
        assert_eq!(text.matches("status: NOERROR").count(), 3, "{transport:?}: {text}");
        assert_eq!(text.matches(ADDRESS).count(), 2, "{transport:?}: {text}");
        assert_eq!(text.matches("\t198.18.").count(), MANY, "{transport:?}: {text}");
        assert!(text.contains(session), "{transport:?}: {text}");
        // A query with the option gets a response with it (RFC 7830 section 4).
        let padded = text.matches("PADDING").count() + text.matches("Padding").count();
        assert!(padded >= 3, "{transport:?}: {text}");
    }
    ours.end();
}

#[test]
fn curl_gets_and_posts_over_both_versions_of_http() {
    need("curl", "curl");
    let ours = Ours::start("curl");
    let (https, http) = (ours.ports.https, ours.ports.http);
    let folder = Folder::new("transports-curl-files");
    let query = request("a.example.", Type::A);
    std::fs::write(folder.0.join("query"), &query).unwrap();
    let at = |file: &str| folder.0.join(file).display().to_string();
    let post = format!("@{}", at("query"));
    let get = "?dns=EmcBAAABAAAAAAAAAWEHZXhhbXBsZQAAAQAB";
    let (encrypted, plain) = (format!("https://{NAME}:{https}"), format!("http://{NAME}:{http}"));
    let cases = [
        (&encrypted, "--http2", "2"),
        (&encrypted, "--http1.1", "1.1"),
        (&plain, "--http2-prior-knowledge", "2"),
        (&plain, "--http1.1", "1.1"),
    ];
    for (base, version, wanted) in cases {
        for is_post in [true, false] {
            let url = format!("{base}/dns-query{}", if is_post { "" } else { get });
            let mut command = Command::new("curl");
            command.args(["--silent", "--show-error", "--max-time", "60", version]);
            command.args(["--cacert", ours.ca(), "-H", "accept: application/dns-message"]);
            for port in [https, http] {
                command.args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")]);
            }
            if is_post {
                command.args(["-H", "content-type: application/dns-message"]);
                command.args(["--data-binary", &post]);
            }
            let said = "%{http_version} %{http_code} %{content_type} %{num_connects}\\n";
            command.args(["-w", said, "-o", &at("one"), &url]);
            // curl 7.88 cannot use such a connection twice (curl's issue 10634).
            let is_reused = version != "--http2-prior-knowledge";
            if is_reused {
                command.args(["-o", &at("two"), &url]);
            }
            let text = run(&mut command);
            let media_type = "application/dns-message";
            let mut wanted = format!("{wanted} 200 {media_type} 1\n");
            if is_reused {
                wanted += &wanted.replace(" 1\n", " 0\n");
            }
            assert_eq!(text, wanted, "{version} {url}");
            for file in ["one", "two"].into_iter().take(1 + usize::from(is_reused)) {
                let answer = Message::parse(&std::fs::read(at(file)).unwrap()).unwrap();
                assert_eq!((answer.id, answer.answer.len()), (4711, 1), "{version} {url}");
            }
        }
    }
    ours.end();
}

/// `openssl s_client` at the listener for TLS.
struct Openssl {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Openssl {
    fn start(ours: &Ours, arguments: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{}", ours.ports.tls)]);
        command.args(["-servername", NAME, "-verify_hostname", NAME, "-verify_return_error"]);
        command.args(["-CAfile", ours.ca()]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Asks so many queries at once.
    fn ask(&mut self, count: usize) {
        let query = framed(&request("a.example.", Type::A));
        self.input.write_all(&query.repeat(count)).unwrap();
        for _ in 0..count {
            let answer = Message::parse(&read_message(&mut self.output).unwrap()).unwrap();
            assert_eq!((answer.id, answer.answer.len()), (4711, 1));
        }
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn openssl_asks_with_each_version_and_resumes() {
    need("openssl", "openssl");
    let ours = Ours::start("openssl");
    let session = ours.server.folder.0.join("session");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        for alpn in [&["-alpn", "dot"][..], &[]] {
            let mut client = Openssl::start(&ours, &[&[version], alpn].concat());
            client.ask(1);
            client.ask(50);
        }
        let mut first = Openssl::start(&ours, &[version, "-sess_out", session]);
        first.ask(1);
        drop(first);
        let mut again = Openssl::start(&ours, &[version, "-sess_in", session]);
        again.ask(2);
    }
    // A version that is not served, and a protocol that is not.
    for arguments in [&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"][..], &["-alpn", "h2"]] {
        let mut client = Openssl::start(&ours, arguments);
        _ = client.input.write_all(&framed(&request("a.example.", Type::A)));
        assert!(read_message(&mut client.output).is_err(), "{arguments:?}");
    }
    ours.end();
}
