//! Deadlocks, compared with a slow reference: who reaches whom, over calls and work.

use std::collections::BTreeSet;

use entente_domain::openintent::waits::{Deadlock, Wait, WaitKind, deadlocks};
use proptest::prelude::*;

use crate::any::at;

const NAMES: [&str; 6] = ["ada", "ben", "cyd", "dan", "eve", "fay"];

fn wait(from: &str, to: &str, kind: WaitKind) -> Wait {
    Wait {
        from: from.to_owned(),
        to: Some(to.to_owned()),
        kind,
        reference: String::new(),
        intent_id: None,
        since: at(0),
        blocks: true,
        public: true,
    }
}

fn request(from: &str, to: &str) -> Wait {
    wait(from, to, WaitKind::Request)
}

fn agents(found: Vec<Deadlock>) -> Vec<Vec<String>> {
    found.into_iter().map(|one| one.agents).collect()
}

#[test]
fn two_who_wait_for_each_other_are_a_deadlock() {
    let waits = [request("ada", "ben"), request("ben", "ada"), request("cyd", "ada")];
    assert_eq!(agents(deadlocks(&waits)), [["ada", "ben"]]);
    assert_eq!(deadlocks(&waits)[0].waits, [0, 1]);
    assert_eq!(agents(deadlocks(&[request("ada", "ben"), request("ben", "cyd")])), Vec::<Vec<String>>::new());
    assert_eq!(agents(deadlocks(&[request("ada", "ada")])), [["ada"]]);
    let unsure = Wait { blocks: false, ..request("ben", "ada") };
    assert!(deadlocks(&[request("ada", "ben"), unsure]).is_empty());
    assert!(deadlocks(&[request("ada", "ben"), Wait { to: None, ..request("ben", "ada") }]).is_empty());
}

/// One whose work waits can answer; what it holds, it cannot give up.
#[test]
fn a_question_is_answered_by_one_whose_work_waits() {
    let job = wait("ada", "ben", WaitKind::Job);
    assert!(deadlocks(&[job.clone(), request("ben", "ada")]).is_empty());
    assert_eq!(agents(deadlocks(&[job.clone(), wait("ben", "ada", WaitKind::Lease)])), [["ada", "ben"]]);
    let three =
        [request("ada", "ben"), wait("ben", "cyd", WaitKind::Lease), wait("cyd", "ada", WaitKind::Job)];
    assert_eq!(agents(deadlocks(&three)), [["ada", "ben", "cyd"]]);
    assert!(deadlocks(&[request("ada", "ben"), wait("ben", "ada", WaitKind::Decision)]).is_empty());
}

#[test]
fn a_long_chain_is_no_depth() {
    let names: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let chain: Vec<Wait> = names.windows(2).map(|pair| request(&pair[0], &pair[1])).collect();
    assert!(deadlocks(&chain).is_empty());
}

#[test]
fn a_deadlock_is_known_again_by_who_waits_for_whom() {
    let one = [request("ada", "ben"), request("ben", "ada")];
    let again = [request("ben", "ada"), Wait { reference: "msg_2".to_owned(), ..request("ada", "ben") }];
    let other =
        [wait("ada", "ben", WaitKind::Lease), request("ben", "ada"), wait("ben", "ada", WaitKind::Lease)];
    let print = |waits: &[Wait]| deadlocks(waits)[0].fingerprint(waits);
    assert_eq!(print(&one), print(&again));
    assert_ne!(print(&one), print(&other));
}

proptest! {
    #[test]
    fn a_deadlock_is_who_all_reach_each_other(
        given in prop::collection::vec((0..6_usize, 0..6_usize, prop::sample::select(&WaitKind::ALL[..])), 0..14)
    ) {
        // Nodes 0 to 5 are calls, 6 to 11 the work of the same agents.
        let mut reach = [[false; 12]; 12];
        for agent in 0..6 {
            reach[agent + 6][agent] = true;
        }
        let ends = |(from, to, kind): &(usize, usize, WaitKind)| match kind {
            WaitKind::Request => Some((*from, *to)),
            WaitKind::Lease => Some((*from, to + 6)),
            WaitKind::Task | WaitKind::Job => Some((from + 6, to + 6)),
            WaitKind::Decision => None,
        };
        for (from, to) in given.iter().filter_map(ends) {
            reach[from][to] = true;
        }
        for via in 0..12 {
            for from in 0..12 {
                for to in 0..12 {
                    reach[from][to] |= reach[from][via] && reach[via][to];
                }
            }
        }
        let slow: BTreeSet<Vec<String>> = (0..12)
            .filter(|one| reach[*one][*one])
            .map(|one| {
                let both = |other: &usize| reach[one][*other] && reach[*other][one];
                let names: BTreeSet<&str> = (0..12).filter(both).map(|other| NAMES[other % 6]).collect();
                names.into_iter().map(str::to_owned).collect()
            })
            .collect();
        let waits: Vec<Wait> = given.iter().map(|(from, to, kind)| wait(NAMES[*from], NAMES[*to], *kind)).collect();
        let found = deadlocks(&waits);
        for one in &found {
            for at in &one.waits {
                let (from, to) = ends(&given[*at]).unwrap();
                prop_assert!(reach[to][from]);
            }
        }
        let found = agents(found);
        prop_assert!(found.windows(2).all(|pair| pair[0].len() >= pair[1].len()));
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), slow);
    }
}
