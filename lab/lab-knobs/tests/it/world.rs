//! What the tests share: folders, keepers, and a network namespace in the place of a machine.

use lab_knobs::Keeper;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder for journals.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// This program as a keeper.
pub(crate) fn keeper(folder: &Path) -> Keeper {
    Keeper::new(only("roles::keeper")).in_folder(folder)
}

/// The arguments that make this program run one test, which may print.
pub(crate) fn only(test: &'static str) -> [&'static str; 4] {
    [test, "--exact", "--nocapture", "--quiet"]
}

/// Starts this program as one of the roles and waits for its word `ready`; what it says after it.
pub(crate) fn start(mut command: Command, role: &'static str) -> (Child, String) {
    command.args(only(role)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let line = output.lines().map_while(Result::ok).find(|line| line.contains("ready "));
    let line = line.expect("the process says that it is ready");
    (child, line.split("ready ").nth(1).unwrap().to_owned())
}

/// Waits until `done`.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A network namespace with an interface `lab0`, in the place of a machine.
pub(crate) struct Machine {
    pub(crate) name: String,
}

impl Machine {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let machine = Self { name: format!("lab-knobs-{}-{count}", std::process::id()) };
        let name = machine.name.as_str();
        ip(&["netns", "add", name]);
        ip(&["-n", name, "link", "add", "lab0", "type", "veth", "peer", "name", "lab1"]);
        ip(&["-n", name, "link", "set", "lo", "up"]);
        ip(&["-n", name, "link", "set", "lab0", "up"]);
        ip(&["-n", name, "link", "set", "lab1", "up"]);
        machine
    }

    /// A command that runs there.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        // What a shell starts in the background ignores some signals, and so do its children.
        command.args(["netns", "exec", &self.name, "env", "--default-signal"]).arg(program);
        command
    }

    /// What the settings are that tests change.
    pub(crate) fn state(&self) -> String {
        let script = "cd /proc/sys/net/ipv4 && head -v tcp_* ip_local_port_range ../core/somaxconn \
            ../core/optmem_max /sys/class/net/lab0/queues/*/rps_cpus \
            /sys/class/net/lab0/mtu /sys/class/net/lab0/tx_queue_len; tc qdisc show dev lab0";
        let output = self.command("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

pub(crate) fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The file of a sysctl in a namespace.
pub(crate) fn sysctl(namespace: &str, name: &str) -> String {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let text = ip(&["netns", "exec", namespace, "cat", &path]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
