//! References between the phases of a workflow of the SDK: dependencies, by key or by title, and inputs (RFC-0024).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::faults::Place;
use super::super::tree::Node;
use super::reader::Reader;
use super::types::Phase;

/// Checks the references, replaces titles by keys, and sorts the phases, each after those that it depends on.
pub(super) fn check(reader: &mut Reader, tree: &Node, phases: &mut Vec<Phase>) {
    let known: Vec<(String, String)> =
        phases.iter().map(|phase| (phase.key.clone(), phase.title.clone())).collect();
    for phase in &mut *phases {
        let mut resolved = Vec::new();
        for name in &phase.depends_on {
            let by_key = known.iter().find(|(key, _)| key == name);
            match by_key.or_else(|| known.iter().find(|(_, title)| title == name)) {
                Some((key, _)) if resolved.contains(key) => {}
                Some((key, _)) => resolved.push(key.clone()),
                None => {
                    let keys: Vec<&str> = known.iter().map(|(key, _)| key.as_str()).collect();
                    let message = format!("there is no phase `{name}`; there are {}", keys.join(", "));
                    let (place, path) = member(tree, &phase.key, "depends_on");
                    reader.fault(place, &path, message);
                }
            }
        }
        if !resolved.is_empty() {
            // The SDK's agents find the outputs of a dependency by the title of its intent.
            let titles = known.iter().filter(|(key, _)| resolved.contains(key));
            let titles: Map<String, Value> = titles.map(|(key, title)| (title.clone(), json!(key))).collect();
            phase.state.insert("_io_dep_title_to_name".to_owned(), Value::Object(titles));
        }
        phase.depends_on = resolved;
    }
    let all: &[Phase] = phases;
    for phase in all {
        inputs(reader, tree, phase, all);
    }
    if let Err(stuck) = sort(phases) {
        let (place, path) = member(tree, stuck.first().map_or("", String::as_str), "depends_on");
        let message =
            format!("these phases wait for each other: {}. Remove one of the dependencies", stuck.join(", "));
        reader.fault(place, &path, message);
    }
}

/// Returns the place and the path of a member of a phase.
fn member(tree: &Node, phase: &str, key: &str) -> (Option<Place>, String) {
    let node = tree.get("workflow").and_then(|phases| phases.get(phase)).and_then(|phase| phase.get(key));
    (node.and_then(|node| node.place), format!("workflow.{phase}.{key}"))
}

/// Checks that each input names an output of a phase that this one depends on, as the SDK does.
fn inputs(reader: &mut Reader, tree: &Node, phase: &Phase, phases: &[Phase]) {
    let node = tree.get("workflow").and_then(|all| all.get(&phase.key)).and_then(|node| node.get("inputs"));
    let Some(node) = node else { return };
    let path = format!("workflow.{}.inputs", phase.key);
    for (key, input) in reader.table(node, &path) {
        let path = format!("{path}.{key}");
        let given = input.text().unwrap_or_default();
        if given.starts_with("$trigger.") || given.starts_with("$initial_state.") {
            continue;
        }
        let Some((from, output)) =
            given.split_once('.').filter(|(from, output)| !from.is_empty() && !output.is_empty())
        else {
            let message = "this must be `phase.output`, `$trigger.key` or `$initial_state.key`";
            reader.fault(input.place, &path, message);
            continue;
        };
        let Some(source) = phases.iter().find(|other| other.key == from) else {
            reader.fault(input.place, &path, format!("there is no phase `{from}`"));
            continue;
        };
        if !phase.depends_on.iter().any(|before| before == from) {
            let message = format!("`{from}` must be completed first: add it to `depends_on`");
            reader.fault(input.place, &path, message);
        }
        let declared = source.state.get("_io_outputs").and_then(Value::as_object);
        if declared.is_some_and(|outputs| !outputs.is_empty() && !outputs.contains_key(output)) {
            let message =
                format!("the phase `{from}` declares no output `{output}`; add it to its `outputs`");
            reader.fault(input.place, &path, message);
        }
    }
}

/// Sorts the phases, each after those that it depends on, otherwise in the order of the file.
///
/// # Errors
/// The keys of the phases that wait for each other.
fn sort(phases: &mut Vec<Phase>) -> Result<(), Vec<String>> {
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut sorted = Vec::new();
    let mut left = std::mem::take(phases);
    while !left.is_empty() {
        let (now, later): (Vec<Phase>, Vec<Phase>) =
            left.into_iter().partition(|phase| phase.depends_on.iter().all(|before| done.contains(before)));
        if now.is_empty() {
            return Err(later.into_iter().map(|phase| phase.key).collect());
        }
        done.extend(now.iter().map(|phase| phase.key.clone()));
        sorted.extend(now);
        left = later;
    }
    *phases = sorted;
    Ok(())
}
