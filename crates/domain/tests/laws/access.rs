//! Access to an intent (RFC-0011): levels, standings, entries and requests.

use entente_domain::access::access_requests::{RequestAsk, RequestStatus, request};
use entente_domain::access::{
    AccessLevel, Acl, Entry, EntryAsk, Facts, Level, Policy, access, check_list, check_reason, grant,
};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{AccessRequestId, EntryId, IntentId};
use entente_domain::limits::{LIST_ITEMS, TEXT_BYTES};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

use crate::any::at;

const LEVELS: [Level; 3] = [Level::Read, Level::Write, Level::Admin];
const AGENTS: [&str; 4] = ["ada", "bob", "eve", "kim"];

fn intent() -> IntentId {
    IntentId::from(Uuid::from_u128(1))
}

fn entry(who: &str, permission: Level, expires_at: Option<Timestamp>) -> Entry {
    let ask = EntryAsk { expires_at, ..ask(who, Some(permission)) };
    Entry {
        expires_at,
        ..grant(EntryAsk { expires_at: None, ..ask }, intent(), "ada", EntryId::from(Uuid::nil()), at(0))
            .unwrap()
    }
}

fn ask(who: &str, permission: Option<Level>) -> EntryAsk {
    EntryAsk {
        principal_id: who.to_owned(),
        principal_type: None,
        permission,
        expires_at: None,
        reason: None,
    }
}

/// Times near `at(5)`, so that they often coincide.
fn soon() -> impl Strategy<Value = Timestamp> {
    (3_i64..8).prop_map(at)
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let one = (select(&AGENTS[..]), select(&LEVELS[..]), proptest::option::of(soon()));
    vec(one.prop_map(|(who, level, end)| entry(who, level, end)), 0..5)
}

fn policy() -> impl Strategy<Value = Policy> {
    select(vec![Policy::Open, Policy::Closed])
}

fn acl(default_policy: Policy, entries: Vec<Entry>) -> Acl {
    Acl { intent_id: intent(), default_policy, strict: false, entries }
}

fn code<T>(result: Result<T, entente_domain::refusal::Refusal>) -> Option<Code> {
    result.err().map(|refusal| refusal.code)
}

