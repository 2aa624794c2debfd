//! `k8s_external [ZONES…] { options }`.

use super::K8sExternal;
use crate::config::BlockBuilder;
use crate::zones::{Fallthrough, Zones};
use nodens_corefile::{Directive, Error, take};
use nodens_wire::Name;

const OPTIONS: [&str; 4] = ["apex", "ttl", "headless", "fallthrough"];

/// Reads the directive, which may be used once and needs `kubernetes` in the same block.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    if !block.present.contains(&"kubernetes") {
        let text = "kubernetes plugin not loaded: expected kubernetes in the same block";
        return Err(directive.invalid(text));
    }
    let zones = Zones::of(directive.args(), &block.zones)?;
    block.check_catalogs(directive, zones.names())?;
    let (mut ttl, mut headless, mut fallthrough) = (5, false, Fallthrough::default());
    let mut apex = b"\x03dns".to_vec();
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            // Words behind the first are ignored, as CoreDNS does.
            "ttl" => {
                let seconds = line.expect_args_from(1)?.first();
                ttl = seconds.map_or(Ok(ttl), |token| take::parse_integer(token, 0..=3600))?;
            }
            "apex" => apex = labels(line)?,
            "headless" => headless = true,
            "fallthrough" => fallthrough = Fallthrough::of(line.args())?,
            _ => return Err(line.unknown_property(&OPTIONS)),
        }
    }
    let primary = zones.names().first().map(Name::to_folded).unwrap_or_default();
    let mname = [b"\x03ns1", &apex[..]].concat();
    let rname = [b"\x0ahostmaster", &apex[..]].concat();
    block.push(K8sExternal { zones, primary, apex, mname, rname, ttl, headless, fallthrough });
    Ok(())
}

/// The labels of the name in the line, folded.
fn labels(line: &Directive) -> Result<Vec<u8>, Error> {
    let Some(token) = line.expect_args_from(1)?.first() else { return Ok(Vec::new()) };
    let name = Name::parse(&token.text).ok().filter(|name| !name.view().is_root());
    let Some(name) = name else { return Err(Error::expected(token, "a label such as dns")) };
    let mut wire = name.to_folded().as_wire().to_vec();
    wire.pop();
    Ok(wire)
}
