//! Programs of the packet filter that hang.

use super::arguments;
use super::place::{Place, UPSTREAM};
use crate::fixture::{Folder, Server, eventually, need, nodens};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[test]
fn a_server_that_is_told_to_end_does_not_wait_for_a_program_that_hangs() {
    need("iptables-nft", "iptables");
    let place = Place::new();
    let _upstream = place.start_upstream("node-hang-upstream");
    // As kube-proxy does with iptables.
    let made = place.command("iptables-nft").args(["-t", "nat", "-N", "KUBE-SERVICES"]).status();
    assert!(made.unwrap().success());
    let (folder, programs) = (Folder::new("node-hang"), Folder::new("node-hang-programs"));
    let program = programs.write("iptables-nft-save", "#!/bin/sh\n: > $0.runs; exec sleep 60\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let path = format!("{}:{}", programs.0.display(), std::env::var("PATH").unwrap());
    let mut command = place.command(nodens().get_program());
    command.args(arguments(&folder)).env("PATH", path);
    command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", UPSTREAM);
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], 53)));
    eventually("the program hangs", || program.with_extension("runs").exists());
    server.signal("-TERM");
    let told = Instant::now();
    server.wait_for("Tearing down");
    // The program has ten seconds.
    assert!(told.elapsed() < Duration::from_secs(5), "after {:?}", told.elapsed());
    assert_eq!(server.wait().code(), Some(0));
}
