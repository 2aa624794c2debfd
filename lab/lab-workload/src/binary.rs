//! dnsperf's binary query files: messages as in a TCP stream (RFC 1035 section 4.2.2), each behind its
//! length in two octets. `dnsperf -B` and `kxdpgun -B` read the same.

use crate::workload::Workload;

/// A file that ends inside a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("octet {offset}: message of {expected} octets, but the file ends after {left} of them")]
pub struct TruncatedFile {
    /// Where the length of the message stands, from the start of the file.
    pub offset: usize,
    /// Octets of the message, or 2 if even its length is cut.
    pub expected: usize,
    /// Octets that are there.
    pub left: usize,
}

/// Appends the messages in `octets` to `workload`. Nothing is checked but the lengths: IDs are
/// overwritten when a message is sent, and a message shorter than two octets is sent as it is.
pub fn read(octets: &[u8], workload: &mut Workload) -> Result<(), TruncatedFile> {
    let mut rest = octets;
    while !rest.is_empty() {
        let offset = octets.len() - rest.len();
        let cut = |expected, left| TruncatedFile { offset, expected, left };
        let (len, behind) = rest.split_first_chunk::<2>().ok_or(cut(2, rest.len()))?;
        let len = usize::from(u16::from_be_bytes(*len));
        let (message, behind) = behind.split_at_checked(len).ok_or(cut(len, behind.len()))?;
        workload.push_message(message);
        rest = behind;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::framing::framed;
    use proptest::prelude::*;

    fn sent(workload: &Workload, n: u64) -> Vec<u8> {
        let mut out = Vec::new();
        workload.append(n, 0x4142, &mut out);
        out
    }

    #[test]
    fn messages_keep_all_octets_but_their_id() {
        let query = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let mut file = vec![0, 1, 0xee, 0, 0, 0, 2, 9, 9, 0, query.len() as u8];
        file.extend(query);
        let mut workload = Workload::new(0);
        assert_eq!(read(&file, &mut workload), Ok(()));
        assert_eq!(workload.len(), 4);
        assert_eq!(
            [sent(&workload, 0), sent(&workload, 1), sent(&workload, 2)],
            [vec![0xee], vec![], b"AB".to_vec()]
        );
        assert_eq!(sent(&workload, 3)[2..], query[2..]);
        let mut answer = sent(&workload, 3);
        assert!(workload.is_question_of(3, &answer));
        answer[13] = b'b';
        assert!(!workload.is_question_of(3, &answer));
        assert!(!workload.is_question_of(0, &answer));
    }

    #[test]
    fn a_cut_file_is_named_by_offset_and_its_whole_messages_are_kept() {
        let mut workload = Workload::new(0);
        let error = read(&[0, 2, 1, 2, 0, 5, 1, 2], &mut workload).unwrap_err();
        assert_eq!(workload.len(), 1);
        assert_eq!(
            error.to_string(),
            "octet 4: message of 5 octets, but the file ends after 2 of them"
        );
        let error = read(&[7], &mut workload).unwrap_err();
        assert_eq!((error.offset, error.expected, error.left), (0, 2, 1));
    }

    proptest! {
        #[test]
        fn any_octets_are_sent_as_they_are_up_to_where_the_file_is_cut(
            messages: Vec<Vec<u8>>, tail in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            let mut file = Vec::new();
            for message in &messages {
                file.extend(framed(message));
            }
            let whole = file.len();
            file.extend(&tail);
            let mut workload = Workload::new(0);
            match read(&file, &mut workload) {
                Ok(()) => prop_assert!(workload.len() >= messages.len()),
                Err(error) => prop_assert!(error.offset >= whole && error.left < error.expected),
            }
            for (n, message) in messages.iter().enumerate() {
                let sent = sent(&workload, n as u64);
                prop_assert_eq!(sent.len(), message.len());
                prop_assert!(message.len() < 2 || sent[2..] == message[2..]);
                prop_assert!(message.len() < 2 || sent[..2] == [0x41, 0x42]);
            }
        }
    }
}
