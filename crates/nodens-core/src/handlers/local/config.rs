//! Reads `local`.

use nodens_corefile::{Directive, Error};

pub(super) fn read(directive: &Directive, prefix: &mut bool) -> Result<(), Error> {
    directive.expect_no_args()?;
    for line in directive.lines() {
        match line.name.text.as_str() {
            "localhost_prefix" => {
                let [switch] = line.expect_args()?;
                *prefix = match switch.text.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(Error::expected(switch, "'on' or 'off'")),
                };
            }
            _ => return Err(line.unknown_property(&["localhost_prefix"])),
        }
        line.expect_no_body()?;
    }
    Ok(())
}
