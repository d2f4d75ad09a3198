//! Operations on intents in batches: tasks, leases, costs and receipts of many clients at once, of which some are
//! refused.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::mixed::check_line;
use super::{clients, id, live};
use entente_harness::{Client, Value, World, json, talk};

const ROUNDS: usize = 8;

/// Creates, claims and completes tasks; a second claim of each is refused.
async fn tasks(client: &Client, intent: &str) {
    for n in 0..ROUNDS {
        let task =
            client.post(&format!("/intents/{intent}/tasks"), json!({ "name": format!("t{n}") })).await.ok();
        let path = format!("/tasks/{}", id(&task));
        let claim = format!("{path}/claim");
        let claims = join_all((0..2).map(|_| client.post(&claim, json!({})))).await;
        let won = claims.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(won, 1, "one of two claims wins: {claims:?}");
        let done = client.post(&format!("{path}/complete"), json!({ "output": { "n": n } })).await.ok();
        assert_eq!(done["status"], "completed");
    }
}

/// Acquires a scope that everybody wants until it had it often enough, renews and releases it; returns the fencing tokens.
async fn leases(client: &Client, intent: &str) -> Vec<i64> {
    let path = format!("/intents/{intent}/leases");
    let mut tokens = Vec::new();
    while tokens.len() < ROUNDS {
        let reply = client.post(&path, json!({ "scope": "plan" })).await;
        if reply.status != 200 {
            reply.refused(409, "lease_held");
            continue;
        }
        let lease = reply.json();
        let own = format!("{path}/{}", id(&lease));
        client.patch(&own, json!({ "duration_seconds": 60 })).await.ok();
        client.delete(&own).await.ok();
        tokens.push(lease["fencing_token"].as_i64().unwrap());
    }
    tokens
}

/// Records costs, between others that are refused after their first write: together they would be too large.
async fn costs(client: &Client, intent: &str) {
    let path = format!("/intents/{intent}/costs");
    for _ in 0..ROUNDS {
        let cost = json!({ "cost_type": "tokens", "amount": 0.25, "unit": "USD" });
        let much = json!({ "cost_type": "tokens", "amount": 999_999_999_999_999_999_i64, "unit": "USD" });
        let (kept, refused) = tokio::join!(client.post(&path, cost), client.post(&path, much));
        kept.ok();
        refused.refused(413, "too_large");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_operation_harms_none_of_its_batch() {
    let world = live().await;
    let any = world.any();
    let (intent, _) = talk(&any, json!({})).await;
    let first = json!({ "cost_type": "tokens", "amount": 1, "unit": "USD" });
    any.post(&format!("/intents/{intent}/costs"), first).await.ok();
    let c = clients(&world, 12);
    let (_, tokens, _) = tokio::join!(
        join_all(c[..4].iter().map(|client| tasks(client, &intent))),
        join_all(c[4..8].iter().map(|client| leases(client, &intent))),
        join_all(c[8..].iter().map(|client| costs(client, &intent)))
    );
    let tokens: Vec<i64> = tokens.into_iter().flatten().collect();
    assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), 4 * ROUNDS, "a fencing token was given twice");
    let listed = any.get(&format!("/intents/{intent}/costs?limit=100")).await.ok();
    assert_eq!(listed["costs"].as_array().unwrap().len(), 1 + 4 * ROUNDS);
    let total = listed["summary"]["total"].to_string().trim_matches('"').parse::<f64>().unwrap();
    assert!((total - 9.0).abs() < 1e-9, "{total}");
    let verified = any.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
    check_line(&world, &intent).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_with_one_key_is_done_once() {
    let world = live().await;
    let any = world.any();
    let (intent, _) = talk(&any, json!({})).await;
    let asked = [
        ("costs", json!({ "cost_type": "tokens", "amount": 1, "unit": "USD" })),
        ("leases", json!({ "scope": "plan" })),
        ("tasks", json!({ "name": "t" })),
    ];
    for (noun, body) in asked {
        let path = format!("/intents/{intent}/{noun}");
        let tries: Vec<Client> =
            clients(&world, 8).iter().map(|c| c.acting_as("agent.0").once(noun)).collect();
        let answers = join_all(tries.iter().map(|client| client.post(&path, body.clone()))).await;
        let answers: Vec<Value> = answers.iter().map(|reply| reply.is(200)).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{noun}: {answers:?}");
    }
    let tries: Vec<Client> =
        clients(&world, 8).iter().map(|c| c.acting_as("agent.0").once("intent")).collect();
    let made = join_all(tries.iter().map(|client| client.post("/intents", json!({ "title": "one" })))).await;
    let made: BTreeSet<String> = made.iter().map(|reply| id(&reply.json()).to_owned()).collect();
    assert_eq!(made.len(), 1, "an intent was created twice");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_intent_delays_no_other() {
    let world = live().await;
    let any = world.any();
    let (locked, _) = talk(&any, json!({})).await;
    let (free, _) = talk(&any, json!({})).await;
    let held = world.ctx().begin(&[locked.parse().unwrap()]).await.unwrap();
    let cost = || json!({ "cost_type": "tokens", "amount": 1, "unit": "USD" });
    let waiting = async { any.post(&format!("/intents/{locked}/costs"), cost()).await };
    let others = async {
        for _ in 0..10 {
            any.post(&format!("/intents/{free}/costs"), cost()).await.ok();
        }
        held.rollback().await.unwrap();
    };
    let (late, ()) = tokio::join!(waiting, others);
    late.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_do_operations_on_one_intent() {
    let (one, other) = World::two().await;
    let any = one.any();
    let (intent, _) = talk(&any, json!({})).await;
    let (here, there) = (clients(&one, 4), clients(&other, 4));
    let all: Vec<&Client> = here.iter().chain(&there).collect();
    join_all(all.iter().map(async |client| {
        tasks(client, &intent).await;
        let cost = json!({ "cost_type": "tokens", "amount": 1, "unit": "USD" });
        client.post(&format!("/intents/{intent}/costs"), cost).await.ok();
        client.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    }))
    .await;
    let verified = any.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
    check_line(&one, &intent).await;
    one.end().await;
    other.end().await;
}
