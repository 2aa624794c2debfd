//! The link that owns the addresses.

use super::lease::{self, Lease};
use super::route::{Address, Link, Route};
use rustix::fs::{CWD, FileType, Mode, makedev, mkdirat, mknodat};
use std::fs::OpenOptions;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A link that we made or took over.
pub(crate) struct Held {
    pub(crate) index: u32,
    pub(crate) owner: Owner,
}

/// What the link's life depends on.
pub(crate) enum Owner {
    /// The descriptor of a TUN link.
    Descriptor(OwnedFd),
    /// Nothing: its addresses have a lease.
    Nobody(Lease),
}

impl Held {
    /// Seconds that its addresses last without renewal.
    pub(crate) fn lease(&self) -> Option<u32> {
        matches!(self.owner, Owner::Nobody(_)).then_some(lease::SECONDS)
    }

    /// Renews these addresses from now on and no others, if they have a lease.
    pub(crate) fn renew(&self, wanted: &[IpAddr]) {
        if let Owner::Nobody(lease) = &self.owner {
            lease.renew(wanted);
        }
    }
}

/// The link of a predecessor.
pub(crate) enum Inherited {
    /// Its descriptor.
    Tun(OwnedFd),
    /// It has none, and addresses with a lease.
    Leased,
}

/// A link that was made, with what stood in the way of a better one.
pub(crate) struct Made {
    pub(crate) held: Held,
    pub(crate) kind: &'static str,
    pub(crate) obstacles: Vec<String>,
}

/// Makes the link `name` of the best kind that there can be, in place of a leftover.
///
/// # Errors
///
/// What the operator has to know, in words.
pub(crate) fn make(route: &Route, name: &str) -> Result<Made, String> {
    if let Some(link) = find(route, name)? {
        leftover(route, &link)?;
    }
    let mut obstacles = Vec::new();
    match tun_device().and_then(|device| nodens_net::tun::create(device, name)) {
        Ok(descriptor) => {
            let (index, owner) = (index(route, name)?, Owner::Descriptor(descriptor));
            return Ok(Made { held: Held { index, owner }, kind: "tun", obstacles });
        }
        Err(error) => obstacles.push(format!("no TUN link: {}", text(&error))),
    }
    for kind in ["dummy", "bridge"] {
        match route.create(name, kind) {
            Ok(()) => return Ok(Made { held: leased(index(route, name)?)?, kind, obstacles }),
            Err(error) => obstacles.push(format!("no {kind} link: {}", text(&error))),
        }
    }
    Err(format!("cannot make the link {name}: {}", obstacles.join("; ")))
}

/// What an error of the operating system says, without Rust's number of it.
pub(crate) fn text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// The link of this name.
pub(crate) fn find(route: &Route, name: &str) -> Result<Option<Link>, String> {
    Ok(links(route)?.into_iter().find(|link| link.name == name))
}

fn links(route: &Route) -> Result<Vec<Link>, String> {
    route.links().map_err(|error| format!("cannot list links: {}", text(&error)))
}

/// Removes what an earlier process left behind: a link of node-cache's or of our own. A link that
/// looks like neither stays.
fn leftover(route: &Route, link: &Link) -> Result<(), String> {
    let name = &link.name;
    match (&*link.kind, link.carrier) {
        ("tun", true) => {
            return Err(format!("the link {name} belongs to another process that is running"));
        }
        // Nor is a bridge that others are ports of one of ours: it may be the pods' network.
        ("bridge", _) if has_ports(route, link)? => {
            return Err(format!("there is a link {name} already, a bridge with ports"));
        }
        ("tun" | "dummy" | "bridge", _) => {}
        ("", _) => return Err(format!("{name} is the name of a network card")),
        (kind, _) => return Err(format!("there is a link {name} already, a {kind}")),
    }
    route
        .delete(link.index)
        .map_err(|error| format!("cannot remove the link {name}: {}", text(&error)))
}

fn has_ports(route: &Route, bridge: &Link) -> Result<bool, String> {
    let links = links(route)?;
    Ok(links.iter().any(|link| link.master == Some(bridge.index)))
}

fn index(route: &Route, name: &str) -> Result<u32, String> {
    let link = find(route, name)?.ok_or_else(|| format!("the link {name} vanished"))?;
    Ok(link.index)
}

