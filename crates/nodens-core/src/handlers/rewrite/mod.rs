//! `rewrite`: changes questions on the way in and undoes it on the way out.
//!
//! [`rules`] says what a rule matches and does, [`edns`] what it does to options, [`text`] how
//! names look to patterns. A `cname` rule needs the response before it can act, so with one the
//! rest of the chain is a nested lookup.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Event, Handle, Lookup, Resolution, Scope, Spec, Step};
use crate::handlers::{Handler, LookupState};
use crate::metadata;
use crate::limits::REWRITTEN_CNAMES_MAX;
use crate::response::octets_of;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Message, Name, NameRef, Rcode, Type};
use rules::{Action, NameRule, Rule};

mod config;
mod edns;
mod rules;
#[cfg(test)]
mod tests;
mod text;
mod undo;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("rewrite", setup);

/// The directive at work: all its rules of one server block.
#[derive(Debug, Default)]
pub struct Rewrite {
    rules: Vec<Rule>,
    /// Options of these codes are repeated in responses, as in CoreDNS.
    codes: Vec<u16>,
}

/// Reads one `rewrite`; rules of one block act in the order of the Corefile.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let rule = config::read(directive)?;
    let at = block.handlers.iter().position(|handler| matches!(handler, Handler::Rewrite(_)));
    let mut handler = match at.map(|at| block.handlers.remove(at)) {
        Some(Handler::Rewrite(handler)) => handler,
        _ => Rewrite::default(),
    };
    if let Action::Edns(rule) = &rule.action
        && !matches!(rule.code, edns::NSID | edns::SUBNET)
    {
        handler.codes.push(rule.code);
    }
    handler.rules.push(rule);
    block.push(handler);
    Ok(())
}

/// What the handler has to undo.
#[derive(Debug, Default)]
pub struct State {
    /// The question before the first rule that changed it.
    original: Option<(Name, Type, Class)>,
    /// Rules that matched and have something to do to the response, in order.
    undo: Vec<Undo>,
    /// A `stop` rule matched.
    stopped: bool,
    /// The name in lower case as text; empty if it is not known yet.
    text: String,
}

impl State {
    /// Forgets everything but buffers.
    #[inline]
    pub fn clear(&mut self) {
        self.stopped = false;
        self.text.clear();
        if self.original.is_some() || !self.undo.is_empty() {
            self.forget_rules();
        }
    }

    /// Octets of memory that names and options take which it has changed.
    pub(crate) fn octets(&self) -> usize {
        let data = |undo: &Undo| match undo {
            Undo::EdnsReplaced { data, .. } => data.capacity(),
            _ => 0,
        };
        let undo = self.undo.capacity() * size_of::<Undo>();
        self.text.capacity() + undo + self.undo.iter().map(data).sum::<usize>()
    }

    fn forget_rules(&mut self) {
        self.original = None;
        self.undo.clear();
    }

    fn text(&mut self, name: NameRef<'_>) -> &str {
        if self.text.is_empty() {
            text::push_name(name, &mut self.text);
            self.text.make_ascii_lowercase();
        }
        &self.text
    }

    /// Keeps the question as it is before the first change.
    fn keep(&mut self, q: &Resolution) {
        self.original.get_or_insert_with(|| (q.qname.clone(), q.qtype, q.qclass));
    }
}

/// One thing to do to the response.
#[derive(Debug)]
enum Undo {
    /// What rule number so-and-so says about responses.
    Rule(usize),
    /// Names that end with the first end with the second.
    Remap { from: Name, to: Name },
    /// The request's option did not exist.
    EdnsAdded(u16),
    /// The request's option was another.
    EdnsReplaced { code: u16, data: Vec<u8> },
}

/// What a `cname` rule remembers between lookups.
#[derive(Debug)]
pub enum CnameState {
    /// The rest of the chain answers.
    Chain,
    /// The new target is being looked up; this response goes in front of what comes.
    Target(Box<Message>),
}

impl CnameState {
    /// Octets of memory that what it keeps takes.
    pub(crate) fn octets(&self) -> usize {
        let Self::Target(message) = self else { return 0 };
        let sections = [&message.answer, &message.authority, &message.additional];
        sections.into_iter().map(octets_of).sum()
    }
}

impl Handle for Rewrite {
    const NOTES_DROPS: bool = true;

    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let mut state = std::mem::take(&mut cx.q().state.rewrite);
        state.clear();
        let valid = self.apply(cx, &mut state);
        let follows_cname = self.cname_rules(&state).next().is_some();
        let q = cx.q();
        q.state.rewrite = state;
        if !valid {
            undo::restore(q);
            q.state.rewrite.clear();
            return Step::Fail(Rcode::SERVFAIL);
        }
        if !follows_cname || !cx.job.may_look_up() {
            return Step::Next;
        }
        let q = cx.q();
        q.state.lookup = LookupState::Rewrite(CnameState::Chain);
        let (qname, qtype, qclass) = (q.qname.clone(), q.qtype, q.qclass);
        Step::Lookup(Lookup { qname, qtype, qclass, scope: Scope::Behind })
    }

    fn resumed(&self, cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        let Some(inner) = cx.job.inner.take() else { return Step::Fail(Rcode::SERVFAIL) };
        match std::mem::take(&mut cx.q().state.lookup) {
            LookupState::Rewrite(CnameState::Target(message)) => {
                let (answer, truncated) = undo::answers_of(&inner.response);
                self.undo(cx, Some(undo::Followed { message, answer, truncated }));
                Step::Answered
            }
            _ => self.follow(cx, *inner),
        }
    }

    fn amend(&self, cx: &mut Cx<'_>) {
        if cx.q().response.dropped {
            undo::restore(cx.q());
            return;
        }
        self.undo(cx, None);
    }
}

