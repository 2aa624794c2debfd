//! Settings and values that users write.

use crate::error::Error;
use crate::knob::{Kind, Knob, Side, Space, Takes, Value, Values};
use crate::setting::swap;
use std::borrow::Cow;

/// A setting and the two values of it that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The setting.
    pub knob: Cow<'static, Knob>,
    /// The usual value.
    pub low: Value,
    /// The other one.
    pub high: Value,
}

impl Choice {
    /// A known setting with the levels that it comes with.
    pub fn of(knob: &'static Knob) -> Result<Self, Error> {
        let (low, high) = (knob.value(&knob.levels.0)?, knob.value(&knob.levels.1)?);
        Ok(Self { knob: Cow::Borrowed(knob), low, high })
    }

    /// What a user wrote: `NAME`, `NAME=LOW,HIGH`, `sysctl:NAME=LOW,HIGH`, `server:NAME=LOW,HIGH`;
    /// with `client:` before it the setting is changed on the client's side.
    ///
    /// # Errors
    ///
    /// The setting is unknown, a value is not one that it takes, both are the same, or the text has
    /// another form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (side, rest) = match text.split_once(':') {
            Some(("client", rest)) => (Some(Side::Client), rest),
            _ => (None, text),
        };
        let (name, levels) = match rest.split_once('=') {
            Some((name, levels)) => (name.trim(), Some(levels)),
            None => (rest.trim(), None),
        };
        let mut knob = match name.split_once(':') {
            Some(("sysctl", path)) => Cow::Owned(sysctl(path)?),
            Some(("server", placeholder)) => Cow::Owned(server(placeholder)?),
            Some(_) => return Err(Error::Form(text.to_owned())),
            None => Cow::Borrowed(Knob::find(name)?),
        };
        if let Some(side) = side.filter(|side| *side != knob.side) {
            if knob.space != Space::Namespace {
                return Err(Error::NoClient(knob.name.to_string()));
            }
            let knob = knob.to_mut();
            knob.side = side;
            knob.name = Cow::Owned(format!("client:{}", knob.name));
        }
        let (low, high) = match levels {
            Some(levels) => levels.split_once(',').ok_or_else(|| Error::Form(text.to_owned()))?,
            None if knob.levels.1.is_empty() => return Err(Error::Form(text.to_owned())),
            None => (&*knob.levels.0, &*knob.levels.1),
        };
        let (low, high) = (knob.value(low)?, knob.value(high)?);
        if low == high {
            return Err(Error::SameLevels { knob: knob.name.to_string(), value: low.to_string() });
        }
        Ok(Self { knob, low, high })
    }
}

/// A sysctl of which only the name is known.
fn sysctl(path: &str) -> Result<Knob, Error> {
    // As sysctl(8) has it: if a slash comes first, slashes separate.
    let slashes = path.find(['.', '/']).is_some_and(|at| path.as_bytes().get(at) == Some(&b'/'));
    let path = &*if slashes { Cow::Owned(swap(path)) } else { Cow::Borrowed(path) };
    if let Ok(known) = Knob::find(path) {
        // Any value may be tried, also one that the list does not have.
        return Ok(Knob { values: Values::Text, ..known.clone() });
    }
    let letter = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let whole = path.split(['.', '/']).all(|part| !part.is_empty());
    if !whole || !path.chars().all(letter) || !path.contains('.') {
        return Err(Error::Path(path.to_owned()));
    }
    let space = if path.starts_with("net.") { Space::Namespace } else { Space::Host };
    Ok(Knob {
        name: Cow::Owned(path.to_owned()),
        kind: Kind::Sysctl { path: Cow::Owned(path.to_owned()) },
        values: Values::Text,
        space,
        side: Side::Server,
        takes_effect: Takes::NewSockets,
        needs: "",
        default: "",
        levels: (Cow::Borrowed(""), Cow::Borrowed("")),
        about: "named by the user",
        claims: &[],
    })
}

/// A placeholder of the server's configuration.
fn server(placeholder: &str) -> Result<Knob, Error> {
    let letter = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if placeholder.is_empty() || !placeholder.chars().all(letter) {
        return Err(Error::Placeholder(placeholder.to_owned()));
    }
    Ok(Knob {
        name: Cow::Owned(format!("server:{placeholder}")),
        kind: Kind::Server { placeholder: Cow::Owned(placeholder.to_owned()) },
        values: Values::Text,
        space: Space::Server,
        side: Side::Server,
        takes_effect: Takes::NewSockets,
        needs: "",
        default: "",
        levels: (Cow::Borrowed(""), Cow::Borrowed("")),
        about: "named by the user",
        claims: &[],
    })
}

#[cfg(test)]
mod tests;
