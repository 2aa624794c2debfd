//! Services and service imports.

use super::{Meta, NoLabels, Object, Text, Unusable, address, text};
use crate::protobuf::{Malformed, Message, Value};
use nodens_core::cluster::{
    Editor, External, Key, Kind, Port, Protocol, Scope, Service, ServiceKind, Source,
};
use serde::Deserialize;
use std::net::IpAddr;

/// A Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, rename = "externalName")]
    external_name: Option<Text<'a>>,
    #[serde(borrow, rename = "clusterIP")]
    cluster_ip: Option<Text<'a>>,
    #[serde(borrow, rename = "clusterIPs")]
    cluster_ips: Option<Vec<Text<'a>>>,
    #[serde(borrow, rename = "externalIPs")]
    external_ips: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    ports: Option<Vec<PortObject<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    load_balancer: Option<LoadBalancer<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer<'a> {
    #[serde(borrow)]
    ingress: Option<Vec<Ingress<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ingress<'a> {
    #[serde(borrow)]
    ip: Option<Text<'a>>,
    #[serde(borrow)]
    hostname: Option<Text<'a>>,
}

/// A port of a service, a service import or a slice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PortObject<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    protocol: Option<Text<'a>>,
    port: Option<u16>,
}

impl<'a> Message<'a> for ServiceObject<'a> {
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
            1 => value.push_onto(&mut self.ports)?,
            3 => self.cluster_ip = Some(value.text()?),
            4 => self.kind = Some(value.text()?),
            5 => value.push_text(&mut self.external_ips)?,
            10 => self.external_name = Some(value.text()?),
            18 => value.push_text(&mut self.cluster_ips)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Status<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.merge_into(self.load_balancer.get_or_insert_default()),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for LoadBalancer<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.push_onto(&mut self.ingress),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for Ingress<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.ip = Some(value.text()?),
            2 => self.hostname = Some(value.text()?),
            _ => {}
        }
        Ok(())
    }
}

/// Ports of services and of slices have the same numbers of fields.
impl<'a> Message<'a> for PortObject<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = Some(value.text()?),
            2 => self.protocol = Some(value.text()?),
            3 => {
                let port = u16::try_from(value.number()?);
                self.port = Some(port.map_err(|_| Malformed::Expected("a port up to 65535"))?);
            }
            _ => {}
        }
        Ok(())
    }
}

impl PortObject<'_> {
    fn read(&self) -> Result<Port, Unusable> {
        let protocol = match text(&self.protocol) {
            "" => Protocol::default(),
            found => Protocol::parse(found).ok_or_else(|| Unusable::Value {
                field: "protocol",
                expected: "TCP, UDP or SCTP",
                found: found.to_owned(),
            })?,
        };
        Ok(Port { name: text(&self.name).into(), protocol, number: self.port })
    }
}

/// The ports, each list of them in memory once.
pub(super) fn ports(
    objects: &Option<Vec<PortObject<'_>>>,
    editor: &mut Editor,
) -> Result<std::sync::Arc<[Port]>, Unusable> {
    let ports = objects.iter().flatten().map(PortObject::read);
    Ok(editor.ports(ports.collect::<Result<_, _>>()?))
}

impl ServiceObject<'_> {
    fn kind(&self) -> ServiceKind {
        if text(&self.spec.kind) == "ExternalName" {
            return ServiceKind::ExternalName(text(&self.spec.external_name).into());
        }
        match self.cluster_ips().next() {
            Some("None") => ServiceKind::Headless,
            _ => ServiceKind::ClusterIp,
        }
    }

    /// `clusterIPs`; servers that do not have it yet only give `clusterIP`.
    fn cluster_ips(&self) -> impl Iterator<Item = &str> {
        let several = self.spec.cluster_ips.as_deref().unwrap_or_default();
        let single = self.spec.cluster_ip.as_ref().filter(|_| several.is_empty());
        let all = several.iter().chain(single).map(Text::as_str);
        all.filter(|found| !found.is_empty())
    }

    fn addresses(&self) -> Result<Box<[IpAddr]>, Unusable> {
        match self.kind() {
            ServiceKind::ClusterIp => {
                self.cluster_ips().map(|found| address("clusterIPs", found)).collect()
            }
            ServiceKind::Headless | ServiceKind::ExternalName(_) => Ok(Box::default()),
        }
    }

    fn external(&self) -> impl Iterator<Item = External> {
        let place = |found: &str| {
            let parsed = address("external address", found).map(External::Address);
            parsed.unwrap_or_else(|_| External::Host(found.into()))
        };
        let ingress = self.status.load_balancer.iter().flat_map(|balancer| &balancer.ingress);
        let ingress = ingress.flatten().map(|ingress| match text(&ingress.ip) {
            "" => text(&ingress.hostname),
            ip => ip,
        });
        let fixed = self.spec.external_ips.iter().flatten().map(Text::as_str);
        fixed.chain(ingress).filter(|found| !found.is_empty()).map(place)
    }
}

