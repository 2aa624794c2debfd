//! Runs that are killed at some moment, after which everything has to be as it was.

use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{DEPLOYMENT, Swap};
use crate::node::images::NODENS;
use crate::node::tools::output as run_to_end;

/// A Lease that is not renewed counts for 30 s.
const LEASE: Duration = Duration::from_secs(32);

/// Kills runs; of every fifth the process that restores is killed, too, and the next start restores.
pub(super) fn run(swap: &Swap<'_>) -> Result<String> {
    let before = swap.state()?;
    let (mut changed, mut longest) = (0, Duration::ZERO);
    for at in 0..swap.args.kills {
        let both = at % 5 == 4;
        let moment = lab_random::at(7, at as u64) % (swap.args.kill_within * 1000);
        let (was_changed, took) = killed(swap, &before, Duration::from_millis(moment), both)
            .with_context(|| format!("kill {at} after {moment} ms"))?;
        let guard = if both { ", and what restores" } else { "" };
        println!(
            "kill {at} after {moment} ms{guard}: {}restored in {:.1} s",
            if was_changed { "changed, " } else { "" },
            took.as_secs_f64()
        );
        changed += usize::from(was_changed);
        longest = longest.max(took);
    }
    let all = swap.args.kills;
    ensure!(changed > 0, "none of {all} runs was killed after it had changed something");
    Ok(format!(
        "{all} of {all} restored, {changed} of them were changed, longest {:.0} s",
        longest.as_secs_f64()
    ))
}

/// Kills one run; whether something was changed then, and how long restoring took.
fn killed(
    swap: &Swap<'_>,
    before: &[Value],
    moment: Duration,
    both: bool,
) -> Result<(bool, Duration)> {
    let out = swap.out.join("killed").display().to_string();
    let mut command = swap.exchange(DEPLOYMENT, NODENS);
    command.args(["--rounds", "6", "-l", "2s", "--settle", "500ms"]);
    command.args(["--noise-rounds", "1", "--no-html", "--out", &out]);
    let log = std::fs::File::create(swap.out.join("killed.log"))?;
    let mut child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
    thread::sleep(moment);
    if let Some(status) = child.try_wait()? {
        let log = std::fs::read_to_string(swap.out.join("killed.log"))?;
        bail!("the run ended before it was killed: {status}: {log}");
    }
    let was_changed = swap.state()? != *before;
    if both {
        for guard in children(&child)? {
            kill(&guard)?;
        }
    }
    child.kill()?;
    child.wait()?;
    let begun = Instant::now();
    if both && !swap.leftovers()?.is_empty() {
        // Not before the Lease has run out: the run might live on another machine.
        thread::sleep(LEASE);
        run_to_end(&mut swap.command(&["--restore"]))?;
    }
    swap.is_as_before(before)?;
    Ok((was_changed, begun.elapsed()))
}

fn children(child: &Child) -> Result<Vec<String>> {
    let id = child.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let text = std::fs::read_to_string(Path::new(&path)).with_context(|| path.clone())?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn kill(id: &str) -> Result<()> {
    let id: i32 = id.parse()?;
    let Some(id) = rustix::process::Pid::from_raw(id) else { bail!("no process {id}") };
    Ok(rustix::process::kill_process(id, rustix::process::Signal::KILL)?)
}
