//! Sweeps: each processes due rows in bounded steps, once even if it runs repeatedly or on several
//! servers, and counts them. The tests of each resource prove that a due change is in effect before any sweep runs.

mod abreast;
mod idle;
mod rest;
mod traces;

use std::time::Duration;

use entente::background::sweeps::Sweep;
use entente_domain::clock::{Clock as _, plus_seconds, rfc3339};
use entente_domain::ids::IntentId;

use self::traces::traces;
use entente_harness::agents::registered;
use entente_harness::envelopes::{task_envelope, with};
use entente_harness::socket::Socket;
use entente_harness::{Receiver, Setup, Value, World, json, subscribe, talk};

/// Number of due rows per preparation.
const DUE: u64 = 5;

/// These two are bounded by the data held in memory.
const UNBOUNDED: [Sweep; 2] = [Sweep::Heartbeats, Sweep::KeyUses];

/// These need a special set-up and are tested in `triggers/hearing.rs`, `federation.rs`, `vaults.rs`,
/// `events/retention.rs`, `spending.rs`, `openintent/waits.rs`, `loops`, `bridges/imports.rs` and `inbox/levels.rs`.
const ELSEWHERE: [Sweep; 15] = [
    Sweep::InboxRings,
    Sweep::InboxEntries,
    Sweep::Lineages,
    Sweep::Deadlocks,
    Sweep::TriggerEvents,
    Sweep::Reports,
    Sweep::Federation,
    Sweep::Vaults,
    Sweep::OldNumbers,
    Sweep::StoppedJobs,
    Sweep::Budgets,
    Sweep::Reservations,
    Sweep::Spending,
    Sweep::Bundles,
    Sweep::Storage,
];

