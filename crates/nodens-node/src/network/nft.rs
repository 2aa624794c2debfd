//! A table of nftables of our own, over our own socket: it vanishes with the socket.

mod batch;

pub(crate) use batch::Wanted;

use super::netlink::{Events, Message, Refused, Socket};
use super::rules::{ALLOW, SKIP};
use batch::{Batch, about};
use rustix::net::netlink::NETFILTER;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// `NFNL_SUBSYS_NFTABLES`
const SUBSYSTEM: u16 = 10;
const NEWTABLE: u16 = SUBSYSTEM << 8;
const GETTABLE: u16 = NEWTABLE | 1;
const DELTABLE: u16 = NEWTABLE | 2;
const NEWCHAIN: u16 = NEWTABLE | 3;
const GETCHAIN: u16 = NEWTABLE | 4;
const DELCHAIN: u16 = NEWTABLE | 5;
const NEWRULE: u16 = NEWTABLE | 6;
const GETRULE: u16 = NEWTABLE | 7;
const DELRULE: u16 = NEWTABLE | 8;
/// `NFNLGRP_NFTABLES`, as a mask.
const GROUP: u32 = 1 << 6;

/// `NFPROTO_INET`: both families.
const INET: u8 = 1;
/// `NFPROTO_IPV4`
const IPV4: u8 = 2;
/// `NFPROTO_IPV6`
const IPV6: u8 = 10;

/// Of tables, chains and rules alike.
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const TABLE_OWNER: u16 = 7;
/// `NFT_TABLE_F_OWNER`
const OWNER: u32 = 2;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const RULE_CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;

/// `NF_INET_LOCAL_IN`
const LOCAL_IN: u32 = 1;
/// `NF_DROP`
const DROP: u32 = 0;
/// `NF_ACCEPT`
const ACCEPT: u32 = 1;

/// A table that somebody has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) family: u8,
    pub(crate) name: String,
    /// Whose it is, by the number of the owner's socket, usually that of its process.
    pub(crate) owner: Option<u32>,
}

/// A chain that somebody has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableChain {
    family: u8,
    pub(crate) table: String,
    pub(crate) chain: String,
    /// Whether packets for this machine that no rule of it takes are dropped.
    pub(crate) drops_input: bool,
}

/// The kernel's side of nftables.
pub(crate) struct Nft {
    /// The owner of our table, for changes only: a predecessor may hold it too, and whoever reads
    /// from it first has the kernel's answer.
    owner: Socket,
    look: Socket,
}

impl Nft {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { owner: Socket::open(Some(NETFILTER))?, look: Socket::open(Some(NETFILTER))? })
    }

    /// With the socket of a predecessor, whose table becomes ours.
    pub(crate) fn inherit(owner: OwnedFd) -> io::Result<Self> {
        Ok(Self { owner: Socket::of(owner), look: Socket::open(Some(NETFILTER))? })
    }

    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.owner.try_clone()
    }

    pub(crate) fn tables(&self) -> io::Result<Vec<Table>> {
        let list = self.look.list(GETTABLE, &about(0, 0))?;
        Ok(list.iter().filter(|message| message.kind == NEWTABLE).filter_map(table).collect())
    }

    pub(crate) fn chains(&self) -> io::Result<Vec<TableChain>> {
        let list = self.look.list(GETCHAIN, &about(0, 0))?;
        Ok(list.iter().filter(|message| message.kind == NEWCHAIN).filter_map(chain).collect())
    }

    /// How many rules our table has.
    pub(crate) fn rules(&self, name: &str) -> io::Result<usize> {
        let list = self.look.list(GETRULE, &about(INET, 0))?;
        let ours = |message: &&Message| {
            message.kind == NEWRULE && message.attributes(4).text(TABLE_NAME) == Some(name)
        };
        Ok(list.iter().filter(ours).count())
    }

    /// Makes our table in one step, in place of the one there is.
    ///
    /// `owned` is whether it is to vanish with our socket, which takes Linux 5.12, and
    /// `local` whether rules may ask for local addresses.
    pub(crate) fn install(&self, wanted: &Wanted<'_>, replace: bool) -> Result<(), Refused> {
        let mut batch = Batch::begin();
        if replace {
            batch.delete(wanted.name);
        }
        batch.create(wanted);
        for rule in wanted.rules {
            batch.rule(wanted, rule);
        }
        self.commit(batch)
    }

    /// Removes our table.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut batch = Batch::begin();
        batch.delete(name);
        self.commit(batch).map_err(|refused| refused.error)
    }

    /// Removes rules for these addresses that node-cache made with `iptables-nft`. Returns how many
    /// there were.
    pub(crate) fn remove_leftovers(&self, addresses: &[IpAddr]) -> io::Result<usize> {
        let mut batch = Batch::begin();
        for family in [IPV4, IPV6] {
            let list = self.look.list(GETRULE, &about(family, 0))?;
            for message in list.iter().filter(|message| is_leftover(message, addresses)) {
                batch.delete_rule(family, message);
            }
        }
        let count = batch.last;
        if count > 0 {
            self.commit(batch).map_err(|refused| refused.error)?;
        }
        Ok(count)
    }

    fn commit(&self, batch: Batch) -> Result<(), Refused> {
        let (requests, last) = batch.end();
        self.owner.change(requests, last)
    }
}

