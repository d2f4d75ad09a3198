//! State patches: `set`, `append`, `remove` and the merge form, compared with a slow reference.

use entente_domain::limits::{PATCHES, PATH_SEGMENTS, STATE_BYTES};
use entente_domain::openintent::patch::{Change, Op, Patch, apply, check_size};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::any;

type State = Map<String, Value>;

fn one(op: Op, path: &str, value: Value) -> Change {
    Change::Patches { patches: vec![Patch { op, path: path.to_owned(), value }] }
}

fn set(path: &str, value: &Value) -> Change {
    one(Op::Set, path, value.clone())
}

fn append(path: &str, value: &Value) -> Change {
    one(Op::Append, path, value.clone())
}

fn remove(path: &str) -> Change {
    one(Op::Remove, path, Value::Null)
}

/// Returns the value at a path.
fn find<'a>(state: &'a State, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let first = state.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

/// Returns the state without the value at a path: the part that a patch must not change.
fn without(state: &State, path: &str) -> State {
    fn cut(value: &mut Value, parts: &[&str]) {
        let Some(members) = value.as_object_mut() else { return };
        if let [last] = parts {
            members.remove(*last);
        } else if let Some(child) = members.get_mut(parts[0]) {
            cut(child, &parts[1..]);
            // Empty objects created on the way do not count.
            if child.as_object().is_some_and(Map::is_empty) {
                members.remove(parts[0]);
            }
        }
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut value = Value::Object(state.clone());
    cut(&mut value, &parts);
    value.as_object().unwrap().clone()
}

/// Generates states and paths with few names, so that they often coincide.
fn state() -> impl Strategy<Value = State> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!("x")),
        Just(json!([])),
        Just(json!([1, 2])),
        Just(Value::Null)
    ];
    let tree = leaf.prop_recursive(3, 12, 3, |inner| {
        proptest::collection::btree_map("[abc]", inner, 0..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    });
    proptest::collection::btree_map("[abc]", tree, 0..4).prop_map(|members| members.into_iter().collect())
}

fn path() -> impl Strategy<Value = String> {
    "[abc](/[abc]){0,3}"
}

fn patches() -> impl Strategy<Value = Vec<Patch>> {
    let op = select(vec![Op::Set, Op::Append, Op::Remove]);
    let path = prop_oneof![9 => path(), 1 => "[/ab~*. 0]{0,6}"];
    let parts = (op, path, prop_oneof![any::number(), Just(json!({})), Just(json!([]))]);
    vec(parts.prop_map(|(op, path, value)| Patch { op, path, value }), 0..6)
}

#[test]
fn a_path_names_a_member() {
    let state = State::new();
    for path in ["", "/", "///"] {
        for change in [set(path, &json!(1)), append(path, &json!(1)), remove(path)] {
            assert_eq!(apply(&state, &change).unwrap_err().code, Code::Unprocessable);
        }
    }
    let longest = vec!["a"; PATH_SEGMENTS].join("/");
    assert!(apply(&state, &set(&longest, &json!(1))).is_ok());
    let refusal = apply(&state, &set(&format!("{longest}/a"), &json!(1))).unwrap_err();
    assert_eq!(refusal.code, Code::Unprocessable);
    assert!(refusal.message.contains(&PATH_SEGMENTS.to_string()), "the message names the limit");
}

/// OI-5.3.2: no escapes, no array indexes.
#[test]
fn a_path_is_not_a_json_pointer() {
    let state = json!({ "list": [1, 2] }).as_object().unwrap().clone();
    assert_eq!(apply(&state, &set("list/0", &json!(9))).unwrap_err().code, Code::Unprocessable);
    let escaped = apply(&state, &set("a~1b", &json!(9))).unwrap();
    assert_eq!(escaped["a~1b"], 9);
}

#[test]
fn too_many_patches_are_refused() {
    let patch = Patch { op: Op::Set, path: "a".to_owned(), value: json!(1) };
    let many = |count| Change::Patches { patches: vec![patch.clone(); count] };
    assert!(apply(&State::new(), &many(PATCHES)).is_ok());
    assert_eq!(apply(&State::new(), &many(PATCHES + 1)).unwrap_err().code, Code::TooLarge);
}

#[test]
fn a_state_has_a_size() {
    // `{"a":"…"}` is eight bytes and the text.
    let state = |bytes: usize| State::from_iter([("a".to_owned(), json!("x".repeat(bytes - 8)))]);
    assert_eq!(check_size(&state(STATE_BYTES)), Ok(()));
    assert_eq!(check_size(&state(STATE_BYTES + 1)).unwrap_err().code, Code::TooLarge);
    let merge = Change::Merge { state: state(STATE_BYTES + 1) };
    assert_eq!(apply(&State::new(), &merge).unwrap_err().code, Code::TooLarge);
    let grow = append("list", &json!("x".repeat(STATE_BYTES)));
    assert_eq!(apply(&State::new(), &grow).unwrap_err().code, Code::TooLarge);
}

