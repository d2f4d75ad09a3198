//! Inboxes of agents: what reaches them, once each; positions of readers; levels, quiet hours, rings, digests, and limits.

mod levels;
mod rings;
mod servers;
mod sources;

use entente_harness::inbox::{each, follow, numbers, open, read, seen, to_bob};
use entente_harness::{Value, World, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_a_message_with_its_level() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "members": ["agent.bob", "agent.eve"] })).await;
    send(&ada, &channel, to_bob("request", 0)).await;
    // The first read opens the inbox, which begins then.
    let page = read(&bob, "agent.bob", "").await;
    assert_eq!((&page["entries"], &page["missed"], &page["newest"]), (&json!([]), &json!(0), &json!(0)));
    let message = send(&ada, &channel, to_bob("request", 1)).await;
    send(&ada, &channel, to_bob("notify", 2)).await;
    // Neither to bob nor from somebody else.
    send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.eve", "payload": {} })).await;
    send(&bob, &channel, json!({ "sender": "agent.bob", "payload": {} })).await;
    follow(&world).await;
    let page = read(&bob, "agent.bob", "").await;
    assert_eq!(
        page["entries"][0],
        json!({
            "place": 1, "attention": "wake", "kind": "message", "what": "request", "at": message["created_at"], "rings": 0,
            "reference": message["id"], "intent_id": intent, "channel_id": channel, "sender": "agent.ada",
            "message": message,
        })
    );
    assert_eq!(each(&page, "attention"), ["wake", "next"]);
    assert_eq!((&page["next_place"], &page["newest"], &page["oldest"]), (&json!(2), &json!(2), &json!(1)));
    assert_eq!(
        (&page["agent_id"], &page["reader"], &page["has_more"]),
        (&json!("agent.bob"), &json!("default"), &json!(false))
    );
    // Following again adds nothing.
    follow(&world).await;
    assert_eq!(read(&bob, "agent.bob", "").await, page);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_readers_position_moves_when_it_says_so() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    open(&bob, "agent.bob", json!({})).await;
    for n in 1..=5 {
        send(&ada, &channel, to_bob("notify", n)).await;
    }
    follow(&world).await;
    let first = read(&bob, "agent.bob", "?reader=one&limit=2").await;
    assert_eq!((numbers(&first), &first["has_more"]), (vec![1, 2], &json!(true)));
    // A page that was lost is read again.
    assert_eq!(read(&bob, "agent.bob", "?reader=one&limit=2").await, first);
    let reader = seen(&bob, "agent.bob", "one", &first["next_place"]).await;
    assert_eq!((&reader["place"], &reader["attention"]), (&json!(2), &json!(["wake", "next", "digest"])));
    assert_eq!(numbers(&read(&bob, "agent.bob", "?reader=one").await), [3, 4, 5]);
    // A smaller place changes nothing; one beyond the end is refused.
    assert_eq!(seen(&bob, "agent.bob", "one", &json!(1)).await["place"], 2);
    let beyond = json!({ "reader": "one", "place": 6 });
    bob.post("/agents/agent.bob/inbox/seen", beyond).await.refused(422, "unprocessable");
    bob.post("/agents/agent.bob/inbox/seen", json!({ "place": -1 })).await.refused(422, "unprocessable");
    // A new reader begins where the furthest one has got to, and then has a place of its own.
    let two = read(&bob, "agent.bob", "?reader=two").await;
    assert_eq!((numbers(&two), &two["from"]), (vec![3, 4, 5], &json!("2.0")));
    seen(&bob, "agent.bob", "one", &json!(5)).await;
    assert_eq!(numbers(&read(&bob, "agent.bob", "?reader=one").await), Vec::<u64>::new());
    assert_eq!(numbers(&read(&bob, "agent.bob", "?reader=two").await), [3, 4, 5]);
    // A client's own position.
    assert_eq!(numbers(&read(&bob, "agent.bob", "?reader=two&since=4").await), [5]);
    for query in [
        "since=6",
        "since=x",
        "since=1.",
        "limit=0",
        "limit=201",
        "attention=loud",
        "expand=maybe",
        "reader=a%20b",
    ] {
        assert_eq!(bob.get(&format!("/agents/agent.bob/inbox?{query}")).await.status, 422, "{query}");
    }
    let shown = bob.get("/agents/agent.bob/inbox/settings").await.ok();
    assert_eq!((&shown["newest"], &shown["entries"]), (&json!(5), &json!(5)));
    let places: Vec<&Value> = shown["readers"].as_array().unwrap().iter().map(|one| &one["place"]).collect();
    assert_eq!(places, [&json!(5), &json!(2)]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_finds_no_inbox() {
    let world = World::start().await;
    let (bob, eve) = (world.agent("agent.bob").await, world.agent("agent.eve").await);
    open(&bob, "agent.bob", json!({})).await;
    let path = "/agents/agent.bob/inbox";
    eve.get(path).await.refused(404, "not_found");
    eve.get(&format!("{path}/settings")).await.refused(404, "not_found");
    eve.get(&format!("{path}/stream")).await.refused(404, "not_found");
    eve.put(path, json!({})).await.refused(404, "not_found");
    eve.post(&format!("{path}/seen"), json!({ "place": 0 })).await.refused(404, "not_found");
    eve.delete(path).await.refused(404, "not_found");
    // One that nobody opened looks the same, and a read of it opens nothing.
    eve.get("/agents/agent.none/inbox").await.refused(404, "not_found");
    bob.get("/agents/agent.eve/inbox").await.refused(404, "not_found");
    // A service that may act as every agent reads it; a person's is the person's.
    read(&world.any(), "agent.bob", "").await;
    world.human("human.ada").await;
    world.any().get("/agents/human.ada/inbox").await.refused(404, "not_found");
    bob.delete(path).await.is(204);
    bob.get(&format!("{path}/settings")).await.refused(404, "not_found");
    bob.post(&format!("{path}/seen"), json!({ "place": 0 })).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_who_left_reads_nothing_old_through_the_inbox() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let options = json!({ "members": ["agent.ada", "agent.bob"], "member_policy": "explicit" });
    let (_, channel) = talk(&ada, options).await;
    open(&bob, "agent.bob", json!({})).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    assert_eq!(numbers(&read(&bob, "agent.bob", "").await), [1]);
    ada.patch(&format!("/channels/{channel}"), json!({ "members": ["agent.ada"] })).await.ok();
    let page = read(&bob, "agent.bob", "").await;
    let entry = &page["entries"][0];
    assert_eq!((&entry["withheld"], &page["withheld"]), (&json!(true), &json!(1)));
    for member in ["message", "reference", "sender", "channel_id", "intent_id"] {
        assert!(entry.get(member).is_none(), "{member}: {entry}");
    }
    assert!(!page.to_string().contains("agent.ada"), "{page}");
    // What is sent from now on has no entry at all.
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 2 } })).await;
    follow(&world).await;
    assert_eq!(read(&bob, "agent.bob", "").await["newest"], 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_opened_anew_begins_anew() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    open(&bob, "agent.bob", json!({})).await;
    send(&ada, &channel, to_bob("request", 1)).await;
    follow(&world).await;
    bob.delete("/agents/agent.bob/inbox").await.is(204);
    // Without any inbox the follower forgets its position.
    send(&ada, &channel, to_bob("request", 2)).await;
    follow(&world).await;
    let position: Option<i64> =
        sqlx::query_scalar("SELECT global FROM inbox_cursor").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(position, None);
    let left: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM inbox_entries) + (SELECT count(*) FROM inbox_readers)",
    )
    .fetch_one(&world.ctx().pool)
    .await
    .unwrap();
    assert_eq!(left, 0);
    open(&bob, "agent.bob", json!({})).await;
    send(&ada, &channel, to_bob("request", 3)).await;
    follow(&world).await;
    assert_eq!(numbers(&read(&bob, "agent.bob", "").await), [3]);
    world.end().await;
}
