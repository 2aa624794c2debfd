//! The reading of what API servers send, for fuzz targets.

use crate::events::{self, Of};
use crate::form::Form;
use crate::list::Pieces;
use nodens_core::cluster::{Editor, Kind, Source};
use std::convert::Infallible;

/// Reads `pieces` of a response as a list or a watch of objects of `kind`, in protobuf or JSON.
/// Gives how many objects or events there were, and how many services, addresses of endpoints and
/// addresses of pods are known from them.
pub fn read<'p>(
    kind: Kind,
    (in_protobuf, as_list): (bool, bool),
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (usize, [usize; 3]) {
    let form = if in_protobuf { Form::Protobuf } else { Form::Json };
    let source = Source { zones: true, pod_names: true, ..Source::default() };
    let of = Of { kind, form, source: &source };
    let (mut editor, mut seen) = (Editor::default(), 0);
    if as_list {
        let mut list = Pieces::of(form);
        let take = &mut |item: &[u8]| {
            seen += 1;
            _ = events::item(of, item, &mut editor);
        };
        if pieces.into_iter().all(|piece| list.feed(piece, &mut *take).is_ok()) {
            _ = list.finish();
        }
    } else {
        let mut cutter = form.cutter();
        for piece in pieces {
            let Ok(()) = cutter.feed(piece, |event| -> Result<(), Infallible> {
                seen += 1;
                _ = events::event(of, event, &mut editor);
                Ok(())
            });
        }
    }
    (seen, editor.snapshot(1).sizes())
}
