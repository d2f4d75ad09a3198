//! Minting credentials: before the job is accepted, bound to it, with unique values, and completely or not at all.

use std::collections::HashSet;

use entente_arcp::credentials;
use entente_domain::refusal::Code;

use super::stage::{accepted, asked, broker, job, litellm, live, shown, states, take_back, world, write};
use super::upstream::ProvisionerError;
use entente_harness::json;

#[tokio::test]
async fn a_virtual_key_is_bound_to_its_job() {
    let (world, upstream) =
        world(|upstream| litellm(upstream, &json!({ "extra": { "team_id": "agents" } }))).await;
    let mut job = job(
        &world,
        "writer@1.0.0",
        &json!({ "model.use": ["tier-fast/*", "a/**"], "cost.budget": ["USD:5.00", "EUR:3"] }),
    );
    job.expires_at = Some(world.ctx().now() + chrono::TimeDelta::milliseconds(3_600_900));
    let given = accepted(&world, &job).await.unwrap();
    let made = &upstream.asked()[0];
    assert_eq!((made.method.as_str(), made.path.as_str()), ("POST", "/key/generate"));
    let id = &given[0].id;
    assert_eq!(
        made.body,
        json!({
            "key_alias": format!("entente-{id}-1"), "models": ["tier-fast/*", "a/*"], "max_budget": 5,
            "duration": "3600s", "key_type": "llm_api", "team_id": "agents",
            "metadata": { "job_id": job.id, "credential_id": id, "agent": "writer@1.0.0", "principal": "agent.ada" },
        })
    );
    // Limits that the proxy does not count are not reported as enforced.
    let told = serde_json::to_value(&given).unwrap();
    assert_eq!(
        told,
        json!([{
            "id": id, "scheme": "bearer", "value": upstream.out()[0], "endpoint": format!("{}/v1", upstream.url()),
            "profile": "openai",
            "constraints": { "model.use": ["tier-fast/*", "a/*"], "cost.budget": ["USD:5"],
                             "expires_at": shown(job.expires_at.unwrap()) },
        }])
    );
    assert_eq!(serde_json::to_value(live(&world, &job).await).unwrap(), told, "its worker gets the same");
    world.end().await;
}

#[tokio::test]
async fn an_enumerated_list_means_what_the_lease_means() {
    let models = json!({ "models": ["tier-fast/a", "tier-fast/a/b", "tier-slow/c"], "max_ttl_sec": 60 });
    let (world, upstream) = world(|upstream| litellm(upstream, &models)).await;
    for (patterns, list) in [
        (json!(["tier-fast/*"]), json!(["tier-fast/a"])),
        (json!(["**"]), models["models"].clone()),
        // In LiteLLM an empty list allows everything; this word allows nothing.
        (json!(["gpt-9"]), json!(["no-default-models"])),
        (json!(["all-proxy-models"]), json!(["no-default-models"])),
    ] {
        let job = job(&world, "writer@1.0.0", &json!({ "model.use": patterns }));
        accepted(&world, &job).await.unwrap();
        let said = upstream.asked().pop().unwrap().body;
        assert_eq!((&said["models"], &said["duration"]), (&list, &json!("60s")), "{patterns}");
        assert!(said.get("max_budget").is_none());
    }
    world.end().await;
}

#[tokio::test]
async fn words_for_whole_sets_are_no_models() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    let job = job(
        &world,
        "writer@1.0.0",
        &json!({ "model.use": ["all-proxy-models", "all-team-models", "gpt-9"] }),
    );
    accepted(&world, &job).await.unwrap();
    assert_eq!(upstream.asked()[0].body["models"], json!(["gpt-9"]));
    world.end().await;
}

#[tokio::test]
async fn the_operators_own_request_is_filled() {
    let (world, upstream) = world(broker).await;
    let mut job = job(&world, "research@2.0.0", &json!({ "cost.budget": ["USD:0.58", "credits:9"] }));
    job.deadline = Some(world.ctx().now() + chrono::TimeDelta::seconds(90));
    let given = accepted(&world, &job).await.unwrap();
    let made = &upstream.asked()[0];
    // Members without a value are omitted: the job has no euros, and its lease does not restrict models.
    assert_eq!(
        made.body,
        json!({ "name": format!("entente-{}-1", given[0].id), "cap": 0.58, "for": format!("job {} of agent.ada", job.id),
                "seconds": 90, "tags": ["research"], "fixed": 7 })
    );
    let constraints = given[0].constraints.clone().unwrap();
    assert_eq!(
        constraints,
        json!({ "cost.budget": ["USD:0.58"], "expires_at": shown(job.deadline.unwrap()) })
    );
    assert_eq!(given[0].endpoint, "https://search.example/v2");
    let other = super::stage::job(&world, "writer@1.0.0", &json!({ "cost.budget": ["USD:1"] }));
    assert!(accepted(&world, &other).await.unwrap().is_empty(), "the rule names other agents");
    world.end().await;
}

#[tokio::test]
async fn a_childs_cap_is_what_its_parent_has_left() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    let parent = job(&world, "writer@1.0.0", &json!({ "cost.budget": ["USD:5.00"] }));
    write(&world, &parent, "running").await;
    sqlx::query("UPDATE job_budgets SET remaining = 1.25").execute(&world.ctx().pool).await.unwrap();
    // The child's lease has no budget; its costs are charged to its parent.
    let mut child = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    (child.parent_id, child.payers) = (Some(parent.id), vec![parent.id]);
    let given = accepted(&world, &child).await.unwrap();
    assert_eq!(upstream.asked()[0].body["max_budget"], json!(1.25));
    assert_eq!(given[0].constraints.as_ref().unwrap()["cost.budget"], json!(["USD:1.25"]));
    world.end().await;
}