/// A link that does not end with this process.
pub(crate) fn leased(index: u32) -> Result<Held, String> {
    let lease = Lease::start(index);
    let lease = lease.map_err(|error| {
        format!("cannot start the thread that renews addresses: {}", text(&error))
    })?;
    Ok(Held { index, owner: Owner::Nobody(lease) })
}

/// Opens `/dev/net/tun`, or a device of our own making where a container has none.
fn tun_device() -> io::Result<OwnedFd> {
    let open = |path: &Path| -> io::Result<OwnedFd> {
        Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
    };
    let usual = Path::new("/dev/net/tun");
    let error = match open(usual) {
        Ok(device) => return Ok(device),
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        Err(error) => return Err(error),
    };
    _ = mkdirat(CWD, "/dev/net", Mode::from_raw_mode(0o755));
    let own = std::env::temp_dir().join(format!("nodens-tun-{}", std::process::id()));
    let mut reason = error;
    for path in [usual, Path::new("/run/nodens-tun"), &own] {
        let mode = Mode::RUSR | Mode::WUSR;
        match mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(10, 200)) {
            Ok(()) => {
                let device = open(path);
                _ = std::fs::remove_file(path);
                return device;
            }
            Err(error) => reason = error.into(),
        }
    }
    Err(io::Error::new(
        reason.kind(),
        format!("no /dev/net/tun, and none can be made: {}", text(&reason)),
    ))
}

/// What making addresses right took.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) added: usize,
    /// Addresses that another link has as well, and which one.
    pub(crate) elsewhere: Vec<(IpAddr, String)>,
    pub(crate) failures: Vec<String>,
}

/// A link that a predecessor has, if it is the one that this process was told of.
pub(crate) fn inherit(
    inherited: Inherited,
    link: &Link,
) -> Result<Option<(Held, &'static str)>, String> {
    let kind = ["tun", "dummy", "bridge"].into_iter().find(|kind| *kind == link.kind);
    Ok(match (inherited, kind) {
        (Inherited::Tun(descriptor), Some(kind @ "tun")) if link.carrier => {
            Some((Held { index: link.index, owner: Owner::Descriptor(descriptor) }, kind))
        }
        (Inherited::Leased, Some(kind @ ("dummy" | "bridge"))) => Some((leased(link.index)?, kind)),
        _ => None,
    })
}

/// Gives the link exactly these addresses, and has those with a lease renewed.
pub(crate) fn address(route: &Route, held: &Held, wanted: &[IpAddr]) -> Result<Addresses, String> {
    let seen =
        route.addresses().map_err(|error| format!("cannot list addresses: {}", text(&error)))?;
    let mut done = Addresses::default();
    held.renew(wanted);
    let missing = |ip: &&IpAddr| !seen.contains(&Address { index: held.index, ip: **ip });
    for &ip in wanted.iter().filter(missing) {
        match route.add(held.index, ip, held.lease()) {
            Ok(()) => done.added += 1,
            Err(error) => done.failures.push(refused(ip, &error)),
        }
    }
    for address in seen.iter().filter(|address| address.index == held.index) {
        let needless = !wanted.contains(&address.ip) && !is_link_local(address.ip);
        if needless && let Err(error) = route.remove(held.index, address.ip) {
            done.failures.push(format!("cannot remove {}: {}", address.ip, text(&error)));
        }
    }
    let others: Vec<&Address> = seen
        .iter()
        .filter(|address| address.index != held.index && wanted.contains(&address.ip))
        .collect();
    if !others.is_empty() {
        let links = route.links().unwrap_or_default();
        let name = |index| links.iter().find(|l| l.index == index).map(|l| l.name.clone());
        done.elsewhere = others.iter().map(|a| (a.ip, name(a.index).unwrap_or_default())).collect();
    }
    Ok(done)
}

fn refused(ip: IpAddr, error: &io::Error) -> String {
    let disabled = ip.is_ipv6() && error.kind() == io::ErrorKind::PermissionDenied;
    let hint = if disabled { " (IPv6 is disabled on this machine)" } else { "" };
    format!("cannot add {ip}: {}{hint}", text(error))
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
