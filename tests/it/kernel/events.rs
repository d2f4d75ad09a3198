//! An intent's log (RFC-0001, RFC-0019, RFC-0020): listing it and appending client events. `exports.rs` covers
//! tampering.

mod retention;
pub(crate) mod search;

use entente_harness::{BundleFile, Client, Value, World, json};

async fn intent(client: &Client) -> String {
    client.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned()
}

/// Returns the types of listed events.
pub fn kinds(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_appends_what_it_likes() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = intent(&ada).await;
    let path = format!("/intents/{id}/events");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let body = json!({
        "event_type": "tool_invocation", "actor": "agent.ada", "payload": { "tool": "search", "n": 1.5 },
        "trace_id": trace, "parent_event_id": "evt_before", "proof": { "type": "Ed25519Signature2020", "signature": "x" }
    });
    // 200, not 201: clients of the reference server expect it (OI-5.5.1).
    let event = ada.once("k").post(&path, body.clone()).await.is(200);
    let first = ada.get(&format!("{path}?event_type=intent_created")).await.ok()[0].clone();
    assert!(event["id"].as_str().unwrap().starts_with("evt_"));
    let expected = json!({
        "id": event["id"], "intent_id": id, "event_type": "tool_invocation", "actor": "agent.ada",
        "payload": { "tool": "search", "n": 1.5 }, "created_at": "2026-11-21T08:00:00.000000Z", "sequence": 2,
        "previous_event_hash": first["event_hash"], "event_hash": event["event_hash"], "posted": true,
        "trace_id": trace, "parent_event_id": "evt_before",
        "proof": { "type": "Ed25519Signature2020", "signature": "x" }, "proof_verified": false
    });
    assert_eq!(event, expected);
    assert!(event["event_hash"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(ada.get(&path).await.ok(), json!([expected, first]));
    assert_eq!(ada.once("k").post(&path, body).await.is(200), expected, "a retry is done once");
    ada.once("k").post(&path, json!({ "event_type": "x" })).await.refused(409, "idempotency_mismatch");
    // With only a type, the actor defaults to the caller, and absent members are omitted.
    let bare = ada.post(&path, json!({ "event_type": "note" })).await.is(200);
    assert_eq!((&bare["actor"], &bare["payload"]), (&json!("agent.ada"), &json!({})));
    for member in ["trace_id", "parent_event_id", "proof", "proof_verified"] {
        assert!(bare.get(member).is_none(), "{member}");
    }
    assert_eq!(first["posted"], false);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_words_in_a_clients_mouth_change_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = intent(&ada).await;
    let path = format!("/intents/{id}/events");
    let before = ada.get(&format!("/intents/{id}")).await.ok();
    for (kind, payload) in [
        ("intent_created", json!({ "title": "forged", "version": 1 })),
        ("state_patched", json!({ "patches": [{ "op": "set", "path": "a", "value": 1 }], "version": 2 })),
        ("status_changed", json!({ "status": "completed", "version": 2 })),
        ("access_granted", json!({ "principal_id": "agent.eve", "permission": "admin" })),
        ("channel.closed", json!({})),
        ("key.created", json!({})),
    ] {
        let event = ada.post(&path, json!({ "event_type": kind, "payload": payload })).await.is(200);
        assert_eq!(event["posted"], true, "a reader can tell it from the server's own");
    }
    assert_eq!(ada.get(&format!("/intents/{id}")).await.ok(), before);
    // Also for a verifier that replays the log.
    let report = BundleFile::of(&ada, &format!("/intents/{id}")).await.report();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.log.event_count, 7);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_events_are_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = intent(&ada).await;
    let path = format!("/intents/{id}/events");
    let with = |member: &str, value: Value| json!({ "event_type": "note", member: value });
    for bad in [
        json!({}),
        json!({ "event_type": "" }),
        json!({ "event_type": 5 }),
        json!({ "event_type": "x".repeat(201) }),
        with("payload", json!([])),
        with("payload", json!("x")),
        with("proof", json!("x")),
        with("trace_id", json!("0af7651916cd43dd8448eb211c80319")),
        with("trace_id", json!("0af7651916cd43dd8448eb211c80319g")),
        with("trace_id", json!(5)),
        with("parent_event_id", json!("")),
        with("actor", json!("")),
    ] {
        ada.post(&path, bad).await.refused(422, "invalid_request");
    }
    ada.post(&path, with("actor", json!("agent.bob"))).await.refused(403, "may_not_act_as");
    ada.post(&path, with("payload", json!({ "x": "y".repeat(300_000) }))).await.refused(413, "too_large");
    ada.post(&path, with("proof", json!({ "x": "y".repeat(300_000) }))).await.refused(413, "too_large");
    // Numbers that would not survive canonicalisation (RFC 8785).
    for member in ["payload", "proof"] {
        let big = format!(r#"{{"event_type":"note","{member}":{{"n":[9007199254740993]}}}}"#);
        ada.send("POST", &path, Some(big)).await.refused(422, "unprocessable");
        // The parser rounds these, so that only the text of the body tells.
        for rounded in ["100000000000000000001", "9007199254740993.5", "-1.00000000000000000001e25"] {
            let long = format!(r#"{{"event_type":"note","{member}":{{"n":[{rounded}]}}}}"#);
            ada.send("POST", &path, Some(long)).await.refused(422, "unprocessable");
        }
        for (number, canonical) in
            [("1e20", "100000000000000000000"), ("9007199254740992", "9007199254740992"), ("1e21", "1e+21")]
        {
            let double = format!(r#"{{"event_type":"note","{member}":{{"n":{number}}}}}"#);
            let kept = ada.send("POST", &path, Some(double)).await.is(200);
            let expected: Value = serde_json::from_str(canonical).unwrap();
            assert_eq!(kept[member]["n"].as_f64(), expected.as_f64(), "{number}");
        }
        let endless = format!(r#"{{"event_type":"note","{member}":{{"n":1e999}}}}"#);
        ada.send("POST", &path, Some(endless)).await.refused(400, "invalid_json");
        let exact = format!(r#"{{"event_type":"note","{member}":{{"n":9007199254740991}}}}"#);
        let kept = ada.send("POST", &path, Some(exact)).await.is(200);
        assert_eq!(kept[member]["n"], 9_007_199_254_740_991_u64);
    }
    ada.post("/intents/intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/events", json!({ "event_type": "x" }))
        .await
        .refused(404, "not_found");
    ada.post("/intents/nonsense/events", json!({ "event_type": "x" })).await.refused(404, "not_found");
    // The intent's creation, and four events with numbers for each member.
    assert_eq!(ada.get(&path).await.ok().as_array().unwrap().len(), 9);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_decides_who_reads_and_appends() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let eve = world.agent("agent.eve").await;
    let id = intent(&ada).await;
    let acl = json!({ "default_policy": "closed", "entries": [{ "principal_id": "agent.bob", "permission": "read" }] });
    ada.put(&format!("/intents/{id}/acl"), acl).await.ok();
    let path = format!("/intents/{id}/events");
    bob.get(&path).await.ok();
    bob.get(&format!("{path}/verify")).await.ok();
    assert_eq!(bob.get(&format!("/intents/{id}/export")).await.status, 200);
    bob.post(&path, json!({ "event_type": "x" })).await.refused(403, "forbidden");
    eve.get(&path).await.refused(403, "access_closed");
    eve.get(&format!("{path}/verify")).await.refused(403, "access_closed");
    eve.get(&format!("/intents/{id}/export")).await.refused(403, "access_closed");
    eve.post(&path, json!({ "event_type": "x" })).await.refused(403, "access_closed");
    // An event in another agent's name requires that agent's access; the key's own access does not count.
    let lent = json!({ "event_type": "x", "actor": "agent.eve" });
    world.any().acting_as("agent.ada").post(&path, lent).await.refused(403, "access_closed");
    for (client, missing) in [(&ada, "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"), (&ada, "nonsense")] {
        client.get(&format!("/intents/{missing}/events")).await.refused(404, "not_found");
        client.get(&format!("/intents/{missing}/events/verify")).await.refused(404, "not_found");
        client.get(&format!("/intents/{missing}/export")).await.refused(404, "not_found");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_filtered_and_paged() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = intent(&ada).await;
    let path = format!("/intents/{id}/events");
    let (one, two) = ("0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319c");
    for (n, kind, trace) in [(1, "a", one), (2, "b", one), (3, "a", two), (4, "a", one)] {
        world.clock.advance(1);
        let body = json!({ "event_type": kind, "payload": { "n": n }, "trace_id": trace });
        ada.post(&path, body).await.ok();
    }
    let list = async |query: &str| -> Vec<u64> {
        let found = ada.get(&format!("{path}{query}")).await.ok();
        found.as_array().unwrap().iter().map(|event| event["payload"]["n"].as_u64().unwrap_or(0)).collect()
    };
    assert_eq!(list("").await, [4, 3, 2, 1, 0], "the newest first");
    assert_eq!(list("?event_type=a").await, [4, 3, 1]);
    assert_eq!(list("?event_type=none").await, [0_u64; 0]);
    assert_eq!(list(&format!("?trace_id={one}")).await, [4, 2, 1]);
    assert_eq!(list(&format!("?trace_id={one}&event_type=a")).await, [4, 1]);
    assert_eq!(list("?since=2026-11-21T08:00:02Z").await, [4, 3], "later than");
    assert_eq!(list("?since=2026-11-21T08:00:02").await, [4, 3], "without an offset it is UTC");
    assert_eq!(list("?since=2026-11-21T09:00:02%2B01:00&event_type=a").await, [4, 3]);
    assert_eq!(list("?since=2026-11-21T08:00:01.999999Z").await, [4, 3, 2]);
    assert_eq!(list("?limit=2").await, [4, 3]);
    assert_eq!(list("?limit=2&offset=2").await, [2, 1]);
    assert_eq!(list("?limit=2&offset=4").await, [0]);
    assert_eq!(list("?offset=5").await, [0_u64; 0]);
    assert_eq!(list("?event_type=a&limit=1&offset=1").await, [3]);
    for wrong in ["limit=0", "limit=1001", "limit=x", "offset=-1", "offset=1000001", "since=yesterday"] {
        ada.get(&format!("{path}?{wrong}")).await.refused(422, "invalid_parameter");
    }
    assert_eq!(list("?event_type=&since=&trace_id=").await, [4, 3, 2, 1, 0], "empty is as good as none");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_never_goes_back_along_a_log() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = intent(&ada).await;
    let path = format!("/intents/{id}/events");
    world.clock.advance(10);
    ada.post(&path, json!({ "event_type": "a" })).await.ok();
    // The server's clock is set back.
    world.clock.advance(-60);
    let set_back = ada.post(&path, json!({ "event_type": "b" })).await.ok();
    assert_eq!(set_back["created_at"], "2026-11-21T08:00:10.000000Z");
    world.clock.advance(61);
    ada.post(&path, json!({ "event_type": "c" })).await.ok();
    let list = ada.get(&path).await.ok();
    assert_eq!(kinds(&list), ["c", "b", "a", "intent_created"]);
    let sequences: Vec<i64> =
        list.as_array().unwrap().iter().map(|e| e["sequence"].as_i64().unwrap()).collect();
    assert_eq!(sequences, [4, 3, 2, 1]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_take_their_places_one_after_the_other() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = entente_harness::talk(&ada, json!({ "options": { "audit": true } })).await;
    let path = format!("/intents/{intent}/events");
    let posts = (0..20).map(|n| ada.post(&path, json!({ "event_type": "n", "payload": { "n": n } })));
    let messages = format!("/channels/{channel}/messages");
    let sends = (0..20).map(|n| ada.post(&messages, json!({ "sender": "agent.ada", "payload": { "n": n } })));
    let (posted, sent) =
        tokio::join!(futures_util::future::join_all(posts), futures_util::future::join_all(sends));
    posted.iter().chain(&sent).for_each(|reply| drop(reply.ok()));
    let verified = ada.get(&format!("{path}/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["event_count"]), (&json!(true), &json!(42)));
    world.end().await;
}
