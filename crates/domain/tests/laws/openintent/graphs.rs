//! Graphs of intents: no cycles, readiness, and limits.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::ids::IntentId;
use entente_domain::limits::{DEPENDENCIES, GRAPH_NODES, INTENT_DEPTH};
use entente_domain::openintent::graphs::{
    Readiness, Wait, check_depth, check_walk, depend, dependency_payload, let_go, readiness,
};
use entente_domain::openintent::intents::{Intent, IntentAsk, IntentStatus, create};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::any::at;

fn id(n: usize) -> IntentId {
    IntentId::from(Uuid::from_u128(n as u128 + 1))
}

fn intent(n: usize) -> Intent {
    let ask = IntentAsk {
        title: "t".to_owned(),
        description: String::new(),
        parent_id: None,
        depends_on: Vec::new(),
        constraints: Map::new(),
        state: Map::new(),
        status: IntentStatus::Active,
        governance_policy: None,
    };
    create(ask, "ada", id(n), at(0)).unwrap()
}

type World = BTreeMap<IntentId, Intent>;

/// Returns an intent and all its transitive dependencies; reference implementation.
fn reached(world: &World, from: IntentId) -> Vec<IntentId> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(next) = left.pop() {
        if seen.insert(next) {
            left.extend(&world[&next].depends_on);
        }
    }
    seen.into_iter().collect()
}

/// Whether there is a cycle: repeatedly removes all intents without remaining dependencies; a rest means a cycle.
fn has_circle(world: &World) -> bool {
    let mut left: BTreeMap<IntentId, BTreeSet<IntentId>> =
        world.values().map(|one| (one.id, one.depends_on.iter().copied().collect())).collect();
    loop {
        let free: Vec<IntentId> = left.iter().filter(|(_, on)| on.is_empty()).map(|(id, _)| *id).collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        for id in &free {
            left.remove(id);
        }
        left.values_mut().for_each(|on| on.retain(|id| !free.contains(id)));
    }
}

proptest! {
    #[test]
    fn no_circle_comes_of_anything(steps in vec((0..6_usize, 0..6_usize, any::<bool>()), 0..60)) {
        let mut world: World = (0..6).map(|n| (id(n), intent(n))).collect();
        for (from, to, more) in steps {
            let before = world[&id(from)].clone();
            if more {
                let reached = reached(&world, id(to));
                let closes = reached.contains(&id(from));
                match depend(&before, id(to), &reached, at(1)) {
                    Ok(next) => {
                        prop_assert_eq!(next.version, before.version + 1);
                        prop_assert_eq!(next.depends_on.last(), Some(&id(to)));
                        world.insert(id(from), next);
                    }
                    Err(refusal) if before.depends_on.contains(&id(to)) => prop_assert_eq!(refusal.code, Code::AlreadyExists),
                    // A dependency refused for a cycle would close one.
                    Err(refusal) => prop_assert_eq!((refusal.code, closes), (Code::DependencyCircle, true)),
                }
            } else if let Ok(next) = let_go(&before, id(to), at(1)) {
                prop_assert!(before.depends_on.contains(&id(to)) && !next.depends_on.contains(&id(to)));
                prop_assert_eq!(next.version, before.version + 1);
                world.insert(id(from), next);
            } else {
                prop_assert!(!before.depends_on.contains(&id(to)));
            }
            prop_assert!(!has_circle(&world));
        }
    }

    #[test]
    fn what_is_not_over_is_either_ready_or_blocked(
        status in select(&IntentStatus::ALL[..]),
        on in vec(select(&IntentStatus::ALL[..]), 0..5),
    ) {
        let dependencies: Vec<(IntentId, IntentStatus)> = on.iter().enumerate().map(|(n, status)| (id(n), *status)).collect();
        let wait = Wait::of(&dependencies);
        let expected = if status.is_terminal() {
            Readiness::Over
        } else if on.iter().all(|status| *status == IntentStatus::Completed) {
            Readiness::Ready
        } else {
            Readiness::Blocked
        };
        prop_assert_eq!(readiness(status, &wait), expected);
        let lost = on.iter().filter(|status| **status == IntentStatus::Abandoned).count();
        let done = on.iter().filter(|status| **status == IntentStatus::Completed).count();
        prop_assert_eq!((wait.lost.len(), wait.open.len()), (lost, on.len() - lost - done));
    }
}

#[test]
fn nobody_waits_for_itself_nor_when_it_is_over() {
    let code = |intent: &Intent, on: usize, reached: &[IntentId]| {
        depend(intent, id(on), reached, at(1)).map_err(|refusal| refusal.code).err()
    };
    assert_eq!(code(&intent(0), 0, &[id(0)]), Some(Code::DependencyCircle));
    for status in [IntentStatus::Completed, IntentStatus::Abandoned] {
        assert_eq!(code(&Intent { status, ..intent(0) }, 1, &[id(1)]), Some(Code::IntentResolved));
    }
    // An existing dependency can still be removed.
    let over = Intent { status: IntentStatus::Completed, depends_on: vec![id(1)], ..intent(0) };
    let free = let_go(&over, id(1), at(1)).unwrap();
    assert_eq!((free.depends_on.len(), free.version, free.updated_at), (0, 2, at(1)));
    assert_eq!(dependency_payload(id(1), &free), json!({ "dependency_id": id(1), "version": 2 }));
}

#[test]
fn graphs_have_their_limits() {
    let many: Vec<IntentId> = (1..=GRAPH_NODES).map(id).collect();
    assert!(depend(&intent(0), id(1), &many, at(1)).is_ok());
    let more: Vec<IntentId> = (1..=GRAPH_NODES + 1).map(id).collect();
    assert_eq!(depend(&intent(0), id(1), &more, at(1)).unwrap_err().code, Code::Unprocessable);
    // A found cycle counts, even if the search stopped at the limit.
    let closed = [more, vec![id(0)]].concat();
    assert_eq!(depend(&intent(0), id(1), &closed, at(1)).unwrap_err().code, Code::DependencyCircle);
    let full = Intent { depends_on: (1..=DEPENDENCIES).map(id).collect(), ..intent(0) };
    assert_eq!(depend(&full, id(500), &[id(500)], at(1)).unwrap_err().code, Code::Unprocessable);
    assert!(check_depth(INTENT_DEPTH - 1).is_ok());
    assert_eq!(check_depth(INTENT_DEPTH).unwrap_err().code, Code::Unprocessable);
    assert!(check_walk(GRAPH_NODES).is_ok());
    assert_eq!(check_walk(GRAPH_NODES + 1).unwrap_err().code, Code::Unprocessable);
}
