//! Folders that can be taken in at a glance: a limited number of files side by side.

use std::collections::BTreeMap;

use super::{none, sources};

/// Maximum number of Rust files in one folder, without those of the folders in it.
const SIDE_BY_SIDE: usize = 25;

/// Returns the folders of these files that have too many of them.
fn crowded(names: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name.rsplit_once('/').unwrap().0).or_default() += 1;
    }
    let over = counts.into_iter().filter(|(_, count)| *count > SIDE_BY_SIDE);
    let told = over.map(|(folder, count)| {
        format!("{folder}/ has {count} files side by side, {SIDE_BY_SIDE} is the most: divide it")
    });
    told.collect()
}

#[test]
fn no_folder_is_crowded() {
    let all = sources(&["src", "crates", "tests", "benches"]);
    none(&crowded(&all.into_iter().map(|(name, _)| name).collect::<Vec<_>>()));
}

#[test]
fn a_folder_is_crowded_by_its_own_files_alone() {
    let mut names: Vec<String> = (0..SIDE_BY_SIDE).map(|number| format!("src/a/{number}.rs")).collect();
    names.extend(["src/a/b/0.rs".to_owned(), "src/a.rs".to_owned()]);
    assert_eq!(crowded(&names), Vec::<String>::new());
    names.push("src/a/more.rs".to_owned());
    assert_eq!(crowded(&names), ["src/a/ has 26 files side by side, 25 is the most: divide it"]);
}
