//! Objects in protobuf out of pieces of a list.

use crate::events::Page;
use crate::form::MAGIC;
use crate::limits::{BUFFER_KEPT, ENVELOPE_MAX, LINE_MAX};
use crate::protobuf::{self, Follows, Head, Malformed, Message, Value};

/// Cuts a list into its objects and what stands around them, as it arrives. A list is `k8s`, a
/// zero, and the message `runtime.Unknown`, whose field `raw` is the list itself: its metadata and
/// its objects. What arrives in one piece is not copied.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// The magic and the beginning of a field, as long as they are not whole.
    begun: Vec<u8>,
    has_magic: bool,
    /// How much of the list is still to come; none outside of it.
    list_left: Option<u64>,
    body: Body,
    item: Vec<u8>,
    /// The metadata of the list; none before it has come.
    meta: Option<Vec<u8>>,
    too_large: u64,
}

/// What the next octets belong to, and how many of them do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Body {
    /// The beginning of a field.
    #[default]
    None,
    Item(usize),
    Meta(usize),
    Skip(u64),
}

/// The fields of `runtime.Unknown` and of every list that matter.
const RAW: u32 = 2;
const META: u32 = 1;
const ITEMS: u32 = 2;

impl Messages {
    /// Calls `with` for each object that ends in `piece`.
    ///
    /// # Errors
    /// If it is no list.
    pub(crate) fn feed(
        &mut self,
        mut piece: &[u8],
        mut with: impl FnMut(&[u8]),
    ) -> Result<(), Malformed> {
        while !piece.is_empty() {
            piece = match self.body {
                Body::None => self.head(piece, &mut with)?,
                Body::Item(len) => self.item(len, piece, &mut with),
                Body::Meta(len) => self.meta(len, piece),
                Body::Skip(len) => {
                    let skipped = usize::try_from(len).unwrap_or(usize::MAX).min(piece.len());
                    let left = len - skipped as u64;
                    self.body = if left == 0 { Body::None } else { Body::Skip(left) };
                    piece.get(skipped..).unwrap_or_default()
                }
            };
            if self.body == Body::None && self.list_left == Some(0) {
                self.list_left = None;
            }
        }
        Ok(())
    }

    /// Reads the beginning of a field; gives what comes after it.
    fn head<'p>(
        &mut self,
        piece: &'p [u8],
        with: &mut impl FnMut(&[u8]),
    ) -> Result<&'p [u8], Malformed> {
        if self.begun.is_empty() && self.has_magic {
            let mut rest = piece;
            match Head::take(&mut rest) {
                Ok(head) => {
                    self.enter(head, piece.len() - rest.len(), with)?;
                    return Ok(rest);
                }
                Err(Malformed::Cut) => {}
                Err(error) => return Err(error),
            }
        }
        // Octet by octet where pieces meet.
        let (octet, rest) = piece.split_first().ok_or(Malformed::Cut)?;
        self.begun.push(*octet);
        if !self.has_magic {
            if !MAGIC.starts_with(&self.begun) {
                return Err(Malformed::Expected("`k8s` in front of a list"));
            }
            self.has_magic = self.begun.len() == MAGIC.len();
            if self.has_magic {
                self.begun.clear();
            }
            return Ok(rest);
        }
        match Head::take(&mut &*self.begun) {
            Ok(head) => {
                let len = self.begun.len();
                self.begun.clear();
                self.enter(head, len, with)?;
            }
            Err(Malformed::Cut) if self.begun.len() < Head::LEN_MAX => {}
            Err(error) => return Err(error),
        }
        Ok(rest)
    }

    /// A field begins, with so many octets of its own.
    fn enter(
        &mut self,
        head: Head,
        len: usize,
        with: &mut impl FnMut(&[u8]),
    ) -> Result<(), Malformed> {
        let body = match head.follows {
            Follows::Number(_) => 0,
            Follows::Octets(len) => len,
            Follows::Fixed(len) => len as u64,
        };
        let Some(left) = &mut self.list_left else {
            match head {
                Head { number: RAW, follows: Follows::Octets(len) } => self.list_left = Some(len),
                _ => self.body = Body::Skip(body),
            }
            self.settle(with);
            return Ok(());
        };
        let all = body.saturating_add(len as u64);
        *left = left.checked_sub(all).ok_or(Malformed::Cut)?;
        let of_len = usize::try_from(body).unwrap_or(usize::MAX);
        self.body = match (head.number, head.follows) {
            (ITEMS, Follows::Octets(_)) if of_len <= LINE_MAX => Body::Item(of_len),
            (ITEMS, Follows::Octets(_)) => {
                self.too_large += 1;
                Body::Skip(body)
            }
            (META, Follows::Octets(_)) if of_len <= ENVELOPE_MAX => {
                self.meta = Some(Vec::with_capacity(of_len));
                Body::Meta(of_len)
            }
            (META, Follows::Octets(_)) => return Err(Malformed::Expected("shorter metadata")),
            _ => Body::Skip(body),
        };
        self.settle(with);
        Ok(())
    }

    /// Bodies without octets end where they begin.
    fn settle(&mut self, with: &mut impl FnMut(&[u8])) {
        if self.body == Body::Item(0) {
            with(&[]);
        }
        if matches!(self.body, Body::Item(0) | Body::Meta(0) | Body::Skip(0)) {
            self.body = Body::None;
        }
    }

    fn item<'p>(&mut self, len: usize, piece: &'p [u8], with: &mut impl FnMut(&[u8])) -> &'p [u8] {
        let Some((end, rest)) = piece.split_at_checked(len) else {
            self.item.extend_from_slice(piece);
            self.body = Body::Item(len - piece.len());
            return &[];
        };
        self.body = Body::None;
        if self.item.is_empty() {
            with(end);
        } else {
            self.item.extend_from_slice(end);
            with(&self.item);
            self.item.clear();
            self.item.shrink_to(BUFFER_KEPT);
        }
        rest
    }

    fn meta<'p>(&mut self, len: usize, piece: &'p [u8]) -> &'p [u8] {
        let (kept, rest) = piece.split_at(len.min(piece.len()));
        self.meta.get_or_insert_default().extend_from_slice(kept);
        let left = len - kept.len();
        self.body = if left == 0 { Body::None } else { Body::Meta(left) };
        rest
    }

    /// How many objects were too large.
    pub(crate) fn too_large(&self) -> u64 {
        self.too_large
    }

    /// What the list's metadata say.
    ///
    /// # Errors
    /// If the list is not whole.
    pub(crate) fn finish(self) -> Result<Page, Malformed> {
        let whole = self.has_magic && self.begun.is_empty();
        if !whole || self.body != Body::None || self.list_left.is_some() {
            return Err(Malformed::Cut);
        }
        let meta = self.meta.ok_or(Malformed::Expected("the metadata of a list"))?;
        let meta: ListMeta = protobuf::read(&meta)?;
        Ok(Page { version: meta.version, next: meta.next })
    }
}

