//! Signatures of messages, on both sides, and files of keys.

use nodens_wire::{Message, Name};
use nodens_zone::tsig::{Check, Key, Keys, Signature, check, key_file};

/// The time of all signatures made here.
const TIME: u64 = 1_700_000_000;

/// The first octet says what the rest is: a query, a response of several messages (the second octet says how many),
/// or a file of keys.
pub fn tsig(data: &[u8]) {
    let Some((what, data)) = data.split_first() else { return };
    match what % 3 {
        0 => query(data),
        1 => response(data),
        _ => {
            if let Ok(text) = std::str::from_utf8(data) {
                _ = key_file::parse(text);
            }
        }
    }
}

fn key() -> Key {
    let name: Name = "key.example.".parse().expect("a name");
    Key::new(name.view(), b"secret", None).expect("a key")
}

/// A query is verified or refused, and what the key's owner signs is verified.
fn query(data: &[u8]) {
    let mut keys = Keys::default();
    keys.add(key()).expect("the first key");
    if let Ok(Some(signature)) = Signature::find(data) {
        let found = check(&keys, data, &signature, TIME);
        if let Check::Verified(mut signer) | Check::Refused(mut signer) = found {
            let mut response = data[..12].to_vec();
            response[4..12].fill(0);
            let len = response.len() + signer.record_len();
            signer.sign_next(&mut response, TIME).expect("a header has room for a record");
            assert_eq!(response.len(), len);
            assert!(matches!(Signature::find(&response), Ok(Some(_))));
        }
        return;
    }
    let (Ok(message), mut signed) = (Message::parse(data), Vec::new()) else { return };
    let is_plain =
        message.write(&mut signed).is_ok() && matches!(Signature::find(&signed), Ok(None));
    if is_plain && key().sign_query(&mut signed, TIME).is_ok() {
        let found = Signature::find(&signed).expect("what was written can be read");
        let signature = found.expect("it was signed");
        assert!(matches!(check(&keys, &signed, &signature, TIME), Check::Verified(_)));
    }
}

/// No response verifies that is not signed.
fn response(data: &[u8]) {
    let Some((count, data)) = data.split_first() else { return };
    let mut query = vec![0; 12];
    let mut verifier = key().sign_query(&mut query, TIME).expect("a header has room for a record");
    let len = data.len() / (usize::from(*count % 8) + 1);
    for message in data.chunks(len.max(1)).take(8) {
        assert!(verifier.accept(message, TIME).is_err(), "a response that nobody signed verifies");
    }
    assert!(verifier.end().is_err());
}
