//! Reads `rewrite`.

mod edns;

use super::rules::{Action, Change, CnameRule, Matcher, NameRule, Replacement, Rule};
use super::text::{Part, Rewriter, normalize, parts};
use crate::go_regex::{self, Regex};
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::{Class, Name, Rcode, Type};

/// The largest TTL of a range that is open above (RFC 2181 section 8).
const TTL_MAX: u32 = 0x7fff_ffff;
const FIELDS: &str = "one of type, name, class, edns0, ttl, cname, rcode";
const MATCHES: &str = "one of exact, prefix, suffix, substring, regex";

/// The words of a rule, and where to complain if one is missing.
struct Words<'d> {
    line: &'d Directive,
    words: Vec<&'d Token>,
}

impl<'d> Words<'d> {
    fn as_slice(&self) -> &[&'d Token] {
        &self.words
    }

    /// A complaint about the first word too many, or about the directive.
    fn wrong(&self, most: usize, message: impl Into<String>) -> Error {
        match self.words.get(most) {
            Some(extra) => Error::invalid(extra, message),
            None => self.line.invalid(message),
        }
    }
}

pub(super) fn read(directive: &Directive) -> Result<Rule, Error> {
    let mut words: Vec<_> = directive.args().iter().collect();
    if words.len() < 2 {
        flatten(directive.lines(), &mut words)?;
    } else {
        directive.expect_no_body()?;
    }
    let mut stop = true;
    if let Some(first) = words.first().copied() {
        let mode = first.text.to_ascii_lowercase();
        if matches!(mode.as_str(), "continue" | "stop") {
            stop = mode == "stop";
            words.remove(0);
            if words.is_empty() {
                let text = format!("{mode} rule must begin with a rule type: expected {FIELDS}");
                return Err(Error::invalid(first, text));
            }
        }
    }
    let Some(field) = words.first().copied() else {
        let text = format!("no rule type specified for rewrite: expected {FIELDS}");
        return Err(directive.invalid(text));
    };
    words.remove(0);
    let words = Words { line: directive, words };
    let action = match field.text.to_ascii_lowercase().as_str() {
        "name" => name_rule(&words)?,
        "type" => type_rule(&words)?,
        "class" => class_rule(&words)?,
        "edns0" => edns::rule(&words)?,
        "ttl" => ttl_rule(&words)?,
        "rcode" => rcode_rule(&words)?,
        "cname" => cname_rule(&words)?,
        "answer" => {
            let text = "response rewrites must begin with a name rule: expected 'name …' in front";
            return Err(Error::invalid(field, text));
        }
        _ => return Err(Error::expected(field, FIELDS)),
    };
    Ok(Rule { stop, action })
}

/// A body's lines are one rule, whatever the line breaks.
fn flatten<'d>(lines: &'d [Directive], words: &mut Vec<&'d Token>) -> Result<(), Error> {
    for line in lines {
        line.expect_no_body()?;
        words.push(&line.name);
        words.extend(line.args());
    }
    Ok(())
}

fn type_rule(words: &Words<'_>) -> Result<Action, Error> {
    let [from, to] = words.as_slice() else {
        return Err(words.wrong(2, "type rules must have exactly two arguments"));
    };
    let read = |word: &Token| {
        let known: Option<Type> = word.text.parse().ok();
        let named = |t: &Type| t.mnemonic().is_some_and(|m| m.eq_ignore_ascii_case(&word.text));
        known.filter(named).ok_or_else(|| Error::expected(word, "a type such as A"))
    };
    Ok(Action::Type { from: read(from)?, to: read(to)? })
}

fn class_rule(words: &Words<'_>) -> Result<Action, Error> {
    let [from, to] = words.as_slice() else {
        return Err(words.wrong(2, "class rules must have exactly two arguments"));
    };
    let read = |word: &Token| {
        if word.text.eq_ignore_ascii_case("CS") {
            return Ok(Class(2));
        }
        let known: Option<Class> = word.text.parse().ok();
        let named = |c: &Class| c.mnemonic().is_some_and(|m| m.eq_ignore_ascii_case(&word.text));
        known.filter(named).ok_or_else(|| Error::expected(word, "a class, IN, CH or HS"))
    };
    Ok(Action::Class { from: read(from)?, to: read(to)? })
}

