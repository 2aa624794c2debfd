//! Servers that follow each other.

use super::fixture::{
    Folder, Server, ask_udp, eventually, framed, free_port, http_get, nodens, read_message, request,
};
use nodens_net::{HandedConnection, ListenerAddress};
use nodens_node::handover::{
    BusyResponder, Claimed, Error, Folder as Shared, HandoverState, Holder, Name, Named, Offer,
    Takeover,
};
use nodens_wire::{Message, Rcode, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const COREFILE: &str = "test:PORT {\n bind 127.0.0.1\n cache 30\n template IN A test {\n answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }\n reload 2s 1s\n}\n";

/// Longer than any of this may take on a busy machine, shorter than a hang.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);

/// Asks a query and gives the answer.
type Ask = Box<dyn FnMut(&[u8]) -> Vec<u8>>;

/// Clients over UDP and TCP that ask each query once; whatever is not answered fails the test.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(address: SocketAddr) -> Self {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients: [fn(SocketAddr) -> Ask; 4] = [udp, udp, kept, fresh];
        let threads = clients.map(|client| {
            let (stop, asked) = (stop.clone(), asked.clone());
            std::thread::spawn(move || {
                let mut ask = client(address);
                while !stop.load(Ordering::Relaxed) {
                    let number = asked.fetch_add(1, Ordering::Relaxed);
                    let answer = ask(&request(&format!("n{}.test", number % 500), Type::A));
                    let answer = Message::parse(&answer).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 1));
                }
            })
        });
        Self { stop, asked, threads: threads.into() }
    }

    /// Waits until some queries more have been asked.
    pub(crate) fn goes_on(&self) {
        let before = self.asked.load(Ordering::Relaxed);
        let until = Instant::now() + ANSWER;
        while self.asked.load(Ordering::Relaxed) <= before + 20 {
            assert!(Instant::now() < until, "no more questions");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.asked.load(Ordering::Relaxed)
    }
}

fn udp(address: SocketAddr) -> Ask {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(ANSWER)).unwrap();
    Box::new(move |question| {
        let mut answer = vec![0; 1500];
        socket.send(question).unwrap();
        let len = socket.recv(&mut answer).expect("an answer over UDP");
        answer[..len].to_vec()
    })
}

/// One connection for all queries.
fn kept(address: SocketAddr) -> Ask {
    let mut stream = connect(address);
    Box::new(move |question| exchange(&mut stream, question))
}

/// A connection for each query.
fn fresh(address: SocketAddr) -> Ask {
    Box::new(move |question| exchange(&mut connect(address), question))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(ANSWER)).unwrap();
    stream
}

pub(crate) fn exchange(stream: &mut TcpStream, question: &[u8]) -> Vec<u8> {
    stream.write_all(&framed(question)).unwrap();
    read_message(stream).expect("an answer over TCP")
}

pub(crate) fn name(what: &str) -> String {
    format!("test-{what}-{}", std::process::id())
}

/// The folder in which all servers of these tests find each other.
pub(crate) fn rendezvous() -> String {
    concat!(env!("CARGO_TARGET_TMPDIR"), "/handover").to_owned()
}

/// As a program that shares the folder.
fn shared() -> Shared {
    Shared::open(rendezvous().as_ref(), true).unwrap()
}

/// Asks the server with this name, as a successor does.
fn claim(name: &str) -> Takeover {
    match Takeover::claim(&shared(), name, "test").unwrap() {
        Claimed::Successor(successor) => *successor,
        other => panic!("{other:?}"),
    }
}

fn start(what: &str, more: &[&str]) -> Server {
    let folder = rendezvous();
    let arguments = [&["-handover-trial", "50ms", "-handover-dir", &folder], more].concat();
    Server::start_with(&format!("handover-{what}"), COREFILE, &arguments)
}

#[test]
fn twenty_restarts_by_signal_lose_no_question_and_keep_the_process_id() {
    let server = start("signal", &[]);
    let load = Load::start(server.address);
    load.goes_on();
    for _ in 0..20 {
        server.signal("-USR2");
        server.wait_long_for("the process that ran before is gone", ANSWER);
        load.goes_on();
    }
    let asked = load.stop();
    assert!(asked > 400, "{asked}");
    // The process that was started first stays, passes signals on, and ends with the last server.
    assert!(server.end("-TERM").success());
}

