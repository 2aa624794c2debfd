//! Objects out of pieces of a list.

use crate::limits::{BUFFER_KEPT, ENVELOPE_MAX, LINE_MAX};

/// Cuts the text of a list (RFC 8259) into its `items` and what stands around them, as it arrives.
/// It only looks for where values begin and end; whether they are any good is for others to say.
#[derive(Debug, Default)]
pub(crate) struct Items {
    /// How many braces and brackets are open.
    depth: usize,
    within: Within,
    /// The last text directly within the list: the name of a field, or a value.
    word: Vec<u8>,
    in_items: bool,
    /// The object that has begun.
    item: Vec<u8>,
    /// Everything but the objects.
    around: Vec<u8>,
    too_large: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Structure,
    Text,
    Escape,
}

/// A list that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// The depth of the fields of a list.
const FIELDS: usize = 1;
/// The depth of what stands in `items`.
const ITEMS: usize = 2;

impl Items {
    /// Calls `with` for each object that ends in `piece`.
    ///
    /// # Errors
    /// If what stands around the objects grows beyond all bounds.
    pub(crate) fn feed(
        &mut self,
        piece: &[u8],
        mut with: impl FnMut(&[u8]),
    ) -> Result<(), TooLarge> {
        // Where that part of the piece begins which has not been kept anywhere.
        let mut from = 0;
        for (at, octet) in piece.iter().enumerate() {
            if self.within != Within::Structure {
                self.text(*octet);
                continue;
            }
            match octet {
                b'"' => {
                    self.within = Within::Text;
                    if self.depth == FIELDS {
                        self.word.clear();
                    }
                }
                b'{' | b'[' => {
                    if self.in_items && self.depth == ITEMS {
                        self.keep(piece.get(from..at));
                        from = at;
                    }
                    self.in_items |=
                        *octet == b'[' && self.depth == FIELDS && self.word == b"items";
                    self.depth += 1;
                }
                b'}' | b']' => {
                    let inner = self.depth;
                    self.depth = self.depth.saturating_sub(1);
                    if self.in_items && inner == ITEMS + 1 {
                        self.keep_item(piece.get(from..=at), &mut with);
                        from = at + 1;
                    }
                    self.in_items &= self.depth >= ITEMS;
                }
                _ => {}
            }
        }
        let rest = piece.get(from..);
        match self.is_within_an_item() {
            true => self.begin_item(rest),
            false => self.keep(rest),
        }
        if self.around.len() > ENVELOPE_MAX { Err(TooLarge) } else { Ok(()) }
    }

    fn text(&mut self, octet: u8) {
        self.within = match (self.within, octet) {
            (Within::Text, b'\\') => Within::Escape,
            (Within::Text, b'"') => Within::Structure,
            _ => Within::Text,
        };
        if self.within == Within::Text && self.depth == FIELDS && self.word.len() < 8 {
            self.word.push(octet);
        }
    }

    fn is_within_an_item(&self) -> bool {
        self.in_items && self.depth > ITEMS
    }

    fn keep(&mut self, text: Option<&[u8]>) {
        // Commas between objects say nothing.
        let text = text.unwrap_or_default();
        if !(self.in_items && self.depth == ITEMS && text.iter().all(|o| b", \n\r\t".contains(o))) {
            self.around.extend_from_slice(text);
        }
    }

    fn begin_item(&mut self, text: Option<&[u8]>) {
        // One octet more than fits marks an object that does not.
        let room = (LINE_MAX + 1).saturating_sub(self.item.len());
        let text = text.unwrap_or_default();
        self.item.extend_from_slice(text.get(..room).unwrap_or(text));
    }

    fn keep_item(&mut self, text: Option<&[u8]>, with: &mut impl FnMut(&[u8])) {
        if self.item.is_empty() {
            return with(text.unwrap_or_default());
        }
        self.begin_item(text);
        match self.item.len() > LINE_MAX {
            true => self.too_large += 1,
            false => with(&self.item),
        }
        self.item.clear();
        self.item.shrink_to(BUFFER_KEPT);
    }

    /// What stands around the objects, and how many objects were too large.
    pub(crate) fn finish(self) -> (Vec<u8>, u64) {
        (self.around, self.too_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<String>, String) {
        let mut items = Items::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let push = |item: &[u8]| seen.push(String::from_utf8_lossy(item).into_owned());
            items.feed(piece, push).unwrap();
        }
        (seen, String::from_utf8(items.finish().0).unwrap())
    }

    const LIST: &str = r#"{"kind":"items","metadata":{"items":[{"no":1}],"x":"]}\"{["}, "items" : [{"a":"}\\"},
        {"b":[{"c":"\"]"},{}],"items":[1]} ,{}],"after":"items","z":[{"no":2}]}"#;

    #[test]
    fn wherever_a_list_is_cut_its_objects_are_the_same() {
        let text = LIST.as_bytes();
        let whole = cut(&[text]);
        assert_eq!(whole.0, [r#"{"a":"}\\"}"#, r#"{"b":[{"c":"\"]"},{}],"items":[1]}"#, "{}"]);
        let around = r#"{"kind":"items","metadata":{"items":[{"no":1}],"x":"]}\"{["}, "items" : [],"after":"items","z":[{"no":2}]}"#;
        assert_eq!(whole.1, around);
        for first in 0..text.len() {
            for second in first..text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(cut(&pieces), whole, "{first} {second}");
            }
        }
    }

    #[test]
    fn what_is_no_list_has_no_objects() {
        for text in
            ["", "null", "[{}]", "]}]}", "{\"items\":7}", "\"items\":[{}]", "{\"items\":null}"]
        {
            assert!(cut(&[text.as_bytes()]).0.is_empty(), "{text}");
        }
    }

    #[test]
    fn neither_an_object_nor_what_is_around_it_grows_beyond_bounds() {
        let mut items = Items::default();
        let mut seen = 0;
        let piece = vec![b'x'; LINE_MAX / 4];
        items.feed(b"{\"items\":[{\"a\":\"", |_| seen += 1).unwrap();
        for _ in 0..6 {
            items.feed(&piece, |_| seen += 1).unwrap();
            assert!(items.item.len() <= LINE_MAX + 1);
        }
        items.feed(b"\"},{\"b\":1}]", |item| assert_eq!(item, b"{\"b\":1}")).unwrap();
        assert_eq!((seen, items.too_large), (0, 1));
        let spaces = vec![b' '; ENVELOPE_MAX];
        items.feed(&spaces, |_| ()).unwrap_err();
    }
}
