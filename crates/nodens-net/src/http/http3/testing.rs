//! Streams of HTTP/3 without connections, for fuzz targets.

use super::{Fault, Progress, Request, Side, Want};
use crate::http::Counted;
use nodens_core::Now;

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is not whole.
    More,
    /// Its query.
    Query(Vec<u8>),
    /// The status of the response.
    Status(u16),
    /// The code with which its stream is reset.
    Reset(u32),
    /// The code with which the connection is closed.
    Closed(u32),
}

/// What comes of a request whose stream arrives in these pieces, each with its place, and then ends.
pub fn ask<'o>(pieces: impl Iterator<Item = (u64, &'o [u8])>) -> Asked {
    let now = Now { mono_ns: 0, unix_s: 0 };
    let (mut request, mut counted) = (Request::default(), Counted::default());
    for (place, octets) in pieces {
        let asked = asked(request.take(place, octets, now, &mut counted));
        assert!(request.cost() <= 128 << 10, "{} octets", request.cost());
        if asked != Asked::More {
            return asked;
        }
    }
    asked(request.end(now, &mut counted))
}

fn asked(progress: Result<Progress, Fault>) -> Asked {
    match progress {
        Ok(Progress::More) => Asked::More,
        Ok(Progress::Query(message)) => Asked::Query(message),
        Ok(Progress::Refused(response)) => Asked::Status(response.head.status().as_u16()),
        Err(Fault::Stream(code)) => Asked::Reset(code),
        Err(Fault::Connection(code)) => Asked::Closed(code),
    }
}

/// The code with which a connection is closed for a stream in one direction that arrives in these pieces;
/// none if it goes on.
pub fn hear<'o>(pieces: impl Iterator<Item = (u64, &'o [u8])>) -> Option<u32> {
    let mut side = Side::default();
    for (place, octets) in pieces {
        match side.take(0, place, octets) {
            Ok(Want::More) => {}
            Ok(Want::Nothing) => return None,
            Err(code) => return Some(code),
        }
        assert!(side.cost() <= 64 << 10, "{} octets", side.cost());
    }
    None
}
