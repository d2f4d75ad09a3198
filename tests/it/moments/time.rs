//! Time and moments: they expire, escalate to a second person, and lose their text. Nothing is ever approved by a
//! timeout.

use super::work::job;
use super::{ask, at, expire_due, free_text, option, question, resolve, told, with};
use entente_harness::{Client, Setup, Value, World, ids, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_question_lapses_the_instant_it_is_due() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({ "expires_in": 60 })).await;
    world.clock.advance(59);
    assert_eq!(agent.get(&at(&moment)).await.ok()["state"], "open");
    world.clock.advance(1);
    // No sweep has run, but reads, lists and answers see the expiry.
    assert_eq!(agent.get(&at(&moment)).await.ok()["state"], "expired");
    assert_eq!(ids(&agent.get("/moments?state=expired").await.ok()["moments"]).len(), 1);
    assert_eq!(ids(&agent.get("/moments?state=open").await.ok()["moments"]).len(), 0);
    assert_eq!(ada.get("/moments/inbox").await.ok()["moments"], json!([]));
    let refused = resolve(&ada, &moment, option(0)).await.refused(409, "moment_not_open");
    assert!(refused["message"].as_str().unwrap().contains("lapsed"));
    assert_eq!(told(&world, "moment.expired").await.len(), 0);
    assert_eq!(expire_due(&world).await, 1);
    assert_eq!(expire_due(&world).await, 0);
    let told = told(&world, "moment.expired").await;
    assert_eq!((&told[0]["moment_id"], &told[0]["agent_id"]), (&moment["id"], &json!("agent.a")));
    let found = agent.get(&at(&moment)).await.ok();
    assert_eq!((&found["state"], &found["resolution"]), (&json!("expired"), &Value::Null));
    assert_eq!(found["ended_at"], "2026-11-21T08:01:00.000000Z");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_answers_goes_to_a_second_person() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let ben = world.human("human.ben").await;
    let second = json!({ "escalate_to": "human.ben", "escalate_after": 600, "expires_in": 3600 });
    let moment = ask(&agent, second.clone()).await;
    let early = ask(&agent, second).await;
    resolve(&ada, &early, option(0)).await.is(200);
    ben.get(&at(&moment)).await.refused(404, "not_found");
    resolve(&ben, &moment, option(0)).await.refused(404, "not_found");
    world.clock.advance(600);
    // In effect as soon as it is due; the sweep publishes it.
    assert_eq!(ids(&ben.get("/moments/inbox").await.ok()["moments"]), [moment["id"].as_str().unwrap()]);
    assert_eq!(expire_due(&world).await, 1);
    let told = told(&world, "moment.escalated").await;
    assert_eq!((told.len(), &told[0]["escalated_to"]), (1, &json!("human.ben")));
    assert_eq!(ids(&ada.get("/moments/inbox").await.ok()["moments"]).len(), 1);
    // A question that was answered before is not escalated.
    ben.get(&at(&early)).await.refused(404, "not_found");
    let done = resolve(&ben, &moment, option(1)).await.is(200);
    assert_eq!(done["resolution"]["resolved_by"], "human.ben");
    let late = resolve(&ada, &moment, option(0)).await.refused(409, "moment_not_open");
    assert!(late["message"].as_str().unwrap().contains("human.ben"));
    assert_eq!(ada.get("/moments/inbox").await.ok()["moments"], json!([]));
    for bad in [
        json!({ "escalate_to": "human.ben" }),
        json!({ "escalate_to": "agent.a", "escalate_after": 60 }),
        json!({ "escalate_to": "human.ada", "escalate_after": 60 }),
        json!({ "escalate_to": "human.ben", "escalate_after": 7200, "expires_in": 3600 }),
        json!({ "expires_in": 59 }),
        json!({ "expires_in": 2_592_001 }),
    ] {
        agent.post("/moments", with(question("human.ada"), bad)).await.is(422);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_before_the_sweep_is_told_with_the_second_person() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let ben = world.human("human.ben").await;
    let second = json!({ "escalate_to": "human.ben", "escalate_after": 600, "expires_in": 3600 });
    let (one, two) = (ask(&agent, second.clone()).await, ask(&agent, second).await);
    world.clock.advance(600);
    // Whoever answers, the escalation is recorded first, so the second person is told as well.
    resolve(&ben, &one, option(1)).await.is(200);
    resolve(&ada, &two, option(1)).await.is(200);
    let escalated = told(&world, "moment.escalated").await;
    let resolved = told(&world, "moment.resolved").await;
    for (n, moment) in [one, two].iter().enumerate() {
        for event in [&escalated[n], &resolved[n]] {
            assert_eq!((&event["moment_id"], &event["escalated_to"]), (&moment["id"], &json!("human.ben")));
        }
    }
    assert_eq!((escalated.len(), expire_due(&world).await), (2, 0));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_for_longest_comes_first() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    let (hand, work) = job(&agent, json!({})).await;
    let of_job = ask(&agent, json!({ "job_id": work["job_id"] })).await;
    hand.tell(&work, "result", json!({ "result": 1 })).await.is(200);
    let mut lapse = Vec::new();
    for seconds in [62, 61, 60] {
        lapse.push(ask(&agent, json!({ "expires_in": seconds })).await);
    }
    world.clock.advance(90);
    // One at a time, as with a backlog larger than a batch.
    for next in [&of_job, &lapse[2], &lapse[1], &lapse[0]] {
        assert_eq!(entente_moments::expire_due(&world.ctx().moments, 1).await.unwrap(), 1);
        let written: Vec<String> = sqlx::query_scalar(
            "SELECT id::text FROM moments WHERE ended_at IS NOT NULL ORDER BY changed_seq DESC",
        )
        .fetch_all(&world.ctx().pool)
        .await
        .unwrap();
        let id: entente_domain::ids::MomentId = next["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(written[0], id.uuid().to_string());
    }
    world.end().await;
}

/// Returns all rows of all tables as text.
async fn whole(world: &World) -> String {
    let pool = &world.ctx().pool;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public'
         AND table_type = 'BASE TABLE'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert!(tables.len() > 40);
    let mut text = String::new();
    for table in tables {
        let rows: Vec<String> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT t::text FROM {table} t")))
                .fetch_all(pool)
                .await
                .unwrap();
        text.extend(rows);
    }
    text
}

/// Creates moments with secret text that are answered, refused, deliberated and closed.
async fn secrets(agent: &Client, ada: &Client) -> Vec<Value> {
    let mut asked = question("human.ada");
    asked["binding_moment"]["synopsis"] = json!("The xylophone ships now.");
    asked["fallback_text"] = json!("A xylophone question.");
    let moment = agent.once("x1").post("/moments", asked.clone()).await.is(201);
    let words = format!("{}/words", at(&moment));
    ada.once("x2").post(&words, json!({ "text": "Which xylophone?" })).await.is(200);
    agent.once("x3").post(&words, json!({ "text": "The red xylophone." })).await.is(200);
    let path = format!("{}/resolution", at(&moment));
    let said =
        json!({ "envelope_digest": moment["envelope_digest"], "resolution": free_text("No xylophone") });
    ada.once("x4").post(&path, said).await.is(200);
    let veto = agent.post("/moments", asked).await.is(201);
    let path = format!("{}/resolution", at(&veto));
    let objection = json!({ "kind": "dialogue", "objection": "Still no xylophone" });
    let said = json!({ "envelope_digest": veto["envelope_digest"], "resolution": objection });
    ada.once("x5").post(&path, said).await.is(200);
    ada.post(&format!("{}/close", at(&veto)), json!({ "reason": "No xylophone, I said" })).await.is(200);
    vec![moment, veto]
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_scrub_no_word_is_left() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moments = secrets(&agent, &ada).await;
    assert!(whole(&world).await.contains("xylophone"));
    // Even before, only the tables of moments contain it.
    let log: Vec<String> =
        sqlx::query_scalar("SELECT payload FROM events").fetch_all(&world.ctx().pool).await.unwrap();
    assert!(log.iter().all(|payload| !payload.contains("xylophone")));
    for moment in &moments {
        agent.post(&format!("{}/ack", at(moment)), json!({})).await.is(200);
        // A repeated acknowledgement succeeds.
        agent.post(&format!("{}/ack", at(moment)), json!({})).await.is(200);
        ada.post(&format!("{}/ack", at(moment)), json!({})).await.refused(403, "forbidden");
    }
    world.pass(24 * 3600 - 1).await;
    assert!(whole(&world).await.contains("No xylophone"));
    world.pass(1).await;
    assert!(!whole(&world).await.contains("xylophone"), "a word is left");
    let found = agent.get(&at(&moments[0])).await.ok();
    assert_eq!((&found["state"], &found["binding_moment"]), (&json!("resolved"), &Value::Null));
    assert_eq!(found["envelope_digest"], moments[0]["envelope_digest"]);
    assert_eq!(found["decision_class"], "release");
    assert_eq!(
        (&found["resolution"]["kind"], found["resolution"].get("answer")),
        (&json!("free_text"), None)
    );
    assert_eq!(found["words"][0]["text"], Value::Null);
    assert!(found["scrubbed_at"].is_string());
    // The log records the scrub, and the acknowledgements with their author.
    assert_eq!(told(&world, "moment.scrubbed").await.len(), 2);
    let acked = told(&world, "moment.acknowledged").await;
    assert_eq!((acked.len(), &acked[0]["moment_id"]), (2, &moments[0]["id"]));
    // No hash is left either, from which a short answer could be guessed.
    let hash = entente_domain::canonical::hex(&entente_domain::canonical::sha256("No xylophone"));
    assert!(!whole(&world).await.contains(&hash));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_may_go_at_once_or_by_themselves() {
    let settings = vec![("ENTENTE_MOMENT_RETAIN_SECONDS", "0"), ("ENTENTE_MOMENT_UNREAD_DAYS", "2")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moments = secrets(&agent, &ada).await;
    agent.post(&format!("{}/ack", at(&moments[0])), json!({})).await.is(200);
    assert!(!whole(&world).await.contains("No xylophone\""));
    assert!(whole(&world).await.contains("Still no xylophone"));
    // The agent never fetches the other one.
    world.pass(2 * 24 * 3600).await;
    assert!(!whole(&world).await.contains("xylophone"), "a word is left");
    assert_eq!(agent.get(&at(&moments[1])).await.ok()["acknowledged_at"], Value::Null);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_nothing_to_acknowledge_before_the_end() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    let ack = format!("{}/ack", at(&moment));
    agent.post(&ack, json!({})).await.refused(409, "invalid_transition");
    resolve(&ada, &moment, option(0)).await.is(200);
    let acked = agent.post(&ack, json!({})).await.is(200);
    assert_eq!(acked["acknowledged_at"], "2026-11-21T08:00:00.000000Z");
    let withdraw = agent.post(&format!("{}/withdraw", at(&moment)), json!({})).await;
    withdraw.refused(409, "moment_not_open");
    world.end().await;
}
