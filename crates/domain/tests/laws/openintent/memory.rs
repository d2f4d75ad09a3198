//! Agents' memory (RFC-0015): retention, eviction order, the effect of changes, and that a prefix is a range.

use entente_domain::ids::MemoryId;
use entente_domain::limits::{
    DURATION_SECONDS, MEMORY_BYTES, MEMORY_ENTRIES, MEMORY_NAMESPACE_ENTRIES, MEMORY_TAGS, MEMORY_VALUE_BYTES,
};
use entente_domain::openintent::memory::range::range;
use entente_domain::openintent::memory::room::{Candidate, TaskRoom, Used, make};
use entente_domain::openintent::memory::{
    Given, MemoryAsk, MemoryChange, MemoryEntry, MemoryPriority, MemorySensitivity, MemoryType, create, ttl,
};
use entente_domain::refusal::{Code, Refusal};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::any::at;

fn ask() -> MemoryAsk {
    MemoryAsk {
        namespace: "findings".to_owned(),
        key: "a/b".to_owned(),
        value: Map::new(),
        memory_type: MemoryType::Episodic,
        tags: Vec::new(),
        ttl: None,
        expires_at: None,
        pinned: false,
        priority: MemoryPriority::Normal,
        sensitivity: None,
    }
}

fn make_entry(ask: MemoryAsk) -> Result<MemoryEntry, Refusal> {
    create(ask, "ada", None, None, MemoryId::from(Uuid::from_u128(1)), at(1_000_000))
}

fn made(ask: MemoryAsk) -> MemoryEntry {
    make_entry(ask).unwrap()
}

#[test]
fn durations_are_read_as_they_are_written() {
    for (text, seconds) in [
        ("1", 1),
        ("3600", 3_600),
        ("PT1H", 3_600),
        ("PT1H30M", 5_400),
        ("P7D", 604_800),
        ("P1W", 604_800),
        ("P1W1DT1H1M1S", 604_800 + 86_400 + 3_661),
        ("PT90S", 90),
    ] {
        assert_eq!(ttl::seconds(text), Ok(seconds), "{text}");
    }
    for none in [
        "",
        "P",
        "PT",
        "P1",
        "1D",
        "P1Y",
        "P1M",
        "P1DT",
        "PT1D",
        "P1H",
        "PT1S1M",
        "PT1S1S",
        "P-1D",
        "PT1.5S",
        "1h",
        "+1",
        " 1",
        "P1Dx",
        "PTxS",
        "99999999999999999999",
        "P99999999999999999999W",
        "0",
        "PT0S",
        "P10000D",
    ] {
        assert_eq!(ttl::seconds(none).unwrap_err().code, Code::Unprocessable, "{none}");
    }
    assert_eq!(ttl::seconds(&DURATION_SECONDS.to_string()), Ok(DURATION_SECONDS));
}

#[test]
fn what_is_no_memory_is_refused() {
    let refused = |ask: MemoryAsk| make_entry(ask).unwrap_err().code;
    for word in ["", "a\nb", &"k".repeat(501)] {
        assert_eq!(refused(MemoryAsk { key: word.to_owned(), ..ask() }), Code::InvalidRequest);
        assert_eq!(refused(MemoryAsk { namespace: word.to_owned(), ..ask() }), Code::InvalidRequest);
        assert_eq!(refused(MemoryAsk { tags: vec![word.to_owned()], ..ask() }), Code::InvalidRequest);
    }
    assert_eq!(refused(MemoryAsk { tags: vec!["a,b".to_owned()], ..ask() }), Code::InvalidRequest);
    let many = (0..=MEMORY_TAGS).map(|n| n.to_string()).collect();
    assert_eq!(refused(MemoryAsk { tags: many, ..ask() }), Code::TooLarge);
    let large = Map::from_iter([("v".to_owned(), json!("x".repeat(MEMORY_VALUE_BYTES)))]);
    assert_eq!(refused(MemoryAsk { value: large, ..ask() }), Code::TooLarge);
    assert_eq!(refused(MemoryAsk { expires_at: Some(at(1_000_000)), ..ask() }), Code::AlreadyExpired);
    let twice = MemoryAsk { ttl: Some("1".to_owned()), expires_at: Some(at(9_000_000)), ..ask() };
    assert_eq!(refused(twice), Code::Unprocessable);
    let tags = vec!["b".to_owned(), "a".to_owned(), "b".to_owned()];
    assert_eq!(made(MemoryAsk { tags, ..ask() }).tags, ["b", "a"]);
}

