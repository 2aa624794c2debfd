//! CoreDNS's verdicts: `accepts.go`, built in a module of its own that requires CoreDNS and has the same requirements.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Verdict;
use super::rows::Row;
use crate::{peers, repo};

const PROGRAM: &str = include_str!("accepts.go");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    accepted: bool,
    reason: String,
}

/// A verdict for each row. A row that ends the program is rejected, and the next one begins another.
pub(super) fn ask(folder: &Path, source: &Path, rows: &[Row]) -> Result<Vec<Verdict>> {
    let program = build(&folder.join("module"), source)?;
    let mut verdicts: Vec<Verdict> = Vec::new();
    while let Some(left) = rows.get(verdicts.len()..).filter(|left| !left.is_empty()) {
        let lines: Vec<String> =
            left.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let asked = folder.join("rows.json");
        std::fs::write(&asked, lines.join("\n") + "\n")?;
        let output = Command::new(&program)
            .current_dir(folder)
            .stdin(File::open(&asked)?)
            .stderr(Stdio::piped())
            .output()
            .context("accepts")?;
        let said = String::from_utf8_lossy(&output.stdout);
        for line in said.lines().filter(|line| line.starts_with("{\"Accepted\"")) {
            let line: Line = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let rejected = Verdict::Rejected(line.reason);
            verdicts.push(if line.accepted { Verdict::Accepted } else { rejected });
        }
        if output.status.success() {
            break;
        }
        verdicts.push(Verdict::Rejected(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    if verdicts.len() != rows.len() {
        bail!("{} verdicts about {} rows", verdicts.len(), rows.len());
    }
    Ok(verdicts)
}

fn build(module: &Path, source: &Path) -> Result<std::path::PathBuf> {
    std::fs::create_dir_all(module)?;
    let requirements = std::fs::read_to_string(source.join("go.mod"))?;
    let (_, requirements) = requirements.split_once('\n').context("go.mod")?;
    let (name, version) = (peers::COREDNS_MODULE, peers::COREDNS_VERSION);
    let text = format!("module accepts\n{requirements}\nrequire {name} v{version}\n");
    std::fs::write(module.join("go.mod"), text)?;
    std::fs::write(module.join("go.sum"), std::fs::read(source.join("go.sum"))?)?;
    std::fs::write(module.join("accepts.go"), PROGRAM)?;
    eprintln!("building what asks CoreDNS {version} (minutes, if CoreDNS was not built here) …");
    let mut build = Command::new("go");
    build.args(["build", "-mod=mod", "-o", "accepts", "."]).env("CGO_ENABLED", "0");
    repo::run(build.current_dir(module))?;
    Ok(module.join("accepts"))
}
