//! One worker of many does not run any more, and its clients are served all the same.

use crate::fixture::{Folder, Server, ask_udp, eventually, framed, free_port, nodens, request};
use crate::handover::{name, rendezvous};
use crate::standby::has_sockets;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use nodens_wire::{Message, Rcode, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// One thread of a process, frozen until this is dropped, which has to be in the same thread.
struct Frozen(Pid);

impl Frozen {
    fn thread(pid: u32, name: &str) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut tasks = tasks.map(|task| task.unwrap().path());
        let named = tasks.find(|task| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
        });
        let thread = named.unwrap_or_else(|| panic!("no thread {name}"));
        let thread = Pid::from_raw(thread.file_name().unwrap().to_str().unwrap().parse().unwrap());
        ptrace::seize(thread, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(thread).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Self(thread)
    }
}

impl Frozen {
    /// Waits until the thread has ended with its process.
    fn ended(self) {
        waitpid(self.0, Some(WaitPidFlag::__WALL)).unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if ptrace::detach(self.0, None).is_err() {
            // It has ended, and its process waits for us to see it.
            _ = waitpid(self.0, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
        }
    }
}

fn start(name: &str) -> (Server, u16, u16) {
    let (http, metrics) = (free_port(), free_port());
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n health 127.0.0.1:{http}\n ready 127.0.0.1:{metrics}\n \
         prometheus 127.0.0.1:{metrics}\n whoami\n}}"
    );
    (Server::start_with(name, &corefile, &["-workers=3"]), http, metrics)
}

/// Sends a query from each of many ports, of which every worker gets some, and gives how many
/// are answered in time, once each.
fn answered(address: SocketAddr, count: usize, patience: Duration) -> usize {
    let client = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.send(&request("www.example.org.", Type::A)).unwrap();
        socket
    };
    let clients: Vec<UdpSocket> = (0..count).map(client).collect();
    let until = Instant::now() + patience;
    let is_answered = |socket: &&UdpSocket| {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).unwrap();
        socket.recv(&mut [0; 512]).is_ok()
    };
    clients.iter().filter(is_answered).count()
}

/// How long anything may take here that takes half a second on a machine with nothing to do.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_stuck_worker_costs_no_query_and_health_says_so() {
    let (server, health, metrics) = start("stuck");
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
    let frozen = Frozen::thread(server.pid(), "worker-1");
    // None is asked twice: what the worker has not read is answered by another.
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
    server.wait_for("worker 1 is stuck: no turn for ");
    assert!(server.get(metrics, "/metrics").1.contains("\nnodens_workers_stalled 1\n"));
    // From now on nobody waits at all, nor for a connection.
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
    for _ in 0..20 {
        let question = request("www.example.org.", Type::A);
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&framed(&question)).unwrap();
        stream.read_exact(&mut [0; 30]).unwrap();
    }
    // The others serve, so nobody is to be sent elsewhere; but it should not stay so.
    assert!(server.get(metrics, "/ready").0.ends_with("200 OK"));
    eventually("health fails", || server.get(health, "/health").0.contains(" 503 "));
    assert!(server.get(health, "/health").1.starts_with("worker 1 is stuck: no turn for "));
    drop(frozen);
    server.wait_for("worker 1 has recovered");
    eventually("health", || server.get(health, "/health").1 == "OK");
    assert!(server.get(metrics, "/metrics").1.contains("\nnodens_workers_stalled 0\n"));
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
    server.end("-TERM");
}

#[test]
fn the_one_that_stands_in_may_get_stuck_too_and_with_the_last_the_server_is_not_ready() {
    let (server, _, metrics) = start("stuck-all");
    let first = Frozen::thread(server.pid(), "worker-1");
    server.wait_for("worker 1 is stuck");
    let second = Frozen::thread(server.pid(), "worker-2");
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
    let third = Frozen::thread(server.pid(), "worker-0");
    eventually("not ready", || server.get(metrics, "/ready").1 == "workers");
    drop((first, second, third));
    eventually("ready", || server.get(metrics, "/ready").1 == "OK");
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
}

