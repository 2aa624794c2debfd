//! Names of a cluster's zone, taken apart as the Kubernetes DNS specification 1.1.0 puts them
//! together.

/// The label in front of a service that has its endpoints chosen by topology zone.
const ZONE_LABEL: &[u8] = b"_zone";
/// More labels than a name can have.
const LABELS_MAX: usize = 128;

/// What the label next to the zone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `svc`
    Service,
    /// `pod`
    Pod,
}

/// Which shapes of names a zone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// It is one of `multicluster`: two labels may be an endpoint and its cluster.
    pub(crate) imports: bool,
    /// `zonal` names are understood.
    pub(crate) zonal: bool,
}

/// What a name asks for; what it does not say is empty. Octets of labels are folded and stand
/// without their length unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked<'n> {
    /// `None` for the zone itself and for `svc` and `pod`, which only exist.
    pub(crate) kind: Option<Kind>,
    /// The namespace, as a label in wire form.
    pub(crate) namespace: &'n [u8],
    /// Service and namespace as labels in wire form; empty if there is no service.
    pub(crate) key: &'n [u8],
    /// The service; for pods, the address with dashes.
    pub(crate) service: &'n [u8],
    /// The port's name, without underscore.
    pub(crate) port: &'n [u8],
    /// The protocol, without underscore.
    pub(crate) protocol: &'n [u8],
    /// The endpoint.
    pub(crate) endpoint: &'n [u8],
    /// The cluster of the endpoint.
    pub(crate) cluster: &'n [u8],
    /// The topology zone: one label or more in wire form.
    pub(crate) zone: &'n [u8],
    /// Whether all endpoints will do if there are none in the zone.
    pub(crate) prefer: bool,
}

impl<'n> Asked<'n> {
    /// Reads the labels in front of the zone, in wire form and folded; `None` if there can be no
    /// such name.
    ///
    /// - `_PORT._PROTOCOL.SERVICE.NAMESPACE.svc`
    /// - `ENDPOINT.SERVICE.NAMESPACE.svc`
    /// - `ENDPOINT.CLUSTER.SERVICE.NAMESPACE.svc` in a zone with imports
    /// - `ZONE.pin._zone.SERVICE.NAMESPACE.svc`, or with `prefer`, where zonal
    /// - `SERVICE.NAMESPACE.svc`
    pub(crate) fn read(below: &'n [u8], shape: Shape) -> Option<Self> {
        let mut labels = Labels::of(below)?;
        let mut asked = Self::default();
        let Some(kind) = labels.pop() else { return Some(asked) };
        let kind = match kind {
            b"svc" => Kind::Service,
            b"pod" => Kind::Pod,
            _ => return None,
        };
        let namespace_end = labels.end;
        if labels.pop().is_none() {
            return Some(asked);
        }
        asked.kind = Some(kind);
        asked.namespace = below.get(labels.end..namespace_end)?;
        let Some(service) = labels.pop() else { return Some(asked) };
        asked.service = service;
        asked.key = below.get(labels.end..namespace_end)?;
        match labels.len {
            0 => {}
            1 => asked.endpoint = labels.pop()?,
            2 => asked.take_two(labels.pop()?, labels.pop()?, shape),
            _ if shape.zonal && !shape.imports && kind == Kind::Service => {
                asked.take_zone(&mut labels)?;
            }
            _ => return None,
        }
        Some(asked)
    }

    fn take_two(&mut self, second: &'n [u8], first: &'n [u8], shape: Shape) {
        let has_underscore = first.starts_with(b"_") || second.starts_with(b"_");
        if shape.imports && !has_underscore {
            (self.endpoint, self.cluster) = (first, second);
        } else {
            (self.port, self.protocol) = (without_underscore(first), without_underscore(second));
        }
    }

    /// A zone's name may contain dots, so it is all labels in front.
    fn take_zone(&mut self, labels: &mut Labels<'n>) -> Option<()> {
        if labels.pop()? != ZONE_LABEL {
            return None;
        }
        self.prefer = match labels.pop()? {
            b"pin" => false,
            b"prefer" => true,
            _ => return None,
        };
        self.zone = labels.below.get(..labels.end)?;
        Some(())
    }

    /// Whether `text` is the topology zone asked for.
    pub(crate) fn is_zone(&self, text: &str) -> bool {
        let mut rest = self.zone;
        for piece in text.split('.') {
            let Some((len, tail)) = rest.split_first() else { return false };
            match tail.split_at_checked(usize::from(*len)) {
                Some((label, tail)) if label.eq_ignore_ascii_case(piece.as_bytes()) => rest = tail,
                _ => return false,
            }
        }
        rest.is_empty()
    }
}

/// One underscore in front belongs to SRV names (RFC 2782) and not to what they name.
pub(crate) fn without_underscore(label: &[u8]) -> &[u8] {
    label.strip_prefix(b"_").unwrap_or(label)
}

/// Labels in wire form, from the right.
pub(crate) struct Labels<'n> {
    below: &'n [u8],
    starts: [u8; LABELS_MAX],
    /// How many are left.
    pub(crate) len: usize,
    /// Where those that are left end.
    end: usize,
}

