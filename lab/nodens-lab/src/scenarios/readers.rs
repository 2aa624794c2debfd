//! Secondaries inside this process: each has an address of its own, hears NOTIFY, asks for the
//! differences, and remembers when it had them. They keep no records.

use anyhow::{Context, Result, bail};
use lab_sys::poll::{Interest, Poller};
use nodens_wire::{
    Admission, Builder, Class, Flags, Header, Name, Opcode, Reader, Record, Records, Section, Type,
    framing,
};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait, so that the end is noticed.
const WAIT: Duration = Duration::from_millis(50);
/// How long the primary may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// When each secondary had its last version, and which that is.
type Had = Arc<Mutex<Vec<Option<(u32, Instant)>>>>;

/// So many secondaries; they end with the value.
pub(super) struct Readers {
    pub(super) addresses: Vec<SocketAddr>,
    over: Arc<AtomicBool>,
    had: Had,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Secondaries at 127.0.1.1 and so on, which have the serial `serial` of `zone`.
    pub(super) fn start(count: u8, primary: SocketAddr, zone: &Name, serial: u32) -> Result<Self> {
        let (over, had) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut all = Self { addresses: Vec::new(), over, had, threads: Vec::new() };
        for number in 0..count {
            let ip = Ipv4Addr::new(127, 0, 1, number.wrapping_add(1));
            let mut reader = Reading::new(ip, primary, zone, serial)
                .with_context(|| format!("cannot listen at {ip}"))?;
            all.addresses.push(reader.socket.local_addr()?);
            lock(&all.had).push(None);
            let (over, had) = (all.over.clone(), all.had.clone());
            all.threads.push(std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(true) = reader.hear() else { continue };
                    match reader.transfer() {
                        Ok(serial) => {
                            if let Some(had) = lock(&had).get_mut(usize::from(number)) {
                                *had = Some((serial, Instant::now()));
                            }
                        }
                        // It is notified again.
                        Err(error) => crate::term::note(&format!("a secondary failed: {error:#}")),
                    }
                }
            }));
        }
        Ok(all)
    }

    /// When the last of them had this version, once all have.
    pub(super) fn all_have(&self, serial: u32) -> Option<Instant> {
        let had = lock(&self.had);
        let times = had.iter().map(|had| had.filter(|(has, _)| *has >= serial).map(|(_, at)| at));
        times.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// How many have this version.
    pub(super) fn count(&self, serial: u32) -> usize {
        lock(&self.had).iter().flatten().filter(|(has, _)| *has >= serial).count()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic in the thread has been reported on standard error already.
            _ = thread.join();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reading {
    poller: Poller,
    socket: UdpSocket,
    /// Knot notifies over TCP.
    listener: TcpListener,
    primary: SocketAddr,
    zone: Name,
    serial: u32,
}

impl Reading {
    fn new(ip: Ipv4Addr, primary: SocketAddr, zone: &Name, serial: u32) -> Result<Self> {
        let listener = TcpListener::bind((ip, 0))?;
        let socket = UdpSocket::bind(listener.local_addr()?)?;
        listener.set_nonblocking(true)?;
        socket.set_nonblocking(true)?;
        let poller = Poller::new(2)?;
        poller.add(socket.as_fd(), 0, Interest::Read)?;
        poller.add(listener.as_fd(), 1, Interest::Read)?;
        Ok(Self { poller, socket, listener, primary, zone: zone.clone(), serial })
    }

    /// Hears a NOTIFY and answers it; false if there was none, or for what is here already.
    fn hear(&mut self) -> Result<bool> {
        if self.poller.wait(WAIT)?.next().is_none() {
            return Ok(false);
        }
        let mut buffer = [0; 1_232];
        if let Ok((len, peer)) = self.socket.recv_from(&mut buffer) {
            let Some((answer, is_new)) = self.answer(buffer.get(..len).unwrap_or_default()) else {
                return Ok(false);
            };
            self.socket.send_to(&answer, peer)?;
            return Ok(is_new);
        }
        let Ok((mut stream, _)) = self.listener.accept() else { return Ok(false) };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = framing::read_message(&mut stream)?;
        let Some((answer, is_new)) = self.answer(&request) else { return Ok(false) };
        stream.write_all(&framing::framed(&answer))?;
        Ok(is_new)
    }

    /// The answer to a NOTIFY, and whether it is for something new.
    fn answer(&self, request: &[u8]) -> Option<(Vec<u8>, bool)> {
        let Admission::Accept(query) = nodens_wire::admit(request) else { return None };
        if query.flags.opcode() != Opcode::NOTIFY {
            return None;
        }
        let mut out = Vec::new();
        let flags = query.flags.reply().with(Flags::AA, true);
        let mut builder = Builder::new(&mut out, query.id, flags);
        builder.question(query.qname(request), query.qtype, query.qclass);
        let mut records = Records::of(request).ok()?.flatten();
        let soa = records.find(|view| view.rtype == Type::SOA);
        let known = soa.and_then(|view| serial_of(&view.to_record(request).ok()?));
        Some((out, known.is_none_or(|serial| serial > self.serial)))
    }

    /// Asks for the differences and gives the serial that they lead to.
    fn transfer(&mut self) -> Result<u32> {
        let mut stream = self.connect()?;
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 0x4e6f, Flags::default());
        builder.question(self.zone.view(), Type::IXFR, Class::IN);
        let rdata = [&[0, 0][..], &self.serial.to_be_bytes(), &[0; 16]].concat();
        let fields = (Type::SOA, Class::IN, 0);
        builder.record(Section::Authority, self.zone.view(), fields, &rdata)?;
        stream.write_all(&framing::framed(&out))?;
        let mut new = None;
        let mut soas = 0;
        loop {
            let message = framing::read_message(&mut stream)?;
            let rcode = Header::read(&message)?.flags.rcode();
            if rcode.0 != 0 {
                bail!("the primary said {rcode}");
            }
            let mut last = None;
            for view in Records::of(&message)? {
                let view = view?;
                let is_soa = view.section == Section::Answer && view.rtype == Type::SOA;
                last = if is_soa { serial_of(&view.to_record(&message)?) } else { None };
                soas += u32::from(is_soa);
                new = new.or(last);
            }
            // Differences have the new serial first, before what they add, and last; a whole zone has it
            // first and last, and a primary that has nothing newer once.
            let is_end = new.is_some() && last == new && soas != 3;
            if is_end {
                self.serial = new.unwrap_or(self.serial);
                return Ok(self.serial);
            }
        }
    }

    /// A connection from the address that is notified.
    fn connect(&self) -> Result<TcpStream> {
        let ip: IpAddr = self.socket.local_addr()?.ip();
        let kind = socket2::Type::STREAM;
        let socket = socket2::Socket::new(socket2::Domain::for_address(self.primary), kind, None)?;
        socket.bind(&SocketAddr::new(ip, 0).into())?;
        socket.connect_timeout(&self.primary.into(), PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket.into())
    }
}

/// The serial number of an SOA record.
fn serial_of(record: &Record) -> Option<u32> {
    let mut reader = Reader::new(&record.rdata, 0);
    reader.skip_name().ok()?;
    reader.skip_name().ok()?;
    reader.u32("serial").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::primary::Primary;
    use crate::scenarios::zones::{LARGE, Which, Zones};

    #[test]
    fn secondaries_that_are_notified_have_the_new_version_and_others_do_not() {
        let primary = Primary::start(Zones::new(0, 100, 5), &[]).unwrap();
        let zone = Name::parse(LARGE).unwrap();
        let readers = Readers::start(3, primary.address, &zone, 1).unwrap();
        primary.change(Zones::change_large);
        for address in &readers.addresses[..2] {
            primary.notify(Which::Large, *address).unwrap();
        }
        let begin = Instant::now();
        while readers.count(2) < 2 {
            assert!(begin.elapsed() < PATIENCE, "{}", readers.count(2));
            std::thread::sleep(WAIT / 10);
        }
        assert_eq!(readers.all_have(2), None);
        // The last one over TCP.
        let mut out = Vec::new();
        let flags = Flags::default().with_opcode(Opcode::NOTIFY);
        Builder::new(&mut out, 5, flags).question(zone.view(), Type::SOA, Class::IN);
        let mut stream = TcpStream::connect(readers.addresses[2]).unwrap();
        stream.write_all(&framing::framed(&out)).unwrap();
        assert_eq!(framing::read_message(&mut stream).unwrap().get(..2), Some(&[0, 5][..]));
        while readers.all_have(2).is_none() {
            assert!(begin.elapsed() < PATIENCE);
            std::thread::sleep(WAIT / 10);
        }
        assert_eq!(readers.count(3), 0);
    }
}
