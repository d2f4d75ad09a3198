//! Rate limits of login attempts: by name and address together, by address, and by name. Nobody can be locked
//! out by others: an address from which a name has logged in before is limited only by that pair, whatever
//! else is tried, and one-time links are not limited by name. Password checks also take turns, because each
//! occupies a core: attempts from one address queue behind one another first, and only then behind others.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::canonical::{Digest, sha256};
use entente_domain::rate::{Verdict, judge_minutely};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Attempts per minute for one name from one address.
const PAIR: u32 = 10;
/// Attempts per minute from one address.
const ADDRESS: u32 = 60;
/// Attempts per minute for one name, from addresses where it has never logged in.
const NAME: u32 = 60;
/// Number of queues above which idle ones are dropped.
const QUEUES: usize = 1_000;
/// Maximum number of lanes and of known pairs; idle lanes are dropped first.
const REMEMBERED: usize = 20_000;

/// Recent login attempts on this server.
#[derive(Debug)]
pub struct LoginThrottle {
    began: Instant,
    lanes: Mutex<HashMap<Digest, u64>>,
    /// Pairs of name and address with a successful login.
    known: Mutex<HashSet<Digest>>,
    /// Queues of password checks.
    queues: Mutex<HashMap<Digest, Arc<Semaphore>>>,
}

impl Default for LoginThrottle {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            lanes: Mutex::default(),
            known: Mutex::default(),
            queues: Mutex::default(),
        }
    }
}

impl LoginThrottle {
    /// Counts an attempt, and refuses it if it exceeds a limit.
    ///
    /// # Errors
    /// Returns the time to wait.
    pub fn admit(&self, name: &str, address: Option<IpAddr>) -> Result<(), Duration> {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let address = counted(address);
        let pair = pair(name, &address);
        let mut limits = vec![(pair, PAIR)];
        if !self.knows(&pair) {
            limits.extend([(lane("address", &address), ADDRESS), (lane("name", name), NAME)]);
        }
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= REMEMBERED {
            lanes.retain(|_, full_at| *full_at > now);
        }
        if lanes.len() >= REMEMBERED {
            lanes.clear();
        }
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
    pub async fn turn(&self, name: &str, address: Option<IpAddr>) -> Option<OwnedSemaphorePermit> {
        let address = counted(address);
        let pair = pair(name, &address);
        let queue = if self.knows(&pair) { pair } else { lane("address", &address) };
        let queue = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            if queues.len() >= QUEUES {
                queues.retain(|_, queue| Arc::strong_count(queue) > 1);
            }
            Arc::clone(queues.entry(queue).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        // The semaphore is never closed.
        queue.acquire_owned().await.ok()
    }

    fn knows(&self, pair: &Digest) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(pair)
    }

    /// Records that a name has logged in from an address.
    pub fn got_in(&self, name: &str, address: Option<IpAddr>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(pair(name, &counted(address)));
    }
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
