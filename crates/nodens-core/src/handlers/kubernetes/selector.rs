//! Label selectors, read only to find mistakes before the API server does. Their grammar is that of
//! "Labels and Selectors" in Kubernetes' documentation.

/// Checks `text`; says what is wrong with it.
pub(super) fn check(text: &str) -> Result<(), String> {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    if rest.is_empty() {
        return Ok(());
    }
    loop {
        rest = requirement(rest)?;
        match rest {
            [] => return Ok(()),
            [",", tail @ ..] => rest = tail,
            [other, ..] => return Err(format!("found '{other}', expected ',' or the end")),
        }
    }
}

/// One requirement; gives what follows it.
fn requirement<'t, 's>(tokens: &'t [&'s str]) -> Result<&'t [&'s str], String> {
    match tokens {
        ["!", key, rest @ ..] => check_key(key).map(|()| rest),
        [key, "in" | "notin", rest @ ..] => check_key(key).and_then(|()| values(rest)),
        [key, "=" | "==" | "!=", rest @ ..] => {
            check_key(key)?;
            match rest {
                // No value is the empty one.
                [] | [",", ..] => Ok(rest),
                [value, rest @ ..] => check_value(value).map(|()| rest),
            }
        }
        [_, operator @ (">" | "<"), ..] => {
            Err(format!("'{operator}' is not supported in label selectors"))
        }
        [key, rest @ ..] => check_key(key).map(|()| rest),
        [] => Err("expected a label behind ','".to_owned()),
    }
}

/// `(VALUE, …)`; gives what follows it.
fn values<'t, 's>(tokens: &'t [&'s str]) -> Result<&'t [&'s str], String> {
    let ["(", rest @ ..] = tokens else {
        return Err("expected '(' behind 'in' or 'notin'".to_owned());
    };
    let mut rest = rest;
    loop {
        match rest {
            [")", tail @ ..] => return Ok(tail),
            [",", tail @ ..] => rest = tail,
            [value, tail @ ..] => {
                check_value(value)?;
                rest = tail;
                if !matches!(rest, [")" | ",", ..]) {
                    return Err(format!("expected ',' or ')' behind '{value}'"));
                }
            }
            [] => return Err("expected ')' at the end of the values".to_owned()),
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_reserved = matches!(key, "in" | "notin");
    if !is_reserved && is_word(name) && prefix.is_none_or(is_subdomain) {
        return Ok(());
    }
    Err(format!("'{key}' is not a label such as app or example.org/app"))
}

fn check_value(value: &str) -> Result<(), String> {
    match is_word(value) {
        true => Ok(()),
        false => Err(format!(
            "'{value}' is not a value: expected at most 63 letters, digits, '-', '_' and '.'"
        )),
    }
}

fn is_word(text: &str) -> bool {
    let ends = |octet: Option<&u8>| octet.is_some_and(u8::is_ascii_alphanumeric);
    let within = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    let octets = text.as_bytes();
    octets.len() <= 63 && ends(octets.first()) && ends(octets.last()) && text.bytes().all(within)
}

fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let within = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-');
        !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(within)
    };
    text.len() <= 253 && text.split('.').all(|label| !label.is_empty() && is_label(label))
}

/// Words and signs; blanks stand between.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '=' if rest.starts_with("==") => 2,
            '!' if rest.starts_with("!=") => 2,
            '=' | '!' | '(' | ')' | ',' | '<' | '>' => 1,
            _ => rest.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c)).unwrap_or(rest.len()),
        };
        let (token, tail) = rest.split_at(len);
        tokens.push(token);
        rest = tail.trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn selectors_of_every_form_are_accepted() {
        for text in [
            "",
            "app",
            "!app",
            "app=web",
            "app==web",
            "app != web",
            "app=",
            "example.org/app in (web, api),tier notin (test)",
            "environment in (staging, qa),application=nginx",
            "a in (,b)",
            "a in ()",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("app=web,", "expected a label behind ','"),
            ("app in web", "expected '('"),
            ("app in (web", "expected ',' or ')' behind 'web'"),
            ("app in (", "expected ')'"),
            ("app=a b", "found 'b'"),
            ("app>1", "'>' is not supported"),
            ("=a", "'=' is not a label"),
            ("in=a", "'in' is not a label"),
            ("-a", "'-a' is not a label"),
            ("Example.org/app", "is not a label"),
            ("app=_", "'_' is not a value"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
