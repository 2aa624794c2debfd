//! What a DNS server in the node role does to its machine.
//!
//! [`network`] owns the local addresses and the packet filter's rules that bring the queries of
//! a node's pods to this process instead of the central DNS servers. All of it hangs on
//! descriptors: it lives exactly as long as a process holds them, so that nothing diverts
//! queries to a process that has ended, however it ended.
//!
//! [`face`] is what node-cache's operators see: its template of a Corefile, its ConfigMap folders,
//! and the ways to name the upstream service.
//!
//! What is deliberately absent: answers, and any watch over the server's health. Whoever uses this
//! crate says when queries shall come here and when not.

#![forbid(unsafe_code)]

pub mod face;
pub mod handover;
pub mod network;
