//! Merkle trees (RFC-0019, OI-13.3): the optimised tree equals the plain one, every leaf has a path to the root,
//! and no other leaf, position or root verifies.

use entente_domain::canonical::{Digest, sha256};
use entente_domain::log::merkle::{Side, Step, Tree, leads};
use proptest::prelude::*;
use proptest::sample::Index;

fn leaf(n: usize) -> Digest {
    sha256(n.to_string())
}

fn parent(left: Digest, right: Digest) -> Digest {
    sha256([left, right].concat())
}

/// Computes the root as OI-13.3 defines it.
fn plain(leaves: &[Digest]) -> Option<Digest> {
    let mut row = leaves.to_vec();
    let last = *row.last()?;
    while !row.len().is_power_of_two() {
        row.push(last);
    }
    while row.len() > 1 {
        row = row.chunks(2).map(|pair| parent(pair[0], pair[1])).collect();
    }
    row.pop()
}

/// Computes the root as the SDK's `MerkleProof.verify()` does.
fn climbed(leaf: Digest, path: &[Step]) -> Digest {
    path.iter().fold(leaf, |hash, step| match step.side {
        Side::Left => parent(step.hash, hash),
        Side::Right => parent(hash, step.hash),
    })
}

#[test]
fn small_trees_are_what_the_contract_says() {
    let leaves: Vec<Digest> = (0..3).map(leaf).collect();
    let tree = Tree::new(leaves.clone());
    assert_eq!((tree.root(0), tree.root(4), tree.is_empty()), (None, None, false));
    assert_eq!(tree.root(1), Some(leaves[0]), "one leaf is its own root");
    assert_eq!(tree.root(2), Some(parent(leaves[0], leaves[1])));
    let padded = parent(parent(leaves[0], leaves[1]), parent(leaves[2], leaves[2]));
    assert_eq!(tree.root(3), Some(padded));
    assert_eq!(tree.path(1, 0), Some(vec![]));
    assert_eq!(tree.path(3, 3), None);
    assert_eq!(Tree::new(Vec::new()).root(0), None);
    assert!(Tree::new(Vec::new()).is_empty());
}

proptest! {
    #[test]
    fn every_beginning_has_the_plain_root(count in 1_usize..70) {
        let leaves: Vec<Digest> = (0..count).map(leaf).collect();
        let tree = Tree::new(leaves.clone());
        for beginning in 1..=count {
            prop_assert_eq!(tree.root(beginning), plain(&leaves[..beginning]));
        }
        prop_assert_eq!(tree.root(count + 1), None);
    }

    #[test]
    fn every_leaf_has_a_way_and_nothing_else_has(count in 1_usize..70, of in 1_usize..70, at: Index, other: Index) {
        let count = count.max(of);
        let tree = Tree::new((0..count).map(leaf).collect());
        let (root, index) = (tree.root(of).unwrap(), at.index(of));
        let path = tree.path(of, index).unwrap();
        prop_assert_eq!(climbed(leaf(index), &path), root);
        prop_assert!(leads(&leaf(index), index, of, &path, &root));
        prop_assert!(!leads(&leaf(count), index, of, &path, &root), "another leaf");
        prop_assert!(!leads(&leaf(index), index, of, &path, &leaf(0)) || of == 1 && index == 0, "another root");
        let elsewhere = other.index(of);
        prop_assert_eq!(leads(&leaf(index), elsewhere, of, &path, &root), elsewhere == index, "another place");
        prop_assert!(!leads(&leaf(index), of, of, &path, &root), "a place among the filling");
        let mut longer = path.clone();
        longer.push(Step { hash: root, side: Side::Right });
        prop_assert!(!leads(&leaf(index), index, of, &longer, &root));
        for step in 0..path.len() {
            let mut forged = path.clone();
            forged[step].hash[0] ^= 1;
            prop_assert!(!leads(&leaf(index), index, of, &forged, &root));
            forged[step] = Step { side: if path[step].side == Side::Left { Side::Right } else { Side::Left }, ..path[step] };
            prop_assert!(!leads(&leaf(index), index, of, &forged, &root));
        }
    }

    #[test]
    fn a_log_agrees_with_its_own_checkpoints_only(count in 2_usize..50, a in 1_usize..50, b in 1_usize..50, changed: Index) {
        let (from, to) = (a.min(b).min(count), a.max(b).min(count));
        let mut leaves: Vec<Digest> = (0..count).map(leaf).collect();
        let tree = Tree::new(leaves.clone());
        let (early, late) = (tree.root(from).unwrap(), tree.root(to).unwrap());
        prop_assert!(tree.agrees((from, &early), (to, &late)));
        prop_assert_eq!(tree.agrees((to, &late), (from, &early)), from == to, "backwards");
        prop_assert!(!tree.agrees((from, &early), (count + 1, &late)));
        let at = changed.index(count);
        leaves[at][0] ^= 1;
        let rewritten = Tree::new(leaves);
        prop_assert_eq!(rewritten.agrees((from, &early), (to, &late)), at >= to);
    }
}
