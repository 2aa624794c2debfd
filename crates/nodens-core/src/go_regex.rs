//! Regular expressions as Go's package `regexp` reads them, compiled for the crate `regex`.
//!
//! Both come from RE2 and agree on nearly everything. What Go reads differently is rewritten,
//! what Go refuses is refused, and what `regex` cannot do is named.

use regex::Regex;
use std::iter::Peekable;
use std::str::Chars;

/// The longest pattern, in octets; CoreDNS's limit.
pub const PATTERN_LEN_MAX: usize = 10_000;

/// The most repetitions that Go allows.
const REPEAT_MAX: u32 = 1000;

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`PATTERN_LEN_MAX`].
    #[error("regex pattern too long: {0} > {PATTERN_LEN_MAX}")]
    TooLong(usize),
    /// A backslash in front of something that Go gives no meaning to.
    #[error("invalid escape sequence: `\\{0}`")]
    Escape(String),
    /// `a**` and the like.
    #[error("invalid nested repetition operator")]
    NestedRepetition,
    /// `a{1001}`
    #[error("invalid repeat count: `{{{0}}}`, expected at most {REPEAT_MAX}")]
    Repeat(String),
    /// Flags that Go does not know.
    #[error("unknown flag `{0}` behind `(?`, expected one of i, m, s, U")]
    Flag(char),
    /// The crate `regex` has the word.
    #[error("{0}")]
    Syntax(String),
}

/// Compiles a pattern written for Go.
///
/// # Errors
/// If Go would refuse it, or `regex` has nothing that does the same.
///
/// ```
/// use nodens_core::go_regex::compile;
/// let pattern = compile(r"^(.*)\Q.example.org.\E$").unwrap();
/// assert_eq!(&pattern.captures("www.example.org.").unwrap()[1], "www");
/// assert!(compile("(").is_err());
/// ```
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > PATTERN_LEN_MAX {
        return Err(PatternError::TooLong(pattern.len()));
    }
    let translated = translate(pattern)?;
    Regex::new(&translated).map_err(|error| PatternError::Syntax(one_line(&error)))
}

/// The last line of the crate's message, which says what is wrong.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The same pattern in the words of the crate `regex`.
fn translate(pattern: &str) -> Result<String, PatternError> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut repeated = false;
    while let Some(c) = chars.next() {
        let counted = if c == '{' { repetition(&mut chars)? } else { None };
        if counted.is_some() || matches!(c, '*' | '+' | '?') {
            if repeated {
                return Err(PatternError::NestedRepetition);
            }
            out.push(c);
            out.push_str(counted.as_deref().unwrap_or_default());
            out.extend(chars.next_if_eq(&'?'));
            repeated = true;
            continue;
        }
        repeated = false;
        match c {
            '\\' if chars.next_if_eq(&'Q').is_some() => quoted(&mut chars, &mut out),
            '\\' => escape(&mut chars, &mut out)?,
            '[' => class(&mut chars, &mut out)?,
            '(' => {
                out.push('(');
                if chars.next_if_eq(&'?').is_some() {
                    out.push('?');
                    flags(&mut chars)?;
                }
            }
            '{' | '}' | ']' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// `2}`, `2,}` or `2,3}` behind a `{`, which is a plain character if anything else follows.
fn repetition(chars: &mut Peekable<Chars<'_>>) -> Result<Option<String>, PatternError> {
    let body: String = chars.clone().take_while(|c| *c != '}').collect();
    let closed = chars.clone().any(|c| c == '}');
    let (least, most) = body.split_once(',').unwrap_or((&body, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !closed || least.is_empty() || !digits(least) || !digits(most) {
        return Ok(None);
    }
    let small = |text: &str| text.is_empty() || text.parse().is_ok_and(|n: u32| n <= REPEAT_MAX);
    if !small(least) || !small(most) {
        return Err(PatternError::Repeat(body));
    }
    let text: String = chars.by_ref().take(body.chars().count() + 1).collect();
    Ok(Some(text))
}

/// `\Q…\E`, or to the end: taken literally.
fn quoted(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut literal = String::new();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'E').is_some() {
            break;
        }
        literal.push(c);
    }
    out.push_str(&regex::escape(&literal));
}

/// What follows a backslash.
fn escape(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), PatternError> {
    let Some(c) = chars.next() else {
        return Err(PatternError::Syntax("trailing backslash at end of expression".to_owned()));
    };
    match c {
        '0'..='7' => return octal(c, chars, out),
        'A' | 'b' | 'B' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'z' | 'a' | 'f' | 'n' | 'r' | 't'
        | 'v' | 'p' | 'P' | 'x' => out.extend(['\\', c]),
        c if c.is_ascii_alphanumeric() || !c.is_ascii() => {
            return Err(PatternError::Escape(c.to_string()));
        }
        // Any other character stands for itself, also where `regex` has a meaning for it: `\<`.
        c if c.is_ascii_punctuation() && c != '<' && c != '>' && c != '_' => out.extend(['\\', c]),
        c => out.push(c),
    }
    Ok(())
}

/// `\123` and `\0`; a single digit from 1 to 7 would be a backreference, which neither has.
fn octal(
    first: char,
    chars: &mut Peekable<Chars<'_>>,
    out: &mut String,
) -> Result<(), PatternError> {
    let mut digits = first.to_string();
    while digits.len() < 3 {
        match chars.next_if(|c| matches!(c, '0'..='7')) {
            Some(digit) => digits.push(digit),
            None => break,
        }
    }
    if digits.len() == 1 && first != '0' {
        return Err(PatternError::Escape(digits));
    }
    let value = u32::from_str_radix(&digits, 8).unwrap_or_default();
    out.push_str(&format!("\\x{{{value:x}}}"));
    Ok(())
}

/// A bracket expression. `[`, `&&`, `--` and `~~` have no meaning inside Go's.
fn class(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), PatternError> {
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    while let Some(c) = chars.next() {
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(());
            }
            '\\' if chars.next_if_eq(&'Q').is_some() => quoted(chars, out),
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                while let Some(c) = chars.next() {
                    out.push(c);
                    if c == ':' && chars.next_if_eq(&']').is_some() {
                        out.push(']');
                        break;
                    }
                }
            }
            c => {
                class_member(c, chars, out)?;
                let mut ahead = chars.clone();
                if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                    chars.next();
                    out.push('-');
                    let Some(c) = chars.next() else { break };
                    class_member(c, chars, out)?;
                }
            }
        }
        first = false;
    }
    Err(PatternError::Syntax("missing closing `]`".to_owned()))
}

