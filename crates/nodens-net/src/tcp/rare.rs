//! What few connections need: slow readers, those that hold much, those of proxies. The others have
//! no memory for it.

use super::connection::Connection;
use super::http::Http;
use super::unsent::Holding;
use std::sync::Arc;

/// The parts, each while it is needed.
#[derive(Default)]
pub(super) struct Rare {
    /// While its client has something to take: how it gets on.
    pub(super) taking: Option<Taking>,
    /// What is entered for it in the books of the process.
    pub(super) holding: Option<Holding>,
    /// The TLVs of the PROXY protocol header, if they are wanted.
    pub(super) tlvs: Option<Arc<[u8]>>,
    /// What it needs to speak HTTP, if it does.
    pub(super) http: Option<Box<Http>>,
}

/// How a client gets on with taking what is sent to it.
pub(super) struct Taking {
    /// When it must have taken more.
    pub(super) deadline: u64,
    /// Octets that the kernel has taken for it, with those it held at first.
    pub(super) written: u64,
    /// How many of them the client had taken when `deadline` was set.
    pub(super) taken: u64,
    /// Octets of the client that were dropped, while its end is awaited.
    pub(super) dropped: Option<usize>,
}

impl Connection {
    /// To add or change a part.
    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// To be called when a part has gone.
    pub(super) fn tidy_rare(&mut self) {
        let is_needed = |rare: &Rare| {
            rare.taking.is_some()
                || rare.holding.is_some()
                || rare.tlvs.is_some()
                || rare.http.is_some()
        };
        self.rare = self.rare.take().filter(|rare| is_needed(rare));
    }

    pub(super) fn taking(&self) -> Option<&Taking> {
        self.rare.as_ref()?.taking.as_ref()
    }

    pub(super) fn taking_mut(&mut self) -> Option<&mut Taking> {
        self.rare.as_mut()?.taking.as_mut()
    }

    pub(super) fn tlvs(&self) -> Option<&Arc<[u8]>> {
        self.rare.as_ref()?.tlvs.as_ref()
    }

    /// Whether anything is entered for it in the books of the process.
    pub(super) fn is_entered(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.holding.is_some())
    }
}
