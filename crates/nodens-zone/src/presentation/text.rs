//! Character-strings (RFC 1035 section 3.3).

use super::PresentationError;
use super::tokens::{Token, Tokens};

/// A word as character-strings (RFC 1035 section 3.3), of 255 octets at most.
pub(super) fn text(rdata: &mut Vec<u8>, word: &Token<'_>) -> Result<(), PresentationError> {
    let octets = word.octets()?;
    let mut rest = octets.as_slice();
    loop {
        let (piece, behind) = rest.split_at(rest.len().min(255));
        rdata.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
        rdata.extend(piece);
        rest = behind;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// A word that has to be one character-string.
pub(super) fn one_text(rdata: &mut Vec<u8>, word: &Token<'_>) -> Result<(), PresentationError> {
    if word.octets()?.len() > usize::from(u8::MAX) {
        return Err(word.unlike("at most 255 octets"));
    }
    text(rdata, word)
}

/// All words as character-strings. There is at least one (RFC 1035 section 3.3.14).
pub(super) fn texts(rdata: &mut Vec<u8>, tokens: &mut Tokens<'_>) -> Result<(), PresentationError> {
    text(rdata, &tokens.expect("text")?)?;
    while let Some(word) = tokens.next()? {
        text(rdata, &word)?;
    }
    Ok(())
}

/// Two character-strings of 255 octets at most; the second is empty if there is one word.
pub(super) fn two_texts(
    rdata: &mut Vec<u8>,
    tokens: &mut Tokens<'_>,
) -> Result<(), PresentationError> {
    let word = tokens.expect("text")?;
    let (mut first, mut others) = (word.octets()?, Vec::new());
    while let Some(word) = tokens.next()? {
        others.push(word.octets()?);
    }
    // Both may stand between one pair of quotes.
    if others.is_empty() && first.iter().any(u8::is_ascii_whitespace) {
        let mut words = word.raw.split_ascii_whitespace().map(|raw| Token { raw, ..word }.octets());
        first = words.next().unwrap_or(Ok(Vec::new()))?;
        others = words.collect::<Result<_, _>>()?;
    }
    for string in [first, others.join(&b' ')] {
        let length = u8::try_from(string.len());
        rdata.push(length.map_err(|_| word.unlike("text of 255 octets at most"))?);
        rdata.extend(string);
    }
    Ok(())
}
