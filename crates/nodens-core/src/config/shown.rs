//! What metrics say of a configuration: nothing until it is taken up, as one that is built may still be refused.

use super::{BlockBuilder, Services};
use crate::metrics::{Gauge, Registry};
use std::fmt;
use std::sync::Arc;

/// A series whose value is read at each scrape.
pub struct NamedGauge {
    /// Of the family.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Of the series.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub read: Gauge,
}

impl NamedGauge {
    /// Shows it in `registry`, in the place of the series with these labels.
    pub(crate) fn show(&self, registry: &Registry) {
        let Self { name, help, labels, read } = self;
        let labels: Vec<_> = labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
        registry.gauge(name, help, &labels, read.clone());
    }
}

impl fmt::Debug for NamedGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name, self.labels)
    }
}

impl Services {
    /// Shows in `registry` what has just been taken up. A configuration that is refused must not be seen in metrics.
    pub fn show(&self, registry: &Registry) {
        let enabled: Vec<_> = self.enabled.iter().map(|labels| (labels.clone(), 1.0)).collect();
        let help = "Always 1: the directive is in use there.";
        registry.gauges("coredns_plugin_enabled", help, Arc::new(move || enabled.clone()));
        self.gauges.iter().for_each(|gauge| gauge.show(registry));
    }
}

impl BlockBuilder<'_> {
    /// Has a series whose value is read at each scrape, once the configuration is taken up.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        read: Gauge,
    ) {
        let labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        self.services.gauges.push(NamedGauge { name, help, labels, read });
    }
}
