//! Endpoint slices, of services and of service imports.

use super::service::{PortObject, ports};
use super::{Labels, Meta, Object, Text, Unusable, address, text};
use crate::protobuf::{Malformed, Message, Value};
use nodens_core::cluster::{Editor, Key, Kind, NewEndpoint, ObjectError, Slice, Source};
use serde::Deserialize;

/// The labels of a slice that matter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SliceLabels<'a> {
    #[serde(borrow, rename = "kubernetes.io/service-name")]
    service: Option<Text<'a>>,
    #[serde(borrow, rename = "multicluster.kubernetes.io/service-name")]
    import: Option<Text<'a>>,
    #[serde(borrow, rename = "multicluster.kubernetes.io/source-cluster")]
    cluster: Option<Text<'a>>,
}

/// An EndpointSlice of a service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SliceObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a, SliceLabels<'a>>,
    #[serde(borrow)]
    ports: Option<Vec<PortObject<'a>>>,
    #[serde(borrow)]
    endpoints: Option<Vec<EndpointObject<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EndpointObject<'a> {
    #[serde(borrow)]
    addresses: Option<Vec<Text<'a>>>,
    conditions: Option<Conditions>,
    #[serde(borrow)]
    hostname: Option<Text<'a>>,
    #[serde(borrow)]
    target_ref: Option<TargetRef<'a>>,
    #[serde(borrow)]
    zone: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TargetRef<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

impl<'a> Labels<'a> for SliceLabels<'a> {
    fn add(&mut self, pair: Value<'a>) -> Result<(), Malformed> {
        let pair = pair.pair()?;
        match pair.key() {
            b"kubernetes.io/service-name" => self.service = Some(pair.value()?),
            b"multicluster.kubernetes.io/service-name" => self.import = Some(pair.value()?),
            b"multicluster.kubernetes.io/source-cluster" => self.cluster = Some(pair.value()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for SliceObject<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.merge_into(&mut self.metadata),
            2 => value.push_onto(&mut self.endpoints),
            3 => value.push_onto(&mut self.ports),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for EndpointObject<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.push_text(&mut self.addresses)?,
            2 => value.merge_into(self.conditions.get_or_insert_default())?,
            3 => self.hostname = Some(value.text()?),
            4 => value.merge_into(self.target_ref.get_or_insert_default())?,
            7 => self.zone = Some(value.text()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Conditions {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.ready = Some(value.truth()?);
        }
        Ok(())
    }
}

impl<'a> Message<'a> for TargetRef<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 3 {
            self.name = Some(value.text()?);
        }
        Ok(())
    }
}

impl EndpointObject<'_> {
    /// Nothing said means ready, as the API defines it.
    fn is_ready(&self) -> bool {
        self.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    }
}

impl SliceObject<'_> {
    fn labels(&self) -> Option<&SliceLabels<'_>> {
        self.metadata.labels.as_ref()
    }

    fn key(&self, service: Option<&Text<'_>>) -> Result<Key, ObjectError> {
        Key::new(self.metadata.namespace(), service.map_or("", Text::as_str))
    }

    fn read(
        &self,
        service: Key,
        cluster: &str,
        editor: &mut Editor,
        source: &Source,
    ) -> Result<Slice, Unusable> {
        let id = editor.slice_id(service, self.metadata.name());
        let ports = ports(&self.ports, editor)?;
        let ready = self.endpoints.iter().flatten().filter(|endpoint| endpoint.is_ready());
        let zones: Vec<String> = match source.zones {
            true => ready.clone().map(|endpoint| text(&endpoint.zone).to_lowercase()).collect(),
            false => Vec::new(),
        };
        let mut found = Vec::new();
        for (at, endpoint) in ready.enumerate() {
            let hostname = text(&endpoint.hostname);
            let pod = endpoint.target_ref.as_ref().filter(|_| source.pod_names);
            let pod = pod.map_or("", |target| text(&target.name));
            let zone = zones.get(at).map_or("", String::as_str);
            for address in endpoint.addresses.iter().flatten() {
                let address = self::address("addresses", address.as_str())?;
                found.push(NewEndpoint { address, hostname, pod, zone });
            }
        }
        Ok(Slice::new(id, cluster, ports, found))
    }
}

impl<'a> Object<'a> for SliceObject<'a> {
    const KIND: Kind = Kind::Slices;
    type Labels = SliceLabels<'a>;

    fn meta(&self) -> &Meta<'a, SliceLabels<'a>> {
        &self.metadata
    }

    fn set(&self, editor: &mut Editor, source: &Source) -> Result<bool, Unusable> {
        let service = self.key(self.labels().and_then(|labels| labels.service.as_ref()))?;
        let slice = self.read(service, "", editor, source)?;
        Ok(editor.set_slice(slice))
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        editor.remove_slice(self.metadata.namespace(), self.metadata.name());
        Ok(())
    }

    fn service_of_slice(&self) -> Option<Key> {
        self.key(self.labels()?.service.as_ref()).ok()
    }
}

/// An EndpointSlice of a service import.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct ImportSliceObject<'a>(#[serde(borrow)] SliceObject<'a>);

impl<'a> Message<'a> for ImportSliceObject<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0.field(number, value)
    }
}

impl<'a> Object<'a> for ImportSliceObject<'a> {
    const KIND: Kind = Kind::ImportSlices;
    type Labels = SliceLabels<'a>;

    fn meta(&self) -> &Meta<'a, SliceLabels<'a>> {
        &self.0.metadata
    }

    fn set(&self, editor: &mut Editor, source: &Source) -> Result<bool, Unusable> {
        let labels = self.0.labels();
        let service = self.0.key(labels.and_then(|labels| labels.import.as_ref()))?;
        let cluster = labels.map_or("", |labels| text(&labels.cluster));
        let slice = self.0.read(service, cluster, editor, source)?;
        editor.set_import_slice(slice);
        Ok(true)
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        let meta = &self.0.metadata;
        editor.remove_import_slice(meta.namespace(), meta.name());
        Ok(())
    }
}
