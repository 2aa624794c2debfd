//! Neighbouring datagrams of equal length as segments of one (`UDP_SEGMENT`).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most segments of one datagram (`UDP_MAX_SEGMENTS` of older kernels).
const SEGMENTS_MAX: usize = 64;
/// Most octets of all segments, below the largest UDP payload.
const SEGMENTED_LEN_MAX: usize = 60_000;
/// Octets of control data that say how long a segment is, in words: a header of 16 octets, and two octets
/// with padding.
const CONTROL_WORDS: usize = 4;

/// A header for each run of datagrams that leaves as one.
#[derive(Default)]
pub(super) struct Segmented {
    headers: Vec<libc::mmsghdr>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    /// Datagrams of each run.
    runs: Vec<usize>,
}

impl Segmented {
    /// Sends datagrams of these lengths, which `vectors` point at, and says how many were taken.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        lens: &[usize],
        vectors: &mut [libc::iovec],
    ) -> io::Result<usize> {
        self.split(lens);
        self.point(lens, vectors);
        // SAFETY: `point` has pointed each header at vectors of its own run, which the caller has pointed
        // at octets that live as long as the call, and at control words of `self`. None of them is moved
        // before the call returns.
        let sent = crate::check(libc::c_long::from(unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        }))?;
        Ok(self.runs.iter().take(sent).sum())
    }

    /// Finds the runs: equal lengths, and one shorter at the end, as the kernel would cut them.
    fn split(&mut self, mut lens: &[usize]) {
        self.runs.clear();
        while let Some(&len) = lens.first() {
            // Segments of no octets would be one datagram.
            let most =
                SEGMENTED_LEN_MAX.checked_div(len).map_or(1, |fits| SEGMENTS_MAX.min(fits).max(1));
            let equal = lens.iter().take(most).take_while(|other| **other == len).count();
            let shorter = lens.get(equal).is_some_and(|other| (1..len).contains(other));
            let run = equal + usize::from(shorter && equal < most);
            self.runs.push(run);
            lens = lens.get(run..).unwrap_or_default();
        }
    }

    fn point(&mut self, mut lens: &[usize], mut vectors: &mut [libc::iovec]) {
        let runs = self.runs.len();
        if self.headers.len() != runs {
            // SAFETY: all zeroes is a valid `mmsghdr`: null pointers with zero lengths.
            self.headers.resize(runs, unsafe { mem::zeroed() });
            self.controls.resize(runs, [0; CONTROL_WORDS]);
        }
        let rows = self.headers.iter_mut().zip(&mut self.controls).zip(&self.runs);
        for ((header, control), &run) in rows {
            let at = run.min(vectors.len());
            let (of_run, rest) = mem::take(&mut vectors).split_at_mut(at);
            let len = lens.first().copied().unwrap_or(0);
            (vectors, lens) = (rest, lens.get(run..).unwrap_or_default());
            header.msg_hdr.msg_iov = of_run.as_mut_ptr();
            header.msg_hdr.msg_iovlen = of_run.len() as _;
            let segment = u16::try_from(len).ok().filter(|_| run > 1);
            set_segment(&mut header.msg_hdr, control, segment);
        }
    }
}

/// Says how long the segments of a datagram are; `None` makes it a plain one.
fn set_segment(
    header: &mut libc::msghdr,
    control: &mut [u64; CONTROL_WORDS],
    segment: Option<u16>,
) {
    let Some(segment) = segment else {
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = 0;
        return;
    };
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: computes a length and touches no memory; it is at most that of `control`.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(mem::size_of::<u16>() as _) } as _;
    // SAFETY: the first control header lies in `control`, which is large enough for it and its data and
    // aligned for it.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = libc::SOL_UDP;
        (*message).cmsg_type = libc::UDP_SEGMENT;
        (*message).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as _) as _;
        libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn runs_are_of_equal_length_with_one_shorter_at_the_end() {
        let runs = |lens: &[usize]| {
            let mut segmented = Segmented::default();
            segmented.split(lens);
            segmented.runs
        };
        assert_eq!(runs(&[3, 3, 3, 5, 3, 3]), [3, 2, 1]);
        assert_eq!(runs(&[5, 0, 0]), [1, 1, 1]);
        assert_eq!(runs(&[7; 130]), [64, 64, 2]);
        assert_eq!(runs(&[&[7; 64][..], &[6]].concat()), [64, 1], "no more than 64 in all");
        assert_eq!(runs(&[40_000, 40_000]), [1, 1]);
    }

    #[test]
    fn segments_arrive_as_datagrams_in_one_call_whatever_their_lengths() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        // Fewer runs and more of them than in the round before.
        for texts in [
            &["skip", "one", "two", "six", "seven", "ten", "eleven"][..],
            &["skip", "one", "two"],
            &["skip", "a", "bb", "ccc", "d", "eeee", "f", "g"],
        ] {
            let mut out = Batch::connected(8, 16);
            assert!(texts.iter().all(|text| out.push(text.as_bytes())));
            assert_eq!(out.send_segments(client.as_fd(), 1).unwrap(), texts.len() - 1);
            assert_eq!(out.send_segments(client.as_fd(), texts.len()).unwrap(), 0);
            for text in &texts[1..] {
                let mut got = [0; 16];
                let len = server.recv(&mut got).unwrap();
                assert_eq!(std::str::from_utf8(&got[..len]), Ok(*text));
            }
        }
    }
}
