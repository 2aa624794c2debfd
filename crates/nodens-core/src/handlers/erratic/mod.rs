//! `erratic`: answers badly on purpose, to test clients.

use crate::config::BlockBuilder;
use crate::handlers::ready;
use crate::handler::{Cx, Event, Handle, Spec, Step};
use nodens_corefile::take::{parse_go_duration, parse_integer};
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Flags, Name, NameRef, Rcode, Section, Type, WireError};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

const ADDRESS_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);
/// How the directive is read.
pub const SPEC: Spec = Spec::new("erratic", setup);

/// Records of a `large` answer, which fits 512 octets only if names are compressed.
const LARGE: usize = 30;

/// The directive at work. Amounts say "one in so many"; 0 is never.
#[derive(Debug)]
pub struct Erratic {
    questions: Arc<AtomicU64>,
    drop: u64,
    delay: u64,
    truncate: u64,
    duration: Duration,
    large: bool,
}

impl Handle for Erratic {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        let each = |amount: u64| amount > 0 && number.is_multiple_of(amount);
        // CoreDNS takes the bits in common here, and not the remainder.
        let truncate = self.truncate > 0 && number & self.truncate == 0;
        if each(self.drop) {
            return Step::Drop;
        }
        // Nothing can be too long for one message, so what is not written is not answered.
        _ = self.write(cx, truncate);
        if each(self.delay) {
            let at = cx.now.plus(self.duration);
            cx.worker.set_timer(cx.job, at);
            return Step::Wait;
        }
        done(cx)
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        if matches!(event, Event::Timer) { done(cx) } else { Step::Wait }
    }
}

fn done(cx: &Cx<'_>) -> Step {
    if cx.job.current.response.written { Step::Answered } else { Step::Fail(Rcode::SERVFAIL) }
}

impl Erratic {
    /// Writes the answer; none for types other than A, AAAA and AXFR.
    fn write(&self, cx: &mut Cx<'_>, truncate: bool) -> Result<(), WireError> {
        let q = cx.q();
        let (qname, qtype) = (q.qname.clone(), q.qtype);
        match qtype {
            Type::A => {
                let mut builder = q.reply(Rcode::NOERROR, true);
                for _ in 0..if self.large { LARGE } else { 1 } {
                    let fields = (Type::A, Class::IN, 0);
                    builder.record(Section::Answer, qname.view(), fields, &ADDRESS_V4.octets())?;
                }
            }
            Type::AAAA => {
                let mut builder = q.reply(Rcode::NOERROR, true);
                let fields = (Type::AAAA, Class::IN, 0);
                builder.record(Section::Answer, qname.view(), fields, &ADDRESS_V6.octets())?;
            }
            Type::AXFR => return transfer(cx, qname.view(), truncate),
            _ => return Ok(()),
        }
        if truncate {
            let flags = q.response.flags().with(Flags::TC, true);
            q.response.set_flags(flags);
        }
        Ok(())
    }
}

/// A small zone; one that is cut short lacks the second SOA.
fn transfer(cx: &mut Cx<'_>, apex: NameRef<'_>, cut: bool) -> Result<(), WireError> {
    let below = |label: &str| Name::parse(label).and_then(|label| label.join(apex));
    let (Ok(a), Ok(b)) = (below("a"), below("b")) else { return Ok(()) };
    let mut soa = Vec::new();
    for name in ["sns.dns.icann.org", "noc.dns.icann.org"] {
        soa.extend_from_slice(Name::parse(name).unwrap_or_default().as_wire());
    }
    for number in [2_018_050_825_u32, 7200, 3600, 1_209_600, 3600] {
        soa.extend(number.to_be_bytes());
    }
    let addresses = ["2001:bd8::53", "2001:500::54"].map(|ip| ip.parse::<Ipv6Addr>());
    let mut builder = cx.q().reply(Rcode::NOERROR, true);
    let mut push = |owner: NameRef<'_>, rtype, rdata: &[u8]| {
        builder.record(Section::Answer, owner, (rtype, Class::IN, 0), rdata)
    };
    push(apex, Type::SOA, &soa)?;
    push(apex, Type::NS, b.as_wire())?;
    push(apex, Type::NS, a.as_wire())?;
    for (owner, address) in [&a, &b].into_iter().zip(addresses.iter().flatten()) {
        push(owner.view(), Type::AAAA, &address.octets())?;
    }
    if cut { Ok(()) } else { push(apex, Type::SOA, &soa) }
}

/// Reads `erratic { drop [N] ; truncate [N] ; delay [N [DURATION]] ; large }`. Like CoreDNS it takes
/// any arguments in front of the body, which mean nothing.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let mut erratic = Erratic {
        questions: Arc::default(),
        drop: 2,
        delay: 0,
        truncate: 0,
        duration: Duration::from_millis(100),
        large: false,
    };
    let mut drop_given = false;
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "drop" => {
                if let [amount] = line.expect_args_within(0..=1)? {
                    erratic.drop = parse_integer(amount, 0..=i32::MAX as u64)?;
                    drop_given = true;
                }
            }
            "truncate" => {
                erratic.truncate = amount(line.expect_args_within(0..=1)?)?;
            }
            "delay" => {
                let args = line.expect_args_within(0..=2)?;
                erratic.delay = amount(args)?;
                if let [_, duration] = args {
                    erratic.duration = parse_go_duration(duration)?;
                }
            }
            "large" => {
                line.expect_no_args()?;
                erratic.large = true;
            }
            _ => return Err(line.unknown_property(&["drop", "truncate", "delay", "large"])),
        }
    }
    // The default is for an empty body only.
    if (erratic.delay > 0 || erratic.truncate > 0) && !drop_given {
        erratic.drop = 0;
    }
    // For tests of `ready`: it becomes ready, and stops being so.
    let questions = erratic.questions.clone();
    ready::wait_for(block, "erratic", move || (3..5).contains(&questions.load(Ordering::Relaxed)));
    block.push(erratic);
    Ok(())
}

fn amount(args: &[nodens_corefile::Token]) -> Result<u64, Error> {
    args.first().map_or(Ok(2), |amount| parse_integer(amount, 0..=i32::MAX as u64))
}
