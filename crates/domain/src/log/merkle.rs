//! Merkle trees over a log (RFC-0019, OI-13.3): one hash commits to every event up to a position, and short
//! proofs show that an event is included.
//!
//! The tree has the form that existing clients recompute: leaves are the events' hashes as they are, a parent is
//! SHA-256(left ‖ right), and a row is padded to a power of two with its last leaf. Such a root alone does not commit
//! to the number of leaves; a checkpoint states and signs it ([`crate::log::checkpoints`]). A proof is therefore only as
//! good as the checkpoint that it leads to.

use serde::{Deserialize, Serialize};

use crate::canonical::{Digest, sha256};

/// Side on which a proof's hash is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Before the hash computed so far.
    Left,
    /// After the hash computed so far.
    Right,
}

/// One step from a leaf to the root: the sibling hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Sibling hash.
    pub hash: Digest,
    /// Side of the sibling.
    pub side: Side,
}

fn parent(left: &Digest, right: &Digest) -> Digest {
    let mut both = [0; 64];
    both[..32].copy_from_slice(left);
    both[32..].copy_from_slice(right);
    sha256(both)
}

/// Returns the number of levels above `count` leaves.
fn height(count: usize) -> usize {
    usize::try_from(count.next_power_of_two().trailing_zeros()).unwrap_or(0)
}

/// A log's leaves with the hash of every full block, so that the root over any prefix of the log is cheap to compute.
///
/// This allows verifying a log with many checkpoints in one pass.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Hashes of the full blocks of 1, 2, 4 … leaves.
    levels: Vec<Vec<Digest>>,
}

impl Tree {
    /// Builds the tree over the leaves.
    #[must_use]
    pub fn new(leaves: Vec<Digest>) -> Self {
        let mut levels = vec![leaves];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let above = below.chunks_exact(2).map(|pair| parent(&pair[0], &pair[1])).collect();
            levels.push(above);
        }
        Self { levels }
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn len(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Returns whether the tree has no leaves.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the hash of block `at` of `level` in a tree of `count` leaves; positions behind them repeat the last leaf.
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

    /// Returns the root over the first `count` leaves; `None` if there are fewer, or `count` is 0.
    #[must_use]
    pub fn root(&self, count: usize) -> Option<Digest> {
        (count <= self.len()).then_some(())?;
        self.node(count, height(count), 0)
    }

    /// Returns the path from a leaf to the root over the first `count` leaves; `None` if the leaf is not among them.
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

    /// Returns whether the log is consistent with two roots: its first `from.0` and its first `to.0` leaves have
    /// these roots, and the first prefix is not the longer one.
    #[must_use]
    pub fn agrees(&self, from: (usize, &Digest), to: (usize, &Digest)) -> bool {
        let stands = |(count, claimed): (usize, &Digest)| self.root(count).as_ref() == Some(claimed);
        from.0 <= to.0 && stands(from) && stands(to)
    }
}

/// Returns whether a path leads from the leaf at `index` of `count` to the root.
///
/// The sides and the length of the path must match that position.
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