impl<'n> Labels<'n> {
    /// `None` if there are more than a name can have.
    pub(crate) fn of(below: &'n [u8]) -> Option<Self> {
        let (mut starts, mut len, mut at) = ([0; LABELS_MAX], 0, 0);
        while let Some(octets) = below.get(at) {
            *starts.get_mut(len)? = u8::try_from(at).ok()?;
            len += 1;
            at += 1 + usize::from(*octets);
        }
        Some(Self { below, starts, len, end: below.len() })
    }

    /// The last label, without its length.
    pub(crate) fn pop(&mut self) -> Option<&'n [u8]> {
        self.len = self.len.checked_sub(1)?;
        let start = usize::from(*self.starts.get(self.len)?);
        let label = self.below.get(start + 1..self.end)?;
        self.end = start;
        Some(label)
    }

    /// Those that have been taken, in wire form.
    pub(crate) fn popped(&self) -> &'n [u8] {
        self.below.get(self.end..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::Name;

    const STOCK: Shape = Shape { imports: false, zonal: false };
    const IMPORTS: Shape = Shape { imports: true, zonal: false };
    const ZONAL: Shape = Shape { imports: false, zonal: true };

    /// `port protocol endpoint cluster service namespace zone`, or `apex`, or `none`.
    fn read(text: &str, shape: Shape) -> String {
        let name: Name = text.parse().unwrap();
        let wire = name.as_wire();
        let Some(asked) = Asked::read(&wire[..wire.len() - 1], shape) else {
            return "none".to_owned();
        };
        let Some(kind) = asked.kind else { return "apex".to_owned() };
        let text = |octets: &[u8]| octets.escape_ascii().to_string();
        let namespace = asked.namespace.get(1..).unwrap_or_default();
        let parts = [
            asked.port,
            asked.protocol,
            asked.endpoint,
            asked.cluster,
            asked.service,
            namespace,
            asked.zone,
        ];
        let prefer = if asked.prefer { " prefer" } else { "" };
        format!("{kind:?} {}{prefer}", parts.map(text).join("/"))
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(read(".", STOCK), "apex");
        assert_eq!(read("svc.", STOCK), "apex");
        assert_eq!(read("pod.", STOCK), "apex");
        assert_eq!(read("shop.svc.", STOCK), "Service //////shop/".replace("//////", "/////"));
        assert_eq!(read("web.shop.svc.", STOCK), "Service ////web/shop/");
        assert_eq!(read("_http._tcp.web.shop.svc.", STOCK), "Service http/tcp///web/shop/");
        assert_eq!(read("1-2-3-4.web.shop.svc.", STOCK), "Service //1-2-3-4//web/shop/");
        assert_eq!(read("a.b.web.shop.svc.", STOCK), "Service a/b///web/shop/");
        assert_eq!(read("1-2-3-4.shop.pod.", STOCK), "Pod ////1-2-3-4/shop/");
    }

    #[test]
    fn imports_have_endpoints_in_clusters() {
        assert_eq!(read("a.east.web.shop.svc.", IMPORTS), "Service //a/east/web/shop/");
        assert_eq!(read("_a._tcp.web.shop.svc.", IMPORTS), "Service a/tcp///web/shop/");
        assert_eq!(read("a._tcp.web.shop.svc.", IMPORTS), "Service a/tcp///web/shop/");
    }

    #[test]
    fn zones_may_have_several_labels() {
        let zone = read("eu-1a.pin._zone.web.shop.svc.", ZONAL);
        assert_eq!(zone, "Service ////web/shop/\\x05eu-1a");
        let zone = read("a.b.prefer._zone.web.shop.svc.", ZONAL);
        assert_eq!(zone, "Service ////web/shop/\\x01a\\x01b prefer");
        // Two labels are a port and a protocol, whatever they are.
        assert_eq!(read("eu-1a._zone.web.shop.svc.", ZONAL), "Service eu-1a/zone///web/shop/");
        let asked = Asked { zone: b"\x01a\x01b", ..Asked::default() };
        assert!(asked.is_zone("a.b"));
        assert!(!asked.is_zone("a"));
        assert!(!asked.is_zone("a.b.c"));
        assert!(!Asked { zone: b"\x03a.b", ..asked }.is_zone("a.b"));
    }

    #[test]
    fn what_has_another_shape_is_no_name() {
        for (name, shape) in [
            ("dns.", STOCK),
            ("web.shop.pood.", STOCK),
            ("a.b.c.web.shop.svc.", STOCK),
            ("eu-1a.pin._zone.web.shop.svc.", STOCK),
            ("eu-1a.pin._zone.web.shop.pod.", ZONAL),
            ("eu-1a.nail._zone.web.shop.svc.", ZONAL),
            ("eu-1a.pin.zone.web.shop.svc.", ZONAL),
            ("eu-1a.pin._zone.web.shop.svc.", Shape { imports: true, zonal: true }),
        ] {
            assert_eq!(read(name, shape), "none", "{name}");
        }
    }
}
