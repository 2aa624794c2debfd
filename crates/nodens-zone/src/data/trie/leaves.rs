//! All nodes in order, for readers that outlive their borrow of a trie.

use super::{Branch, Trie, Twig};
use crate::data::node::Node;

/// Goes through the nodes of a trie in order; keeps what it has not gone through.
pub(in crate::data) struct Leaves {
    /// Branches from the root down, each with the place of the next twig.
    path: Vec<(Branch, usize)>,
    /// Of a trie without a branch.
    alone: Option<Node>,
}

impl Leaves {
    pub(in crate::data) fn new(trie: &Trie) -> Self {
        match trie.root.clone() {
            Twig::Nothing => Self { path: Vec::new(), alone: None },
            Twig::Leaf(_, node) => Self { path: Vec::new(), alone: Some(node) },
            Twig::Branch(branch) => Self { path: vec![(branch, 0)], alone: None },
        }
    }
}

impl Iterator for Leaves {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        if let Some(node) = self.alone.take() {
            return Some(node);
        }
        loop {
            let (branch, at) = self.path.last_mut()?;
            let twig = branch.twigs().get(*at).cloned();
            *at += 1;
            match twig {
                Some(Twig::Leaf(_, node)) => return Some(node),
                Some(Twig::Branch(branch)) => self.path.push((branch, 0)),
                Some(Twig::Nothing) => {}
                None => _ = self.path.pop(),
            }
        }
    }
}
