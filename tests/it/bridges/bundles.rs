//! Bundles: an intent with everything that its reader may read of it, in one file that shows every change of it.

use std::time::Duration;

use entente_domain::bundles::{self, Section};
use entente_domain::identity::attestations::Attestation;
use entente_domain::identity::signatures::PublicKey;
use entente_kernel::Caller;
use entente_kernel::identity::authentication;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use entente_harness::identities::{key, proved, register};
use entente_harness::jobs::Hand;
use entente_harness::moments::{ask, at, free_text, option, resolve};
use entente_harness::{BundleFile, Client, Setup, Value, World, json, send, talk};

/// An intent with something of every kind.
pub struct Scene {
    pub world: World,
    pub admin: Client,
    pub ada: Client,
    pub intent: String,
    pub moment: Value,
    /// The token of a claim, and a key that was used.
    pub secrets: [String; 2],
}

impl Scene {
    pub async fn set() -> Self {
        Self::on(World::start().await).await
    }

    pub async fn on(world: World) -> Self {
        let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
        let (bob, human) = (world.agent("agent.bob").await, world.human("human.ada").await);
        register(&ada, "agent.ada", &key(1)).await;
        let (intent, channel) =
            talk(&ada, json!({ "members": ["agent.ada", "agent.bob"], "member_policy": "explicit" })).await;
        let path = format!("/intents/{intent}");
        ada.post(&format!("{path}/events"), proved(&intent, "agent.ada", "signed", &key(1))).await.ok();
        let audited = json!({ "name": "audited", "options": { "audit": true } });
        let audited = ada.post(&format!("{path}/channels"), audited).await.is(201)["id"].clone();
        send(&ada, audited.as_str().unwrap(), json!({ "sender": "agent.ada", "payload": { "n": 1 } })).await;
        for n in 0..3 {
            send(
                &ada,
                &channel,
                json!({ "sender": "agent.ada", "payload": { "text": format!("“{n}”\n"), "n": 0.1 } }),
            )
            .await;
        }
        // A number that no double holds, and one secret of the conversation between two.
        let large = r#"{"sender":"agent.ada","payload":{"n":9007199254740993}}"#;
        ada.send("POST", &format!("/channels/{channel}/messages"), Some(large.to_owned())).await;
        send(
            &ada,
            &channel,
            json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "for": "bob" } }),
        )
        .await;
        let hand = Hand::of(&bob, "echo@1").await;
        let lease = json!({ "cost.budget": ["USD:1.00"] });
        let job =
            json!({ "agent": "echo", "input": { "q": 1 }, "intent_id": intent, "lease_request": lease });
        ada.post("/jobs", job).await.is(201);
        let held = hand.one().await;
        let token = held["claim_token"].as_str().unwrap().to_owned();
        let key =
            admin.post("/principals/agent.ada/keys", json!({ "label": "used" })).await.is(201)["key"].clone();
        let key = key.as_str().unwrap().to_owned();
        send(&world.client(&key), &channel, json!({ "sender": "agent.ada", "payload": { "with": "a key" } }))
            .await;
        hand.events(&held, json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }]))
            .await
            .ok();
        hand.tell(&held, "result", json!({ "result": { "answer": 42 } })).await.ok();
        let budget = json!({ "scope": format!("intent:{intent}"), "unit": "USD", "limit": "5" });
        admin.post("/budgets", budget).await.is(201);
        let cost = json!({ "cost_type": "tokens", "amount": "0.25", "unit": "USD", "model": "m" });
        ada.post(&format!("{path}/costs"), cost).await.ok();
        let moment = ask(&ada, json!({ "intent_id": intent })).await;
        resolve(&human, &moment, option(1)).await.ok();
        let other = ask(&ada, json!({ "intent_id": intent })).await;
        resolve(&human, &other, free_text("a word in confidence")).await.ok();
        ada.post("/intents", json!({ "title": "below", "parent_id": intent })).await.ok();
        admin.post("/admin/checkpoints", json!({ "intent_id": intent })).await.is(201);
        Self { world, admin, ada, intent, moment, secrets: [token, key] }
    }

    pub async fn bundle(&self, client: &Client) -> BundleFile {
        BundleFile::of(client, &format!("/intents/{}", self.intent)).await
    }
}

