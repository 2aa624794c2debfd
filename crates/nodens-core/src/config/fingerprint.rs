//! By what a server block is known after a reload.

use nodens_corefile::Directive;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A hash over everything the block says, positions left out, and what its first server is. The same in every
/// process: answers are handed over by it.
pub(super) fn of(server: impl Hash, directives: &[Directive]) -> u64 {
    let mut hasher = DefaultHasher::new();
    server.hash(&mut hasher);
    add(directives, &mut hasher);
    hasher.finish()
}

fn add(directives: &[Directive], hasher: &mut DefaultHasher) {
    directives.len().hash(hasher);
    for directive in directives {
        directive.name.text.hash(hasher);
        directive.args.len().hash(hasher);
        directive.args.iter().for_each(|arg| arg.text.hash(hasher));
        add(directive.lines(), hasher);
    }
}
