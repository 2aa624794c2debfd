//! The way out: the client gets back its question, and names, TTLs and RCODE as the rules say.

use super::rules::{Change, change_value};
use super::{Rewrite, State, Undo, edns};
use crate::handler::{Cx, Resolution};
use crate::response::Response;
use nodens_wire::edns::{Options, push_option};
use nodens_wire::message::Question;
use nodens_wire::{Flags, HEADER_LEN, Header, Message, Name, NameRef, Rcode, Record, RecordView, Records, Section, Type};

/// A response whose CNAME has another target, and what there is at that target.
pub(super) struct Followed {
    pub(super) message: Box<Message>,
    pub(super) answer: Vec<Record>,
    pub(super) truncated: bool,
}

/// The answer section of a nested lookup, and whether it was cut.
pub(super) fn answers_of(response: &Response) -> (Vec<Record>, bool) {
    let message = Message::parse(&response.wire).unwrap_or_default();
    (message.answer, message.flags.has(Flags::TC))
}

/// Gives the resolution its question back.
pub(super) fn restore(q: &mut Resolution) -> bool {
    let Some((qname, qtype, qclass)) = q.state.rewrite.original.take() else { return false };
    (q.qname, q.qtype, q.qclass) = (qname, qtype, qclass);
    true
}

impl Rewrite {
    /// Undoes what the rules did, in reverse.
    pub(super) fn undo(&self, cx: &mut Cx<'_>, followed: Option<Followed>) {
        let q = cx.q();
        let changed = restore(q);
        let state = std::mem::take(&mut q.state.rewrite);
        let engaged = state.stopped || !state.undo.is_empty();
        if q.response.written || engaged {
            self.change_response(q, &state, changed, followed);
            self.repeat_options(cx, &state);
        }
        cx.q().state.rewrite = state;
    }

    fn change_response(
        &self,
        q: &mut Resolution,
        state: &State,
        changed: bool,
        followed: Option<Followed>,
    ) {
        if !q.response.written {
            // So that what the rules say about responses holds for the server's errors too.
            let rcode = q.response.rcode;
            q.reply(rcode, false);
        }
        let done = match followed {
            Some(followed) => {
                let Followed { mut message, answer, truncated } = followed;
                self.change_message(&mut message, q, state);
                message.answer.extend(answer);
                message.flags = message.flags.with(Flags::TC, truncated);
                message.write(&mut q.response.wire)
            }
            None if self.is_simple(state) && (!changed || patch_question(q)) => {
                self.change_ttls(&mut q.response.wire, state);
                Ok(())
            }
            None => {
                let mut wire = std::mem::take(&mut q.response.wire);
                let written = Message::parse(&wire).and_then(|mut message| {
                    self.change_message(&mut message, q, state);
                    message.write(&mut wire)
                });
                q.response.wire = wire;
                written
            }
        };
        if done.is_err() {
            // A response that cannot be read cannot be given its question back either.
            q.reply(Rcode::SERVFAIL, false);
        }
        for change in state.undo.iter().rev().flat_map(|undo| self.changes(undo)) {
            if let Change::Rcode { from, to } = change
                && q.response.rcode == *from
            {
                q.response.rcode = *to;
                q.response.set_flags(q.response.flags().with_rcode(*to));
            }
        }
    }

    fn changes(&self, undo: &Undo) -> &[Change] {
        match undo {
            Undo::Rule(index) => self.rules.get(*index).map_or(&[], |rule| rule.changes()),
            Undo::Remap { .. } | Undo::EdnsAdded(_) | Undo::EdnsReplaced { .. } => &[],
        }
    }

    /// Whether no name of the response is to be changed.
    fn is_simple(&self, state: &State) -> bool {
        let names = |change: &Change| matches!(change, Change::Owner(_) | Change::Value(_));
        !state.undo.iter().any(|undo| {
            matches!(undo, Undo::Remap { .. }) || self.changes(undo).iter().any(names)
        })
    }

