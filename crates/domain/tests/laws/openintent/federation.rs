//! Federation: signatures match those of the OpenIntent SDK byte for byte, only the right peer is accepted, and a
//! forwarded intent never has more rights than it came with.

mod callbacks;
mod signing;

use entente_domain::globs::Glob;
use entente_domain::identity::signatures::Signer;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::openintent::agents::{Agent, Registration, register};
use entente_domain::openintent::federation::deliveries::{Delivery, check_signed, fingerprint};
use entente_domain::openintent::federation::dispatches::{
    DelegationScope, DispatchAsk, Origin, State, letter,
};
use entente_domain::openintent::federation::signing::{canonical, check, check_fresh, sign};
use entente_domain::openintent::federation::{
    Federation, Part, Peer, Relationship, did_of, is_final, is_same_did,
};
use entente_domain::openintent::intents::{Intent, IntentAsk, IntentStatus, create};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::any::{self, Dice, at};

fn members(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn signer(n: u8) -> Signer {
    Signer::from_seed(&[n; 32])
}

fn peer(url: &str, n: u8) -> Peer {
    Peer {
        url: url.to_owned(),
        did: did_of(url).unwrap(),
        keys: vec![signer(n).public_key()],
        relationship: Relationship::Peer,
        delivers: true,
        takes: true,
        share: vec![Part::Description],
        agents: Vec::new(),
    }
}

fn federation() -> Federation {
    Federation {
        url: "https://b.example".to_owned(),
        did: "did:web:b.example".to_owned(),
        peers: vec![peer("https://a.example", 1), peer("https://c.example:8443", 3)],
        export: vec![Glob::parse("agent.public.*").unwrap()],
    }
}

proptest! {
    #[test]
    fn the_signed_text_is_ascii_and_says_the_same(body in any::object()) {
        let text = canonical(&body);
        let delete = char::from(0x7f);
        prop_assert!(text.is_ascii() && !text.contains(delete));
        let mut bare = body;
        bare.remove("signature");
        let read: Map<String, Value> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &bare);
        // Parsing and writing it again gives the same text.
        prop_assert_eq!(canonical(&read), text);
    }

    #[test]
    fn floats_come_back_as_they_were(float in any::<f64>().prop_filter("a number", |f| f.is_finite())) {
        let text = canonical(&Map::from_iter([("f".to_owned(), Value::from(float))]));
        let written = text.trim_start_matches("{\"f\":").trim_end_matches('}');
        prop_assert!(written.contains(['.', 'e']), "{} would be a whole number to Python", written);
        prop_assert_eq!(written.parse::<f64>().unwrap().to_bits(), float.to_bits());
    }

    #[test]
    fn what_is_signed_is_good_until_it_is_touched(body in any::object(), name in "[a-c]", value in any::json(), now in any::moment()) {
        let key = [signer(1).public_key()];
        let text = sign(body, "created_at", &signer(1), now);
        let signed: Map<String, Value> = serde_json::from_str(&text).unwrap();
        prop_assert!(check(&signed, &key).is_ok());
        prop_assert!(check_fresh(&signed, "created_at", now).is_ok());
        prop_assert!(check(&signed, &[signer(2).public_key()]).is_err());
        let mut touched = signed.clone();
        touched.insert(name, value);
        prop_assert_eq!(check(&touched, &key).is_ok(), touched == signed);
        touched.remove("signature");
        prop_assert_eq!(check(&touched, &key).unwrap_err().code, Code::SignatureRequired);
    }

    #[test]
    fn time_and_signature_do_not_make_another_delivery(body in any::object(), one in any::moment(), other in any::moment()) {
        let read = |text: String| -> Map<String, Value> { serde_json::from_str(&text).unwrap() };
        let first = read(sign(body.clone(), "created_at", &signer(1), one));
        let again = read(sign(body.clone(), "created_at", &signer(2), other));
        prop_assert_eq!(fingerprint(&first), fingerprint(&again));
        let mut more = again;
        more.insert("one more".to_owned(), json!(1));
        prop_assert_ne!(fingerprint(&first), fingerprint(&more));
    }

    #[test]
    fn nothing_is_passed_on_with_more_than_it_came_with(parent in scope(), child in scope()) {
        let now = at(0);
        let Ok(passed) = parent.attenuated(&child, now) else {
            prop_assert!(parent.max_delegation_depth < 1 || parent.has_ended(now));
            return Ok(());
        };
        prop_assert!(passed.max_delegation_depth < parent.max_delegation_depth);
        for operation in ["state.patch", "events.log", "a", "b"] {
            prop_assert!(!passed.allows(operation) || parent.allows(operation) && child.allows(operation));
        }
        for later in [0, 1_500_000, 2_500_000, 9_000_000].map(at) {
            prop_assert!(!parent.has_ended(later) || passed.has_ended(later));
        }
    }
}

