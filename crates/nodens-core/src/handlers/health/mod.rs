//! `health`.

use crate::config::BlockBuilder;
use nodens_corefile::{Directive, Error, Token};

/// Reads the directive.
pub fn setup(_directive: &Directive, _block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    Ok(())
}

/// Checks `[HOST]:PORT`; an empty port or host stands for that of `default`.
pub fn listen_address(token: &Token, default: &str) -> Result<String, Error> {
    let wanted = || Error::expected(token, format!("an address such as {default}"));
    let (host, port) = token.text.rsplit_once(':').ok_or_else(wanted)?;
    let port: u16 = port.parse().map_err(|_| wanted())?;
    Ok(format!("{host}:{port}"))
}
