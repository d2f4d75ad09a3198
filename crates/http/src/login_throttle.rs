//! Rate limits of login attempts: by name and address together, by address, and by name. Nobody can be locked
//! out by others: an address from which a name has logged in before is limited only by that pair, whatever
//! else is tried, and one-time links are not limited by name. Password checks also take turns, because each
//! occupies a core: attempts from one address queue behind one another first, and only then behind others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::canonical::{Digest, sha256};
use entente_domain::rate::{Verdict, judge_minutely};
use entente_runtime::cache::Cache;
use entente_runtime::keyed::{KeyedTurn, Turns};
use entente_runtime::metrics::Metrics;

/// Attempts per minute for one name from one address.
const PAIR: u32 = 10;
/// Attempts per minute from one address.
const ADDRESS: u32 = 60;
/// Attempts per minute for one name, from addresses where it has never logged in.
const NAME: u32 = 60;
/// Steps of logins at the provider per minute from one address; a login has two.
const STEPS: u32 = 120;
/// Maximum number of lanes and of known pairs; of the pairs, the least recently used one is dropped.
const REMEMBERED: usize = 20_000;

/// Recent login attempts on this server.
#[derive(Debug)]
pub struct LoginThrottle {
    began: Instant,
    lanes: Mutex<HashMap<Digest, u64>>,
    /// Pairs of name and address with a successful login.
    known: Cache<Digest, ()>,
    /// Turns of password checks.
    turns: Turns<Digest>,
}

impl LoginThrottle {
    /// Creates a throttle without attempts.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            began: Instant::now(),
            lanes: Mutex::default(),
            known: Cache::new("login_addresses", REMEMBERED, metrics),
            turns: Turns::default(),
        }
    }

    /// Counts an attempt, and refuses it if it exceeds a limit.
    ///
    /// # Errors
    /// Returns the time to wait.
    pub fn admit(&self, name: &str, address: Option<IpAddr>) -> Result<(), Duration> {
        let address = counted(address);
        let pair = pair(name, &address);
        let mut limits = vec![(pair, PAIR)];
        if !self.knows(&pair) {
            limits.extend([(lane("address", &address), ADDRESS), (lane("name", name), NAME)]);
        }
        self.count(limits)
    }

    /// Counts a step of a login at the provider, which names nobody yet: by address, and apart from passwords, so that neither
    /// keeps anybody from the other.
    ///
    /// # Errors
    /// Returns the time to wait.
    pub fn admit_step(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        self.count(vec![(lane("provider", &counted(address)), STEPS)])
    }

    fn count(&self, limits: Vec<(Digest, u32)>) -> Result<(), Duration> {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut lanes, now);
        let mut passed = Vec::with_capacity(limits.len());
        for (lane, per_minute) in limits {
            match judge_minutely(per_minute, lanes.get(&lane).copied().unwrap_or(0), now) {
                Verdict::Pass { full_at, .. } => passed.push((lane, full_at)),
                Verdict::Wait { nanos } => return Err(Duration::from_nanos(nanos)),
            }
        }
        lanes.extend(passed);
        Ok(())
    }

    /// Waits until no other password from that address is being checked; a known pair of name and address
    /// queues only behind itself.
    pub async fn turn(&self, name: &str, address: Option<IpAddr>) -> KeyedTurn<Digest> {
        let address = counted(address);
        let pair = pair(name, &address);
        let queue = if self.knows(&pair) { pair } else { lane("address", &address) };
        self.turns.take(queue).await
    }

    fn knows(&self, pair: &Digest) -> bool {
        self.known.get(pair).is_some()
    }

    /// Records that a name has logged in from an address.
    pub fn got_in(&self, name: &str, address: Option<IpAddr>) {
        self.known.put(pair(name, &counted(address)), ());
    }
}

/// Drops the lanes that have recovered; if that is not enough, the half that recovers first.
///
/// Never the least recently used one: attempts on other names, from other addresses, would soon push out the count of
/// a name that is being guessed. Such a name has counted much and recovers last.
fn make_room(lanes: &mut HashMap<Digest, u64>, now: u64) {
    if lanes.len() < REMEMBERED {
        return;
    }
    lanes.retain(|_, full_at| *full_at > now);
    if lanes.len() < REMEMBERED {
        return;
    }
    let mut moments: Vec<u64> = lanes.values().copied().collect();
    let (_, middle, _) = moments.select_nth_unstable(REMEMBERED / 2);
    let middle = *middle;
    lanes.retain(|_, full_at| *full_at > middle);
}

fn pair(name: &str, address: &str) -> Digest {
    lane("pair", &format!("{}:{name}{address}", name.len()))
}

fn lane(kind: &str, what: &str) -> Digest {
    sha256(format!("{kind}:{what}"))
}

/// Returns the address as it is counted; for IPv6 the /64 prefix, since one holder has 2^64 addresses.
fn counted(address: Option<IpAddr>) -> String {
    match address {
        None => String::new(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("{:x?}", &address.segments()[..4]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_elsewhere_do_not_push_out_a_count() {
        let guessed = lane("name", "human.ada");
        let minute = 60_000_000_000;
        let others = (1..).take(REMEMBERED - 1).map(|n: u64| (lane("pair", &n.to_string()), n));
        let full: HashMap<Digest, u64> = others.chain([(guessed, minute)]).collect();
        let mut recovering = full.clone();
        make_room(&mut recovering, 1_000);
        assert_eq!(recovering.len(), REMEMBERED - 1_000, "the others have recovered");
        let mut busy = full;
        make_room(&mut busy, 0);
        assert_eq!((busy.len(), busy.get(&guessed)), (REMEMBERED / 2 - 1, Some(&minute)));
        assert!(busy.values().all(|full_at| *full_at > 10_000), "those that counted least have gone");
    }
}
