//! The state of TLS of one connection, which keeps no buffer of its own: octets go in and come out by slices of
//! its owner.

use super::Plain;
use nodens_tls::rustls::client::UnbufferedClientConnection;
use nodens_tls::rustls::server::UnbufferedServerConnection;
use nodens_tls::rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use nodens_tls::rustls::{CommonState, Error};
use std::ops::Deref;

/// What encryption adds to a record of ordinary length; more is asked for where that is too little.
const AROUND: usize = 64;

/// One side of a connection.
pub(crate) struct Session {
    side: Side,
    /// Something was wrong. What rustls knows of its input does not fit any other input after that: it is shown
    /// none any more.
    has_failed: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl From<UnbufferedServerConnection> for Session {
    fn from(server: UnbufferedServerConnection) -> Self {
        Self { side: Side::Server(server), has_failed: false }
    }
}

impl From<UnbufferedClientConnection> for Session {
    fn from(client: UnbufferedClientConnection) -> Self {
        Self { side: Side::Client(client), has_failed: false }
    }
}

impl Deref for Session {
    type Target = CommonState;

    fn deref(&self) -> &CommonState {
        match &self.side {
            Side::Server(server) => server,
            Side::Client(client) => client,
        }
    }
}

/// What one step came to.
struct Step {
    /// Octets at the front of the input that are done with.
    done: usize,
    /// Whether there is more to do without more input.
    goes_on: bool,
}

/// What the session does with the other side's octets, and what it says.
pub(super) struct Between<'a, 'b> {
    /// Where decrypted octets go.
    pub(super) plain: &'a mut Plain<'b>,
    /// Where octets go that are to be sent.
    pub(super) outgoing: &'a mut Vec<u8>,
    /// Whether the other side has said that it sends no more.
    pub(super) has_ended: &'a mut bool,
}

impl Session {
    /// Takes all whole records from the front of `input`; gives the number of octets that it is done with. The
    /// others have to be at the front of the next input.
    pub(super) fn take(
        &mut self,
        input: &mut [u8],
        between: &mut Between<'_, '_>,
    ) -> Result<usize, Error> {
        let mut done = 0;
        while !self.has_failed {
            let rest = input.get_mut(done..).unwrap_or_default();
            let step = match &mut self.side {
                Side::Server(server) => step(server.process_tls_records(rest), between),
                Side::Client(client) => step(client.process_tls_records(rest), between),
            };
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    self.has_failed = true;
                    self.say_what_is_wrong(between);
                    return Err(error);
                }
            };
            done += step.done;
            if !step.goes_on {
                return Ok(done);
            }
        }
        Err(failed_before())
    }

    /// Adds the alert that tells the other side what was wrong, if there is one.
    fn say_what_is_wrong(&mut self, between: &mut Between<'_, '_>) {
        // No input is looked at before everything is said.
        while self.wants_write() {
            let said = match &mut self.side {
                Side::Server(server) => step(server.process_tls_records(&mut []), between),
                Side::Client(client) => step(client.process_tls_records(&mut []), between),
            };
            if said.is_err() {
                return;
            }
        }
    }

    /// Encrypts `octets` to the end of `outgoing`, once the handshake is over. `input` is what [`Session::take`]
    /// was not done with.
    pub(super) fn encrypt(
        &mut self,
        input: &mut [u8],
        octets: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.has_failed {
            return Err(failed_before());
        }
        match &mut self.side {
            Side::Server(server) => encrypt(server.process_tls_records(input), octets, outgoing),
            Side::Client(client) => encrypt(client.process_tls_records(input), octets, outgoing),
        }
    }

    /// Tells the other side that nothing follows, once the handshake is over; the first time only.
    pub(super) fn end(&mut self, input: &mut [u8], outgoing: &mut Vec<u8>) {
        if self.has_failed {
            return;
        }
        match &mut self.side {
            Side::Server(server) => end(server.process_tls_records(input), outgoing),
            Side::Client(client) => end(client.process_tls_records(input), outgoing),
        }
    }
}

fn failed_before() -> Error {
    Error::General("nothing can be read or sent after an error".to_owned())
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    between: &mut Between<'_, '_>,
) -> Result<Step, Error> {
    let mut done = status.discard;
    let goes_on = match status.state? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                done += record.discard;
                between.plain.push(record.payload)?;
            }
            true
        }
        // No configuration of ours allows it.
        ConnectionState::ReadEarlyData(_) => {
            return Err(Error::General("octets before the handshake".to_owned()));
        }
        ConnectionState::EncodeTlsData(data) => {
            encode(data, between.outgoing)?;
            true
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            true
        }
        ConnectionState::PeerClosed => {
            *between.has_ended = true;
            true
        }
        _ => false,
    };
    Ok(Step { done, goes_on })
}

/// Lets `write` fill the end of `outgoing` with at most `room` octets; with as many as it wants if that is too
/// little.
fn append<E>(
    outgoing: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
    wanted: impl Fn(&E) -> Option<usize>,
) -> Result<(), E> {
    let before = outgoing.len();
    loop {
        outgoing.resize(before + room, 0);
        match write(outgoing.get_mut(before..).unwrap_or_default()) {
            Ok(written) => {
                outgoing.truncate(before + written);
                return Ok(());
            }
            Err(error) => match wanted(&error).filter(|wanted| *wanted > room) {
                Some(wanted) => room = wanted,
                None => {
                    outgoing.truncate(before);
                    return Err(error);
                }
            },
        }
    }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) -> Result<(), Error> {
    let wanted = |error: &EncodeError| match error {
        EncodeError::InsufficientSize(size) => Some(size.required_size),
        EncodeError::AlreadyEncoded => None,
    };
    append(outgoing, 0, |room| data.encode(room), wanted)
        .map_err(|error| Error::General(error.to_string()))
}

fn too_small(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(size) => Some(size.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    octets: &[u8],
    outgoing: &mut Vec<u8>,
) -> Result<(), Error> {
    let ConnectionState::WriteTraffic(mut traffic) = status.state? else {
        return Err(Error::General("nothing can be sent in this state".to_owned()));
    };
    let room = octets.len() + AROUND;
    append(outgoing, room, |room| traffic.encrypt(octets, room), too_small)
        .map_err(|error| Error::General(error.to_string()))
}

fn end<Data>(status: UnbufferedStatus<'_, '_, Data>, outgoing: &mut Vec<u8>) {
    if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
        // Where it fails, the other side sees an end without a farewell.
        _ = append(outgoing, AROUND, |room| traffic.queue_close_notify(room), too_small);
    }
}
