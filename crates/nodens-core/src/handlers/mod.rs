//! The handlers, one folder per directive: `mod.rs` acts, `config.rs` reads the Corefile,
//! `README.md` is what operators read, `tests.rs` what keeps it true.
//!
//! The set is closed: [`Handler`] has one variant per directive that takes part in a chain.

use crate::config::ServerBlock;
use crate::handler::{Cx, Event, Handle, Job, Searches, Step};
use crate::time::Now;
use nodens_wire::NameRef;

mod answering;
mod states;

pub use states::{HandlerStates, OfWorker};

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
    /// `dynupdate` with an update that is not done yet.
    Dynupdate(dynupdate::State),
    /// A directive that has zones.
    Authority(Box<crate::authority::Pending>),
}

impl LookupState {
    /// Whether it belongs to a handler behind `cache`.
    pub(crate) fn is_behind_cache(&self) -> bool {
        let own = matches!(self, Self::Template(_) | Self::Authority(_));
        own || matches!(self, Self::Kubernetes(_) | Self::K8sExternal(_))
    }

    /// Octets of memory that queries and responses make it take.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Self::Autopath(state) => state.octets(),
            Self::Dynupdate(state) => state.octets(),
            Self::Rewrite(state) => state.octets(),
            Self::Template(state) => state.octets(),
            Self::K8sExternal(state) => state.octets(),
            Self::Authority(pending) => pending.octets(),
            Self::None | Self::Dns64(_) | Self::Kubernetes(_) => 0,
        }
    }
}

macro_rules! handlers {
    ($($module:ident::$variant:ident,)*) => {
        $(pub mod $module;)*

        /// A directive at work in a chain.
        // There are only a few, side by side in a chain.
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug)]
        pub enum Handler {
            $(#[doc = concat!("See [`mod@", stringify!($module), "`].")] $variant($module::$variant),)*
        }

        /// Names of the directives that take part in a chain, by [`Handler::index`].
        pub const NAMES: &[&str] = &[$($module::SPEC.name,)*];

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

            /// See [`Handle::ONLY_WATCHES`].
            #[inline]
            pub(crate) fn only_watches(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <$module::$variant as Handle>::ONLY_WATCHES,)*
                }
            }

            /// See [`Handle::NOTES_DROPS`].
            pub(crate) fn notes_drops(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <$module::$variant as Handle>::NOTES_DROPS,)*
                }
            }

            /// See [`Handle::ANSWERS_OTHER_CLASSES`].
            pub(crate) fn answers_other_classes(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <$module::$variant as Handle>::ANSWERS_OTHER_CLASSES,)*
                }
            }

            /// The directive's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $module::SPEC.name,)*
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

            fn sent(&self, now: Now, job: &Job, block: &ServerBlock) {
                match self {
                    $(Self::$variant(handler) => handler.sent(now, job, block),)*
                }
            }

            fn searches(&self, name: NameRef<'_>) -> Searches {
                match self {
                    $(Self::$variant(handler) => handler.searches(name),)*
                }
            }

            fn label(&self, job: &Job, asked: NameRef<'_>, label: &str) -> Option<String> {
                match self {
                    $(Self::$variant(handler) => handler.label(job, asked, label),)*
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
    acl::Acl,
    any::Any,
    auto::Auto,
    autopath::Autopath,
    bufsize::Bufsize,
    cache::Cache,
    cancel::Cancel,
    chaos::Chaos,
    ddr::Ddr,
    dns64::Dns64,
    dnssec::Dnssec,
    dnstap::Dnstap,
    dynupdate::Dynupdate,
    erratic::Erratic,
    errors::Errors,
    file::File,
    forward::Forward,
    grpc::Grpc,
    header::HeaderRules,
    hosts::Hosts,
    k8s_external::K8sExternal,
    kubernetes::Kubernetes,
    loadbalance::Loadbalance,
    local::Local,
    log::Log,
    loops::Loop,
    minimal::Minimal,
    nsid::Nsid,
    prometheus::Prometheus,
    proxyproto::Proxyproto,
    rewrite::Rewrite,
    rrl::Rrl,
    search::Search,
    secondary::Secondary,
    template::Template,
    tls::Tls,
    transfer::Transfer,
    tsig::Tsig,
    whoami::Whoami,
}

// Directives that change how a block is served and take no part in its chain.
pub mod bind;
pub mod debug;
pub mod grpc_server;
pub mod health;
pub mod https;
pub mod https3;
pub mod metadata;
pub mod multisocket;
pub mod quic;
pub mod ready;
pub mod reload;
pub mod root;
pub mod shed;
pub mod sign;
pub mod timeouts;
pub mod view;