fn scope() -> impl Strategy<Value = DelegationScope> {
    let words = || proptest::sample::subsequence(vec!["state.patch", "events.log", "a", "b"], 0..4);
    let ends = prop_oneof![
        Just(None),
        Just(Some("1970-01-01T00:00:01Z".to_owned())),
        Just(Some("1970-01-01T00:00:02+00:00".to_owned())),
        Just(Some("1969-01-01T00:00:00Z".to_owned()))
    ];
    (words(), words(), -1_i64..4, ends).prop_map(|(permissions, denied, depth, expires_at)| DelegationScope {
        permissions: permissions.into_iter().map(str::to_owned).collect(),
        denied_operations: denied.into_iter().map(str::to_owned).collect(),
        max_delegation_depth: depth,
        expires_at,
    })
}

#[test]
fn a_server_is_called_by_its_url_and_its_did_and_nothing_else() {
    let federation = federation();
    let c = &federation.peers[1];
    assert_eq!(c.did, "did:web:c.example%3A8443");
    for name in [
        "https://c.example:8443",
        "https://C.example:8443/",
        "did:web:c.example:8443",
        "did:web:c.example%3a8443",
    ] {
        assert_eq!(federation.peer(name), Some(c), "{name}");
    }
    for name in
        ["https://c.example", "http://c.example:8443", "https://c.example:8443/x", "", "did:web:c.example"]
    {
        assert_eq!(federation.peer(name), None, "{name}");
    }
    assert!(is_same_did("did:web:x%3A1", "did:web:x:1") && !is_same_did("did:web:x:1", "did:web:x:2"));
    for url in ["https://c.example:8443/cb", "https://c.example:8443"] {
        assert!(c.owns(url), "{url}");
    }
    for url in [
        "https://c.example/cb",
        "http://c.example:8443/",
        "https://c.example.evil:8443/",
        "https://a@c.example:8443/",
        "https://c.example:8443@169.254.169.254/",
        "ftp://c.example:8443/",
        "cb",
    ] {
        assert!(!c.owns(url), "{url}");
    }
    assert!(federation.peers[0].owns("https://a.example:443/cb"), "a port that goes without saying");
}

fn agent(name: &str, visibility: Option<&str>) -> Agent {
    let mut metadata = Map::new();
    metadata.extend(visibility.map(|word| ("federation_visibility".to_owned(), json!(word))));
    let ask = Registration { agent_id: name.to_owned(), metadata, ..Registration::default() };
    register(None, ask, "service.x", at(0)).unwrap()
}

#[test]
fn nobody_is_exported_who_was_not_meant_to_be() {
    let mut federation = federation();
    federation.peers[0].agents = vec![Glob::parse("agent.public.a*").unwrap()];
    let shown = |name: &str, word: Option<&str>, to: Option<usize>| {
        federation.shows(&agent(name, word), to.map(|n| &federation.peers[n]))
    };
    assert!(shown("agent.public.ada", None, None) && shown("agent.public.ada", Some("public"), Some(0)));
    assert!(!shown("agent.ada", Some("public"), None), "an agent cannot export itself");
    assert!(
        !shown("agent.public.ada", Some("private"), Some(0))
            && !shown("agent.public.ada", Some("hidden"), None)
    );
    assert!(
        !shown("agent.public.ada", Some("unlisted"), None)
            && shown("agent.public.ada", Some("unlisted"), Some(0))
    );
    assert!(!shown("agent.public.bob", None, Some(0)) && shown("agent.public.bob", None, Some(1)));
}

fn intent(state: Value) -> Intent {
    let ask = IntentAsk {
        title: "Translate".to_owned(),
        description: "all of it".to_owned(),
        parent_id: None,
        depends_on: Vec::new(),
        constraints: members(json!({ "secret": true })),
        state: members(state),
        status: IntentStatus::Active,
        governance_policy: None,
    };
    create(ask, "agent.ada", IntentId::from(Uuid::from_u128(9)), at(0)).unwrap()
}

