//! Every transport against CoreDNS, the only server here that speaks DNS over QUIC and over HTTP/3.
//!
//! Not part of `cargo test`, because CoreDNS must be built first: `make conformance` runs it after
//! `cargo xtask peers coredns`.

use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// CoreDNS with a port for each transport, killed with the value.
struct CoreDns {
    child: Child,
    /// Plain, TLS, HTTPS, QUIC, HTTP/3.
    ports: [u16; 5],
    certificate: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for CoreDns {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    let cache = std::env::var_os("NODENS_PEERS_CACHE").map(PathBuf::from);
    let kept = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/peers");
    let program = cache.unwrap_or_else(kept).join("bin/coredns");
    assert!(program.is_file(), "no {}: `cargo xtask peers coredns` builds it", program.display());
    program
}

fn start() -> CoreDns {
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
    let certificate = folder.path().join("cert.pem");
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    // Another process may take a port between our asking and CoreDNS's.
    for _ in 0..5 {
        let ports: [u16; 5] = std::array::from_fn(|_| {
            TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
        });
        let block = |(scheme, port): (&str, &u16)| {
            let tls = if scheme == "dns" { "" } else { "tls cert.pem key.pem" };
            format!("{scheme}://.:{port} {{\n bind 127.0.0.1\n {tls}\n whoami\n}}\n")
        };
        let blocks: String =
            ["dns", "tls", "https", "quic", "https3"].into_iter().zip(&ports).map(block).collect();
        std::fs::write(folder.path().join("Corefile"), blocks).unwrap();
        let mut child = Command::new(program())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while child.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(60) {
            if ports[..3].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
                return CoreDns { child, ports, certificate, _folder: folder };
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        _ = child.kill();
        _ = child.wait();
    }
    panic!("CoreDNS does not start");
}

fn load(server: &CoreDns, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-Q", "200", "-l", "1", "-t", "20", "-c", "8", "--json", "--no-version"])
        .arg("--tls-ca")
        .arg(&server.certificate)
        .args(arguments)
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
    assert_eq!(result["counts"]["answered"], result["counts"]["sent"], "{arguments:?}: {result:#}");
    assert_eq!(result["rcodes"]["NOERROR"], result["counts"]["sent"]);
    assert!(result["counts"]["sent"].as_u64() > Some(100));
    result
}

#[test]
fn coredns_answers_every_query_on_every_transport() {
    let server = start();
    let [plain, tls, https, quic, https3] = server.ports.map(|port| port.to_string());
    let ways = [
        ("udp", &plain),
        ("tcp", &plain),
        ("dot", &tls),
        ("doh", &https),
        ("doq", &quic),
        ("doh3", &https3),
    ];
    for (mode, port) in ways {
        let result = load(&server, &["-m", mode, "-p", port]);
        assert_eq!(result["plan"]["transports"][0]["transport"], mode);
    }
    let mix: Vec<_> = ways.iter().map(|(mode, port)| format!("{mode}:{port}=1")).collect();
    let mixed = load(&server, &["--mix", &mix.join(",")]);
    assert_eq!(mixed["by_transport"].as_array().map(Vec::len), Some(6));
}

#[test]
fn coredns_answers_gets_and_posts_over_http_3_and_refuses_other_paths() {
    let server = start();
    let https3 = server.ports[4].to_string();
    for method in ["get", "post"] {
        for life in ["persistent", "queries=4"] {
            let way = ["-m", "doh3", "-p", &https3, "--doh-method", method, "--conn-life", life];
            let result = load(&server, &way);
            assert_eq!(result["connection_fates"]["http"]["200"], result["counts"]["sent"]);
            assert_eq!(result["connection_fates"]["broken"], 0, "{method} {life}: {result:#}");
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-m", "doh3", "-p", &https3, "-n", "20", "-l", "0.5", "-t", "20", "--json"])
        .args(["--doh-path", "/other", "--tls-insecure", "--no-version"])
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["counts"]["connection_failed"], 20, "{result:#}");
    assert_eq!(result["connection_fates"]["http"]["404"], 20, "{result:#}");
    // The port of DNS over QUIC is none of HTTP/3.
    let output = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-m", "doh3", "-p", &server.ports[3].to_string(), "-n", "20", "-l", "0.5"])
        .args(["--tls-insecure", "--no-version"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("no ALPN h3"), "{text}");
}

#[test]
fn sessions_with_coredns_are_resumed_and_queries_sent_early() {
    let server = start();
    let [_, tls, https, quic, https3] = server.ports.map(|port| port.to_string());
    for (mode, port) in [("dot", &tls), ("doh", &https)] {
        let result = load(&server, &["-m", mode, "-p", port, "--conn-life", "queries=4"]);
        assert!(result["connections"]["resumed"].as_u64() > Some(0), "{mode}: {result:#}");
    }
    for (mode, port) in [("doq", &quic), ("doh3", &https3)] {
        let life = ["-m", mode, "-p", port, "--conn-life", "queries=4"];
        let late = load(&server, &life);
        assert_eq!(late["connection_fates"]["early_offered"], 0);
        // Whether early data is taken is the server's choice; every query is answered all the same.
        let early = load(&server, &[&life[..], &["--early-data"]].concat());
        assert!(early["connection_fates"]["early_offered"].as_u64() > Some(0), "{early:#}");
        assert_eq!(
            early["connections"]["resumed"], early["connection_fates"]["early_accepted"],
            "{early:#}"
        );
    }
}
