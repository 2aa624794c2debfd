//! What a cluster's API server says that matters to DNS, as plain data.
//!
//! Whoever watches the API server (`nodens-kube`) applies each object to an [`Editor`] and
//! publishes its [`Snapshot`]s through a [`Feed`]; workers read the newest one. A snapshot never
//! changes. Its tables share what two snapshots have in common, so publishing a change costs what
//! changed, not what exists.
//!
//! Names are kept as folded labels in wire form, so that a part of a QNAME finds a service as it
//! stands in the message.

mod editor;
mod feed;
mod intern;
mod key;
mod object;
mod places;
mod serials;
mod slice;
mod snapshot;
mod source;

pub use editor::{Editor, Kind};
pub use feed::{Clusters, Feed, Link};
pub use key::{Key, ObjectError};
pub use object::{
    External, Pod, PodLabels, Port, Protocol, Search, SearchBase, Service, ServiceKind,
};
pub use slice::{Endpoint, NewEndpoint, Slice, SliceId};
pub use snapshot::{Entry, Snapshot};
pub use source::{Api, Scope, Source, Tls};

#[cfg(test)]
mod tests;
