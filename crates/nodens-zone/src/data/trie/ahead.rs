//! Searches for several names side by side, for what they bring into the processor's caches.

use super::Trie;
use super::branch::Twig;
use crate::data::key::Key;
use crate::limits::NAMES_AT_ONCE;

impl Trie {
    /// Goes to where the searches for these keys end, each in one of the tries, one step of each after the other, so that
    /// the lines of memory that they wait for are fetched at the same time. How many end at a name.
    pub(in crate::data) fn go_ahead<'t>(
        tries: impl Iterator<Item = &'t Self>,
        keys: &[Key],
    ) -> usize {
        let mut places: [Option<&Twig>; NAMES_AT_ONCE] = [None; NAMES_AT_ONCE];
        for ((place, _), trie) in places.iter_mut().zip(keys).zip(tries) {
            trie.root.fetch();
            *place = Some(&trie.root);
        }
        let mut under_way = true;
        while under_way {
            under_way = false;
            for (place, key) in places.iter_mut().zip(keys) {
                let Some(Twig::Branch(branch)) = *place else { continue };
                *place = branch.twig(key.at(branch.offset()));
                if let Some(twig) = *place {
                    twig.fetch();
                    under_way = true;
                }
            }
        }
        places.iter().flatten().filter(|twig| matches!(twig, Twig::Leaf(..))).count()
    }
}
