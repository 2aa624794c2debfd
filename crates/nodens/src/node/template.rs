//! The Corefile of the node role: made from its template, and written where node-cache writes it.

use super::errors::SetupErrors;
use crate::flags::{Flags, NodeFlags};
use crate::load::{self, LoadError, Source};
use nodens_core::log::{Level, Sink};
use nodens_node::face::{KubeDns, Rendered, Values, render};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What came of another look at the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// The Corefile is as it was.
    Same,
    /// There is another Corefile.
    Changed,
    /// There is none yet: it wants the address of the upstream service.
    Waiting,
    /// There is no template: the Corefile is what its file says.
    NoTemplate,
}

/// The template and what it became.
pub(crate) struct Template {
    base: PathBuf,
    /// Whether it has to be there: it was asked for, or was there before.
    expected: bool,
    kube_dns: Option<PathBuf>,
    /// `-conf`; empty for none.
    conf: String,
    values: Values,
    /// The Corefile, and whether its file holds it.
    rendered: Option<(Rendered, bool)>,
    /// The last complaint, which is not said again.
    complaint: String,
    sink: Sink,
    errors: Arc<SetupErrors>,
}

impl Template {
    /// Nothing is read yet.
    pub(crate) fn new(
        flags: &Flags,
        node: &NodeFlags,
        sink: Sink,
        errors: Arc<SetupErrors>,
    ) -> Self {
        Self {
            base: node.base.clone(),
            expected: node.base_given,
            kube_dns: node.kube_dns_folder(),
            conf: flags.conf.clone(),
            values: values(flags, node),
            rendered: None,
            complaint: String::new(),
            sink,
            errors,
        }
    }

    /// The files whose folders have to be watched.
    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        let kube_dns = self.kube_dns.iter().map(|folder| folder.join("stubDomains"));
        std::iter::once(self.base.clone()).chain(kube_dns).filter(|file| has_folder(file)).collect()
    }

    /// Reads everything again, with `upstreams` as the addresses of the upstream service.
    pub(crate) fn refresh(&mut self, upstreams: &[String]) -> Refreshed {
        self.values.cluster_dns = upstreams.join(" ");
        let base = match std::fs::read_to_string(&self.base) {
            Ok(base) => base,
            // As most start: with a Corefile, and without flags for a template.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.expected => {
                return Refreshed::NoTemplate;
            }
            Err(error) => {
                let why = nodens_net::errno_text(&error);
                let path = self.base.display();
                self.complain(format!(
                    "Failed to read node-cache coreFile {path} - open {path}: {why}"
                ));
                let gone = self.rendered.is_none();
                return if gone { Refreshed::NoTemplate } else { Refreshed::Same };
            }
        };
        self.expected = true;
        self.read_kube_dns();
        let Ok(rendered) = render(&base, &self.values) else { return Refreshed::Waiting };
        if self.rendered.as_ref().is_some_and(|(before, _)| before.text == rendered.text) {
            return Refreshed::Same;
        }
        self.write(rendered);
        Refreshed::Changed
    }

    /// A ConfigMap that does not fit changes nothing.
    fn read_kube_dns(&mut self) {
        let Some(folder) = self.kube_dns.clone() else {
            self.complaint.clear();
            return;
        };
        match KubeDns::read(&folder) {
            Ok(config) => {
                self.values.kube_dns = config;
                self.complaint.clear();
            }
            Err(error) => {
                let path = folder.display();
                self.complain(format!(
                    "ConfigMap kube-dns in {path}, ignoring this update: {error}"
                ));
            }
        }
    }

    fn write(&mut self, rendered: Rendered) {
        if rendered.transport_kept {
            let text =
                "Did not find TCP upstream block to replace, assuming upstreams already use UDP.";
            self.sink.line(Level::Warning, "", text);
        }
        let written = match self.conf.as_str() {
            "" => false,
            conf => match std::fs::write(conf, &rendered.text) {
                Ok(()) => true,
                Err(error) => {
                    let why = nodens_net::errno_text(&error);
                    let text = format!(
                        "Failed to write config file {conf} - err open {conf}: {why}; serving it all the same"
                    );
                    self.complain(text);
                    false
                }
            },
        };
        let (stubs, servers) =
            (self.values.kube_dns.stub_domains.len(), &rendered.upstream_servers);
        let text = format!(
            "Updated Corefile with {stubs} custom stubdomains and upstream servers {servers}"
        );
        self.sink.line(Level::Info, "", text);
        self.sink.line(Level::Info, "", format!("Using config file:\n{}", rendered.text));
        self.rendered = Some((rendered, written));
    }

    fn complain(&mut self, text: String) {
        if self.complaint != text {
            self.errors.count_configmap();
            self.sink.line(Level::Error, "", &*text);
            self.complaint = text;
        }
    }

    /// The Corefile: its file, or what would be in it.
    pub(crate) fn source(&self, flags: &Flags) -> Result<Source, LoadError> {
        let Some((rendered, written)) = &self.rendered else { return load::read(flags) };
        let Rendered { text, known_as, .. } = rendered;
        let source = match written {
            true => load::read(flags)?,
            false => Source {
                name: self.base.display().to_string(),
                text: text.clone(),
                path: Some(self.base.clone()),
                known_as: None,
            },
        };
        // Somebody else may have written the file since.
        let known_as = Some(known_as.clone()).filter(|_| source.text == *text);
        Ok(Source { known_as, ..source })
    }
}

