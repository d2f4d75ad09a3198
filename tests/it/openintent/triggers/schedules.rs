//! Schedules: fired when due, once, by any number of servers, and the policies for missed times.

use entente_domain::ids::TriggerId;

use super::{did, intents, now, path, told, trigger};
use entente_harness::{Setup, Value, World, json};

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn every(seconds: u32, more: Value) -> Value {
    let mut condition = json!({ "every_seconds": seconds });
    condition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "condition": condition, "intent_template": { "title": "at {{ trigger.scheduled_at }}" } })
}

async fn titles(world: &World) -> Vec<String> {
    let found = intents(&world.any()).await;
    found.iter().map(|one| one["title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn it_fires_when_it_is_due() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    // 08:00 UTC is 09:00 in Berlin.
    let cron = json!({ "cron": "30 9 * * *", "timezone": "Europe/Berlin" });
    let made = trigger(&ada, "schedule", json!({ "condition": cron })).await;
    assert_eq!(made["next_due_at"], "2026-11-21T08:30:00.000000Z");
    world.pass(30 * 60 - 1).await;
    assert_eq!(intents(&ada).await.len(), 0);
    world.pass(1).await;
    let after = now(&ada, &made).await;
    assert_eq!(
        (&after["fire_count"], &after["next_due_at"]),
        (&json!(1), &json!("2026-11-22T08:30:00.000000Z"))
    );
    assert_eq!(after["last_fired_at"], "2026-11-21T08:30:00.000000Z");
    assert_eq!(intents(&ada).await[0]["title"], "review");
    world.pass(24 * 3_600).await;
    assert_eq!(intents(&ada).await.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_moment_comes_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = trigger(&ada, "schedule", json!({ "condition": { "at": "2026-11-21T08:10:00Z" } })).await;
    world.pass(3_600).await;
    let after = now(&ada, &made).await;
    assert_eq!(
        (&after["fire_count"], &after["enabled"], &after["disabled_reason"]),
        (&json!(1), &json!(false), &json!("done"))
    );
    world.pass(3_600).await;
    assert_eq!(intents(&ada).await.len(), 1);
    // Its time has passed, so it cannot be enabled unchanged.
    let on = ada.seen(&after["version"]).patch(&path(&made), json!({ "enabled": true })).await;
    on.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test]
async fn a_server_that_was_away_makes_up_as_it_was_told() {
    let before = World::start().await;
    let ada = before.agent("agent.ada").await;
    let mut made = Vec::new();
    for missed in ["skip", "latest", "all"] {
        made.push(trigger(&ada, "schedule", every(600, json!({ "missed": missed }))).await);
    }
    // It stops, and another server starts 65 minutes later.
    let database = before.database.clone();
    before.server.stop().await;
    let world = World::on(Setup::default(), database).await;
    let ada = world.agent("agent.ada").await;
    world.pass(65 * 60).await;
    let counts = async |world: &World| {
        let ada = world.agent("agent.ada").await;
        let mut counts = Vec::new();
        for one in &made {
            counts.push(now(&ada, one).await["fire_count"].as_i64().unwrap());
        }
        counts
    };
    assert_eq!(counts(&world).await, [0, 1, 6]);
    let titles = titles(&world).await;
    assert_eq!(titles.iter().filter(|title| title.contains("T09:00:00")).count(), 2);
    assert_eq!(titles.iter().filter(|title| title.contains("T08:10:00")).count(), 1);
    let skipped = ("due".to_owned(), "skipped".to_owned(), json!("missed"));
    assert_eq!(did(&ada, &made[0]).await, std::slice::from_ref(&skipped));
    assert_eq!(did(&ada, &made[1]).await.iter().filter(|one| **one == skipped).count(), 1);
    let passed: Vec<Value> = told(&world)
        .await
        .into_iter()
        .filter(|(kind, _)| kind == "trigger.skipped")
        .map(|(_, p)| p)
        .collect();
    assert_eq!(passed.iter().map(|p| p["count"].as_i64().unwrap()).sum::<i64>(), 6 + 5);
    // From now on all of them are on time.
    world.pass(5 * 60).await;
    assert_eq!(counts(&world).await, [1, 2, 7]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_one_fires() {
    let a = World::start().await;
    let b = World::on(Setup::default(), a.database.clone()).await;
    let ada = a.agent("agent.ada").await;
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(trigger(&ada, "schedule", every(60, json!({ "missed": "all" }))).await);
    }
    for _ in 0..3 {
        a.clock.advance(180);
        b.clock.advance(180);
        let (first, second) = tokio::join!(a.sweep_beside(), b.sweep_beside());
        assert!(first + second > 0);
    }
    for one in &made {
        assert_eq!(now(&ada, one).await["fire_count"], 9);
        assert_eq!(did(&ada, one).await.len(), 9);
    }
    let mut found = titles(&a).await;
    assert_eq!(found.len(), 72);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 9, "each of nine times, eight times");
    b.server.stop().await;
    a.end().await;
}

#[tokio::test]
async fn one_that_cannot_be_read_keeps_none_of_the_others() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let broken = trigger(&ada, "schedule", every(60, json!({}))).await;
    let fine = trigger(&ada, "schedule", every(60, json!({}))).await;
    let id: TriggerId = broken["trigger_id"].as_str().unwrap().parse().unwrap();
    sqlx::query("UPDATE triggers SET condition = '{\"cron\": 7}' WHERE id = $1")
        .bind(id.uuid())
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    world.pass(60).await;
    assert_eq!(now(&ada, &fine).await["fire_count"], 1);
    // It is disabled and reported, and not retried forever.
    let failed: Vec<Value> =
        told(&world).await.into_iter().filter(|(kind, _)| kind == "trigger.failed").map(|(_, p)| p).collect();
    assert_eq!(
        (failed.len(), &failed[0]["trigger_id"], &failed[0]["reason"]),
        (1, &broken["trigger_id"], &json!("internal"))
    );
    world.pass(60).await;
    assert_eq!(now(&ada, &fine).await["fire_count"], 2);
    world.end().await;
}

#[tokio::test]
async fn what_is_old_is_forgotten() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let kept = trigger(&ada, "schedule", json!({})).await;
    let gone = trigger(&ada, "schedule", json!({})).await;
    ada.send("POST", &format!("{}/fire", path(&kept)), None).await.is(200);
    ada.delete(&path(&gone)).await.ok();
    world.pass(31 * 24 * 3_600).await;
    assert!(did(&ada, &kept).await.is_empty());
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM triggers").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(rows, 1);
    // The lineage of an intent is kept.
    let lineages: i64 = sqlx::query_scalar("SELECT count(*) FROM trigger_intents")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(lineages, 1);
    world.end().await;
}
