//! The store's own protocol, as far as it is needed: one key is read or written at a time, over gRPC.
//!
//! gRPC is a message of protobuf behind a head of five octets in a request of HTTP/2. The store's gateway for JSON takes
//! several times as much CPU, its own and that of its clients, and a measurement needs that for what it measures.

use std::future::Future;

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use h2::client::{self, SendRequest};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;

/// Where the control plane of the sandbox has its store.
const ADDRESS: &str = "127.0.0.1:2379";
/// Octets before a message: not compressed, and its length.
const HEAD: usize = 5;
const STATUS: &str = "grpc-status";

/// A connection to the store. Its clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Etcd {
    requests: SendRequest<Bytes>,
}

impl Etcd {
    /// Connects to the store of the sandbox.
    pub(crate) async fn connect() -> Result<Self> {
        let stream = TcpStream::connect(ADDRESS).await.context("cannot reach etcd")?;
        stream.set_nodelay(true)?;
        let (requests, connection) = client::handshake(stream).await.context("etcd, HTTP/2")?;
        // It ends with the last clone; a caller that waits for an answer gets an error.
        tokio::spawn(connection);
        Ok(Etcd { requests })
    }

    /// The value of a key that is there.
    pub(crate) async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let answer = self.call("Range", framed(&[(1, key.as_bytes())])).await?;
        let message = answer.get(HEAD..).unwrap_or_default();
        let value = field(message, 2).and_then(|pair| field(pair, 5));
        Ok(value.with_context(|| format!("no {key} in the store"))?.to_vec())
    }

    /// Writes a value under a key.
    pub(crate) fn put(
        &self,
        key: &str,
        value: &[u8],
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let message = framed(&[(1, key.as_bytes()), (2, value)]);
        let etcd = self.clone();
        async move { etcd.call("Put", message).await.map(|_| ()) }
    }

    async fn call(&self, method: &str, message: Bytes) -> Result<Bytes> {
        let exchange = async {
            let request = Request::post(format!("http://{ADDRESS}/etcdserverpb.KV/{method}"))
                .header(CONTENT_TYPE, "application/grpc")
                .header(TE, "trailers")
                .body(())?;
            let mut requests = self.requests.clone().ready().await?;
            let (response, mut sender) = requests.send_request(request, false)?;
            sender.send_data(message, true)?;
            let (head, mut body) = response.await?.into_parts();
            let mut answer = BytesMut::new();
            while let Some(data) = body.data().await {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                answer.extend_from_slice(&data);
            }
            let trailers = body.trailers().await?.unwrap_or_default();
            is_done(&head.headers, &trailers)?;
            Ok::<_, anyhow::Error>(answer.freeze())
        };
        exchange.await.with_context(|| format!("etcd, {method}"))
    }
}

/// Whether the store did what it was asked for; an error without an answer is in the head.
fn is_done(head: &HeaderMap, trailers: &HeaderMap) -> Result<()> {
    let of = |name| trailers.get(name).or_else(|| head.get(name));
    let status = of(STATUS).context("no status")?;
    ensure!(status == "0", "status {status:?}: {:?}", of("grpc-message"));
    Ok(())
}

/// A message of fields of octets, with its head.
fn framed(fields: &[(u8, &[u8])]) -> Bytes {
    let mut message = vec![0; HEAD];
    for (number, octets) in fields {
        message.push(number << 3 | 2);
        let mut len = octets.len();
        while len > 0x7f {
            message.push(len as u8 | 0x80);
            len >>= 7;
        }
        message.push(len as u8);
        message.extend_from_slice(octets);
    }
    let len = (message.len() - HEAD) as u32;
    message[1..HEAD].copy_from_slice(&len.to_be_bytes());
    message.into()
}

/// The octets of the first field `wanted` of a message.
fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let number = varint(&mut message)?;
        if key & 7 == 2 {
            let (octets, rest) = message.split_at_checked(usize::try_from(number).ok()?)?;
            if key >> 3 == wanted {
                return Some(octets);
            }
            message = rest;
        } else if key & 7 != 0 {
            return None;
        }
    }
    None
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_how_long_it_and_its_fields_are() {
        let message = framed(&[(1, b"key"), (2, &[7; 300])]);
        assert_eq!(message[..HEAD], [0, 0, 0, 1, 0x34]);
        assert_eq!(message[HEAD..HEAD + 8], *b"\x0a\x03key\x12\xac\x02");
        assert_eq!(message.len(), HEAD + 5 + 303);
        assert_eq!(field(&message[HEAD..], 2), Some(&[7; 300][..]));
    }

    #[test]
    fn fields_are_found_behind_others_and_cut_messages_have_none() {
        // A number of two octets, then octets.
        let message = b"\x08\x96\x01\x12\x02ab";
        assert_eq!(field(message, 2), Some(&b"ab"[..]));
        assert_eq!(field(message, 1), None);
        for len in 0..message.len() {
            assert_eq!(field(&message[..len], 2), None, "{len}");
        }
        assert_eq!(field(&[0xff; 20], 1), None);
    }

    #[test]
    fn a_status_is_taken_from_the_trailers_or_from_the_head() {
        let status = |value: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static(STATUS),
                http::HeaderValue::from_static(value),
            )])
        };
        let none = HeaderMap::new();
        assert!(is_done(&none, &status("0")).is_ok());
        assert!(is_done(&status("14"), &none).unwrap_err().to_string().contains("14"));
        assert!(is_done(&none, &none).is_err());
    }
}
