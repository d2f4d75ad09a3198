//! A loader: reads by key that are asked for while others run share the next query (the pattern of `DataLoader`).
//!
//! One query for many keys costs little more than for one. Under load requests would otherwise wait for connections, or for a
//! core; here they wait for a permit, and whoever gets it reads for all that wait. A request without others reads at once.
//!
//! Nothing runs in the background: a request reads for others within its own future. If that is dropped or its query fails, each of
//! the others reads for itself, and so does one that has waited for [`PATIENCE`].

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// Queries at a time, each with a permit.
const PERMITS: usize = 4;

/// Maximum number of keys in a query.
const KEYS: usize = 64;

/// How long a request waits for others, and how long a query keeps its permit: a frozen connection stops nobody for longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Requests that wait for values of type `V`.
#[derive(Debug)]
pub struct Loader<K, V> {
    queue: Arc<Mutex<Queue<K, V>>>,
    patience: Duration,
}

#[derive(Debug)]
struct Queue<K, V> {
    /// Number of free permits. If there is one, nobody waits.
    free: usize,
    /// The requests that wait, by rising number.
    waiting: VecDeque<Waiting<K, V>>,
    /// Number of the next request.
    next: u64,
}

#[derive(Debug)]
struct Waiting<K, V> {
    number: u64,
    key: K,
    reply: oneshot::Sender<Reply<K, V>>,
}

/// Reply that a request waits for.
#[derive(Debug)]
enum Reply<K, V> {
    /// Another one has read for it.
    Value(Option<V>),
    /// It may read.
    Permit(Permit<K, V>),
}

/// A permit. Dropping it passes it to the first request that waits.
#[derive(Debug)]
struct Permit<K, V>(Arc<Mutex<Queue<K, V>>>);

impl<K, V> Drop for Permit<K, V> {
    fn drop(&mut self) {
        let first = {
            let mut queue = locked(&self.0);
            let first = queue.waiting.pop_front();
            if first.is_none() {
                queue.free += 1;
            }
            first
        };
        if let Some(first) = first {
            // If that one has left meanwhile, the permit that comes back is dropped, and passes on.
            let _left = first.reply.send(Reply::Permit(Self(Arc::clone(&self.0))));
        }
    }
}

fn locked<K, V>(queue: &Mutex<Queue<K, V>>) -> MutexGuard<'_, Queue<K, V>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, V> Default for Loader<K, V> {
    fn default() -> Self {
        Self::patient(PATIENCE)
    }
}

impl<K, V> Loader<K, V> {
    fn patient(patience: Duration) -> Self {
        let queue = Queue { free: PERMITS, waiting: VecDeque::new(), next: 0 };
        Self { queue: Arc::new(Mutex::new(queue)), patience }
    }
}

impl<K: Clone, V> Loader<K, V> {
    /// Returns the value of a key, or `None` if there is none. `read` reads the values of several keys, each value with the
    /// place of its key.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn load<F, E>(&self, key: K, read: impl Fn(Vec<K>) -> F) -> Result<Option<V>, E>
    where
        F: Future<Output = Result<Vec<(usize, V)>, E>>,
    {
        let permit = match self.ask(&key) {
            Ok(permit) => Some(permit),
            Err((mut place, reply)) => match timeout(self.patience, reply).await {
                Ok(Ok(Reply::Value(value))) => return Ok(value),
                Ok(Ok(Reply::Permit(permit))) => Some(permit),
                // All permits are slow: one more query, also for those that wait behind.
                Err(_late) if place.leave() => None,
                // Whoever reads for this request has failed, left or is slow.
                Ok(Err(_)) | Err(_) => return alone(key, read).await,
            },
        };
        if let Some(done) = self.lead(permit, key.clone(), &read).await {
            return done;
        }
        alone(key, read).await
    }

