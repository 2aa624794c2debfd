//! Real settings of the kernel in network namespaces of the tests' own. Needs root, `ip` and `tc`.
//!
//! This program is also the keeper and what is killed: tests start it again with a filter that runs
//! one of [`roles`].

mod document;
mod exclusive;
mod killed;
mod listeners;
mod namespaces;
mod restored;
mod roles;
mod world;
