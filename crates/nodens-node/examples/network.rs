//! Holds the network of a node for whoever types: `attract`, `back`, `withdraw`, `release` and `quit`.
//!
//! ```text
//! network INTERFACE BACKEND ADDRESS…
//! ```
//!
//! `BACKEND` is `auto`, `nftables`, `iptables-nft` or `iptables-legacy`. What is said goes to
//! standard output, after each command a line with the command and whether queries come here.

#![allow(clippy::print_stdout)]

use nodens_node::network::{Backend, Network, Plan};
use std::io::BufRead;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next().ok_or("no interface")?;
    let backend = match arguments.next().as_deref() {
        Some("auto") => Backend::Auto,
        Some("nftables") => Backend::Nftables,
        Some("iptables-nft") => Backend::IptablesNft,
        Some("iptables-legacy") => Backend::IptablesLegacy,
        _ => return Err("no backend".into()),
    };
    let plan = Plan {
        interface,
        addresses: arguments.map(|ip| ip.parse()).collect::<Result<_, _>>()?,
        dns_port: 53,
        health_port: 8080,
        setup_interface: true,
        setup_rules: true,
        backend,
        sync: Duration::from_secs(60),
    };
    let network = Network::open(plan, None, |level, text| println!("{level:?}: {text}"));
    println!("open");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.trim() {
            "attract" => network.attract(),
            "back" => network.step_back(),
            "withdraw" => network.withdraw(),
            "release" => network.release_rules(),
            "quit" => break,
            other => return Err(format!("what is '{other}'?").into()),
        }
        println!("{line} {}", network.attracting());
    }
    Ok(())
}
