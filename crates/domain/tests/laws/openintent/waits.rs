//! Cycles of waits, compared with a slow reference: who reaches whom.

use std::collections::BTreeSet;

use entente_domain::openintent::waits::circles;
use proptest::prelude::*;

const NAMES: [&str; 6] = ["ada", "ben", "cyd", "dan", "eve", "fay"];

#[test]
fn two_who_wait_for_each_other_are_a_circle() {
    assert_eq!(circles(&[("ada", "ben"), ("ben", "ada"), ("cyd", "ada")]), [["ada", "ben"]]);
    assert_eq!(circles(&[("ada", "ben"), ("ben", "cyd")]), Vec::<Vec<String>>::new());
    assert_eq!(circles(&[("ada", "ada")]), [["ada"]]);
}

#[test]
fn a_long_chain_is_no_depth() {
    let names: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let chain: Vec<(&str, &str)> =
        names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    assert!(circles(&chain).is_empty());
}

proptest! {
    #[test]
    fn a_circle_is_who_all_reach_each_other(waits in prop::collection::vec((0..6_usize, 0..6_usize), 0..14)) {
        let mut reach = [[false; 6]; 6];
        for (from, to) in &waits {
            reach[*from][*to] = true;
        }
        for via in 0..6 {
            for from in 0..6 {
                for to in 0..6 {
                    reach[from][to] |= reach[from][via] && reach[via][to];
                }
            }
        }
        let slow: BTreeSet<Vec<String>> = (0..6)
            .filter(|one| reach[*one][*one])
            .map(|one| {
                let both = |other: &usize| reach[one][*other] && reach[*other][one];
                (0..6).filter(both).map(|other| NAMES[other].to_owned()).collect()
            })
            .collect();
        let named: Vec<(&str, &str)> = waits.iter().map(|(from, to)| (NAMES[*from], NAMES[*to])).collect();
        let found = circles(&named);
        prop_assert!(found.windows(2).all(|pair| pair[0].len() >= pair[1].len()));
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), slow);
    }
}
