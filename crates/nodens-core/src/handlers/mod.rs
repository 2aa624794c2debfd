//! The handlers, one folder per directive: `mod.rs` acts, `config.rs` reads the Corefile,
//! `README.md` is what operators read, `tests.rs` what keeps it true.
//!
//! The set is closed: [`Handler`] has one variant per directive that takes part in a chain.

use crate::handler::{Cx, Event, Handle, Step};

/// What a handler that does nested lookups remembers between them.
#[derive(Debug, Default)]
pub enum LookupState {
    /// No lookup is under way.
    #[default]
    None,
    /// `dns64`.
    Dns64(dns64::State),
    /// `autopath`.
    Autopath(autopath::State),
    /// `rewrite` with a `cname` rule.
    Rewrite(rewrite::CnameState),
    /// `template` with an answer that is a CNAME.
    Template(template::State),
    /// `kubernetes`.
    Kubernetes(kubernetes::State),
    /// `k8s_external`.
    K8sExternal(k8s_external::State),
}

impl LookupState {
    /// Whether it belongs to a handler behind `cache`.
    pub(crate) fn is_behind_cache(&self) -> bool {
        matches!(self, Self::Template(_) | Self::Kubernetes(_) | Self::K8sExternal(_))
    }
}

macro_rules! handlers {
    ($($module:ident::$variant:ident = $name:literal,)*) => {
        $(pub mod $module;)*

        /// A directive at work in a chain.
        // There are only a few, side by side in a chain.
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug)]
        pub enum Handler {
            $(#[doc = concat!("`", $name, "`.")] $variant($module::$variant),)*
        }

        /// Names of the directives that take part in a chain, by [`Handler::index`].
        pub const NAMES: &[&str] = &[$($name,)*];

        #[derive(Clone, Copy)]
        enum Index {
            $($variant,)*
        }

        impl Handler {
            /// A small number that is the directive's own.
            pub fn index(&self) -> usize {
                match self {
                    $(Self::$variant(_) => Index::$variant as usize,)*
                }
            }

            /// See [`Handle::LOOKS_AT_QUESTIONS`].
            #[inline]
            pub(crate) fn looks_at_questions(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <$module::$variant as Handle>::LOOKS_AT_QUESTIONS,)*
                }
            }

            /// The directive's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }
        }

        impl Handle for Handler {
            fn answer(&self, cx: &mut Cx<'_>) -> Step {
                match self {
                    $(Self::$variant(handler) => handler.answer(cx),)*
                }
            }

            fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
                match self {
                    $(Self::$variant(handler) => handler.resumed(cx, event),)*
                }
            }

            fn amend(&self, cx: &mut Cx<'_>) {
                match self {
                    $(Self::$variant(handler) => handler.amend(cx),)*
                }
            }

            fn zones(&self, chain: &[Handler]) -> Vec<transfer::Source> {
                match self {
                    $(Self::$variant(handler) => handler.zones(chain),)*
                }
            }
        }

        $(impl From<$module::$variant> for Handler {
            fn from(handler: $module::$variant) -> Self {
                Self::$variant(handler)
            }
        })*
    };
}

handlers! {
    acl::Acl = "acl",
    any::Any = "any",
    autopath::Autopath = "autopath",
    bufsize::Bufsize = "bufsize",
    cache::Cache = "cache",
    cancel::Cancel = "cancel",
    chaos::Chaos = "chaos",
    dns64::Dns64 = "dns64",
    dnstap::Dnstap = "dnstap",
    erratic::Erratic = "erratic",
    errors::Errors = "errors",
    forward::Forward = "forward",
    header::HeaderRules = "header",
    hosts::Hosts = "hosts",
    k8s_external::K8sExternal = "k8s_external",
    kubernetes::Kubernetes = "kubernetes",
    loadbalance::Loadbalance = "loadbalance",
    local::Local = "local",
    log::Log = "log",
    loops::Loop = "loop",
    minimal::Minimal = "minimal",
    nsid::Nsid = "nsid",
    prometheus::Prometheus = "prometheus",
    rewrite::Rewrite = "rewrite",
    search::Search = "search",
    template::Template = "template",
    transfer::Transfer = "transfer",
    whoami::Whoami = "whoami",
}

impl Handler {
    /// Whether the directive only watches questions of clients or decorates what they get: it
    /// neither changes nor gives an answer.
    pub(crate) fn only_watches(&self) -> bool {
        matches!(
            self,
            Self::Cancel(_)
                | Self::Nsid(_)
                | Self::Prometheus(_)
                | Self::Errors(_)
                | Self::Log(_)
                | Self::Dnstap(_)
        )
    }

    /// Whether the directive has something to do on the way back where no response is sent: to count
    /// or log the question, which *rewrite* turns back into what was asked.
    pub(crate) fn notes_drops(&self) -> bool {
        matches!(self, Self::Prometheus(_) | Self::Log(_) | Self::Rewrite(_))
    }
}

// Directives that change how a block is served and take no part in its chain.
pub mod bind;
pub mod debug;
pub mod health;
pub mod metadata;
pub mod multisocket;
pub mod ready;
pub mod reload;
pub mod root;
pub mod timeouts;
pub mod view;
