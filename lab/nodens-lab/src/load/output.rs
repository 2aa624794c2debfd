//! Where the result of a load goes: the result file, exports, standard output.

use super::prometheus::Endpoint;
use crate::term;
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use lab_load::Config;
use lab_result::ResultFile;
use lab_result::export::{Format, Options, export};
use lab_result::search::SearchFile;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Arguments on what becomes of the result.
#[derive(clap::Args)]
pub(super) struct OutArgs {
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
    pub(super) json: bool,
    /// Write the result also as dnsperf, shotgun, dns-metrics, csv, json or hgrm; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = format_and_file)]
    export: Vec<(Format, PathBuf)>,
    #[command(flatten)]
    options: crate::export::OptionArgs,
    /// Serve the numbers of the running load to Prometheus here, as 127.0.0.1:9053.
    #[arg(long, value_name = "ADDRESS:PORT")]
    prometheus: Option<SocketAddr>,
}

fn format_and_file(text: &str) -> Result<(Format, PathBuf)> {
    let Some((format, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
        bail!("`{text}` names no file, expected FORMAT=FILE as in csv=seconds.csv");
    };
    Ok((format.parse()?, path.into()))
}

/// Places for the result that were found writable before the load.
pub(super) struct Places {
    result: Option<PathBuf>,
    page: Option<PathBuf>,
    exports: Vec<(Format, PathBuf)>,
    options: Options,
    json: bool,
}

impl OutArgs {
    /// The endpoint for Prometheus, if one was asked for.
    pub(super) fn metrics(&self, config: &Config) -> Result<Option<Endpoint>> {
        let open = |address| Endpoint::open(address, config.server.to_string());
        self.prometheus.map(open).transpose()
    }

    /// Finds the places. A path that was asked for and cannot be written is an error now and not
    /// after the load.
    pub(super) fn places(&self, server: SocketAddr) -> Result<Places> {
        let exports = self.export.iter().map(|(_, path)| path);
        self.out.iter().chain(&self.html).chain(exports).try_for_each(|path| check(path))?;
        let result = match &self.out {
            Some(path) => Some(path.clone()),
            None if self.no_out || self.json => None,
            None => Some(default_path(Path::new(""), server, Timestamp::now())),
        };
        // A result that goes into a pipe or device has no page beside it.
        let beside = result.as_ref().filter(|path| !path.exists() || path.is_file());
        let beside = beside.filter(|_| !self.no_html && !self.json);
        let page = self.html.clone().or_else(|| beside.map(|path| path.with_extension("html")));
        if page.is_some() && page == result {
            bail!(
                "the result and its page cannot both be {}: name one with --html",
                page.unwrap_or_default().display()
            );
        }
        let (exports, options) = (self.export.clone(), self.options.options());
        Ok(Places { result, page, exports, options, json: self.json })
    }
}

/// Whether a file could be there, as far as that can be told without making it.
fn check(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("cannot write {}: {} is no directory", path.display(), folder.display());
    }
    if path.is_dir() {
        bail!("cannot write {}: it is a directory", path.display());
    }
    Ok(())
}

impl Places {
    /// Writes the result file and the exports, as many as can be written, and says where the result
    /// is and what opens it.
    pub(super) fn write(&self, result: &ResultFile) -> Result<()> {
        let mut failures = Vec::new();
        if let Some(path) = &self.result {
            match lab_result::write(path, result) {
                Ok(()) => self.announce(path),
                Err(error) => failures.push(error.to_string()),
            }
        }
        for (format, path) in &self.exports {
            let text = export(result, *format, self.options);
            failures.extend(lab_result::write_text(path, &text).err().map(|e| e.to_string()));
        }
        if let Some(path) = &self.page {
            failures.extend(self.write_page(path, result).err().map(|error| error.to_string()));
        }
        anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
        Ok(())
    }

    /// Writes the page and, as the last line, what opens it.
    fn write_page(&self, path: &Path, result: &ResultFile) -> Result<()> {
        let file = self.result.as_deref().unwrap_or(path);
        let source = lab_report::Source {
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            document: lab_report::Document::Load(Box::new(result.clone())),
        };
        crate::report::write(path, &[source], None)
    }

    /// Writes the file of a search and says where it is.
    pub(super) fn write_search(&self, search: &SearchFile) -> Result<()> {
        let Some(path) = &self.result else { return Ok(()) };
        lab_result::search::write(path, search)
            .context("the table above is all that is left of this search")?;
        let text = format!("  result     {}", term::shell_word(&path.to_string_lossy()));
        if self.json {
            term::note(&text)
        } else {
            term::out(&text)
        }
        Ok(())
    }

    fn announce(&self, path: &Path) {
        let shown = term::shell_word(&path.to_string_lossy());
        let text = format!("  result     {shown}");
        if self.json { term::note(&text) } else { term::out(&text) }
    }
}

/// `nodens-lab-192.0.2.1-53-20261121T074500Z.json`, with a number behind if there is one already.
fn default_path(folder: &Path, server: SocketAddr, now: Timestamp) -> PathBuf {
    let server: String = server
        .to_string()
        .chars()
        .filter(|c| !"[]".contains(*c))
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .collect();
    let stem = format!("nodens-lab-{server}-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let names = std::iter::once(String::new()).chain((2..).map(|n| format!("-{n}")));
    let mut paths = names.map(|number| folder.join(format!("{stem}{number}.json")));
    paths.find(|path| !path.exists()).unwrap_or_else(|| folder.join(format!("{stem}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_name_is_a_plain_file_name_and_never_taken() {
        let now: Timestamp = "2026-11-21T07:45:00Z".parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let name = |server: &str| {
            let path = default_path(folder.path(), server.parse().unwrap(), now);
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(name("192.0.2.1:53"), "nodens-lab-192.0.2.1-53-20261121T074500Z.json");
        assert_eq!(name("[2001:db8::1]:53"), "nodens-lab-2001-db8--1-53-20261121T074500Z.json");
        std::fs::write(folder.path().join(name("192.0.2.1:53")), "").unwrap();
        assert_eq!(name("192.0.2.1:53"), "nodens-lab-192.0.2.1-53-20261121T074500Z-2.json");
    }
}
