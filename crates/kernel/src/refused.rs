//! Lines of the log for whoever watches over the server (a SIEM): keys, passwords and links that opened nothing. A line says
//! what was presented, from where, whose it would be where that is known, and why it opened nothing; never what was presented.
//! One address gets a few lines a minute, so that nobody fills the disk with guesses: what it did besides is counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one address in [`SPAN`].
const LINES: u32 = 20;
/// For how long the lines of an address are counted.
const SPAN: Duration = Duration::from_mins(1);
/// Addresses that are counted at once; beyond, those are forgotten whose time is over, and then all.
const ADDRESSES: usize = 10_000;
/// Lines of all addresses together in [`SPAN`]: who has many addresses is one guesser too.
const ALL_LINES: u32 = 600;

/// What opened nothing.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// What was presented: `key`, `password` or `link`.
    pub credential: &'static str,
    /// Where it came from.
    pub address: Option<IpAddr>,
    /// The record of the key, where there is one.
    pub key: Option<&'a str>,
    /// Whose it is, where that is known. A name that nobody has is not told: it may be a password in the wrong field.
    pub principal: Option<&'a str>,
    /// Why it opened nothing.
    pub reason: &'a str,
}

/// Who writes the lines.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: Count,
    each: HashMap<Option<IpAddr>, Count>,
}

/// The lines of a while.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    since: Option<Instant>,
    lines: u32,
    untold: u64,
}

impl Count {
    /// Counts one more; how many were not told before it, when it is to be told itself.
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
    /// Writes a line, unless there were too many.
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
        if counts.each.len() >= ADDRESSES {
            counts.each.retain(|_, count| count.since.is_some_and(|since| now.duration_since(since) < SPAN));
        }
        if counts.each.len() >= ADDRESSES {
            counts.each.clear();
        }
        let own = counts.each.entry(counted(address)).or_default().admit(LINES, now)?;
        if let Some(others) = counts.all.admit(ALL_LINES, now) {
            Some(own + others)
        } else {
            counts.all.untold += own;
            None
        }
    }
}

/// An address as it is counted. Whoever has one of version 6 has 2^64 of them.
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
    fn a_network_of_version_6_is_one_address() {
        let watch = Watch::default();
        let now = Instant::now();
        let address = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        let told = (0..500).filter(|last| watch.admit(address(*last), now).is_some()).count();
        assert_eq!(told, LINES as usize);
    }
}
