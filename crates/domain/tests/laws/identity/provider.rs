//! Accounts of a provider: which person one is, which teams its groups are, whom it may become, and that a login that has
//! begun belongs to its browser.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::identity::principals::PrincipalKind;
use entente_domain::identity::provider::{Claims, Named, ProviderPolicy, may_become};
use entente_domain::identity::provider_logins::{LOGIN_SECONDS, ProviderLogin, is_browser, mint_browser};
use entente_domain::ids::{Chance, KeyId};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::any::at;

fn policy(name_claim: &str) -> ProviderPolicy {
    let team = |group: &str, teams: &[&str]| {
        (group.to_owned(), teams.iter().map(|team| (*team).to_owned()).collect::<BTreeSet<_>>())
    };
    ProviderPolicy {
        issuer: "https://login.example.com".to_owned(),
        name_claim: name_claim.to_owned(),
        principal: "human.{claim}".to_owned(),
        groups_claim: "groups".to_owned(),
        teams: BTreeMap::from([
            team("eng", &["team.eng", "team.all"]),
            team("ops", &["team.ops", "team.all"]),
        ]),
        admin_group: Some("admins".to_owned()),
        creates: false,
        takes_over: false,
    }
}

fn claims(value: Value) -> Claims {
    match value {
        Value::Object(claims) => claims,
        other => panic!("{other} are no claims"),
    }
}

#[test]
fn a_claim_names_the_person() {
    let account = policy("sub").account(&claims(json!({ "sub": "248289761001", "name": "Ada L." }))).unwrap();
    assert_eq!(
        (account.subject.as_str(), account.principal_id.as_str()),
        ("248289761001", "human.248289761001")
    );
    assert_eq!(account.display_name.as_deref(), Some("Ada L."));
    assert_eq!((account.teams.len(), account.admin), (0, false));
    let named = |claim: &str, value: Value| {
        policy(claim)
            .account(&claims(value))
            .map(|account| account.principal_id)
            .map_err(|refusal| refusal.code)
    };
    let told = json!({ "sub": "1", "preferred_username": "ada", "email": "ada@example.com", "email_verified": true });
    assert_eq!(named("preferred_username", told.clone()).as_deref(), Ok("human.ada"));
    assert_eq!(named("email", told).as_deref(), Ok("human.ada@example.com"));
    for missing in [
        json!({ "sub": "1" }),
        json!({ "sub": "1", "preferred_username": "" }),
        json!({ "sub": "1", "preferred_username": ["ada"] }),
        json!({ "sub": "1", "preferred_username": "ada\n" }),
        json!({ "sub": "1", "preferred_username": "a".repeat(200) }),
        json!({ "preferred_username": "ada" }),
    ] {
        assert_eq!(named("preferred_username", missing.clone()), Err(Code::Forbidden), "{missing}");
    }
    // A display name that is none does not keep anybody out.
    let odd = claims(json!({ "sub": "1", "name": " \n" }));
    assert_eq!(policy("sub").account(&odd).unwrap().display_name, None);
}

#[test]
fn an_address_names_a_person_only_when_the_provider_has_verified_it() {
    for verified in [json!(false), json!("true"), json!(1), Value::Null] {
        let told = claims(json!({ "sub": "1", "email": "ada@example.com", "email_verified": verified }));
        assert!(policy("email").account(&told).is_err(), "{verified}");
    }
    assert!(policy("email").account(&claims(json!({ "sub": "1", "email": "ada@example.com" }))).is_err());
    let none = claims(json!({ "sub": "1", "email": "agent.x", "email_verified": true }));
    assert!(policy("email").account(&none).is_err(), "it is no address");
}

#[test]
fn groups_are_the_teams_of_the_mapping() {
    let account = |groups: Value| policy("sub").account(&claims(json!({ "sub": "1", "groups": groups })));
    let teams = |groups: Value| Vec::from_iter(account(groups).unwrap().teams);
    assert_eq!(teams(json!(["eng", "unmapped", 7])), ["team.all", "team.eng"]);
    assert_eq!(teams(json!("ops")), ["team.all", "team.ops"]);
    assert_eq!(teams(json!([])), Vec::<String>::new());
    assert_eq!(teams(Value::Null), Vec::<String>::new());
    assert!(account(json!({ "eng": true })).is_err());
    assert!(account(json!(["admins"])).unwrap().admin);
    assert!(!account(json!(["eng"])).unwrap().admin);
    assert!(
        !ProviderPolicy { admin_group: None, ..policy("sub") }
            .account(&claims(json!({ "sub": "1", "groups": ["", "admins"] })))
            .unwrap()
            .admin
    );
    assert_eq!(policy("sub").mapped_teams(), BTreeSet::from(["team.all", "team.eng", "team.ops"]));
    // In an object, as Keycloak has them; a claim with dots in its own name comes first.
    let inside = ProviderPolicy { groups_claim: "realm.roles".to_owned(), ..policy("sub") };
    let told = claims(json!({ "sub": "1", "realm": { "roles": ["eng"] } }));
    assert_eq!(inside.account(&told).unwrap().teams.len(), 2);
    let told = claims(json!({ "sub": "1", "realm.roles": ["ops"], "realm": { "roles": ["eng", "admins"] } }));
    assert!(inside.account(&told).unwrap().teams.contains("team.ops"));
    // Too many groups to be sent are not none.
    let elsewhere = claims(json!({ "sub": "1", "_claim_names": { "groups": "src1" } }));
    assert!(policy("sub").account(&elsewhere).is_err());
}