fn id() -> DispatchId {
    DispatchId::mint(at(0), &Dice(1))
}

#[test]
fn only_what_the_operator_shares_leaves() {
    let mut federation = federation();
    let ask = DispatchAsk::default();
    let sent = letter(&federation, &federation.peers[0], &intent(json!({ "a": 1 })), &ask, None, id(), at(0))
        .unwrap();
    assert_eq!(sent["intent_title"], "Translate");
    assert_eq!((&sent["intent_description"], &sent["intent_state"]), (&json!("all of it"), &json!({})));
    assert_eq!(sent["intent_constraints"], json!({}));
    assert_eq!(sent["callback_url"], "https://b.example/api/v1/federation/callbacks");
    federation.peers[0].share = vec![Part::State, Part::Constraints];
    let sent = letter(&federation, &federation.peers[0], &intent(json!({ "a": 1 })), &ask, None, id(), at(0))
        .unwrap();
    assert_eq!((&sent["intent_description"], &sent["intent_state"]), (&json!(""), &json!({ "a": 1 })));
    assert_eq!(sent["intent_constraints"], json!({ "secret": true }));
    // Questions of the intent to its own people are not shared.
    let mut asking = intent(json!({ "a": 1 }));
    asking.state.insert("_suspension".to_owned(), json!({ "question": "May I?" }));
    let sent = letter(&federation, &federation.peers[0], &asking, &ask, None, id(), at(0)).unwrap();
    assert_eq!(sent["intent_state"], json!({ "a": 1 }));
    let large = intent(json!({ "a": "x".repeat(600_000) }));
    let refused = letter(&federation, &federation.peers[0], &large, &ask, None, id(), at(0)).unwrap_err();
    assert_eq!(refused.code, Code::TooLarge);
    let elsewhere =
        DispatchAsk { callback_url: Some("https://c.example/".to_owned()), ..DispatchAsk::default() };
    let refused =
        letter(&federation, &federation.peers[0], &intent(json!({})), &elsewhere, None, id(), at(0))
            .unwrap_err();
    assert_eq!(refused.code, Code::Unprocessable);
}

#[test]
fn what_came_from_a_peer_goes_on_by_its_rules() {
    let federation = federation();
    let pass = |origin: Origin, ask: DispatchAsk| {
        letter(&federation, &federation.peers[0], &intent(json!({})), &ask, Some(&origin), id(), at(0))
    };
    // The default depth is one, and this intent has already been forwarded.
    let sent = pass(Origin::default(), DispatchAsk::default()).unwrap();
    assert_eq!(sent["delegation_scope"]["max_delegation_depth"], 0);
    let last = DelegationScope { max_delegation_depth: 0, ..DelegationScope::default() };
    let refused = pass(Origin { scope: Some(last), policy: None }, DispatchAsk::default()).unwrap_err();
    assert_eq!(refused.code, Code::Forbidden);
    let policy = Some(members(json!({ "budget": { "cost_ceiling_usd": 1 } })));
    let origin = Origin { scope: None, policy: policy.clone() };
    let sent = pass(origin.clone(), DispatchAsk::default()).unwrap();
    assert_eq!(sent["federation_policy"]["budget"]["cost_ceiling_usd"], 1);
    let refused = pass(origin, DispatchAsk { policy, ..DispatchAsk::default() }).unwrap_err();
    assert_eq!(refused.code, Code::Unprocessable);
}

fn delivery(more: Value) -> (Delivery, Map<String, Value>) {
    let mut body = members(json!({
        "dispatch_id": "d-1", "source_server": "https://a.example", "target_server": "https://b.example",
        "intent_id": "i-1", "intent_title": "Translate",
    }));
    body.extend(members(more));
    (serde_json::from_value(Value::Object(body.clone())).unwrap(), body)
}