    /// Reads a key, with those of the requests that wait; `None` if the query for several has failed at once, so that each has to
    /// read for itself.
    async fn lead<F, E>(
        &self,
        mut permit: Option<Permit<K, V>>,
        key: K,
        read: impl Fn(Vec<K>) -> F,
    ) -> Option<Result<Option<V>, E>>
    where
        F: Future<Output = Result<Vec<(usize, V)>, E>>,
    {
        let mut others: Vec<_> = {
            let mut queue = locked(&self.queue);
            let count = queue.waiting.len().min(KEYS - 1);
            queue.waiting.drain(..count).collect()
        };
        let shared = !others.is_empty();
        let keys = std::iter::once(key).chain(others.iter().map(|one| one.key.clone())).collect();
        let mut reading = pin!(read(keys));
        let found = match timeout(self.patience, reading.as_mut()).await {
            Ok(Err(_)) if shared => return None,
            Ok(found) => found,
            Err(_late) => {
                // The others go on without this query.
                others.clear();
                drop(permit.take());
                reading.await
            }
        };
        drop(permit);
        let found = match found {
            Ok(found) => found,
            Err(failure) => return Some(Err(failure)),
        };
        let mut values: Vec<Option<V>> = std::iter::repeat_with(|| None).take(others.len() + 1).collect();
        for (place, value) in found {
            if let Some(slot) = values.get_mut(place) {
                *slot = Some(value);
            }
        }
        let mut values = values.into_iter();
        let own = values.next().flatten();
        for (other, value) in others.into_iter().zip(values) {
            // Who has left needs no answer.
            let _left = other.reply.send(Reply::Value(value));
        }
        Some(Ok(own))
    }

    /// Takes a permit, or a place in the queue for one.
    #[expect(clippy::type_complexity, reason = "the place and the reply that belong together")]
    fn ask(&self, key: &K) -> Result<Permit<K, V>, (Place<'_, K, V>, oneshot::Receiver<Reply<K, V>>)> {
        let mut queue = locked(&self.queue);
        if queue.free > 0 {
            queue.free -= 1;
            return Ok(Permit(Arc::clone(&self.queue)));
        }
        let (sender, reply) = oneshot::channel();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(Waiting { number, key: key.clone(), reply: sender });
        Err((Place { queue: &self.queue, number }, reply))
    }
}

/// Reads one key.
async fn alone<K, V, F, E>(key: K, read: impl Fn(Vec<K>) -> F) -> Result<Option<V>, E>
where
    F: Future<Output = Result<Vec<(usize, V)>, E>>,
{
    let values = read(vec![key]).await?;
    Ok(values.into_iter().next().map(|(_, value)| value))
}

/// The place of a request in the queue. Dropping it leaves the queue.
struct Place<'a, K, V> {
    queue: &'a Mutex<Queue<K, V>>,
    number: u64,
}

impl<K, V> Place<'_, K, V> {
    /// Leaves the queue; returns whether it was still there.
    fn leave(&mut self) -> bool {
        let mut queue = locked(self.queue);
        let found = queue.waiting.binary_search_by_key(&self.number, |one| one.number);
        found.is_ok_and(|at| queue.waiting.remove(at).is_some())
    }
}

