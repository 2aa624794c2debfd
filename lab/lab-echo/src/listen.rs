//! Sockets of several threads on one port that nobody else has when they are bound.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Binds `count` sockets to `address`, where port 0 is a free one, and says which it is. An address
/// that others have is refused, even if they would share it: two servers would each get a part of
/// the queries and take it for all.
pub(crate) fn on_one_port(
    address: SocketAddr,
    kind: Type,
    count: usize,
) -> io::Result<(SocketAddr, Vec<Socket>)> {
    // Sockets share a port if all of them want to. The first one does not, so it gets the port for
    // itself or not at all; after that it makes room for the others.
    let first = bind(address, kind, false)?;
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    first.set_reuse_port(count > 1)?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(bind(address, kind, true)?);
    }
    Ok((address, sockets))
}

fn bind(address: SocketAddr, kind: Type, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    // Connections of an earlier server that linger are no reason to wait a minute.
    socket.set_reuse_address(kind == Type::STREAM)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn threads_share_a_port_and_strangers_do_not() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for kind in [Type::DGRAM, Type::STREAM] {
            for count in [1, 3] {
                let (address, sockets) = on_one_port(any, kind, count).unwrap();
                assert_eq!(sockets.len(), count);
                if kind == Type::STREAM {
                    sockets.iter().for_each(|socket| socket.listen(1).unwrap());
                }
                for others in [1, 2] {
                    let error = on_one_port(address, kind, others).and_then(|(_, sockets)| {
                        // A port that is bound but not listened on fails only here.
                        sockets.iter().try_for_each(|socket| socket.listen(1))
                    });
                    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::AddrInUse);
                }
            }
        }
    }

    #[test]
    fn every_thread_gets_queries() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (address, sockets) = on_one_port(any, Type::DGRAM, 2).unwrap();
        let clients: Vec<_> = (0..64).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        clients.iter().for_each(|client| _ = client.send_to(b"?", address).unwrap());
        for socket in sockets {
            let socket = UdpSocket::from(socket);
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket.recv(&mut [0; 8]).unwrap();
        }
    }
}
