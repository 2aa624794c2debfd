//! Whether a name of a cluster's zone can exist, by the shape that names have (Kubernetes DNS-Based
//! Service Discovery 1.1.0) and by the namespaces and services there are.

use crate::cluster::Snapshot;
use crate::lookup::name::Labels;

/// Why a name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// No object can have such a name, now or later.
    Shape,
    /// There is no such namespace.
    Namespace,
    /// There is no such service.
    Service,
}

impl Ground {
    /// All of them, in order.
    pub(super) const ALL: [Self; 3] = [Self::Shape, Self::Namespace, Self::Service];

    /// What is its own of one thing for each.
    pub(super) fn of<T: Copy>(self, [shape, namespace, service]: &[T; 3]) -> T {
        match self {
            Self::Shape => *shape,
            Self::Namespace => *namespace,
            Self::Service => *service,
        }
    }

    /// The label `ground` of metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Namespace => "namespace",
            Self::Service => "service",
        }
    }
}

/// What can be said of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged<'n> {
    /// Nothing: only the cluster's servers know.
    Open,
    /// It may be that of a service, of which nothing is known.
    Unsure,
    /// It belongs to a service that has been known since then, in seconds since 1970.
    Known(u64),
    /// It does not exist.
    Denied {
        /// Why not.
        ground: Ground,
        /// Labels in wire form, up to the zone: neither this name nor any below it exists for that
        /// reason. With [`Ground::Shape`] not all names below it do not exist, but those that are
        /// denied for their shape.
        cut: &'n [u8],
    },
}

/// Judges the labels in front of the zone, in wire form and folded. Without `names` only the shape
/// counts.
///
/// Labels with an underscore are left to the cluster's servers, and so is all below `pod` and `dns`:
/// nobody comes there by a search path.
pub(super) fn judge<'n>(below: &'n [u8], names: Option<&Snapshot>) -> Judged<'n> {
    let Some(mut labels) = Labels::of(below) else { return Judged::Open };
    let denied = |ground, cut| Judged::Denied { ground, cut };
    match labels.pop() {
        Some(b"svc") => {}
        None | Some(b"pod" | b"dns" | b"dns-version" | [b'_', ..]) => return Judged::Open,
        Some(_) => return denied(Ground::Shape, labels.popped()),
    }
    let after_kind = labels.popped().len();
    let Some(namespace) = labels.pop().filter(|label| is_plain(label)) else {
        return Judged::Open;
    };
    let key = |popped: &'n [u8]| {
        popped.len().checked_sub(after_kind).and_then(|end| popped.get(..end)).unwrap_or_default()
    };
    if names.is_some_and(|names| !names.has_namespace(key(labels.popped()))) {
        let cut = labels.popped();
        let plain = std::iter::from_fn(|| labels.pop()).all(is_plain);
        return if plain { denied(Ground::Namespace, cut) } else { Judged::Open };
    }
    debug_assert!(!namespace.is_empty());
    if !labels.pop().is_some_and(is_plain) {
        return Judged::Open;
    }
    let cut = labels.popped();
    let since = names.map(|names| names.service_since(key(cut)));
    let (deep, next) = (labels.len, labels.pop());
    let plain = next.is_none_or(is_plain) && std::iter::from_fn(|| labels.pop()).all(is_plain);
    match (since, deep) {
        _ if !plain => Judged::Open,
        (Some(None), _) => denied(Ground::Service, cut),
        // An endpoint has one label, a port and its protocol two.
        (_, 3..) => denied(Ground::Shape, cut),
        (_, 2) if !matches!(next, Some(b"tcp" | b"udp" | b"sctp")) => denied(Ground::Shape, cut),
        (Some(Some(since)), _) => Judged::Known(since),
        (None, _) => Judged::Unsure,
    }
}

fn is_plain(label: &[u8]) -> bool {
    !label.starts_with(b"_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Editor, Key};
    use nodens_wire::Name;

    fn said(below: &str, names: Option<&Snapshot>) -> String {
        let name: Name = format!("{below}.").parse().unwrap();
        let wire = name.as_wire();
        match judge(&wire[..wire.len() - 1], names) {
            Judged::Open | Judged::Unsure => "open".to_owned(),
            Judged::Known(since) => format!("known {since}"),
            Judged::Denied { ground, cut } => {
                let cut = Name::from_wire(&[cut, &[0]].concat()).unwrap();
                format!("{} {cut}", ground.label())
            }
        }
    }

    #[test]
    fn shapes_that_no_object_has_are_known_without_any() {
        for (name, expected) in [
            ("www.example.com", "shape com."),
            ("com", "shape com."),
            ("svc", "open"),
            ("shop.svc", "open"),
            ("web.shop.svc", "open"),
            ("com.shop.svc", "open"),
            ("example.com.shop.svc", "open"),
            ("www.example.com.shop.svc", "shape com.shop.svc."),
            ("a.www.example.com.shop.svc", "shape com.shop.svc."),
            ("http.tcp.web.shop.svc", "open"),
            ("_http._tcp.web.shop.svc", "open"),
            ("a.pin._zone.web.shop.svc", "open"),
            ("1-2-3-4.shop.pod", "open"),
            ("ns.dns", "open"),
            ("dns-version", "open"),
            ("_tcp", "open"),
        ] {
            assert_eq!(said(name, None), expected, "{name}");
        }
    }

    #[test]
    fn with_names_known_what_is_not_there_is_denied_where_it_ends() {
        let mut editor = Editor::default();
        editor.set_namespace(&Key::of_namespace("shop").unwrap());
        editor.set_name(&Key::new("shop", "web").unwrap());
        let names = editor.snapshot(7);
        for (name, expected) in [
            ("shop.svc", "open"),
            ("com.svc", "namespace com.svc."),
            ("example.com.svc", "namespace com.svc."),
            ("www.example.com.svc", "namespace com.svc."),
            ("_http._tcp.example.com.svc", "open"),
            ("com.shop.svc", "service com.shop.svc."),
            ("example.com.shop.svc", "service com.shop.svc."),
            ("www.example.com.shop.svc", "service com.shop.svc."),
            ("web.shop.svc", "known 0"),
            ("web-0.web.shop.svc", "known 0"),
            ("http.tcp.web.shop.svc", "known 0"),
            ("_http._tcp.web.shop.svc", "open"),
            ("a.b.web.shop.svc", "shape web.shop.svc."),
            ("10-0-0-1.com.pod", "open"),
        ] {
            assert_eq!(said(name, Some(&names)), expected, "{name}");
        }
    }
}
