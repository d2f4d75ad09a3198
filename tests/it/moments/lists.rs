//! Lists of moments: complete pages without their words, hidden from callers that only act as the person; and the
//! limit on open moments.

use super::work::job;
use super::{ask, at, dialogue, free_text, option, question, resolve, with};
use entente_harness::people::logged_in;
use entente_harness::{Setup, Sse, Value, World, ids, json};

/// Copies the only moment `times` times.
async fn copied(world: &World, times: i32) {
    let text =
        "INSERT INTO moments SELECT (jsonb_populate_record(m, jsonb_build_object('id', gen_random_uuid()))).*
                FROM moments m, generate_series(1, $1)";
    sqlx::query(text).bind(times).execute(&world.ctx().pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_wait_hide_nothing_that_is_over() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    ask(&agent, json!({})).await;
    // Most of these random ids sort after the time-based ones.
    copied(&world, 44).await;
    let over = ask(&agent, json!({})).await;
    agent.post(&format!("{}/withdraw", at(&over)), json!({ "reason": "over" })).await.ok();
    let past = browser.get("/inbox").await.between("id=\"past\"", "</section>");
    assert!(past.contains(over["id"].as_str().unwrap()), "{past}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_came_to_the_second_person_hides_nothing_from_it() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let ben = world.human("human.ben").await;
    let second = json!({ "escalate_to": "human.ben", "escalate_after": 60, "expires_in": 3600 });
    let early = ask(&agent, second).await;
    resolve(&ada, &early, option(0)).await.is(200);
    // As many as one query reads, and more than a page.
    copied(&world, 120).await;
    world.clock.advance(120);
    let mine = agent.post("/moments", question("human.ben")).await.is(201);
    let mut heard = Sse::resume(&ben, "/moments/stream", Some("0")).await;
    assert_eq!(heard.next_named("moment").await.data["id"], mine["id"]);
    let list = ben.get("/moments?limit=1").await.ok();
    assert_eq!(ids(&list["moments"]), [mine["id"].as_str().unwrap()]);
    assert_eq!(list["next_cursor"], Value::Null);
    ben.get(&at(&early)).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_filter_leaves_out_is_looked_at_in_portions() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    let (_hand, work) = job(&agent, json!({ "intent_id": intent })).await;
    let mut rare = with(question("human.ada"), json!({ "job_id": work["job_id"] }));
    rare["binding_moment"]["meta"] = json!({ "decision_class": "rare" });
    let rare = agent.post("/moments", rare).await.is(201);
    let common = ask(&agent, json!({})).await;
    resolve(&ada, &common, option(0)).await.is(200);
    // Later ones, all of them resolved.
    let text = "INSERT INTO moments SELECT (jsonb_populate_record(m, jsonb_build_object('id',
                    'ffffffff-0000-4000-8000-' || lpad(to_hex(s), 12, '0')))).*
                FROM moments m, generate_series(1, 1200) s WHERE m.state = 'resolved'";
    sqlx::query(text).execute(&world.ctx().pool).await.unwrap();
    let admin = world.admin().await;
    for client in [&agent, &ada, &admin] {
        // A filter with an index of its own finds its rows at once, without another page.
        let (job, intent) = (work["job_id"].as_str().unwrap(), intent.as_str().unwrap());
        let direct = ["state=open".to_owned(), format!("job={job}"), format!("intent={intent}")];
        for filter in direct {
            let page = client.get(&format!("/moments?{filter}")).await.ok();
            assert_eq!(ids(&page["moments"]), [rare["id"].as_str().unwrap()], "{filter}");
            assert_eq!(page["next_cursor"], Value::Null, "{filter}");
        }
        let (mut found, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/moments?class=rare{cursor}")).await.ok();
            found.extend(ids(&page["moments"]));
            sizes.push(page["moments"].as_array().unwrap().len());
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!((found, sizes), (vec![rare["id"].as_str().unwrap().to_owned()], vec![0, 0, 1]));
    }
    // A page without a filter is full.
    let page = ada.get("/moments").await.ok();
    assert_eq!((ids(&page["moments"]).len(), page["next_cursor"].is_string()), (100, true));
    assert_eq!(ids(&ada.get("/moments?state=resolved&limit=7").await.ok()["moments"]).len(), 7);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_of_an_agent_wait_for_a_person() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    world.human("human.ben").await;
    let first = ask(&agent, json!({})).await;
    copied(&world, 49).await;
    let refused = agent.post("/moments", question("human.ada")).await.refused(413, "too_large");
    assert!(refused["message"].as_str().unwrap().contains("50 questions"), "{refused}");
    let talk = json!({ "principal_id": "human.ada", "text": "I cannot tell." });
    agent.post("/moments/deliberations", talk.clone()).await.refused(413, "too_large");
    let second = json!({ "escalate_to": "human.ada", "escalate_after": 60 });
    agent.post("/moments", with(question("human.ben"), second)).await.refused(413, "too_large");
    // Another agent may ask, and so may this agent with another person.
    ask(&world.agent("agent.b").await, json!({})).await;
    agent.post("/moments", question("human.ben")).await.is(201);
    // A successor does not count as an additional moment.
    resolve(&ada, &first, dialogue("Why only two?")).await.is(200);
    // The refusal has withdrawn the equal questions.
    for _ in 0..49 {
        agent.post("/moments/deliberations", talk.clone()).await.is(201);
    }
    let words = format!("{}/words", at(&first));
    agent.post(&words, json!({ "text": "There is a third." })).await.is(200);
    let mut other = question("human.ada");
    other["binding_moment"]["question"]["stem"] = json!("Which of the three channels is it?");
    agent.post("/moments", other.clone()).await.refused(413, "too_large");
    let next = json!({ "supersedes": first["id"], "objection_response": "There is a third channel." });
    agent.post("/moments", with(other, next)).await.is(201);
    // An expired moment does not count, even before the sweep records it.
    world.clock.advance(24 * 3600);
    agent.post("/moments/deliberations", talk).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_has_pages_and_no_words() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let talk = json!({ "principal_id": "human.ada", "text": "I cannot tell." });
    let talk = agent.post("/moments/deliberations", talk).await.is(201);
    let mut wanted = Vec::new();
    for seconds in [120, 120, 60, 180] {
        wanted.push(ask(&agent, json!({ "expires_in": seconds })).await);
    }
    wanted.swap(0, 2);
    wanted[1..3].sort_by_key(|one| one["id"].to_string());
    wanted.push(talk.clone());
    ada.post(&format!("{}/words", at(&wanted[0])), json!({ "text": "Who?" })).await.is(200);
    let (mut found, mut path) = (Vec::new(), "/moments/inbox?limit=2".to_owned());
    loop {
        let page = ada.get(&path).await.ok();
        found.extend(page["moments"].as_array().unwrap().clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/moments/inbox?limit=2&cursor={cursor}");
    }
    let id = |one: &Value| one["id"].as_str().unwrap().to_owned();
    assert_eq!(found.iter().map(id).collect::<Vec<_>>(), wanted.iter().map(id).collect::<Vec<_>>());
    assert_eq!((found[0].get("words"), &found[0]["words_count"]), (None, &json!(1)));
    let listed = ada.get("/moments").await.ok();
    assert!(listed["moments"].as_array().unwrap().iter().any(|one| one["words_count"] == 1));
    assert!(!listed.to_string().contains("Who?"));
    let whole = ada.get(&at(&wanted[0])).await.ok();
    assert_eq!((&whole["words"][0]["text"], &whole["words_count"]), (&json!("Who?"), &json!(1)));
    ada.get("/moments/inbox?limit=101").await.refused(422, "invalid_parameter");
    let other = world.human("human.ben").await;
    other.get(&format!("/moments/inbox?cursor={}", id(&talk))).await.refused(422, "invalid_request");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_a_persons_words_by_acting_as_it() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    resolve(&ada, &moment, free_text("On Monday.")).await.is(200);
    let next = ask(&agent, json!({})).await;
    let service = world.any().acting_as("human.ada");
    service.get(&at(&moment)).await.refused(404, "not_found");
    for path in ["/moments", "/moments/inbox"] {
        assert_eq!(service.get(path).await.ok()["moments"], json!([]), "{path}");
    }
    assert_eq!(service.get("/moments/rates").await.ok(), json!([]));
    // An admin has the admin's view, regardless of the agent it acts as.
    let admin = world.admin().await.acting_as("human.ada");
    let seen = admin.get(&at(&moment)).await.ok();
    assert_eq!((&seen["resolution"]["kind"], seen["resolution"].get("answer")), (&json!("free_text"), None));
    assert!(!admin.get("/moments?principal=human.ada").await.ok().to_string().contains("Monday"));
    let of_agent = admin.get("/moments?agent=agent.a&state=open").await.ok();
    assert_eq!(ids(&of_agent["moments"]), [next["id"].as_str().unwrap()]);
    assert_eq!(ids(&admin.get("/moments").await.ok()["moments"]).len(), 2);
    // A caller that acts as the agent sees the agent's view.
    let hand = world.any().acting_as("agent.a");
    assert_eq!(hand.get(&at(&moment)).await.ok()["resolution"]["answer"], "On Monday.");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_sees_what_time_does_without_being_told() {
    let world = World::with(Setup::default()).await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    let moment = ask(&agent, json!({ "expires_in": 60 })).await;
    world.clock.advance(59);
    let began = std::time::Instant::now();
    let pass = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        world.clock.advance(1);
    };
    let path = format!("{}?wait=20", at(&moment));
    let (found, ()) = futures_util::future::join(agent.get(&path), pass).await;
    assert_eq!(found.ok()["state"], "expired");
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    // At the end of the wait the response has the state at that time.
    let moment = ask(&agent, json!({ "expires_in": 60 })).await;
    let pass = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        world.clock.advance(60);
    };
    let path = format!("{}?wait=1", at(&moment));
    let (found, ()) = futures_util::future::join(agent.get(&path), pass).await;
    assert_eq!(found.ok()["state"], "expired");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_asked_for_again_is_the_same() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    let withdraw = format!("{}/withdraw", at(&moment));
    let done = agent.post(&withdraw, json!({ "reason": "Not needed." })).await.is(200);
    assert_eq!(agent.post(&withdraw, json!({ "reason": "Not needed." })).await.is(200), done);
    ada.post(&withdraw, json!({})).await.refused(403, "forbidden");
    let moment = ask(&agent, json!({})).await;
    resolve(&ada, &moment, dialogue("Why?")).await.is(200);
    let close = format!("{}/close", at(&moment));
    let done = ada.post(&close, json!({})).await.is(200);
    assert_eq!(ada.post(&close, json!({})).await.is(200), done);
    agent.post(&close, json!({})).await.refused(403, "not_the_principal");
    agent.post(&format!("{}/withdraw", at(&moment)), json!({})).await.refused(409, "moment_not_open");
    // The first text of a deliberation is not hashed under its idempotency key: the same key means the same
    // deliberation, whatever the text.
    let talk = |text: &str| json!({ "principal_id": "human.ada", "text": text });
    let first = agent.once("d1").post("/moments/deliberations", talk("I cannot tell.")).await.is(201);
    assert_eq!(agent.once("d1").post("/moments/deliberations", talk("Yes.")).await.is(200), first);
    // Another person or another intent makes it a different request.
    world.human("human.ben").await;
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    for other in [json!({ "principal_id": "human.ben" }), json!({ "intent_id": intent })] {
        let other = with(talk("I cannot tell."), other);
        agent.once("d1").post("/moments/deliberations", other).await.refused(409, "idempotency_mismatch");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_misspelt_is_refused_and_what_cannot_be_shown_says_why() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let odd = with(question("human.ada"), json!({ "valid_whlie": {} }));
    let refused = agent.post("/moments", odd).await.refused(422, "invalid_request");
    assert!(refused.to_string().contains("valid_whlie"), "{refused}");
    let talk = json!({ "principal_id": "human.ada", "text": "I cannot tell." });
    let odd = with(talk.clone(), json!({ "txet": "" }));
    agent.post("/moments/deliberations", odd).await.refused(422, "invalid_request");
    for (member, value) in [("expires_in", json!(60)), ("valid_while", json!({ "job_status": "running" }))] {
        let odd = with(talk.clone(), json!({ member: value }));
        let refused = agent.post("/moments/deliberations", odd).await.refused(422, "invalid_request");
        assert!(refused["message"].as_str().unwrap().contains("belongs to a question"), "{refused}");
    }
    let moment = ask(&agent, json!({})).await;
    assert_eq!(moment.get("malformed"), None);
    let spoil = "UPDATE moments SET brief = '{}'";
    sqlx::query(spoil).execute(&world.ctx().pool).await.unwrap();
    let found = ada.get(&at(&moment)).await.ok();
    assert_eq!(found["binding_moment"], Value::Null);
    assert!(found["malformed"].as_str().unwrap().contains("synopsis"), "{found}");
    for resolution in [option(0), dialogue("Which question?")] {
        let refused = resolve(&ada, &moment, resolution).await.refused(409, "moment_not_open");
        assert!(refused["message"].as_str().unwrap().contains("cannot be read"), "{refused}");
    }
    world.end().await;
}
