//! Costs (RFC-0009): exact, added up per unit, with sums that match the list at any moment, also under concurrent
//! writes.

use entente_harness::{Client, Value, World, json, talk};

async fn spend(client: &Client, intent: &str, more: Value) -> Value {
    let mut ask = json!({ "cost_type": "tokens", "amount": 1, "unit": "tokens" });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post(&format!("/intents/{intent}/costs"), ask).await.is(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_is_recorded_and_added_up() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/costs");
    let nothing = json!({
        "costs": [], "next": null,
        "summary": { "total": 0, "unit": null, "count": 0, "by_type": {}, "by_agent": {}, "by_model": {}, "units": {} },
    });
    assert_eq!(ada.get(&path).await.is(200), nothing);
    let more =
        json!({ "amount": 100, "provider": "openai", "metadata": { "model": "gpt", "prompt_tokens": 60 } });
    let made = spend(&ada, &intent, more).await;
    let expected = json!({
        "id": made["id"], "intent_id": intent, "agent_id": "agent.ada", "cost_type": "tokens", "amount": 100,
        "unit": "tokens", "provider": "openai", "model": "gpt", "metadata": { "model": "gpt", "prompt_tokens": 60 },
        "cost_metadata": { "model": "gpt", "prompt_tokens": 60 }, "recorded_at": "2026-11-21T08:00:00.000000Z",
        "recordedAt": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    let second =
        spend(&bob, &intent, json!({ "amount": 20, "model": "claude", "cost_metadata": { "model": "x" } }))
            .await;
    assert_eq!((&second["model"], &second["agent_id"]), (&json!("claude"), &json!("agent.bob")));
    spend(&bob, &intent, json!({ "amount": 3, "cost_type": "custom" })).await;
    let found = ada.get(&path).await.ok();
    assert_eq!((&found["costs"][0], &found["costs"][1]), (&made, &second));
    let summary = &found["summary"];
    assert_eq!(
        (&summary["total"], &summary["unit"], &summary["count"]),
        (&json!(123), &json!("tokens"), &json!(3))
    );
    assert_eq!(summary["by_type"], json!({ "tokens": 120, "custom": 3 }));
    assert_eq!(summary["by_agent"], json!({ "agent.ada": 100, "agent.bob": 23 }));
    assert_eq!(summary["by_model"], json!({ "gpt": 100, "claude": 20 }));
    let log = ada.get(&format!("/intents/{intent}/events?limit=1")).await.ok();
    assert_eq!((&log[0]["event_type"], &log[0]["payload"]["about"]), (&json!("comment"), &json!("cost")));
    assert_eq!((&log[0]["payload"]["amount"], &log[0]["payload"]["total"]), (&json!("3"), &json!("123")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn different_units_are_never_added_together() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    for (amount, unit, kind) in
        [("0.10", "USD", "api"), ("0.20", "USD", "api"), ("5", "EUR", "api"), ("7", "EUR", "gpu")]
    {
        spend(&ada, &intent, json!({ "amount": amount, "unit": unit, "cost_type": kind })).await;
    }
    let text = ada.get(&format!("/intents/{intent}/costs")).await;
    let summary = text.ok()["summary"].clone();
    assert_eq!((&summary["total"], &summary["unit"]), (&json!(null), &json!(null)));
    assert_eq!(summary["by_type"], json!({ "api": null, "gpu": 7 }));
    assert_eq!(summary["by_agent"], json!({ "agent.ada": null }));
    let units = json!({
        "USD": { "total": 0.3, "count": 2, "by_type": { "api": 0.3 }, "by_agent": { "agent.ada": 0.3 }, "by_model": {} },
        "EUR": { "total": 12, "count": 2, "by_type": { "api": 5, "gpu": 7 }, "by_agent": { "agent.ada": 12 }, "by_model": {} },
    });
    assert_eq!(summary["units"], units);
    // Exact decimals: 0.1 and 0.2 are 0.3.
    assert!(text.text.contains(r#""total":0.3,"#), "{}", text.text);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn amounts_are_exact_and_the_noise_of_doubles_is_not() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/costs");
    let body = |amount: &str| format!(r#"{{"cost_type":"t","unit":"USD","amount":{amount}}}"#);
    for (written, kept) in [
        ("123456789012345678.123456789012", "123456789012345678.123456789012"),
        ("0.30000000000000004", "0.3"),
        ("1e-7", "0.0000001"),
        ("1.5E+3", "1500"),
        (r#""0.000000000001""#, "0.000000000001"),
        ("0", "0"),
    ] {
        let reply = ada.send("POST", &path, Some(body(written))).await;
        reply.is(200);
        assert!(reply.text.contains(&format!(r#""amount":{kept},"#)), "{written}: {}", reply.text);
    }
    for bad in [
        "-1",
        "-0.01",
        "\"1,5\"",
        "\"0.0000000000001\"",
        "1e30",
        "\"\"",
        "null",
        "true",
        "{}",
        "1234567890123456789",
    ] {
        ada.send("POST", &path, Some(body(bad))).await.refused(422, "invalid_request");
    }
    // A sum that would overflow is refused.
    let most = "999999999999999999";
    ada.send("POST", &path, Some(body(most))).await.refused(413, "too_large");
    assert_eq!(ada.get(&path).await.ok()["summary"]["count"], 6);
    for (member, value) in [
        ("unit", json!("")),
        ("cost_type", json!("a".repeat(65))),
        ("model", json!("a\nb")),
        ("metadata", json!(1)),
    ] {
        let mut ask = json!({ "cost_type": "t", "unit": "USD", "amount": 1 });
        ask[member] = value;
        ada.post(&path, ask).await.refused(422, "invalid_request");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_where_the_next_begins_and_the_sums_are_of_all() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    for n in 1..=5 {
        spend(&ada, &intent, json!({ "amount": n })).await;
    }
    let mut seen = Vec::new();
    let mut after = json!(0);
    while !after.is_null() {
        let page = ada.get(&format!("/intents/{intent}/costs?limit=2&after={after}")).await.ok();
        assert_eq!(page["summary"]["total"], 15);
        seen.extend(page["costs"].as_array().unwrap().iter().map(|cost| cost["amount"].clone()));
        after = page["next"].clone();
    }
    assert_eq!(seen, [json!(1), json!(2), json!(3), json!(4), json!(5)]);
    for bad in ["after=x", "after=-1", "limit=0", "limit=1001"] {
        ada.get(&format!("/intents/{intent}/costs?{bad}")).await.refused(422, "invalid_parameter");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_add_up_what_many_record_at_once() {
    // On the system clock and with real random bits, so that two servers never create the same id.
    let (world, other) = World::two().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let clients = [ada.patient(), other.client("key-of-agent.ada").patient()];
    let each = (0..40).map(|n| {
        let (client, intent) = (clients[n % 2].clone(), intent.clone());
        tokio::spawn(async move { spend(&client, &intent, json!({ "amount": "0.1", "unit": "USD" })).await })
    });
    let each: Vec<_> = each.collect();
    for one in each {
        one.await.unwrap();
    }
    let found = ada.get(&format!("/intents/{intent}/costs")).await.ok();
    assert_eq!((&found["summary"]["total"], &found["summary"]["count"]), (&json!(4), &json!(40)));
    // The sums equal those of the listed rows.
    let sql = "SELECT count(*) FROM cost_sums s WHERE s.amount <> (SELECT sum(c.amount) FROM costs c WHERE c.intent_id = s.intent_id
                   AND c.unit = s.unit AND (s.axis = 'all' OR s.axis = 'type' AND c.cost_type = s.key
                   OR s.axis = 'agent' AND c.agent_id = s.key))";
    let wrong: i64 = sqlx::query_scalar(sql).fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(wrong, 0);
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_costs_nothing_and_nobody_spends_for_another() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let made = spend(&ada.once("k"), &intent, json!({})).await;
    assert_eq!(spend(&ada.once("k"), &intent, json!({})).await, made);
    let path = format!("/intents/{intent}/costs");
    let theirs = json!({ "cost_type": "t", "amount": 1, "unit": "u", "agent_id": "agent.bob" });
    ada.post(&path, theirs.clone()).await.refused(403, "may_not_act_as");
    assert_eq!(world.any().post(&path, theirs).await.is(200)["agent_id"], "agent.bob");
    let entry = json!({ "principal_id": "agent.r", "permission": "read" });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    let reader = world.agent("agent.r").await;
    reader.post(&path, json!({ "cost_type": "t", "amount": 1, "unit": "u" })).await.refused(403, "forbidden");
    assert_eq!(reader.get(&path).await.ok()["summary"]["count"], 2);
    // Costs may be recorded after the end of the intent.
    let version = ada.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    ada.seen(&version)
        .post(&format!("/intents/{intent}/status"), json!({ "status": "completed" }))
        .await
        .ok();
    spend(&ada, &intent, json!({})).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_only_so_many_different_sums() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    spend(&ada, &intent, json!({})).await;
    let sql = "INSERT INTO cost_sums SELECT intent_id, unit, 'model', 'model ' || n, 1, 1
               FROM cost_sums, generate_series(1, 3997) AS n WHERE axis = 'all'";
    sqlx::query(sql).execute(&world.ctx().pool).await.unwrap();
    let path = format!("/intents/{intent}/costs");
    let ask = json!({ "cost_type": "another", "amount": 1, "unit": "tokens" });
    ada.post(&path, ask).await.refused(413, "too_large");
    // Known keys still accept costs.
    spend(&ada, &intent, json!({})).await;
    assert_eq!(ada.get(&path).await.ok()["summary"]["total"], 2);
    world.end().await;
}
