//! What is different between two tries, in time that depends on the differences.

use super::{Trie, Twig};
use crate::data::key::Key;
use crate::data::node::Node;
use nodens_wire::NameRef;
use std::cmp::Ordering;

/// Calls `each` with the nodes of a name in the first and the second trie, where they are not one and
/// the same, in order of names. What both tries share is not gone through.
pub(in crate::data) fn changes<'t>(
    tries: [&'t Trie; 2],
    origin: NameRef<'_>,
    mut each: impl FnMut(Option<&'t Node>, Option<&'t Node>),
) {
    let [mut old, mut new] = tries.map(|trie| vec![&trie.root]);
    loop {
        match (old.last().copied(), new.last().copied()) {
            (None, None) => return,
            (Some(twig), None) => step(&mut old, twig, |node| each(Some(node), None)),
            (None, Some(twig)) => step(&mut new, twig, |node| each(None, Some(node))),
            (Some(a), Some(b)) if a.is(b) => {
                old.pop();
                new.pop();
            }
            (Some(a), Some(b)) => match first_key(a, origin).cmp(&first_key(b, origin)) {
                Ordering::Less => step(&mut old, a, |node| each(Some(node), None)),
                Ordering::Greater => step(&mut new, b, |node| each(None, Some(node))),
                Ordering::Equal => {
                    let (Twig::Leaf(_, before), Twig::Leaf(_, after)) = (a, b) else {
                        let [at_a, at_b] = [a, b].map(offset);
                        // The one that has more names in it, so that parts that are shared meet.
                        if at_a <= at_b {
                            step(&mut old, a, |_| {});
                        }
                        if at_b <= at_a {
                            step(&mut new, b, |_| {});
                        }
                        continue;
                    };
                    old.pop();
                    new.pop();
                    each(Some(before), Some(after));
                }
            },
        }
    }
}

/// Takes the last twig off: gives it to `leaf`, or puts the twigs of the branch in its place.
fn step<'t>(stack: &mut Vec<&'t Twig>, twig: &'t Twig, leaf: impl FnOnce(&'t Node)) {
    stack.pop();
    match twig {
        Twig::Nothing => {}
        Twig::Leaf(_, node) => leaf(node),
        Twig::Branch(branch) => stack.extend(branch.twigs().iter().rev()),
    }
}

fn first_key(twig: &Twig, origin: NameRef<'_>) -> Option<Key> {
    Key::new(twig.first()?.node.owner(), origin)
}

/// Where a branch looks; behind all branches for what is none.
fn offset(twig: &Twig) -> usize {
    match twig {
        Twig::Branch(branch) => branch.offset(),
        _ => usize::MAX,
    }
}