/// How a `ttl`, `rcode` or `name` rule picks its names; `None` for any other word.
fn matcher(kind: &str, from: &Token) -> Result<Option<Matcher>, Error> {
    let text = normalize(&from.text);
    Ok(Some(match kind {
        "exact" => Matcher::Exact(name(from, &text)?),
        "prefix" => Matcher::Prefix(text),
        "substring" => Matcher::Substring(text),
        "regex" => Matcher::Regex(pattern(from)?),
        "suffix" => match text.strip_prefix('.').filter(|zone| !zone.is_empty()).map(Name::parse) {
            Some(Ok(zone)) => Matcher::Below(zone),
            _ => Matcher::Suffix(text),
        },
        _ => return Ok(None),
    }))
}

fn name(word: &Token, text: &str) -> Result<Name, Error> {
    Name::parse(text).map_err(|error| Error::expected(word, format!("a domain name ({error})")))
}

fn pattern(word: &Token) -> Result<Regex, Error> {
    go_regex::compile(&word.text).map_err(|error| {
        let text = format!("invalid regex matching pattern: {}: {error}", word.text);
        Error::invalid(word, text)
    })
}

/// A pattern and its replacement, which must not use more groups than there are.
fn pattern_with(from: &Token, to: &Token) -> Result<Regex, Error> {
    let compiled = pattern(from)?;
    let used = (0..=100).filter(|n| to.text.contains(&format!("{{{n}}}"))).count();
    let groups = compiled.captures_len() - 1;
    if used > groups {
        let text = format!(
            "the rewrite regex pattern ({}) uses more subexpressions than its corresponding \
             matching regex pattern ({}): expected at most {groups}",
            to.text, from.text
        );
        return Err(Error::invalid(to, text));
    }
    Ok(compiled)
}

fn name_rule(words: &Words<'_>) -> Result<Action, Error> {
    let (kind, from, to, rest) = match words.as_slice() {
        [from, to] => ("exact".to_owned(), *from, *to, &[][..]),
        [kind, from, to, rest @ ..] => (kind.text.to_ascii_lowercase(), *from, *to, rest),
        _ => {
            return Err(words.wrong(2, "too few arguments for a name rule: expected FROM and TO"));
        }
    };
    let (metadata, rest) = match rest.split_first() {
        Some((word, rest)) if word.text == "metadata" => (Some(*word), rest),
        _ => (None, rest),
    };
    if let Some(word) = metadata.filter(|_| kind != "regex") {
        return Err(Error::invalid(word, "metadata is only supported for regex name rules"));
    }
    let (mut auto, mut answers) = answer_rules(&kind, words, rest)?;
    let Some(names) = matcher(&kind, from)? else {
        let Some(kind) = words.as_slice().first() else { return Err(words.wrong(0, MATCHES)) };
        return Err(Error::expected(kind, MATCHES));
    };
    let texts = (normalize(&from.text), normalize(&to.text));
    let to = match kind.as_str() {
        "exact" => {
            auto = true;
            // CoreDNS wants the new name to be a pattern too.
            pattern_with(to, from)?;
            Replacement::Whole(name(to, &texts.1)?)
        }
        "prefix" => Replacement::Prefix { from: texts.0, to: texts.1 },
        "suffix" => {
            if std::mem::take(&mut auto) {
                let back = || Rewriter::Suffix { from: texts.1.clone(), to: texts.0.clone() };
                answers.splice(0..0, [Change::Owner(back()), Change::Value(back())]);
            }
            Replacement::Suffix { from: texts.0, to: texts.1 }
        }
        "substring" => Replacement::Substring { from: texts.0, to: texts.1 },
        _ if metadata.is_some() => Replacement::Regex(labelled_parts(to, pattern(from)?.captures_len())?),
        _ => Replacement::Regex(parts(&texts.1, pattern_with(from, to)?.captures_len())),
    };
    Ok(Action::Name(NameRule { names, to, auto, answers }))
}

