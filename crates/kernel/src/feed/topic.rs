//! A topic: the last frames of one log in a ring, and the followers that read from it, each at its own
//! position.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Frame;

/// Frames kept per topic; a follower further behind reads from the database.
const RING: usize = 2_048;

/// Maximum number of frames per read, so that one follower does not hold the ring's lock for long.
const READ_FRAMES: usize = 128;

/// The result of a follower's read.
#[derive(Debug)]
pub enum FollowerRead {
    /// Frames after its position.
    Frames(Vec<Arc<Frame>>),
    /// Nothing new.
    UpToDate,
    /// The ring does not reach back to its position: it must read from the database.
    Behind,
}

/// The ring, with every frame of the log with `floor < position ≤ head`.
#[derive(Debug)]
struct Ring<P> {
    frames: VecDeque<(P, Arc<Frame>)>,
    /// `None` until the first publication: nothing is known of the log.
    span: Option<(P, P)>,
}

/// A followed log.
#[derive(Debug)]
pub struct Topic<P> {
    ring: Mutex<Ring<P>>,
    changed: watch::Sender<()>,
}

impl<P: Copy + Ord> Topic<P> {
    /// Creates a topic without publications.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ring: Mutex::new(Ring { frames: VecDeque::new(), span: None }),
            changed: watch::Sender::new(()),
        }
    }

    /// Follows the topic from a position.
    pub fn follow(topic: &Arc<Self>, position: P) -> Follower<P> {
        Follower { position, changed: topic.changed.subscribe(), topic: Arc::clone(topic) }
    }

    /// Whether anybody follows the topic.
    #[must_use]
    pub(crate) fn is_followed(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    /// Publishes that `position` directly follows `previous` in the log, with its frame if it was kept.
    ///
    /// Publishing a known position again has no effect; publishing after a gap makes followers read from the
    /// database.
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

    /// Sets the current position of the log, if it was unknown, so that the next publication is no gap.
    pub fn start_at(&self, position: P) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.span.get_or_insert((position, position));
    }

    /// Clears the ring; the next follower starts from the database.
    pub(crate) fn reset(&self) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.frames.clear();
        ring.span = None;
    }

    /// Returns the last known position; `None` if it is unknown.
    pub fn head(&self) -> Option<P> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).span.map(|(_, head)| head)
    }

    /// Wakes every follower, for instance because another server wrote to the log.
    pub fn wake(&self) {
        self.changed.send_replace(());
    }
}

impl<P: Copy + Ord> Default for Topic<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// A follower of a topic.
#[derive(Debug)]
pub struct Follower<P> {
    /// The position up to which everything was read.
    pub position: P,
    changed: watch::Receiver<()>,
    topic: Arc<Topic<P>>,
}

impl<P: Copy + Ord> Follower<P> {
    /// Reads the frames after the position, and moves the position past them; later publications resolve
    /// [`Self::changed`].
    pub fn read(&mut self) -> FollowerRead {
        self.changed.mark_unchanged();
        let ring = self.topic.ring.lock().unwrap_or_else(PoisonError::into_inner);
        match ring.span {
            None => FollowerRead::Behind,
            Some((floor, _)) if self.position < floor => FollowerRead::Behind,
            Some((_, head)) if self.position >= head => FollowerRead::UpToDate,
            Some((_, head)) => {
                let start = ring.frames.partition_point(|(position, _)| *position <= self.position);
                let frames: Vec<_> = ring.frames.range(start..).take(READ_FRAMES).cloned().collect();
                self.position = match frames.last() {
                    Some((position, _)) if frames.len() == READ_FRAMES => *position,
                    _ => head,
                };
                FollowerRead::Frames(frames.into_iter().map(|(_, frame)| frame).collect())
            }
        }
    }

    /// Resolves at a publication since the last read.
    pub async fn changed(&mut self) {
        // The follower keeps its topic alive, and with it the sender.
        let _open = self.changed.changed().await;
    }

    /// Returns the topic.
    pub fn topic(&self) -> &Topic<P> {
        &self.topic
    }
}
