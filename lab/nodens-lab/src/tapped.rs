//! Which messages of dnstap are taken, as users say it.

use clap::ValueEnum;
use lab_workload::dnstap::Role;

/// A role of dnstap, as users write it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    Auth,
    Resolver,
    Client,
    Forwarder,
    Stub,
    Tool,
    Update,
}

/// The roles that are named, or those of clients.
pub(crate) fn roles(names: &[RoleName]) -> Vec<Role> {
    let role = |name: &RoleName| match name {
        RoleName::Auth => Role::Auth,
        RoleName::Resolver => Role::Resolver,
        RoleName::Client => Role::Client,
        RoleName::Forwarder => Role::Forwarder,
        RoleName::Stub => Role::Stub,
        RoleName::Tool => Role::Tool,
        RoleName::Update => Role::Update,
    };
    if names.is_empty() { Role::OF_CLIENTS.to_vec() } else { names.iter().map(role).collect() }
}