/// A replacement with metadata labels.
fn labelled_parts(word: &Token, groups: usize) -> Result<Vec<Part>, Error> {
    let text = if word.text.ends_with('.') { word.text.clone() } else { format!("{}.", word.text) };
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    loop {
        let (before, after) = rest.split_once('{').map_or((rest, None), |(b, a)| (b, Some(a)));
        if before.contains('}') {
            return Err(Error::invalid(word, "unmatched closing brace in metadata name replacement"));
        }
        if !before.is_empty() {
            parts.push(Part::Literal(before.to_lowercase()));
        }
        let Some(after) = after else { return Ok(parts) };
        let Some((label, tail)) = after.split_once('}') else {
            return Err(Error::invalid(word, "unclosed placeholder in metadata name replacement"));
        };
        parts.push(match label.parse::<usize>() {
            Ok(group) if group < groups => Part::Group(group),
            Ok(_) => {
                let text = format!("capture group {label} does not exist in name matching pattern");
                return Err(Error::invalid(word, text));
            }
            Err(_) if is_label(label) && !label.contains('{') => Part::Label(label.to_owned()),
            Err(_) => {
                let text = format!(
                    "invalid metadata label \"{label}\" in name replacement: expected one such as \
                     kubernetes/client-namespace"
                );
                return Err(Error::invalid(word, text));
            }
        });
        rest = tail;
    }
}

/// Two or more words separated by a slash.
fn is_label(text: &str) -> bool {
    text.find('/').is_some_and(|at| at > 0 && at + 1 < text.len())
}

/// `answer (auto | (name|value FROM TO))…`, where later `answer`s may be left out.
fn answer_rules(
    kind: &str,
    words: &Words<'_>,
    rest: &[&Token],
) -> Result<(bool, Vec<Change>), Error> {
    let (mut auto, mut changes) = (None, Vec::new());
    match rest {
        [] => return Ok((false, changes)),
        [first, ..] if first.text != "answer" => {
            let text = format!(
                "exceeded the number of arguments for a non-answer rule argument for {kind} rule: \
                 expected 'answer'"
            );
            return Err(Error::invalid(first, text));
        }
        _ => {}
    }
    let mut rest = rest.iter().copied().peekable();
    let mut explicit = false;
    while rest.peek().is_some() {
        rest.next_if(|word| word.text == "answer");
        let Some(what) = rest.next() else {
            let text = format!("type missing for answer rule for {kind} rule: expected auto, name or value");
            return Err(words.wrong(usize::MAX, text));
        };
        if what.text == "auto" {
            auto = Some(what);
            continue;
        }
        if !matches!(what.text.as_str(), "name" | "value") {
            return Err(Error::expected(what, format!("auto, name or value in the answer part of a {kind} rule")));
        }
        let (Some(from), Some(to)) = (rest.next(), rest.next()) else {
            let text = format!("{} answer rule for {kind} rule: 2 arguments required", what.text);
            return Err(Error::invalid(what, text));
        };
        let pattern = pattern_with(from, to)?;
        let parts = parts(&normalize(&to.text), pattern.captures_len());
        let rewriter = Rewriter::Regex { pattern, to: parts };
        explicit |= what.text == "name";
        changes.push(if what.text == "name" { Change::Owner(rewriter) } else { Change::Value(rewriter) });
    }
    match auto {
        Some(word) if explicit => Err(Error::invalid(
            word,
            "auto name answer rule cannot be combined with explicit name answer rules",
        )),
        auto => Ok((auto.is_some(), changes)),
    }
}

