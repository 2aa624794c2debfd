//! A machine with too little for the configuration: it is said once, and the server runs.

use crate::fixture::{Folder, Server, eventually, free_port, nodens};
use nodens_wire::Type;
use std::net::SocketAddr;
use std::process::Command;

const WARNING: &str = "[WARNING] machine: RLIMIT_NOFILE";

#[test]
fn too_few_descriptors_are_said_once_and_the_server_runs() {
    let (folder, port) = (Folder::new("machine"), free_port());
    let corefile = ". {\n bind 127.0.0.1\n template IN A example {\n answer \"{{ .Name }} 60 A 192.0.2.1\"\n }\n}\n";
    let conf = folder.write("Corefile", corefile);
    let mut command = Command::new("sh");
    let script = format!(
        "ulimit -n 600; exec {} -p {port} -conf {} -memory 192MiB",
        env!("CARGO_BIN_EXE_nodens"),
        conf.display()
    );
    command.args(["-c", &script]);
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    let line = server.wait_for(WARNING);
    assert!(
        line.contains("RLIMIT_NOFILE allows 300 client connections, and there is memory for 1024"),
        "{line}"
    );
    assert!(line.contains("LimitNOFILE=2048 in a systemd unit"), "{line}");
    server.ask("a.example", Type::A);
    server.signal("-USR1");
    server.wait_for("SIGUSR1: Reloading");
    server.wait_for("Reloading complete");
    server.ask("b.example", Type::A);
    assert_eq!(server.count_seen(WARNING), 0, "said again");
}

/// Names of threads of a process with their niceness.
fn niceness(pid: u32) -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (head, rest) = stat.rsplit_once(") ")?;
        let (_, name) = head.split_once(" (")?;
        // The 19th field of all (proc(5)).
        Some((name.to_owned(), rest.split(' ').nth(16)?.parse().ok()?))
    };
    tasks.filter_map(|task| of(task.unwrap())).collect()
}

#[test]
fn threads_that_change_zones_come_after_the_workers() {
    let (folder, port) = (Folder::new("nicer"), free_port());
    let zone = folder.write(
        "zone",
        "$ORIGIN example.org.\n@ 60 IN SOA ns hostmaster 1 60 60 60 60\n@ 60 IN NS ns\nns 60 IN A 192.0.2.1\n",
    );
    let primary = nodens_testkit::free_address();
    let corefile = format!(
        "example.net {{\n bind 127.0.0.1\n transfer {{\n to 127.0.0.1:{}\n }}\n secondary {{\n transfer from {primary}\n store {}\n }}\n}}\n\
         example.org {{\n bind 127.0.0.1\n tsig {{\n secret key. c2VjcmV0\n }}\n transfer {{\n to *\n }}\n \
         dynupdate {{\n file {}\n allow key. * *\n }}\n}}\n",
        nodens_testkit::free_address().port(),
        folder.0.join("store").display(),
        zone.display()
    );
    let conf = folder.write("Corefile", &corefile);
    let mut command = nodens();
    command.args(["-p", &port.to_string(), "-conf"]).arg(&conf);
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    let of = |name: &str| {
        let all = niceness(server.pid());
        all.iter().find(|(own, _)| own == name).map(|(_, nice)| *nice)
    };
    server.ask("www.example.org", Type::A);
    for reloads in 0..3 {
        let workers = of("worker-0").unwrap();
        for (name, nicer) in [("secondary", 19), ("dynupdate", 10), ("notify", 10)] {
            eventually(&format!("{name} after {reloads} reloads"), || {
                of(name) == Some((workers + nicer).min(19))
            });
        }
        server.signal("-USR1");
        server.wait_for("Reloading complete");
    }
}