impl<'a> Object<'a> for ServiceObject<'a> {
    const KIND: Kind = Kind::Services;
    type Labels = NoLabels;

    fn meta(&self) -> &Meta<'a> {
        &self.metadata
    }

    fn set(&self, editor: &mut Editor, source: &Source) -> Result<bool, Unusable> {
        let key = Key::new(self.metadata.namespace(), self.metadata.name())?;
        if source.scope == Scope::Names {
            editor.set_name(&key);
            return Ok(true);
        }
        let (kind, cluster_ips) = (self.kind(), self.addresses()?);
        let ports = ports(&self.spec.ports, editor)?;
        let external = self.external().collect();
        editor.set_service(Service { key, kind, cluster_ips, ports, external });
        Ok(true)
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        editor.remove_service(&Key::new(self.metadata.namespace(), self.metadata.name())?);
        Ok(())
    }
}

/// A Service whose addresses are wanted where names are enough of others: that of the API server,
/// or one of `kube-system`.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct WitnessObject<'a, const API: bool>(#[serde(borrow)] ServiceObject<'a>);

impl<'a, const API: bool> Message<'a> for WitnessObject<'a, API> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0.field(number, value)
    }
}

impl<'a, const API: bool> Object<'a> for WitnessObject<'a, API> {
    const KIND: Kind = if API { Kind::ApiService } else { Kind::SystemServices };
    type Labels = NoLabels;

    fn meta(&self) -> &Meta<'a, NoLabels> {
        self.0.meta()
    }

    fn set(&self, editor: &mut Editor, _: &Source) -> Result<bool, Unusable> {
        let meta = self.0.meta();
        editor.set_witness(&Key::new(meta.namespace(), meta.name())?, &self.0.addresses()?);
        Ok(true)
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        let meta = self.0.meta();
        editor.remove_witness(&Key::new(meta.namespace(), meta.name())?);
        Ok(())
    }
}

/// A ServiceImport.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ImportObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: ImportSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImportSpec<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    ips: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    ports: Option<Vec<PortObject<'a>>>,
}

/// A kind that is defined by another object has no messages.
impl<'a> Message<'a> for ImportObject<'a> {
    fn field(&mut self, _: u32, _: Value<'a>) -> Result<(), Malformed> {
        Err(Malformed::Expected("a service import in JSON"))
    }
}

impl<'a> Object<'a> for ImportObject<'a> {
    const KIND: Kind = Kind::Imports;
    type Labels = NoLabels;

    fn meta(&self) -> &Meta<'a> {
        &self.metadata
    }

    fn set(&self, editor: &mut Editor, _: &Source) -> Result<bool, Unusable> {
        let key = Key::new(self.metadata.namespace(), self.metadata.name())?;
        let kind = match text(&self.spec.kind) {
            "Headless" => ServiceKind::Headless,
            _ => ServiceKind::ClusterIp,
        };
        let ips = self.spec.ips.iter().flatten().map(|found| address("ips", found.as_str()));
        let cluster_ips = ips.collect::<Result<_, _>>()?;
        let ports = ports(&self.spec.ports, editor)?;
        let external = Box::default();
        editor.set_import(Service { key, kind, cluster_ips, ports, external });
        Ok(true)
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        editor.remove_import(&Key::new(self.metadata.namespace(), self.metadata.name())?);
        Ok(())
    }
}
