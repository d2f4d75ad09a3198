//! Searches for events that may have arrived: in long subjects, in streams that were purged or made anew, and after replays.

use std::time::Duration;

use super::{STREAM, Site, WINDOW, numbers, path, publish, window};
use entente_harness::{Value, json, send_number, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_long_subject_is_searched_once_and_not_again_from_the_beginning() {
    let Site { stream, world, admin, ada, nats: _nats, place: _place } = Site::start(window()).await;
    let (_, channel) = talk(&ada, json!({})).await;
    publish(&admin, json!({ "topic": "events.all" })).await;
    for n in 0..30 {
        send_number(&ada, &channel, n).await;
    }
    world.hand_out().await;
    // As after a server that died when it had committed the places.
    let pool = &world.ctx().pool;
    sqlx::query("UPDATE webhook_deliveries SET position = 0").execute(pool).await.unwrap();
    let strangers = 20_000;
    let writing = (0..40).map(|_| async {
        for _ in 0..strangers / 40 {
            stream.write("events.all", "{}").await;
        }
    });
    futures_util::future::join_all(writing).await;
    let done = tokio::time::timeout(Duration::from_mins(1), async {
        while stream.count().await < strangers + 30 {
            world.deliver().await;
            world.clock.advance(400);
        }
    });
    done.await.expect("one search for all");
    let places: Vec<i64> = sqlx::query_scalar("SELECT position FROM webhook_deliveries ORDER BY id")
        .fetch_all(pool)
        .await
        .unwrap();
    assert!(places.iter().all(|place| *place > 0), "it is noted how far the search was: {places:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_made_anew_or_purged_is_searched_as_it_is() {
    let Site { nats, stream, world, admin, ada, place: _place } = Site::start(window()).await;
    let (_, channel) = talk(&ada, json!({})).await;
    publish(&admin, json!({ "topic": "events.all" })).await;
    send_number(&ada, &channel, 0).await;
    world.hooks().await;
    tokio::time::sleep(WINDOW * 3).await;
    // The stream ends before the place, and has the event.
    let pool = &world.ctx().pool;
    let text = "UPDATE webhook_deliveries SET status = 'waiting', finished_at = NULL, position = 50";
    sqlx::query(text).execute(pool).await.unwrap();
    sqlx::query("UPDATE webhook_shifts SET due_at = $1").bind(world.ctx().now()).execute(pool).await.unwrap();
    world.deliver().await;
    let waiting = "SELECT count(*) FROM webhook_deliveries WHERE status = 'waiting'";
    assert_eq!(sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap(), 0);
    assert_eq!(numbers(&stream).await["events.all"], [0]);
    // What was purged stays away, and the next events come.
    stream.purge().await;
    send_number(&ada, &channel, 1).await;
    world.hooks().await;
    assert_eq!(numbers(&stream).await["events.all"], [1]);
    stream.delete().await;
    let stream = nats.stream(STREAM, "events.>", window()).await;
    send_number(&ada, &channel, 2).await;
    world.hooks().await;
    assert_eq!(numbers(&stream).await["events.all"], [2]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_writes_again_what_the_window_has() {
    let Site { stream, world, admin, ada, nats: _nats, place: _place } = Site::start(json!({})).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let made = publish(&admin, json!({ "topic": "events.all" })).await;
    let since = send_number(&ada, &channel, 0).await["created_at"].clone();
    world.hooks().await;
    for copies in 2..4 {
        admin.post(&format!("{}/replay", path(&made)), json!({ "since": since })).await;
        world.hooks().await;
        assert_eq!(numbers(&stream).await["events.all"], vec![0; copies]);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weaker_key_of_the_operator_does_nothing_to_a_sink() {
    let Site { world, admin, nats: _nats, place: _place, .. } = Site::start(json!({})).await;
    admin.post("/principals", json!({ "id": "service.ops", "kind": "service" })).await.is(201);
    let keys = "/principals/service.ops/keys";
    let key = async |scopes: Value| {
        let made = admin.post(keys, json!({ "scopes": scopes, "act_as": ["*"] })).await.is(201);
        world.client(made["key"].as_str().unwrap())
    };
    let strong = key(json!(["admin", "intents:read", "channels:read"])).await;
    let weak = key(json!(["intents:read", "channels:read"])).await;
    let made = publish(&strong, json!({})).await;
    let at = path(&made);
    assert_eq!(weak.get(&at).await.ok()["id"], made["id"], "it is shown");
    let replay = json!({ "since": "2026-11-21T08:00:00Z" });
    for (what, ask) in [("ping", json!({})), ("replay", replay), ("rotate", json!({ "overlap_seconds": 0 }))]
    {
        let refused = weak.post(&format!("{at}/{what}"), ask).await;
        assert_eq!(refused.status, 403, "{what}: {}", refused.text);
    }
    assert_eq!(weak.patch(&at, json!({ "active": false })).await.status, 403);
    assert_eq!(weak.delete(&at).await.status, 403);
    assert_eq!(strong.get(&at).await.ok()["active"], true);
    world.end().await;
}
