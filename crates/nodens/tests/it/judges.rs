//! What others say of signed zones: tools that read a zone as a whole, and a resolver that validates.

use crate::fixture::{Folder, PATIENCE, free_port, need};
use crate::signing::run;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Programs that the functions here run, with their packages.
pub(crate) fn need_judges() {
    need("dnssec-verify", "bind9-utils");
    need("kzonecheck", "knot-dnssecutils");
    need("ldns-verify-zone", "ldnsutils");
    need("dig", "dnsutils");
}

/// Has a file with the zone judged by BIND, Knot and ldns, each of which looks at every signature and at the
/// whole chain of NSEC or NSEC3 records.
pub(crate) fn judge(zone: &str, file: &Path, when: &str) {
    judge_without_knot(zone, file, when);
    let text = || std::fs::read_to_string(file).unwrap();
    let visible = file.with_extension("visible");
    std::fs::write(&visible, without_hidden(&text())).unwrap();
    let mut knot = Command::new("kzonecheck");
    let output = knot.args(["--dnssec", "on", "-o", zone]).arg(visible).output().unwrap();
    assert!(output.status.success(), "{when}: {output:?}\n{}", text());
}

/// The same by BIND and ldns alone. In a zone with two keys of one algorithm that sign all of it, Knot 3.2 finds no
/// valid signature, also if BIND has made them.
pub(crate) fn judge_without_knot(zone: &str, file: &Path, when: &str) {
    let text = || std::fs::read_to_string(file).unwrap();
    let said = run(Command::new("dnssec-verify").args(["-z", "-o", zone]).arg(file));
    assert!(said.contains("Zone fully signed"), "{when}: {said}\n{}", text());
    let output = Command::new("ldns-verify-zone").arg(file).output().unwrap();
    assert!(output.status.success(), "{when}: {output:?}\n{}", text());
}

/// A zone without what lies below DNAME records: Knot reads none that has it.
fn without_hidden(zone: &str) -> String {
    let words = |line: &str, at: usize| {
        line.split_whitespace().nth(at).unwrap_or_default().to_ascii_lowercase()
    };
    let dnames = zone.lines().filter(|line| words(line, 3) == "dname");
    let ends: Vec<_> = dnames.map(|line| format!(".{}", words(line, 0))).collect();
    let is_hidden = |line: &&str| ends.iter().any(|end| words(line, 0).ends_with(end));
    zone.lines().filter(|line| !is_hidden(line)).map(|line| format!("{line}\n")).collect()
}

/// Unbound, which validates what it is told and keeps nothing; ends with the value.
pub(crate) struct Unbound {
    child: Child,
    port: String,
    folder: Folder,
}

impl Unbound {
    /// Starts one that asks these servers for these zones, and believes these keys, `ZONE DNSKEY …`.
    pub(crate) fn start(name: &str, anchors: &[String], zones: &[(&str, u16)]) -> Self {
        need("unbound", "unbound");
        let (folder, port) = (Folder::new(&format!("{name}-unbound")), free_port());
        let anchors: String =
            anchors.iter().map(|anchor| format!(" trust-anchor: \"{anchor}\"\n")).collect();
        let stub = |(zone, port): &(&str, u16)| {
            format!("stub-zone:\n name: \"{zone}\"\n stub-addr: 127.0.0.1@{port}\n")
        };
        let zones: String = zones.iter().map(stub).collect();
        let text = format!(
            "server:\n interface: 127.0.0.1@{port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n \
             use-syslog: no\n logfile: \"\"\n verbosity: 1\n val-log-level: 2\n num-threads: 1\n do-ip6: no\n \
             module-config: \"validator iterator\"\n do-not-query-localhost: no\n cache-max-ttl: 0\n \
             cache-max-negative-ttl: 0\n aggressive-nsec: no\n{anchors}remote-control:\n control-enable: \
             no\n{zones}"
        );
        let conf = folder.write("unbound.conf", &text);
        let log = std::fs::File::create(folder.0.join("log")).unwrap();
        let mut command = Command::new("unbound");
        command.arg("-d").arg("-c").arg(conf).stdin(Stdio::null());
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let unbound = Self { child, port: port.to_string(), folder };
        let since = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(since.elapsed() < PATIENCE, "{}", unbound.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        unbound
    }

    /// RCODE, whether it is secure, and the answer section, of a question such as `www.example.org A`.
    pub(crate) fn ask(&self, question: &str) -> (String, bool, String) {
        let (name, rtype) = question.split_once(' ').unwrap();
        let options = ["+adflag", "+nostats", "+tries=1", "+time=20"];
        let mut dig = Command::new("dig");
        let said = run(dig.args(["@127.0.0.1", "-p", &self.port, name, rtype]).args(options));
        let head = said.lines().find_map(|line| line.split_once("status: ")).map(|(_, rest)| rest);
        let rcode = head.and_then(|rest| rest.split(',').next()).unwrap_or_default().to_owned();
        let flags = said.lines().find_map(|line| line.strip_prefix(";; flags: "));
        let flags = flags.and_then(|line| line.split(';').next()).unwrap_or_default();
        let is_secure = flags.split(' ').any(|flag| flag == "ad");
        let answer = said.split_once(";; ANSWER SECTION:\n").map_or("", |(_, rest)| rest);
        let answer = answer.split("\n\n").next().unwrap_or_default().to_owned();
        (rcode, is_secure, answer)
    }

    /// Asks, and wants this RCODE, with the AD bit or without.
    pub(crate) fn says(&self, question: &str, (rcode, is_secure): (&str, bool)) -> String {
        let (found, secure, answer) = self.ask(question);
        assert_eq!(
            (found.as_str(), secure),
            (rcode, is_secure),
            "{question}: {answer} {}",
            self.log()
        );
        answer
    }

    /// What it has written.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The DNSKEY record of a key that [`key`](crate::signing::key) has made, as Unbound wants it.
pub(crate) fn anchor(folder: &Path, key: &str) -> String {
    let text = std::fs::read_to_string(folder.join(format!("{key}.key"))).unwrap();
    let record = text.lines().find(|line| !line.starts_with(';')).unwrap();
    record.split_whitespace().collect::<Vec<_>>().join(" ")
}
