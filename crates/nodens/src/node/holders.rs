//! Who has a port that we need.

use std::collections::HashSet;
use std::net::SocketAddr;

/// Processes with a socket on the port of `address`, as `name (process 12)`; empty where nobody
/// can be seen, as from a container without the host's processes.
pub(crate) fn of(network: &str, address: SocketAddr) -> Vec<String> {
    let mut sockets = HashSet::new();
    for table in [format!("/proc/net/{network}"), format!("/proc/net/{network}6")] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        sockets.extend(text.lines().skip(1).filter_map(|line| socket_on(line, address.port())));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let files = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        if pid != std::process::id()
            && links.any(|link| link.to_str().is_some_and(|link| sockets.contains(link)))
        {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("{} (process {pid})", name.trim()));
        }
    }
    found.sort_unstable();
    found
}

/// The name of the open file behind a line of `/proc/net/udp` or `tcp`, if it is bound to `port`
/// and not the end of a connection.
fn socket_on(line: &str, port: u16) -> Option<String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (local, remote) = (fields.get(1)?, fields.get(2)?);
    let bound = local.rsplit_once(':')?.1 == format!("{port:04X}");
    let connected = remote.rsplit_once(':')?.1 != "0000";
    (bound && !connected).then_some(())?;
    fields.get(9).map(|inode| format!("socket:[{inode}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_s_tables_are_read() {
        let line = "  73: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12345 2 0 0";
        assert_eq!(socket_on(line, 53).as_deref(), Some("socket:[12345]"));
        assert_eq!(socket_on(line, 54), None);
        let connected = line.replace("00000000:0000 07", "0100007F:1234 01");
        assert_eq!(socket_on(&connected, 53), None);
        assert_eq!(socket_on("", 53), None);
    }

    #[test]
    fn our_own_sockets_are_not_somebody_else_s() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(of("udp", socket.local_addr().unwrap()).is_empty());
    }
}
