//! Cases: a Corefile with what to ask it. Ours lie in `xtask/conformance/DIRECTIVE/NAME.corefile`; CoreDNS's are the
//! examples of its plugins' READMEs, read from the Go module at run time.
//!
//! Our Corefiles steer their questions with comments of the form `#! KEY: VALUE` (see [`Settings`]).

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::adapt;
use super::corefile::Corefile;
use super::transports::{Transport, schemes};
use crate::peers;
use crate::repo;
use nodens_judge::signature::Signing;

/// Directives whose READMEs are used, and which a README's Corefile may consist of.
pub(crate) const DIRECTIVES: &[&str] = &[
    "acl",
    "any",
    "auto",
    "autopath",
    "bind",
    "bufsize",
    "cache",
    "cancel",
    "chaos",
    "debug",
    "dns64",
    "dnssec",
    "dynupdate",
    "erratic",
    "errors",
    "file",
    "forward",
    "grpc",
    "header",
    "health",
    "hosts",
    "import",
    "loadbalance",
    "local",
    "log",
    "loop",
    "metadata",
    "minimal",
    "multisocket",
    "nsid",
    "prometheus",
    "ready",
    "reload",
    "rewrite",
    "root",
    "secondary",
    "template",
    "timeouts",
    "transfer",
    "tsig",
    "view",
    "whoami",
];

/// What a case's comments say about its questions. Lists are separated by blanks.
#[derive(Debug, Default, Clone)]
pub(crate) struct Settings {
    /// `names`: what to ask for, instead of names taken from the Corefile.
    pub(crate) names: Vec<String>,
    /// `types`: types to ask each name for, instead of A and AAAA.
    pub(crate) types: Vec<String>,
    /// `clients`: addresses to ask from.
    pub(crate) clients: Vec<IpAddr>,
    /// `count`: how many questions over each transport.
    pub(crate) count: Option<usize>,
    /// `silence`: milliseconds without an answer from either that count as none.
    pub(crate) silence: Option<Duration>,
    /// `ask`: a question of its own, `NAME TYPE` and then options as `dig` has them.
    pub(crate) asks: Vec<String>,
    /// `key`: a key to sign two questions of three with, as `dig -y` has it; of several, any.
    pub(crate) keys: Vec<Signing>,
    /// `serials`: what IXFR says that the client has.
    pub(crate) serials: Vec<u32>,
    /// `primary`: zones, each with its file, that the server has from which `secondary` transfers.
    pub(crate) primary: Vec<(String, String)>,
    /// `until`: names whose SOA records both servers have to have before they are asked anything else.
    pub(crate) until: Vec<String>,
    /// `plain`: without the random variations of flags, EDNS and defects.
    pub(crate) plain: bool,
    /// `bad`: send what is wrong around a message too, over each transport.
    pub(crate) bad: bool,
    /// `log`: compare what the servers wrote to their logs too.
    pub(crate) log: bool,
    /// `gap`: milliseconds between two questions, for servers that refresh something after an answer.
    pub(crate) gap: Option<Duration>,
    /// `pause`: milliseconds to wait before all questions are asked once more.
    pub(crate) pause: Option<Duration>,
    /// `settle`: milliseconds from the start of the servers before metrics are compared, for what they do by
    /// themselves once a second or again after a while.
    pub(crate) settle: Option<Duration>,
}

/// One Corefile.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) directive: String,
    pub(crate) name: String,
    pub(crate) text: String,
    /// A folder whose files the Corefile refers to.
    pub(crate) files: Option<PathBuf>,
    pub(crate) settings: Settings,
    /// What its questions go over.
    pub(crate) transports: Vec<Transport>,
}

/// Questions over each encrypted transport, beside those that a case asks itself: the content of answers is compared
/// over UDP and TCP.
const ENCRYPTED_COUNT: usize = 10;
/// The case that is asked over every encrypted transport that the server under test knows.
const EVERY_TRANSPORT: &str = "server/transports";
/// Stands behind the name of a case that is asked over encrypted transports.
const ENCRYPTED: &str = " encrypted";

