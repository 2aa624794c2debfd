//! Protocol buffers, as far as objects of the API need them: the fields of a message one after the
//! other, borrowed from the octets. What is not wanted is stepped over by its length, which is why
//! an object costs a fraction of what it does in JSON.
//!
//! Numbers of fields are those of `generated.proto` in the modules `k8s.io/api` and
//! `k8s.io/apimachinery`; they never change their meaning.

use crate::objects::Text;
use serde::de::IgnoredAny;

/// Octets that are no message, or not the one that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// A field reaches beyond its message.
    #[error("a field is cut off")]
    Cut,
    /// A number that does not fit into 64 bits.
    #[error("expected a number of at most 64 bits")]
    Number,
    /// A field of a type or with a number that cannot be.
    #[error("expected a field")]
    Field,
    /// Something else than what a field has to be.
    #[error("expected {0}")]
    Expected(&'static str),
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number or truth value.
    Number(u64),
    /// A text, or a message.
    Octets(&'a [u8]),
    /// Four or eight octets of a type that no field has that is looked at.
    Other,
}

/// What is read out of a message.
pub(crate) trait Message<'a>: Default {
    /// Takes a field. Those that are unknown are to be ignored.
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed>;

    /// Takes all fields of a message.
    fn merge(&mut self, mut octets: &'a [u8]) -> Result<(), Malformed> {
        while !octets.is_empty() {
            let (number, value) = field(&mut octets)?;
            self.field(number, value)?;
        }
        Ok(())
    }
}

/// Nothing is looked at.
impl<'a> Message<'a> for IgnoredAny {
    fn field(&mut self, _: u32, _: Value<'a>) -> Result<(), Malformed> {
        Ok(())
    }

    fn merge(&mut self, _: &'a [u8]) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Reads a message.
///
/// # Errors
/// If it is none, or a field that is looked at is not what it has to be.
pub(crate) fn read<'a, M: Message<'a>>(octets: &'a [u8]) -> Result<M, Malformed> {
    let mut message = M::default();
    message.merge(octets)?;
    Ok(message)
}

impl<'a> Value<'a> {
    /// The octets of a text or message.
    pub(crate) fn octets(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Octets(octets) => Ok(octets),
            Self::Number(_) | Self::Other => Err(Malformed::Expected("a text or a message")),
        }
    }

    /// A text.
    pub(crate) fn text(self) -> Result<Text<'a>, Malformed> {
        let text = std::str::from_utf8(self.octets()?);
        text.map(Text::new).map_err(|_| Malformed::Expected("a text in UTF-8"))
    }

    /// A number.
    pub(crate) fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Octets(_) | Self::Other => Err(Malformed::Expected("a number")),
        }
    }

    /// A truth value.
    pub(crate) fn truth(self) -> Result<bool, Malformed> {
        Ok(self.number()? != 0)
    }

    /// A message within the message.
    pub(crate) fn merge_into(self, message: &mut impl Message<'a>) -> Result<(), Malformed> {
        message.merge(self.octets()?)
    }

    /// One more of the messages of a list.
    pub(crate) fn push_onto<M: Message<'a>>(
        self,
        list: &mut Option<Vec<M>>,
    ) -> Result<(), Malformed> {
        list.get_or_insert_default().push(read(self.octets()?)?);
        Ok(())
    }

    /// One more of the texts of a list.
    pub(crate) fn push_text(self, list: &mut Option<Vec<Text<'a>>>) -> Result<(), Malformed> {
        list.get_or_insert_default().push(self.text()?);
        Ok(())
    }

    /// One more pair of a table of texts.
    pub(crate) fn pair(self) -> Result<Pair<'a>, Malformed> {
        read(self.octets()?)
    }
}

/// A pair of a table of texts. Its texts are not looked at before someone wants them.
#[derive(Debug, Default)]
pub(crate) struct Pair<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> Message<'a> for Pair<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.key = value.octets()?,
            2 => self.value = value.octets()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Pair<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Both texts.
    pub(crate) fn texts(&self) -> Result<(Text<'a>, Text<'a>), Malformed> {
        Ok((Value::Octets(self.key).text()?, self.value()?))
    }

    pub(crate) fn value(&self) -> Result<Text<'a>, Malformed> {
        Value::Octets(self.value).text()
    }
}

/// The first field of `rest`, which then begins behind it.
fn field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Value<'a>), Malformed> {
    let head = Head::take(rest)?;
    let value = match head.follows {
        Follows::Number(number) => Value::Number(number),
        Follows::Octets(len) => {
            let len = usize::try_from(len).map_err(|_| Malformed::Cut)?;
            Value::Octets(take(rest, len)?)
        }
        Follows::Fixed(len) => {
            take(rest, len)?;
            Value::Other
        }
    };
    Ok((head.number, value))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Malformed> {
    let (taken, after) = rest.split_at_checked(len).ok_or(Malformed::Cut)?;
    *rest = after;
    Ok(taken)
}

