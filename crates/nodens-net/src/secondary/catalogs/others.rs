//! Whether a zone that no catalog was found to have is another's all the same.

use super::super::areas::Area;
use nodens_wire::SharedName;
use nodens_zone::Zone;
use nodens_zone::catalog::Member;
use nodens_zone::image::file_name;
use nodens_zone::secondary::Configured;
use std::sync::Arc;

impl Area {
    /// Whether this member of a catalog is not the catalog's to have.
    pub(super) fn has_other(&self, catalog: &Configured, member: &Member) -> bool {
        let (origin, name): (_, &SharedName) = (catalog.zone.origin(), &member.zone);
        // A zone of the configuration may be kept for another directive.
        let is_configured = self.service.configured.iter().any(|own| own.zone.origin() == name);
        let handed_on = self.service.handed_on.load();
        let is_other = |zone: &Arc<dyn Zone>| zone.as_secondary().is_none();
        let is_others = handed_on.get(name.view()).is_some_and(is_other);
        // Another catalog has it from an earlier configuration or process, and was not looked at yet.
        let holds = |own: &Configured| {
            own.zone.origin() != origin
                && own.accepts(name.view())
                && own.zone.catalog().and_then(|lists| lists.member(name).cloned()).is_some_and(
                    |theirs| {
                        own.zone.members().contains_key(name)
                            || self.has_kept((own, &theirs), (catalog, member))
                    },
                )
        };
        is_configured
            || is_others
            || self.zones.contains_key(name)
            || self.service.configured.iter().any(holds)
    }

    /// Whether the disk says that another catalog had a zone when the last process ended: its primaries are not to be
    /// changed by a restart (RFC 9432 section 5.2).
    fn has_kept(
        &self,
        (other, theirs): (&Configured, &Member),
        (own, ours): (&Configured, &Member),
    ) -> bool {
        let has_file = |catalog: &Configured, member: &Member| {
            let folder = catalog.terms(&member.groups).store;
            folder.is_some_and(|folder| folder.join(file_name(member.zone.view())).exists())
        };
        let is_new = !self.catalogs.now.contains_key(other.zone.origin());
        is_new && has_file(other, theirs) && !has_file(own, ours)
    }
}