/// Creates five due rows for the sweep.
async fn prepare(world: &World, sweep: Sweep) {
    let ada = world.agent("agent.ada").await;
    let soon = rfc3339(plus_seconds(world.clock.now(), 60));
    let say = |more: Value| {
        let mut body = json!({ "sender": "agent.ada", "payload": {} });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    match sweep {
        Sweep::Messages => {
            let messages = format!("/channels/{}/messages", talk(&ada, json!({})).await.1);
            for _ in 0..DUE {
                ada.post(&messages, say(json!({ "expires_at": soon }))).await.is(201);
            }
            world.clock.advance(60);
        }
        Sweep::Channels => {
            for _ in 0..DUE {
                talk(&ada, json!({ "options": { "ttl_seconds": 60 } })).await;
            }
            world.clock.advance(60);
        }
        Sweep::Evictions | Sweep::Purges => {
            for _ in 0..DUE {
                let channel = talk(&ada, json!({ "options": { "max_messages": 1 } })).await.1;
                let path = format!("/channels/{channel}");
                ada.post(&format!("{path}/messages"), say(json!({}))).await.is(201);
                if sweep == Sweep::Purges {
                    ada.delete(&path).await.ok();
                } else {
                    ada.post(&format!("{path}/messages"), say(json!({}))).await.is(201);
                }
            }
        }
        Sweep::Access => {
            for _ in 0..DUE {
                let intent = talk(&ada, json!({})).await.0;
                let entry = json!({ "principal_id": "agent.bob", "expires_at": soon });
                ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
            }
            world.clock.advance(60);
        }
        Sweep::Heartbeats | Sweep::Silence | Sweep::Drains => prepare_agents(world, sweep).await,
        Sweep::Tasks | Sweep::Leases | Sweep::Checkpoints | Sweep::Webhooks | Sweep::Retries => {
            prepare_work(world, sweep).await;
        }
        Sweep::Credentials => {
            let sql = "INSERT INTO credentials (id, generation, job_id, provisioner, state, given, asked_at, attempts)
                 SELECT gen_random_uuid(), 1, gen_random_uuid(), 'llm', 'live', false, now(), 0 FROM generate_series(1, 5) -- jobs that are gone";
            sqlx::query(sql).execute(&world.ctx().pool).await.unwrap();
        }
        Sweep::Jobs | Sweep::JobKeys | Sweep::EndedJobs | Sweep::Workers => prepare_jobs(world, sweep).await,
        Sweep::Sessions => prepare_sessions(world).await,
        Sweep::Pairs | Sweep::Envelopes | Sweep::EnvelopeLogs => prepare_post(world, sweep).await,
        Sweep::KeyUses => {
            world.clock.advance(60);
            for n in 0..DUE {
                world.agent(&format!("agent.{n}")).await.get("/principals/me").await.ok();
            }
        }
        Sweep::Idempotency => {
            for n in 0..DUE {
                ada.once(&format!("k{n}")).post("/intents", json!({ "title": "t" })).await.ok();
            }
            world.clock.advance(24 * 3600 + 1);
        }
        _ => rest::prepare(world, sweep, DUE).await,
    }
}

/// Like [`prepare`], for work on intents and its notifications.
async fn prepare_work(world: &World, sweep: Sweep) {
    let ada = world.agent("agent.ada").await;
    match sweep {
        Sweep::Tasks => {
            let intent = talk(&ada, json!({})).await.0;
            for _ in 0..DUE {
                let ask =
                    json!({ "intent_id": intent, "name": "t", "timeout_seconds": 60, "max_attempts": 1 });
                let task = ada.post("/tasks", ask).await.ok()["id"].as_str().unwrap().to_owned();
                ada.post(&format!("/tasks/{task}/claim"), json!({})).await.ok();
            }
            world.clock.advance(60);
        }
        Sweep::Leases => {
            for _ in 0..DUE {
                let path = format!("/intents/{}/leases", talk(&ada, json!({})).await.0);
                ada.post(&path, json!({ "scope": "a", "duration_seconds": 60 })).await.ok();
            }
            world.clock.advance(60);
        }
        Sweep::Checkpoints => {
            for _ in 0..DUE {
                let path = format!("/intents/{}/events", talk(&ada, json!({})).await.0);
                for _ in 0..8 {
                    ada.post(&path, json!({ "event_type": "note" })).await.ok();
                }
            }
        }
        Sweep::Webhooks => {
            let receiver = Receiver::start().await;
            let made = subscribe(&ada, &receiver.url(), json!({})).await;
            for _ in 0..DUE {
                let ping = format!("/subscriptions/{}/ping", made["id"].as_str().unwrap());
                ada.post(&ping, json!({})).await.is(202);
            }
            world.hooks().await;
            world.clock.advance(7 * 24 * 3600 + 1);
        }
        Sweep::Retries => crate::openintent::failures::failed(world, DUE).await,
        _ => unreachable!("it is prepared elsewhere"),
    }
}

/// Like [`prepare`], for abandoned sessions.
async fn prepare_sessions(world: &World) {
    for _ in 0..DUE {
        let mut socket = Socket::open(world, "key-of-agent.ada").await;
        socket.say("session.bye", json!({})).await;
        socket.closed().await;
    }
    // The server records the disconnects asynchronously.
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.clock.advance(3_600);
}

/// Like [`prepare`], for jobs.
async fn prepare_jobs(world: &World, sweep: Sweep) {
    let any = world.any();
    any.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    // One more than are due: the job with the last number in the order of all jobs is kept.
    let count = if sweep == Sweep::EndedJobs { DUE + 1 } else { DUE };
    for n in 0..count {
        match sweep {
            Sweep::Workers => any.post("/workers", json!({ "name": "w", "agents": ["echo"] })).await.ok(),
            Sweep::JobKeys => any.once(&format!("k{n}")).post("/jobs", json!({ "agent": "echo" })).await.ok(),
            _ => any.post("/jobs", json!({ "agent": "echo", "max_runtime_sec": 60 })).await.ok(),
        };
    }
    if sweep == Sweep::EndedJobs {
        world.clock.advance(60);
        while Sweep::Jobs.run(world.ctx()).await.unwrap() > 0 {}
    }
    world.clock.advance(if sweep == Sweep::Jobs { 60 } else { 24 * 3600 + 1 });
}

/// Like [`prepare`], for agents.
async fn prepare_agents(world: &World, sweep: Sweep) {
    let beat = json!({ "interval_seconds": 1, "unhealthy_after_seconds": 30, "dead_after_seconds": 60 });
    for n in 0..DUE {
        let id = format!("agent.{n}");
        let config = if sweep == Sweep::Silence { beat.clone() } else { json!(null) };
        let more = json!({ "heartbeat_config": config, "drain_timeout_seconds": 60 });
        let agent = registered(world, &id, more).await;
        if sweep == Sweep::Heartbeats {
            agent.post(&format!("/agents/{id}/heartbeat"), json!({ "current_load": 7 })).await.ok();
        } else if sweep == Sweep::Drains {
            agent.post(&format!("/agents/{id}/drain"), json!({})).await.ok();
        }
    }
    world.clock.advance(if sweep == Sweep::Heartbeats { 0 } else { 60 });
}

async fn prepare_post(world: &World, sweep: Sweep) {
    let ada = world.agent("agent.ada").await;
    for n in 0..DUE {
        if sweep == Sweep::EnvelopeLogs {
            let line =
                r#"{ "v": "1", "id": "line-one", "type": "event", "from": "agent.ada", "intent": "ops" }"#;
            ada.send("POST", "/aee/logs", Some(line.to_owned())).await.is(201);
            continue;
        }
        let task = task_envelope(world, &format!("envelope-{n}"), ("agent.ada", "agent.ada"));
        ada.post("/aee/envelopes", with(task, json!({ "requires": { "timeout_ms": 60_000 } }))).await.is(202);
    }
    world.clock.advance(if sweep == Sweep::Pairs { 60 } else { 31 * 24 * 3_600 });
}

async fn traced(world: &World, sweep: Sweep) -> u64 {
    let count: i64 = sqlx::query_scalar(traces(sweep)).fetch_one(&world.ctx().pool).await.unwrap();
    count.try_into().unwrap()
}

/// Starts a server in which every sweep can have work.
async fn ready() -> World {
    World::with(Setup {
        settings: vec![
            ("ENTENTE_CHECKPOINT_EVERY", "10"),
            ("ENTENTE_JOB_RETENTION_DAYS", "1"),
            ("ENTENTE_EVENT_RETENTION_DAYS", "1"),
        ],
        live: false,
    })
    .await
}

/// Returns the number of rows that the sweep has processed, from the metrics.
async fn counted(world: &World, sweep: Sweep) -> u64 {
    let text = world.anon().send("GET", "//metrics", None).await.text;
    let name = format!("entente_swept_rows_total{{sweep=\"{}\"}} ", sweep.name());
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sweep_takes_bounded_steps() {
    for sweep in
        Sweep::ALL.iter().copied().filter(|sweep| !UNBOUNDED.contains(sweep) && !ELSEWHERE.contains(sweep))
    {
        let world = ready().await;
        prepare(&world, sweep).await;
        assert_eq!(traced(&world, sweep).await, 0, "{sweep:?} has run already");
        let mut steps = Vec::new();
        while steps.last() != Some(&0) {
            steps.push(sweep.step(world.ctx(), 2).await.unwrap());
        }
        assert_eq!(steps, [2, 2, 1, 0], "{sweep:?}");
        assert_eq!(traced(&world, sweep).await, DUE, "{sweep:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sweep_does_everything_once_also_two_at_a_time() {
    for sweep in Sweep::ALL.iter().copied().filter(|sweep| !ELSEWHERE.contains(sweep)) {
        let world = ready().await;
        if sweep == Sweep::KeyUses {
            world.sweep().await;
        }
        prepare(&world, sweep).await;
        let before = counted(&world, sweep).await;
        let [one, two] = [world.ctx().clone(), world.ctx().clone()]
            .map(|ctx| tokio::spawn(async move { sweep.run(&ctx).await.unwrap() }));
        let done = one.await.unwrap() + two.await.unwrap();
        assert_eq!(done, DUE, "{sweep:?}");
        assert_eq!(traced(&world, sweep).await, DUE, "{sweep:?}");
        assert_eq!(sweep.run(world.ctx()).await.unwrap(), 0, "{sweep:?}: nothing is left");
        assert_eq!(counted(&world, sweep).await - before, DUE, "{sweep:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_sweep_one_database() {
    let world = World::start().await;
    let sweeps = [Sweep::Messages, Sweep::Channels, Sweep::Access, Sweep::Leases, Sweep::Silence];
    for sweep in sweeps {
        prepare(&world, sweep).await;
    }
    let other = World::on(Setup::default(), world.database.clone()).await;
    other.clock.advance(24 * 3600);
    world.clock.advance(24 * 3600);
    let (here, there) = tokio::join!(world.sweep_beside(), other.sweep_beside());
    assert!(here + there >= 5 * DUE, "{here} here, {there} there");
    for sweep in sweeps {
        assert_eq!(traced(&world, sweep).await, DUE, "{sweep:?}");
    }
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_counted_and_loses_nothing() {
    let world = World::start().await;
    prepare(&world, Sweep::Heartbeats).await;
    sqlx::raw_sql("ALTER TABLE agents RENAME TO away").execute(&world.ctx().pool).await.unwrap();
    Sweep::Heartbeats.run(world.ctx()).await.unwrap_err();
    let text = world.anon().send("GET", "//metrics", None).await.text;
    assert!(text.contains("entente_sweep_failures_total{sweep=\"heartbeats\"} 1"), "{text}");
    sqlx::raw_sql("ALTER TABLE away RENAME TO agents").execute(&world.ctx().pool).await.unwrap();
    assert_eq!(Sweep::Heartbeats.run(world.ctx()).await.unwrap(), DUE, "the beats were kept");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_sweeps_by_itself() {
    let world = World::with(Setup::live()).await;
    let ada = registered(&world, "agent.ada", json!({})).await;
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 1 } })).await;
    for _ in 0..2 {
        ada.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.ada" })).await.is(201);
    }
    ada.post("/agents/agent.ada/heartbeat", json!({ "current_load": 7 })).await.ok();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while counted(&world, Sweep::Heartbeats).await == 0 || counted(&world, Sweep::Evictions).await == 0 {
        assert!(std::time::Instant::now() < deadline, "nothing was swept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let load: i64 =
        sqlx::query_scalar("SELECT current_load FROM agents").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(load, 7);
    world.server.stop().await;
}

#[tokio::test]
async fn one_line_that_is_broken_keeps_none_of_the_others_waiting() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let soon = rfc3339(plus_seconds(world.clock.now(), 60));
    let mut lines = Vec::new();
    for _ in 0..2 {
        let (intent, channel) = talk(&ada, json!({})).await;
        let path = format!("/channels/{channel}/messages");
        let said = json!({ "sender": "agent.ada", "payload": {}, "expires_at": soon });
        ada.post(&path, said).await.is(201);
        let hold = json!({ "scope": "a", "duration_seconds": 60 });
        ada.post(&format!("/intents/{intent}/leases"), hold).await.ok();
        lines.push(intent);
    }
    // A head hash of the wrong length: nothing can be appended to that log until it is repaired.
    let broken: IntentId = lines[0].parse().unwrap();
    let whole: Vec<u8> = sqlx::query_scalar("SELECT head_hash FROM intent_clock WHERE intent_id = $1")
        .bind(broken.uuid())
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    let set = "UPDATE intent_clock SET head_hash = $1 WHERE intent_id = $2";
    sqlx::query(set).bind(vec![0_u8]).bind(broken.uuid()).execute(&world.ctx().pool).await.unwrap();
    world.clock.advance(60);
    for sweep in [Sweep::Messages, Sweep::Leases] {
        assert!(sweep.run(world.ctx()).await.is_err(), "{sweep:?} says that something is wrong");
        assert_eq!(traced(&world, sweep).await, 1, "{sweep:?} has done what it could");
    }
    sqlx::query(set).bind(whole).bind(broken.uuid()).execute(&world.ctx().pool).await.unwrap();
    world.sweep().await;
    for sweep in [Sweep::Messages, Sweep::Leases] {
        assert_eq!(traced(&world, sweep).await, 2);
    }
    world.end().await;
}
