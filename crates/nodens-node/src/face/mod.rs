//! The face of node-cache: the template of the Corefile, the folders its parts come from, and the
//! name of the upstream service.
//!
//! [`template`] and [`upstream`] decide without input and output; [`kube_dns`] reads one folder.

pub mod kube_dns;
pub mod template;
pub mod upstream;

pub use kube_dns::{FolderError, KubeDns};
pub use template::{Rendered, TemplateError, Values, render};
pub use upstream::{NoEnvironment, Service};
