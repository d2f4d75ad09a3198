//! Refusals: the closed list of codes, and messages that no client misreads.

mod spelling;

use std::collections::HashSet;

use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::openintent::agents::{Registration, register};
use entente_domain::openintent::channels::{ChannelAsk, closed, create};
use entente_domain::refusal::{Code, FieldError, Refusal};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::any::at;
use crate::openintent::channels::ADMIN;

/// Clients switch on these codes. A new one is a change of the API; removing or renaming one breaks clients.
const WORDS: &[&str] = &[
    "invalid_json",
    "invalid_request",
    "invalid_parameter",
    "if_match_required",
    "precondition_required",
    "unauthenticated",
    "scope_missing",
    "may_not_act_as",
    "forbidden",
    "access_closed",
    "not_a_member",
    "bad_signature",
    "not_found",
    "method_not_allowed",
    "gone",
    "version_conflict",
    "duplicate_name",
    "already_registered",
    "already_exists",
    "claim_conflict",
    "identity_exists",
    "channel_closed",
    "message_expired",
    "intent_resolved",
    "lease_held",
    "lease_ended",
    "idempotency_mismatch",
    "request_timeout",
    "too_large",
    "too_deep",
    "nul_character",
    "unprocessable",
    "already_expired",
    "not_a_request",
    "bad_proof",
    "no_recipient",
    "dependency_circle",
    "invalid_transition",
    "PERMISSION_DENIED",
    "LEASE_SUBSET_VIOLATION",
    "JOB_NOT_FOUND",
    "DUPLICATE_KEY",
    "AGENT_NOT_AVAILABLE",
    "AGENT_VERSION_NOT_AVAILABLE",
    "CANCELLED",
    "LEASE_EXPIRED",
    "BUDGET_EXHAUSTED",
    "RESUME_WINDOW_EXPIRED",
    "CLAIM_LOST",
    "JOB_ENDED",
    "NO_RESULT",
    "RESULT_TOO_LARGE",
    "invalid_envelope",
    "unsupported_version",
    "mve5_not_routable",
    "outside_window",
    "duplicate_id",
    "reply_mismatch",
    "task_closed",
    "sig_unverifiable",
    "signature_required",
    "from_mismatch",
    "unknown_recipient",
    "reserved_namespace",
    "intent_not_allowed",
    "payload_invalid",
    "reference_hash_mismatch",
    "invalid_moment",
    "deliberation_required",
    "same_question",
    "digest_mismatch",
    "moment_not_open",
    "not_the_principal",
    "hatch_closed",
    "circumstances_changed",
    "governance_violation",
    "already_decided",
    "stopped",
    "stale_epoch",
    "epoch_required",
    "loop_stopped",
    "loop_slowed",
    "rate_limited",
    "storage_full",
    "too_many_streams",
    "unavailable",
    "internal",
];

#[test]
fn the_list_of_codes_is_closed() {
    let words: Vec<&str> = Code::ALL.iter().map(|code| code.wire()).collect();
    assert_eq!(words, WORDS);
    assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len(), "each word is one code");
}

#[test]
fn a_code_is_a_word_with_a_meaning() {
    for code in Code::ALL {
        // ARCP writes its codes in capitals (§12), and so do codes of its resources that ARCP does not define.
        let small = code.wire().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let capital = code.wire().bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        assert!(small || capital, "{code:?}");
        assert_eq!(serde_json::to_value(code).unwrap(), code.wire());
        assert!(code.meaning().ends_with('.') && !code.meaning().starts_with(' '), "{code:?}");
        if capital {
            continue;
        }
        // The body of a 409 contains `code` and its title (OI-3.5.3).
        let about_one = [Code::LeaseHeld, Code::LeaseEnded].contains(code);
        let said = format!("{} {}", code.wire(), code.meaning()).to_lowercase();
        assert_eq!(said.contains("lease"), about_one, "{code:?}");
    }
}

/// A client takes any "lease" in a 409 for a lease conflict, "please" and "release" included (OI-3.5.3).
fn is_no_lease(refusal: &Refusal) {
    let said = format!("{} {:?}", refusal.message, refusal.errors).to_lowercase();
    assert!(!said.contains("lease"), "{said}");
}

#[test]
fn a_conflict_never_speaks_of_a_lease() {
    is_no_lease(&Idempotency::mismatch());
    let ask = ChannelAsk::implicit("release-notes");
    let (intent, id) = (IntentId::from(Uuid::from_u128(1)), ChannelId::from(Uuid::from_u128(2)));
    let mut channel = create(ask, intent, "agent.please", ADMIN, id, at(0)).unwrap();
    is_no_lease(&closed(&channel));
    channel.closed_at = Some(at(1));
    is_no_lease(&closed(&channel));
    let ask = || Registration { agent_id: "release-bot".to_owned(), ..Registration::default() };
    let agent = register(None, ask(), "agent.please", at(0)).unwrap();
    let taken = register(Some(&agent), ask(), "agent.other", at(0)).unwrap_err();
    assert_eq!(taken.code, Code::AlreadyRegistered);
    is_no_lease(&taken);
}

/// AEE gateways name faults by JSON Pointers (RFC 6901), clients of the reference server by lists.
#[test]
fn a_fault_says_where_it_is_in_both_forms() {
    for (loc, pointer) in [
        (&["body", "payload", "references", "0", "id"][..], json!("/payload/references/0/id")),
        (&["body", "a/b", "c~d", ""], json!("/a~1b/c~0d/")),
        (&["body"], json!("")),
        (&["query", "limit"], json!(null)),
        (&[], json!(null)),
    ] {
        let loc: Vec<String> = loc.iter().map(|part| (*part).to_owned()).collect();
        let fault =
            json!(FieldError { kind: "missing".to_owned(), loc: loc.clone(), msg: "it is".to_owned() });
        assert_eq!((&fault["loc"], &fault["pointer"]), (&json!(loc), &pointer));
        assert_eq!((&fault["type"], &fault["msg"]), (&json!("missing"), &json!("it is")));
        assert_eq!(fault.get("pointer").is_some(), !pointer.is_null());
    }
}

proptest! {
    #[test]
    fn a_version_conflict_tells_the_version(version: i64) {
        let refusal = Refusal::version_conflict(version);
        prop_assert_eq!((refusal.code, refusal.current_version), (Code::VersionConflict, Some(version)));
        prop_assert!(refusal.message.contains(&version.to_string()));
        is_no_lease(&refusal);
    }

    #[test]
    fn a_field_is_named_with_its_place(member: String, kind: String, message: String) {
        let refusal = Refusal::field(Code::InvalidRequest, &member, &kind, message.clone());
        prop_assert_eq!(&refusal.message, &message);
        prop_assert_eq!(&refusal.errors[0].loc, &["body".to_owned(), member]);
        prop_assert_eq!(refusal.to_string(), message);
        let shown = serde_json::to_value(&refusal.errors[0]).unwrap();
        prop_assert_eq!(&shown["type"], &kind, "RFC 7807's members as existing clients read them");
    }
}
