//! Clients as in a pod: a network and mount namespace of their own, a pod's `/etc/resolv.conf`, and
//! the server on port 53 of loopback. Nothing is left behind when a run ends.

use crate::fixture::{Folder, need, nodens};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where clients run.
pub(crate) struct Pod<'f> {
    folder: &'f Folder,
    corefile: String,
    resolv_conf: String,
}

impl<'f> Pod<'f> {
    /// A pod with the search list `search` and a server for `corefile`, in which `PORT` stands for
    /// the port and `FOLDER` for the folder.
    pub(crate) fn new(folder: &'f Folder, corefile: &str, search: &str) -> Self {
        let folder_path = folder.0.display().to_string();
        let corefile = corefile.replace("PORT", "53").replace("FOLDER", &folder_path);
        // The long time is for busy machines: a query that is sent again counts twice.
        let options = "options ndots:5 timeout:30";
        let resolv_conf = format!("nameserver 127.0.0.1\nsearch {search}\n{options}\n");
        Self { folder, corefile, resolv_conf }
    }

    /// Runs `program` with `names`, and gives what it wrote.
    pub(crate) fn run(&self, program: &Path, names: &[&str]) -> String {
        need("unshare", "util-linux");
        need("ip", "iproute2");
        let conf = self.folder.write("Corefile.53", &self.corefile);
        let resolv_conf = self.folder.write("resolv.conf", &self.resolv_conf);
        let script = "set -e
ip link set lo up
mount --bind \"$1\" /etc/resolv.conf
\"$2\" -conf \"$3\" >\"$4\" & server=$!
trap 'kill $server; wait $server' EXIT
for _ in $(seq 1200); do
  ss -lnu | grep -q '127.0.0.1:53 ' && break
  sleep 0.05
done
shift 4
\"$@\"
";
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", script, "sh"]);
        command.arg(resolv_conf).arg(nodens().get_program()).arg(conf).arg(self.log());
        run(command.arg(program).args(names))
    }

    fn log(&self) -> PathBuf {
        self.folder.0.join("log")
    }

    /// What the server of the last run wrote.
    pub(crate) fn server_log(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap()
    }
}

/// Runs a command that must succeed, and gives what it wrote.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

/// A program that looks names up with the `getaddrinfo` of the library that `compiler` is for.
pub(crate) fn build_c(folder: &Folder, compiler: &str) -> PathBuf {
    need(compiler, if compiler == "cc" { "gcc" } else { "musl-tools" });
    let source = folder.write("lookup.c", include_str!("../clients/lookup.c"));
    let program = folder.0.join(compiler);
    run(Command::new(compiler).arg("-o").arg(&program).arg(&source));
    program
}

/// A program that looks names up with Go's own resolver.
pub(crate) fn build_go(folder: &Folder) -> PathBuf {
    need("go", "golang-go");
    folder.write("go.mod", "module lookup\n\ngo 1.21\n");
    folder.write("main.go", include_str!("../clients/lookup.go"));
    let program = folder.0.join("lookup");
    let mut build = Command::new("go");
    build.current_dir(&folder.0).env("CGO_ENABLED", "0").args(["build", "-o"]).arg(&program);
    run(&mut build);
    program
}
