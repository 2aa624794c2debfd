//! The head of a request: what of it matters here.

use super::body::{Length, has_whole_ends};
use crate::limits::{HTTP_FIELDS_MAX, HTTP_HEAD_LEN_MAX};
use http::{Method, StatusCode, Uri};
use httparse::{EMPTY_HEADER, Error, Header, Request, Status};

/// What is no head, and how to say so.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) StatusCode);

/// A head.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) target: Uri,
    pub(super) length: Length,
    /// It is of HTTP/1.0.
    pub(super) is_old: bool,
    /// The client wants the connection to close after the response.
    pub(super) closes: bool,
    /// The client sends the body once it hears that it shall.
    pub(super) awaits_consent: bool,
}

const BAD: Malformed = Malformed(StatusCode::BAD_REQUEST);

/// The head that `octets` begin with, and its length; none if more is to come.
pub(super) fn read(octets: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
    let mut fields = [EMPTY_HEADER; HTTP_FIELDS_MAX];
    let mut request = Request::new(&mut fields);
    let len = match request.parse(octets) {
        Ok(Status::Partial) => return Ok(None),
        Ok(Status::Complete(len)) if len <= HTTP_HEAD_LEN_MAX && !has_whole_ends(octets, len) => {
            return Err(BAD);
        }
        Ok(Status::Complete(len)) if len <= HTTP_HEAD_LEN_MAX => len,
        Ok(Status::Complete(_)) | Err(Error::TooManyHeaders) => {
            return Err(Malformed(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        Err(Error::Version) => return Err(Malformed(StatusCode::HTTP_VERSION_NOT_SUPPORTED)),
        Err(_) => return Err(BAD),
    };
    let method = request.method.and_then(|method| Method::from_bytes(method.as_bytes()).ok());
    let target = request.path.and_then(|path| path.parse().ok());
    let (Some(method), Some(target)) = (method, target) else { return Err(BAD) };
    let is_old = request.version == Some(0);
    let fields = Fields(request.headers);
    if !is_old && fields.all("host").count() != 1 {
        return Err(BAD);
    }
    let length = length(&fields, is_old)?;
    let closes = match is_old {
        true => !fields.has_word("connection", "keep-alive"),
        false => fields.has_word("connection", "close"),
    };
    let expected = fields.all("expect").next();
    let awaits_consent =
        expected.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue")) && !is_old;
    if expected.is_some() && !awaits_consent {
        return Err(Malformed(StatusCode::EXPECTATION_FAILED));
    }
    Ok(Some((Head { method, target, length, is_old, closes, awaits_consent }, len)))
}

/// How long the body is. What two readers could understand differently is refused (RFC 9112 section
/// 6.3): a proxy in front may be the other one.
fn length(fields: &Fields<'_>, is_old: bool) -> Result<Length, Malformed> {
    let mut codings = fields.all("transfer-encoding");
    let coding = codings.next();
    let mut lengths = fields.all("content-length");
    let length = lengths.next();
    match (coding, length) {
        (None, None) => Ok(Length::Known(0)),
        (None, Some(length)) => {
            if lengths.any(|other| other != length) {
                return Err(BAD);
            }
            let digits = length.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(length).ok().filter(|_| digits);
            number.and_then(|number| number.parse().ok()).map(Length::Known).ok_or(BAD)
        }
        (Some(_), Some(_)) => Err(BAD),
        (Some(_), None) if is_old || codings.next().is_some() => Err(BAD),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Length::Chunked),
        (Some(_), None) => Err(Malformed(StatusCode::NOT_IMPLEMENTED)),
    }
}

struct Fields<'f>(&'f [Header<'f>]);

impl<'f> Fields<'f> {
    /// The values of a field, without the spaces around them.
    fn all(&self, name: &'static str) -> impl Iterator<Item = &'f [u8]> {
        let named = self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value.trim_ascii())
    }

    /// Whether a list has a word.
    fn has_word(&self, name: &'static str, word: &str) -> bool {
        let words = self.all(name).flat_map(|value| value.split(|octet| *octet == b','));
        words.map(<[u8]>::trim_ascii).any(|own| own.eq_ignore_ascii_case(word.as_bytes()))
    }
}
