//! What a predecessor sends: its descriptors, its cache and its connections.

use super::channel::Channel;
use super::limits::{ANSWERS_LEN, DESCRIPTORS_MAX, LEAVE_MAX, ROUND};
use super::message::{Item, Message};
use super::offer::Holder;
use super::{Error, HandoverState};
use nodens_net::{HandedConnection, InheritedListener, ListenerAddress};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

/// Sends the descriptors, with what they are.
pub(super) fn send_state(channel: &Channel, state: &HandoverState) -> Result<(), Error> {
    let listeners = state.listeners.iter().flat_map(rows);
    let others =
        state.others.iter().map(|(name, fd)| (Item::Named(name.clone()), vec![fd.as_fd()]));
    let (mut items, mut fds): (Vec<Item>, Vec<BorrowedFd<'_>>) = (Vec::new(), Vec::new());
    for (item, own) in listeners.chain(others) {
        if fds.len() + own.len() > DESCRIPTORS_MAX {
            channel.send(&Message::Descriptors(std::mem::take(&mut items)), &fds)?;
            fds.clear();
        }
        items.push(item);
        fds.extend(own);
    }
    channel.send(&Message::Descriptors(items), &fds)?;
    channel.send(&Message::Whole(state.lacks.clone()), &[])
}

/// The sockets of a listener, one of each transport together as long as there are such.
fn rows(listener: &InheritedListener) -> impl Iterator<Item = (Item, Vec<BorrowedFd<'_>>)> {
    let item = Item::Listener(ListenerAddress { kind: listener.kind, address: listener.address });
    let transports = listener.kind.transports().iter();
    let mut columns: Vec<_> = transports.map(|own| listener.of(*own)).collect();
    let row = move || columns.iter_mut().map(|own| own.next().map(AsFd::as_fd)).collect();
    // A row without sockets would be followed by others for ever.
    let rows = std::iter::from_fn(row).take_while(|row: &Vec<_>| !row.is_empty());
    rows.map(move |row| (item.clone(), row))
}

/// Sends the cache, each message once `ready` says that there is room for it.
pub(super) fn send_answers(
    channel: &Channel,
    holder: &mut dyn Holder,
    ready: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut answers, mut len, mut result) = (Vec::new(), 0, Ok(()));
    let mut send = |answers| {
        ready()?;
        channel.send(&Message::Answers(answers), &[])
    };
    holder.answers(&mut |answer| {
        if len + answer.len() > ANSWERS_LEN && !answers.is_empty() {
            result = send(std::mem::take(&mut answers));
            len = 0;
        }
        len += answer.len();
        answers.push(answer.to_vec());
        result.is_ok()
    });
    result?;
    send(answers)
}

/// Passes on connections until there are none any more, or the holder has left, or [`LEAVE_MAX`] is over. A
/// successor that goes now takes them with it: whoever asks connects anew.
pub(super) fn pass_on(
    channel: &Channel,
    connections: &Receiver<HandedConnection>,
    holder: &mut dyn Holder,
) {
    let until = Instant::now() + LEAVE_MAX;
    loop {
        // Before it is looked for the last time: then nothing comes after that look.
        let is_over = holder.has_left() || Instant::now() >= until || channel.is_closed();
        let connection = match connections.recv_timeout(ROUND) {
            Ok(connection) => connection,
            Err(RecvTimeoutError::Timeout) if !is_over => continue,
            Err(_) => break,
        };
        let HandedConnection { stream, listener, input, asked } = connection;
        let message = Message::Connection { listener, asked, input };
        if channel.send(&message, &[stream.as_fd()]).is_err() {
            return;
        }
    }
    _ = channel.send(&Message::Left, &[]);
}
