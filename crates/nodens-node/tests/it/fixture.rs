//! Networks of their own, as root, and what is done in them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nodens_node::network::{Backend, Plan};
pub(crate) use nodens_testkit::{PATIENCE, eventually};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A process in a network namespace of its own, which lives as long as this.
pub(crate) struct Namespace(Child);

impl Namespace {
    pub(crate) fn new() -> Self {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).spawn();
        let child = child.expect("unshare: install util-linux");
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        let file = format!("/proc/{}/ns/net", child.id());
        let namespace = Self(child);
        let away = || std::fs::read_link(&file).is_ok_and(|theirs| theirs != ours);
        eventually("a network namespace of its own (are you root?)", away);
        namespace
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Runs `body` in the namespace, with all that it starts, on a thread of its own.
    pub(crate) fn run<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        let file = File::open(format!("/proc/{}/ns/net", self.0.id())).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind).unwrap();
                body()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Runs `body` in a network with nothing but loopback.
pub(crate) fn alone<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    Namespace::new().run(|| {
        sh("ip link set lo up");
        body()
    })
}

/// What a script writes; it must not fail.
pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{complaints}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn plan(backend: Backend, addresses: &[&str]) -> Plan {
    Plan {
        interface: "nodelocaldns".to_owned(),
        addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        dns_port: 53,
        health_port: 8080,
        setup_interface: true,
        setup_rules: true,
        backend,
        sync: Duration::from_secs(60),
    }
}

/// Whether an address is one of this network.
pub(crate) fn has(ip: &str) -> bool {
    sh("ip -o addr show").lines().any(|line| line.contains(&format!(" {ip}/")))
}

/// Waits until there is neither link nor table. Programs that other tests start at the moment hold
/// every descriptor of this process until they run.
pub(crate) fn gone() {
    eventually("link and table are gone", || {
        !sh("ip link").contains("nodelocaldns") && !sh("nft list tables").contains("nodelocaldns")
    });
}

/// The example `network` as a process.
pub(crate) struct Holder {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Holder {
    pub(crate) fn start(backend: &str, addresses: &[&str]) -> Self {
        Self::start_in("exec \"$@\"", backend, addresses)
    }

    /// Begins with a script whose arguments are the program and its arguments.
    pub(crate) fn start_in(script: &str, backend: &str, addresses: &[&str]) -> Self {
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
        let program = folder.join("examples/network");
        assert!(program.exists(), "run: cargo build -p nodens-node --example network");
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh"]).arg(program).args(["nodelocaldns", backend]);
        command.args(addresses).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                _ = sender.send(line);
            }
        });
        let input = child.stdin.take();
        let mut holder = Self { child, input, lines, said: Vec::new() };
        holder.until("open");
        holder
    }

    /// Gives a command; returns whether queries come here after it.
    pub(crate) fn tell(&mut self, command: &str) -> bool {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
        self.until(command).ends_with(" true")
    }

    fn until(&mut self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no '{start}' after {:?}", self.said));
            if line.starts_with(start) {
                return line;
            }
            self.said.push(line);
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The end of its input, upon which it ends by itself.
    pub(crate) fn quit(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A pod beside a node, with a kube-dns service in front of a central server.
pub(crate) struct Cluster {
    pub(crate) node: Namespace,
    pub(crate) pod: Namespace,
}

/// The address of the service.
pub(crate) const SERVICE: &str = "10.96.0.10";
/// The central server's own address.
const CENTRAL: &str = "10.9.9.9";

impl Cluster {
    /// `rules` is a script that sends what is for [`SERVICE`] to the central server.
    pub(crate) fn new(rules: &str) -> Self {
        let (node, pod) = (Namespace::new(), Namespace::new());
        let pid = pod.pid();
        node.run(|| {
            sh(&format!(
                "ip link set lo up
                ip addr add {CENTRAL}/32 dev lo
                ip link add pod type veth peer name eth0 netns {pid}
                ip addr add 10.1.0.1/24 dev pod
                ip link set pod up
                echo 1 > /proc/sys/net/ipv4/ip_forward"
            ));
            sh(rules);
            serve(CENTRAL, "central");
        });
        pod.run(|| {
            sh("ip link set lo up
                ip addr add 10.1.0.2/24 dev eth0
                ip link set eth0 up
                ip route add default via 10.1.0.1");
        });
        Self { node, pod }
    }

    /// Who answers the pod's query to the service. A new link loses some.
    pub(crate) fn who(&self) -> String {
        let started = Instant::now();
        loop {
            if let Some(name) = self.one_question() {
                return name;
            }
            assert!(started.elapsed() < PATIENCE, "nobody answers");
        }
    }

    /// Who answers one query within a second, if anybody.
    pub(crate) fn one_question(&self) -> Option<String> {
        self.pod.run(|| {
            let socket = UdpSocket::bind("10.1.0.2:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            socket.connect((SERVICE, 53)).unwrap();
            socket.send(b"?").ok()?;
            let mut buffer = [0; 16];
            let len = socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
        })
    }
}

/// What kube-proxy does for the service, in nftables.
pub(crate) const KUBE_PROXY: &str = "nft -f - <<EOF
table ip kube-proxy {
  chain nat-prerouting {
    type nat hook prerouting priority dstnat;
    ip daddr 10.96.0.10 udp dport 53 dnat to 10.9.9.9
  }
}
EOF";

/// The same in iptables of a flavour.
pub(crate) fn kube_proxy_of(flavour: &str) -> String {
    format!(
        "{flavour} -t nat -N KUBE-SERVICES
        {flavour} -t nat -A PREROUTING -j KUBE-SERVICES
        {flavour} -t nat -A KUBE-SERVICES -d 10.96.0.10/32 -p udp --dport 53 -j DNAT --to 10.9.9.9"
    )
}

/// Answers every query to port 53 of an address, which need not exist yet, with `name`, as long
/// as the process lives.
pub(crate) fn serve(ip: &str, name: &'static str) {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt::set_ip_freebind};
    let ip: IpAddr = ip.parse().unwrap();
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket(family, SocketType::DGRAM, None).unwrap();
    set_ip_freebind(&fd, true).unwrap();
    bind(&fd, &SocketAddr::new(ip, 53)).unwrap();
    let socket = UdpSocket::from(fd);
    std::thread::spawn(move || {
        let mut buffer = [0; 16];
        while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
            _ = socket.send_to(name.as_bytes(), peer);
        }
    });
}
