//! Ports that no other test gets, in this process or another one.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The first port; all of them are below those that the system gives to clients.
const FIRST: u16 = 10_000;
const BLOCKS: u16 = 200;
/// Ports of a block.
const EACH: u16 = 100;

/// Ports that are this process's until it ends.
struct Block {
    next: u16,
    end: u16,
    /// Locked while the process lives.
    _lock: File,
}

/// All blocks that were ever taken: servers still use their ports.
static BLOCKS_TAKEN: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// A port that is free for UDP and TCP on loopback, and another one each time. Tests that run beside this one, also in
/// other processes, do not get it.
pub fn free_port() -> u16 {
    let mut blocks = BLOCKS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let block = blocks.last_mut().filter(|block| block.next < block.end);
        let Some(block) = block else {
            let block = another();
            blocks.push(block);
            continue;
        };
        let port = block.next;
        block.next += 1;
        // Something else may run on this machine.
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}

/// An address of loopback where nothing listens, as long as the caller does not.
pub fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

fn another() -> Block {
    let folder = folder();
    // Ports of a process that has just ended may still be in use by what it left behind.
    let begin = std::process::id() as u16 % BLOCKS;
    let mut numbers = (0..BLOCKS).map(|at| (begin + at) % BLOCKS);
    let taken = numbers.find_map(|number| {
        let path = folder.join(number.to_string());
        let lock = OpenOptions::new().create(true).append(true).open(path).ok()?;
        lock.try_lock().ok()?;
        let next = FIRST + number * EACH;
        Some(Block { next, end: next + EACH, _lock: lock })
    });
    taken.unwrap_or_else(|| panic!("too many tests run at the same time: no ports are left"))
}

/// Where the locks are, a folder of this user's.
fn folder() -> PathBuf {
    let user = fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid());
    let folder = std::env::temp_dir().join(format!("nodens-test-ports-{user}"));
    _ = fs::create_dir_all(&folder);
    folder
}
