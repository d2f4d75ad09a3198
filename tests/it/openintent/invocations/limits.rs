//! Limits of a grant: parameters, addresses, hosts, and calls per hour, across servers.

use entente_domain::limits::CALLS_AT_ONCE;
use futures_util::future::join_all;

use crate::openintent::invocations::Stage;
use crate::openintent::vaults::{id, tamper};
use entente_harness::governance::governed;
use entente_harness::vaults::call;
use entente_harness::vaults::grant;
use entente_harness::vaults::{SECRET, credential, vault};
use entente_harness::{Act, Receiver, Setup, Value, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn constraints_are_kept_and_what_they_deny_is_on_record() {
    let constraints = json!({
        "allowed_parameters": { "q": null, "lang": ["en", "de"], "site": "*.example.com", "n": 3 },
        "denied_parameters": { "q": ["secret*", 100] },
        "allowed_hosts": ["127.0.0.1"],
        "ip_allowlist": ["127.0.0.0/8"],
    });
    let stage = Stage::set("api_key", json!(SECRET), json!({}), json!({ "constraints": constraints })).await;
    for fine in [json!({}), json!({ "q": "x", "lang": "de", "site": "a.example.com", "n": 3 })] {
        assert_eq!(call(&stage.ada, "echo", fine).await["status"], "success");
    }
    for wrong in [
        json!({ "page": 1 }),
        json!({ "lang": "fr" }),
        json!({ "site": "example.org" }),
        json!({ "n": 4 }),
        json!({ "q": "secret plans" }),
        json!({ "q": ["open", "secret plans"] }),
        json!({ "q": 100.0 }),
    ] {
        let ask = json!({ "tool_name": "echo", "parameters": wrong });
        stage.ada.post("/tools/invoke", ask).await.refused(403, "forbidden");
    }
    assert_eq!(stage.receiver.count(), 2);
    let uses = stage.uses().await;
    let denied = uses.iter().filter(|one| one["status"] == "denied" && one["error"]["code"] == "constraint");
    assert_eq!((uses.len(), denied.count()), (9, 7));
    stage.world.end().await;
    for constraints in
        [json!({ "ip_allowlist": ["192.0.2.0/24"] }), json!({ "allowed_hosts": ["example.com"] })]
    {
        let stage =
            Stage::set("api_key", json!(SECRET), json!({}), json!({ "constraints": constraints })).await;
        let ask = json!({ "tool_name": "echo" });
        stage.ada.post("/tools/invoke", ask).await.refused(403, "forbidden");
        assert_eq!(stage.receiver.count(), 0);
        stage.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_is_counted_on_all_servers_together() {
    let granted = json!({ "constraints": { "max_invocations_per_hour": 10 } });
    let stage = Stage::set("api_key", json!(SECRET), json!({}), granted).await;
    let second = World::on(Setup::default(), stage.world.database.clone()).await;
    let other = second.agent("agent.ada").await;
    // Thirty concurrent calls on two servers: ten pass.
    let ask = || json!({ "tool_name": "echo" });
    let tries = (0..30).map(|n| {
        let client = if n % 2 == 0 { &stage.ada } else { &other };
        client.post("/tools/invoke", ask())
    });
    let statuses: Vec<u16> = join_all(tries).await.iter().map(|reply| reply.status).collect();
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((passed, stage.receiver.count()), (10, 10), "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    let late = stage.ada.post("/tools/invoke", ask()).await;
    late.refused(429, "rate_limited");
    let wait: i64 = late.header("retry-after").parse().unwrap();
    assert!((3_600..=3_661).contains(&wait), "{wait}");
    // Refused until that time, then accepted.
    stage.world.clock.advance(wait - 2);
    stage.ada.post("/tools/invoke", ask()).await.refused(429, "rate_limited");
    stage.world.clock.advance(2);
    call(&stage.ada, "echo", json!({})).await;
    second.server.stop().await;
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_under_what_was_passed_on_keep_to_all_above() {
    let granted = json!({ "delegatable": true, "constraints": { "max_invocations_per_hour": 3, "denied_parameters": { "force": null } } });
    let stage = Stage::set("api_key", json!(SECRET), json!({}), granted).await;
    let bob = stage.world.agent("agent.bob").await;
    let on = json!({ "delegated_from": stage.grant["id"], "scopes": ["echo"], "constraints": { "max_invocations_per_hour": 100 } });
    let child = grant(&stage.ada, &stage.credential, "agent.bob", on).await;
    call(&bob, "echo", json!({})).await;
    bob.post("/tools/invoke", json!({ "tool_name": "web_search" })).await.refused(403, "forbidden");
    let force = json!({ "tool_name": "echo", "parameters": { "force": true } });
    bob.post("/tools/invoke", force).await.refused(403, "forbidden");
    call(&bob, "echo", json!({})).await;
    call(&stage.ada, "echo", json!({})).await;
    for client in [&stage.ada, &bob] {
        client.post("/tools/invoke", json!({ "tool_name": "echo" })).await.refused(429, "rate_limited");
    }
    // At once: no call starts under a suspended or revoked grant.
    let path = format!("/grants/{}", stage.grant["id"].as_str().unwrap());
    stage.world.clock.advance(3_700);
    stage.ada.patch(&path, json!({ "status": "suspended" })).await.is(200);
    let by_name = json!({ "tool_name": "echo", "grant_id": child["id"] });
    bob.post("/tools/invoke", by_name.clone()).await.refused(403, "forbidden");
    bob.post("/tools/invoke", json!({ "tool_name": "echo" })).await.refused(403, "forbidden");
    stage.ada.patch(&path, json!({ "status": "active" })).await.is(200);
    bob.post("/tools/invoke", by_name.clone()).await.is(200);
    stage.ada.delete(&path).await.is(200);
    bob.post("/tools/invoke", by_name).await.refused(403, "forbidden");
    assert_eq!(stage.receiver.count(), 4);
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_under_its_own_grants_alone() {
    let stage = Stage::plain().await;
    let bob = stage.world.agent("agent.bob").await;
    let echo = json!({ "tool_name": "echo" });
    bob.post("/tools/invoke", echo.clone()).await.refused(403, "forbidden");
    let named = json!({ "tool_name": "echo", "grant_id": stage.grant["id"] });
    bob.post("/tools/invoke", named).await.refused(404, "not_found");
    let as_ada = json!({ "tool_name": "echo", "agent_id": "agent.ada" });
    bob.post("/tools/invoke", as_ada.clone()).await.refused(403, "may_not_act_as");
    let any = stage.world.any();
    any.acting_as("agent.ada").post("/tools/invoke", as_ada).await.is(200);
    // Granting an agent a tool of the same name does not redirect its calls.
    let trap = Stage::on(
        World::on(Setup::default(), stage.world.database.clone()).await,
        ("api_key", json!("x")),
        json!({}),
        json!({}),
    )
    .await;
    let eve = trap.world.agent("agent.eve").await;
    let theirs = vault(&eve).await;
    let metadata = json!({ "base_url": format!("http://{}/trap", trap.receiver.address) });
    let bait = credential(&eve, &theirs, json!({ "secret": "x", "metadata": metadata })).await;
    grant(&eve, &bait, "agent.bob", json!({ "scopes": ["echo"] })).await;
    let own = vault(&bob).await;
    let metadata = json!({ "base_url": format!("http://{}/own", stage.receiver.address) });
    let real = credential(&bob, &own, json!({ "secret": "y", "metadata": metadata })).await;
    let later = grant(&bob, &real, "agent.bob", json!({ "scopes": ["echo"] })).await;
    stage.receiver.does([Act::Say(200, "{}")]);
    let done = bob.post("/tools/invoke", echo).await.is(200);
    assert_eq!(done["grant_id"], later["id"]);
    assert_eq!(trap.receiver.count(), 0);
    trap.world.server.stop().await;
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_later_overtakes_no_grant() {
    let stage = Stage::plain().await;
    let (bob, eve) = (stage.world.agent("agent.bob").await, stage.world.agent("agent.eve").await);
    // The genuine grant is for a credential of the team's vault, not of the agent's own.
    let real = grant(&stage.ada, &stage.credential, "agent.bob", json!({ "scopes": ["read"] })).await;
    let search = json!({ "tool_name": "search" });
    assert_eq!(bob.post("/tools/invoke", search.clone()).await.is(200)["grant_id"], real["id"]);
    stage.world.clock.advance(1);
    let trap = Receiver::start().await;
    let metadata = json!({ "base_url": format!("http://{}/trap", trap.address) });
    let theirs = vault(&eve).await;
    let bait = credential(&eve, &theirs, json!({ "secret": "x", "metadata": metadata })).await;
    let gift = grant(&eve, &bait, "agent.bob", json!({ "scopes": ["search"] })).await;
    assert_eq!(bob.post("/tools/invoke", search.clone()).await.is(200)["grant_id"], real["id"]);
    // The team's next grant is newer than the gift; the call is ambiguous and therefore refused.
    stage.ada.delete(&format!("/grants/{}", id(&real))).await.is(200);
    stage.world.clock.advance(1);
    let next = grant(&stage.ada, &stage.credential, "agent.bob", json!({ "scopes": ["read"] })).await;
    bob.post("/tools/invoke", search.clone()).await.refused(422, "unprocessable");
    let named = json!({ "tool_name": "search", "grant_id": next["id"] });
    assert_eq!(bob.post("/tools/invoke", named).await.is(200)["grant_id"], next["id"]);
    bob.delete(&format!("/grants/{}", id(&gift))).await.is(200);
    assert_eq!(bob.post("/tools/invoke", search).await.is(200)["grant_id"], next["id"]);
    assert_eq!(trap.count(), 0);
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_owners_calls_leave_room_for_others() {
    let stage = Stage::plain().await;
    let bob = stage.world.agent("agent.bob").await;
    let home = vault(&bob).await;
    let put = json!({ "secret": "y", "metadata": stage.credential["metadata"] });
    let own = credential(&bob, &home, put).await;
    grant(&bob, &own, "agent.bob", json!({ "scopes": ["echo"] })).await;
    // The maximum number of concurrent calls, each under its own grant.
    let running = format!(
        "INSERT INTO tool_invocations (id, grant_id, owner_id, service, tool, agent_id, parameters, status, context, reported, \
         started_at, deadline_at) SELECT gen_random_uuid(), gen_random_uuid(), 'agent.ada', 's', 't', 'agent.x', '{{}}', \
         'running', '{{}}', false, '2026-11-21T08:00:00Z', '2026-11-21T08:10:00Z' FROM generate_series(1, {CALLS_AT_ONCE})"
    );
    tamper(&stage.world, &running).await;
    let echo = json!({ "tool_name": "echo" });
    let late = stage.ada.post("/tools/invoke", echo.clone()).await;
    late.refused(429, "rate_limited");
    assert_eq!(late.header("retry-after"), "1");
    bob.post("/tools/invoke", echo.clone()).await.is(200);
    // Their ends were never recorded; they are over at their deadline.
    stage.world.clock.advance(600);
    stage.ada.post("/tools/invoke", echo).await.is(200);
    stage.world.end().await;
}

#[tokio::test]
async fn a_call_for_an_intent_is_judged_by_its_stops_and_budgets() {
    let stage = Stage::plain().await;
    let admin = stage.world.admin().await;
    let intent = stage.ada.post("/intents", json!({ "title": "costly" })).await.ok()["id"].clone();
    let scope = format!("intent:{}", intent.as_str().unwrap());
    let ask = |tool: &str, intent: &Value| json!({ "tool_name": tool, "intent_id": intent });
    stage.ada.post("/tools/invoke", ask("echo", &intent)).await.is(200);
    let made = admin.post("/stops", json!({ "scope": scope, "reason": "too much" })).await.is(201);
    stage.ada.post("/tools/invoke", ask("echo", &intent)).await.refused(403, "stopped");
    // Only what is for the intent is stopped; and nobody calls for an intent that it may not write to.
    stage.ada.post("/tools/invoke", json!({ "tool_name": "echo" })).await.is(200);
    let others = stage.world.agent("agent.bob").await;
    let private = others.post("/intents", json!({ "title": "private" })).await.ok()["id"].clone();
    let acl = format!("/intents/{}/acl", private.as_str().unwrap());
    others.put(&acl, json!({ "default_policy": "closed" })).await.ok();
    stage.ada.post("/tools/invoke", ask("echo", &private)).await.refused(403, "access_closed");
    admin.delete(&format!("/stops/{}", made["id"].as_str().unwrap())).await.ok();
    stage.receiver.take();
    // A budget that is half spent leaves one tool, one that is spent none.
    let thresholds = json!([{ "percent": 50, "degrade": { "tools": ["web_*"] } }]);
    let budget = json!({ "scope": scope, "unit": "USD", "limit": 10, "thresholds": thresholds });
    admin.post("/budgets", budget).await.is(201);
    let cost = json!({ "cost_type": "call", "amount": 6, "unit": "USD" });
    let costs = format!("/intents/{}/costs", intent.as_str().unwrap());
    stage.ada.post(&costs, cost.clone()).await.ok();
    stage.ada.post("/tools/invoke", ask("web_search", &intent)).await.is(200);
    stage.ada.post("/tools/invoke", ask("echo", &intent)).await.refused(403, "PERMISSION_DENIED");
    stage.ada.post(&costs, cost).await.ok();
    stage.ada.post("/tools/invoke", ask("web_search", &intent)).await.refused(403, "BUDGET_EXHAUSTED");
    assert_eq!(stage.receiver.take().len(), 1, "refused calls never reach the tool");
    // Nor those for an intent that has spent its own limit.
    let capped = json!(governed(&stage.ada, json!({ "max_cost": 1 })).await);
    stage.ada.post("/tools/invoke", ask("echo", &capped)).await.is(200);
    let cost = json!({ "cost_type": "call", "amount": 1, "unit": "USD" });
    stage.ada.post(&format!("/intents/{}/costs", capped.as_str().unwrap()), cost).await.ok();
    stage.ada.post("/tools/invoke", ask("echo", &capped)).await.refused(403, "BUDGET_EXHAUSTED");
    stage.world.end().await;
}
