//! The network of a node, in network namespaces. Needs root, iproute2, nftables and iptables.

#![allow(missing_docs)]

mod faults;
mod fixture;
mod handover;
mod life;
mod rules;
