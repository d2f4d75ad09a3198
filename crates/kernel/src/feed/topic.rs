//! A topic: the last frames of one line in a ring, and the followers that read from it, each at its own position.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Frame;

/// Frames kept per topic. A follower further behind reads from the database; one that keeps up never gets near.
const RING: usize = 2_048;

/// Frames read at a glance, so that one follower does not hold the ring's lock for long.
const GLANCE: usize = 128;

/// What a follower finds.
#[derive(Debug)]
pub enum Glance {
    /// Frames after its position.
    Frames(Vec<Arc<Frame>>),
    /// Nothing new.
    UpToDate,
    /// The ring does not reach back to its position: the database has to be asked.
    Behind,
}

/// The ring holds every frame of the line with `floor < position ≤ head`.
#[derive(Debug)]
struct Ring<P> {
    frames: VecDeque<(P, Arc<Frame>)>,
    /// `None` until something was published: then nothing is known of the line.
    span: Option<(P, P)>,
}

/// One line that is followed.
#[derive(Debug)]
pub struct Topic<P> {
    ring: Mutex<Ring<P>>,
    changed: watch::Sender<()>,
}

impl<P: Copy + Ord> Topic<P> {
    /// A topic on which nothing was published yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ring: Mutex::new(Ring { frames: VecDeque::new(), span: None }),
            changed: watch::Sender::new(()),
        }
    }

    /// Follows the topic from a position on.
    pub fn follow(topic: &Arc<Self>, position: P) -> Follower<P> {
        Follower { position, changed: topic.changed.subscribe(), topic: Arc::clone(topic) }
    }

    /// Publishes that `position` follows `previous` in the line with nothing between them, and the frame there, if any
    /// was kept. Publishing again what is known does nothing; publishing over a gap makes followers ask the database.
    pub fn publish(&self, previous: P, position: P, frame: Option<Arc<Frame>>) {
        {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            match ring.span {
                Some((_, head)) if position <= head => return,
                Some((floor, head)) if previous <= head => ring.span = Some((floor, position)),
                _ => {
                    ring.frames.clear();
                    ring.span = Some((previous, position));
                }
            }
            if let Some(frame) = frame {
                ring.frames.push_back((position, frame));
            }
            if ring.frames.len() > RING
                && let Some((gone, _)) = ring.frames.pop_front()
                && let Some((floor, _)) = &mut ring.span
            {
                *floor = gone;
            }
        }
        self.changed.send_replace(());
    }

    /// Says where the line stands, if nothing was known of it: what is published next is then no gap.
    pub fn start_at(&self, position: P) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.span.get_or_insert((position, position));
    }

    /// Forgets everything; the next to follow begins anew.
    pub fn reset(&self) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.frames.clear();
        ring.span = None;
    }

    /// The last position known, `None` when nothing is.
    pub fn head(&self) -> Option<P> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).span.map(|(_, head)| head)
    }

    /// Wakes every follower, for instance because the line went on elsewhere.
    pub fn wake(&self) {
        self.changed.send_replace(());
    }
}

impl<P: Copy + Ord> Default for Topic<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// One who follows a topic.
#[derive(Debug)]
pub struct Follower<P> {
    /// The position up to which everything was seen.
    pub position: P,
    changed: watch::Receiver<()>,
    topic: Arc<Topic<P>>,
}

impl<P: Copy + Ord> Follower<P> {
    /// Looks at what is there after the position; moves the position past what it returns. What comes after the look
    /// resolves [`Self::changed`].
    pub fn glance(&mut self) -> Glance {
        self.changed.mark_unchanged();
        let ring = self.topic.ring.lock().unwrap_or_else(PoisonError::into_inner);
        match ring.span {
            None => Glance::Behind,
            Some((floor, _)) if self.position < floor => Glance::Behind,
            Some((_, head)) if self.position >= head => Glance::UpToDate,
            Some((_, head)) => {
                let start = ring.frames.partition_point(|(position, _)| *position <= self.position);
                let frames: Vec<_> = ring.frames.range(start..).take(GLANCE).cloned().collect();
                self.position = match frames.last() {
                    Some((position, _)) if frames.len() == GLANCE => *position,
                    _ => head,
                };
                Glance::Frames(frames.into_iter().map(|(_, frame)| frame).collect())
            }
        }
    }

    /// Resolves when something was published since the last glance.
    pub async fn changed(&mut self) {
        // The follower keeps its topic alive, and with it the sender.
        let _open = self.changed.changed().await;
    }

    /// The topic.
    pub fn topic(&self) -> &Topic<P> {
        &self.topic
    }
}
