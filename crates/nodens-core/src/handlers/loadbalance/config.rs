//! Reads `loadbalance`.

use super::weights::{Weights, WeightsError};
use super::{Loadbalance, Policy};
use crate::config::{BlockBuilder, Task};
use crate::log::{Level, Sink};
use nodens_corefile::{Directive, Error, take};
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at the weight file.
const RELOAD_DEFAULT: Duration = Duration::from_secs(30);

pub(super) fn read(
    directive: &Directive,
    block: &mut BlockBuilder<'_>,
    handler: &mut Loadbalance,
) -> Result<(), Error> {
    match directive.args() {
        [] => handler.policy = Policy::RoundRobin,
        [policy, rest @ ..] => match policy.text.as_str() {
            "round_robin" => {
                if let [extra, ..] = rest {
                    return Err(Error::invalid(extra, "unknown property for round_robin: expected nothing"));
                }
                handler.policy = Policy::RoundRobin;
            }
            "weighted" => {
                directive.expect_args::<2>()?;
                return read_weighted(directive, block, handler);
            }
            _ => return Err(Error::expected(policy, "a policy, 'round_robin' or 'weighted'")),
        },
    }
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "prefer" => {
                for network in line.args() {
                    handler.prefer.push(take::parse_cidr(network)?);
                }
            }
            _ => return Err(line.unknown_property(&["prefer"])),
        }
    }
    Ok(())
}

fn read_weighted(
    directive: &Directive,
    block: &mut BlockBuilder<'_>,
    handler: &mut Loadbalance,
) -> Result<(), Error> {
    let [_, file] = directive.expect_args()?;
    let mut interval = RELOAD_DEFAULT;
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "reload" => {
                let [time] = line.expect_args()?;
                interval = take::parse_go_duration(time)?;
            }
            _ => return Err(line.unknown_property(&["reload"])),
        }
    }
    let weights = Arc::new(Weights::new(block.path(&file.text)));
    let sink = block.shared.sink.clone();
    let mut known = String::new();
    match look(&weights, &mut known, &sink) {
        Err(error @ WeightsError::Open { .. }) if !interval.is_zero() => {
            let again = take::format_go_duration(interval);
            let text = format!("Failed to open weight file: {error}. Will try again in {again}");
            sink.line(Level::Warning, "loadbalance", text);
        }
        Err(error) => return Err(Error::invalid(file, error.to_string())),
        Ok(()) => {}
    }
    if !interval.is_zero() {
        let (name, weights) = (format!("loadbalance weighted {}", file.text), weights.clone());
        let run = Box::new(move || {
            if let Err(error) = look(&weights, &mut known, &sink) {
                sink.line(Level::Error, "loadbalance", error.to_string());
            }
        });
        block.services.tasks.push(Task { name, interval, run });
    }
    handler.policy = Policy::Weighted(weights);
    handler.prefer.clear();
    Ok(())
}

fn look(weights: &Weights, known: &mut String, sink: &Sink) -> Result<(), WeightsError> {
    if weights.refresh(known)? {
        let text = format!("Successfully reloaded weight file {}", weights.path().display());
        sink.line(Level::Info, "loadbalance", text);
    }
    Ok(())
}