impl Case {
    /// The name of the case that this one is made of.
    pub(crate) fn origin(&self) -> &str {
        self.name.strip_suffix(ENCRYPTED).unwrap_or(&self.name)
    }

    /// The case with the same server blocks at all of `transports`, and fewer questions. `None` for a Corefile that has
    /// listeners of its own, is not accepted, or waits for something that depends on no transport; and for those of
    /// CoreDNS's READMEs, which ours go beyond.
    pub(crate) fn encrypted(&self, transports: &[Transport], tls: &str) -> Option<Case> {
        let refused = self.name.contains("/reject-") || self.name.starts_with("readme/");
        let settings = Settings {
            count: Some(self.settings.count.unwrap_or(ENCRYPTED_COUNT).min(ENCRYPTED_COUNT)),
            ..self.settings.clone()
        };
        // What `erratic` does to a query depends on how many came before, and listeners may count together or apart.
        let refused = refused || self.directive == "erratic";
        // Corefiles of whole servers are compared with all their metrics, over UDP and TCP.
        let refused = refused || (self.directive == "server" && self.name != EVERY_TRANSPORT);
        let asks = settings.count != Some(0) || !settings.asks.is_empty();
        if refused || !asks || settings.pause.is_some() || transports.is_empty() {
            return None;
        }
        Some(Case {
            name: format!("{}{ENCRYPTED}", self.name),
            text: adapt::encrypt(&self.text, &schemes(transports), tls)?,
            settings,
            transports: transports.to_vec(),
            ..self.clone()
        })
    }
}

/// Our own cases.
pub(crate) fn own() -> Result<Vec<Case>> {
    let root = repo::root().join("xtask/conformance");
    let mut cases = Vec::new();
    for directive in entries(&root)? {
        for file in entries(&directive)? {
            if file.extension().is_some_and(|extension| extension == "corefile") {
                cases.push(from_file(&file)?);
            }
        }
    }
    Ok(cases)
}

/// The case in one file; its folder is its directive, and `files` beside it holds what it refers to.
pub(crate) fn from_file(path: &Path) -> Result<Case> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let files = folder.join("files");
    let name = |path: &Path| {
        path.file_stem().map_or(String::new(), |name| name.to_string_lossy().into_owned())
    };
    Ok(Case {
        directive: name(folder),
        name: format!("{}/{}", name(folder), name(path)),
        settings: settings(&text).with_context(|| path.display().to_string())?,
        text,
        files: files.is_dir().then_some(files),
        transports: Transport::PLAIN.to_vec(),
    })
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = listing.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir() || path.is_file());
    paths.sort();
    if folder.file_name().is_some_and(|name| name != "conformance") {
        paths.retain(|path| path.is_file());
    } else {
        paths.retain(|path| path.is_dir());
    }
    Ok(paths)
}

fn settings(text: &str) -> Result<Settings> {
    let mut settings = Settings::default();
    let words = |value: &str| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("#!")) {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        let millis = || value.parse().map(Duration::from_millis);
        let at = || format!("in '#!{line}'");
        match key.trim() {
            "names" => settings.names.extend(words(value)),
            "types" => settings.types.extend(words(value)),
            "clients" => {
                for word in words(value) {
                    settings.clients.push(word.parse().with_context(at)?);
                }
            }
            "count" => settings.count = Some(value.parse().with_context(at)?),
            "silence" => settings.silence = Some(millis().with_context(at)?),
            "pause" => settings.pause = Some(millis().with_context(at)?),
            "gap" => settings.gap = Some(millis().with_context(at)?),
            "settle" => settings.settle = Some(millis().with_context(at)?),
            "ask" => settings.asks.push(value.to_owned()),
            "key" => settings.keys.push(value.parse().with_context(at)?),
            "serials" => {
                for word in words(value) {
                    settings.serials.push(word.parse().with_context(at)?);
                }
            }
            "primary" => {
                let (zone, file) = value.split_once(' ').with_context(at)?;
                settings.primary.push((zone.to_owned(), file.trim().to_owned()));
            }
            "until" => settings.until.extend(words(value)),
            "plain" => settings.plain = true,
            "bad" => settings.bad = true,
            "log" => settings.log = true,
            key => bail!("unknown setting '{key}'"),
        }
    }
    Ok(settings)
}

