//! Many queries to a server, fast: some tens are in flight at a time.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nodens_judge::question::Question;
use nodens_judge::transport::Transport;
use nodens_wire::framing::{framed, read_message};

/// Queries in flight at a time, few enough for any socket buffer.
const WINDOW: usize = 32;

/// How long to wait for an answer before the query is sent again, over UDP.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How often a query is sent over UDP before its outcome is silence.
const ATTEMPTS: usize = 3;

/// Asks all, each over its transport; the answers are in the order of the queries, `None` for silence.
pub(crate) fn ask_all(
    server: SocketAddr,
    questions: &[(Transport, Question)],
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut all = vec![None; questions.len()];
    for transport in [Transport::Udp, Transport::Tcp] {
        let places: Vec<usize> =
            (0..questions.len()).filter(|place| questions[*place].0 == transport).collect();
        // IDs tell the queries of a batch apart.
        for places in places.chunks(1 << 14) {
            let numbered = (0u16..).zip(places);
            let messages: Vec<Vec<u8>> =
                numbered.map(|(id, place)| questions[*place].1.to_bytes(id)).collect();
            let answers = match transport {
                Transport::Udp => udp(server, &messages)?,
                Transport::Tcp => tcp(server, &messages)?,
            };
            for (place, answer) in places.iter().zip(answers) {
                all[*place] = answer;
            }
        }
    }
    Ok(all)
}

fn id(message: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes([*message.first()?, *message.get(1)?]))
}

fn udp(server: SocketAddr, messages: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut answers = vec![None; messages.len()];
    let places: HashMap<u16, usize> =
        messages.iter().enumerate().filter_map(|(at, message)| Some((id(message)?, at))).collect();
    for _ in 0..ATTEMPTS {
        // A socket of its own: late answers to an earlier attempt do not count for this one.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no UDP socket")?;
        socket.connect(server)?;
        let open: Vec<usize> = (0..messages.len()).filter(|at| answers[*at].is_none()).collect();
        let mut unsent = open.iter();
        let mut waiting = 0usize;
        let mut buffer = vec![0; 65_535];
        loop {
            while waiting < WINDOW
                && let Some(at) = unsent.next()
            {
                // A server that has gone shows as an error here; its silence is the outcome.
                let _ = socket.send(&messages[*at]);
                waiting += 1;
            }
            if waiting == 0 {
                break;
            }
            socket.set_read_timeout(Some(PATIENCE))?;
            let Ok(length) = socket.recv(&mut buffer) else {
                waiting = 0;
                continue;
            };
            let message = &buffer[..length];
            if let Some(at) = id(message).and_then(|id| places.get(&id))
                && answers[*at].is_none()
            {
                answers[*at] = Some(message.to_vec());
                waiting = waiting.saturating_sub(1);
            }
        }
        if answers.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(answers)
}

/// Over one connection; the answers come in any order. A connection that ends early is made again for the rest.
fn tcp(server: SocketAddr, messages: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut answers: Vec<Option<Vec<u8>>> = vec![None; messages.len()];
    let places: HashMap<u16, usize> =
        messages.iter().enumerate().filter_map(|(at, message)| Some((id(message)?, at))).collect();
    for _ in 0..ATTEMPTS {
        let open: Vec<usize> = (0..messages.len()).filter(|at| answers[*at].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_nodelay(true)?;
        for window in open.chunks(WINDOW) {
            let framed: Vec<u8> = window.iter().flat_map(|at| framed(&messages[*at])).collect();
            let sent = stream.write_all(&framed);
            let deadline = Instant::now() + PATIENCE * 3;
            let mut read = 0;
            while sent.is_ok() && read < window.len() {
                stream.set_read_timeout(Some(PATIENCE))?;
                let Ok(message) = read_message(&mut stream) else { break };
                if let Some(at) = id(&message).and_then(|id| places.get(&id)) {
                    answers[*at] = Some(message);
                    read += 1;
                }
                if Instant::now() > deadline {
                    break;
                }
            }
            if read < window.len() {
                break;
            }
        }
    }
    Ok(answers)
}