/// What does not change while the process lives, and nothing else yet.
pub(crate) fn values(flags: &Flags, node: &NodeFlags) -> Values {
    Values {
        cluster_dns: String::new(),
        local: node.local.clone(),
        port: flags.port,
        prometheus: node.prometheus.clone(),
        kube_dns: KubeDns::default(),
    }
}

fn has_folder(file: &Path) -> bool {
    file.parent().is_some_and(Path::is_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::log::Record;
    use std::sync::mpsc::{Receiver, sync_channel};

    struct Bench {
        folder: tempfile::TempDir,
        template: Template,
        flags: Flags,
        lines: Receiver<Record>,
    }

    fn bench() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("kube-dns")).unwrap();
        let node = NodeFlags {
            local: "127.0.0.1".to_owned(),
            base: at("Corefile.base"),
            base_given: true,
            kube_dns: at("kube-dns").display().to_string(),
            ..NodeFlags::default()
        };
        let conf = at("Corefile").display().to_string();
        let flags = Flags { conf, node: Some(node.clone()), ..Flags::default() };
        let (sender, lines) = sync_channel(100);
        let template = Template::new(&flags, &node, Sink::new(sender), Arc::default());
        Bench { folder, template, flags, lines }
    }

    impl Bench {
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn read(&self, name: &str) -> String {
            std::fs::read_to_string(self.folder.path().join(name)).unwrap()
        }

        fn said(&self) -> String {
            let text = |record| match record {
                Record::Line { text, .. } => text,
                other => panic!("{other:?}"),
            };
            self.lines.try_iter().map(text).collect::<Vec<_>>().join("\n")
        }
    }

    #[test]
    fn the_corefile_follows_template_and_configmap() {
        let mut bench = bench();
        assert_eq!(bench.template.refresh(&[]), Refreshed::NoTemplate);
        assert!(bench.said().starts_with("Failed to read node-cache coreFile "));
        bench.write("Corefile.base", ".:53 {\n    forward . __PILLAR__CLUSTER__DNS__\n}\n");
        assert_eq!(bench.template.refresh(&[]), Refreshed::Waiting);
        let upstreams = ["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
        assert_eq!(bench.template.refresh(&upstreams), Refreshed::Changed);
        assert_eq!(bench.template.refresh(&upstreams), Refreshed::Same);
        let source = bench.template.source(&bench.flags).unwrap();
        assert_eq!(source.text, ".:53 {\n    forward . 10.0.0.1 10.0.0.2\n}\n");
        assert_eq!(source.name, bench.flags.conf);
        bench.said();
        // Servers elsewhere make no other blocks of it, but another text does.
        let known_as = |bench: &Bench| bench.template.source(&bench.flags).unwrap().known_as;
        let before = known_as(&bench).unwrap();
        assert_eq!(before, bench.read("Corefile.base"));
        assert_eq!(bench.template.refresh(&upstreams[1..]), Refreshed::Changed);
        assert_eq!(known_as(&bench), Some(before));
        bench.write("Corefile", ".:53 {\n    forward . 192.0.2.9\n}\n");
        assert_eq!(known_as(&bench), None);
        assert_eq!(bench.template.refresh(&upstreams), Refreshed::Changed);
        bench.said();
        bench.write("kube-dns/stubDomains", r#"{"a.test": ["192.0.2.1"]}"#);
        assert_eq!(bench.template.refresh(&upstreams), Refreshed::Changed);
        let line =
            "Updated Corefile with 1 custom stubdomains and upstream servers /etc/resolv.conf";
        assert!(bench.said().contains(line));
    }

    #[test]
    fn a_template_that_nobody_asked_for_may_be_missing_but_not_go_or_be_unreadable() {
        let mut bench = bench();
        bench.template.expected = false;
        assert_eq!(bench.template.refresh(&[]), Refreshed::NoTemplate);
        assert_eq!(bench.said(), "");
        std::fs::create_dir(&bench.template.base).unwrap();
        assert_eq!(bench.template.refresh(&[]), Refreshed::NoTemplate);
        assert!(bench.said().contains("Failed to read node-cache coreFile "));
        std::fs::remove_dir(&bench.template.base).unwrap();
        bench.write("Corefile.base", ".:53 {\n    whoami\n}\n");
        assert_eq!(bench.template.refresh(&[]), Refreshed::Changed);
        bench.said();
        std::fs::remove_file(&bench.template.base).unwrap();
        assert_eq!(bench.template.refresh(&[]), Refreshed::Same);
        assert!(bench.said().contains("Failed to read node-cache coreFile "));
    }

    #[test]
    fn what_does_not_fit_is_said_once_and_changes_nothing() {
        let mut bench = bench();
        bench.write("Corefile.base", ".:53 {\n    whoami\n}\n");
        bench.write("kube-dns/stubDomains", "[]");
        assert_eq!(bench.template.refresh(&[]), Refreshed::Changed);
        assert!(bench.said().contains("ignoring this update: stubDomains: "));
        assert_eq!(bench.template.refresh(&[]), Refreshed::Same);
        assert_eq!(bench.said(), "");
    }

    #[test]
    fn what_is_wrong_again_is_said_again() {
        let mut bench = bench();
        bench.template.kube_dns = None;
        for _ in 0..2 {
            assert_ne!(bench.template.refresh(&[]), Refreshed::Changed);
            assert!(bench.said().contains("Failed to read node-cache coreFile "));
            bench.write("Corefile.base", ".:53 {\n    whoami\n}\n");
            bench.template.refresh(&[]);
            std::fs::remove_file(&bench.template.base).unwrap();
            bench.said();
        }
    }

    #[test]
    fn a_corefile_that_cannot_be_written_is_served_all_the_same() {
        let mut bench = bench();
        bench.template.conf = "/no/such/folder/Corefile".to_owned();
        bench.write("Corefile.base", ".:53 {\n    whoami\n}\n");
        assert_eq!(bench.template.refresh(&[]), Refreshed::Changed);
        assert!(bench.said().contains("Failed to write config file /no/such/folder/Corefile"));
        let source = bench.template.source(&bench.flags).unwrap();
        assert_eq!(source.text, ".:53 {\n    whoami\n}\n");
    }
}
