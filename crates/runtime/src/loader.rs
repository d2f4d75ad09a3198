//! A loader: reads by key that are asked for while others run share the next query (the pattern of `DataLoader`).
//!
//! One query for many keys costs little more than for one. Under load requests would otherwise wait for connections, or for a
//! core; here they wait for a turn, and whoever gets it reads for all that wait. A request without others reads at once.
//!
//! Nothing runs in the background: a request reads for others within its own future. If that is dropped, or its query fails,
//! each of the others reads for itself.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// Queries at a time: with as many as that, a slow one does not stop the others.
const TURNS: usize = 4;

/// Maximum number of keys in a query.
const KEYS: usize = 64;

/// Requests that wait for values of type `V`.
#[derive(Debug)]
pub struct Loader<K, V> {
    turns: Semaphore,
    queue: Mutex<Queue<K, V>>,
}

#[derive(Debug)]
struct Queue<K, V> {
    /// The requests that wait, by rising number.
    waiting: VecDeque<Waiting<K, V>>,
    /// Number of the next request.
    next: u64,
}

#[derive(Debug)]
struct Waiting<K, V> {
    number: u64,
    key: K,
    answer: oneshot::Sender<Option<V>>,
}

impl<K, V> Default for Loader<K, V> {
    fn default() -> Self {
        let queue = Queue { waiting: VecDeque::new(), next: 0 };
        Self { turns: Semaphore::new(TURNS), queue: Mutex::new(queue) }
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
        if let Ok(turn) = self.turns.try_acquire() {
            return self.lead(turn, key, read).await;
        }
        let (mut place, mut answer) = self.wait(key.clone());
        tokio::select! {
            biased;
            answered = &mut answer => {
                if let Ok(value) = answered {
                    return Ok(value);
                }
            }
            // The semaphore is never closed.
            Ok(turn) = self.turns.acquire() => {
                if place.leave() {
                    return self.lead(turn, key, read).await;
                }
                drop(turn);
                if let Ok(value) = answer.await {
                    return Ok(value);
                }
            }
        }
        // Whoever read for this request has failed or left.
        let values = read(vec![key]).await?;
        Ok(values.into_iter().next().map(|(_, value)| value))
    }

    /// Reads for the owner of a turn and for those that wait.
    async fn lead<F, E>(
        &self,
        turn: SemaphorePermit<'_>,
        key: K,
        read: impl Fn(Vec<K>) -> F,
    ) -> Result<Option<V>, E>
    where
        F: Future<Output = Result<Vec<(usize, V)>, E>>,
    {
        let others = self.take();
        let keys = std::iter::once(key).chain(others.iter().map(|one| one.key.clone())).collect();
        let read = read(keys).await;
        drop(turn);
        let mut values: Vec<Option<V>> = std::iter::repeat_with(|| None).take(others.len() + 1).collect();
        for (place, value) in read? {
            if let Some(slot) = values.get_mut(place) {
                *slot = Some(value);
            }
        }
        let mut values = values.into_iter();
        let own = values.next().flatten();
        for (other, value) in others.into_iter().zip(values) {
            // Who has left needs no answer.
            let _left = other.answer.send(value);
        }
        Ok(own)
    }

    fn locked(&self) -> MutexGuard<'_, Queue<K, V>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the requests that wait, the first ones if they are too many.
    fn take(&self) -> Vec<Waiting<K, V>> {
        let mut queue = self.locked();
        let many = queue.waiting.len().min(KEYS - 1);
        queue.waiting.drain(..many).collect()
    }

    fn wait(&self, key: K) -> (Place<'_, K, V>, oneshot::Receiver<Option<V>>) {
        let (sender, answer) = oneshot::channel();
        let mut queue = self.locked();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(Waiting { number, key, answer: sender });
        (Place { loader: self, number }, answer)
    }
}

/// The place of a request in the queue. Dropping it leaves the queue.
struct Place<'a, K: Clone, V> {
    loader: &'a Loader<K, V>,
    number: u64,
}

