//! Searching for jobs: by label, parent, trace, error code, time and status, with counts and cursors; everybody's for an operator.

use super::{Hand, id};
use entente_harness::{Client, Setup, Value, World, json};

/// Returns the ids of the jobs that a search finds, over all of its pages.
pub async fn found(client: &Client, query: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/jobs?limit=2&{query}{cursor}")).await.ok();
        all.extend(page["jobs"].as_array().unwrap().iter().map(|job| id(job).to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

async fn submit(client: &Client, body: Value) -> String {
    id(&client.post("/jobs", body).await.is(201)).to_owned()
}

/// Ends a job with an error.
pub async fn fail(hand: &Hand, job: &Value, code: &str) {
    hand.tell(job, "error", json!({ "code": code, "message": "no" })).await.ok();
}

#[tokio::test]
async fn a_job_is_found_by_what_is_known_of_it() {
    let world = World::start().await;
    let (client, other) = (world.agent("agent.client").await, world.agent("agent.other").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    Hand::of(&world.any(), "slow@1").await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traced = client.with("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    let mut jobs = Vec::new();
    for n in 0..5 {
        world.clock.advance(1);
        let labels = json!({ "team": if n % 2 == 0 { "red" } else { "blue" }, "run/id": format!("r{n}") });
        jobs.push(submit(&client, json!({ "agent": "echo", "labels": labels })).await);
    }
    world.clock.advance(1);
    let own = submit(&traced, json!({ "agent": "slow" })).await;
    let theirs = submit(&other, json!({ "agent": "echo", "labels": { "team": "red" } })).await;
    let newest =
        |places: &[usize]| -> Vec<String> { places.iter().rev().map(|at| jobs[*at].clone()).collect() };

    assert_eq!(found(&client, "label=team=red").await, newest(&[0, 2, 4]));
    assert_eq!(found(&client, "label=team=red&label=run/id=r2").await, newest(&[2]));
    assert_eq!(found(&client, "label=team=red&label=run/id=r1").await, newest(&[]));
    assert_eq!(found(&client, &format!("trace_id={}", trace.to_uppercase())).await, [own.as_str()]);
    assert_eq!(found(&client, "agent=slow").await, [own.as_str()]);
    assert_eq!(found(&client, "principal=agent.other").await, newest(&[]));
    assert_eq!(found(&other, "label=team=red").await, [theirs.as_str()]);

    // Two fail, one is cancelled, one succeeds.
    // All wait; by age, the other's job is the last.
    let mut claimed = hand.claim(5).await;
    claimed.sort_by_key(|job| id(job).to_owned());
    fail(&hand, &claimed[0], "PERMISSION_DENIED").await;
    fail(&hand, &claimed[1], "INTERNAL_ERROR").await;
    hand.tell(&claimed[2], "result", json!({ "result": 1 })).await.ok();
    let admin = world.admin().await;
    admin.post(&format!("/jobs/{}/cancel", jobs[4]), json!({})).await.is(202);
    assert_eq!(found(&client, "error_code=PERMISSION_DENIED").await, newest(&[0]));
    assert_eq!(found(&client, "status=error,timed_out").await, newest(&[0, 1]));
    assert_eq!(found(&client, "status=error&label=team=blue").await, newest(&[1]));
    assert_eq!(found(&client, "status=cancelled").await, newest(&[4]));
    assert_eq!(found(&client, "error_code=CANCELLED").await, newest(&[4]));
    assert_eq!(found(&client, "status=success").await, newest(&[2]));
    assert_eq!(found(&client, "status=pending,running").await, [own.clone(), jobs[3].clone()]);

    let counts = client.get("/jobs/counts").await.ok();
    let expected = json!({ "cancelled": 1, "error": 2, "pending": 1, "running": 1, "success": 1 });
    assert_eq!(
        (&counts["by_status"], &counts["total"], &counts["complete"]),
        (&expected, &json!(6), &json!(true))
    );
    assert_eq!(
        client.get("/jobs/counts?label=team=red&status=error").await.ok()["by_status"],
        json!({ "error": 1 })
    );
    // The list says what the search found.
    let page = client.get("/jobs?error_code=INTERNAL_ERROR").await.ok();
    let job = &page["jobs"][0];
    assert_eq!((&job["labels"]["team"], &job["failure"]["code"]), (&json!("blue"), &json!("INTERNAL_ERROR")));
    assert_eq!(
        (&job["principal"], &job["failure"]["is_dead_letter"]),
        (&json!("agent.client"), &json!(true))
    );
    world.end().await;
}

#[tokio::test]
async fn an_operator_sees_everybodys_jobs_and_a_stranger_none() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (admin, stranger) = (world.admin().await, world.agent("agent.stranger").await);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let first = submit(&ada, json!({ "agent": "echo", "labels": { "team": "red" } })).await;
    world.clock.advance(1);
    let second = submit(&bob, json!({ "agent": "echo", "labels": { "team": "red" } })).await;
    let all = [second.clone(), first.clone()];
    for query in ["", "label=team=red", "status=pending", "agent=echo", "created_after=2026-01-01T00:00:00Z"]
    {
        assert_eq!(found(&admin, query).await, all, "{query}");
        assert_eq!(found(&ada, query).await, [first.as_str()], "{query}");
        assert_eq!(found(&stranger, query).await, [""; 0], "{query}");
    }
    assert_eq!(found(&admin, "principal=agent.ada").await, [first.as_str()]);
    assert_eq!(found(&stranger, "principal=agent.ada").await, [""; 0]);
    assert_eq!(admin.get("/jobs/counts").await.ok()["total"], 2);
    assert_eq!(stranger.get("/jobs/counts?principal=agent.ada").await.ok()["total"], 0);
    // The operator also reads, cancels and runs again; a stranger gets the same answer as for a job that is not there.
    for (path, body) in [
        ("", None),
        ("/tree", None),
        ("/signals", None),
        ("/cancel", Some(json!({}))),
        ("/rerun", Some(json!({}))),
        ("/resolve", Some(json!({}))),
        ("/signals", Some(json!({ "name": "input" }))),
    ] {
        let path = format!("/jobs/{first}{path}");
        let reply = match &body {
            None => stranger.get(&path).await,
            Some(body) => stranger.post(&path, body.clone()).await,
        };
        reply.refused(404, "JOB_NOT_FOUND");
        if body.is_none() {
            admin.get(&path).await.ok();
        }
    }
    admin.post(&format!("/jobs/{first}/cancel"), json!({})).await.is(202);
    let again = admin.post(&format!("/jobs/{first}/rerun"), json!({})).await.is(201);
    assert!(again.get("session_id").is_none(), "the session is the submitter's: {again}");
    let record = ada.get(&format!("/jobs/{}", id(&again))).await.ok();
    assert_eq!((&record["principal"], &record["rerun_of"]), (&json!("agent.ada"), &json!(first)));
    let audit = admin.get("/audit?event_type=job.rerun").await.ok();
    assert!(audit.to_string().contains(&first), "{audit}");
    drop(hand);
    world.end().await;
}

#[tokio::test]
async fn labels_of_others_are_not_found_under_a_policy_that_only_lists() {
    let settings = vec![("ENTENTE_ARCP_OPEN_POLICY", "list")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let (client, stranger) = (world.agent("agent.client").await, world.agent("agent.stranger").await);
    Hand::of(&world.any(), "echo@1").await;
    let job = submit(&client, json!({ "agent": "echo", "labels": { "secret": "yes" } })).await;
    assert_eq!(found(&stranger, "").await, [job.as_str()]);
    assert_eq!(found(&stranger, "label=secret=yes").await, [""; 0]);
    let listed = stranger.get("/jobs").await.ok();
    assert!(!listed.to_string().contains("secret"), "{listed}");
    world.end().await;
}

#[tokio::test]
async fn bad_labels_and_conditions_are_refused() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    Hand::of(&world.any(), "echo@1").await;
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("k{n}"), json!("v"))).collect();
    for labels in [
        json!({ "": "x" }),
        json!({ "a b": "x" }),
        json!({ "a": "x".repeat(201) }),
        json!({ "a": "\n" }),
        json!(many),
    ] {
        let body = json!({ "agent": "echo", "labels": labels });
        client.post("/jobs", body).await.refused(422, "INVALID_REQUEST");
    }
    for query in [
        "label=x",
        "label=a%20b=c",
        "error_code=NO",
        "dead_letter=maybe",
        "parent_job_id=job_1",
        "status=done",
        "limit=0",
    ] {
        client.get(&format!("/jobs?{query}")).await.refused(422, "INVALID_REQUEST");
        if !query.starts_with("limit") {
            client.get(&format!("/jobs/counts?{query}")).await.refused(422, "INVALID_REQUEST");
        }
    }
    client.get("/jobs?label=a=b&cursor=cur_x").await.refused(422, "INVALID_REQUEST");
    // The same request with other labels is another request.
    let ask = |label: &str| json!({ "agent": "echo", "labels": { "a": label }, "idempotency_key": "k" });
    client.post("/jobs", ask("1")).await.is(201);
    client.post("/jobs", ask("1")).await.is(200);
    client.post("/jobs", ask("2")).await.refused(409, "DUPLICATE_KEY");
    let apart = json!({ "agent": "echo", "x-entente": { "labels": { "a": "1" } }, "idempotency_key": "k" });
    client.post("/jobs", apart).await.is(200);
    world.end().await;
}

#[tokio::test]
async fn a_count_behind_too_many_jobs_of_others_is_not_complete() {
    let world = World::start().await;
    let (client, admin) = (world.agent("agent.client").await, world.admin().await);
    Hand::of(&world.any(), "echo@1").await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let text = "INSERT INTO job_clock (job_id, agent, status, last_seq, origin_seq, attempt, abandoned, precedence, principal)
                SELECT ('ffffffff-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'other@1', 'pending', 0, 0, 0, '{}',
                       precedence, principal
                FROM generate_series(1, 100001) n, (SELECT precedence, principal FROM job_clock LIMIT 1) c";
    sqlx::query(text).execute(&world.ctx().pool).await.unwrap();
    let counts = client.get("/jobs/counts?status=pending").await.ok();
    assert_eq!((&counts["total"], &counts["complete"]), (&json!(0), &json!(false)), "{counts}");
    sqlx::query("DELETE FROM job_clock WHERE agent = 'other@1'").execute(&world.ctx().pool).await.unwrap();
    let counts = admin.get("/jobs/counts?status=pending").await.ok();
    assert_eq!((&counts["total"], &counts["complete"]), (&json!(1), &json!(true)), "{counts}");
    world.end().await;
}