#[test]
fn an_unknown_op_is_none() {
    for op in ["replace", "add", "Set", ""] {
        assert!(
            serde_json::from_value::<Patch>(json!({ "op": op, "path": "a", "value": 1 })).is_err(),
            "{op}"
        );
    }
    let patch: Patch = serde_json::from_value(json!({ "op": "remove", "path": "a" })).unwrap();
    assert_eq!(patch, Patch { op: Op::Remove, path: "a".to_owned(), value: Value::Null });
}

proptest! {
    #[test]
    fn what_is_set_is_there_and_nothing_else_moved(state in state(), path in path(), value in any::json()) {
        match apply(&state, &set(&path, &value)) {
            Ok(next) => {
                prop_assert_eq!(find(&next, &path), Some(&value));
                prop_assert_eq!(without(&next, &path), without(&state, &path));
                prop_assert_eq!(apply(&next, &set(&path, &value)).unwrap(), next, "again is the same");
            }
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::Unprocessable);
                prop_assert!(blocked(&state, &path), "refused for nothing");
            }
        }
    }

    #[test]
    fn the_last_one_who_sets_wins(state in state(), path in path(), a in any::json(), b in any::json()) {
        if let Ok(first) = apply(&state, &set(&path, &a)) {
            prop_assert_eq!(apply(&first, &set(&path, &b)), apply(&state, &set(&path, &b)));
        }
    }

    #[test]
    fn what_is_removed_is_gone_and_nothing_else_moved(state in state(), path in path()) {
        match apply(&state, &remove(&path)) {
            Ok(next) => {
                prop_assert_eq!(find(&next, &path), None);
                prop_assert_eq!(without(&next, &path), without(&state, &path));
                if find(&state, &path).is_none() {
                    prop_assert_eq!(&next, &state, "absence is borne, and nothing is made on the way to it");
                }
                prop_assert_eq!(apply(&next, &remove(&path)).unwrap(), next);
            }
            Err(_) => prop_assert!(blocked(&state, &path), "refused for nothing"),
        }
    }

    #[test]
    fn what_is_appended_stands_at_the_end(state in state(), path in path(), value in any::json()) {
        let before = find(&state, &path).cloned();
        match apply(&state, &append(&path, &value)) {
            Ok(next) => {
                let mut expected = before.map_or_else(Vec::new, |list| list.as_array().unwrap().clone());
                expected.push(value);
                prop_assert_eq!(find(&next, &path), Some(&Value::Array(expected)));
                prop_assert_eq!(without(&next, &path), without(&state, &path));
            }
            Err(_) => prop_assert!(
                blocked(&state, &path) || before.is_some_and(|value| !value.is_array()), "refused for nothing"
            ),
        }
    }

    #[test]
    fn blank_parts_count_for_nothing(state in state(), path in path(), value in any::number()) {
        let spelled = format!("//{}/", path.replace('/', "///"));
        for (op, value) in [(Op::Set, value.clone()), (Op::Append, value), (Op::Remove, Value::Null)] {
            let left = apply(&state, &one(op, &path, value.clone()));
            let right = apply(&state, &one(op, &spelled, value));
            prop_assert_eq!(left.ok(), right.ok());
        }
    }

    #[test]
    fn patches_are_applied_in_order_and_all_or_none(state in state(), patches in patches()) {
        let together = apply(&state, &Change::Patches { patches: patches.clone() });
        let one_by_one = patches.iter().try_fold(state.clone(), |state, patch| {
            apply(&state, &Change::Patches { patches: vec![patch.clone()] })
        });
        prop_assert_eq!(together, one_by_one);
    }

    #[test]
    fn no_patches_change_nothing(state in state()) {
        prop_assert_eq!(apply(&state, &Change::Patches { patches: Vec::new() }).unwrap(), state);
    }

    #[test]
    fn patches_on_different_members_can_change_places(state in state(), a in any::json(), b in any::json()) {
        let (first, second) = (set("a", &a), set("b", &b));
        let there = apply(&apply(&state, &first).unwrap(), &second).unwrap();
        prop_assert_eq!(there, apply(&apply(&state, &second).unwrap(), &first).unwrap());
    }

    #[test]
    fn a_merge_puts_its_members_and_keeps_the_rest(state in state(), given in state()) {
        let merged = apply(&state, &Change::Merge { state: given.clone() }).unwrap();
        for name in ["a", "b", "c"] {
            prop_assert_eq!(merged.get(name), given.get(name).or_else(|| state.get(name)));
        }
        prop_assert_eq!(apply(&merged, &Change::Merge { state: given }).unwrap(), merged);
    }

    #[test]
    fn a_change_survives_the_log(patches in patches(), state in any::object()) {
        for change in [Change::Patches { patches: patches.clone() }, Change::Merge { state: state.clone() }] {
            let text = serde_json::to_string(&change).unwrap();
            prop_assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
        }
    }

    #[test]
    fn no_path_breaks_it(state in any::object(), path: String, value in any::json()) {
        for change in [set(&path, &value), append(&path, &value), remove(&path)] {
            let _ = apply(&state, &change);
        }
    }
}

/// Whether a path passes through a value that is no object.
fn blocked(state: &State, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    (1..parts.len()).any(|end| find(state, &parts[..end].join("/")).is_some_and(|value| !value.is_object()))
}