#[test]
fn fifty_servers_started_by_hand_follow_each_other_and_lose_no_question() {
    let name = name("hand");
    let first = start("hand", &["-handover", &name]);
    let (address, conf) = (first.address, first.conf.clone());
    let load = Load::start(address);
    let mut running: Option<std::process::Child> = None;
    for _ in 0..50 {
        let mut command = nodens();
        command.args(["-p", &address.port().to_string(), "-quiet", "-handover-trial", "10ms"]);
        command.args(["-handover", &name, "-handover-dir", &rendezvous(), "-conf"]);
        command.arg(&conf).stdout(Stdio::piped());
        command.env_remove("KUBERNETES_SERVICE_HOST");
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        wait_for(&mut output, "the process that ran before is gone");
        // Nobody reads on, and nobody waits for it.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        if let Some(mut before) = running.replace(child) {
            assert!(before.wait().unwrap().success());
        }
        load.goes_on();
    }
    load.stop();
    let mut last = running.unwrap();
    let pid = last.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(last.wait().unwrap().success());
}

fn wait_for(output: &mut impl Read, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let mut some = [0; 1000];
        let len = output.read(&mut some).unwrap();
        assert!(len > 0, "ended without {text:?}: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&some[..len]);
    }
}

#[test]
fn a_successor_that_ends_at_any_step_costs_no_question() {
    let name = name("steps");
    let server = start("steps", &["-handover", &name]);
    let load = Load::start(server.address);
    for round in 0..9 {
        let mut successor = claim(&name);
        match round % 3 {
            0 => drop(successor),
            1 => {
                successor.answers(|_| {}).unwrap();
                drop(successor);
            }
            _ => {
                successor.answers(|_| {}).unwrap();
                // It says that it takes queries, and ends before it takes any.
                let trial = successor.commit(&[]).unwrap();
                drop(trial.paused(ANSWER).unwrap().unwrap());
            }
        }
        server.wait_long_for("the successor failed to take over, continuing to serve", ANSWER);
        load.goes_on();
    }
    load.stop();
    assert!(server.end("-TERM").success());
}

#[test]
fn successors_that_are_killed_cost_no_question() {
    let name = name("killed");
    let server = start("killed", &["-handover", &name]);
    let load = Load::start(server.address);
    // The last of them is ready, and would take over as soon as its trial is over.
    for text in ["taking over from process", "answers of the running process", "ready, taking over"]
    {
        let mut command = nodens();
        command.args(["-p", &server.address.port().to_string(), "-handover-trial", "60s"]);
        command.args(["-quiet", "-handover", &name, "-handover-dir", &rendezvous(), "-conf"]);
        command.arg(&server.conf);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        wait_for(child.stdout.as_mut().unwrap(), text);
        child.kill().unwrap();
        child.wait().unwrap();
        server.wait_long_for("the successor failed to take over, continuing to serve", ANSWER);
        load.goes_on();
    }
    load.stop();
    assert!(server.end("-TERM").success());
}

#[test]
fn a_server_that_is_told_to_end_lets_its_successor_take_over_first() {
    let name = name("ending");
    let server = start("ending", &["-handover", &name]);
    let load = Load::start(server.address);
    let mut command = nodens();
    command.args(["-p", &server.address.port().to_string(), "-handover-trial", "1s"]);
    command.args(["-quiet", "-handover", &name, "-handover-dir", &rendezvous(), "-conf"]);
    command.arg(&server.conf);
    let mut successor = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = successor.stdout.take().unwrap();
    wait_for(&mut output, "taking over from process");
    // The load's connections go on too, which would end with a server that only leaves.
    server.signal("-TERM");
    server.wait_long_for("told to end: after the hand-over", ANSWER);
    assert!(server.wait().success());
    wait_for(&mut output, "the process that ran before is gone");
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    load.goes_on();
    load.stop();
    let pid = successor.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(successor.wait().unwrap().success());
}

#[test]
fn a_server_that_is_told_to_end_does_so_when_its_successor_is_gone() {
    let name = name("gone");
    let server = start("gone", &["-handover", &name]);
    let successor = claim(&name);
    server.signal("-TERM");
    server.wait_long_for("told to end: after the hand-over", ANSWER);
    assert!(ask_udp(server.address, "a.test", Type::A).is_some());
    drop(successor);
    assert!(server.wait().success());
}

