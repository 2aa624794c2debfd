//! The option Padding (RFC 7830): lengths that say less of what is asked and answered.

use crate::MESSAGE_LEN_MAX;
use crate::edns::{OPTION_HEAD_LEN, code};
use crate::header::Header;
use crate::record::Records;
use crate::shape::{ResponseEdns, push_opt};
use crate::types::{Rcode, Type};

/// What queries are padded to a multiple of, in octets (RFC 8467 section 4.1).
const QUERY_BLOCK: usize = 128;
/// The size over UDP that an OPT record has which is there for its padding alone: one that is not fragmented.
const UDP_SIZE: u16 = 1232;

/// Adds the option Padding (RFC 7830) to a response that [`shape`](crate::shape::shape) has given an OPT record with these
/// `options`: it becomes as long as the next multiple of `block` octets, or as `limit` allows. Where the
/// head of the option has no room either, nothing changes.
pub fn pad(response: &mut Vec<u8>, options: &[u8], block: usize, limit: usize) {
    pad_behind(response, options.len(), block, limit);
}

/// Pads a query to a multiple of 128 octets; one without an OPT record gets one. What has another record behind that,
/// or cannot be read, stays as it is.
pub fn pad_query(query: &mut Vec<u8>) {
    let Ok(mut header) = Header::read(query) else { return };
    let Ok(records) = Records::of(query) else { return };
    let question_end = records.at();
    match records.last() {
        None if header.counts == [1, 0, 0, 0] && question_end == query.len() => {
            header.counts = [1, 0, 0, 1];
            header.write_to(query);
            push_opt(
                query,
                Rcode::NOERROR,
                ResponseEdns { udp_size: UDP_SIZE, ..Default::default() },
            );
            pad_behind(query, 0, QUERY_BLOCK, MESSAGE_LEN_MAX);
        }
        Some(Ok(last)) if last.rtype == Type::OPT && last.rdata.end == query.len() => {
            pad_behind(query, last.rdata.len(), QUERY_BLOCK, MESSAGE_LEN_MAX);
        }
        _ => {}
    }
}

fn pad_behind(message: &mut Vec<u8>, options: usize, block: usize, limit: usize) {
    let Some(len_at) = message.len().checked_sub(options + 2) else { return };
    let with_head = message.len() + OPTION_HEAD_LEN;
    let Some(room) = limit.checked_sub(with_head) else { return };
    let padding = (with_head.next_multiple_of(block) - with_head).min(room);
    let options = message.len() + OPTION_HEAD_LEN + padding - len_at - 2;
    let (Ok(len), Ok(options)) = (u16::try_from(padding), u16::try_from(options)) else { return };
    if let Some(field) = message.get_mut(len_at..len_at + 2) {
        field.copy_from_slice(&options.to_be_bytes());
    }
    message.extend(code::PADDING.to_be_bytes());
    message.extend(len.to_be_bytes());
    message.resize(message.len() + padding, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use crate::edns::OPT_LEN;
    use crate::shape::shape;
    use crate::shape::tests::response;

    #[test]
    fn padding_fills_blocks_as_far_as_the_limit_allows() {
        let options = [0, code::COOKIE as u8, 0, 2, 7, 7];
        for records in 0..40 {
            let mut bytes = response(records);
            let edns = ResponseEdns { options: &options, ..Default::default() };
            shape(&mut bytes, Rcode::NOERROR, Some(edns), 65_535).unwrap();
            let shaped = bytes.len();
            pad(&mut bytes, &options, 468, 65_535);
            assert_eq!((bytes.len() % 468, bytes.len() / 468), (0, 1 + (shaped + 3) / 468));
            let message = Message::parse(&bytes).unwrap();
            let (_, given) = message.edns().unwrap();
            let given: Vec<_> = given.collect();
            assert_eq!(given[0], (code::COOKIE, &[7, 7][..]));
            assert_eq!((given[1].0, given.len()), (code::PADDING, 2));
        }
        // Only the head of the option has room, then not even that.
        for (limit, len) in
            [(512, 512), (plain_len() + 4, plain_len() + 4), (plain_len() + 3, plain_len())]
        {
            let mut bytes = response(1);
            shape(&mut bytes, Rcode::NOERROR, Some(ResponseEdns::default()), limit).unwrap();
            pad(&mut bytes, &[], 600, limit);
            assert_eq!((bytes.len(), Message::parse(&bytes).unwrap().answer.len()), (len, 1));
        }
    }

    fn plain_len() -> usize {
        response(1).len() + OPT_LEN
    }

    #[test]
    fn a_query_is_padded_whatever_it_has_and_keeps_that() {
        let given = |query: &[u8]| {
            let message = Message::parse(query).unwrap();
            let (edns, options) = message.edns().unwrap();
            let lens = options.map(|(code, data)| (code, data.len())).collect::<Vec<_>>();
            (edns.udp_size, lens)
        };
        let mut query = response(0);
        let plain = query.clone();
        pad_query(&mut query);
        let padding = 128 - plain.len() - OPT_LEN - OPTION_HEAD_LEN;
        assert_eq!((query.len(), given(&query)), (128, (UDP_SIZE, vec![(code::PADDING, padding)])));
        assert_eq!(
            Message::parse(&query).unwrap().questions,
            Message::parse(&plain).unwrap().questions
        );
        let mut query = plain.clone();
        let options = [0, code::COOKIE as u8, 0, 2, 7, 7];
        let edns = ResponseEdns { udp_size: 4000, options: &options, ..Default::default() };
        shape(&mut query, Rcode::NOERROR, Some(edns), 65_535).unwrap();
        pad_query(&mut query);
        let padding = (code::PADDING, padding - options.len());
        assert_eq!((query.len(), given(&query)), (128, (4000, vec![(code::COOKIE, 2), padding])));
        // Nothing may stand behind a signature, and what is no query stays as it is.
        for mut other in [response(1), b"short".to_vec(), [&plain[..], b"rest"].concat()] {
            let before = other.clone();
            pad_query(&mut other);
            assert_eq!(other, before);
        }
    }
}
