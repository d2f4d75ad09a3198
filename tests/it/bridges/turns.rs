//! Turns: everything that an agent does between two thoughts, in one request; all of it or nothing.

use entente_harness::cli::told;
use entente_harness::envelopes::{mail, task_envelope, with};
use entente_harness::governance::governed;
use entente_harness::inbox::{follow, numbers, open, read};
use entente_harness::jobs::{Hand, id, kinds, status};
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json, send, talk};

/// An agent in the middle of its work: bob has a worker with a running job and a reservation, an inbox with two messages,
/// and a pending job.
struct Scene {
    world: World,
    ada: Client,
    bob: Client,
    intent: String,
    channel: String,
    /// A task that bob has claimed.
    task: String,
    question: Value,
    hand: Hand,
    job: Value,
    reservation: Value,
}

impl Scene {
    async fn set() -> Self {
        let world = World::start().await;
        let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
        let (intent, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
        let task = ada.post("/tasks", json!({ "intent_id": intent, "name": "read" })).await.ok();
        let task = id_of(&task);
        bob.post(&format!("/tasks/{task}/claim"), json!({})).await.ok();
        bob.post(&format!("/tasks/{task}/start"), json!({})).await.ok();
        open(&bob, "agent.bob", json!({})).await;
        let ask = json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": { "n": 1 } });
        let question = send(&ada, &channel, ask).await;
        let note = json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": 2 } });
        send(&ada, &channel, note).await;
        follow(&world).await;
        let hand = Hand::of(&bob, "echo@1").await;
        let lease = json!({ "cost.budget": ["USD:1.00"], "tool.call": ["*"] });
        ada.post("/jobs", json!({ "agent": "echo", "lease_request": lease })).await.is(201);
        let job = hand.one().await;
        ada.post("/jobs", json!({ "agent": "echo", "input": { "next": true } })).await.is(201);
        let call = json!({ "capability": "tool.call", "target": "web", "reserve": { "USD": "0.40" } });
        let reservation = hand.tell(&job, "authorize", call).await.ok()["reservation_id"].clone();
        Self { world, ada, bob, intent, channel, task, question, hand, job, reservation }
    }

    /// Names the running job.
    fn of_job(&self, mut body: Value) -> Value {
        body["job_id"] = self.job["job_id"].clone();
        body["claim_token"] = self.job["claim_token"].clone();
        body
    }

    /// A turn with every part.
    fn turn(&self) -> Value {
        let progress = json!({ "kind": "progress", "body": { "current": 1 } });
        json!({
            "seen": { "place": 2 },
            "read": [{ "channel_id": self.channel, "message_id": self.question["id"] }],
            "messages": [
                { "channel_id": self.channel, "message_type": "response", "correlation_id": self.question["id"], "payload": { "n": 3 } },
                { "channel_id": self.channel, "to": "agent.ada", "payload": { "n": 4 } },
            ],
            "events": [{ "intent_id": self.intent, "event_type": "note", "payload": { "n": 5 } }],
            "tasks": [
                { "verb": "complete", "task_id": self.task, "claim_token": 1, "output": { "pages": 12 } },
                { "verb": "create", "task": { "intent_id": self.intent, "name": "write" } },
            ],
            "mail": [self.letter("letter-00")],
            "settle": [self.of_job(json!({ "reservation_id": self.reservation, "cost": { "USD": "0.25" } }))],
            "report": [self.of_job(json!({ "events": [progress], "checkpoint": { "at": 1 } }))],
            "finish": [self.of_job(json!({ "result": { "ok": true } }))],
            "heartbeat": { "worker_id": self.hand.id, "jobs": [self.of_job(json!({}))] },
            "claim": { "worker_id": self.hand.id, "max": 5 },
        })
    }

    /// An envelope of bob's.
    fn letter(&self, id: &str) -> Value {
        with(task_envelope(&self.world, id, ("agent.bob", "agent.ada")), json!({ "payload": { "n": 6 } }))
    }

    /// Returns name, status and agent of the intent's tasks, by their names.
    async fn tasks(&self) -> Vec<Value> {
        let tasks = self.ada.get(&format!("/intents/{}/tasks", self.intent)).await.ok();
        let list = tasks.as_array().or_else(|| tasks["tasks"].as_array());
        let told = |task: &Value| json!([task["name"], task["status"], task["assigned_agent"]]);
        let mut told: Vec<Value> = list.unwrap().iter().map(told).collect();
        told.sort_by_key(|task| task[0].to_string());
        told
    }

    async fn notes(&self) -> usize {
        let notes = self.ada.get(&format!("/intents/{}/events?event_type=note", self.intent)).await.ok();
        notes.as_array().unwrap().len()
    }

    /// Asserts that nothing of a turn took effect.
    async fn is_untouched(&self, after: &str) {
        let page = read(&self.bob, "agent.bob", "").await;
        assert_eq!((&page["seen"], numbers(&page)), (&json!(0), vec![1, 2]), "{after}");
        let messages = self.ada.get(&format!("/channels/{}/messages", self.channel)).await.ok();
        assert_eq!(messages.as_array().unwrap().len(), 2, "{after}: {messages}");
        assert!(
            messages.as_array().unwrap().iter().all(|message| message["status"] == "delivered"),
            "{after}"
        );
        assert_eq!(status(&self.ada, id(&self.job)).await, "running", "{after}");
        assert_eq!(self.tasks().await, [json!(["read", "running", "agent.bob"])], "{after}");
        assert_eq!((self.notes().await, mail(&self.ada, "agent.ada").await.len()), (0, 0), "{after}");
        assert!(!kinds(&self.ada, id(&self.job)).await.contains(&"progress".to_owned()), "{after}");
        let pending = self.ada.get("/jobs?status=pending").await.ok();
        assert_eq!(pending["jobs"].as_array().unwrap().len(), 1, "{after}: {pending}");
        let left = self.ada.get(&format!("/jobs/{}", id(&self.job))).await.ok();
        assert_eq!(left["budget"], json!({ "USD": 0.6 }), "{after}: the reservation is open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_does_everything_at_once() {
    let scene = Scene::set().await;
    let taken = scene.bob.post("/turn", scene.turn()).await.ok();
    let done = &taken["done"];
    assert_eq!(done["seen"], json!({ "reader": "default", "place": 2 }));
    assert_eq!(
        (&done["messages"][0]["payload"]["n"], &done["messages"][1]["payload"]["n"]),
        (&json!(3), &json!(4))
    );
    assert_eq!(done["messages"][0]["sender"], "agent.bob");
    assert_eq!(done["settled"][0]["budget"], json!({ "USD": 0.75 }));
    assert_eq!(
        (&done["events"][0]["payload"]["n"], &done["events"][0]["actor"]),
        (&json!(5), &json!("agent.bob"))
    );
    assert_eq!(
        (&done["tasks"][0]["status"], &done["tasks"][0]["output"]),
        (&json!("completed"), &json!({ "pages": 12 }))
    );
    assert_eq!(
        (&done["tasks"][1]["name"], &done["tasks"][1]["created_by"]),
        (&json!("write"), &json!("agent.bob"))
    );
    assert_eq!(
        (&done["mail"][0]["id"], &done["mail"][0]["status"]),
        (&json!("letter-00"), &json!("accepted"))
    );
    assert_eq!(
        (done["reported"].as_array().unwrap().len(), done["finished"].as_array().unwrap().len()),
        (1, 1)
    );
    assert_eq!(done["heartbeat"]["lost"], json!([]), "what has just ended is not lost");
    let claimed = taken["jobs"].as_array().unwrap();
    assert_eq!((claimed.len(), &claimed[0]["input"]), (1, &json!({ "next": true })));
    assert_eq!((numbers(&taken["inbox"]), &taken["inbox"]["seen"]), (vec![], &json!(2)));
    // Everything is there, as if it had been done one by one.
    assert_eq!(status(&scene.ada, id(&scene.job)).await, "success");
    assert!(kinds(&scene.ada, id(&scene.job)).await.contains(&"progress".to_owned()));
    let messages = scene.ada.get(&format!("/channels/{}/messages", scene.channel)).await.ok();
    let statuses: Vec<&Value> =
        messages.as_array().unwrap().iter().map(|message| &message["status"]).collect();
    assert_eq!(statuses[0], "read", "{messages}");
    assert_eq!(messages.as_array().unwrap().len(), 4);
    let tasks = [json!(["read", "completed", "agent.bob"]), json!(["write", "ready", null])];
    assert_eq!((scene.tasks().await, scene.notes().await), (tasks.to_vec(), 1));
    assert_eq!(mail(&scene.ada, "agent.ada").await.len(), 1);
    scene.hand.tell(&claimed[0], "result", json!({ "result": 1 })).await.ok();
    scene.world.end().await;
}

/// An envelope for which bob may not speak.
fn with_from_ada(scene: &Scene) -> Value {
    with(scene.letter("letter-01"), json!({ "from": "agent.ada", "to": "agent.bob" }))
}

/// Returns the id of an object.
fn id_of(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

/// Turns with a fault in an item of a list: the list, the item's index, and the status of the answer.
fn faults(scene: &Scene) -> Vec<(&'static str, usize, u16, Value)> {
    let elsewhere = json!("chn_01J9ZK4T6Q8R2V5X7Y9B1C3D5F");
    let other_token = |list: &str| {
        let mut turn = scene.turn();
        turn[list][0]["claim_token"] = json!("ct_other");
        turn
    };
    let foreign = with_from_ada(scene);
    let with = |list: &str, item: Value| {
        let mut turn = scene.turn();
        turn[list].as_array_mut().unwrap().push(item);
        turn
    };
    let child = json!({ "kind": "delegate", "body": { "delegate_id": "d", "agent": "echo" } });
    let both = json!({ "result": 1, "error": { "message": "no" } });
    let (intent, task) = (&scene.intent, &scene.task);
    vec![
        ("read", 1, 404, with("read", json!({ "channel_id": scene.channel, "message_id": "msg_none" }))),
        (
            "read",
            1,
            404,
            with("read", json!({ "channel_id": elsewhere, "message_id": scene.question["id"] })),
        ),
        ("messages", 2, 404, with("messages", json!({ "channel_id": elsewhere, "payload": {} }))),
        (
            "messages",
            2,
            403,
            with("messages", json!({ "channel_id": scene.channel, "sender": "agent.ada", "payload": {} })),
        ),
        (
            "messages",
            2,
            422,
            with(
                "messages",
                json!({ "channel_id": scene.channel, "message_type": "response", "payload": {} }),
            ),
        ),
        ("events", 1, 404, with("events", json!({ "intent_id": "intent_none", "event_type": "note" }))),
        ("events", 1, 422, with("events", json!({ "intent_id": intent, "event_type": "" }))),
        (
            "events",
            1,
            403,
            with("events", json!({ "intent_id": intent, "event_type": "note", "actor": "agent.ada" })),
        ),
        ("tasks", 2, 422, with("tasks", json!({ "verb": "create" }))),
        ("tasks", 2, 422, with("tasks", json!({ "verb": "start" }))),
        ("tasks", 2, 404, with("tasks", json!({ "verb": "start", "task_id": "task_none" }))),
        ("tasks", 2, 409, with("tasks", json!({ "verb": "complete", "task_id": task }))),
        ("mail", 1, 409, with("mail", scene.letter("letter-00"))),
        ("mail", 1, 422, with("mail", json!({ "v": "1" }))),
        ("mail", 1, 403, with("mail", foreign)),
        ("settle", 1, 422, with("settle", scene.turn()["settle"][0].clone())),
        ("settle", 0, 409, other_token("settle")),
        ("report", 0, 409, other_token("report")),
        ("report", 1, 422, with("report", scene.of_job(json!({ "events": [child] })))),
        (
            "report",
            1,
            422,
            with("report", scene.of_job(json!({ "events": [{ "kind": "nonsense", "body": {} }] }))),
        ),
        ("finish", 0, 409, other_token("finish")),
        ("finish", 1, 409, with("finish", scene.of_job(json!({ "result": 2 })))),
        ("finish", 1, 422, with("finish", scene.of_job(both))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_refused_in_one_part_leaves_nothing() {
    let scene = Scene::set().await;
    for (list, index, expected, turn) in faults(&scene) {
        let reply = scene.bob.post("/turn", turn).await;
        assert_eq!(reply.status, expected, "{list}: {}", reply.text);
        let body = reply.json();
        let detail = body["message"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned();
        assert!(detail.starts_with(&format!("`{list}` at place {index}: ")), "{detail}");
        for error in reply.json()["errors"].as_array().into_iter().flatten() {
            let place = error["loc"].as_array().unwrap();
            assert_eq!((&place[1], &place[2]), (&json!(list), &json!(index.to_string())), "{error}");
        }
        scene.is_untouched(&detail).await;
    }
    for (member, value) in [
        ("seen", json!({ "place": 9 })),
        ("heartbeat", json!({ "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" })),
        ("claim", json!({ "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" })),
        ("claim", json!({ "worker_id": scene.hand.id, "agents": ["other@1"] })),
        ("claim", json!({ "worker_id": scene.hand.id, "max": 101 })),
        ("messages", json!(vec![scene.turn()["messages"][0].clone(); 101])),
        ("events", json!(vec![scene.turn()["events"][0].clone(); 101])),
        ("tasks", json!(vec![scene.turn()["tasks"][1].clone(); 101])),
        ("mail", json!(vec![scene.letter("letter-00"); 101])),
        ("tasks", json!([{ "verb": "delegate", "task_id": scene.task, "to": "agent.ada" }])),
        ("inbox", json!({ "limit": 0 })),
        ("inbox", json!({ "attention": "loud" })),
        ("idempotency_key", json!("")),
    ] {
        let mut turn = scene.turn();
        turn[member] = value;
        let reply = scene.bob.post("/turn", turn).await;
        assert!((400..500).contains(&reply.status), "{member}: {}", reply.text);
        scene.is_untouched(member).await;
    }
    // Nothing is in the way of the turn itself.
    scene.bob.post("/turn", scene.turn()).await.ok();
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_turn_happens_once_and_has_the_same_claims() {
    let scene = Scene::set().await;
    let mut turn = scene.turn();
    let first = scene.bob.once("turn-1").post("/turn", turn.clone()).await.ok();
    let again = scene.bob.once("turn-1").post("/turn", turn.clone()).await.ok();
    assert_eq!(again["done"], first["done"]);
    let token = |taken: &Value| taken["jobs"][0]["claim_token"].clone();
    assert_eq!(token(&again), token(&first));
    assert_eq!(again["jobs"].as_array().unwrap().len(), 1);
    // At the same time, too.
    let keyed = scene.bob.once("turn-1");
    let (a, b) = tokio::join!(keyed.post("/turn", turn.clone()), keyed.post("/turn", turn.clone()));
    assert_eq!((token(&a.ok()), token(&b.ok())), (token(&first), token(&first)));
    turn["messages"] = json!([]);
    scene.bob.once("turn-1").post("/turn", turn.clone()).await.refused(409, "idempotency_mismatch");
    // A job that was ended meanwhile is not returned.
    scene.hand.tell(&first["jobs"][0], "result", json!({ "result": 1 })).await.ok();
    let again = scene.bob.once("turn-1").post("/turn", scene.turn()).await.ok();
    assert_eq!((&again["done"], &again["jobs"]), (&first["done"], &json!([])));
    // Another principal that acts as the agent has keys of its own.
    scene.ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let other = scene.world.any().acting_as("agent.bob").once("turn-1");
    let claim = json!({ "claim": { "worker_id": scene.hand.id } });
    assert_eq!(other.post("/turn", claim).await.ok()["jobs"].as_array().unwrap().len(), 1);
    // A repeated turn does not need the worker any more.
    scene.bob.post(&format!("/workers/{}/leave", scene.hand.id), json!({})).await.ok();
    let again = scene.bob.once("turn-1").post("/turn", scene.turn()).await.ok();
    assert_eq!((&again["done"], &again["jobs"]), (&first["done"], &json!([])));
    // The key may stand in the body.
    let note =
        json!({ "messages": [{ "channel_id": scene.channel, "payload": {} }], "idempotency_key": "turn-2" });
    let sent = scene.bob.post("/turn", note.clone()).await.ok();
    assert_eq!(scene.bob.post("/turn", note).await.ok()["done"], sent["done"]);
    let messages = scene.ada.get(&format!("/channels/{}/messages", scene.channel)).await.ok();
    assert_eq!(messages.as_array().unwrap().len(), 5);
    assert_eq!((scene.tasks().await.len(), scene.notes().await), (2, 1));
    assert_eq!(mail(&scene.ada, "agent.ada").await.len(), 1);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_turn_is_answered_although_its_parts_are_no_longer_possible() {
    let scene = Scene::set().await;
    let (_, gone) = talk(&scene.ada, json!({})).await;
    let note = json!([{ "channel_id": gone, "payload": {} }]);
    let turn = json!({ "mail": [scene.letter("letter-00")], "messages": note });
    let first = scene.bob.once("t").post("/turn", turn.clone()).await.ok();
    let deleted = scene.ada.delete(&format!("/channels/{gone}")).await;
    assert!(deleted.status < 300, "{}", deleted.text);
    assert_eq!(scene.bob.once("t").post("/turn", turn.clone()).await.ok()["done"], first["done"]);
    scene.bob.once("u").post("/turn", json!({ "messages": note })).await.refused(404, "not_found");
    assert_eq!(mail(&scene.ada, "agent.ada").await.len(), 1);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_forbids_in_a_turn_is_recorded() {
    let scene = Scene::set().await;
    let intent = governed(&scene.ada, json!({ "write_scope": "assigned_only" })).await;
    let note = json!({ "intent_id": intent, "event_type": "note" });
    let create = json!({ "verb": "create", "task": { "intent_id": intent, "name": "x" } });
    for (count, turn) in [(1, json!({ "events": [note] })), (2, json!({ "tasks": [create] }))] {
        scene.bob.post("/turn", turn).await.refused(403, "governance_violation");
        let path = format!("/intents/{intent}/events?event_type=governance.violation");
        let violations = scene.ada.get(&path).await.ok();
        assert_eq!(violations.as_array().unwrap().len(), count, "{violations}");
        assert_eq!(violations[0]["actor"], "agent.bob");
        // Of the same agent one is logged in a minute.
        scene.world.pass(60).await;
    }
    scene.world.end().await;
}

/// Turns at once, each of which works on the same two intents, jobs and mailboxes in another order.
#[tokio::test(flavor = "multi_thread")]
async fn turns_at_once_wait_for_each_other() {
    let scene = Scene::set().await;
    let (second, elsewhere) = talk(&scene.ada, json!({})).await;
    let turns = (0..12).map(|n| {
        let (one, two) = if n % 2 == 0 { (&scene.intent, &second) } else { (&second, &scene.intent) };
        let (from, to) = if n % 2 == 0 { ("agent.ada", "agent.bob") } else { ("agent.bob", "agent.ada") };
        let client = if n % 2 == 0 { &scene.ada } else { &scene.bob };
        let create = |intent: &str| json!({ "verb": "create", "task": { "intent_id": intent, "name": format!("t{n}") } });
        let letters = [from, to].map(|name| {
            with(task_envelope(&scene.world, &format!("letter-{n}-{name}"), (from, name)), json!({}))
        });
        let turn = json!({
            "messages": [{ "channel_id": if n % 2 == 0 { &scene.channel } else { &elsewhere }, "payload": {} }],
            "events": [{ "intent_id": two, "event_type": "note" }],
            "tasks": [create(one), create(two)],
            "mail": letters,
        });
        let client = client.patient();
        async move { client.post("/turn", turn).await.ok() }
    });
    futures_util::future::join_all(turns).await;
    assert_eq!(scene.tasks().await.len(), 13);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_may_what_its_parts_may() {
    let scene = Scene::set().await;
    let admin = scene.world.admin().await;
    let key = |scopes: Value| {
        let admin = &admin;
        async move {
            admin.post("/principals/agent.bob/keys", json!({ "scopes": scopes })).await.is(201)["key"].clone()
        }
    };
    // A worker's key reads no inbox, and its turns have none.
    let worker = scene.world.client(key(json!(["jobs:work"])).await.as_str().unwrap());
    let beat = json!({ "heartbeat": { "worker_id": scene.hand.id, "jobs": [scene.of_job(json!({}))] } });
    let taken = worker.post("/turn", beat).await.ok();
    assert_eq!((&taken["done"]["heartbeat"]["lost"], &taken["inbox"]), (&json!([]), &Value::Null));
    for turn in [scene.turn(), json!({ "inbox": {} }), json!({ "seen": { "place": 1 } })] {
        worker.post("/turn", turn).await.refused(403, "scope_missing");
        scene.is_untouched("a key without the scope").await;
    }
    let talker = scene
        .world
        .client(key(json!(["channels:write", "channels:read", "agents:read"])).await.as_str().unwrap());
    talker.post("/turn", scene.turn()).await.refused(403, "scope_missing");
    scene.is_untouched("a key that may not work").await;
    // Nobody learns of a job by a turn.
    let eve = scene.world.agent("agent.eve").await;
    eve.post("/turn", json!({ "finish": [scene.of_job(json!({ "result": 1, "claim_token": "x" }))] }))
        .await
        .ok();
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_belongs_to_a_session() {
    let scene = Scene::set().await;
    for epoch in 1..=2 {
        let opened = scene.bob.post("/agents/agent.bob/sessions", json!({})).await.is(201);
        assert_eq!(opened["epoch"], epoch);
    }
    let within = |epoch: &str| scene.bob.with("entente-epoch", epoch);
    within("1").post("/turn", scene.turn()).await.refused(409, "stale_epoch");
    scene.is_untouched("an earlier session").await;
    within("2").post("/turn", scene.turn()).await.ok();
    scene.world.end().await;
}

/// A claim waits for nobody's lock, because it comes last.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_claims_what_is_free_and_waits_for_entries() {
    let scene = Scene::set().await;
    let (intent, _) = talk(&scene.ada, json!({ "members": ["agent.bob"] })).await;
    scene.ada.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.is(201);
    let mut holder = scene.world.ctx().begin(&[intent.parse().unwrap()]).await.unwrap();
    let claim = json!({ "claim": { "worker_id": scene.hand.id, "max": 5 } });
    let taken = scene.bob.post("/turn", claim.clone()).await.ok();
    assert_eq!(taken["jobs"].as_array().unwrap().len(), 1, "the job of the locked intent waits");
    sqlx::query("SELECT 1").execute(&mut *holder).await.unwrap();
    holder.rollback().await.unwrap();
    let taken = scene.bob.post("/turn", claim).await.ok();
    assert_eq!(taken["jobs"][0]["intent_id"], json!(intent));
    let seen = json!({ "seen": { "place": 2 }, "inbox": { "wait": 60 } });
    let note = json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": 5 } });
    let later = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        send(&scene.ada, &scene.channel, note).await;
        follow(&scene.world).await;
    };
    let patient = scene.bob.patient();
    let (waited, ()) = tokio::join!(patient.post("/turn", seen), later);
    assert_eq!(numbers(&waited.ok()["inbox"]), [5]);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_and_a_terminal_take_turns() {
    let scene = Scene::set().await;
    let mcp = Mcp::new(&scene.bob, Era::Stateless);
    let mut turn = scene.turn();
    turn["idempotency_key"] = json!("t1");
    let taken = mcp.ok("turn", turn.clone()).await;
    assert_eq!(taken["done"]["messages"][1]["payload"]["n"], 4);
    assert_eq!(mcp.ok("turn", turn).await["jobs"][0]["claim_token"], taken["jobs"][0]["claim_token"]);
    let fault = json!({ "messages": [{ "channel_id": scene.channel, "to": "role:", "message_type": "shout", "payload": {} }] });
    let said = mcp.refused("turn", fault, "invalid_request").await;
    assert!(said.contains("`messages` at place 0: "), "{said}");
    let note = json!({ "messages": [{ "channel_id": scene.channel, "payload": { "n": 6 } }] }).to_string();
    let key = "key-of-agent.bob";
    for _ in 0..2 {
        let taken = told(&scene.world, key, &["turn", &note, "--once", "t2"]).await;
        assert_eq!(taken["done"]["messages"][0]["payload"]["n"], 6);
    }
    let messages = scene.ada.get(&format!("/channels/{}/messages", scene.channel)).await.ok();
    assert_eq!(messages.as_array().unwrap().len(), 5);
    scene.world.end().await;
}
