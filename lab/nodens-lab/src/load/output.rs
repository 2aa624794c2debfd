//! Where the result of a load goes: the result file, exports, standard output.

use super::prometheus::Endpoint;
use crate::export::Kept;
use crate::term;
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use lab_result::export::{Format, Options};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Arguments on what becomes of the result.
#[derive(clap::Args)]
pub(crate) struct OutArgs {
    /// Result file [default: nodens-lab-SERVER-TIME.json in this directory].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write no result file.
    #[arg(long, conflicts_with = "out")]
    no_out: bool,
    /// Page of the result [default: the result file's name with .html].
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Make no page.
    #[arg(long, conflicts_with = "html")]
    no_html: bool,
    /// Write the result file to standard output, and no summary.
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing while it runs.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Write the result also as dnsperf, shotgun, dns-metrics, csv, json or hgrm (a search as csv or
    /// json); may be repeated.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = crate::export::format_and_file)]
    export: Vec<(Format, PathBuf)>,
    #[command(flatten)]
    options: crate::export::OptionArgs,
    /// Serve the numbers of the running load to Prometheus here, as 127.0.0.1:9053.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::server::listen)]
    prometheus: Option<SocketAddr>,
}

/// Places for the result that were found writable before the load.
pub(crate) struct Places {
    result: Option<Place>,
    page: Option<Page>,
    exports: Vec<(Format, PathBuf)>,
    options: Options,
    json: bool,
}

/// Where the result file goes.
enum Place {
    Named(PathBuf),
    /// In this directory, under this name or with a number after it, whichever is free when it is
    /// written.
    Free(String),
}

impl Place {
    fn take(&self) -> Result<PathBuf> {
        match self {
            Self::Named(path) => Ok(path.clone()),
            Self::Free(stem) => crate::fresh::file(Path::new(""), stem)
                .with_context(|| format!("cannot write {stem}.json in this directory")),
        }
    }
}

/// Where the page goes.
enum Page {
    Named(PathBuf),
    /// Beside the result.
    Beside,
}

impl OutArgs {
    /// The endpoint for Prometheus, if one was asked for.
    pub(crate) fn metrics(&self, server: SocketAddr) -> Result<Option<Endpoint>> {
        let open = |address| Endpoint::open(address, server.to_string());
        self.prometheus.map(open).transpose()
    }

    /// The formats of the exports.
    pub(crate) fn formats(&self) -> impl Iterator<Item = Format> + '_ {
        self.export.iter().map(|(format, _)| *format)
    }

    /// Finds the places. A path that was asked for and cannot be written is an error now and not
    /// after the load.
    pub(crate) fn places(&self, server: SocketAddr, report: Option<&Path>) -> Result<Places> {
        let exports = self.export.iter().map(|(_, path)| path);
        self.out.iter().chain(&self.html).chain(exports).try_for_each(|path| check(path))?;
        let result = match &self.out {
            Some(path) => Some(Place::Named(path.clone())),
            None if self.no_out || self.json => None,
            None => {
                let stem = default_stem(server, Timestamp::now());
                probe(Path::new("."), Path::new(&stem).with_extension("json").as_path())?;
                Some(Place::Free(stem))
            }
        };
        // A result that goes into a pipe or device has no page beside it.
        let beside =
            result.is_some() && self.out.iter().all(|path| !path.exists() || path.is_file());
        let page = match &self.html {
            Some(path) => Some(Page::Named(path.clone())),
            None => (beside && !self.no_html && !self.json).then_some(Page::Beside),
        };
        let beside = self.out.as_ref().filter(|_| matches!(page, Some(Page::Beside)));
        let beside = beside.map(|path| path.with_extension("html"));
        let places =
            self.out.as_deref().into_iter().chain(self.html.as_deref()).chain(beside.as_deref());
        let places = places.chain(self.export.iter().map(|(_, path)| path.as_path())).chain(report);
        distinct(places)?;
        let (exports, options) = (self.export.clone(), self.options.options());
        Ok(Places { result, page, exports, options, json: self.json })
    }
}

/// Refuses a file that is named for two things: the second would replace the first. A device or pipe
/// takes both.
fn distinct<'a>(places: impl Iterator<Item = &'a Path>) -> Result<()> {
    let mut seen = HashSet::new();
    for path in places.filter(|path| path.is_file() || !path.exists()) {
        if !seen.insert(path) {
            bail!(
                "{} is named twice among the result, its page (--html), its exports and the report",
                path.display()
            );
        }
    }
    Ok(())
}

/// Whether files can be made in `folder`, where `path` is to be.
fn probe(folder: &Path, path: &Path) -> Result<()> {
    let probe = folder.join(format!(".nodens-lab-{}.part", std::process::id()));
    let made = std::fs::write(&probe, "").and_then(|()| std::fs::remove_file(&probe));
    made.with_context(|| {
        format!("cannot write {}: no file can be made in {}", path.display(), folder.display())
    })
}

/// Whether a file could be there, as far as can be checked without creating it.
pub(crate) fn check(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("cannot write {}: {} is not a directory", path.display(), folder.display());
    }
    if path.is_dir() {
        bail!("cannot write {}: it is a directory", path.display());
    }
    // Into a pipe or device, nothing is made beside it.
    if path.exists() && !path.is_file() {
        return Ok(());
    }
    probe(folder.unwrap_or(Path::new(".")), path)
}

impl Places {
    /// Writes the result file and the exports, as many as can be written, and says where the result
    /// is and what opens it.
    pub(crate) fn write(&self, result: Kept<'_>) -> Result<()> {
        let mut failures = Vec::new();
        let taken = self.result.as_ref().map(Place::take).transpose();
        let path = taken.unwrap_or_else(|error| {
            failures.push(format!("{error:#}"));
            None
        });
        if let Some(path) = &path {
            match result.write(path) {
                Ok(()) => self.announce(path),
                Err(error) => failures.push(error.to_string()),
            }
        }
        for (format, path) in &self.exports {
            let written = result
                .export(*format, self.options)
                .and_then(|text| Ok(lab_result::write_text(path, &text)?));
            failures.extend(written.err().map(|error| error.to_string()));
        }
        let page = match (&self.page, &path) {
            (Some(Page::Named(page)), _) => Some(page.clone()),
            (Some(Page::Beside), Some(path)) => Some(path.with_extension("html")),
            _ => None,
        };
        if let Some(page) = page {
            let file = path.as_deref().unwrap_or(&page);
            failures.extend(result.write_page(&page, file).err().map(|error| error.to_string()));
        }
        anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
        Ok(())
    }

    fn announce(&self, path: &Path) {
        let shown = term::shell_word(&path.to_string_lossy());
        let text = format!("  result     {shown}");
        if self.json { term::note(&text) } else { term::out(&text) }
    }
}

/// `nodens-lab-192.0.2.1-53-20261121T074500Z`.
fn default_stem(server: SocketAddr, now: Timestamp) -> String {
    let server: String = server
        .to_string()
        .chars()
        .filter(|c| !"[]".contains(*c))
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .collect();
    format!("nodens-lab-{server}-{}", now.strftime("%Y%m%dT%H%M%SZ"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_name_is_a_plain_file_name() {
        let now: Timestamp = "2026-11-21T07:45:00Z".parse().unwrap();
        let name = |server: &str| default_stem(server.parse().unwrap(), now);
        assert_eq!(name("192.0.2.1:53"), "nodens-lab-192.0.2.1-53-20261121T074500Z");
        assert_eq!(name("[2001:db8::1]:53"), "nodens-lab-2001-db8--1-53-20261121T074500Z");
    }
}