impl Rewrite {
    /// Applies the rules to the question; false if a rule made a name that is none.
    fn apply(&self, cx: &mut Cx<'_>, state: &mut State) -> bool {
        for (index, rule) in self.rules.iter().enumerate() {
            let matched = match &rule.action {
                Action::Type { from, to } if cx.q().qtype == *from => {
                    state.keep(cx.q());
                    cx.q().qtype = *to;
                    true
                }
                Action::Class { from, to } if cx.q().qclass == *from => {
                    state.keep(cx.q());
                    cx.q().qclass = *to;
                    true
                }
                Action::Type { .. } | Action::Class { .. } => false,
                Action::Name(rule) => match rename(rule, index, cx, state) {
                    Ok(matched) => matched,
                    Err(invalid) => {
                        cx.job.error = format!("invalid name after rewrite: {invalid}");
                        return false;
                    }
                },
                Action::Edns(rule) => rule.apply(cx, &mut state.undo),
                Action::Response { names, .. } => {
                    let qname = cx.q().qname.view();
                    let matched = names.matches(qname, || state.text(qname));
                    if matched {
                        state.undo.push(Undo::Rule(index));
                    }
                    matched
                }
                Action::Cname(_) => {
                    state.undo.push(Undo::Rule(index));
                    true
                }
            };
            if matched && rule.stop {
                state.stopped = true;
                break;
            }
        }
        true
    }

    fn cname_rules<'r>(&'r self, state: &'r State) -> impl Iterator<Item = &'r rules::CnameRule> {
        state.undo.iter().rev().filter_map(|undo| match undo {
            Undo::Rule(index) => match &self.rules.get(*index)?.action {
                Action::Cname(rule) => Some(rule),
                _ => None,
            },
            _ => None,
        })
    }

    /// Takes the chain's response; if a rule gives a CNAME in it another target, looks that up.
    fn follow(&self, cx: &mut Cx<'_>, inner: Resolution) -> Step {
        // At the bound of all lookups the response stays as it is, as in CoreDNS.
        let may_look_up = cx.job.may_look_up();
        let q = cx.q();
        q.response = inner.response;
        if let Some((message, target)) = self.new_target(q).filter(|_| may_look_up) {
            q.state.lookup = LookupState::Rewrite(CnameState::Target(Box::new(message)));
            let (qtype, qclass) = (q.qtype, q.qclass);
            return Step::Lookup(Lookup { qname: target, qtype, qclass, scope: Scope::Server });
        }
        self.undo(cx, None);
        let response = &cx.q().response;
        if response.written { Step::Answered } else { Step::Fail(response.rcode) }
    }

    /// The response up to the CNAME that gets another target, and that target.
    fn new_target(&self, q: &Resolution) -> Option<(Message, Name)> {
        // An answer of several messages is a zone and not the way to a target.
        if q.response.rest.is_some() {
            return None;
        }
        let mut message = Message::parse(&q.response.wire).ok()?;
        message.answer.retain(|record| record.rtype == Type::CNAME);
        let mut looked_at = message.answer.iter().enumerate().take(REWRITTEN_CNAMES_MAX);
        let found = looked_at.find_map(|(at, record)| {
            let old = rules::leading_name(&record.rdata)?;
            let new = self.cname_rules(&q.state.rewrite).find_map(|rule| rule.new_target(old))?;
            Some((at, new))
        });
        let (at, new) = found?;
        message.answer.truncate(at + 1);
        message.answer.get_mut(at)?.rdata = new.as_wire().to_vec();
        Some((message, new))
    }
}

/// Applies a `name` rule: whether it matched, or what it made if that is no name.
fn rename(
    rule: &NameRule,
    index: usize,
    cx: &mut Cx<'_>,
    state: &mut State,
) -> Result<bool, String> {
    let q = cx.q();
    if !rule.names.matches(q.qname.view(), || state.text(q.qname.view())) {
        return Ok(false);
    }
    let text = state.text(q.qname.view()).to_owned();
    let Some(new) = rule.new_name(&text, |label| metadata::value(cx, label)) else {
        return Ok(false);
    };
    let Some(name) = text::parse_name(&new) else { return Err(new) };
    state.keep(cx.q());
    let old = std::mem::replace(&mut cx.q().qname, name);
    state.text.clear();
    if rule.auto {
        let (from, to) = (cx.q().qname.clone(), old.to_folded());
        state.undo.push(Undo::Remap { from, to });
    }
    if !rule.answers.is_empty() {
        state.undo.push(Undo::Rule(index));
    }
    Ok(true)
}
