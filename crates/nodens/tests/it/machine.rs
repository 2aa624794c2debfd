//! A machine with too little for the configuration: it is said once, and the server runs.

use crate::fixture::{Folder, Server, free_port};
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
