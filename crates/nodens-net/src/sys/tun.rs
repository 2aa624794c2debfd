//! Links whose owner is an open file.

use libc::{IFF_NO_PI, IFF_TUN, c_short, ifreq};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Fails rather than attaching to a link that is there already (`linux/if_tun.h`).
const IFF_TUN_EXCL: i32 = 0x8000;

/// Makes a TUN link of this name and attaches it to `device`, an open `/dev/net/tun`.
pub(crate) fn attach(device: impl AsFd, name: &str) -> io::Result<()> {
    // SAFETY: an `ifreq` is plain data for which zeros are a valid value.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    let invalid = name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0');
    if invalid {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a link's name has 1 to 15 octets",
        ));
    }
    for (place, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = octet as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL) as c_short;
    let fd = device.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the request lives until the call returns.
    let result = unsafe { libc::ioctl(fd, libc::TUNSETIFF as _, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
