//! Which connection to an upstream a query goes to.

use super::record::Record;
use super::stream::Standing;
use crate::limits::{UPSTREAM_CONNECTIONS, UPSTREAM_CONNECTIONS_SHORT, UPSTREAM_SPREAD};
use crate::slots::{Key, Slots};
use nodens_core::Now;
use nodens_core::upstream::Ask;
use std::collections::HashSet;

/// A connection of a pool.
pub(super) trait Pooled {
    fn record(&self) -> &Record;

    /// Whether it has no room for another query.
    fn is_full(&self) -> bool;
}

/// Where a query goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// To this connection.
    Known(Key),
    /// To this one, and another is to be opened that takes its place as soon as it is made.
    Replaced(Key),
    /// To a new one; to this one if no other may be opened now.
    New(Option<Key>),
    /// There are too many already.
    None,
}

/// Chooses among the connections `keys` to the upstream of `ask`: that with the fewest queries of the best
/// there are, or a new one if all have many or have had their time.
pub(super) fn choose<C: Pooled>(
    open: &Slots<C>,
    keys: &[Key],
    ask: &Ask,
    queries_max: Option<u32>,
    now: Now,
) -> Choice {
    let mut best: Option<((Standing, usize), Key)> = None;
    let mut usable = 0;
    for key in keys {
        let Some(connection) = open.get(*key).filter(|own| !own.is_full()) else { continue };
        let record = connection.record();
        let Some(standing) = record.standing(now, queries_max) else { continue };
        usable += usize::from(!is_second_best(standing));
        let avoided = ask.elsewhere && record.has_asked_for(ask.ticket);
        let rank = (standing, record.waiting.len());
        if !avoided && best.is_none_or(|(known, _)| rank < known) {
            best = Some((rank, *key));
        }
    }
    let most = queries_max.map_or(2 * UPSTREAM_CONNECTIONS, |_| UPSTREAM_CONNECTIONS_SHORT);
    choice(best, usable, keys.len() < most)
}

/// What the best connection, with its standing and its queries, the number of `usable` ones, and whether there
/// is `room` for another mean for a query.
pub(super) fn choice(best: Option<((Standing, usize), Key)>, usable: usize, room: bool) -> Choice {
    match best {
        None if room => Choice::New(None),
        None => Choice::None,
        Some(((standing, _), key)) if is_second_best(standing) => match room && usable == 0 {
            true => Choice::Replaced(key),
            false => Choice::Known(key),
        },
        Some(((_, live), key)) => {
            match room && live >= UPSTREAM_SPREAD && usable < UPSTREAM_CONNECTIONS {
                true => Choice::New(Some(key)),
                false => Choice::Known(key),
            }
        }
    }
}

/// Connections that are to be closed: idle ones, and those that have had their time.
pub(super) fn over<C: Pooled>(open: &Slots<C>, now: Now) -> Vec<Key> {
    let is_made =
        |own: &C| !own.is_full() && own.record().standing(now, None) == Some(Standing::Made);
    let made: HashSet<u32> = open
        .iter()
        .filter(|(_, own)| is_made(own))
        .map(|(_, own)| own.record().upstream.id)
        .collect();
    open.keys(|own| {
        let record = own.record();
        record.is_over(now, made.contains(&record.upstream.id))
    })
}

/// Idle connections to one upstream beyond the number it wants kept.
pub(super) fn surplus<C: Pooled>(open: &Slots<C>, keys: &[Key]) -> Vec<Key> {
    let is_idle = |key: &&Key| open.get(**key).is_some_and(|own| own.record().is_idle());
    let idle: Vec<Key> = keys.iter().filter(is_idle).copied().collect();
    let first = idle.first().and_then(|key| open.get(*key));
    match first.map_or(0, |own| own.record().upstream.key.settings.idle_max) {
        0 => Vec::new(),
        max => idle.into_iter().skip(max).collect(),
    }
}

/// Whether it is asked only as long as there is no other, which is opened meanwhile.
pub(super) fn is_second_best(standing: Standing) -> bool {
    matches!(standing, Standing::Old | Standing::Doubtful)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_is_opened_beyond_the_most() {
        let key = Key::ONLY;
        for (standing, live, usable, room, expected) in [
            (Standing::Made, UPSTREAM_SPREAD, 1, true, Choice::New(Some(key))),
            (Standing::Made, UPSTREAM_SPREAD, 1, false, Choice::Known(key)),
            (Standing::Made, UPSTREAM_SPREAD, UPSTREAM_CONNECTIONS, true, Choice::Known(key)),
            (Standing::Made, UPSTREAM_SPREAD - 1, 1, true, Choice::Known(key)),
            (Standing::Old, 0, 0, true, Choice::Replaced(key)),
            (Standing::Old, 0, 0, false, Choice::Known(key)),
            (Standing::Doubtful, 0, 1, true, Choice::Known(key)),
        ] {
            let found = choice(Some(((standing, live), key)), usable, room);
            assert_eq!(found, expected, "{standing:?} {live} {usable} {room}");
        }
        assert_eq!(
            [true, false].map(|room| choice(None, 0, room)),
            [Choice::New(None), Choice::None]
        );
    }
}
