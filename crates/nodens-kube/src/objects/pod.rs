//! Pods.

use super::{Meta, Object, Text, Unusable, address, text};
use crate::protobuf::{Malformed, Message, Value};
use nodens_core::cluster::{Editor, Kind, Pod, PodLabels, Search, SearchBase, Source};
use nodens_wire::Name;
use serde::Deserialize;
use std::collections::BTreeMap;

type Labels<'a> = BTreeMap<Text<'a>, Text<'a>>;

/// A Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a, Labels<'a>>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    dns_policy: Option<Text<'a>>,
    host_network: Option<bool>,
    #[serde(borrow)]
    dns_config: Option<DnsConfig<'a>>,
    #[serde(borrow)]
    os: Option<Os<'a>>,
    #[serde(borrow)]
    node_selector: Option<Labels<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Os<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DnsConfig<'a> {
    #[serde(borrow)]
    searches: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    options: Option<Vec<DnsOption<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DnsOption<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow, rename = "podIPs")]
    pod_ips: Option<Vec<PodIp<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp<'a> {
    #[serde(borrow)]
    ip: Option<Text<'a>>,
}

impl<'a> super::Labels<'a> for Labels<'a> {
    fn add(&mut self, pair: Value<'a>) -> Result<(), Malformed> {
        let (key, value) = pair.pair()?.texts()?;
        self.insert(key, value);
        Ok(())
    }
}

impl<'a> Message<'a> for PodObject<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.merge_into(&mut self.metadata),
            2 => value.merge_into(&mut self.spec),
            3 => value.merge_into(&mut self.status),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for Spec<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            6 => self.dns_policy = Some(value.text()?),
            7 => super::Labels::add(self.node_selector.get_or_insert_default(), value)?,
            11 => self.host_network = Some(value.truth()?),
            26 => value.merge_into(self.dns_config.get_or_insert_default())?,
            36 => value.merge_into(self.os.get_or_insert_default())?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Os<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.name = Some(value.text()?);
        }
        Ok(())
    }
}

impl<'a> Message<'a> for DnsConfig<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            2 => value.push_text(&mut self.searches),
            3 => value.push_onto(&mut self.options),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for DnsOption<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = Some(value.text()?),
            2 => self.value = Some(value.text()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Status<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            12 => value.push_onto(&mut self.pod_ips),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for PodIp<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.ip = Some(value.text()?);
        }
        Ok(())
    }
}

impl PodObject<'_> {
    fn base(&self) -> SearchBase {
        let on_host = self.spec.host_network.unwrap_or(false);
        match text(&self.spec.dns_policy) {
            _ if self.is_windows() => SearchBase::Node,
            "None" => SearchBase::Nothing,
            "Default" => SearchBase::Node,
            "ClusterFirstWithHostNet" => SearchBase::Cluster,
            _ if on_host => SearchBase::Node,
            _ => SearchBase::Cluster,
        }
    }

    fn is_windows(&self) -> bool {
        let os = self.spec.os.as_ref().map_or("", |os| text(&os.name));
        let mut selected = self.spec.node_selector.iter().flatten();
        let on = |(key, value): (&Text<'_>, &Text<'_>)| {
            key.as_str() == "kubernetes.io/os" && value.as_str() == "windows"
        };
        os == "windows" || selected.any(on)
    }

    /// The last `ndots` counts, as far as resolvers read it: up to 15.
    fn ndots(&self) -> Option<u8> {
        let config = self.spec.dns_config.iter().flat_map(|config| &config.options);
        let mut ndots = config.flatten().filter(|option| text(&option.name) == "ndots");
        let value = ndots.next_back().map(|option| text(&option.value))?;
        value.parse::<u32>().ok().and_then(|ndots| u8::try_from(ndots.min(15)).ok())
    }

    fn searches(&self) -> impl Iterator<Item = Name> {
        let config = self.spec.dns_config.iter().flat_map(|config| &config.searches);
        config.flatten().filter_map(|domain| Name::parse(domain.as_str()).ok())
    }

    fn read(&self, editor: &mut Editor) -> Result<Pod, Unusable> {
        let ips = self.status.pod_ips.iter().flatten().map(|ip| text(&ip.ip));
        let ips = ips.filter(|ip| !ip.is_empty()).map(|ip| address("podIPs", ip));
        let labels = self.metadata.labels.iter().flatten();
        Ok(Pod {
            namespace: editor.text(self.metadata.namespace()),
            name: self.metadata.name().into(),
            ips: ips.collect::<Result<_, _>>()?,
            labels: PodLabels::new(labels.map(|(key, value)| (key.as_str(), value.as_str()))),
            search: Search {
                base: self.base(),
                added: editor.search(self.searches().collect()),
                ndots: self.ndots().unwrap_or(self.base().ndots()),
            },
        })
    }
}

impl<'a> Object<'a> for PodObject<'a> {
    const KIND: Kind = Kind::Pods;
    type Labels = Labels<'a>;

    fn meta(&self) -> &Meta<'a, Labels<'a>> {
        &self.metadata
    }

    fn set(&self, editor: &mut Editor, _: &Source) -> Result<bool, Unusable> {
        if self.metadata.deletion_timestamp.is_some() {
            // A pod that is about to end still asks: what was known of it stays until it is gone,
            // as in CoreDNS.
            editor.keep(Kind::Pods, self.metadata.namespace(), self.metadata.name());
            return Ok(true);
        }
        let pod = self.read(editor)?;
        editor.set_pod(pod);
        Ok(true)
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        editor.remove_pod(self.metadata.namespace(), self.metadata.name());
        Ok(())
    }
}