#[test]
fn a_server_that_is_told_to_end_ends_the_successor_that_it_has_started() {
    // As soon as there is one; once it could take over.
    for (what, step) in [("just-started", "Starting successor"), ("trial", "ready, taking over")] {
        for signal in ["-TERM", "-INT", "-QUIT"] {
            let what = format!("child-{what}{signal}");
            let server = start(&what, &["-handover-trial", "60s"]);
            let address = server.address;
            server.signal("-USR2");
            server.wait_long_for(step, ANSWER);
            assert!(server.end(signal).success());
            let is_free = || UdpSocket::bind(address).is_ok();
            // Quitting waits for nothing.
            if signal == "-QUIT" {
                eventually(&what, is_free);
            } else {
                assert!(is_free(), "{what}: a process is left that serves");
            }
            std::thread::sleep(Duration::from_millis(300));
            assert!(is_free(), "{what}: a process has begun to serve");
        }
    }
}

#[test]
fn a_server_that_is_told_to_end_does_not_wait_for_ever() {
    let name = name("slow");
    let server = start("slow", &["-handover", &name]);
    let successor = claim(&name);
    server.signal("-TERM");
    server.wait_long_for("SIGTERM: Terminating without the successor", ANSWER);
    assert!(server.wait().success());
    drop(successor);
}

#[test]
fn a_successor_that_cannot_start_leaves_the_server_as_it_was() {
    let server = start("broken", &[]);
    let good = std::fs::read_to_string(&server.conf).unwrap();
    let load = Load::start(server.address);
    // Not a file event that `reload` would take up, but a text that no process can start with.
    std::fs::write(&server.conf, "test:PORT {\n no-such-directive\n").unwrap();
    server.signal("-USR2");
    server.wait_long_for("the successor failed to take over, continuing to serve", ANSWER);
    server.wait_long_for("ended: exit status: 1", ANSWER);
    load.goes_on();
    std::fs::write(&server.conf, good).unwrap();
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    load.stop();
    assert!(server.end("-INT").success());
}

#[test]
fn the_last_server_gives_the_exit_code() {
    let server = start("code", &[]);
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    assert!(ask_udp(server.address, "a.test", Type::A).is_some());
    let children = Command::new("pgrep").args(["-P", &server.pid().to_string()]).output().unwrap();
    let child = String::from_utf8(children.stdout).unwrap();
    assert!(Command::new("kill").args(["-KILL", child.trim()]).status().unwrap().success());
    assert_eq!(server.wait().code(), Some(128 + 9));
}

