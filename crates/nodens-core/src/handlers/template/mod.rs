//! `template`: responses made from the question, by templates of records.
//!
//! This module says what becomes of a question; `matching` whether a rule applies, `data`
//! what its templates see, `config` reads the Corefile.

mod config;
mod data;
mod matching;

use crate::config::{Config, ServerBlock};
use crate::go_regex::Regex;
use crate::handler::{Cx, Event, Handle, Lookup, Scope, Spec, Step};
use crate::handlers::{Handler, LookupState};
use crate::metadata::Source;
use crate::metrics::LazyCounters;
use crate::response::octets_of;
use nodens_zone::presentation;
use crate::zones::{Fallthrough, Zones};
use data::Data;
use matching::{Found, Look};
use nodens_expr::Program;
use nodens_wire::{Class, Flags, Message, Name, NameRef, Rcode, Record, Section, Type};

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("template", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Template {
    /// In the order of the Corefile; the first that matches answers.
    rules: Vec<Rule>,
}

/// Whether all server blocks for `qname` have a `template` that answers a query for its address with
/// NXDOMAIN.
pub fn denies(config: &Config, qname: NameRef<'_>) -> bool {
    let labels = |block: &ServerBlock| {
        let zones = block.zones.iter().filter(|zone| qname.is_in_domain(zone.view()));
        zones.map(|zone| zone.view().label_count()).max()
    };
    let refuses = |block: &ServerBlock| {
        block.handlers.iter().any(|handler| match handler {
            Handler::Template(template) => template.denies(qname, Type::A),
            _ => false,
        })
    };
    let closest = config.blocks.iter().filter_map(labels).max();
    let mut concerned =
        config.blocks.iter().filter(|b| labels(b).is_some() && labels(b) == closest).peekable();
    concerned.peek().is_some() && concerned.all(refuses)
}

/// One `template` of the Corefile.
#[derive(Debug)]
struct Rule {
    class: Class,
    qtype: Type,
    zones: Zones,
    /// Any of them is enough; none stands for every name.
    patterns: Vec<Pattern>,
    vars: Vec<(String, Program)>,
    conditions: Vec<Program>,
    /// Records by section.
    records: [Vec<Draft>; 3],
    rcode: Rcode,
    /// The extended error as it stands in RDATA of OPT; empty for none.
    ederror: Vec<u8>,
    fallthrough: Fallthrough,
    series: Series,
}

/// A regular expression for QNAME.
#[derive(Debug)]
struct Pattern {
    /// As written.
    text: String,
    regex: Regex,
}

/// A record to send.
#[derive(Debug)]
enum Draft {
    /// The text has no template in it.
    Fixed(Record),
    /// Text that becomes a record with the facts of a question.
    Template(nodens_gotemplate::Template),
}

/// The series of one rule.
#[derive(Debug)]
struct Series {
    server: String,
    view: String,
    matches: LazyCounters,
}

/// What the handler remembers between lookups.
#[derive(Debug, Default)]
pub struct State {
    rule: usize,
    records: [Vec<Record>; 3],
    /// The first record of the answer section that was not looked at yet.
    next: usize,
    /// The last lookup's answer was cut.
    truncated: bool,
}

impl Handle for Template {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        for (index, rule) in self.rules.iter().enumerate() {
            let found = match rule.look(cx) {
                Look::Pass => continue,
                Look::Refuse => return Step::Fail(Rcode::SERVFAIL),
                Look::Found(found) => found,
            };
            rule.series.count_match(cx, rule, &found);
            if rule.rcode == Rcode::SERVFAIL {
                return Step::Fail(Rcode::SERVFAIL);
            }
            if rule.is_fixed(cx.job.current.qtype) {
                rule.write(cx, rule.records.iter().map(|drafts| drafts.iter().filter_map(Draft::fixed)));
                return Step::Answered;
            }
            return match rule.render(cx, &found) {
                Some(records) => {
                    rule.advance(cx, State { rule: index, records, ..State::default() })
                }
                None => Step::Fail(Rcode::SERVFAIL),
            };
        }
        Step::Next
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        let LookupState::Template(mut state) = std::mem::take(&mut cx.q().state.lookup) else {
            return Step::Fail(Rcode::SERVFAIL);
        };
        let (Event::LookedUp, Some(rule)) = (event, self.rules.get(state.rule)) else {
            return Step::Fail(Rcode::SERVFAIL);
        };
        // A target without an answer leaves the alias alone, which is no failure.
        cx.job.error.clear();
        state.take_answers(cx.job.inner.take().map(|inner| inner.response));
        rule.advance(cx, state)
    }
}

impl Template {
    /// Whether every question of class IN and type `qtype` for `qname` is answered NXDOMAIN here,
    /// whoever asks: the lines that stop a leak.
    pub fn denies(&self, qname: NameRef<'_>, qtype: Type) -> bool {
        let concerned = |rule: &&Rule| {
            let same_type = rule.qtype == qtype || rule.qtype == Type::ANY;
            rule.class == Class::IN && same_type && rule.zones.longest(qname).is_some()
        };
        for rule in self.rules.iter().filter(concerned) {
            if !rule.vars.is_empty() || !rule.conditions.is_empty() {
                return false;
            }
            if rule.patterns.is_empty() || rule.matches(qname) {
                return rule.rcode == Rcode::NXDOMAIN;
            }
            if !rule.fallthrough.lets_pass(qname) {
                return false;
            }
        }
        false
    }
}

