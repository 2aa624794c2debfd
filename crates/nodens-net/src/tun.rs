//! A link that lives as long as a descriptor: when the last one is closed, however that comes
//! about, the kernel removes the link, its addresses and its routes.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// Makes a TUN link called `name`, down and without addresses, which `device` owns from now on: an
/// open `/dev/net/tun`, or whatever character device 10:200 is called.
///
/// # Errors
///
/// `EBUSY` when there is a link of that name, `EPERM` without `CAP_NET_ADMIN`, `EINVAL` for a name
/// that is empty or longer than 15 octets.
pub fn create(device: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    sys::attach_tun(&device, name)?;
    Ok(device)
}
