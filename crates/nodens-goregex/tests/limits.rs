//! What no table of Go can hold: limits of this crate, places of errors, and texts that are no patterns.

use nodens_goregex::{Error, ErrorKind, Regex, limits};
use proptest::prelude::*;

fn nested(opening: &str, count: usize, closing: &str) -> String {
    [&opening.repeat(count), "a", &closing.repeat(count)].concat()
}

fn refused(pattern: &str) -> Error {
    Regex::new(pattern).expect_err(pattern)
}

#[test]
fn nesting_has_a_limit_that_a_small_stack_bears() {
    let most = limits::NESTING;
    for (opening, closing, levels) in [
        ("(", ")", 1),
        ("(b", ")", 2),
        ("(b", ")*", 3),
        ("(b|[ac]c", "){1}", 4),
        ("(?:b", ")?", 2),
        ("(?:b|", ")+?", 2),
    ] {
        let fits = nested(opening, (most - 1) / levels, closing);
        Regex::new(&fits).unwrap_or_else(|error| panic!("{fits}: {error}"));
        let error = refused(&nested(opening, most / levels + 1, closing));
        assert_eq!((error.kind, error.character), (ErrorKind::TooDeep, 1), "{opening}");
    }
    // What is only grouped is no level of its own.
    assert!(Regex::new(&nested("(?:", 10 * most, ")")).is_ok());
    assert_eq!(refused(&"(".repeat(10 * most)).kind, ErrorKind::MissingParenthesis);
}

#[test]
fn what_compiles_to_too_much_is_refused() {
    let error = Regex::with_limit(r"\pL{1000}", 1 << 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        r"error parsing regexp: expression too large: `\pL{1000}`, at character 1, expected a pattern with fewer or smaller repetitions and classes"
    );
    assert_eq!(refused(&".{1000}".repeat(1000)).kind, ErrorKind::TooLarge);
    // Whole labels, and what Go's own limit of repetitions allows at most.
    for pattern in [r"^([\pL\pN_-]{1,63}\.)+$", r"\w{1000}", ".{0,1000}", r"\pL{200}"] {
        Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn errors_say_where_and_what_is_expected() {
    for (pattern, character, expected) in [
        (r"é\y", 2, "a known escape, or a backslash before punctuation only"),
        (r"a\", 3, "a character behind the backslash"),
        (r"世\x4g", 2, "two hexadecimal digits, or a number up to 10FFFF in braces"),
        ("ab[c", 3, "a `]` that ends the class"),
        ("a[z-a]", 3, "the lower character first"),
        ("[a[:foo:]]", 3, "a class such as [:alpha:], [:digit:] or [:word:]"),
        (r"a\p{Foo}", 2, "a category such as L or Lu, or a script of one word such as Greek"),
        ("a(?=b)", 2, "`:`, a name such as `P<name>`, or flags out of i, m, s and U"),
        ("a(?<b c>)", 2, "a name of letters, digits and underscores, and `>`"),
        ("ab**", 3, "one operator, or parentheses around what is repeated"),
        ("a|*", 3, "something before it that is repeated, or a backslash"),
        ("a{2,1}", 2, "at most 1000, and the lower number first"),
        ("(a{99}){99}", 8, "at most 1000, multiplied with the repetitions inside"),
        ("(a", 1, "a `)` for each `(`"),
        ("a)", 1, "a `(` for each `)`"),
    ] {
        let error = refused(pattern);
        assert_eq!((error.character, error.expected), (character, expected), "{pattern}");
    }
}

#[test]
fn groups_are_told_by_number_and_name() {
    let pattern = Regex::new(r"^(?P<a>\w)(?<b>x)?(.){0}").unwrap();
    assert_eq!(pattern.as_str(), r"^(?P<a>\w)(?<b>x)?(.){0}");
    let names: Vec<_> = pattern.capture_names().collect();
    assert_eq!(names, [None, Some("a"), Some("b"), None]);
    let captures = pattern.captures("yz").unwrap();
    let texts: Vec<_> = captures.iter().collect();
    assert_eq!(texts, [Some("y"), Some("y"), None, None]);
    assert_eq!((captures.get(4), captures.range(usize::MAX)), (None, None));
}

/// Where the engine has no cheaper way than to keep rows of slots, which only long texts make it
/// do, a row has room for its own groups.
#[test]
fn groups_that_are_never_there_disturb_no_others() {
    let pattern = Regex::new(r"^([\pL\pN_-]{1,63}\.)+(b)?(a){0}(b){0}(c){0}$").unwrap();
    for labels in [1, 10, 100] {
        let text = format!("{}x.", "label-of-some-length.".repeat(labels));
        let captures = pattern.captures(&text).unwrap();
        let groups: Vec<_> = captures.iter().collect();
        assert_eq!(groups, [Some(text.as_str()), Some("x."), None, None, None, None]);
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(pattern in "[\\PC]{0,20}|[-\\[\\]\\\\^$(){}?*+|.a-cpxPQE:<>0-9,é&~]{0,20}", text in "\\PC{0,10}") {
        if let Ok(regex) = Regex::new(&pattern) {
            let captures = regex.captures(&text);
            prop_assert_eq!(captures.is_some(), regex.is_match(&text));
            prop_assert!(captures.is_none_or(|captures| captures.get(0).is_some()));
        }
    }
}
