//! Merkle trees over a log (RFC-0019, contract 13): one hash that stands for every event up to a place, and short proofs
//! that an event is under it.
//!
//! The form is the one that existing clients recompute: leaves are the events' hashes as they are, a parent is
//! SHA-256(left ‖ right), and a row is filled up to a power of two with its last leaf. Such a root alone does not say how
//! many leaves it has; a checkpoint does, and signs it ([`crate::checkpoints`]). So a proof is only as good as the
//! checkpoint that it leads to.

use serde::{Deserialize, Serialize};

use crate::canonical::{Digest, sha256};

/// On which side of the path a proof's hash stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Before what was computed so far.
    Left,
    /// After it.
    Right,
}

/// One step from a leaf to the root: the hash beside the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The hash.
    pub hash: Digest,
    /// Its side.
    pub side: Side,
}

fn parent(left: &Digest, right: &Digest) -> Digest {
    let mut both = [0; 64];
    both[..32].copy_from_slice(left);
    both[32..].copy_from_slice(right);
    sha256(both)
}

/// The levels over `count` leaves.
fn height(count: usize) -> usize {
    usize::try_from(count.next_power_of_two().trailing_zeros()).unwrap_or(0)
}

/// A log's leaves with every full block of them hashed, so that the root over any beginning of the log is at hand: a log
/// with many checkpoints is verified in one go.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The blocks of 1, 2, 4 … leaves that are full.
    levels: Vec<Vec<Digest>>,
}

impl Tree {
    /// The tree over these leaves.
    #[must_use]
    pub fn new(leaves: Vec<Digest>) -> Self {
        let mut levels = vec![leaves];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let above = below.chunks_exact(2).map(|pair| parent(&pair[0], &pair[1])).collect();
            levels.push(above);
        }
        Self { levels }
    }

    /// How many leaves it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash over block `at` of `level` when there are `count` leaves. What lies behind them is their last one.
    fn node(&self, count: usize, level: usize, at: usize) -> Option<Digest> {
        if (at + 1) << level <= count {
            return self.levels.get(level)?.get(at).copied();
        }
        if at << level >= count {
            let last = *self.levels.first()?.get(count.checked_sub(1)?)?;
            return Some((0..level).fold(last, |hash, _| parent(&hash, &hash)));
        }
        let below = level.checked_sub(1)?;
        Some(parent(&self.node(count, below, at * 2)?, &self.node(count, below, at * 2 + 1)?))
    }

    /// The root over the first `count` leaves; `None` when there are not so many, or none.
    #[must_use]
    pub fn root(&self, count: usize) -> Option<Digest> {
        (count <= self.len()).then_some(())?;
        self.node(count, height(count), 0)
    }

    /// The way from a leaf to the root over the first `count`; `None` when the leaf is not among them.
    #[must_use]
    pub fn path(&self, count: usize, index: usize) -> Option<Vec<Step>> {
        (index < count && count <= self.len()).then_some(())?;
        let step = |level: usize| {
            let place = index >> level;
            let side = if place.is_multiple_of(2) { Side::Right } else { Side::Left };
            Some(Step { hash: self.node(count, level, place ^ 1)?, side })
        };
        (0..height(count)).map(step).collect()
    }

    /// Whether the log still begins with what two roots stand for: its first `from` leaves give the one, and the `to` that
    /// those are the beginning of give the other.
    #[must_use]
    pub fn agrees(&self, from: (usize, &Digest), to: (usize, &Digest)) -> bool {
        let stands = |(count, claimed): (usize, &Digest)| self.root(count).as_ref() == Some(claimed);
        from.0 <= to.0 && stands(from) && stands(to)
    }
}

/// Whether a path leads from the leaf at `index` of `count` to the root. The sides and the length of the path must be those
/// of that place and no other.
#[must_use]
pub fn leads(leaf: &Digest, index: usize, count: usize, path: &[Step], root: &Digest) -> bool {
    if index >= count || path.len() != height(count) {
        return false;
    }
    let mut hash = *leaf;
    for (level, step) in path.iter().enumerate() {
        let (side, next) = if (index >> level).is_multiple_of(2) {
            (Side::Right, parent(&hash, &step.hash))
        } else {
            (Side::Left, parent(&step.hash, &hash))
        };
        if step.side != side {
            return false;
        }
        hash = next;
    }
    hash == *root
}
