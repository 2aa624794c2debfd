//! What passes from one process to the next.

use super::State;
use crate::network::Descriptors;
use crate::network::link::{self, Inherited, Owner};
use crate::network::nft::Nft;
use crate::network::state::Rules;
use rustix::event::{EventfdFlags, eventfd};
use std::io;

impl State {
    /// Takes what a predecessor's state hangs on. It is looked at when the link is put right.
    pub(super) fn take(&mut self, inherited: Descriptors) {
        for (name, fd) in inherited {
            match name.split_once(':') {
                Some(("tun", interface)) if interface == self.plan.interface => {
                    self.inherited_link = Some(Inherited::Tun(fd));
                }
                Some(("lease", interface)) if interface == self.plan.interface => {
                    self.inherited_link = Some(Inherited::Leased);
                }
                Some(("nft", table)) if table == self.plan.interface => {
                    self.nft = Nft::inherit(fd).ok().or_else(|| self.nft.take());
                }
                _ => {}
            }
        }
    }

    /// As [`State::take`], of a predecessor that does nothing for its addresses from now on: those
    /// with a lease are renewed here at once, whatever rules of iptables may take.
    pub(crate) fn inherit(&mut self, inherited: Descriptors) {
        self.take(inherited);
        let leased = matches!(self.inherited_link, Some(Inherited::Leased));
        if leased && !self.powerless && self.plan.setup_interface && self.adopt_link().is_ok() {
            let wanted = self.plan.addresses.clone();
            self.link.iter().for_each(|held| held.renew(&wanted));
        }
    }

    /// Makes the link of a predecessor ours, if there is one.
    pub(super) fn adopt_link(&mut self) -> Result<(), String> {
        if self.inherited_link.is_none() {
            return Ok(());
        }
        let Some(route) = &self.route else { return Ok(()) };
        let seen = link::find(route, &self.plan.interface)?;
        if let (Some(inherited), Some(link)) = (self.inherited_link.take(), &seen)
            && let Some((held, kind)) = link::inherit(inherited, link)?
        {
            (self.link, self.link_kind) = (Some(held), kind);
        }
        Ok(())
    }

    /// Closes what is a successor's by now: if that ends, link and rules end with it.
    pub(crate) fn let_go(&mut self) {
        self.abandon();
        (self.link, self.nft, self.inherited_link) = (None, None, None);
    }

    pub(crate) fn descriptors(&self) -> io::Result<Descriptors> {
        let mut descriptors = Descriptors::new();
        let name = &self.plan.interface;
        match self.link.as_ref().map(|held| &held.owner) {
            Some(Owner::Descriptor(descriptor)) => {
                descriptors.push((format!("tun:{name}"), descriptor.try_clone()?));
            }
            // Its name says it all.
            Some(Owner::Nobody(_)) => {
                let nothing = eventfd(0, EventfdFlags::CLOEXEC)?;
                descriptors.push((format!("lease:{name}"), nothing));
            }
            None => {}
        }
        if let (Some(Rules::Table { owned: true }), Some(nft)) = (&self.place, &self.nft) {
            descriptors.push((format!("nft:{name}"), nft.descriptor()?));
        }
        Ok(descriptors)
    }
}
