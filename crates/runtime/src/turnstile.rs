//! A turnstile for work that occupies a core: few tasks run at a time, and few wait.
//!
//! A caller that would be behind too many is asked to retry, so that a flood of guesses delays later callers by no
//! more than the queue.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum length of the queue: at some 20 ms each, two at a time, the last one waits for a third of a second.
const QUEUE: usize = 32;

/// Tasks at a time: each takes a core and 19 MiB for some 20 ms, and they must not occupy all cores.
const TURNS: usize = 2;

/// The queue is full: the caller should retry in a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct QueueFull;

/// A semaphore with a bounded queue.
#[derive(Debug)]
pub struct Turnstile {
    turns: Semaphore,
    /// Number of tasks that wait or run.
    inside: AtomicUsize,
    /// Maximum of that number.
    most: usize,
}

/// A turn; dropping it admits the next task.
#[derive(Debug)]
pub struct Admission<'a> {
    _permit: SemaphorePermit<'a>,
    _place: Place<'a>,
}

#[derive(Debug)]
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Default for Turnstile {
    fn default() -> Self {
        Self { turns: Semaphore::new(TURNS), inside: AtomicUsize::new(0), most: TURNS + QUEUE }
    }
}

impl Turnstile {
    /// Waits for a turn.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait already.
    pub async fn enter(&self) -> Result<Admission<'_>, QueueFull> {
        let before = self.inside.fetch_add(1, Ordering::AcqRel);
        let place = Place(&self.inside);
        if before >= self.most {
            return Err(QueueFull);
        }
        // The semaphore is never closed; a closed one would admit nobody.
        let permit = self.turns.acquire().await.map_err(|_closed| QueueFull)?;
        Ok(Admission { _permit: permit, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_queue_has_an_end_and_moves_on() {
        let stile = Turnstile { turns: Semaphore::new(1), inside: AtomicUsize::new(0), most: 2 };
        let first = stile.enter().await.unwrap();
        let second = stile.enter();
        tokio::pin!(second);
        let moment = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(moment, second.as_mut()).await.is_err(), "there is one turn");
        assert_eq!(stile.enter().await.unwrap_err(), QueueFull);
        drop(first);
        drop(second.await.unwrap());
        assert_eq!(stile.inside.load(Ordering::Acquire), 0);
        drop(stile.enter().await.unwrap());
    }
}
