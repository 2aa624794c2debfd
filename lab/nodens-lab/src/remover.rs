//! Network namespaces and links that go when this program ends, in whatever way: a second Ctrl-C or SIGKILL runs no
//! destructor.

use anyhow::{Context, Result};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits for the end of its standard input, which is that of this program, and removes what the words name.
const SCRIPT: &str = r#"read -r _; for it; do case "$it" in link:*) ip link delete "${it#link:}" ;; *) ip netns delete "$it" ;; esac; done"#;

/// The process that removes; it does so when this value is dropped, too.
pub(crate) struct Remover {
    child: Child,
    /// Closed by the end of this process.
    alive: Option<ChildStdin>,
}

impl Remover {
    /// Starts it before anything is made; what was never made cannot be removed, and that is no error. A link has
    /// `link:` before its name.
    pub(crate) fn start(names: &[&str]) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).args(names).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = lab_sys::process::spawn_detached(&mut command)
            .context("cannot start the process that removes network namespaces")?;
        let alive = child.stdin.take();
        Ok(Self { child, alive })
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        drop(self.alive.take());
        _ = self.child.wait();
    }
}