#[test]
fn a_newer_file_of_the_same_name_is_started() {
    let folder = Folder::new("handover-newer");
    let port = free_port();
    let conf = folder.write("Corefile", &COREFILE.replace("PORT", &port.to_string()));
    let program = folder.0.join("nodens-of-this-test");
    std::os::unix::fs::symlink(nodens().get_program(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["-p", &port.to_string(), "-handover-trial", "10ms", "-conf"]).arg(&conf);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let server = Server::run(command, Folder::new("handover-newer-server"), address);
    server.wait_long_for("Nodens-", ANSWER);
    // If the file is gone, what runs is started once more.
    std::fs::remove_file(&program).unwrap();
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    // The newer one says that it was started, and is the old one otherwise.
    let script = format!(
        "#!/bin/sh\necho newer \"$@\" > {0}/started\nexec {1} \"$@\"\n",
        folder.0.display(),
        nodens().get_program().display()
    );
    let newer = folder.write("newer", &script);
    std::fs::set_permissions(&newer, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(newer, &program).unwrap();
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    let started = std::fs::read_to_string(folder.0.join("started")).unwrap();
    assert!(started.starts_with(&format!("newer -p {port} -handover-trial 10ms -conf ")));
    assert!(ask_udp(address, "a.test", Type::A).is_some());
    assert!(server.end("-TERM").success());
}

#[test]
fn a_corefile_from_standard_input_has_no_successor() {
    let port = free_port();
    let mut command = nodens();
    command.args(["-conf", "stdin"]).stdin(Stdio::piped());
    let corefile = COREFILE.replace("PORT", &port.to_string());
    let folder = Folder::new("handover-stdin");
    let input = folder.write("input", &corefile);
    command.stdin(std::fs::File::open(input).unwrap());
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    server.wait_long_for("Nodens-", ANSWER);
    server.signal("-USR2");
    let said = server.wait_long_for("SIGUSR2: no successor: ", ANSWER);
    assert!(said.contains("the Corefile came from standard input"), "{said}");
    assert!(server.end("-TERM").success());
}

#[test]
fn a_changed_corefile_is_taken_up_right_after_a_hand_over() {
    let name = name("changed");
    let server = start("changed", &["-handover", &name]);
    server.wait_long_for("Running configuration SHA512", ANSWER);
    let successor = claim(&name);
    let changed = std::fs::read_to_string(&server.conf).unwrap().replace("192.0.2.1", "192.0.2.2");
    std::fs::write(&server.conf, changed).unwrap();
    server.signal("-USR1");
    // Long enough for the signal, and for the file that `reload` watches.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(server.count_seen("Reloading"), 0);
    drop(successor);
    server.wait_long_for("Reloading complete", ANSWER);
    assert!(server.end("-TERM").success());
}

#[test]
fn the_http_port_is_open_throughout() {
    let http = free_port();
    let corefile = COREFILE.replace(" cache", &format!(" prometheus 127.0.0.1:{http}\n cache"));
    let arguments = ["-handover-trial", "50ms"];
    let server = Server::start_with("handover-http", &corefile, &arguments);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let scraper = std::thread::spawn(move || {
        let mut count = 0;
        while !stopped.load(Ordering::Relaxed) {
            TcpStream::connect(("127.0.0.1", http)).expect("an open port");
            count += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        count
    });
    for _ in 0..5 {
        server.signal("-USR2");
        server.wait_long_for("the process that ran before is gone", ANSWER);
        // A connection that this test opened for nothing may be in the way.
        eventually("metrics", || {
            http_get(http, "/metrics").is_ok_and(|(status, _)| status.contains("200"))
        });
    }
    stop.store(true, Ordering::Relaxed);
    assert!(scraper.join().unwrap() > 5);
    assert!(server.end("-TERM").success());
}

/// A process that hands over everything but its cache, for which it lets wait until the end of the
/// test.
struct Slow(std::sync::mpsc::Receiver<()>);

impl Holder for Slow {
    fn state(&mut self) -> Result<HandoverState, String> {
        Ok(HandoverState::default())
    }

    fn answers(&mut self, _: &mut dyn FnMut(&[u8]) -> bool) {
        _ = self.0.recv();
    }

    fn called_off(&self) -> Arc<AtomicBool> {
        Arc::default()
    }

    fn pause(&mut self) -> Result<Named, String> {
        Err("never".to_owned())
    }

    fn retire(&mut self) -> Duration {
        Duration::ZERO
    }

    fn is_hurried(&self) -> bool {
        false
    }

    fn resume(&mut self, _: &Error) {}

    fn refused(&mut self, _: &Error) {}

    fn leave(&mut self, _: Vec<ListenerAddress>, _: Sender<HandedConnection>) {}

    fn has_left(&mut self) -> bool {
        true
    }
}

/// Starts a server with the name `name` that waits for another process, on its thread `thread`, and
/// tells it to end.
fn ends_while_it_waits(name: &str, thread: &str) {
    let folder = Folder::new(name);
    let (port, conf) = (free_port(), folder.write("Corefile", COREFILE));
    let mut command = nodens();
    command.args(["-p", &port.to_string(), "-handover", name, "-handover-dir", &rendezvous()]);
    command.arg("-conf").arg(conf);
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    let waits = |task: std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread)
    };
    eventually("it waits", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid()));
        tasks.unwrap().flatten().any(|task| waits(task.path()))
    });
    let told = Instant::now();
    assert_eq!(server.end("-TERM").code(), Some(0), "as after any clean end");
    // It would wait for 20 s at least.
    assert!(told.elapsed() < Duration::from_secs(10), "{thread}: after {:?}", told.elapsed());
}