/// Returns the line of a moment. Moments of one instant have no order.
fn decision(file: &BundleFile, moment: &Value) -> Value {
    let all = file.bodies(Section::Decision);
    all.into_iter().find(|one| one["moment_id"] == moment["id"]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_has_all_that_its_reader_may_read() {
    let scene = Scene::set().await;
    let file = scene.bundle(&scene.ada).await;
    let report = file.report_of(&scene.world).await;
    assert!(report.is_clean(), "{report:?}");
    let kinds = "bundle identity event checkpoint channel message channel message job job_event cost charge decision child";
    assert_eq!(file.kinds().join(" "), kinds);
    assert_eq!((report.counts["message"], report.counts["decision"], report.counts["job"]), (7, 2, 1));
    let messages = file.bodies(Section::Message);
    let texts: Vec<&Value> = messages.iter().map(|message| &message["payload"]["text"]).collect();
    assert!(texts.contains(&&json!("“2”\n")), "{texts:?}");
    let job = file.bodies(Section::Job).remove(0);
    assert_eq!(
        (&job["status"], &job["input"], &job["cost"]),
        (&json!("success"), &json!({ "q": 1 }), &json!({}))
    );
    let end = file.bodies(Section::JobEvent).pop().unwrap();
    assert_eq!((&end["type"], &end["body"]["result"]), (&json!("job.result"), &json!({ "answer": 42 })));
    assert_eq!(file.bodies(Section::Cost)[0]["amount"], file.bodies(Section::Charge)[0]["amount"]);
    assert_eq!(file.bodies(Section::Child)[0]["title"], "below");
    let decision = decision(&file, &scene.moment);
    assert_eq!(decision["resolution"]["option_idx"], 1);
    assert_eq!(decision["digest"], scene.moment["envelope_digest"]);
    assert_eq!(file.header()["left_out"], json!([]));
    // An admin sees the same, and not the submitter's input.
    let all = scene.bundle(&scene.admin).await;
    assert!(all.report_of(&scene.world).await.is_clean());
    assert_eq!(file.bodies(Section::Budget), [Value::Null; 0], "as `GET /budgets`");
    assert_eq!(all.bodies(Section::Budget)[0]["spent"], file.bodies(Section::Cost)[0]["amount"]);
    assert_eq!(all.bodies(Section::Job)[0]["input"], Value::Null);
    // Neither has a secret, nor a person's words.
    for text in [&file.0, &all.0] {
        let secret = scene.secrets.iter().map(String::as_str);
        for hidden in secret.chain(["a word in confidence", "claim_token", "\"ent_"]) {
            assert!(!text.contains(hidden), "{hidden}");
        }
    }
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_exports_what_they_may_not_read() {
    let scene = Scene::set().await;
    let path = format!("/intents/{}", scene.intent);
    let eve = scene.world.agent("agent.eve").await;
    let theirs = scene.bundle(&eve).await;
    assert!(theirs.report().is_clean());
    assert_eq!(
        theirs.bodies(Section::Channel).len(),
        3,
        "a reader of an intent sees its channels, a job's too"
    );
    assert!(!theirs.0.contains("“2”") && !theirs.0.contains("\"for\":\"bob\""), "{}", theirs.0);
    for none in [Section::Job, Section::Charge, Section::Budget, Section::Decision] {
        assert_eq!(theirs.bodies(none), [Value::Null; 0], "{none:?}");
    }
    scene.ada.put(&format!("{path}/acl"), json!({ "default_policy": "closed" })).await.ok();
    eve.get(&format!("{path}/export")).await.refused(403, "access_closed");
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_is_missing_leaves_out_its_kinds() {
    let scene = Scene::set().await;
    let narrow = json!({ "label": "narrow", "scopes": ["intents:read"] });
    let narrow = scene.admin.post("/principals/agent.ada/keys", narrow).await.is(201);
    let file = scene.bundle(&scene.world.client(narrow["key"].as_str().unwrap())).await;
    assert_eq!(file.header()["left_out"], json!(["channel", "message", "job", "job_event", "decision"]));
    let kinds = "bundle identity event checkpoint cost charge child";
    assert_eq!(file.kinds().join(" "), kinds);
    assert!(file.report_of(&scene.world).await.is_clean());
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_of_one_answer_to_what_was_seen() {
    let scene = Scene::set().await;
    let path = format!("{}/receipt", at(&scene.moment));
    let receipt = scene.ada.get(&path).await.ok();
    assert_eq!(scene.ada.get(&path).await.ok(), receipt, "the same answer has the same receipt");
    let file = scene.bundle(&scene.ada).await;
    assert_eq!(decision(&file, &scene.moment)["receipt"], receipt);
    let read: Attestation = serde_json::from_value(receipt).unwrap();
    let keys = scene.world.anon().get("/server/keys").await.ok();
    let trusted = PublicKey::of_did(keys["keys"][0]["did"].as_str().unwrap()).unwrap();
    let (statement, _) = read.open(&[trusted]).unwrap();
    let said = serde_json::to_value(&statement).unwrap();
    let digest = scene.moment["envelope_digest"].as_str().unwrap().trim_start_matches("sha256:");
    assert_eq!(said["subject"], json!([{ "name": scene.moment["id"], "digest": { "sha256": digest } }]));
    let resolution = &said["predicate"]["resolution"];
    assert_eq!((&resolution["kind"], &resolution["option_idx"]), (&json!("option"), &json!(1)));
    assert_eq!(resolution["by"], "human.ada");
    // Who may not see the moment gets no receipt, and an open question has none.
    scene.world.agent("agent.eve").await.get(&path).await.refused(404, "not_found");
    let open = ask(&scene.ada, json!({})).await;
    scene.ada.get(&format!("{}/receipt", at(&open))).await.refused(404, "not_found");
    // A forged answer in a bundle that is sealed anew is found by its receipt.
    let forged = file.forged(|lines| {
        let decision = lines.iter_mut().find(|line| line.0 == Section::Decision).unwrap();
        decision.1["resolution"]["option_idx"] = json!(0);
    });
    let report = forged.report();
    assert!(report.damaged.iter().any(|fault| fault.contains("receipt")), "{report:?}");
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_that_is_changed_moved_added_or_gone_is_found() {
    let scene = Scene::set().await;
    let file = scene.bundle(&scene.admin).await;
    let lines: Vec<&str> = file.0.split_inclusive('\n').collect();
    let key = PublicKey::of_did(file.report().log.signed_by.as_deref().unwrap()).unwrap();
    let clean = |text: &str| bundles::verify(text.as_bytes(), &[key]).is_ok_and(|report| report.is_clean());
    assert!(clean(&file.0));
    for at in 0..lines.len() {
        let without: String =
            lines.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| *line).collect();
        assert!(!clean(&without), "without line {at}");
        assert!(!clean(&lines[..at].concat()), "cut before line {at}");
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        assert!(!clean(&twice.concat()), "line {at} twice");
        let mut moved = lines.clone();
        moved.swap(at, (at + 1) % lines.len());
        assert!(!clean(&moved.concat()), "line {at} moved");
    }
    for more in ["\n", " ", "{}\n", lines[1], lines[lines.len() - 1]] {
        assert!(!clean(&format!("{}{more}", file.0)), "{more:?} more");
    }
    assert!(!clean(file.0.trim_end()), "the last line has its end");
    // A forger's own seal is not the server's.
    assert!(file.forged(|_| ()).report().is_clean());
    assert!(!clean(&file.forged(|_| ()).0));
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_one_moment_while_others_write_on_two_servers() {
    let (here, there) = World::two().await;
    let ada = here.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let path = format!("/intents/{intent}");
    let writes = async {
        for n in 0..40 {
            send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        }
    };
    let other = there.client("key-of-agent.ada");
    let reads = async {
        let mut seen = 0;
        for _ in 0..6 {
            for client in [&ada, &other] {
                let file = BundleFile::of(client, &path).await;
                let report = file.report_of(&there).await;
                assert!(report.is_clean(), "{report:?}");
                let messages = file.bodies(Section::Message).len();
                let audited = file.bodies(Section::Event).len() - 2;
                assert_eq!(messages, audited, "messages and events are of one moment");
                assert!(messages >= seen, "time does not go back");
                seen = messages;
            }
        }
    };
    tokio::join!(writes, reads);
    there.end().await;
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_intent_is_written_page_by_page() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 0 } })).await;
    // As many messages as no page has, each with its id, as if they had been sent.
    sqlx::raw_sql(
        "INSERT INTO messages (channel_id, number, id, intent_id, seq, sender, message_type, payload, created_at)
         SELECT channel_id, number + n, gen_random_uuid(), intent_id, seq + n, sender, message_type,
                '{\"n\":' || n || ',\"text\":\"' || repeat('x', 500) || '\"}', created_at
         FROM messages, generate_series(1, 5000) n",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    let grant = authentication::authenticate(world.ctx(), "key-of-agent.ada", None).await.unwrap();
    let caller = Caller::new(grant, None, world.ctx().now()).unwrap();
    let mut bundle =
        entente_bridges::bundles::begin(world.ctx(), &caller, intent.parse().unwrap()).await.unwrap();
    let (mut text, mut largest) = (String::new(), 0);
    while let Some(lines) = bundle.next().await.unwrap() {
        largest = largest.max(lines.len());
        text.push_str(&lines);
    }
    let report = BundleFile(text.clone()).report_of(&world).await;
    assert!(report.is_clean() && report.counts["message"] == 5_001, "{:?}", report.counts);
    assert!(text.len() > 3_000_000 && largest < 600_000, "{} in pieces of {largest}", text.len());
    // The same over the wire.
    let file = BundleFile::of(&ada, &format!("/intents/{intent}")).await;
    assert_eq!(file.bodies(Section::Message).len(), 5_001);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_keeps_no_snapshot_and_nobody_waiting() {
    let settings = vec![("ENTENTE_WRITE_SECONDS", "3")];
    let world = World::with(Setup { settings, live: false }).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 0 } })).await;
    // More than the sockets of a connection hold.
    sqlx::raw_sql(
        "INSERT INTO messages (channel_id, number, id, intent_id, seq, sender, message_type, payload, created_at)
         SELECT channel_id, number + n, gen_random_uuid(), intent_id, seq + n, sender, message_type,
                '{\"text\":\"' || repeat('x', 200000) || '\"}', created_at
         FROM messages, generate_series(1, 200) n",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    let mut stopped = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        let asked = format!(
            "GET /api/v1/intents/{intent}/export HTTP/1.1\r\nHost: h\r\nX-API-Key: key-of-agent.ada\r\n\r\n"
        );
        socket.write_all(asked.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        socket.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        stopped.push(socket);
    }
    // Its principal has as many as it may, others have theirs.
    ada.get(&format!("/intents/{intent}/export")).await.refused(429, "rate_limited");
    let file = BundleFile::of(&bob, &format!("/intents/{intent}")).await;
    assert_eq!(file.bodies(Section::Message).len(), 201);
    // Nobody reads these two, and they end: their snapshots are gone, and there are turns again.
    let snapshots =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        let held: i64 = sqlx::query_scalar(snapshots).fetch_one(&world.ctx().pool).await.unwrap();
        if held == 0 {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{held} snapshots are held");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(
        BundleFile::of(&ada, &format!("/intents/{intent}")).await.0.lines().count(),
        file.0.lines().count()
    );
    // What came is cut off, and no verifier takes it for a bundle.
    for mut socket in stopped {
        let mut came = Vec::new();
        let _cut = socket.read_to_end(&mut came).await;
        assert!(!came.ends_with(b"0\r\n\r\n"), "the answer has its end");
    }
    world.server.stop().await;
}
