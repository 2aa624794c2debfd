//! Starts the binary, asks it, ends it.

pub(crate) use nodens_testkit::{PATIENCE, alone, among_few, eventually, free_port, need};
pub(crate) use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Builder, Class, Flags, Message, Name, Type};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A folder that goes away with the value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        // Two tests that choose one name would remove each other's files.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("nodens-{name}-{process}-{count}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Lines of standard output as they come.
    lines: Receiver<String>,
    /// Lines that came and were not waited for yet.
    seen: RefCell<Vec<String>>,
    /// Where it answers.
    pub(crate) address: SocketAddr,
    pub(crate) conf: PathBuf,
    pub(crate) folder: Folder,
}

impl Server {
    /// Starts `nodens` with `corefile`, in which `PORT` stands for a free port.
    pub(crate) fn start(name: &str, corefile: &str) -> Self {
        Self::start_with(name, corefile, &[])
    }

    /// As [`Server::start`], with more arguments.
    pub(crate) fn start_with(name: &str, corefile: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new(name);
        let port = free_port();
        let conf = folder.write("Corefile", &corefile.replace("PORT", &port.to_string()));
        let mut command = nodens();
        command.args(["-p", &port.to_string()]).arg("-conf").arg(&conf).args(arguments);
        let server = Self::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
        server.wait_for("Nodens-");
        server
    }

    /// Starts `command`, a server for `Corefile` in `folder` at `address`, and waits for nothing.
    pub(crate) fn run(mut command: Command, folder: Folder, address: SocketAddr) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let (seen, conf) = (RefCell::default(), folder.0.join("Corefile"));
        Self { child, lines, seen, address, conf, folder }
    }

    /// Waits for a line of output that contains `text`, and takes it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_long_for(text, PATIENCE)
    }

    /// As [`Server::wait_for`], for as long as that.
    pub(crate) fn wait_long_for(&self, text: &str, patience: Duration) -> String {
        let until = Instant::now() + patience;
        let mut seen = self.seen.borrow_mut();
        loop {
            if let Some(at) = seen.iter().position(|line| line.contains(text)) {
                return seen.remove(at);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line with {text:?}: {error}, but {seen:?}"),
            }
        }
    }

    /// How many lines with `text` have come so far and were not waited for.
    pub(crate) fn count_seen(&self, text: &str) -> usize {
        let mut seen = self.seen.borrow_mut();
        seen.extend(self.lines.try_iter());
        seen.iter().filter(|line| line.contains(text)).count()
    }

    /// Lines with `text` that have come so far and were not waited for.
    pub(crate) fn seen(&self, text: &str) -> Vec<String> {
        let mut seen = self.seen.borrow_mut();
        seen.extend(self.lines.try_iter());
        seen.iter().filter(|line| line.contains(text)).cloned().collect()
    }

    pub(crate) fn ask(&self, qname: &str, qtype: Type) -> Message {
        ask_udp(self.address, qname, qtype).unwrap_or_else(|| panic!("no answer to {qname}"))
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(self, signal: &str) -> ExitStatus {
        self.signal(signal);
        self.wait()
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let until = Instant::now() + 3 * PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// An HTTP GET; gives status line and body.
    pub(crate) fn get(&self, port: u16, path: &str) -> (String, String) {
        http_get(port, path).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It may have a successor, which only it can end.
            self.signal("-TERM");
            let until = Instant::now() + PATIENCE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

/// The binary under test.
pub(crate) fn nodens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nodens"))
}

pub(crate) fn request(qname: &str, qtype: Type) -> Vec<u8> {
    let mut out = Vec::new();
    let qname: Name = qname.parse().unwrap();
    Builder::new(&mut out, 4711, Flags(Flags::RD)).question(qname.view(), qtype, Class::IN);
    out
}

/// Asks like a stub resolver: again after two seconds, until patience ends.
pub(crate) fn ask_udp(address: SocketAddr, qname: &str, qtype: Type) -> Option<Message> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket.connect(address).unwrap();
        let mut reply = vec![0; 65_535];
        let answer = socket.send(&request(qname, qtype)).and_then(|_| socket.recv(&mut reply));
        match answer {
            Ok(len) => return Some(Message::parse(&reply[..len]).unwrap()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    None
}

pub(crate) fn http_get(port: u16, path: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    Ok((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()))
}

/// The value of a line of `/proc/PID/status`, such as `VmHWM`, in octets.
pub(crate) fn memory(pid: u32, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut values = status.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    values.next().unwrap().trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}
