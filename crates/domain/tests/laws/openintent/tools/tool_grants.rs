//! Tool grants: a delegated grant never exceeds its parent, and constraints are enforced.

use entente_domain::ids::{ToolCredentialId, ToolGrantId, VaultId};
use entente_domain::openintent::tools::auth_types::AuthType;
use entente_domain::openintent::tools::tool_credentials::{CredentialAsk, ToolCredential, deposit};
use entente_domain::openintent::tools::tool_grants::{
    Constraints, GrantAsk, GrantStatus, ToolGrant, delegate, grant, together,
};
use entente_domain::openintent::tools::tool_secrets::ToolSecret;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::at;

fn credential() -> ToolCredential {
    let ask = CredentialAsk {
        service: "search".to_owned(),
        label: "key".to_owned(),
        auth_type: AuthType::ApiKey,
        scopes_available: Vec::new(),
        metadata: Map::new(),
        secret: ToolSecret::default(),
        expires_at: None,
    };
    let ids = (VaultId::from(Uuid::from_u128(1)), ToolCredentialId::from(Uuid::from_u128(2)));
    deposit(&ask, ids.0, ids.1, at(0)).unwrap()
}

fn ask(scopes: &[String], tools: &[String], end: Option<i64>) -> GrantAsk {
    GrantAsk {
        agent_id: "agent.bob".to_owned(),
        scopes: scopes.to_vec(),
        context: json!({ "tools": tools }).as_object().unwrap().clone(),
        delegatable: true,
        expires_at: end.map(at),
        ..GrantAsk::default()
    }
}

fn id(n: u128) -> ToolGrantId {
    ToolGrantId::from(Uuid::from_u128(n))
}

fn covered(grant: &ToolGrant) -> Vec<&'static str> {
    ["a", "b", "c", "d", "search"].into_iter().filter(|tool| grant.covers(tool, "search")).collect()
}

#[test]
fn constraints_are_read_strictly_and_kept_to() {
    for wrong in [
        json!({ "max_invocations": 1 }),
        json!({ "max_invocations_per_hour": 2_000_000 }),
        json!({ "max_cost_per_invocation": -1.0 }),
        json!({ "ip_allowlist": ["10.0.0.0/64"] }),
        json!({ "allowed_parameters": ["q"] }),
        json!([]),
    ] {
        assert!(Constraints::read(wrong.clone()).is_err(), "{wrong}");
    }
    let said =
        json!({ "allowed_parameters": { "q": null, "l": ["en", "d*"] }, "ip_allowlist": ["10.0.0.0/8"] });
    let limits = Constraints::read(said).unwrap();
    let inside = Some("10.1.2.3".parse().unwrap());
    let permits = |said: Value| limits.permit(said.as_object().unwrap(), inside).is_ok();
    assert!(permits(json!({})) && permits(json!({ "q": { "any": 1 }, "l": "de" })));
    assert!(!permits(json!({ "l": "fr" })) && !permits(json!({ "l": 1 })) && !permits(json!({ "x": 1 })));
    for outside in [None, Some("192.0.2.1".parse().unwrap()), Some("::1".parse().unwrap())] {
        assert!(limits.permit(&Map::new(), outside).is_err());
    }
    assert!(limits.permit(&Map::new(), Some("::ffff:10.0.0.1".parse().unwrap())).is_ok());
}

#[test]
fn what_is_denied_is_denied_however_it_is_written() {
    let said = json!({ "denied_parameters": {
        "table": "secrets*", "n": 100, "all": true, "ids": [7, "x*", null], "never": null, "text": "1.5",
    } });
    let limits = Constraints::read(said).unwrap();
    let permits = |said: &Value| limits.permit(said.as_object().unwrap(), None).is_ok();
    for denied in [
        json!({ "table": "secrets_of_ada" }),
        json!({ "table": ["secrets"] }),
        json!({ "table": ["open", ["secrets"]] }),
        json!({ "n": 100 }),
        json!({ "n": 100.0 }),
        json!({ "n": "100" }),
        json!({ "n": "1e2" }),
        json!({ "n": [1, "100.0"] }),
        json!({ "all": "true" }),
        json!({ "ids": [1, 7] }),
        json!({ "ids": "7" }),
        json!({ "ids": ["xy"] }),
        json!({ "ids": null }),
        json!({ "never": null }),
        json!({ "never": { "a": 1 } }),
        json!({ "text": 1.5 }),
    ] {
        assert!(!permits(&denied), "{denied}");
    }
    for fine in [
        json!({ "table": ["open"], "n": 101, "all": false, "ids": [8, "y"], "text": "1.25" }),
        json!({ "n": "a hundred", "all": [], "ids": { "x": 7 }, "other": "secrets" }),
    ] {
        assert!(permits(&fine), "{fine}");
    }
}

#[test]
fn of_several_statuses_the_worst_counts() {
    use GrantStatus::{Active, Expired, Revoked, Suspended};
    assert_eq!(together([]), Active);
    assert_eq!(together([Active, Suspended]), Suspended);
    assert_eq!(together([Suspended, Expired, Active]), Expired);
    assert_eq!(together([Revoked, Expired]), Revoked);
}

proptest! {
    #[test]
    fn what_is_passed_on_covers_no_more_and_lasts_no_longer(
        had in vec("[abcd]", 0..4), also in vec("[abcd]", 0..3), end in prop::option::of(1_i64..100),
        asked in vec("[abcd]", 0..4), besides in vec("[abcd]", 0..3), until in prop::option::of(1_i64..100),
    ) {
        let credential = credential();
        let parent = grant(ask(&had, &also, end), &credential, "agent.ada", id(1), at(0)).unwrap();
        let Ok(child) = delegate(ask(&asked, &besides, until), &parent, &credential, id(2), at(0)) else {
            let more = asked.iter().chain(&besides).any(|scope| !had.contains(scope) && !also.contains(scope));
            let longer = matches!((until, end), (Some(until), Some(end)) if until > end);
            prop_assert!(more || longer, "refused without a reason");
            return Ok(());
        };
        prop_assert!(covered(&child).iter().all(|tool| covered(&parent).contains(tool)));
        prop_assert!(parent.expires_at.is_none_or(|last| child.expires_at.is_some_and(|end| end <= last)));
        prop_assert_eq!(child.delegated_from(), Some(parent.id));
        prop_assert_eq!((child.granted_by.as_str(), child.ancestors.len()), ("agent.bob", 1));
    }

    #[test]
    fn a_grant_is_over_the_instant_it_is_due(end in 1_i64..100, now in 0_i64..200, suspended in any::<bool>()) {
        let mut made = grant(ask(&[], &[], Some(end)), &credential(), "agent.ada", id(1), at(0)).unwrap();
        made.suspended = suspended;
        let expected = if now >= end {
            GrantStatus::Expired
        } else if suspended {
            GrantStatus::Suspended
        } else {
            GrantStatus::Active
        };
        prop_assert_eq!(made.status(at(now)), expected);
        made.revoked_at = Some(at(0));
        prop_assert_eq!(made.status(at(now)), GrantStatus::Revoked);
    }
}
