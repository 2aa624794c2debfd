//! Options of subcommands, in the syntax of the other flags.

use std::collections::BTreeMap;

/// An option that is not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OptionError {
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    #[error("flag -{0} takes no value")]
    TakesNoValue(&'static str),
    #[error("flag needs an argument: -{0}")]
    NeedsValue(&'static str),
}

/// What a subcommand was given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Options with their values; empty for those that take none.
    values: BTreeMap<&'static str, String>,
    /// What is not an option.
    pub(super) words: Vec<String>,
}

/// An option: its name, what its value is called (empty if it takes none), and what it is for.
pub(super) type Known = (&'static str, &'static str, &'static str);

impl Options {
    /// Reads `arguments`; an error says what was expected.
    pub(super) fn read(
        arguments: impl IntoIterator<Item = String>,
        known: &'static [Known],
    ) -> Result<Self, OptionError> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
            let Some(name) = name else {
                options.words.push(argument);
                continue;
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let Some((name, wants, _)) = known.iter().find(|(known, ..)| *known == name) else {
                return Err(OptionError::Unknown(name.to_owned()));
            };
            let value = match (wants.is_empty(), value) {
                (true, None) => String::new(),
                (true, Some(_)) => return Err(OptionError::TakesNoValue(name)),
                (false, value) => {
                    value.or_else(|| arguments.next()).ok_or(OptionError::NeedsValue(name))?
                }
            };
            options.values.insert(name, value);
        }
        Ok(options)
    }

    /// Whether an option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value of an option, if it was given.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
}

/// What `-help` says.
pub(super) fn usage(line: &str, known: &[Known]) -> String {
    let mut text = format!("usage: nodens {line}\n\n");
    for (name, value, meaning) in known {
        text.push_str(&format!("  {:19}  {meaning}\n", format!("-{name} {value}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[("conf", "FILE", ""), ("write", "", "")];

    #[test]
    fn options_are_read_and_what_is_not_understood_is_said() {
        let read = |text: &str| Options::read(text.split_whitespace().map(str::to_owned), KNOWN);
        let options = read("bad.invalid -conf=a --write").unwrap();
        assert_eq!((options.get("conf"), options.has("write")), (Some("a"), true));
        assert_eq!(options.words, ["bad.invalid"]);
        assert_eq!(read("-conf b").unwrap().get("conf"), Some("b"));
        for wrong in ["-x", "-conf", "-write=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
