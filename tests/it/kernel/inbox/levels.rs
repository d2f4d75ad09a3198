//! Levels of attention: what senders ask for and what the owner allows, quiet hours, rings, digests, and the limit of an
//! inbox.

use std::time::Duration;

use entente::background::inboxes;

use super::{each, follow, numbers, open, read, seen, to_bob};
use entente_harness::{Client, Sse, Value, World, json, send, talk};

fn asking(kind: &str, to: &Value, attention: &str) -> Value {
    json!({ "sender": "agent.ada", "to": to, "message_type": kind, "payload": {}, "metadata": { "attention": attention } })
}

async fn pair(world: &World) -> (Client, Client, String) {
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    (ada, bob, channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_asks_for_a_level_and_the_owner_bounds_it() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({})).await;
    let all = async || {
        send(&ada, &channel, asking("notify", &json!("agent.bob"), "wake")).await;
        send(&ada, &channel, asking("request", &json!("agent.bob"), "digest")).await;
        send(&ada, &channel, asking("broadcast", &json!(null), "next")).await;
        // No word of the inbox: the usual level.
        send(&ada, &channel, asking("notify", &json!("agent.bob"), "loud")).await;
        send(&ada, &channel, json!({ "sender": "agent.ada", "message_type": "broadcast", "payload": {} }))
            .await;
        send(
            &ada,
            &channel,
            json!({ "sender": "agent.ada", "to": "*", "message_type": "request", "payload": {} }),
        )
        .await;
        follow(&world).await;
    };
    all().await;
    let page = read(&bob, "agent.bob", "?expand=true").await;
    assert_eq!(each(&page, "attention"), ["wake", "digest", "next", "next", "digest", "next"]);
    seen(&bob, "agent.bob", "default", &json!(6)).await;
    open(
        &bob,
        "agent.bob",
        json!({ "may_wake": ["role:lead"], "attention": { "broadcast": "wake", "notify": "digest" } }),
    )
    .await;
    all().await;
    let page = read(&bob, "agent.bob", "?expand=true").await;
    assert_eq!(each(&page, "attention"), ["next", "digest", "next", "digest", "next", "next"]);
    seen(&bob, "agent.bob", "default", &json!(12)).await;
    ada.post("/agents/register", json!({ "agent_id": "agent.ada", "role_id": "lead" })).await.ok();
    all().await;
    let page = read(&bob, "agent.bob", "?expand=true").await;
    assert_eq!(each(&page, "attention"), ["wake", "digest", "next", "digest", "wake", "next"]);
    // Readers filter, each for itself.
    assert_eq!(each(&read(&bob, "agent.bob", "?reader=w&attention=wake&since=12").await, "place"), [13, 17]);
    assert_eq!(
        each(&read(&bob, "agent.bob", "?reader=w&since=12").await, "place"),
        [13, 17],
        "it is remembered"
    );
    let wrong = json!({ "attention": { "mails": "wake" } });
    bob.put("/agents/agent.bob/inbox", wrong).await.refused(422, "invalid_request");
    bob.put("/agents/agent.bob/inbox", json!({ "attention": { "mail": "loud" } }))
        .await
        .refused(422, "invalid_request");
    let hours = json!({ "quiet_hours": { "from": "22:00", "to": "07:00", "time_zone": "Nowhere/None" } });
    bob.put("/agents/agent.bob/inbox", hours).await.refused(422, "invalid_request");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_one_level_leaves_the_others_to_others() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({})).await;
    for (kind, n) in [("request", 1), ("notify", 2), ("request", 3)] {
        send(&ada, &channel, to_bob(kind, n)).await;
    }
    follow(&world).await;
    let page = read(&bob, "agent.bob", "?reader=alarm&attention=wake").await;
    assert_eq!((numbers(&page), &page["next_place"]), (vec![1, 3], &json!(3)));
    seen(&bob, "agent.bob", "alarm", &json!(3)).await;
    // It has not read the other levels, so a reader of all begins at the beginning.
    assert_eq!(numbers(&read(&bob, "agent.bob", "?reader=all").await), [1, 2, 3]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_seen_rings_until_it_is_seen_or_expires() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({ "rearm_seconds": 60 })).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    let mut second = to_bob("request", 2);
    second["expires_at"] = json!("2026-11-21T08:02:30Z");
    send(&ada, &channel, second).await;
    send(&ada, &channel, to_bob("notify", 3)).await;
    follow(&world).await;
    let first = read(&bob, "agent.bob", "").await;
    assert_eq!(first["next"], "3.0");
    // A client with its own position gets nothing again before the pause is over.
    assert_eq!(each(&read(&bob, "agent.bob", "?since=3.0").await, "place"), Vec::<u64>::new());
    world.pass(60).await;
    let again = read(&bob, "agent.bob", "?since=3.0").await;
    assert_eq!(
        (each(&again, "place"), each(&again, "rings")),
        (vec![json!(1), json!(2)], vec![json!(1), json!(1)])
    );
    let next = again["next"].as_str().unwrap();
    assert_eq!(each(&read(&bob, "agent.bob", &format!("?since={next}")).await, "place"), Vec::<u64>::new());
    // A reader of another level does not disarm it.
    read(&bob, "agent.bob", "?reader=slow&attention=next,digest").await;
    seen(&bob, "agent.bob", "slow", &json!(3)).await;
    world.pass(100).await;
    let again = read(&bob, "agent.bob", &format!("?since={next}")).await;
    assert_eq!(
        (each(&again, "place"), each(&again, "rings")),
        (vec![json!(1)], vec![json!(2)]),
        "the other has expired"
    );
    seen(&bob, "agent.bob", "default", &json!(1)).await;
    world.pass(600).await;
    let rings: Vec<i32> = sqlx::query_scalar("SELECT rings FROM inbox_entries WHERE place = 1")
        .fetch_all(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(rings, [2], "what was seen rings no more");
    // A message that expired is missed, for a reader that comes too late.
    let late = read(&bob, "agent.bob", "?reader=late&since=0").await;
    assert_eq!((numbers(&late), &late["missed"]), (vec![1, 3], &json!(1)));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_quiet_hours_nothing_wakes_until_they_end() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    let eve = world.agent("agent.eve").await;
    // The clock stands at 08:00 UTC, which is 09:00 in Berlin.
    let hours =
        json!({ "from": "08:30", "to": "09:10", "time_zone": "Europe/Berlin", "except": ["agent.eve"] });
    open(&bob, "agent.bob", json!({ "quiet_hours": hours, "rearm_seconds": 3600 })).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    let quiet = read(&bob, "agent.bob", "").await;
    assert_eq!((each(&quiet, "attention"), &quiet["quiet"]), (vec![json!("next")], &json!(true)));
    assert_eq!(each(&read(&bob, "agent.bob", "?reader=w&attention=wake").await, "place"), Vec::<u64>::new());
    // Whoever is excepted wakes all the same.
    let body =
        json!({ "sender": "agent.eve", "to": "agent.bob", "message_type": "request", "payload": { "n": 2 } });
    send(&eve, &channel, body).await;
    follow(&world).await;
    assert_eq!(numbers(&read(&bob, "agent.bob", "?reader=w&attention=wake").await), [2]);
    // At the end of the hours, at 08:10, the first one rings: long before the pause is over.
    world.pass(599).await;
    let before = read(&bob, "agent.bob", "").await;
    assert_eq!(each(&before, "rings"), [0, 0]);
    world.pass(1).await;
    let after = read(&bob, "agent.bob", "").await;
    assert_eq!(
        (each(&after, "attention"), &after["quiet"]),
        (vec![json!("wake"), json!("wake")], &json!(false))
    );
    assert_eq!(each(&after, "rings"), [1, 0]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_counts_and_shows_the_newest_of_each_source() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    let (_, other) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    open(&bob, "agent.bob", json!({})).await;
    let broadcast =
        |n: u64| json!({ "sender": "agent.ada", "message_type": "broadcast", "payload": { "n": n } });
    for n in 1..=3 {
        send(&ada, &channel, broadcast(n)).await;
    }
    send(&ada, &other, broadcast(4)).await;
    send(&ada, &channel, to_bob("notify", 5)).await;
    send(&ada, &channel, broadcast(6)).await;
    follow(&world).await;
    let page = read(&bob, "agent.bob", "").await;
    assert_eq!((numbers(&page), &page["next_place"], &page["missed"]), (vec![5], &json!(6), &json!(0)));
    let digest = &page["digest"];
    assert_eq!((&digest["count"], &digest["others"]), (&json!(5), &json!(0)));
    let sources: Vec<(u64, u64, &Value)> = digest["sources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let newest = &one["newest"];
            (
                one["count"].as_u64().unwrap(),
                newest["message"]["payload"]["n"].as_u64().unwrap(),
                &newest["channel_id"],
            )
        })
        .collect();
    assert_eq!(sources, [(4, 6, &json!(channel)), (1, 4, &json!(other))]);
    // A page that is cut collects up to its end only, so that marking it seen marks nothing unread.
    send(&ada, &channel, to_bob("notify", 7)).await;
    follow(&world).await;
    let cut = read(&bob, "agent.bob", "?limit=1").await;
    assert_eq!((numbers(&cut), &cut["has_more"], &cut["next_place"]), (vec![5], &json!(true), &json!(5)));
    assert_eq!(cut["digest"]["count"], 4);
    assert_eq!(each(&read(&bob, "agent.bob", "?expand=true").await, "place"), [1, 2, 3, 4, 5, 6, 7]);
    assert!(read(&bob, "agent.bob", "?attention=wake,next&reader=w").await["digest"].is_null());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_inbox_evicts_the_oldest_of_the_lowest_level_and_says_so() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({})).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    // As if 9,999 broadcasts had come since.
    let fill = "INSERT INTO inbox_entries (agent_id, place, kind, what, ref, attention, breaks_through, at, expires_at)
         SELECT 'agent.bob', n, 'job', 'success', 'job_' || n, 'digest', false, now(), 'infinity'::timestamptz - interval '0'
         FROM generate_series(2, 10000) n";
    let fill = fill.replace("'infinity'::timestamptz - interval '0'", "timestamptz '2030-01-01'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(&world.ctx().pool).await.unwrap();
    let grow = "UPDATE inboxes SET last_place = 10000, entries = 10000";
    sqlx::raw_sql(grow).execute(&world.ctx().pool).await.unwrap();
    assert_eq!(read(&bob, "agent.bob", "").await["missed"], 0);
    send(&ada, &channel, to_bob("notify", 2)).await;
    follow(&world).await;
    let page = read(&bob, "agent.bob", "").await;
    assert_eq!((&page["missed"], &page["newest"], &page["oldest"]), (&json!(501), &json!(10_001), &json!(1)));
    assert_eq!((numbers(&page), &page["digest"]["count"]), (vec![1, 2], &json!(9_498)));
    let shown = bob.get("/agents/agent.bob/inbox/settings").await.ok();
    assert_eq!((&shown["entries"], &shown["evicted"]), (&json!(9_500), &json!(501)));
    // What all readers have seen goes first, and is not missed.
    seen(&bob, "agent.bob", "default", &json!(10_001)).await;
    sqlx::raw_sql("UPDATE inboxes SET entries = 10000").execute(&world.ctx().pool).await.unwrap();
    send(&ada, &channel, to_bob("notify", 3)).await;
    follow(&world).await;
    let page = read(&bob, "agent.bob", "").await;
    assert_eq!((numbers(&page), &page["missed"]), (vec![3], &json!(0)));
    assert_eq!(bob.get("/agents/agent.bob/inbox/settings").await.ok()["evicted"], 501);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_each_entry_once_and_its_rings() {
    let world = World::start().await;
    let (ada, bob, channel) = pair(&world).await;
    open(&bob, "agent.bob", json!({ "rearm_seconds": 60 })).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    let path = "/agents/agent.bob/inbox/stream";
    let mut stream = Sse::open(&bob, path).await;
    let first = stream.next_named("entry").await;
    assert_eq!((&first.data["place"], &first.data["message"]["payload"]["n"]), (&json!(1), &json!(1)));
    send(&ada, &channel, to_bob("notify", 2)).await;
    inboxes::catch_up(world.ctx()).await.unwrap();
    assert_eq!(stream.next_named("entry").await.data["place"], 2);
    world.pass(60).await;
    let ring = stream.next_named("ring").await;
    assert_eq!((&ring.data["place"], &ring.data["rings"]), (&json!(1), &json!(1)));
    stream.silent(Duration::from_millis(300)).await;
    // It resumes after the last frame.
    let last = stream.last_id.clone();
    drop(stream);
    send(&ada, &channel, to_bob("notify", 3)).await;
    follow(&world).await;
    let mut stream = Sse::resume(&bob, path, last.as_deref()).await;
    assert_eq!(stream.next_named("entry").await.data["place"], 3);
    assert_eq!(bob.with("last-event-id", "x").get(path).await.status, 422);
    world.end().await;
}