#[test]
fn a_delivery_is_its_peers_for_us_and_of_now() {
    let federation = federation();
    let peer = &federation.peers[0];
    let judge = |more: Value, n: u8, seconds: i64| {
        let (_, body) = delivery(more);
        let body = members(serde_json::from_str(&sign(body, "created_at", &signer(n), at(0))).unwrap());
        let read: Delivery = serde_json::from_value(Value::Object(body.clone())).unwrap();
        check_signed(&federation, peer, &read, &body, at(seconds * 1_000_000)).map_err(|refusal| refusal.code)
    };
    for seconds in [-300, 0, 300] {
        assert_eq!(judge(json!({}), 1, seconds), Ok(()));
    }
    for seconds in [-301, 301, 1_000_000] {
        assert_eq!(judge(json!({}), 1, seconds), Err(Code::OutsideWindow));
    }
    assert_eq!(judge(json!({}), 3, 0), Err(Code::BadSignature), "another peer's key");
    assert_eq!(judge(json!({ "target_server": "https://c.example:8443" }), 1, 0), Err(Code::Forbidden));
    assert_eq!(judge(json!({ "target_server": null }), 1, 0), Err(Code::Forbidden));
}

#[test]
fn what_a_delivery_asks_for_is_judged() {
    let mut federation = federation();
    let asks = |more: Value| delivery(more).0;
    let own = json!({ "callback_url": "https://a.example/api/v1/federation/callbacks" });
    asks(own).check(&federation.peers[0]).unwrap();
    for url in ["https://b.example/", "http://a.example/", "http://127.0.0.1/"] {
        let refused = asks(json!({ "callback_url": url })).check(&federation.peers[0]).unwrap_err();
        assert_eq!(refused.code, Code::Unprocessable, "{url}");
    }
    assert!(asks(json!({ "dispatch_id": "" })).check(&federation.peers[0]).is_err());
    assert!(asks(json!({ "intent_id": "a b" })).check(&federation.peers[0]).is_err());
    for bad in [
        json!({ "agent_id": "x".repeat(201) }),
        json!({ "agent_id": "" }),
        json!({ "delegation_scope": { "permissions": vec!["p"; 1_001] } }),
        json!({ "delegation_scope": { "permissions": ["x".repeat(201)] } }),
        json!({ "delegation_scope": { "max_delegation_depth": 9_007_199_254_740_993_i64 } }),
        json!({ "delegation_scope": { "expires_at": "soon" } }),
    ] {
        assert!(asks(bad.clone()).check(&federation.peers[0]).is_err(), "{bad}");
    }
    let asking = json!({ "intent_state": { "a": 1, "_suspension": { "question": "May I?" } } });
    assert_eq!(asks(asking).intent().state, members(json!({ "a": 1 })));
    federation.peers[0].delivers = false;
    assert_eq!(asks(json!({})).check(&federation.peers[0]).unwrap_err().code, Code::Forbidden);
    assert_eq!(asks(json!({})).rejection(true, at(0)), None);
    assert!(asks(json!({})).rejection(false, at(0)).is_some());
    assert!(
        asks(json!({ "federation_policy": { "budget": { "max_llm_tokens": 0 } } }))
            .rejection(true, at(0))
            .is_some()
    );
    let ended = json!({ "delegation_scope": { "expires_at": "1970-01-01T00:00:00Z" } });
    assert!(asks(ended).rejection(true, at(0)).is_some());
}

#[test]
fn only_what_is_said_of_the_letter_itself_is_final() {
    for status in [0, 301, 401, 403, 404, 405, 408, 425, 429, 500, 503] {
        assert!(!is_final(status, ""), "{status}");
    }
    for status in [400, 409, 410, 413, 422] {
        assert!(is_final(status, "no"), "{status}");
    }
    assert!(!is_final(422, r#"{"code": "outside_window"}"#), "a clock is put right");
}

#[test]
fn no_denial_is_left_out_when_an_intent_is_passed_on() {
    let denies = |word: &str| DelegationScope {
        denied_operations: (0..150).map(|n| format!("{word}{n}")).collect(),
        ..DelegationScope::default()
    };
    let refused = denies("a").attenuated(&denies("b"), at(0)).unwrap_err();
    assert_eq!(refused.code, Code::TooLarge);
    assert_eq!(denies("a").attenuated(&denies("a"), at(0)).unwrap().denied_operations.len(), 150);
}

#[test]
fn what_is_over_stays_as_it_is_and_nothing_goes_back_on_its_way() {
    let all =
        [State::Pending, State::Accepted, State::Rejected, State::Dead, State::Completed, State::Failed];
    for one in all {
        assert_eq!(State::parse(one.as_str()), Some(one));
        assert!(["pending", "accepted", "rejected"].contains(&one.status()));
        for next in all {
            let after = one.after(next);
            assert!(!one.is_over() || after == one);
            assert!(after != State::Pending || one == State::Pending);
            assert!(one.is_over() || next == State::Pending || after == next);
        }
    }
}