#[test]
fn words_are_read_as_they_are_written() {
    for level in LEVELS {
        assert_eq!(Level::parse(level.as_str()), Some(level));
        assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
    }
    for policy in [Policy::Open, Policy::Closed] {
        assert_eq!(Policy::parse(policy.as_str()), Some(policy));
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
    }
    for status in [RequestStatus::Pending, RequestStatus::Approved, RequestStatus::Denied] {
        assert_eq!(RequestStatus::parse(status.as_str()), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
    // The SDK raises for any other policy (OI-3.7.2).
    assert_eq!(
        (Level::parse("owner"), Policy::parse("private"), RequestStatus::parse("")),
        (None, None, None)
    );
}

/// OI-7.1 to OI-7.3, row by row.
#[test]
fn the_unlisted_stand_where_the_contract_says() {
    let others = || vec![entry("bob", Level::Write, None)];
    let cases = [
        (Policy::Open, vec![], Some(Level::Admin)),
        (Policy::Open, others(), Some(Level::Read)),
        (Policy::Closed, vec![], None),
        (Policy::Closed, others(), None),
    ];
    for (policy, entries, level) in cases {
        let stands = acl(policy, entries).access("eve", "ada", at(0));
        assert_eq!(stands, AccessLevel { level, granted: false, until: None }, "{policy:?}");
        assert!(!stands.manages(), "what is left open to everybody is nobody's to lock");
    }
}

proptest! {
    #[test]
    fn a_level_includes_those_below(level in proptest::option::of(select(&LEVELS[..])), granted: bool) {
        let stands = AccessLevel { level, granted, until: None };
        for (low, high) in [(Level::Read, Level::Write), (Level::Write, Level::Admin)] {
            prop_assert!(!stands.reaches(high) || stands.reaches(low));
        }
        for need in LEVELS {
            let expected = match level {
                None => Some(Code::AccessClosed),
                Some(level) if level < need => Some(Code::Forbidden),
                Some(_) => None,
            };
            prop_assert_eq!(code(stands.require(need)), expected);
            prop_assert_eq!(stands.reaches(need), expected.is_none());
        }
        prop_assert_eq!(stands.require_manager().is_ok(), stands.manages());
        prop_assert_eq!(stands.manages(), granted && level == Some(Level::Admin));
    }

    #[test]
    fn who_made_it_is_always_its_admin(policy in policy(), entries in entries(), who in select(&AGENTS[..]), now in soon()) {
        let stands = acl(policy, entries).access(who, who, now);
        prop_assert!(stands.manages() && stands.until.is_none(), "no entry takes from the creator, and none ends it");
    }

    #[test]
    fn an_entry_that_has_ended_is_none(
        policy in policy(), entries in entries(), who in select(&AGENTS[..]), now in soon(),
    ) {
        let left: Vec<Entry> = entries.iter().filter(|e| e.expires_at.is_none_or(|end| now < end)).cloned().collect();
        let stands = acl(policy, entries).access(who, "root", now);
        prop_assert_eq!(stands, acl(policy, left).access(who, "root", now));
    }

    #[test]
    fn the_best_entry_counts_wherever_it_stands(
        policy in policy(), entries in entries(), change in 0_usize..5, who in select(&AGENTS[..]), now in soon(),
    ) {
        let mut transition = entries.clone();
        transition.rotate_left(change.min(entries.len()));
        let stands = acl(policy, entries.clone()).access(who, "root", now);
        prop_assert_eq!(stands, acl(policy, transition).access(who, "root", now));
        let own = entries.iter().filter(|e| e.principal_id == who && e.in_force(now));
        let best = own.map(|e| e.permission).max();
        prop_assert_eq!(stands.granted, best.is_some());
        if let Some(best) = best {
            prop_assert_eq!(stands.level, Some(best));
            let mut ends = entries.iter().filter(|e| e.principal_id == who && e.permission == best && e.in_force(now));
            prop_assert!(ends.any(|e| e.expires_at == stands.until), "it ends when the entry that gives it ends");
        }
    }

    #[test]
    fn what_an_entry_gives_lasts_as_long_as_it_says(
        policy in policy(), entries in entries(), who in select(&AGENTS[..]), now in soon(),
    ) {
        let list = acl(policy, entries);
        let stands = list.access(who, "root", now);
        if let (true, Some(end)) = (stands.granted, stands.until) {
            prop_assert!(now < end);
            prop_assert_eq!(list.access(who, "root", at(end.timestamp_micros() - 1)).level, stands.level);
            let after = list.access(who, "root", end);
            prop_assert!(!after.granted || after.level < stands.level, "the same level ends when its last entry does");
        }
    }

    #[test]
    fn another_entry_never_takes_from_the_listed(
        policy in policy(), entries in entries(), more in entries(), who in select(&AGENTS[..]), now in soon(),
    ) {
        let before = acl(policy, entries.clone()).access(who, "root", now);
        let after = acl(policy, [entries, more].concat()).access(who, "root", now);
        if before.granted {
            prop_assert!(after.granted && after.level >= before.level);
        }
        if policy == Policy::Closed {
            prop_assert!(after.level >= before.level, "a closed list only ever lets more in");
        }
    }

    #[test]
    fn closing_takes_from_the_unlisted_only(entries in entries(), who in select(&AGENTS[..]), now in soon()) {
        let open = acl(Policy::Open, entries.clone()).access(who, "root", now);
        let closed = acl(Policy::Closed, entries).access(who, "root", now);
        prop_assert!(open.level.is_some(), "an open list keeps nobody out");
        if open.granted {
            prop_assert_eq!(closed, open);
        } else {
            prop_assert_eq!(closed.level, None);
        }
    }

    /// The hot path reads a few facts of many lists at once; they give the same decision as the whole list.
    #[test]
    fn the_facts_decide_as_the_list(policy in policy(), entries in entries(), who in select(&AGENTS[..]), now in soon()) {
        let mut own: Vec<&Entry> = entries.iter().filter(|e| e.principal_id == who && e.in_force(now)).collect();
        own.sort_by_key(|e| (e.permission, e.expires_at.is_none(), e.expires_at));
        let facts = Facts {
            created_by: "kim", policy, has_entries: entries.iter().any(|e| e.in_force(now)),
            own: own.last().map(|e| (e.permission, e.expires_at)),
        };
        prop_assert_eq!(access(who, facts), acl(policy, entries.clone()).access(who, "kim", now));
    }

    #[test]
    fn an_entry_is_made_as_asked(level in proptest::option::of(select(&LEVELS[..])), end in proptest::option::of(soon()), now in soon()) {
        let asked = EntryAsk { expires_at: end, reason: Some("why".to_owned()), ..ask("bob", level) };
        let made = grant(asked, intent(), "ada", EntryId::from(Uuid::nil()), now);
        if end.is_some_and(|end| end <= now) {
            prop_assert_eq!(code(made), Some(Code::AlreadyExpired));
        } else {
            let made = made.unwrap();
            prop_assert!(made.in_force(now), "what is granted counts");
            prop_assert_eq!(made.permission, level.unwrap_or(Level::Read));
            prop_assert_eq!((&*made.principal_type, &*made.granted_by, made.granted_at), ("agent", "ada", now));
        }
    }

    /// A valid request can be approved: the approval creates an entry from it.
    #[test]
    fn a_lawful_request_can_be_approved(who in "[a-z*: ]{0,4}", kind in proptest::option::of("[a-z*: ]{0,4}"), now in soon()) {
        let asked = RequestAsk {
            principal_id: who, principal_type: kind, permission: None, reason: String::new(), capabilities: Vec::new(),
        };
        if let Ok(made) = request(asked, intent(), AccessRequestId::from(Uuid::nil()), now) {
            prop_assert_eq!(made.status, RequestStatus::Pending);
            prop_assert_eq!(made.requested_permission, Level::Write);
            let entry = EntryAsk {
                principal_id: made.principal_id, principal_type: Some(made.principal_type),
                permission: Some(made.requested_permission), expires_at: None, reason: None,
            };
            prop_assert_eq!(code(grant(entry, intent(), "ada", EntryId::from(Uuid::nil()), now)), None);
        }
    }
}

#[test]
fn what_is_too_long_is_refused() {
    let reason = |bytes: usize| "x".repeat(bytes);
    assert_eq!(check_reason(Some(&reason(TEXT_BYTES))), Ok(()));
    assert_eq!(code(check_reason(Some(&reason(TEXT_BYTES + 1)))), Some(Code::TooLarge));
    assert_eq!(check_reason(None), Ok(()));
    let list = |items: usize| vec!["search".to_owned(); items];
    assert_eq!(check_list("capabilities", &list(LIST_ITEMS)), Ok(()));
    assert_eq!(code(check_list("capabilities", &list(LIST_ITEMS + 1))), Some(Code::TooLarge));
    assert_eq!(code(check_list("capabilities", &[String::new()])), Some(Code::InvalidRequest));
    let asked = RequestAsk {
        principal_id: "bob".to_owned(),
        principal_type: None,
        permission: None,
        reason: reason(TEXT_BYTES + 1),
        capabilities: Vec::new(),
    };
    assert_eq!(
        code(request(asked, intent(), AccessRequestId::from(Uuid::nil()), at(0))),
        Some(Code::TooLarge)
    );
}
