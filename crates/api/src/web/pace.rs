//! How often somebody may try to log in: by name and address together, by address, and by name. Nobody is locked out by
//! others: an address from which a name once got in has a lane of its own, whatever else is tried from there, and a one-time
//! link is not paced by name. And whose turn it is: checking a password takes a core, so that those who come from one address
//! wait for one another first, and then for others.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::canonical::{Digest, sha256};
use entente_domain::rate::{Verdict, judge_minutely};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Tries a minute of one name from one address.
const PAIR: u32 = 10;
/// Tries a minute from one address.
const ADDRESS: u32 = 60;
/// Tries a minute of one name, from wherever it never got in.
const NAME: u32 = 60;
/// Queues at which those are forgotten that nobody is in.
const QUEUES: usize = 1_000;
/// Lanes remembered at the most: then those are forgotten that nobody is in.
const REMEMBERED: usize = 20_000;

/// The tries of a while, on this server.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    lanes: Mutex<HashMap<Digest, u64>>,
    /// Names and addresses from which they once got in.
    known: Mutex<HashSet<Digest>>,
    /// Those who wait for one another.
    queues: Mutex<HashMap<Digest, Arc<Semaphore>>>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            lanes: Mutex::default(),
            known: Mutex::default(),
            queues: Mutex::default(),
        }
    }
}

impl Pace {
    /// Counts one more try; how long to wait when it is one too many.
    ///
    /// # Errors
    /// The wait.
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

    /// Waits until nobody else from that address has a password checked. A name that got in from there before waits for
    /// itself alone.
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
        // It is never closed.
        queue.acquire_owned().await.ok()
    }

    fn knows(&self, pair: &Digest) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(pair)
    }

    /// Notes that a name got in from an address.
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

/// An address as it is counted. Whoever has one of the new kind has 2^64 of them.
fn counted(address: Option<IpAddr>) -> String {
    match address {
        None => String::new(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("{:x?}", &address.segments()[..4]),
    }
}
