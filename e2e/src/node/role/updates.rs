//! One server follows another under load: by a signal, by a DaemonSet's update, and by one that crashes. And a
//! configuration follows another.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lab_load::rng::Stream;
use rustix::process::Signal;
use serde_json::json;

use super::Role;
use super::manifests::{self, Manifest};
use super::processes::{self, Id, Stopped};
use crate::official::{self, LOCAL_DNS};
use crate::sim::changes::{VERSION, has_version, spread};
use crate::sim::servers::START_TIMEOUT;
use crate::sim::state::attracts;

/// From the start of a successor to its taking over: its trial of a second, and what comes before that.
const SUCCESSION: Duration = Duration::from_millis(1400);
/// How long a line may take from a server to its pod's log.
const LOGGED: Duration = Duration::from_millis(200);
/// What a server says when it has been succeeded, or stands by in case that its successor crashes.
const SUCCEEDED: [&str; 2] = ["the successor has taken over", "the successor takes queries"];
/// A signal that comes while one server still follows another is refused: it is sent again.
const AGAIN: Duration = Duration::from_secs(3);

/// The program is started anew in its pod, as after `kubectl exec POD -- kill -USR2 1`.
pub(super) fn hand_overs(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Official)?;
    let stays = processes::next(&[])?;
    let times = role.times(50, 5);
    role.lossless(false, |role| {
        // From the first one on the container's own process only stays.
        hand_over(stays)?;
        let (pod, begun) = (role.newest_pod()?, Instant::now());
        while !role.kubectl(&["logs", &pod, "--tail=200"])?.contains(SUCCEEDED[0]) {
            ensure!(begun.elapsed() < START_TIMEOUT, "the first successor does not take over");
            thread::sleep(LOGGED);
        }
        let took = (0..times).map(|_| hand_over(stays)).collect::<Result<Vec<_>>>()?;
        ensure!(attracts()?, "it takes no queries any more");
        Ok(spread(took, "hand-overs"))
    })
}

/// Sends the signal and waits until there is one other server beside the process that stays.
fn hand_over(stays: Id) -> Result<Duration> {
    let others = || -> Result<Vec<Id>> {
        Ok(processes::running()?.into_iter().filter(|id| *id != stays).collect())
    };
    // The last one has only just ended.
    thread::sleep(Duration::from_millis(50));
    let (before, begun) = (others()?, Instant::now());
    let mut signal_at = begun;
    loop {
        let now = others()?;
        // A successor that starts would take a second signal for its own.
        if signal_at <= Instant::now() && now == before {
            processes::signal(stays, Signal::USR2)?;
            signal_at = Instant::now() + AGAIN;
        }
        if now.len() == 1 && !before.contains(&now[0]) {
            return Ok(begun.elapsed());
        }
        ensure!(
            begun.elapsed() < START_TIMEOUT,
            "expected {before:?} to run still, but {now:?} run"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// The ConfigMap is changed, and kubelet delivers the change.
pub(super) fn configurations(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Official)?;
    let base = official::corefile(&manifests::official()?)?;
    let done = role.lossless(false, |role| {
        let change = |number| {
            let begun = Instant::now();
            role.configure(&format!(
                "{base}{VERSION}:53 {{\n    bind {LOCAL_DNS}\n    template IN TXT {VERSION} {{\n        \
                 answer \"{VERSION}. 0 IN TXT v{number}\"\n    }}\n}}\n"
            ))?;
            while !has_version(number) {
                ensure!(begun.elapsed() < START_TIMEOUT, "configuration {number} has no effect");
                thread::sleep(Duration::from_millis(20));
            }
            Ok(begun.elapsed())
        };
        let took = (1..=role.times(20, 3)).map(change).collect::<Result<Vec<_>>>()?;
        Ok(spread(took, "changes"))
    });
    role.configure(&base)?;
    done
}

/// The DaemonSet is updated as `maxSurge: 1` does it: the new pod runs beside the old one.
pub(super) fn rolling(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Surging)?;
    let times = role.times(10, 2);
    role.lossless(false, |role| {
        let update = |_| {
            let begun = Instant::now();
            role.update().map(|()| begun.elapsed())
        };
        Ok(spread((0..times).map(update).collect::<Result<Vec<_>>>()?, "updates"))
    })
}

/// In each update the new version is killed at some point of its start.
pub(super) fn crashes(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Own)?;
    let times = role.times(10, 2);
    role.lossless(false, |role| {
        let (mut killed, mut late) = (Vec::new(), 0);
        let mut moments = Stream::new(11, 1);
        while killed.len() < times {
            let (before, old) = (processes::running()?, role.newest_pod()?);
            role.restart()?;
            let successor = processes::next(&before)?;
            let moment = SUCCESSION.mul_f64(moments.unit());
            thread::sleep(moment);
            match role.crash(successor, &old)? {
                true => killed.push(moment),
                false => late += 1,
            }
            ensure!(
                late <= times,
                "{late} successors were already serving when they were to be killed"
            );
            role.updated(&before)?;
        }
        let text = spread(killed, "successors killed");
        Ok(format!("{text}; {late} were not killed because they were already serving"))
    })
}

impl Role<'_> {
    /// Changes the Corefile in the ConfigMap.
    fn configure(&self, corefile: &str) -> Result<()> {
        let patch = json!({"data": {"Corefile": corefile}}).to_string();
        self.kubectl(&["patch", "configmap/node-local-dns", "--type=merge", "-p", &patch])?;
        Ok(())
    }

    /// Kills the successor of what runs in the pod `old`; false if it is the server by now, and continues.
    fn crash(&self, successor: Id, old: &str) -> Result<bool> {
        let stopped = Stopped::new(successor)?;
        thread::sleep(LOGGED);
        let log = self.kubectl(&["logs", old, "--tail=20"])?;
        if SUCCEEDED.iter().any(|text| log.contains(text)) {
            return Ok(false);
        }
        processes::signal(successor, Signal::KILL)?;
        drop(stopped);
        ensure!(attracts()?, "after the end of a successor no process takes queries");
        Ok(true)
    }
}