/// Whether a rule has a comment of node-cache's and is for one of the addresses.
fn is_leftover(message: &Message, addresses: &[IpAddr]) -> bool {
    let has = |part: &[u8]| message.body.windows(part.len()).any(|octets| octets == part);
    let table = message.attributes(4).text(TABLE_NAME);
    let for_address = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => has(&ip.octets()),
        IpAddr::V6(ip) => has(&ip.octets()),
    };
    message.kind == NEWRULE
        && matches!(table, Some("raw" | "filter"))
        && (has(SKIP.as_bytes()) || has(ALLOW.as_bytes()))
        && addresses.iter().any(for_address)
}

fn table(message: &Message) -> Option<Table> {
    let [family] = message.part(0)?;
    let attributes = message.attributes(4);
    let name = attributes.text(TABLE_NAME)?.to_owned();
    Some(Table { family, name, owner: attributes.number(TABLE_OWNER) })
}

fn chain(message: &Message) -> Option<TableChain> {
    let [family] = message.part(0)?;
    let attributes = message.attributes(4);
    let hook = attributes.nested(CHAIN_HOOK).number(HOOK_NUMBER);
    let drops = attributes.number(CHAIN_POLICY) == Some(DROP);
    Some(TableChain {
        family,
        table: attributes.text(TABLE_NAME)?.to_owned(),
        chain: attributes.text(CHAIN_NAME)?.to_owned(),
        drops_input: hook == Some(LOCAL_IN) && drops && family != BRIDGE,
    })
}

/// `NFPROTO_BRIDGE`
const BRIDGE: u8 = 7;

impl Table {
    /// Whether it is the `inet` table of this name.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        self.family == INET && self.name == name
    }

    /// Whether kube-proxy has its rules in it.
    pub(crate) fn is_of_kube_proxy(&self) -> bool {
        matches!(self.family, IPV4 | IPV6) && self.name == "kube-proxy"
    }
}

impl TableChain {
    /// Whether it is a table that `iptables-nft` or `ip6tables-nft` manages.
    pub(crate) fn is_of_iptables(&self) -> bool {
        matches!(self.family, IPV4 | IPV6)
            && matches!(&*self.table, "raw" | "mangle" | "nat" | "filter")
    }
}

/// Says when rules change.
pub(crate) fn events() -> io::Result<Events> {
    Events::open(Some(NETFILTER), GROUP)
}

/// Whether something was taken away that could be ours: from the table `name`, or from a chain of
/// `iptables-nft` that has rules of ours.
pub(crate) fn takes_away(message: &Message, name: &str) -> bool {
    let attributes = message.attributes(4);
    let table = attributes.text(TABLE_NAME).unwrap_or_default();
    let chain = match message.kind {
        DELRULE => attributes.text(RULE_CHAIN).unwrap_or_default(),
        DELCHAIN => attributes.text(CHAIN_NAME).unwrap_or_default(),
        DELTABLE => "",
        _ => return false,
    };
    let builtin = matches!(chain, "" | "PREROUTING" | "INPUT" | "OUTPUT");
    table == name || (matches!(table, "raw" | "filter") && builtin)
}