/// The Corefiles of CoreDNS's plugin READMEs that use only [`DIRECTIVES`].
pub(crate) fn readmes() -> Result<Vec<Case>> {
    let module = peers::coredns_source()?;
    let mut cases = Vec::new();
    let listing = std::fs::read_dir(module.join("plugin"))?;
    let mut plugins = listing.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    plugins.sort();
    for plugin in plugins {
        let Ok(readme) = std::fs::read_to_string(plugin.join("README.md")) else { continue };
        let directory = plugin.file_name().unwrap_or_default().to_string_lossy();
        let directive = if directory == "metrics" { "prometheus" } else { &directory };
        for (line, text) in corefile_blocks(&readme) {
            if DIRECTIVES.contains(&directive) && uses_only_ours(&text) {
                cases.push(Case {
                    directive: directive.to_owned(),
                    name: format!("readme/{directory}:{line}"),
                    text,
                    files: None,
                    transports: Transport::PLAIN.to_vec(),
                    settings: Settings {
                        count: Some(25),
                        // Counters are compared: only what both servers count alike is asked.
                        plain: directive == "prometheus",
                        ..Settings::default()
                    },
                });
            }
        }
    }
    Ok(cases)
}

fn uses_only_ours(text: &str) -> bool {
    let corefile = Corefile::parse(text);
    !corefile.blocks.is_empty()
        && corefile.directives().all(|d| DIRECTIVES.contains(&d.name.text.as_str()))
}

/// The code blocks of the kind `corefile` with the line each begins at.
fn corefile_blocks(readme: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in readme.lines().enumerate() {
        let fence = line.strip_prefix("~~~").or_else(|| line.strip_prefix("```"));
        match (&mut open, fence) {
            (None, Some(kind)) if kind.trim() == "corefile" => {
                open = Some((index + 1, String::new()));
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::generate::DEFAULT_COUNT;

    #[test]
    fn blocks_of_a_readme() {
        let readme =
            "x\n~~~ corefile\n. {\n    any\n}\n~~~\n\n~~~\nno\n~~~\n``` corefile\nb\n```\n";
        let blocks = corefile_blocks(readme);
        assert_eq!(blocks, [(2, ". {\n    any\n}\n".into()), (11, "b\n".into())]);
        assert!(uses_only_ours(&blocks[0].1));
        assert!(!uses_only_ours(". {\n any\n tls a b\n}\n"));
        assert!(!uses_only_ours("(snippet) {\n ...\n}\n"));
    }

    #[test]
    fn settings_are_comments() {
        let text = "#! names: a b\n#! clients: 127.0.0.9\n#! count: 7\n#! plain\n. {\n}\n";
        let settings = settings(text).unwrap();
        assert_eq!((settings.names.len(), settings.count, settings.plain), (2, Some(7), true));
        assert!(super::settings("#! nmaes: a\n").is_err());
        assert!(super::settings("#! count: many\n").is_err());
    }

    #[test]
    fn files_send_nothing_away() {
        // Upstreams are replaced in the Corefile only, not in what it imports.
        for files in own().unwrap().into_iter().filter_map(|case| case.files) {
            for entry in std::fs::read_dir(files).unwrap() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("forward"), "{}", path.display());
            }
        }
    }

    #[test]
    fn every_directive_has_its_questions() {
        let cases = own().unwrap();
        for case in &cases {
            let known = DIRECTIVES.contains(&case.directive.as_str()) || case.directive == "server";
            assert!(known, "{}", case.name);
        }
        for directive in DIRECTIVES {
            let of_it = cases.iter().filter(|case| case.directive == *directive);
            let questions: usize =
                of_it.map(|case| case.settings.count.unwrap_or(DEFAULT_COUNT)).sum();
            assert!(questions >= 200, "{directive}: {questions} questions over each transport");
        }
    }
}
