//! Log entries for security monitoring (a SIEM): refused keys, passwords, links and accounts of a provider.
//!
//! An entry gives the kind of credential, the address, the owner if known, and the reason for the refusal; never the
//! credential itself. Each address gets a few entries a minute, so that guessing cannot fill the disk; the rest is
//! counted.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cache::OwnedCache;

/// Maximum log entries of one address in [`SPAN`].
const LINES: u32 = 20;
/// Period over which the entries of an address are counted.
const SPAN: Duration = Duration::from_mins(1);
/// Maximum number of addresses counted at once; the one that was refused least recently is dropped. So an attacker
/// with as many addresses gets more than [`LINES`] for each, but never more than [`ALL_LINES`].
const ADDRESSES: usize = 10_000;
/// Maximum log entries of all addresses together in [`SPAN`], because one attacker may have many addresses.
const ALL_LINES: u32 = 600;

/// A refused credential.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// Kind of credential: `key`, `access token`, `password`, `link` or `provider account`.
    pub credential: &'static str,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// Id of the key's record, if there is one.
    pub key: Option<&'a str>,
    /// Owner of the credential, if known; an unknown name is not logged, because it may be a password in the wrong
    /// field.
    pub principal: Option<&'a str>,
    /// Reason for the refusal.
    pub reason: &'a str,
}

/// Writer of the log entries.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    all: Count,
    each: OwnedCache<Option<IpAddr>, Count>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { all: Count::default(), each: OwnedCache::uncounted(ADDRESSES) }
    }
}

/// Entries of the current period.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    since: Option<Instant>,
    lines: u32,
    untold: u64,
}

impl Count {
    /// Counts one entry; returns the number of suppressed entries before it, or `None` if it is suppressed itself.
    fn admit(&mut self, most: u32, now: Instant) -> Option<u64> {
        let over = self.since.is_none_or(|since| now.duration_since(since) >= SPAN);
        if over {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines >= most {
            self.untold += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

impl Watch {
    /// Writes a log entry, unless there were too many.
    pub fn tell(&self, refused: &Refused<'_>) {
        let Some(untold) = self.admit(refused.address, Instant::now()) else { return };
        tracing::warn!(
            event = "credential_refused",
            credential = refused.credential,
            address = refused.address.map(tracing::field::display),
            key.id = refused.key,
            principal = refused.principal,
            reason = refused.reason,
            untold,
            "a credential opened nothing"
        );
    }

    fn admit(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = counted(address);
        let mut count = counts.each.peek(&address).copied().unwrap_or_default();
        let admitted = count.admit(LINES, now);
        if let Some((_, dropped)) = counts.each.put(address, count) {
            counts.all.untold += dropped.untold;
        }
        let own = admitted?;
        if let Some(others) = counts.all.admit(ALL_LINES, now) {
            Some(own + others)
        } else {
            counts.all.untold += own;
            None
        }
    }
}

/// Returns the address to count: for IPv6 the /64 network, because one client has 2^64 addresses there.
fn counted(address: Option<IpAddr>) -> Option<IpAddr> {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            Some(IpAddr::from([a, b, c, d, 0, 0, 0, 0]))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_hides_nobody_else() {
        let watch = Watch::default();
        let now = Instant::now();
        let address = |last| Some(IpAddr::from([192, 0, 2, last]));
        let told = (0..500).filter(|_| watch.admit(address(1), now).is_some()).count();
        assert_eq!(told, LINES as usize);
        assert_eq!(watch.admit(address(2), now), Some(0), "another address is told of");
        let later = now + SPAN;
        assert_eq!(
            watch.admit(address(1), later),
            Some(500 - u64::from(LINES)),
            "what was not told is counted"
        );
        assert_eq!(watch.admit(address(1), later), Some(0));
    }

    #[test]
    fn many_addresses_are_one_flood() {
        let watch = Watch::default();
        let now = Instant::now();
        let addresses =
            (0..=255).flat_map(|net| (1..=10).map(move |host| Some(IpAddr::from([198, 51, net, host]))));
        let told = addresses.filter(|address| watch.admit(*address, now).is_some()).count();
        assert_eq!(told, ALL_LINES as usize);
        let another = Some(IpAddr::from([192, 0, 2, 1]));
        assert_eq!(
            watch.admit(another, now + SPAN),
            Some(2_560 - u64::from(ALL_LINES)),
            "the others are counted"
        );
    }

    #[test]
    fn an_address_that_makes_room_leaves_its_count_to_all() {
        let watch = Watch::default();
        let now = Instant::now();
        let first = Some(IpAddr::from([192, 0, 2, 1]));
        let untold = (0..100).filter(|_| watch.admit(first, now).is_none()).count() as u64;
        let later = now + SPAN;
        let others = (0_u32..).take(ADDRESSES).map(|n| Some(IpAddr::from(n.to_be_bytes())));
        let told: u64 = others.filter_map(|address| watch.admit(address, later)).sum();
        assert_eq!((untold, told), (100 - u64::from(LINES), 0));
        let unlogged = ADDRESSES as u64 - u64::from(ALL_LINES);
        let next = Some(IpAddr::from([192, 0, 2, 2]));
        assert_eq!(watch.admit(next, later + SPAN), Some(untold + unlogged), "nothing is lost");
        assert_eq!(watch.0.lock().unwrap().each.len(), ADDRESSES);
    }

    #[test]
    fn a_network_of_version_6_is_one_address() {
        let watch = Watch::default();
        let now = Instant::now();
        let address = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        let told = (0..500).filter(|last| watch.admit(address(*last), now).is_some()).count();
        assert_eq!(told, LINES as usize);
    }
}
