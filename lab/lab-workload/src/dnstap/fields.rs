//! Fields of protocol buffers, one after the other.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number: of variable length, or of four or eight octets.
    Number(u64),
    /// Octets, or a message inside the message.
    Octets(&'a [u8]),
}

/// A field: its number, its value, and the octet of the message where it starts.
pub(super) type Field<'a> = (u64, Value<'a>, usize);

/// Octets of a number of variable length.
const VARINT_LEN_MAX: usize = 10;

/// The fields of a message; ends behind the first that is broken.
pub(super) struct Fields<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    fn read(&mut self) -> Result<Field<'a>, String> {
        let start = self.at;
        let key = self.varint()?;
        let number = key >> 3;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(self.array(number)?)),
            2 => {
                let len = self.varint()?;
                Value::Octets(self.take(number, len)?)
            }
            5 => Value::Number(u32::from_le_bytes(self.array(number)?).into()),
            kind => {
                return Err(format!("wire type {kind} of field {number}, expected 0, 1, 2 or 5"));
            }
        };
        Ok((number, value, start))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for at in 0..VARINT_LEN_MAX {
            let octet = *self.octets.get(self.at).ok_or("a number that the frame ends in")?;
            self.at += 1;
            let bits = u64::from(octet & 0x7f);
            // Of the tenth octet one bit is left.
            if at + 1 == VARINT_LEN_MAX && bits > 1 {
                break;
            }
            value |= bits << (7 * at);
            if octet < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".to_owned())
    }

    fn take(&mut self, number: u64, len: u64) -> Result<&'a [u8], String> {
        let rest = self.octets.get(self.at..).unwrap_or_default();
        let octets = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let octets = octets.ok_or_else(|| {
            format!("field {number} of {len} octets, but {} are left in the frame", rest.len())
        })?;
        self.at += octets.len();
        Ok(octets)
    }

    fn array<const N: usize>(&mut self, number: u64) -> Result<[u8; N], String> {
        let octets = self.take(number, N as u64)?;
        octets.try_into().map_err(|_| format!("field {number} is cut"))
    }
}

impl<'a> Iterator for Fields<'a> {
    /// A field, or what is wrong with it and the octet where it starts.
    type Item = Result<Field<'a>, (usize, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.octets.len() {
            return None;
        }
        let start = self.at;
        let field = self.read();
        if field.is_err() {
            self.at = self.octets.len();
        }
        Some(field.map_err(|what| (start, what)))
    }
}
