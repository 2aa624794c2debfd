//! What primaries and strangers may do wrong, and the zone that is served meanwhile.

use super::fake::{Query, host, primary, soa, whole};
use crate::fixture::{Server, memory};
use nodens_wire::{Builder, Class, Flags, Name, Opcode, Rcode, Record, Type};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer than a primary may be silent, twice: instead of differences, and instead of the zone.
const PATIENCE: Duration = Duration::from_secs(100);

/// The version that all have at first.
const FIRST: u32 = 7;

type Answer = fn(&Query, &mut TcpStream) -> std::io::Result<()>;

/// A primary that does something wrong after its first transfer, and what the log has to say.
const WRONG: &[(&str, &str, Answer)] = &[
    ("cut", "the primary closed the connection", |query, stream| {
        let message = query.message(&whole(&query.zone, 8));
        stream.write_all(&message[..message.len() - 5])?;
        stream.shutdown(Shutdown::Both)
    }),
    ("no-end", "the primary closed the connection", |query, stream| {
        stream.write_all(&query.message(&whole(&query.zone, 8)[..3]))?;
        stream.shutdown(Shutdown::Both)
    }),
    ("no-begin", "it does not begin with the SOA record", |query, stream| {
        stream.write_all(&query.message(&whole(&query.zone, 8)[1..]))
    }),
    ("order", "a difference from serial 5 follows where 7 was reached", |query, stream| {
        if query.qtype == Type::AXFR {
            return stream.write_all(&query.refusal(Rcode::REFUSED));
        }
        let [new, old] = [8, 5].map(|serial| soa(&query.zone, serial));
        stream.write_all(&query.message(&[new.clone(), old, new.clone(), new]))
    }),
    ("not-there", "removes a record that is not there", |query, stream| {
        if query.qtype == Type::AXFR {
            return stream.write_all(&query.refusal(Rcode::REFUSED));
        }
        let [new, old] = [8, 7].map(|serial| soa(&query.zone, serial));
        let gone = host(&query.zone, 9);
        stream.write_all(&query.message(&[new.clone(), old, gone, new.clone(), new]))
    }),
    ("class", "a record of another class", |query, stream| {
        let mut records = whole(&query.zone, 8);
        records[1].class = Class::CH;
        stream.write_all(&query.message(&records))
    }),
    ("soa-below", "a SOA record for h1.soa-below.example.", |query, stream| {
        let mut records = whole(&query.zone, 8);
        records[1] = soa(&format!("h1.{}", query.zone).parse().unwrap(), 8);
        stream.write_all(&query.message(&records))
    }),
    ("after-end", "records follow the last SOA record", |query, stream| {
        let mut records = whole(&query.zone, 8);
        records.push(host(&query.zone, 3));
        stream.write_all(&query.message(&records))
    }),
    ("other-end", "it ends with serial 9, and began with 8", |query, stream| {
        let mut records = whole(&query.zone, 8);
        records[3] = soa(&query.zone, 9);
        stream.write_all(&query.message(&records))
    }),
    ("refuses", "rcode REFUSED", |query, stream| stream.write_all(&query.refusal(Rcode::REFUSED))),
    ("fails", "rcode SERVFAIL", |query, stream| stream.write_all(&query.refusal(Rcode::SERVFAIL))),
    ("no-octets", "malformed message", |query, stream| {
        let mut message = query.message(&whole(&query.zone, 8));
        // The last record, from its type on.
        let end = message.len() - 40;
        message[end..].fill(0xff);
        stream.write_all(&message)
    }),
    ("stray", "a message that does not respond to the query", |query, stream| {
        stream.write_all(&query.stray(&whole(&query.zone, 8)))
    }),
    ("truncated", "a truncated message", |query, stream| {
        stream.write_all(&query.truncated(&whole(&query.zone, 8)))
    }),
    ("empty", "more messages without records than a transfer may have", |query, stream| {
        stream.write_all(&query.message(&[soa(&query.zone, 8)]))?;
        (0..1000).try_for_each(|_| stream.write_all(&query.message(&[])))
    }),
    ("too-much", "records", |query, stream| {
        // More of one type and name than a message has room for.
        stream.write_all(&query.message(&whole(&query.zone, 8)[..2]))?;
        for number in 0..30_000_u32 {
            let mut record = host(&query.zone, 1);
            record.rdata = number.to_be_bytes().to_vec();
            stream.write_all(&query.message(&[record]))?;
        }
        stream.write_all(&query.message(&[soa(&query.zone, 8)]))
    }),
    ("silent", "timed out", |_, _| Ok(())),
];