/// How a field begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u32,
    pub(crate) follows: Follows,
}

/// What comes after the beginning of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Nothing: the number has been read with it.
    Number(u64),
    /// So many octets that mean something.
    Octets(u64),
    /// So many octets that do not.
    Fixed(usize),
}

impl Head {
    /// The longest one, in octets.
    pub(crate) const LEN_MAX: usize = 20;

    /// Takes it from the front of `rest`.
    pub(crate) fn take(rest: &mut &[u8]) -> Result<Self, Malformed> {
        let key = number(rest)?;
        let field = u32::try_from(key >> 3).map_err(|_| Malformed::Field)?;
        let follows = match key & 7 {
            0 => Follows::Number(number(rest)?),
            1 => Follows::Fixed(8),
            2 => Follows::Octets(number(rest)?),
            5 => Follows::Fixed(4),
            _ => return Err(Malformed::Field),
        };
        if field == 0 { Err(Malformed::Field) } else { Ok(Self { number: field, follows }) }
    }
}

/// A number, seven bits an octet, the lowest first.
#[inline]
fn number(rest: &mut &[u8]) -> Result<u64, Malformed> {
    match rest.split_first() {
        Some((first, after)) if *first < 0x80 => {
            *rest = after;
            Ok(u64::from(*first))
        }
        _ => long_number(rest),
    }
}

fn long_number(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for (at, octet) in rest.iter().enumerate() {
        let bits = u64::from(octet & 0x7f);
        if at > 9 || (at == 9 && bits > 1) {
            return Err(Malformed::Number);
        }
        number |= bits << (7 * at);
        if *octet < 0x80 {
            *rest = rest.get(at + 1..).unwrap_or_default();
            return Ok(number);
        }
    }
    Err(Malformed::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(octets: &[u8]) -> Result<u64, Malformed> {
        let mut rest = octets;
        let found = number(&mut rest)?;
        assert!(rest.is_empty());
        Ok(found)
    }

    #[test]
    fn numbers_have_at_most_64_bits() {
        assert_eq!(numbers(&[0x7f]), Ok(127));
        assert_eq!(numbers(&[0xac, 0x02]), Ok(300));
        // As int32 and int64 write what is below zero.
        let minus_one = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(numbers(&minus_one), Ok(u64::MAX));
        assert_eq!(numbers(&[&[0xff; 9][..], &[2]].concat()), Err(Malformed::Number));
        assert_eq!(numbers(&[0xff; 11]), Err(Malformed::Number));
        assert_eq!(numbers(&[0xff; 9]), Err(Malformed::Cut));
        assert_eq!(numbers(&[]), Err(Malformed::Cut));
    }

    #[test]
    fn fields_are_told_apart_by_how_they_begin() {
        let octets = [0x08, 5, 0x12, 2, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let mut rest = &octets[..];
        assert_eq!(field(&mut rest), Ok((1, Value::Number(5))));
        assert_eq!(field(&mut rest), Ok((2, Value::Octets(b"hi"))));
        assert_eq!(field(&mut rest), Ok((3, Value::Other)));
        assert_eq!(field(&mut rest), Ok((4, Value::Other)));
        assert!(rest.is_empty());
        // Groups are gone from the language, and there is no field 0.
        for wrong in
            [&[0x0b][..], &[0x0c], &[0x0e], &[0x00, 1], &[0x80, 0x80, 0x80, 0x80, 0x80, 1, 1]]
        {
            assert_eq!(field(&mut &wrong[..]), Err(Malformed::Field), "{wrong:?}");
        }
        for cut in [&[0x12, 3, 1, 2][..], &[0x12], &[0x08], &[0x1d, 1, 2, 3], &[0x21, 1]] {
            assert_eq!(field(&mut &cut[..]), Err(Malformed::Cut), "{cut:?}");
        }
        let huge = [&[0x12][..], &[0xff; 9], &[1]].concat();
        assert_eq!(field(&mut &huge[..]), Err(Malformed::Cut));
    }
}

/// Messages as the API server writes them, for tests.
#[cfg(test)]
pub(crate) mod testing {
    /// A message of these fields.
    pub(crate) fn message(fields: &[Vec<u8>]) -> Vec<u8> {
        fields.concat()
    }

    /// A number of seven bits an octet.
    fn varint(mut number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while number >= 0x80 {
            out.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out
    }

    /// A field that is a text or message.
    pub(crate) fn octets(field: u32, octets: &[u8]) -> Vec<u8> {
        let head = [varint(u64::from(field) << 3 | 2), varint(octets.len() as u64)];
        [&head.concat(), octets].concat()
    }

    /// A field that is a number.
    pub(crate) fn number(field: u32, number: u64) -> Vec<u8> {
        [varint(u64::from(field) << 3), varint(number)].concat()
    }
}
