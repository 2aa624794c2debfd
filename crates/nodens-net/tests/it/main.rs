//! Whole workers over loopback sockets, with upstreams that follow a script.

mod authority;
mod client;
mod connections;
mod encrypted;
mod handover;
mod http;
mod http3;
mod https_upstreams;
mod primaries;
mod proxy;
mod quic;
mod quic_client;
mod quic_upstream;
mod quic_upstreams;
mod reload;
mod secondaries;
mod server;
mod tcp;
mod tls;
mod transfer;
mod udp;
mod upstream;
mod upstreams;
