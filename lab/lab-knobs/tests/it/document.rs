//! `docs/knobs.md` is made from the table of settings.

use lab_knobs::{Knob, Space, knobs};
use std::fmt::Write;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/knobs.md");

const HEAD: &str = "\
# Settings that `nodens-lab` can try

<!-- Made by lab/lab-knobs/tests/it/document.rs: `UPDATE_GOLDEN=1 cargo test -p lab-knobs --test it document`. -->

What the crate `lab-knobs` knows of each setting: its default in Linux, the value that is tried against the present one, when that
takes effect, and what has been claimed of it. The claims are those of the page \"Tuning DNS for TCP queries\" and of what it quotes, in
other words; they are not verdicts of this project. `by` is one of these:

| by | what it is | source |
|---|---|---|
| Zhu and Heidemann | what the authors of LDplayer set for DNS over TLS | [IMC 2018](https://doi.org/10.1145/3278532.3278544), quoted by the page |
| ESnet | advice for hosts at 10 Gbit/s with up to 100 ms to their peers | <https://fasterdata.es.net/host-tuning/linux/>, quoted by the page |
| an authoritative operator | a configuration without measurements | the page |
| Stingley 2023 | at least twenty trials of five minutes for each setting, at about 10 % and 100 % of the server's limit; Dunn's and Tukey's tests; baseline of CentOS 7; not reviewed | the page, [DNScalc](https://github.com/BlankCanvasStudio/DNScalc) |

Some claims contradict each other, and two name what Linux does anyway: `tcp_sack` is 1 and `tcp_timestamps` is 1 by default.

## How settings are changed

- A second process, the *keeper*, makes every change. Before, it saves the present value in a journal, which is on the disk when
  anything changes. It is in a session of its own, and ignores SIGINT, SIGTERM, SIGHUP and SIGQUIT.
- Each value is **read back**. If the kernel refuses it, or keeps another one, the trial ends with an error that names both.
- When a trial ends, or its process is killed (SIGKILL, too), the keeper gives every setting its saved value, reads it back, ends
  what still runs in the trial's network namespaces, removes them, and then the journal.
- If the keeper was killed as well, the next trial finds the journal, in `/var/lib/nodens-lab/journals`, and restores first. A journal
  from before the machine was started is removed: no setting survives that. What cannot be restored is an error, and nothing begins.
- Settings of the machine are those of the network namespace that the trial was started in (`ip netns exec`, containers). A journal of
  another one is not restored here: that is an error that names the namespace by its number.
- One trial at a time changes settings of the machine (`--host`): its keeper has a lock of the folder until all is restored. A second
  one waits for 5 s and is refused. Trials in network namespaces do not wait for each other.
- Settings that this kernel or a network namespace lacks are reported before anything starts, with the reason.
- With `--host`, sysctls that change others with them are refused, as only the named one would be restored: `net.ipv4.ip_forward`,
  `net.ipv4.conf` and `net.ipv6.conf` of `all` and `default`, `disable_ipv6`, `forwarding` and `mtu` of an interface in `net.ipv6.conf`,
  and `vm.dirty_bytes`, `vm.dirty_ratio`, `vm.overcommit_kbytes` and their counterparts. No setting of the list below is one of them. In
  namespaces those of `net` can be tried.
- A queueing discipline that somebody has configured is not touched, since it could not be restored exactly. Nor is one of the machine that the
  kernel chose when `net.core.default_qdisc` was another one.
- A process manager that kills a whole control group with SIGKILL (systemd after `TimeoutStopSec`) kills the keeper, too.

## Names

`NAME` compares the present value with the one in the table, `NAME=LOW,HIGH` two of your own; `present` stands for what the machine has.
`sysctl:net.x.y=LOW,HIGH` is any sysctl, `server:NAME=LOW,HIGH` replaces `{NAME}` in a template of the server's configuration, and
`client:` before a setting of a network namespace changes it on the load generator's side.
";

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn table(text: &mut String, title: &str, lead: &str, space: Space) {
    let rows: Vec<&Knob> = knobs().iter().filter(|knob| knob.space == space).collect();
    writeln!(text, "\n## {title}\n\n{lead}\n").unwrap();
    writeln!(text, "| name | what it is | where | default | tried | takes effect | needs |")
        .unwrap();
    writeln!(text, "|---|---|---|---|---|---|---|").unwrap();
    for knob in &rows {
        let side = match knob.side {
            lab_knobs::Side::Client => " (client's side)",
            lab_knobs::Side::Server => "",
        };
        let (about, place, takes) = (knob.about, knob.place(), knob.takes_effect.words());
        writeln!(
            text,
            "| `{}` | {about}{side} | {place} | {} | {} | {takes} | {} |",
            knob.name,
            knob.default,
            code(&knob.levels.1),
            knob.needs
        )
        .unwrap();
    }
}

fn claims(text: &mut String) {
    writeln!(text, "\n## What is claimed\n").unwrap();
    writeln!(text, "| name | value | is expected to be | by | in other words |").unwrap();
    writeln!(text, "|---|---|---|---|---|").unwrap();
    for knob in knobs() {
        for claim in knob.claims {
            let (value, by, says) = (claim.value, claim.by, claim.says);
            let expects = claim.expects.words();
            writeln!(text, "| `{}` | {value} | {expects} | {by} | {says} |", knob.name).unwrap();
        }
    }
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    let lead =
        "Each network namespace has its own, so they are tried without any effect on the machine.";
    table(&mut text, "In a network namespace", lead, Space::Namespace);
    let lead = "They are set on the sockets that the server listens on, after each start, from outside \
        (`pidfd_getfd`): no server needs to\nknow them. Connections inherit them. They end with the server.";
    table(&mut text, "Of the server's sockets", lead, Space::Server);
    let lead = "The machine has one of each. They are changed with `--host` only.";
    table(&mut text, "Of the whole machine", lead, Space::Host);
    claims(&mut text);
    text
}

#[test]
fn the_page_is_what_the_table_says() {
    let text = document();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(kept == text, "docs/knobs.md is not what the table says; UPDATE_GOLDEN=1 rewrites it");
}
