//! `sign`: signs files of zones as a whole and writes them to other files, which `file` and `auto` serve.

mod config;

use crate::handler::Spec;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("sign", setup);