impl<K, V> Drop for Place<'_, K, V> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    type Numbers = Loader<usize, usize>;
    type Doubles = Result<Vec<(usize, usize)>, &'static str>;

    const MOMENT: Duration = Duration::from_millis(10);

    const LONG: Duration = Duration::from_mins(1);

    /// Returns the double of each even key.
    async fn double(keys: Vec<usize>) -> Doubles {
        let even = keys.iter().enumerate().filter(|(_, key)| *key % 2 == 0);
        Ok(even.map(|(place, key)| (place, key * 2)).collect())
    }

    async fn never(_keys: Vec<usize>) -> Doubles {
        pending().await
    }

    fn waiting(loader: &Numbers) -> usize {
        locked(&loader.queue).waiting.len()
    }

    /// Takes all permits.
    fn occupy(loader: &Numbers) -> Vec<Permit<usize, usize>> {
        (0..PERMITS).map(|n| loader.ask(&n).ok().expect("a permit is free")).collect()
    }

    async fn is_busy<F: Future + Unpin>(future: &mut F) -> bool {
        timeout(MOMENT, future).await.is_err()
    }

    #[tokio::test]
    async fn those_that_wait_share_queries() {
        let (loader, go, queries) = (Numbers::patient(LONG), Notify::new(), Mutex::new(Vec::new()));
        let read = |keys: Vec<usize>| {
            queries.lock().unwrap().push(keys.len());
            let go = go.notified();
            async move {
                go.await;
                double(keys).await
            }
        };
        // Behind the queries that run wait as many requests as two further ones have room for, some with equal keys. All permits
        // become free at once.
        let mut loads = Box::pin(join_all((0..PERMITS + 2 * KEYS).map(|n| loader.load(n % 50, read))));
        assert!(is_busy(&mut loads).await);
        assert_eq!((queries.lock().unwrap().len(), waiting(&loader)), (PERMITS, 2 * KEYS));
        go.notify_waiters();
        assert!(is_busy(&mut loads).await);
        assert_eq!(*queries.lock().unwrap(), [1, 1, 1, 1, KEYS, KEYS - 2, 1, 1]);
        go.notify_waiters();
        for (n, answer) in loads.await.into_iter().enumerate() {
            let key = n % 50;
            assert_eq!(answer, Ok((key % 2 == 0).then_some(key * 2)), "{key}");
        }
        assert_eq!(locked(&loader.queue).free, PERMITS);
    }

    #[tokio::test]
    async fn a_query_that_fails_for_many_is_repeated_for_each() {
        let loader = Numbers::patient(LONG);
        let mut permits = occupy(&loader);
        let queries = AtomicUsize::new(0);
        let fails = |keys: Vec<usize>| {
            queries.fetch_add(1, Ordering::Relaxed);
            async move { if keys.len() > 1 { Err("one is invalid") } else { double(keys).await } }
        };
        let mut loads = Box::pin(join_all([2, 4, 6].map(|key| loader.load(key, fails))));
        assert!(is_busy(&mut loads).await);
        permits.pop();
        assert_eq!(loads.await, [Ok(Some(4)), Ok(Some(8)), Ok(Some(12))]);
        assert_eq!(queries.load(Ordering::Relaxed), 4);
        drop(permits);
        let fails = |_keys: Vec<usize>| async { Doubles::Err("no database") };
        assert_eq!(loader.load(8, fails).await, Err("no database"));
        assert_eq!(locked(&loader.queue).free, PERMITS);
    }

    #[tokio::test]
    async fn a_request_that_leaves_harms_no_other() {
        let loader = Numbers::patient(LONG);
        let mut permits = occupy(&loader);
        let mut first = Box::pin(loader.load(2, never));
        let mut second = Box::pin(loader.load(4, double));
        let mut third = Box::pin(loader.load(6, double));
        assert!(is_busy(&mut first).await && is_busy(&mut second).await && is_busy(&mut third).await);
        drop(second);
        assert_eq!(waiting(&loader), 2, "who leaves is forgotten");
        // The first one reads for the third one too, and leaves.
        permits.pop();
        assert!(is_busy(&mut first).await);
        assert_eq!(waiting(&loader), 0);
        assert!(is_busy(&mut third).await);
        drop(first);
        assert_eq!(third.await, Ok(Some(12)));
        // One leaves with a permit that it has not taken yet.
        let mut fourth = Box::pin(loader.load(8, double));
        permits.push(loader.ask(&0).ok().expect("the permit came back"));
        assert!(is_busy(&mut fourth).await);
        permits.pop();
        drop(fourth);
        drop(permits);
        assert_eq!(waiting(&loader), 0);
        assert_eq!(locked(&loader.queue).free, PERMITS);
    }

    #[tokio::test]
    async fn a_query_that_freezes_stops_others_for_a_moment_only() {
        let loader = Numbers::patient(20 * MOMENT);
        let mut frozen = Box::pin(join_all((0..PERMITS).map(|n| loader.load(n, never))));
        assert!(is_busy(&mut frozen).await);
        let answer =
            tokio::select! { answer = loader.load(2, double) => answer, _ = &mut frozen => Ok(None) };
        assert_eq!(answer, Ok(Some(4)));
        let mut looks = 0;
        while locked(&loader.queue).free < PERMITS {
            assert!(is_busy(&mut frozen).await);
            looks += 1;
            assert!(looks < 1_000, "they keep their permits");
        }
    }

    /// One that has waited long enough reads without a permit, for those behind it too; a slow query still has its answer.
    #[tokio::test]
    async fn without_permits_one_that_has_waited_reads_for_those_that_wait() {
        let loader = Numbers::patient(20 * MOMENT);
        let permits = occupy(&loader);
        let queries = Mutex::new(Vec::new());
        let read = |keys: Vec<usize>| {
            queries.lock().unwrap().push(keys.len());
            double(keys)
        };
        let answers = join_all([2, 4, 6].map(|key| loader.load(key, read))).await;
        assert_eq!(answers, [Ok(Some(4)), Ok(Some(8)), Ok(Some(12))]);
        assert_eq!(*queries.lock().unwrap(), [3]);
        assert_eq!((waiting(&loader), permits.len()), (0, PERMITS));
        drop(permits);
        let slow = |keys: Vec<usize>| async move {
            tokio::time::sleep(30 * MOMENT).await;
            double(keys).await
        };
        assert_eq!(loader.load(8, slow).await, Ok(Some(16)));
    }
}