fn class_member(
    c: char,
    chars: &mut Peekable<Chars<'_>>,
    out: &mut String,
) -> Result<(), PatternError> {
    match c {
        '\\' => escape(chars, out)?,
        '[' | ']' | '&' | '~' | '-' | '^' => out.extend(['\\', c]),
        c => out.push(c),
    }
    Ok(())
}

/// Looks ahead over `(?flags)`, `(?flags:` and names; everything stays for the caller to copy.
fn flags(chars: &mut Peekable<Chars<'_>>) -> Result<(), PatternError> {
    for c in chars.clone() {
        match c {
            'i' | 'm' | 's' | 'U' | '-' => {}
            ':' | ')' | 'P' | '<' => return Ok(()),
            other => return Err(PatternError::Flag(other)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
    }

    #[test]
    fn what_both_read_alike_stays() {
        for pattern in [
            r"(.*)\.(us-west-1)\.coredns\.rocks",
            r"^ip-(?P<a>[0-9]*)-(?<b>\d+)\.x{1,3}$",
            r"(?i:abc)|(?s)x.y|(?U)a+",
            r"[[:alpha:]_\-\d]+\pL\x41\x{42}",
            r"a*?b+?c??(?:d)\A\z\b\B",
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(pattern));
            compile(pattern).unwrap();
        }
    }

    #[test]
    fn what_go_reads_differently_is_rewritten() {
        assert!(matches(r"^\Qa.b*\E+$", "a.b**"));
        assert!(matches(r"^a\Q.b", "a.b"));
        assert!(matches(r"^[[&&~~]+$", "[&~"));
        assert!(matches(r"^[+--]+$", "+,-"));
        assert!(matches(r"^[--a]+$", "-a"));
        assert!(matches(r"^x{a{,3}b}]$", "x{a{,3}b}]"));
        assert!(matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^[^]a]$", "b"));
        assert!(matches(r"^\101\0$", "A\0"));
        assert!(matches(r"^\<\_\>\-\@$", "<_>-@"));
        assert!(!matches(r"^[a-c\]]$", "d"));
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in [
            "(", "[", "a)", "a**", r"\", r"\y", r"\1", r"\u0041", "(?x)a", "(?=a)", r"[\C]",
            "a{2,1}", r"\E", r"\C", "a{1001}", "[a--]",
        ] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        assert_eq!(compile(&"a".repeat(10_001)).unwrap_err(), PatternError::TooLong(10_001));
    }
}