impl State {
    /// Octets of memory that its records take.
    pub(crate) fn octets(&self) -> usize {
        self.records.iter().map(octets_of).sum()
    }

    /// Puts the answers of a lookup behind the alias that led to it.
    fn take_answers(&mut self, response: Option<crate::response::Response>) {
        let written = response.filter(|response| response.written);
        let Some(Ok(message)) = written.map(|response| Message::parse(&response.wire)) else {
            return;
        };
        self.truncated = message.flags.has(Flags::TC);
        let [answer, ..] = &mut self.records;
        let at = self.next.min(answer.len());
        self.next = at + message.answer.len();
        answer.splice(at..at, message.answer);
    }

    /// The target of the next alias nobody has followed yet.
    fn next_target(&mut self) -> Option<Name> {
        let [answer, ..] = &self.records;
        let rest = answer.get(self.next..).unwrap_or_default();
        let ahead = rest.iter().position(|record| record.rtype == Type::CNAME)?;
        self.next += ahead + 1;
        let alias = rest.get(ahead)?;
        Name::from_wire(&alias.rdata).ok()
    }
}

impl Draft {
    fn fixed(&self) -> Option<&Record> {
        match self {
            Self::Fixed(record) => Some(record),
            Self::Template(_) => None,
        }
    }
}

impl Rule {
    /// Whether the response needs no rendering and no lookup.
    fn is_fixed(&self, qtype: Type) -> bool {
        let [answer, ..] = &self.records;
        let is_alias = |draft: &Draft| draft.fixed().is_some_and(|r| r.rtype == Type::CNAME);
        self.records.iter().flatten().all(|draft| draft.fixed().is_some())
            && !(follows_aliases(qtype) && answer.iter().any(is_alias))
    }

    /// Looks up the next alias, or writes the response if there is none left.
    fn advance(&self, cx: &mut Cx<'_>, mut state: State) -> Step {
        let (qtype, qclass) = (cx.job.current.qtype, cx.job.current.qclass);
        if follows_aliases(qtype)
            && let Some(qname) = state.next_target()
        {
            cx.q().state.lookup = LookupState::Template(state);
            return Step::Lookup(Lookup { qname, qtype, qclass, scope: Scope::Server });
        }
        self.write(cx, state.records.iter().map(|records| records.iter()));
        if state.truncated {
            let response = &mut cx.q().response;
            response.set_flags(response.flags().with(Flags::TC, true));
        }
        Step::Answered
    }

    /// Writes the response; `records` are those of each section.
    fn write<'r>(
        &self,
        cx: &mut Cx<'_>,
        records: impl Iterator<Item = impl Iterator<Item = &'r Record>>,
    ) {
        let q = cx.q();
        q.reply_with(self.rcode, true, |builder, _| {
            for (section, records) in Section::ALL.into_iter().zip(records) {
                for record in records {
                    // What no message can hold is left out.
                    _ = builder.push(section, record);
                }
            }
        });
        q.response.options.extend_from_slice(&self.ederror);
    }

    /// The records for this question; `None` and a reason in the job if one cannot be made.
    fn render(&self, cx: &mut Cx<'_>, found: &Found) -> Option<[Vec<Record>; 3]> {
        let outcome = {
            let source = Source { job: cx.job, block: cx.block };
            let data = Data::new(source, self, found);
            let mut records = [const { Vec::new() }; 3];
            // In the order of CoreDNS, which tells the first error.
            let order = [Section::Answer, Section::Additional, Section::Authority];
            order
                .into_iter()
                .flat_map(|section| self.drafts(section).map(move |draft| (section, draft)))
                .try_for_each(|(section, draft)| {
                    let record = render(draft, &data).map_err(|failure| (section, failure))?;
                    if let Some(place) = records.get_mut(index_of(section)) {
                        place.push(record);
                    }
                    Ok(())
                })
                .map(|()| records)
        };
        match outcome {
            Ok(records) => Some(records),
            Err((section, failure)) => {
                self.series.count_failure(cx, self, found, section, &failure);
                cx.job.error = failure.text;
                None
            }
        }
    }

    fn drafts(&self, section: Section) -> impl Iterator<Item = &Draft> {
        self.records.get(index_of(section)).into_iter().flatten()
    }
}

/// Why a record could not be made.
struct Failure {
    /// The template could be rendered, but its text is no record.
    rendered: bool,
    /// The template in its normal form.
    template: String,
    /// What went wrong.
    text: String,
}

fn render(draft: &Draft, data: &Data<'_>) -> Result<Record, Failure> {
    let template = match draft {
        Draft::Fixed(record) => return Ok(record.clone()),
        Draft::Template(template) => template,
    };
    let mut text = String::new();
    template.render(data, &mut text).map_err(|error| Failure {
        rendered: false,
        template: template.to_string(),
        text: error.to_string(),
    })?;
    presentation::record(&text).map_err(|error| Failure {
        rendered: true,
        template: template.to_string(),
        text: format!("{error} in `{text}`"),
    })
}

/// CoreDNS follows aliases for addresses only.
fn follows_aliases(qtype: Type) -> bool {
    matches!(qtype, Type::A | Type::AAAA)
}

fn index_of(section: Section) -> usize {
    section.count_index() - 1
}
