//! Servers that have handed over and are still there: they stand by for a while, and stay idle where
//! somebody would start them again. If the successor is gone, they serve.

use super::fixture::{Folder, Server, ask_udp, eventually, http_get, need, nodens, request};
use super::handover::{ANSWER, Load, connect, exchange, name, rendezvous};
use nodens_wire::{Message, Rcode, Type};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a predecessor says that stands by, one that goes on, and one that idles.
const STANDS_BY: &str = "the successor takes queries, standing by for ";
const GOES_ON: &str = "the successor exited without completing the hand-over, resuming service";
const IDLES: &str = "idle until told to end, or until no process serves as ";
const AGAIN: &str = "the serving process is gone, taking over again";
const GONE: &str = "the process that ran before is gone";

/// Longer than any test takes.
const LONG: &str = "10000s";
const SHORT: &str = "10ms";

/// Servers for one Corefile that follow each other under one name.
struct Line {
    name: String,
    address: SocketAddr,
    http: u16,
    conf: PathBuf,
    _folder: Folder,
}

impl Line {
    fn new(what: &str) -> Self {
        let folder = Folder::new(&format!("standby-{what}"));
        let (port, http) = (super::fixture::free_port(), super::fixture::free_port());
        // On a busy machine a client may be idle for long.
        let timeouts = "timeouts {\n read 1h\n idle 1h\n }";
        let corefile = format!(
            "test:{port} {{\n bind 127.0.0.1\n {timeouts}\n prometheus 127.0.0.1:{http}\n template IN A test {{\n answer \"{{{{ .Name }}}} 60 IN A 192.0.2.1\"\n }}\n}}\n"
        );
        let conf = folder.write("Corefile", &corefile);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { name: name(what), address, http, conf, _folder: folder }
    }

    /// The arguments of a server that tries for as long as `trial`, and stands by for as long.
    fn arguments(&self, trial: &str) -> Vec<String> {
        let (port, conf) = (self.address.port().to_string(), self.conf.display().to_string());
        let (name, folder) = (&self.name, &rendezvous());
        let all = [
            "-p",
            &port,
            "-handover",
            name,
            "-handover-dir",
            folder,
            "-handover-trial",
            trial,
            "-conf",
            &conf,
        ];
        all.map(str::to_owned).into()
    }

    fn run(&self, mut command: Command) -> Server {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        command.env_remove("NODENS_PREDECESSOR").env_remove("NODENS_REAPER");
        let folder = Folder::new(&format!("standby-server-{number}"));
        Server::run(command, folder, self.address)
    }

    /// A server that ends when it has handed over.
    fn server(&self, trial: &str) -> Server {
        let mut command = nodens();
        command.args(self.arguments(trial)).env_remove("KUBERNETES_SERVICE_HOST");
        self.run(command)
    }

    /// A server in a pod.
    fn pod(&self) -> Server {
        let mut command = nodens();
        command.args(self.arguments(SHORT)).env("KUBERNETES_SERVICE_HOST", "192.0.2.99");
        self.run(command)
    }

    fn answers(&self) {
        let answer = ask_udp(self.address, "a.test", Type::A).expect("an answer");
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 1));
        eventually("metrics", || {
            http_get(self.http, "/metrics").is_ok_and(|(status, _)| status.contains("200"))
        });
    }

    /// Whether nobody has the port.
    fn is_free(&self) -> bool {
        UdpSocket::bind(self.address).is_ok()
    }
}

fn wait(server: &Server, text: &str) {
    server.wait_long_for(text, ANSWER);
}

/// Ends a server as a crash does.
fn kill(server: Server) {
    let status: ExitStatus = server.end("-KILL");
    assert!(!status.success());
}

/// Stops all threads of a process.
fn freeze(server: &Server) {
    server.signal("-STOP");
    let is_stopped = |task: &Path| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    eventually("all threads stop", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        tasks.flatten().all(|task| is_stopped(&task.path()))
    });
}

#[test]
fn a_successor_that_crashes_while_its_predecessor_stands_by_costs_what_it_had_taken_and_no_more() {
    let line = Line::new("crash");
    let first = line.server(LONG);
    wait(&first, "Nodens-");
    let mut kept = connect(line.address);
    let mut ask = |stream: &mut TcpStream| {
        let answer = Message::parse(&exchange(stream, &request("a.test", Type::A))).unwrap();
        assert_eq!(answer.answer.len(), 1);
    };
    ask(&mut kept);
    let second = line.server(SHORT);
    wait(&first, STANDS_BY);
    line.answers();
    // It takes nothing more, and what arrives waits in the sockets.
    freeze(&second);
    let clients: Vec<_> = (0..50).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for client in &clients {
        client.connect(line.address).unwrap();
        client.set_read_timeout(Some(ANSWER)).unwrap();
        client.send(&request("a.test", Type::A)).unwrap();
    }
    let mut waiting: Vec<_> = (0..20).map(|_| connect(line.address)).collect();
    ask(&mut kept);
    kill(second);
    wait(&first, GOES_ON);
    for client in &clients {
        client.recv(&mut [0; 512]).expect("an answer");
    }
    waiting.iter_mut().for_each(&mut ask);
    line.answers();
    // The next one takes over, and the first does not stand by when it is told to end.
    let third = line.server(SHORT);
    wait(&first, STANDS_BY);
    assert!(first.end("-TERM").success());
    wait(&third, GONE);
    ask(&mut kept);
    line.answers();
    assert!(third.end("-TERM").success());
}

