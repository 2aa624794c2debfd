//! `health`: an HTTP endpoint that says the process lives, and time to leave in peace.

use crate::config::{BlockBuilder, HealthService};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error, Token, take};
use std::net::Ipv6Addr;
use std::time::Duration;

#[cfg(test)]
mod tests;

const DEFAULT_ADDRESS: &str = ":8080";

/// How the directive is read.
pub const SPEC: Spec = Spec::new("health", setup);

/// Reads `health [ADDRESS] { lameduck DURATION }`.
///
/// Endpoints with the same address are one; it waits the longest of their times.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let address = match directive.expect_args_within(0..=1)? {
        [] => DEFAULT_ADDRESS.to_owned(),
        [address, ..] => listen_address(address, DEFAULT_ADDRESS)?,
    };
    let mut lameduck = Duration::ZERO;
    for property in directive.lines() {
        match property.name.text.as_str() {
            "lameduck" => {
                let [value] = property.expect_args()?;
                property.expect_no_body()?;
                lameduck = take::parse_go_duration(value)?;
            }
            _ => return Err(property.unknown_property(&["lameduck"])),
        }
    }
    let services = &mut block.services.health;
    match services.iter_mut().find(|service| service.address == address) {
        Some(service) => service.lameduck = service.lameduck.max(lameduck),
        None => services.push(HealthService { address, lameduck }),
    }
    Ok(())
}

/// Checks `[HOST]:PORT`; an IPv6 address stands in brackets, an empty host means every address.
///
/// # Errors
/// If there is no port, or the host is not an address or a name. `example` is shown.
pub fn listen_address(token: &Token, example: &str) -> Result<String, Error> {
    let wanted = || Error::expected(token, format!("an address and port such as {example}"));
    let (host, port) = token.text.rsplit_once(':').ok_or_else(wanted)?;
    let port: u16 = port.parse().map_err(|_| wanted())?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let usable = match bracketed {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => !host.contains([':', '[', ']', '/']),
    };
    if usable { Ok(format!("{host}:{port}")) } else { Err(wanted()) }
}
