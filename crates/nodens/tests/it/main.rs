//! Whole-server tests: the real binary, real sockets, real clients.

mod clients;
mod deploy;
mod dnstap;
mod encrypted;
mod face;
mod faults;
mod fixture;
mod flood;
mod forward;
mod handover;
mod insight;
mod load;
mod machine;
mod memory;
mod node;
mod output;
mod overload;
mod pod;
mod readmes;
mod reload;
mod scrape;
mod search;
mod standby;
mod stuck;
mod unread;
mod upstreams;
