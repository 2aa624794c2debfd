//! Standard output: who reads it may stand still, and may want JSON.

use crate::fixture::{Folder, PATIENCE, Server, ask_udp, eventually, free_port, nodens};
use nodens_wire::Type;
use serde_json::Value;
use std::io::{PipeReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A server whose output goes into a pipe that was full before it started.
struct Unread {
    child: Child,
    _reader: PipeReader,
    _folder: Folder,
}

impl Unread {
    fn start(name: &str, directives: &str) -> Self {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let stdout = writer.try_clone().unwrap();
        // Ends when there is no reader any more.
        std::thread::spawn(move || while writer.write_all(&[b'\n'; 4096]).is_ok() {});
        let mut before = 0;
        eventually("the pipe is full", || {
            std::thread::sleep(Duration::from_millis(50));
            let waiting = rustix::io::ioctl_fionread(&reader).unwrap();
            waiting > 0 && std::mem::replace(&mut before, waiting) == waiting
        });
        let (folder, port) = (Folder::new(name), free_port());
        let text = format!(".:{port} {{\n bind 127.0.0.1\n log\n whoami\n{directives}\n}}\n");
        let conf = folder.write("Corefile", &text);
        let child = nodens().arg("-conf").arg(&conf).stdout(stdout).spawn().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { child, _reader: reader, _folder: folder };
        for _ in 0..3 {
            ask_udp(address, "example.org", Type::A).expect("an answer, whoever reads the log");
        }
        server
    }

    /// Sends `signal` again and again until the process ends; gives its exit code.
    fn end(&mut self, signal: &str) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        let pid = self.child.id().to_string();
        while Instant::now() < until {
            Command::new("kill").args([signal, &pid]).status().unwrap();
            std::thread::sleep(Duration::from_millis(100));
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
        }
        panic!("{signal} does not end it");
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn a_server_whose_output_nobody_reads_ends_when_it_is_told() {
    assert_eq!(Unread::start("unread", "").end("-TERM"), Some(0));
}

#[test]
fn a_second_sigint_ends_a_server_whose_output_nobody_reads() {
    let health = format!("health 127.0.0.1:{} {{\n lameduck 1h\n }}", free_port());
    assert_eq!(Unread::start("forced", &health).end("-INT"), Some(2));
}

#[test]
fn a_log_in_json_has_the_fields_of_coredns() {
    let corefile = ".:PORT {\n bind 127.0.0.1\n log . \"{name} {rcode}\"\n whoami\n}\n";
    let server = Server::start_with("json", corefile, &["-log-format", "json"]);
    server.ask("A\\.b.Example.org", Type::A);
    let text = server.wait_for("client_ip");
    let line: Value = serde_json::from_str(&text).unwrap();
    let (port, took) = (line["client_port"].as_u64(), line["duration_seconds"].as_f64());
    assert!(port.is_some_and(|port| port > 0) && took.is_some_and(|took| took >= 0.0), "{text}");
    for (field, wanted) in [
        ("level", "INFO".into()),
        ("msg", "a\\.b.example.org. NOERROR".into()),
        ("plugin", "log".into()),
        ("client_ip", "127.0.0.1".into()),
        ("qname", "a\\.b.example.org.".into()),
        ("qtype", "A".into()),
        ("qclass", "IN".into()),
        ("protocol", "udp".into()),
        ("id", 4711.into()),
        ("opcode", 0.into()),
        ("request_size", 33.into()),
        ("dnssec_ok", false.into()),
        ("bufsize", 512.into()),
        ("rcode", "NOERROR".into()),
    ] {
        let wanted: Value = wanted;
        assert_eq!(line[field], wanted, "{field} of {text}");
    }
    assert!(line["response_size"].as_u64().is_some_and(|size| size > 33), "{text}");
    assert_eq!(line.as_object().unwrap().len(), 18, "{text}");
}

#[test]
fn whatever_a_server_says_in_json_is_json() {
    let corefile = ".:PORT {\n bind 127.0.0.1\n whoami\n}\n";
    let (folder, port) = (Folder::new("json-all"), free_port());
    let conf = folder.write("Corefile", &corefile.replace("PORT", &port.to_string()));
    let mut command = nodens();
    command.args(["-log-format", "json", "-conf"]).arg(&conf);
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    let zones: Value = serde_json::from_str(&server.wait_for("on 127.0.0.1")).unwrap();
    assert_eq!(zones["msg"], format!(".:{port} on 127.0.0.1"));
    let version: Value = serde_json::from_str(&server.wait_for("Nodens-")).unwrap();
    assert!(version["msg"].as_str().unwrap().contains("\nlinux/"), "{version}");
    server.signal("-TERM");
    let end: Value = serde_json::from_str(&server.wait_for("SIGTERM")).unwrap();
    assert_eq!((&end["level"], end.get("plugin")), (&"INFO".into(), None));
    let output = nodens().args(["-log-format=json", "-conf", "/no/such/file"]).output().unwrap();
    let fatal: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&fatal["level"], output.status.code()), (&"FATAL".into(), Some(1)));
}