#[test]
fn a_successor_that_ends_on_purpose_while_its_predecessor_stands_by_wakes_nobody() {
    for signal in ["-TERM", "-INT", "-QUIT"] {
        let line = Line::new("purpose");
        let first = line.server(LONG);
        wait(&first, "Nodens-");
        let second = line.server(SHORT);
        wait(&first, STANDS_BY);
        line.answers();
        assert!(second.end(signal).success());
        assert!(first.wait().success());
        assert!(line.is_free());
    }
}

#[test]
fn a_process_that_stands_by_for_its_child_ends_with_it_when_told_to() {
    let line = Line::new("child");
    let mut command = nodens();
    command.args(line.arguments("1s")).env_remove("KUBERNETES_SERVICE_HOST");
    let server = line.run(command);
    wait(&server, "Nodens-");
    server.signal("-USR2");
    wait(&server, STANDS_BY);
    assert!(server.end("-TERM").success());
    eventually("the port is free", || line.is_free());
}

/// Whether a process has a socket at the port of `address`.
pub(crate) fn has_sockets(pid: u32, address: SocketAddr) -> bool {
    let port = format!(":{:04X}", address.port());
    let tables = ["udp", "tcp"].map(|table| std::fs::read_to_string(format!("/proc/net/{table}")));
    let inodes: Vec<String> = tables
        .iter()
        .flat_map(|table| table.as_ref().unwrap().lines())
        .map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.len() > 9 && row[1].ends_with(&port))
        .map(|row| format!("socket:[{}]", row[9]))
        .collect();
    assert!(!inodes.is_empty(), "nobody has the port");
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    files.flatten().any(|file| {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        inodes.iter().any(|inode| target.as_os_str() == inode.as_str())
    })
}

#[test]
fn a_pod_that_has_handed_over_holds_nothing_and_ends_when_told_to() {
    let line = Line::new("idle");
    let first = line.pod();
    wait(&first, "Nodens-");
    assert!(has_sockets(first.pid(), line.address));
    let load = Load::start(line.address);
    load.goes_on();
    let second = line.pod();
    wait(&first, IDLES);
    wait(&second, GONE);
    load.goes_on();
    assert!(!has_sockets(first.pid(), line.address));
    // What it is told beside the end concerns it no more.
    for signal in ["-HUP", "-USR1", "-USR2"] {
        first.signal(signal);
    }
    load.goes_on();
    assert!(first.end("-TERM").success());
    load.goes_on();
    load.stop();
    assert!(second.end("-TERM").success());
    assert!(line.is_free());
}

#[test]
fn an_idle_pod_serves_again_when_its_successor_crashes_or_is_taken_back() {
    let line = Line::new("back");
    let first = line.pod();
    wait(&first, "Nodens-");
    for kind in ["crash", "taken back", "crash"] {
        let second = line.server(SHORT);
        wait(&first, IDLES);
        wait(&second, GONE);
        line.answers();
        match kind {
            "crash" => kill(second),
            _ => assert!(second.end("-TERM").success()),
        }
        wait(&first, AGAIN);
        wait(&first, "Nodens-");
        line.answers();
    }
    assert!(first.end("-TERM").success());
    assert!(line.is_free());
}

#[test]
fn of_two_idle_pods_one_serves_again() {
    let line = Line::new("two");
    let first = line.pod();
    wait(&first, "Nodens-");
    let second = line.pod();
    wait(&second, GONE);
    let third = line.server(SHORT);
    wait(&third, GONE);
    let pods = [first, second];
    pods.iter().for_each(|pod| wait(pod, IDLES));
    kill(third);
    let again = || pods.iter().map(|pod| pod.count_seen(AGAIN)).sum::<usize>();
    eventually("one serves again", || again() > 0);
    line.answers();
    // The other one looks several times meanwhile.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(again(), 1);
    let fourth = line.server(SHORT);
    wait(&fourth, GONE);
    let [a, b] = pods;
    assert!(a.end("-TERM").success() && b.end("-TERM").success());
    line.answers();
    assert!(fourth.end("-TERM").success());
}

#[test]
fn the_first_process_of_a_container_idles_and_serves_again() {
    need("unshare", "util-linux");
    let line = Line::new("init");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(nodens().get_program()).args(line.arguments(SHORT));
    command.env_remove("KUBERNETES_SERVICE_HOST");
    let container = line.run(command);
    wait(&container, "Nodens-");
    let init = child(container.pid());
    let second = line.server(SHORT);
    wait(&second, "taking over from process 1,");
    wait(&container, IDLES);
    wait(&second, GONE);
    kill(second);
    wait(&container, AGAIN);
    wait(&container, "Nodens-");
    line.answers();
    let second = line.server(SHORT);
    wait(&container, IDLES);
    wait(&second, GONE);
    assert!(Command::new("kill").args(["-TERM", &init]).status().unwrap().success());
    assert!(container.wait().success());
    line.answers();
    assert!(second.end("-TERM").success());
}

/// The one child of a process.
fn child(pid: u32) -> String {
    let children = Command::new("pgrep").args(["-P", &pid.to_string()]).output().unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    assert_eq!(children.split_whitespace().count(), 1, "{children}");
    children.trim().to_owned()
}

#[test]
fn two_servers_that_start_at_once_follow_each_other() {
    let line = Line::new("race");
    let servers: Vec<_> = (0..3).map(|_| line.pod()).collect();
    servers.iter().for_each(|server| wait(server, "Nodens-"));
    eventually("all but one are idle", || {
        servers.iter().map(|server| server.count_seen(IDLES)).sum::<usize>() == 2
    });
    line.answers();
    for server in servers {
        assert!(server.end("-TERM").success());
    }
    eventually("the port is free", || line.is_free());
}
