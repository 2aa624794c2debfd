//! Which part of a name a search list may have added.

use std::ops::Range;

/// The domains that stand in search lists: those of clusters, and this host's own.
///
/// A pod looks for `NAME` in `NAMESPACE.svc.ZONE`, `svc.ZONE`, `ZONE`, then in the domains of its
/// node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// Zones of clusters, folded, in wire form.
    clusters: Vec<Vec<u8>>,
    /// Domains of this host's resolv.conf, the same.
    host: Vec<Vec<u8>>,
}

/// What sort of domain a name may have been looked for in, in the order of a search list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sort {
    /// `NAMESPACE.svc.ZONE`
    Namespace,
    /// `svc.ZONE`
    Services,
    /// `ZONE`
    Cluster,
    /// One of this host.
    Host,
    /// Any other.
    Other,
    /// None: the name itself.
    Bare,
}

impl Sort {
    pub(crate) fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

impl Domains {
    /// `clusters` are zones of clusters, `host` the domains of this host's search list; both in
    /// wire form.
    pub fn new(clusters: Vec<Vec<u8>>, host: Vec<Vec<u8>>) -> Self {
        let folded = |mut names: Vec<Vec<u8>>| {
            names.iter_mut().for_each(|name| name.make_ascii_lowercase());
            // The root is no domain that anything is looked for in.
            names.retain(|name| name.len() > 1);
            names
        };
        Self { clusters: folded(clusters), host: folded(host) }
    }

    /// Where in `qname`, folded and in wire form, the domain of a search list may begin, and what
    /// sort it is of. In front of it is at least one label.
    pub(crate) fn ends(&self, qname: &[u8]) -> Vec<(usize, Sort)> {
        let mut ends = Vec::new();
        for zone in &self.clusters {
            let Some(at) = end_of(qname, zone) else { continue };
            ends.push((at, Sort::Cluster));
            let labels: Vec<_> = labels(qname).take_while(|label| label.end <= at).collect();
            let Some((last, before)) = labels.split_last() else { continue };
            if qname.get(last.clone()) != Some(b"\x03svc") || before.is_empty() {
                continue;
            }
            ends.push((last.start, Sort::Services));
            if let [.., _, namespace] = before {
                ends.push((namespace.start, Sort::Namespace));
            }
        }
        let host = self.host.iter().filter_map(|domain| end_of(qname, domain));
        ends.extend(host.map(|at| (at, Sort::Host)));
        ends
    }
}

/// Where `domain` begins in `qname`, if the name is below it.
fn end_of(qname: &[u8], domain: &[u8]) -> Option<usize> {
    let at = qname.len().checked_sub(domain.len()).filter(|at| *at > 0)?;
    let ends = qname.get(at..)? == domain && labels(qname).any(|label| label.start == at);
    ends.then_some(at)
}

/// The labels of a name in wire form with their lengths; the root label is left out.
pub(crate) fn labels(name: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let len = usize::from(*name.get(at)?);
        let label = at..at + 1 + len;
        at = label.end;
        (len > 0).then_some(label)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Vec<u8> {
        text.parse::<nodens_wire::Name>().unwrap().as_wire().to_vec()
    }

    fn ends(qname: &str) -> Vec<(String, Sort)> {
        let domains =
            Domains::new(vec![wire("Cluster.local"), wire(".")], vec![wire("corp.example")]);
        let qname = wire(qname);
        let text = |at| nodens_wire::NameRef::new(&qname[at..]).unwrap().to_string();
        domains.ends(&qname).into_iter().map(|(at, sort)| (text(at), sort)).collect()
    }

    #[test]
    fn every_domain_a_name_may_have_been_looked_for_in_is_found() {
        let of = |name: &str, sort| (name.to_owned(), sort);
        assert_eq!(
            ends("db.bad.shop.svc.cluster.local"),
            [
                of("cluster.local.", Sort::Cluster),
                of("svc.cluster.local.", Sort::Services),
                of("shop.svc.cluster.local.", Sort::Namespace),
            ]
        );
        // The label in front of `svc` may be a namespace only if a name is left in front of it.
        assert_eq!(
            ends("db.svc.cluster.local"),
            [of("cluster.local.", Sort::Cluster), of("svc.cluster.local.", Sort::Services)]
        );
        assert_eq!(ends("svc.cluster.local"), [of("cluster.local.", Sort::Cluster)]);
        assert_eq!(ends("db.corp.example"), [of("corp.example.", Sort::Host)]);
        assert_eq!(ends("corp.example"), []);
        assert_eq!(ends("acorp.example"), []);
        assert_eq!(ends("."), []);
    }
}
