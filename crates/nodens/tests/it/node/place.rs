//! A network namespace that stands for a node.

use crate::fixture::{Folder, PATIENCE, Server, need, nodens, request};
use nodens_wire::{Message, Type};
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The address of the upstream service.
pub(super) const UPSTREAM: &str = "10.96.0.11";

/// A network namespace, which is gone when the value is.
pub(super) struct Place {
    holder: Child,
}

impl Place {
    /// A node with nothing on it but loopback, and the address of the upstream service there.
    pub(super) fn new() -> Self {
        need("unshare", "util-linux");
        need("nsenter", "util-linux");
        need("ip", "iproute2");
        // Ends by itself if nobody ends it.
        let mut holder = Command::new("unshare");
        let holder = holder.args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
        let place = Self { holder };
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        let until = Instant::now() + PATIENCE;
        while std::fs::read_link(place.path()).unwrap() == ours {
            assert!(Instant::now() < until, "no network namespace: is this root?");
            std::thread::sleep(Duration::from_millis(5));
        }
        place.ip("link set lo up");
        place.ip(&format!("address add {UPSTREAM}/32 dev lo"));
        place
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// `program` on this node, in the place of `nsenter`.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg("--").arg(program);
        command
    }

    pub(super) fn ip(&self, arguments: &str) -> String {
        let output = self.command("ip").args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {arguments}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts `nodens` with the `Corefile` of `folder` and `arguments`.
    pub(super) fn start(&self, folder: Folder, arguments: &[&str]) -> Server {
        let mut command = self.command(nodens().get_program());
        command.args(arguments).env("KUBE_DNS_UPSTREAM_SERVICE_HOST", UPSTREAM);
        Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], 53)))
    }

    /// Starts the central server: it knows `web.default.svc.cluster.local`, and `a.test`.
    pub(super) fn start_upstream(&self, name: &str) -> Server {
        self.start_server(name, UPSTREAM, "10.1.1.1")
    }

    /// Starts a central server behind the address `service` as kube-proxy does it, to which `web` is
    /// `10.1.1.9`.
    pub(super) fn start_central(&self, name: &str, service: &str) -> Server {
        need("nft", "nftables");
        const CENTRAL: &str = "10.9.9.9";
        self.ip(&format!("address add {CENTRAL}/32 dev lo"));
        self.ip(&format!("route add {service}/32 dev lo src {CENTRAL}"));
        let server = self.start_server(name, CENTRAL, "10.1.1.9");
        let rules = format!(
            "table ip kube-proxy {{\n chain nat-output {{\n type nat hook output priority -100\n \
             ip daddr {service} udp dport 53 dnat to {CENTRAL}\n }}\n}}\n"
        );
        let file = server.folder.write("rules", &rules);
        let output = self.command("nft").arg("-f").arg(file).output().unwrap();
        assert!(output.status.success(), "nft: {output:?}");
        server
    }

    fn start_server(&self, name: &str, address: &str, web: &str) -> Server {
        let folder = Folder::new(name);
        let corefile = format!(
            ".:53 {{\n bind {address}\n hosts {{\n  {web} web.default.svc.cluster.local\n  10.1.1.2 a.test\n  fallthrough\n }}\n \
             template ANY SOA {{\n  rcode NOERROR\n }}\n}}\n"
        );
        let conf = folder.write("Corefile", &corefile).display().to_string();
        let server = self.start(folder, &["-conf", &conf]);
        server.wait_for("Nodens-");
        server
    }

    /// What `work` gives on a thread of this node.
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let work = move || {
                let kind = Some(rustix::thread::LinkNameSpaceType::Network);
                rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).unwrap();
                work()
            };
            scope.spawn(work).join().unwrap()
        })
    }

    /// Asks `server` once.
    pub(super) fn ask(&self, server: &str, qname: &str) -> Option<Message> {
        self.ask_within(server, qname, Duration::from_secs(2))
    }

    /// The same, with another patience.
    pub(super) fn ask_within(&self, server: &str, qname: &str, time: Duration) -> Option<Message> {
        let server = SocketAddr::new(server.parse::<IpAddr>().unwrap(), 53);
        self.inside(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(time)).unwrap();
            socket.connect(server).ok()?;
            socket.send(&request(qname, Type::A)).ok()?;
            let mut reply = vec![0; 4096];
            let len = socket.recv(&mut reply).ok()?;
            Some(Message::parse(&reply[..len]).unwrap())
        })
    }

    /// Status line and body of `http://ADDRESS/PATH`, if anybody answers.
    pub(super) fn get(&self, address: &str, path: &str) -> Option<(String, String)> {
        use std::io::{Read, Write};
        self.inside(|| {
            let address: SocketAddr = address.parse().unwrap();
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n").ok()?;
            let mut response = String::new();
            stream.read_to_string(&mut response).ok()?;
            let (head, body) = response.split_once("\r\n\r\n")?;
            Some((head.lines().next()?.to_owned(), body.to_owned()))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = self.holder.kill();
        _ = self.holder.wait();
    }
}

/// A Corefile template as in the official manifest, for the files of `folder`.
pub(super) fn write_template(folder: &Folder) -> String {
    let block = |zone: &str, upstream: &str| {
        format!(
            "{zone}:53 {{\n    errors\n    cache 30\n    reload\n    loop\n    bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__\n    forward . {upstream} {{\n            force_tcp\n    }}\n    prometheus :9253\n"
        )
    };
    let cluster = "__PILLAR__CLUSTER__DNS__";
    let template = format!(
        "{}    health __PILLAR__LOCAL__DNS__:8080\n    }}\n{}    }}\n{}    }}\n",
        block("cluster.local", cluster),
        block("in-addr.arpa", cluster),
        block(".", "__PILLAR__UPSTREAM__SERVERS__"),
    );
    let health =
        template.replace("health __PILLAR__LOCAL__DNS__:8080", "health 169.254.20.10:8080");
    folder.write("Corefile.base", &health).display().to_string()
}

/// The text of a file, or nothing.
pub(super) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