#[test]
fn what_is_missing_is_asked_for_elsewhere() {
    let lacks = |policy: &ProviderPolicy, value: Value| policy.lacks(&claims(value));
    assert!(!lacks(&policy("sub"), json!({ "sub": "1", "groups": [] })));
    assert!(lacks(&policy("sub"), json!({ "sub": "1" })), "the groups are");
    let plain = ProviderPolicy { teams: BTreeMap::new(), admin_group: None, ..policy("email") };
    assert!(lacks(&plain, json!({ "sub": "1" })));
    assert!(lacks(&plain, json!({ "sub": "1", "email": "a@b" })), "whether it is verified is");
    assert!(!lacks(&plain, json!({ "sub": "1", "email": "a@b", "email_verified": false })));
}

#[test]
fn an_account_takes_over_nobody() {
    for creates in [false, true] {
        for takes_over in [false, true] {
            let policy = ProviderPolicy { creates, takes_over, ..policy("sub") };
            let may = |named| may_become(&policy, "human.ada", named).map_err(|refusal| refusal.code);
            assert_eq!(may(None), if creates { Ok(true) } else { Err(Code::Forbidden) });
            for kind in [PrincipalKind::Human, PrincipalKind::Agent, PrincipalKind::Service] {
                for bound in [false, true] {
                    for has_way_in in [false, true] {
                        let open = kind == PrincipalKind::Human && !bound && (!has_way_in || takes_over);
                        let expected = if open { Ok(false) } else { Err(Code::Forbidden) };
                        assert_eq!(may(Some(Named { kind, bound, has_way_in })), expected);
                    }
                }
            }
        }
    }
}

struct Drawn(std::sync::atomic::AtomicU64);

impl Chance for Drawn {
    fn bits(&self) -> u128 {
        let next = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        u128::from(next).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
    }
}

proptest! {
    #[test]
    fn a_login_belongs_to_its_browser_until_it_is_over(seed in 1_u64.., secret in any::<[u8; 32]>(), path in "[a-z/?= ]{0,40}") {
        let chance = Drawn(seed.into());
        let (browser, other) = (mint_browser(&chance), mint_browser(&chance));
        prop_assert!(is_browser(&browser) && !is_browser("") && !is_browser(&browser[1..]));
        let next = format!("/{path}");
        let replaces = (seed % 2 == 0).then(|| KeyId::mint(at(0), &chance));
        let login = ProviderLogin::begin(&chance, &next, replaces, at(0));
        let state = login.state(&secret, &browser).unwrap();
        let last = i64::from(LOGIN_SECONDS) * 1_000_000 - 1;
        prop_assert_eq!(ProviderLogin::open(&state, &secret, &browser, at(last)), Some(login.clone()));
        prop_assert_eq!(ProviderLogin::open(&state, &secret, &browser, at(last + 1)), None);
        prop_assert_eq!(ProviderLogin::open(&state, &secret, &other, at(0)), None);
        prop_assert_eq!(ProviderLogin::open(&state, &[0; 31], &browser, at(0)), None);
        // What goes through the provider gives away neither the cookie, the nonce nor the verifier.
        let (nonce, verifier) = (login.nonce(&secret, &browser), login.verifier(&secret, &browser));
        for hidden in [&browser, &nonce, &verifier] {
            prop_assert!(!state.contains(hidden.as_str()));
        }
        // RFC 7636 §4.1: 43 to 128 characters.
        prop_assert_eq!(verifier.len(), 43);
        let second = ProviderLogin::begin(&chance, &next, None, at(0));
        let all = BTreeSet::from([nonce, verifier, second.nonce(&secret, &browser), second.verifier(&secret, &browser),
            login.nonce(&secret, &other), login.verifier(&secret, &other)]);
        prop_assert_eq!(all.len(), 6, "each login has its own");
        prop_assert_ne!(login.digest(), second.digest());
    }
}