    /// Changes TTLs in place; a message that cannot be read to its end is left to the server.
    fn change_ttls(&self, wire: &mut [u8], state: &State) {
        let limits = |change: &Change| match change {
            Change::Ttl { least, most } => Some((*least, *most)),
            _ => None,
        };
        let limits = || state.undo.iter().rev().flat_map(|u| self.changes(u)).filter_map(limits);
        let (Ok(header), Ok(records)) = (Header::read(wire), Records::of(wire)) else { return };
        if limits().next().is_none() {
            return;
        }
        let mut at = records.at();
        for _ in 0..header.counts.iter().skip(1).map(|count| usize::from(*count)).sum() {
            let next = Records::new(wire, at, [0, 1, 0, 0]).next();
            let Some(Ok(record)) = next else { return };
            at = record.end();
            let ttl = limits().fold(record.ttl, |ttl, (least, most)| ttl.clamp(least, most));
            if record.rtype != Type::OPT
                && let Some(octets) = wire.get_mut(record.ttl_at..record.ttl_at + 4)
            {
                octets.copy_from_slice(&ttl.to_be_bytes());
            }
        }
    }

    /// The question, and every record but OPT.
    fn change_message(&self, message: &mut Message, q: &Resolution, state: &State) {
        let question = Question { qname: q.qname.clone(), qtype: q.qtype, qclass: q.qclass };
        match message.questions.first_mut() {
            Some(first) => *first = question,
            None => message.questions.push(question),
        }
        for section in Section::ALL {
            let records = message.section_mut(section).iter_mut();
            for record in records.filter(|record| record.rtype != Type::OPT) {
                self.change_record(record, state);
            }
        }
    }

    fn change_record(&self, record: &mut Record, state: &State) {
        for undo in state.undo.iter().rev() {
            for change in self.changes(undo).iter().rev() {
                change.apply(record);
            }
            if let Undo::Remap { from, to } = undo {
                change_value(record, |name| remap(name, from, to));
                if let Some(owner) = remap(record.owner.view(), from, to) {
                    record.owner = owner;
                }
            }
        }
    }

    /// Repeats the request's options in a response without options, as CoreDNS does with those
    /// that a `local` rule names.
    fn repeat_options(&self, cx: &mut Cx<'_>, state: &State) {
        if self.codes.is_empty() || cx.job.query.edns.is_none() {
            return;
        }
        let q = cx.q();
        let Some(edns) = &q.edns else { return };
        let opt = |record: RecordView| record.rtype == Type::OPT;
        if Records::of(&q.response.wire).is_ok_and(|mut all| all.any(|r| r.is_ok_and(opt))) {
            return;
        }
        let mut options = edns.options.clone();
        for undo in state.undo.iter().rev() {
            match undo {
                Undo::EdnsAdded(code) => edns::remove_first(&mut options, *code),
                Undo::EdnsReplaced { code, data } => edns::replace_first(&mut options, *code, data),
                Undo::Rule(_) | Undo::Remap { .. } => {}
            }
        }
        for (code, data) in Options::new(&options).filter(|(code, _)| self.codes.contains(code)) {
            push_option(&mut q.response.options, code, data);
        }
    }
}

/// Corrects type and class of the question; false if the name is another one.
fn patch_question(q: &mut Resolution) -> bool {
    let qname = q.qname.as_wire();
    let end = HEADER_LEN + qname.len();
    let Some(question) = q.response.wire.get_mut(HEADER_LEN..end + 4) else { return false };
    let Some((name, rest)) = question.split_at_mut_checked(qname.len()) else { return false };
    if !name.eq_ignore_ascii_case(qname) {
        return false;
    }
    let [t0, t1] = q.qtype.0.to_be_bytes();
    let [c0, c1] = q.qclass.0.to_be_bytes();
    rest.copy_from_slice(&[t0, t1, c0, c1]);
    true
}

/// `name` with `to` in place of `from` at its end.
fn remap(name: NameRef<'_>, from: &Name, to: &Name) -> Option<Name> {
    if !name.is_in_domain(from.view()) {
        return None;
    }
    let kept = name.as_wire().len() - from.as_wire().len();
    let wire = [name.as_wire().get(..kept)?, to.as_wire()].concat();
    Name::from_wire(&wire).ok()
}