#[test]
fn a_process_that_waits_for_another_ends_at_once_when_it_is_told_to() {
    // One that has the name, and nothing to offer yet.
    let starting = name("starting");
    let held = BusyResponder::start(Name::take(&shared(), &starting).unwrap()).unwrap();
    ends_while_it_waits(&starting, "claim");
    drop(held);
    // One that hangs while it hands over its cache.
    let slow = name("slow-cache");
    let mut offer = Offer::new(Some(Name::take(&shared(), &slow).unwrap())).unwrap();
    let (end, ends) = channel();
    // For as long as the process lives.
    std::thread::spawn(move || offer.serve(&mut Slow(ends), "test"));
    ends_while_it_waits(&slow, "warm");
    drop(end);
}

/// Starts one more server with the name `name`.
fn beside(server: &Server, name: &str) -> Server {
    let folder = Folder::new(&format!("beside-{name}"));
    let mut command = nodens();
    command.args(["-p", &server.address.port().to_string(), "-handover", name]);
    command.args(["-handover-dir", &rendezvous(), "-handover-trial", "10ms", "-conf"]);
    command.arg(&server.conf);
    Server::run(command, folder, server.address)
}

#[test]
fn who_has_the_name_and_says_nothing_delays_a_start_by_seconds() {
    // One that holds the lock; one that listens and is stopped.
    let silent = name("silent");
    let held = Name::take(&shared(), &silent).unwrap();
    let server = start("silent", &[]);
    let begun = Instant::now();
    let second = beside(&server, &silent);
    second.wait_long_for("it does not answer; starting beside it", ANSWER);
    second.wait_long_for("Nodens-", ANSWER);
    assert!(begun.elapsed() < Duration::from_secs(15), "after {:?}", begun.elapsed());
    drop(held);
    assert!(second.end("-TERM").success());
    let stopped = name("stopped");
    let offer = Offer::new(Some(Name::take(&shared(), &stopped).unwrap())).unwrap();
    let begun = Instant::now();
    let second = beside(&server, &stopped);
    let line = second.wait_long_for("starting beside it", ANSWER);
    assert!(line.contains("the other process does not answer"), "{line}");
    second.wait_long_for("Nodens-", ANSWER);
    assert!(begun.elapsed() < Duration::from_secs(15), "after {:?}", begun.elapsed());
    drop(offer);
    assert!(second.end("-TERM").success());
    assert!(server.end("-TERM").success());
}

#[test]
fn an_idle_stranger_blocks_neither_reloads_nor_a_successor() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let name = name("stranger");
    let server = start("stranger", &["-handover", &name]);
    // It has come by the socket, and not by the secret.
    let files = std::fs::read_dir(rendezvous()).unwrap().flatten().map(|file| file.path());
    let own = |path: &std::path::PathBuf| {
        let name = format!("{name}.");
        path.extension().is_some_and(|kind| kind == "socket")
            && path.file_name().unwrap().to_str().unwrap().starts_with(&name)
    };
    let path = files.into_iter().find(own).expect("a socket");
    // In few enough octets for an address.
    let folder = std::fs::File::open(rendezvous()).unwrap();
    let file = path.file_name().unwrap().to_str().unwrap();
    let path = format!("/proc/self/fd/{}/{file}", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let address = SocketAddrUnix::new(path).unwrap();
    let strangers: Vec<_> = (0..12)
        .map(|_| {
            let stranger = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
            connect(&stranger, &address).unwrap();
            stranger
        })
        .collect();
    let changed = std::fs::read_to_string(&server.conf).unwrap().replace("192.0.2.1", "192.0.2.2");
    std::fs::write(&server.conf, changed).unwrap();
    server.signal("-USR1");
    server.wait_long_for("Reloading complete", ANSWER);
    server.wait_long_for("refused a process that asked to take over: ", ANSWER);
    let second = beside(&server, &name);
    second.wait_long_for("the process that ran before is gone", ANSWER);
    assert!(server.wait().success());
    drop(strangers);
    assert!(second.end("-TERM").success());
}

#[test]
fn a_changed_configuration_calls_off_a_successor_that_does_not_get_ready() {
    let name = name("called-off");
    let server = start("called-off", &["-handover", &name]);
    let successor = claim(&name);
    server.signal("-USR1");
    server.wait_long_for(
        "continuing to serve: the running process applies a changed configuration first",
        ANSWER,
    );
    server.wait_long_for("Reloading complete", ANSWER);
    drop(successor);
    assert!(server.end("-TERM").success());
}

