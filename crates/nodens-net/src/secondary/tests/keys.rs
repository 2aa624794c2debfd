//! Signed queries, and primaries that sign what they answer, or do not.

use super::*;
use crate::clock;
use nodens_zone::tsig::{Check, Key, Keys, Signature, Signer, check};

const SECRET: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";

/// How a primary signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Each,
    /// All but the last message.
    NotTheLast,
    /// Changes the last message after it was signed.
    Changed,
    Never,
    /// At another time than it is.
    Late,
}

fn key(secret: &str) -> Key {
    Key::parse("transfer.key.", secret, Some("hmac-sha256")).unwrap()
}

/// One message of a response.
fn message(query: &[u8], qtype: Type, rcode: Rcode, record: Option<&Record>) -> Vec<u8> {
    let (mut out, id) = (Vec::new(), u16::from_be_bytes([query[0], query[1]]));
    let flags = Flags(0).reply().with(Flags::AA, true).with_rcode(rcode);
    let mut builder = Builder::new(&mut out, id, flags);
    builder.question(zone().view(), qtype, Class::IN);
    if let Some(record) = record {
        builder.push(Section::Answer, record).unwrap();
    }
    out
}

fn sign(signer: &mut Signer, message: &mut Vec<u8>) {
    signer.sign_next(message, clock::now().unix_s).unwrap();
}

/// All messages of the response to `query`.
fn respond(keys: &Keys, query: &[u8], manner: Manner) -> Vec<Vec<u8>> {
    let qtype = Message::parse(query).unwrap().questions[0].qtype;
    let refused = |rcode| vec![message(query, qtype, rcode, None)];
    let Ok(Some(signature)) = Signature::find(query) else { return refused(Rcode::REFUSED) };
    let mut signer = match check(keys, query, &signature, clock::now().unix_s) {
        Check::Verified(signer) => signer,
        Check::Refused(mut signer) => {
            let mut messages = refused(Rcode::NOTAUTH);
            sign(&mut signer, &mut messages[0]);
            return messages;
        }
        Check::Malformed => return refused(Rcode::FORMERR),
    };
    let records = match qtype {
        Type::SOA => vec![soa(7, 3600)],
        _ => whole(7, &[1, 2, 3]),
    };
    let messages = records.iter().map(|record| message(query, qtype, Rcode::NOERROR, Some(record)));
    let (mut messages, last) = (messages.collect::<Vec<_>>(), records.len() - 1);
    for (at, message) in messages.iter_mut().enumerate() {
        let is_last_of_many = at == last && last > 0;
        if manner == Manner::Never || (manner == Manner::NotTheLast && is_last_of_many) {
            continue;
        }
        match manner {
            Manner::Late => signer.sign_next(message, clock::now().unix_s - 900).unwrap(),
            _ => sign(&mut signer, message),
        }
        if manner == Manner::Changed && is_last_of_many {
            // RD.
            message[2] ^= 1;
        }
    }
    messages
}

fn primary(secret: &str, manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut keys = Keys::default();
    keys.add(key(secret)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while let Ok(query) = read_message(&mut stream) {
                let messages = respond(&keys, &query, manner);
                let framed: Vec<_> = messages.iter().map(|message| framed(message)).collect();
                if stream.write_all(&framed.concat()).is_err() {
                    break;
                }
            }
        }
    });
    address
}

#[test]
fn what_is_signed_throughout_is_served() {
    let running = run_with(&[primary(SECRET, Manner::Each)], Some(key(SECRET)));
    running.until(Some(7));
    running.until_said("Transferred: example.org. from");
    assert_eq!(running.addresses(), 3);
}

#[test]
fn what_is_not_signed_or_changed_is_not_served() {
    let other = "X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus=";
    for (secret, manner, signs, reason) in [
        (SECRET, Manner::NotTheLast, true, "the first or the last message of the response has no"),
        (SECRET, Manner::Changed, true, "the signature of the response does not verify"),
        (SECRET, Manner::Never, true, "the first or the last message of the response has no"),
        (SECRET, Manner::Late, true, "the response was signed"),
        (other, Manner::Each, true, "the server refused the signature of the query with BADSIG"),
        (SECRET, Manner::Each, false, "rcode REFUSED"),
    ] {
        let running = run_with(&[primary(secret, manner)], signs.then(|| key(SECRET)));
        running.until_said(reason);
        assert!(running.zone.soa().is_none(), "{manner:?}");
    }
}