#[test]
fn a_reload_does_not_wait_for_a_stuck_worker_and_its_new_sockets_are_served() {
    let (server, _, _) = start("stuck-reload");
    let _frozen = Frozen::thread(server.pid(), "worker-1");
    server.wait_for("worker 1 is stuck");
    let port = free_port();
    let text = format!(".:{port} {{\n bind 127.0.0.1\n erratic {{\n  drop 0\n }}\n}}");
    std::fs::write(&server.conf, text).unwrap();
    server.signal("-USR1");
    server.wait_for("Reloading complete");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(answered(address, 60, PATIENCE), 60);
    let answer: Message = ask_udp(address, "www.example.org.", Type::A).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::NOERROR);
}

#[test]
fn a_stuck_worker_keeps_no_successor_from_taking_over() {
    let corefile = ".:PORT {\n bind 127.0.0.1\n whoami\n}";
    let arguments = ["-workers=3", "-handover-trial=50ms"];
    let server = Server::start_with("stuck-handover", corefile, &arguments);
    let frozen = Frozen::thread(server.pid(), "worker-1");
    server.wait_for("worker 1 is stuck");
    server.signal("-USR2");
    server.wait_for("the process that ran before is gone");
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
    // The process stays for its child, and has nothing that queries could go into.
    server.wait_for("workers [1] are stuck and did not end with the others");
    assert!(!has_sockets(server.pid(), server.address));
    drop(frozen);
    assert_eq!(answered(server.address, 60, PATIENCE), 60);
}

/// A pod of the hand-over `name` with these flags, which answers at `address`.
fn pod((name, what): (&str, &str), address: SocketAddr, trial: &str) -> Server {
    let folder = Folder::new(&format!("stuck-pod-{name}-{what}"));
    let port = address.port();
    let conf = folder.write("Corefile", &format!(".:{port} {{\n bind 127.0.0.1\n whoami\n}}"));
    let mut command = nodens();
    command.args(["-workers=3", trial, "-handover", name, "-handover-dir", &rendezvous()]);
    command.args(["-p", &port.to_string(), "-conf"]).arg(conf);
    command.env("KUBERNETES_SERVICE_HOST", "192.0.2.99");
    let pod = Server::run(command, folder, address);
    pod.wait_for("Nodens-");
    pod
}

#[test]
fn a_pod_with_a_stuck_worker_waits_and_exits_to_be_started_anew_when_nobody_serves_any_more() {
    let (name, address) = (name("stuck-pod"), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let trial = "-handover-trial=50ms";
    let first = pod((&name, "first"), address, trial);
    let frozen = Frozen::thread(first.pid(), "worker-1");
    first.wait_for("worker 1 is stuck: ");
    let second = pod((&name, "second"), address, trial);
    second.wait_for("the process that ran before is gone");
    // One that ended now would be started anew, and take the queries from the new version.
    first.wait_for("idle until told to end; exits for a restart once no process serves");
    assert!(!has_sockets(first.pid(), address));
    assert_eq!(answered(address, 60, PATIENCE), 60);
    assert!(second.end("-TERM").success());
    frozen.ended();
    assert_eq!(first.wait().code(), Some(1), "so that it is restarted");
}

#[test]
fn a_pod_with_a_stuck_worker_that_is_told_to_end_ends_well() {
    // While it stands by, and while it waits.
    for (name, trial) in [(name("stuck-told"), "3600s"), (name("stuck-idle"), "50ms")] {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let first = pod((&name, "first"), address, &format!("-handover-trial={trial}"));
        let frozen = Frozen::thread(first.pid(), "worker-1");
        first.wait_for("worker 1 is stuck: ");
        let second = pod((&name, "second"), address, "-handover-trial=50ms");
        let waits = if trial == "3600s" { "standing by for" } else { "exits for a restart once" };
        first.wait_for(waits);
        first.signal("-TERM");
        second.wait_for("the process that ran before is gone");
        frozen.ended();
        assert_eq!(first.wait().code(), Some(0), "nothing failed");
        assert_eq!(answered(address, 60, PATIENCE), 60);
        assert!(second.end("-TERM").success());
    }
}