/// `[MATCH] NAME` of a rule about responses, and the words that follow.
fn names<'w>(words: &'w Words<'_>, values: usize, rule: &str) -> Result<(Matcher, &'w [&'w Token]), Error> {
    let all = words.as_slice();
    match all.len().checked_sub(values) {
        None | Some(0) => {
            let text = format!("too few ({}) arguments for a {rule} rule", all.len());
            Err(words.line.invalid(text))
        }
        Some(1) => {
            let Some((from, rest)) = all.split_first() else { return Err(words.wrong(0, MATCHES)) };
            Ok((Matcher::Exact(name(from, &normalize(&from.text))?), rest))
        }
        Some(2) => {
            let [kind, from, rest @ ..] = all else { return Err(words.wrong(0, MATCHES)) };
            let found = matcher(&kind.text.to_ascii_lowercase(), from)?;
            Ok((found.ok_or_else(|| Error::expected(kind, MATCHES))?, rest))
        }
        Some(_) => {
            let text = format!("too many ({}) arguments for a {rule} rule", all.len());
            Err(words.wrong(values + 2, text))
        }
    }
}

fn ttl_rule(words: &Words<'_>) -> Result<Action, Error> {
    let (names, rest) = names(words, 1, "ttl")?;
    let [ttl] = rest else { return Err(words.wrong(0, "invalid TTL")) };
    let (least, most) = ttl_range(&ttl.text)
        .ok_or_else(|| Error::expected(ttl, "a TTL such as 30, 30-300, 30- or -300"))?;
    Ok(Action::Response { names, change: [Change::Ttl { least, most }] })
}

fn ttl_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (least, most) = match text.split_once('-') {
        None => (number(text)?, number(text)?),
        Some(("", "")) => return None,
        Some(("", most)) => (0, number(most)?),
        Some((least, "")) => (number(least)?, TTL_MAX),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    (least <= most).then_some((least, most))
}

fn rcode_rule(words: &Words<'_>) -> Result<Action, Error> {
    let (names, rest) = names(words, 2, "rcode")?;
    let [from, to] = rest else { return Err(words.wrong(0, "invalid RCODE")) };
    let read = |word: &Token| {
        rcode(&word.text).ok_or_else(|| Error::expected(word, "an RCODE such as NXDOMAIN or 3"))
    };
    Ok(Action::Response { names, change: [Change::Rcode { from: read(from)?, to: read(to)? }] })
}

fn rcode(text: &str) -> Option<Rcode> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|number| *number <= 23).map(Rcode);
    }
    match text.to_ascii_uppercase().as_str() {
        "NOTIMPL" => Some(Rcode::NOTIMP),
        "BADSIG" => Some(Rcode::BADVERS),
        "DSOTYPENI" => Some(Rcode(11)),
        word => {
            let known: Rcode = word.parse().ok()?;
            (known.mnemonic() == Some(word)).then_some(known)
        }
    }
}

fn cname_rule(words: &Words<'_>) -> Result<Action, Error> {
    let (kind, from, to) = match words.as_slice() {
        [from, to] => ("exact".to_owned(), from, to),
        [kind, from, to] => (kind.text.to_ascii_lowercase(), from, to),
        all => {
            let text = format!("wrong number ({}) of arguments for a cname rule: expected [MATCH] FROM TO", all.len());
            return Err(words.wrong(3, text));
        }
    };
    let texts = (from.text.to_lowercase(), to.text.to_lowercase());
    let (from_text, to_text) = texts;
    Ok(Action::Cname(match kind.as_str() {
        "exact" => CnameRule::Exact {
            from: name(from, &normalize(&from.text))?,
            to: name(to, &normalize(&to.text))?,
        },
        "prefix" => CnameRule::Prefix { from: from_text, to: to_text },
        "suffix" => CnameRule::Suffix { from: from_text, to: to_text },
        "substring" => CnameRule::Substring { from: from_text, to: to_text },
        "regex" => {
            let pattern = pattern(from)?;
            let parts = parts(&to_text, pattern.captures_len());
            CnameRule::Regex { pattern, to: parts }
        }
        _ => {
            let Some(kind) = words.as_slice().first() else { return Err(words.wrong(0, MATCHES)) };
            return Err(Error::expected(kind, MATCHES));
        }
    }))
}