impl<K: Clone, V> Place<'_, K, V> {
    /// Leaves the queue; returns whether nobody has read for the request yet.
    fn leave(&mut self) -> bool {
        let mut queue = self.loader.locked();
        let found = queue.waiting.binary_search_by_key(&self.number, |one| one.number);
        found.is_ok_and(|at| queue.waiting.remove(at).is_some())
    }
}

impl<K: Clone, V> Drop for Place<'_, K, V> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;

    type Numbers = Loader<usize, usize>;

    /// Returns the double of each even key.
    fn doubles(keys: &[usize]) -> Vec<(usize, usize)> {
        let even = keys.iter().enumerate().filter(|(_, key)| *key % 2 == 0);
        even.map(|(place, key)| (place, key * 2)).collect()
    }

    async fn double(keys: Vec<usize>) -> Result<Vec<(usize, usize)>, &'static str> {
        Ok(doubles(&keys))
    }

    async fn never(_keys: Vec<usize>) -> Result<Vec<(usize, usize)>, &'static str> {
        pending().await
    }

    fn waiting(loader: &Numbers) -> usize {
        loader.locked().waiting.len()
    }

    #[tokio::test]
    async fn those_that_wait_share_queries() {
        let (loader, go, queries) = (Numbers::default(), Notify::new(), AtomicUsize::new(0));
        let read = |keys: Vec<usize>| {
            queries.fetch_add(1, Ordering::Relaxed);
            let go = go.notified();
            async move {
                go.await;
                double(keys).await
            }
        };
        // Four queries run, and behind them wait as many requests as two more have room for, of the same keys.
        let count = TURNS + 2 * KEYS;
        let loads = futures_util::future::join_all((0..count).map(|n| loader.load(n % 50, read)));
        tokio::pin!(loads);
        assert!(timeout(Duration::from_millis(10), loads.as_mut()).await.is_err());
        assert_eq!((queries.load(Ordering::Relaxed), waiting(&loader)), (TURNS, 2 * KEYS));
        let finish = async {
            loop {
                go.notify_waiters();
                tokio::task::yield_now().await;
            }
        };
        let answers = tokio::select! { answers = loads => answers, () = finish => unreachable!() };
        for (n, answer) in answers.into_iter().enumerate() {
            let key = n % 50;
            assert_eq!(answer, Ok((key % 2 == 0).then_some(key * 2)), "{key}");
        }
        assert!((TURNS + 2..=TURNS + 4).contains(&queries.load(Ordering::Relaxed)));
    }

    #[tokio::test]
    async fn a_failure_or_a_request_that_leaves_harms_no_other() {
        let loader = Numbers::default();
        let mut busy: Vec<_> = (0..TURNS).map(|n| Box::pin(loader.load(n, never))).collect();
        let moment = Duration::from_millis(10);
        assert!(timeout(moment, futures_util::future::join_all(&mut busy)).await.is_err());

        // The first one leads and fails, the second one leads and leaves; the third reads for itself.
        let fails = |keys: Vec<usize>| async move {
            if keys.len() > 1 { Err("too many") } else { Ok(doubles(&keys)) }
        };
        let (first, second, third) = (loader.load(2, fails), loader.load(4, never), loader.load(6, double));
        tokio::pin!(first, third);
        let mut second = Box::pin(second);
        assert!(timeout(moment, first.as_mut()).await.is_err());
        assert!(timeout(moment, second.as_mut()).await.is_err());
        assert!(timeout(moment, third.as_mut()).await.is_err());
        assert_eq!(waiting(&loader), 3);
        busy.pop();
        assert_eq!(timeout(moment, first.as_mut()).await, Ok(Err("too many")));
        assert!(timeout(moment, second.as_mut()).await.is_err());
        drop(second);
        assert_eq!(timeout(moment, third).await, Ok(Ok(Some(12))));

        // Those that leave while they wait are forgotten.
        let mut more: Vec<_> = (0..TURNS).map(|n| Box::pin(loader.load(n, never))).collect();
        assert!(timeout(moment, futures_util::future::join_all(&mut more)).await.is_err());
        assert_eq!(waiting(&loader), 3);
        drop(more);
        assert_eq!(waiting(&loader), 0);
        drop(busy);
        assert_eq!(loader.load(8, double).await, Ok(Some(16)));
    }
}
