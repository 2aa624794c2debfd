//! `search [ZONES…] { options }`.

use crate::cluster::{Api, Feed, Scope, Source, Tls};
use crate::config::{BlockBuilder, ClusterService};
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const OPTIONS: [&str; 5] = ["endpoint", "tls", "kubeconfig", "learn", "except"];

/// What a directive says.
pub(super) struct Options {
    pub(super) zones: Zones,
    pub(super) except: Vec<Name>,
    /// Where the API server is; `None` if it is not asked.
    pub(super) api: Option<Api>,
    /// Whether nobody wrote it.
    pub(super) implicit: bool,
}

impl Options {
    /// What holds where the directive is not written.
    pub(super) fn of_block(block: &BlockBuilder<'_>) -> Option<Self> {
        let zones = Zones::of(&[], &block.zones).ok()?;
        // Services of other clusters (the Multi-Cluster Services API) are in no list of this one's.
        let clusterset = Name::parse("clusterset.local.").ok()?;
        let own = |zone: &Name| {
            let of_several = zone.view().is_in_domain(clusterset.view());
            !zone.view().is_root() && !is_reverse(zone) && !of_several
        };
        let all = zones.names().iter().all(own);
        all.then(|| Self {
            zones,
            except: Vec::new(),
            api: Some(Api::InCluster),
            implicit: true,
        })
    }

    pub(super) fn read(directive: &Directive, block: &BlockBuilder<'_>) -> Result<Self, Error> {
        let zones = Zones::of(directive.args(), &block.zones)?;
        if zones.names().iter().any(|zone| zone.view().is_root() || is_reverse(zone)) {
            let text = "the root and reverse zones have no search paths: expected zones of clusters, \
                        such as cluster.local";
            return Err(directive.invalid(text));
        }
        let mut lines = ApiLines::default();
        let (mut learn, mut except) = (false, Vec::new());
        for line in directive.lines() {
            line.expect_no_body()?;
            if lines.take(line)? {
                continue;
            }
            match line.name.text.as_str() {
                "learn" => {
                    line.expect_no_args()?;
                    learn = true;
                }
                "except" => {
                    for arg in line.expect_args_from(1)? {
                        let name = Name::parse(&arg.text);
                        let name = name.map_err(|e| Error::expected(arg, format!("a name ({e})")))?;
                        except.push(name);
                    }
                }
                _ => return Err(line.unknown_property(&OPTIONS)),
            }
        }
        let api = (!learn).then(|| lines.api());
        Ok(Self { zones, except, api, implicit: false })
    }
}

/// The lines that say where the API server is.
#[derive(Default)]
pub(crate) struct ApiLines {
    endpoint: Option<String>,
    tls: Option<Tls>,
    kubeconfig: Option<(PathBuf, Option<String>)>,
}

impl ApiLines {
    /// Reads a line; false if it is another one.
    pub(crate) fn take(&mut self, line: &Directive) -> Result<bool, Error> {
        let path = |token: &Token| PathBuf::from(&token.text);
        match line.name.text.as_str() {
            "endpoint" => {
                let [url] = line.expect_args::<1>()?;
                self.endpoint = Some(url.text.clone());
            }
            "tls" => {
                let [cert, key, ca] = line.expect_args::<3>()?;
                self.tls = Some(Tls { cert: path(cert), key: path(key), ca: path(ca) });
            }
            "kubeconfig" => {
                let mut args = line.expect_args_within(1..=2)?.iter();
                let file = args.next().map(path).unwrap_or_default();
                self.kubeconfig = Some((file, args.next().map(|context| context.text.clone())));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The API server: the one a pod finds if no line names another.
    pub(crate) fn api(self) -> Api {
        match (self.kubeconfig, self.endpoint) {
            (Some((path, context)), _) => Api::Kubeconfig { path, context },
            (None, Some(url)) => Api::Endpoint { url, tls: self.tls },
            (None, None) => Api::InCluster,
        }
    }
}

fn is_reverse(zone: &Name) -> bool {
    let folded = zone.to_folded();
    crate::reverse::is_below(folded.as_wire())
        || matches!(folded.to_string().as_str(), "in-addr.arpa." | "ip6.arpa." | "arpa.")
}

/// A feed that whoever watches clusters is asked to fill, if it can.
pub(crate) fn optional_feed(block: &mut BlockBuilder<'_>, api: Api, scope: Scope) -> Arc<Feed> {
    let feed = block.shared.clusters.feed(&Source { api, scope, ..Source::default() });
    let clusters = &mut block.services.clusters;
    if !clusters.iter().any(|known| Arc::ptr_eq(&known.feed, &feed)) {
        let startup_timeout = Duration::ZERO;
        clusters.push(ClusterService { feed: feed.clone(), startup_timeout, optional: true });
    }
    feed
}