#[derive(Default)]
struct ListMeta {
    version: String,
    next: Option<String>,
}

impl<'a> Message<'a> for ListMeta {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            2 => self.version = value.text()?.as_str().to_owned(),
            3 => {
                self.next = Some(value.text()?.as_str().to_owned()).filter(|next| !next.is_empty())
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::testing::{message, number, octets};

    fn list(items: &[&[u8]]) -> Vec<u8> {
        let meta = message(&[octets(1, b""), octets(2, b"57"), octets(3, b"more"), number(4, 300)]);
        let mut fields = vec![octets(1, &meta), number(9, 1 << 40)];
        fields.extend(items.iter().map(|item| octets(2, item)));
        let kind = message(&[octets(1, b"v1"), octets(2, b"ServiceList")]);
        let unknown = message(&[
            octets(1, &kind),
            octets(2, &message(&fields)),
            octets(3, b""),
            octets(4, b""),
        ]);
        [&MAGIC[..], &unknown].concat()
    }

    type End = Result<(Page, u64), Malformed>;

    fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, End) {
        let mut messages = Messages::default();
        let mut seen = Vec::new();
        for piece in pieces {
            if let Err(error) = messages.feed(piece, |item| seen.push(item.to_vec())) {
                return (seen, Err(error));
            }
        }
        let too_large = messages.too_large();
        (seen, messages.finish().map(|page| (page, too_large)))
    }

    #[test]
    fn wherever_a_list_is_cut_its_objects_are_the_same() {
        let long = [b'x'; 300];
        let list = list(&[b"one", b"", &long, b"\x12\x01a"]);
        let page = Page { version: "57".into(), next: Some("more".into()) };
        let items = [b"one".to_vec(), Vec::new(), long.to_vec(), b"\x12\x01a".to_vec()];
        for first in 0..list.len() {
            for second in (first..list.len()).step_by(7) {
                let pieces = [&list[..first], &list[first..second], &list[second..]];
                let (seen, end) = cut(&pieces);
                assert_eq!(seen, items, "{first} {second}");
                assert_eq!(end, Ok((page.clone(), 0)));
            }
        }
        let octets: Vec<&[u8]> = list.chunks(1).collect();
        assert_eq!(cut(&octets).0, items);
        for end in 0..list.len() {
            // Fields of `runtime.Unknown` that come after the list may be missing.
            let is_whole = end >= list.len() - 4 && [0, 2].contains(&((list.len() - end) % 4));
            assert_eq!(cut(&[&list[..end]]).1.is_ok(), is_whole, "{end} of {}", list.len());
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let empty = message(&[octets(2, &message(&[octets(1, b"")]))]);
        let end = cut(&[&MAGIC, &empty]).1.unwrap();
        assert_eq!(end, (Page::default(), 0));
        for wrong in [
            &b"{\"items\":[]}"[..],
            b"k8s\0",
            b"k8s\x01",
            b"k8s\0\x12\x00",
            // An object that is longer than its list.
            b"k8s\0\x12\x02\x12\x01",
            b"k8s\0\x12\x03\x12\x02a",
            b"k8s\0\x13",
        ] {
            assert!(cut(&[wrong]).1.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn neither_an_object_nor_what_is_around_it_grows_beyond_bounds() {
        let huge = vec![b'x'; LINE_MAX + 1];
        let list = list(&[b"a", &huge, b"b"]);
        let pieces: Vec<&[u8]> = list.chunks(1 << 20).collect();
        let (seen, end) = cut(&pieces);
        assert_eq!((seen, end.unwrap().1), (vec![b"a".to_vec(), b"b".to_vec()], 1));
        let long = vec![b'x'; ENVELOPE_MAX + 1];
        let meta = message(&[octets(2, &message(&[octets(1, &long)]))]);
        assert!(cut(&[&MAGIC, &meta]).1.is_err());
        // What is said to come is not made room for.
        let endless =
            [&MAGIC[..], &[0x12], &[0xff; 8], &[0x7f, 0x12], &[0xff; 8], &[0x3f]].concat();
        let mut messages = Messages::default();
        messages.feed(&endless, |_| panic!("an object")).unwrap();
        messages.feed(&[0; 1000], |_| panic!("an object")).unwrap();
        assert!(messages.item.capacity() < 2 * BUFFER_KEPT);
    }
}