fn name_of(zone: &str) -> Name {
    format!("{zone}.example.").parse().unwrap()
}

fn served(server: &Server, zone: &str) -> (Rcode, Option<u32>, Vec<u8>) {
    let soa = server.ask(&format!("{zone}.example."), Type::SOA);
    let serial = soa.answer.first().map(|soa| {
        let at = soa.rdata.len() - 20;
        u32::from_be_bytes(soa.rdata[at..at + 4].try_into().unwrap())
    });
    let host = server.ask(&format!("h1.{zone}.example."), Type::A);
    (soa.flags.rcode(), serial, host.answer.first().map(|a| a.rdata.clone()).unwrap_or_default())
}

fn is_first(server: &Server, zone: &str) {
    let wanted = (Rcode::NOERROR, Some(FIRST), vec![192, 0, 2, 1]);
    assert_eq!(served(server, zone), wanted, "{zone}");
}

fn until(server: &Server, zone: &str, serial: u32) {
    let since = Instant::now();
    while served(server, zone).1 != Some(serial) {
        assert!(since.elapsed() < PATIENCE, "{zone}: {:#?}", server.seen(zone));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A block for each zone, whose primary this is.
fn blocks(zones: &[(&str, SocketAddr)]) -> String {
    let block = |(zone, primary): &(&str, SocketAddr)| {
        format!(
            "{zone}.example:PORT {{\n bind 127.0.0.1\n secondary {{\n transfer from {primary}\n }}\n}}\n"
        )
    };
    zones.iter().map(block).collect()
}

/// Everything that is wrong at once, beside a zone that changes all the time.
#[test]
fn what_was_good_is_served_whatever_primaries_do() {
    let mut zones = Vec::new();
    for (zone, _, wrong) in WRONG {
        let (address, _) = primary(move |query, stream| match query.qtype {
            Type::SOA => query.good(8, stream),
            _ if query.transfers == 0 => query.good(FIRST, stream),
            _ => wrong(query, stream),
        });
        zones.push((*zone, address));
    }
    let (good, asked) = primary(|query, stream| query.good(FIRST + query.transfers, stream));
    zones.push(("good", good));
    let server = Server::start("bad-primaries", &blocks(&zones));
    for (zone, reason, _) in WRONG {
        let failed = |line: &String| {
            line.contains(&format!(" {zone}.example. from ")) && line.contains(reason)
        };
        let since = Instant::now();
        while !server.seen("ailed").iter().any(failed) {
            assert!(since.elapsed() < PATIENCE, "{reason:?}: {:#?}", server.seen(zone));
            std::thread::sleep(Duration::from_millis(50));
        }
        is_first(&server, zone);
    }
    // Meanwhile the other one changes.
    let since = Instant::now();
    while asked.load(Ordering::SeqCst) <= 4 || served(&server, "good").1 <= Some(FIRST) {
        assert!(since.elapsed() < PATIENCE, "{}", asked.load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A primary that has an earlier version, says that it has a later one, or has something between.
#[test]
fn primaries_that_go_back_or_lie_change_nothing() {
    let (back, asked) = primary(|query, stream| match query.transfers {
        0 if query.qtype == Type::AXFR => query.good(FIRST, stream),
        _ => query.good(FIRST - 1, stream),
    });
    // What it says and what it has are two things.
    let (lies, lied) = primary(|query, stream| match query.qtype {
        Type::SOA => query.good(FIRST + 2, stream),
        _ if query.transfers == 0 => query.good(FIRST, stream),
        _ => query.good(FIRST - 1, stream),
    });
    let (same, repeated) = primary(|query, stream| match query.qtype {
        Type::SOA => query.good(FIRST + 2, stream),
        _ => query.good(FIRST, stream),
    });
    let server = Server::start("lies", &blocks(&[("back", back), ("lies", lies), ("same", same)]));
    for (zone, count) in [("back", asked), ("lies", lied), ("same", repeated)] {
        until(&server, zone, FIRST);
        let since = Instant::now();
        while count.load(Ordering::SeqCst) < 6 {
            assert!(since.elapsed() < PATIENCE, "{zone}");
            is_first(&server, zone);
            std::thread::sleep(Duration::from_millis(20));
        }
        is_first(&server, zone);
    }
}

/// Records of others are left out, and said to be; a primary that is slow is waited for.
#[test]
fn what_is_outside_is_left_out_and_who_is_slow_is_waited_for() {
    let (outside, _) = primary(|query, stream| {
        let mut records = whole(&query.zone, 8);
        records.insert(2, host(&name_of("other"), 1));
        match query.qtype {
            Type::SOA => query.good(8, stream),
            _ => stream.write_all(&query.message(&records)),
        }
    });
    let (slow, _) = primary(|query, stream| match query.qtype {
        Type::SOA => query.good(8, stream),
        _ => query.message(&whole(&query.zone, 8)).iter().try_for_each(|octet| {
            std::thread::sleep(Duration::from_millis(10));
            stream.write_all(&[*octet])
        }),
    });
    let zones = [("outside", outside), ("slow", slow)];
    let server =
        Server::start("outside", &format!("{}\n.:PORT {{\n bind 127.0.0.1\n}}\n", blocks(&zones)));
    server.wait_for("1 records that are not in outside.example. ignored from ");
    let rcode = server.ask("h1.other.example.", Type::A).flags.rcode();
    assert_eq!((served(&server, "outside").1, rcode), (Some(8), Rcode::REFUSED));
    until(&server, "slow", 8);
}

/// The same records again and again, for as long as anybody reads them.
#[test]
fn a_transfer_without_end_takes_no_memory_and_delays_nobody() {
    let (address, _) = primary(|query, stream| {
        if query.transfers == 0 || query.qtype == Type::SOA {
            return query.good(if query.qtype == Type::SOA { 8 } else { FIRST }, stream);
        }
        stream.write_all(&query.message(&[soa(&query.zone, 8)]))?;
        let records: Vec<Record> = (0..=250).map(|number| host(&query.zone, number)).collect();
        let messages = query.message(&records).repeat(10);
        loop {
            stream.write_all(&messages)?;
        }
    });
    let (good, _) = primary(|query, stream| query.good(FIRST + query.transfers, stream));
    let server = Server::start("endless", &blocks(&[("endless", address), ("good", good)]));
    until(&server, "endless", FIRST);
    until(&server, "good", FIRST);
    // The transfer has begun by now.
    std::thread::sleep(Duration::from_secs(4));
    let before = memory(server.pid(), "VmRSS");
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(4) {
        is_first(&server, "endless");
    }
    let after = memory(server.pid(), "VmRSS");
    assert!(after < before + (8 << 20), "{before} {after}");
}

fn notify(zone: &str, id: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let flags = Flags(Flags::AA).with_opcode(Opcode::NOTIFY);
    Builder::new(&mut out, id, flags).question(name_of(zone).view(), Type::SOA, Class::IN);
    out
}

/// Strangers cause no query and no line in the log; a primary, no more than one query in two seconds.
#[test]
fn a_flood_of_notify_is_dropped_or_comes_to_one_query() {
    const COUNT: u16 = 20_000;
    let (address, asked) = primary(|query, stream| {
        let mut records = whole(&query.zone, FIRST);
        // Nothing is asked by itself.
        for record in records.iter_mut().filter(|record| record.rtype == Type::SOA) {
            let at = record.rdata.len() - 16;
            record.rdata[at..at + 8].copy_from_slice(&[0, 0, 14, 16, 0, 0, 14, 16]);
        }
        let count = if query.qtype == Type::SOA { 1 } else { records.len() };
        stream.write_all(&query.message(&records[..count]))
    });
    let server = Server::start("flood-of-notify", &blocks(&[("flood", address)]));
    until(&server, "flood", FIRST);
    let flood = |from: &str| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(server.address).unwrap();
        let began = Instant::now();
        for id in 0..COUNT {
            // A queue that is full is no matter.
            _ = socket.send(&notify("flood", id));
            if id % 1000 == 0 {
                is_first(&server, "flood");
            }
        }
        began.elapsed()
    };
    let count = asked.load(Ordering::SeqCst);
    flood("127.0.0.2");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((asked.load(Ordering::SeqCst), server.count_seen("otify")), (count, 0));
    let took = flood("127.0.0.1");
    std::thread::sleep(Duration::from_secs(3));
    let more = asked.load(Ordering::SeqCst) - count;
    let most = took.as_secs() / 2 + 3;
    assert!(more >= 1 && u64::from(more) <= most, "{more} of at most {most}");
    let lines = server.count_seen("Notify from 127.0.0.1 for flood.example.") as u64;
    assert!(lines >= 1 && lines <= most, "{lines} of at most {most}");
    is_first(&server, "flood");
}