#[test]
fn a_change_says_what_stays_and_what_goes() {
    let entry = made(MemoryAsk {
        ttl: Some("PT1S".to_owned()),
        sensitivity: Some(MemorySensitivity::Restricted),
        ..ask()
    });
    assert!(!entry.is_due(at(1_999_999)) && entry.is_due(at(2_000_000)), "it ends with its last instant");
    let change = |change| entry.changed(change, "bob", at(1_500_000)).unwrap();
    assert_eq!(change(MemoryChange::default()), None, "nothing changes nothing");
    let same = MemoryChange { pinned: Some(false), tags: Some(Vec::new()), ..MemoryChange::default() };
    assert_eq!(change(same), None);
    let again =
        change(MemoryChange { ttl: Given::Value("PT1S".to_owned()), ..MemoryChange::default() }).unwrap();
    assert_eq!((again.expires_at, again.version, again.updated_by.as_str()), (Some(at(2_500_000)), 2, "bob"));
    let ever = change(MemoryChange { ttl: Given::Null, ..MemoryChange::default() }).unwrap();
    assert_eq!((ever.ttl, ever.expires_at), (None, None));
    let until = MemoryChange { expires_at: Given::Value(at(9_000_000)), ..MemoryChange::default() };
    assert_eq!(change(until).map(|next| (next.ttl, next.expires_at)), Some((None, Some(at(9_000_000)))));
    let open = change(MemoryChange { sensitivity: Given::Null, ..MemoryChange::default() }).unwrap();
    assert_eq!((open.sensitivity, open.expires_at, open.curated_by), (None, entry.expires_at, None));
    let known = made(MemoryAsk { memory_type: MemoryType::Semantic, ..ask() });
    assert_eq!(known.curated_by.as_deref(), Some("ada"));
    let pinned = MemoryChange { pinned: Some(true), ..MemoryChange::default() };
    let righted = known.changed(pinned.clone(), "bob", at(2)).unwrap().unwrap();
    assert_eq!((righted.curated_by.as_deref(), righted.agent_id.as_str()), (Some("bob"), "ada"));
    let archived = MemoryEntry { archived_at: Some(at(1)), ..entry.clone() };
    let refused = archived.changed(pinned, "ada", at(2)).unwrap_err();
    assert_eq!(refused.code, Code::InvalidTransition);
    assert!(!refused.message.contains("lease"));
    assert!(!entry.described().to_string().contains("value"), "logs have no values");
}

fn candidate() -> impl Strategy<Value = Candidate> {
    (any::<u128>(), 1..200_000_i64, any::<bool>(), any::<bool>()).prop_map(
        |(id, bytes, in_namespace, of_task)| Candidate {
            id: MemoryId::from(Uuid::from_u128(id)),
            intent_id: None,
            bytes,
            in_namespace,
            of_task,
        },
    )
}

proptest! {
    #[test]
    fn what_is_looked_for_is_a_range(
        exact in proptest::option::of("[^\\p{Cc}]{1,3}"), prefix in proptest::option::of("[^\\p{Cc}]{1,3}|\u{10ffff}{1,2}"),
        rest in "[^\\p{Cc}]{0,4}", other in "[^\\p{Cc}]{0,6}|\u{10ffff}{1,120}",
    ) {
        // Compared by bytes, as in the index: the range contains all matching texts and no others.
        let (low, high) = range(exact.as_deref(), prefix.as_deref());
        let with = format!("{}{rest}", prefix.clone().unwrap_or_default());
        for text in [Some(with), Some(other), exact.clone(), prefix.clone()].into_iter().flatten() {
            let wanted = exact.as_ref().is_none_or(|exact| *exact == text)
                && prefix.as_ref().is_none_or(|prefix| text.starts_with(prefix));
            prop_assert_eq!(text >= low && text < high, wanted, "{:?}", text);
        }
    }

    #[test]
    fn what_goes_is_enough_and_in_its_order(
        namespace in 0..30_i64, entries in 0..30_i64, bytes in 0..900_000_i64, task in 0..5_i64, task_bytes in 0..90_000_i64,
        more in 1..70_000_i64, limits in (proptest::option::of(0..6_i64), proptest::option::of(0..100_000_i64)),
        candidates in vec(candidate(), 0..40),
    ) {
        let used = Used {
            entries: MEMORY_ENTRIES - 20 + entries,
            bytes: MEMORY_BYTES - 500_000 + bytes,
            in_namespace: MEMORY_NAMESPACE_ENTRIES - 20 + namespace,
            for_task: task,
            task_bytes,
        };
        let policy = TaskRoom { entries: limits.0, bytes: limits.1 };
        let Ok(gone) = make(1, more, &used, &policy, &candidates) else { return Ok(()) };
        let count = |which: &dyn Fn(&&&Candidate) -> bool| i64::try_from(gone.iter().filter(which).count()).unwrap();
        let size = |which: &dyn Fn(&&&Candidate) -> bool| gone.iter().filter(which).map(|one| one.bytes).sum::<i64>();
        let all = |_: &&&Candidate| true;
        let of_task = |one: &&&Candidate| one.of_task;
        prop_assert!(used.entries + 1 - count(&all) <= MEMORY_ENTRIES);
        prop_assert!(used.bytes + more - size(&all) <= MEMORY_BYTES);
        prop_assert!(used.in_namespace + 1 - count(&|one| one.in_namespace) <= MEMORY_NAMESPACE_ENTRIES);
        prop_assert!(policy.entries.is_none_or(|most| used.for_task + 1 - count(&of_task) <= most));
        prop_assert!(policy.bytes.is_none_or(|most| used.task_bytes + more - size(&of_task) <= most));
        // Without the last eviction there would not be enough room.
        if let Some((last, before)) = gone.split_last() {
            let before: Vec<Candidate> = before.iter().map(|one| (*one).clone()).collect();
            prop_assert!(make(1, more, &used, &policy, &before).is_err(), "{last:?} went for nothing");
        }
        let places: Vec<usize> = gone.iter().map(|one| candidates.iter().position(|other| std::ptr::eq(*one, other)).unwrap()).collect();
        prop_assert!(places.is_sorted());
    }

    #[test]
    fn what_only_gets_smaller_always_fits(bytes in -1_000..=0_i64) {
        let used = Used { entries: MEMORY_ENTRIES + 9, bytes: MEMORY_BYTES + 9, in_namespace: 9_999, ..Used::default() };
        prop_assert_eq!(make(0, bytes, &used, &TaskRoom::default(), &[]), Ok(vec![]));
    }
}
