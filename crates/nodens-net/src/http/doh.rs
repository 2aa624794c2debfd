//! Queries in requests, and what responses say beside the message (RFC 8484), as CoreDNS has both.

use super::age;
use crate::limits::{HTTP_QUERY_TEXT_MAX, REQUEST_LEN_MAX};
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use nodens_core::Now;
use nodens_core::config::HttpStatus;
use nodens_wire::{Admission, admit};
use percent_encoding::percent_decode_str;
use std::time::{Duration, UNIX_EPOCH};

/// Where queries are sent.
pub(super) const PATH: &str = "/dns-query";

/// Go's decoder wants no padding, and takes whatever bits are over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Where the query of a request is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the target.
    Target(Vec<u8>),
    /// In the body.
    Body,
}

/// What the head of a request says.
pub(super) fn place(method: &Method, target: &Uri) -> Result<Place, HttpStatus> {
    if !percent_decode_str(target.path()).eq(PATH.bytes()) {
        return Err(HttpStatus::NotFound);
    }
    match *method {
        Method::POST => Ok(Place::Body),
        Method::GET => {
            let message = target.query().and_then(in_query).ok_or(HttpStatus::BadRequest)?;
            Ok(Place::Target(message))
        }
        _ => Err(HttpStatus::BadRequest),
    }
}

/// The message in the part of a target behind `?`, where the parameter `dns` stands once.
fn in_query(query: &str) -> Option<Vec<u8>> {
    // As in Go, a pair with a semicolon is none, nor is one with a percent sign that means nothing.
    let pairs = query.split('&').filter(|pair| !pair.contains(';') && is_encoded(pair));
    let pairs = pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes()));
    let mut values = pairs.filter(|(name, _)| name == "dns").map(|(_, value)| value);
    let value = values.next().filter(|value| value.len() <= HTTP_QUERY_TEXT_MAX)?;
    if values.next().is_some() {
        return None;
    }
    let text: Vec<u8> = value.bytes().filter(|octet| !matches!(octet, b'\r' | b'\n')).collect();
    BASE64.decode(text).ok()
}

/// Whether two hexadecimal digits follow each percent sign.
fn is_encoded(pair: &str) -> bool {
    let mut escapes = pair.split('%').skip(1).map(str::as_bytes);
    escapes.all(|rest| {
        matches!(rest, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
    })
}

/// Whether a message may be asked; CoreDNS refuses in the language of HTTP what is no query.
pub(super) fn is_query(message: &[u8]) -> bool {
    message.len() <= REQUEST_LEN_MAX && matches!(admit(message), Admission::Accept(_))
}

/// The text of a response without a DNS message.
pub(super) const fn text(status: HttpStatus) -> &'static str {
    match status {
        HttpStatus::Ok | HttpStatus::NotFound => "\n",
        HttpStatus::BadRequest => "invalid request\n",
        HttpStatus::NoResponse => "No response\n",
    }
}

/// The fields of a response with `body`, of which the message is one if there is one.
pub(super) fn fields(status: HttpStatus, body: &[u8], now: Now) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(5);
    if status == HttpStatus::Ok {
        let media_type = HeaderValue::from_static("application/dns-message");
        fields.insert(header::CONTENT_TYPE, media_type);
        let age = format!("max-age={}", age::max_age(body));
        insert(&mut fields, header::CACHE_CONTROL, &age);
    } else {
        let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
        fields.insert(header::CONTENT_TYPE, media_type);
        let nosniff = HeaderValue::from_static("nosniff");
        fields.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    }
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    insert(&mut fields, header::DATE, &date(now));
    fields
}

fn insert(fields: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        fields.insert(name, value);
    }
}

/// The time as HTTP writes it.
pub(super) fn date(now: Now) -> String {
    // What the library cannot write is no time of ours.
    const LAST: u64 = 253_402_300_799;
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now.unix_s.min(LAST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query for the root's NS records.
    const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";

    fn asked(method: &Method, target: &str) -> Result<Place, HttpStatus> {
        place(method, &target.parse().unwrap())
    }

    #[test]
    fn a_query_is_found_where_coredns_finds_it() {
        let get = |target: &str| asked(&Method::GET, target);
        let root = || Ok(Place::Target(ROOT.to_vec()));
        let text = "AAABAAABAAAAAAAAAAACAAE";
        for target in [
            format!("/dns-query?dns={text}"),
            format!("/dns%2Dquery?a=b&dns={text}&c"),
            format!("https://dns.example/dns-query?d%6es={text}"),
            format!("/dns-query?x;dns=1&dns={text}"),
            format!("/dns-query?dns=%zz&dns={text}"),
            format!("/dns-query?d%6=1&x=%&dns={text}"),
            // The last bits are nobody's.
            format!("/dns-query?dns={}F", &text[..22]),
            format!("/dns-query?dns={}%0A{}", &text[..4], &text[4..]),
        ] {
            assert_eq!(get(&target), root(), "{target}");
        }
        assert_eq!(asked(&Method::POST, "/dns-query?dns=x"), Ok(Place::Body));
        for target in [
            "/dns-query".to_owned(),
            "/dns-query?dns".to_owned() + "=!",
            format!("/dns-query?dns={text}&dns={text}"),
            format!("/dns-query?dns={text}="),
            format!("/dns-query?DNS={text}"),
            format!("/dns-query?dns={}", "A".repeat(HTTP_QUERY_TEXT_MAX + 1)),
            "/dns-query?dns=AA+A".to_owned(),
        ] {
            assert_eq!(get(&target), Err(HttpStatus::BadRequest), "{target}");
        }
        for method in [Method::HEAD, Method::PUT, Method::OPTIONS, Method::DELETE] {
            assert_eq!(asked(&method, "/dns-query"), Err(HttpStatus::BadRequest));
        }
        for target in ["/", "/dns-query/", "/dns-query%00", "/DNS-QUERY", "*", "/dns%2fquery"] {
            assert_eq!(get(target), Err(HttpStatus::NotFound), "{target}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused_before_the_chain() {
        assert!(is_query(ROOT));
        let mut response = ROOT.to_vec();
        response[2] |= 0x80;
        let mut update = ROOT.to_vec();
        update[2] |= 5 << 3;
        let mut long = ROOT.to_vec();
        long.resize(REQUEST_LEN_MAX + 1, 0);
        for message in [&response[..], &update, &long, &ROOT[..11], &ROOT[..14], b""] {
            assert!(!is_query(message), "{message:?}");
        }
    }

    #[test]
    fn times_are_written_whatever_they_are() {
        let at = |unix_s| date(Now { mono_ns: 0, unix_s });
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