#[test]
fn without_a_shared_folder_and_with_off_there_is_no_hand_over_but_to_a_child() {
    let name = name("off");
    let server = start("off", &["-handover", "off"]);
    assert!(!server.folder.0.join("handover").exists());
    server.signal("-USR2");
    server.wait_long_for("the process that ran before is gone", ANSWER);
    assert!(server.end("-TERM").success());
    // A pod of a manifest that does not mount it.
    let folder = Folder::new("handover-unmounted");
    let port = free_port();
    let conf = folder.write("Corefile", &COREFILE.replace("PORT", &port.to_string()));
    let mut command = nodens();
    command.args(["-p", &port.to_string(), "-handover", &name, "-conf"]).arg(conf);
    command.env("KUBERNETES_SERVICE_HOST", "192.0.2.99");
    let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
    if !std::path::Path::new("/run/nodens-handover").exists() {
        server.wait_long_for("no hand-over between pods: there is no folder", ANSWER);
    }
    server.wait_long_for("Nodens-", ANSWER);
    assert!(server.end("-TERM").success());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_where_there_are_no_pods() {
    let server = start("unmade", &["-handover", "unmade", "-handover-dir", "/no/such/folder"]);
    let text = "no hand-over: cannot use the folder /no/such/folder: no such file or directory";
    assert!(server.wait_long_for(text, ANSWER).starts_with("[ERROR]"));
    assert_eq!(server.count_seen("between pods"), 0);
    assert!(server.end("-TERM").success());
}

/// A successor for `server` that waits for the API server of a cluster, which is not there, for an hour.
fn waits_for_a_cluster(server: &Server, name: &str) -> Server {
    let folder = Folder::new(&format!("waits-{name}"));
    let kubernetes =
        "kubernetes cluster.local {\n endpoint http://127.0.0.1:1\n startup_timeout 1h\n }";
    let port = server.address.port().to_string();
    let corefile = COREFILE.replace("PORT", &port).replace(" cache 30", kubernetes);
    let conf = folder.write("Corefile", &corefile);
    let mut command = nodens();
    command
        .args(["-p", &port, "-handover", name, "-handover-dir", &rendezvous(), "-conf"])
        .arg(conf);
    let successor = Server::run(command, folder, server.address);
    successor.wait_long_for("waiting for Kubernetes API before starting server", ANSWER);
    successor
}

#[test]
fn a_successor_that_waits_lets_go_of_the_sockets_when_its_predecessor_dies() {
    let name = name("waits");
    let first = start("waits", &["-handover", &name]);
    let address = first.address;
    let second = waits_for_a_cluster(&first, &name);
    assert!(ask_udp(address, "a.test", Type::A).is_some());
    assert!(!first.end("-KILL").success());
    second.wait_long_for("the process that ran before ended early; its sockets are closed", ANSWER);
    // Who asks is refused at once, and another server would be the only one.
    UdpSocket::bind(address).expect("nobody has the port");
    std::net::TcpListener::bind(address).expect("nobody has the port");
    // It is the first now, and has the name.
    let third = waits_for_nothing(address, &name);
    third.wait_long_for("another process is starting", ANSWER);
    assert!(second.end("-TERM").success());
    third.wait_long_for("Nodens-", ANSWER);
    assert!(ask_udp(address, "a.test", Type::A).is_some());
    assert!(third.end("-TERM").success());
}

/// A server at `address` that can serve at once.
fn waits_for_nothing(address: SocketAddr, name: &str) -> Server {
    let folder = Folder::new(&format!("first-{name}"));
    let port = address.port().to_string();
    let conf = folder.write("Corefile", &COREFILE.replace("PORT", &port));
    let mut command = nodens();
    command
        .args(["-p", &port, "-handover", name, "-handover-dir", &rendezvous(), "-conf"])
        .arg(conf);
    Server::run(command, folder, address)
}

#[test]
fn a_successor_that_waits_ends_when_its_predecessor_goes_on_without_it() {
    let name = name("waits-off");
    let server = start("waits-off", &["-handover", &name]);
    let second = waits_for_a_cluster(&server, &name);
    server.signal("-USR1");
    server.wait_long_for(
        "continuing to serve: the running process applies a changed configuration first",
        ANSWER,
    );
    assert_eq!(second.wait().code(), Some(1), "so that it is restarted");
    assert!(ask_udp(server.address, "a.test", Type::A).is_some());
    assert!(server.end("-TERM").success());
}