#[tokio::test]
async fn no_value_serves_two_jobs() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    let mut values = HashSet::new();
    for _ in 0..100 {
        let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
        values.insert(accepted(&world, &job).await.unwrap().remove(0).value);
    }
    assert_eq!(values.len(), 100);
    upstream.minting(Some(ProvisionerError::Repeats));
    let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let refused = accepted(&world, &job).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(live(&world, &job).await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn who_refuses_has_made_nothing() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    upstream.minting(Some(ProvisionerError::Says(400, "budget exceeded for sk-admin-0123456789")));
    let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let refused = accepted(&world, &job).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(!refused.message.contains("budget exceeded"), "what upstreams say is the operator's affair");
    assert_eq!((states(&world).await, take_back(&world).await), (vec!["revoked".to_owned()], 0));
    let seen = world.admin().await.get("/credentials").await.ok();
    assert_eq!(seen[0]["last_error"], "it answered 400: budget exceeded for …");
    world.end().await;
}

#[tokio::test]
async fn an_upstream_that_asks_for_a_moment_gets_it() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({ "timeout_sec": 1 }))).await;
    upstream.minting(Some(ProvisionerError::Says(429, "")));
    let waiting = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let (answer, ()) = tokio::join!(accepted(&world, &waiting), async {
        while upstream.asked().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        upstream.minting(None);
    });
    assert_eq!(answer.unwrap().len(), 1);
    assert_eq!(upstream.asked().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_lost_answer_is_found_by_its_alias_and_not_believed_too_early() {
    for of in [|upstream: &_| litellm(upstream, &json!({ "timeout_sec": 1 })), broker] {
        let (world, upstream) = world(of).await;
        upstream.minting(Some(ProvisionerError::Dies));
        let job = job(&world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
        asked(&world, &job).await.unwrap_err();
        assert_eq!(upstream.out().len(), 1, "it was made, and nobody heard");
        assert_eq!(take_back(&world).await, 1);
        assert_eq!(upstream.out().len(), 0);
        // A request that was still on its way would have arrived by then.
        assert_eq!(states(&world).await, ["revoking"]);
        upstream.make(&format!("entente-{}-1", credential(&world).await));
        world.clock.advance(119);
        assert_eq!(take_back(&world).await, 0);
        world.clock.advance(1);
        assert_eq!(take_back(&world).await, 1);
        assert_eq!((upstream.out().len(), states(&world).await), (0, vec!["revoked".to_owned()]));
        world.end().await;
    }
}

#[tokio::test]
async fn of_what_a_gateway_in_trouble_did_nothing_is_believed() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    for status in [500, 502, 503, 504] {
        upstream.minting(Some(ProvisionerError::Says(status, "")));
        let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
        assert_eq!(accepted(&world, &job).await.unwrap_err().code, Code::Unavailable);
    }
    // One request each: a retry under the same name could only learn that the name is taken.
    assert_eq!((upstream.asked().len(), states(&world).await), (4, vec!["revoking".to_owned(); 4]));
    world.clock.advance(120);
    assert_eq!((take_back(&world).await, states(&world).await), (4, vec!["revoked".to_owned(); 4]));
    world.end().await;
}

#[tokio::test]
async fn nobody_waits_for_an_upstream_that_hangs() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({ "timeout_sec": 1 }))).await;
    upstream.minting(Some(ProvisionerError::Hangs));
    let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let began = std::time::Instant::now();
    assert_eq!(accepted(&world, &job).await.unwrap_err().code, Code::Unavailable);
    assert!(began.elapsed() < std::time::Duration::from_secs(3), "clients wait five seconds to be accepted");
    assert_eq!((upstream.asked().len(), states(&world).await), (1, vec!["revoking".to_owned()]));
    world.end().await;
}

/// Returns the id of the only credential.
async fn credential(world: &entente_harness::World) -> String {
    let seen = world.admin().await.get("/credentials").await.ok();
    seen[0]["credential_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn who_dies_between_asking_and_accepting_leaves_nothing() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    // The credential was minted but not stored, because the server died.
    drop(asked(&world, &job).await.unwrap());
    assert_eq!((upstream.out().len(), states(&world).await), (1, vec!["minting".to_owned()]));
    world.pass(59).await;
    assert_eq!(take_back(&world).await, 0, "it may still come");
    world.pass(1).await;
    assert_eq!(take_back(&world).await, 1);
    assert!(upstream.out().is_empty());
    world.clock.advance(60);
    assert_eq!((take_back(&world).await, states(&world).await), (1, vec!["revoked".to_owned()]));
    world.end().await;
}

#[tokio::test]
async fn who_comes_too_late_keeps_nothing() {
    let (world, upstream) = world(broker).await;
    let job = job(&world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let made = asked(&world, &job).await.unwrap();
    let value = upstream.out().remove(0);
    // Meanwhile it was given up, and a wrong response of the upstream says that it is gone.
    world.pass(60).await;
    upstream.revoking(Some(ProvisionerError::Says(404, "")));
    take_back(&world).await;
    world.clock.advance(60);
    take_back(&world).await;
    assert_eq!(states(&world).await, ["revoked"]);
    upstream.revoking(None);
    let ctx = world.ctx();
    let mut tx = ctx.begin(&[]).await.unwrap();
    assert!(credentials::store(&mut tx, &made).await.unwrap().is_none());
    tx.rollback().await.unwrap();
    let mut tx = ctx.begin(&[]).await.unwrap();
    credentials::lose(&mut tx, &credentials::refused(made).lost, ctx.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((take_back(&world).await, states(&world).await), (1, vec!["revoked".to_owned()]));
    assert!(upstream.out().is_empty(), "{value} still works");
    world.end().await;
}
