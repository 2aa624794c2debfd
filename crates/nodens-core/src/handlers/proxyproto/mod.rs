//! `proxyproto`: clients behind proxies that say who they are.
//!
//! The sockets' owner takes headers off, by the rules that the block's server gets from this.

use crate::config::BlockBuilder;
use crate::handler::{Handle, Job, Spec};
use crate::handlers::Handler;
use crate::proxy::ProxyPolicy;
use nodens_corefile::take::{parse_cidr, parse_go_duration, parse_integer};
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::NameRef;
use std::fmt::Write;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("proxyproto", setup);

/// The label of the TLVs.
const LABEL: &str = "proxyproto/tlv";

/// The directive in a chain, where TLVs are wanted.
#[derive(Debug)]
pub struct Proxyproto;

impl Handle for Proxyproto {
    const LOOKS_AT_QUESTIONS: bool = false;

    fn label(&self, job: &Job, _asked: NameRef<'_>, label: &str) -> Option<String> {
        let tlvs = job.tlvs.as_ref().filter(|_| label == LABEL)?;
        Some(tlvs.iter().fold(String::with_capacity(2 * tlvs.len()), |mut text, octet| {
            _ = write!(text, "{octet:02x}");
            text
        }))
    }
}

/// Reads `proxyproto { allow CIDR… ; default POLICY ; udp_session_tracking DURATION [MAX] ;
/// tlv_metadata }`; several in a block are taken as one.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    let mut proxy = block.settings.proxy.take().unwrap_or_default();
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "allow" => {
                for prefix in line.args() {
                    proxy.allow.push(parse_cidr(prefix)?);
                }
            }
            "default" => {
                let [word] = line.expect_args()?;
                proxy.others = Some(policy(word)?);
            }
            "udp_session_tracking" => {
                let args = line.expect_args_within(1..=2)?;
                if let Some(time) = args.first() {
                    proxy.tracking = tracking(time)?;
                }
                if let Some(max) = args.get(1) {
                    proxy.sessions_max = Some(parse_integer(max, 1..=i64::MAX as usize)?);
                }
            }
            "tlv_metadata" => {
                line.expect_no_args()?;
                proxy.tlvs = true;
            }
            _ => {
                let known = ["allow", "default", "udp_session_tracking", "tlv_metadata"];
                return Err(line.unknown_property(&known));
            }
        }
    }
    let is_in_chain = block.handlers.iter().any(|own| matches!(own, Handler::Proxyproto(_)));
    if proxy.tlvs && !is_in_chain {
        block.push(Proxyproto);
    }
    block.settings.proxy = Some(proxy);
    Ok(())
}

/// A duration; one below zero switches it off, as zero does.
fn tracking(time: &Token) -> Result<Duration, Error> {
    let Some(positive) = time.text.strip_prefix('-') else { return parse_go_duration(time) };
    let token = Token { text: positive.to_owned(), ..time.clone() };
    match positive.starts_with(['-', '+']) || parse_go_duration(&token).is_err() {
        true => parse_go_duration(time),
        false => Ok(Duration::ZERO),
    }
}

fn policy(word: &Token) -> Result<ProxyPolicy, Error> {
    match word.text.to_lowercase().as_str() {
        "use" => Ok(ProxyPolicy::Use),
        "ignore" => Ok(ProxyPolicy::Ignore),
        "reject" => Ok(ProxyPolicy::Reject),
        "skip" => Ok(ProxyPolicy::Skip),
        _ => Err(Error::expected(word, "use, ignore, reject or skip")),
    }
}
