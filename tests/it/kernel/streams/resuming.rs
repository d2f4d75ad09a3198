//! Resuming a stream (OI-11.6.1): `Last-Event-ID` without gaps or repetitions, on every kind of stream, after a
//! restart, with unusual ids, and for readers slower than their channel.

use std::time::Duration;

use super::{count, live, names, numbers};
use entente_harness::{Client, Event, Setup, Sse, World, json, send, talk};

/// Returns every kind of stream that a member of the channel can open.
fn paths(intent: &str, channel: &str) -> Vec<String> {
    vec![
        format!("/subscribe/intents/{intent}"),
        format!("/intents/{intent}/subscribe"),
        format!("/subscribe/channels/{channel}"),
        format!("/channels/{channel}/subscribe"),
        "/subscribe/agents/agent.bob".to_owned(),
        "/agents/agent.bob/subscribe?event_types=*".to_owned(),
        "/subscribe".to_owned(),
    ]
}

/// Returns the frames without the message status, the only part that may differ when they are repeated.
fn lasting(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    for event in events.iter_mut().filter(|event| event.name == "channel_message") {
        let data = event.data.as_object_mut().unwrap();
        assert!(data.remove("status").is_some() && data.remove("read_at").is_some());
    }
    events
}

/// Resumes the stream after some of the frames and asserts that the rest follows.
async fn resumes(client: &Client, path: &str, said: &[Event]) {
    for cut in [0, 1, said.len() / 2, said.len() - 2] {
        let mut stream = Sse::resume(client, path, Some(&said[cut].id)).await;
        let again = stream.next_few(said.len() - cut - 1).await;
        assert_eq!(lasting(&again), lasting(&said[cut + 1..]), "{path} after frame {cut}");
        stream.silent(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stream_resumes_without_gap_or_repetition() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.bob" })).await.ok();
    let paths = paths(&intent, &channel);
    let mut streams = Vec::new();
    for path in &paths {
        streams.push(Sse::open(&bob, path).await);
    }
    // Messages, receipts and events in turn: three tables, one log.
    for n in 0..6_u64 {
        let id =
            send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await["id"].clone();
        let read = format!("/channels/{channel}/messages/{}", id.as_str().unwrap());
        bob.patch(&read, json!({ "status": "read" })).await.ok();
        ada.patch(&format!("/channels/{channel}"), json!({ "options": { "max_messages": 500 + n } }))
            .await
            .ok();
    }
    let mut said = Vec::new();
    for (path, stream) in paths.iter().zip(&mut streams) {
        // The agent did not send these messages, so it gets no receipts for them. Its streams begin with its
        // assignment, which a resumed stream does not repeat.
        let of_agent = path.contains("agents");
        let frames = stream.next_few(if of_agent { 13 } else { 18 }).await;
        assert_eq!(numbers(&frames), [0, 1, 2, 3, 4, 5], "{path}");
        assert_eq!(names(&frames)[usize::from(of_agent)], "channel_message");
        resumes(&bob, path, &frames).await;
        said.push(frames);
    }
    // Another server on the same database, with nothing in memory, delivers the same.
    let database = world.database.clone();
    drop(streams);
    world.end().await;
    let restarted = World::on(Setup::live(), database).await;
    let bob = restarted.agent("agent.bob").await;
    for (path, frames) in paths.iter().zip(&said) {
        resumes(&bob, path, frames).await;
    }
    restarted.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_ids_have_a_clear_answer() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (of_intent, of_all) = (format!("/subscribe/intents/{intent}"), "/subscribe".to_owned());
    let mut all = Sse::open(&ada, &of_all).await;
    count(&ada, "agent.ada", &channel, 0, 3).await;
    let house = all.next_few(3).await[0].id.clone();
    for garbage in ["banana", "1.x", "1.2.3.4", "1.2.nothing", "9999999999999999999999", "-", "0x1", "5;6"] {
        for path in [&of_intent, &of_all] {
            let refused = Sse::refused(&ada.with("last-event-id", garbage), path)
                .await
                .refused(422, "invalid_parameter");
            assert!(refused["message"].as_str().unwrap().contains("Last-Event-ID"));
        }
    }
    // An id of another kind of stream is invalid here.
    Sse::refused(&ada.with("last-event-id", &house), &of_intent).await.refused(422, "invalid_parameter");
    Sse::refused(&ada.with("last-event-id", "1"), &of_all).await.refused(422, "invalid_parameter");
    // From the beginning, from before it, and from after the end.
    for first in ["0", "-7"] {
        let mut stream = Sse::resume(&ada, &of_intent, Some(first)).await;
        let said = stream.next_few(5).await;
        assert_eq!(names(&said)[..2], ["intent_created", "channel.created"]);
        assert_eq!(numbers(&said), [0, 1, 2]);
    }
    let mut beyond = Sse::resume(&ada, &of_intent, Some("9000000000")).await;
    let mut fresh = Sse::resume(&ada, &of_intent, Some(" ")).await;
    let mut restored = Sse::resume(&ada, &of_all, Some("9000000000.7")).await;
    count(&ada, "agent.ada", &channel, 3, 1).await;
    let heard = [beyond.next().await, fresh.next().await, restored.next().await];
    assert_eq!(numbers(&heard), [3, 3, 3], "what is new is heard");
    // A client that cannot set headers uses the query parameter.
    let mut stream = Sse::open(&ada, &format!("{of_all}?last_event_id={house}")).await;
    assert_eq!(numbers(&stream.next_few(3).await), [1, 2, 3]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_whose_message_is_evicted_goes_on_with_what_is_left() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 3 } })).await;
    let mut stream = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    let mut said = vec![stream.next().await];
    count(&ada, "agent.ada", &channel, 1, 9).await;
    said.extend(stream.next_few(9).await);
    assert_eq!(numbers(&said), (0..10).collect::<Vec<_>>(), "who keeps up hears all");
    world.sweep().await;
    for path in [format!("/intents/{intent}/subscribe"), format!("/subscribe/channels/{channel}")] {
        let mut late = Sse::resume(&ada, &path, Some(&said[1].id)).await;
        // Frames that this server still holds in memory may come too; a server without them delivers the last
        // three.
        let got = numbers(&late.next_few(3).await);
        assert!(got == [7, 8, 9] || got == [2, 3, 4], "{got:?}");
    }
    let database = world.database.clone();
    drop(stream);
    world.end().await;
    let restarted = World::on(Setup::live(), database).await;
    let ada = restarted.agent("agent.ada").await;
    for path in [format!("/intents/{intent}/subscribe"), format!("/subscribe/channels/{channel}")] {
        let mut late = Sse::resume(&ada, &path, Some(&said[1].id)).await;
        assert_eq!(late.next_few(3).await, said[7..], "{path}");
        late.silent(Duration::from_millis(10)).await;
    }
    restarted.end().await;
}

/// Number of messages that a reader leaves unread; with their padding, more than the sockets' buffers hold.
const UNREAD: u64 = 4_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_caught_up_from_the_database() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 100_000 } })).await;
    let mut streams = Vec::new();
    for path in [
        format!("/subscribe/channels/{channel}"),
        format!("/intents/{intent}/subscribe"),
        "/subscribe".to_owned(),
    ] {
        streams.push(Sse::open(&ada, &path).await);
    }
    let padding = "x".repeat(4_000);
    for first in (0..UNREAD).step_by(400) {
        let messages: Vec<_> = (first..first + 400)
            .map(|n| json!({ "sender": "agent.ada", "payload": { "n": n, "padding": padding } }))
            .collect();
        ada.post(&format!("/channels/{channel}/messages/batch"), json!({ "messages": messages }))
            .await
            .is(201);
    }
    let before = world.ctx().metrics.catch_ups.get();
    for stream in &mut streams {
        let said = stream.next_few(usize::try_from(UNREAD).unwrap()).await;
        assert_eq!(numbers(&said), (0..UNREAD).collect::<Vec<_>>(), "each once, in order");
        let ids: std::collections::HashSet<&str> = said.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids.len(), said.len());
        stream.silent(Duration::from_millis(10)).await;
    }
    assert!(world.ctx().metrics.catch_ups.get() >= before + 3, "nobody was behind: the test proves nothing");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_that_falls_due_while_frames_are_looked_at_loses_none() {
    let world = live(&[("ENTENTE_PING_SECONDS", "1")]).await;
    let ada = world.agent("agent.ada").await;
    let mut talks = Vec::new();
    for n in 0..2 {
        let (_, channel) = talk(&ada, json!({})).await;
        count(&ada, "agent.ada", &channel, 1_000 + n, 1).await;
        talks.push(channel);
    }
    let mut all = Sse::open(&ada, "/subscribe").await;
    count(&ada, "agent.ada", &talks[0], 0, 1).await;
    assert_eq!(numbers(&[all.next().await]), [0], "now it is known where ada stands with the first intent");
    // This lock delays the stream's query, so that the following frames are read in one page.
    let mut reading = world.hold().await;
    sqlx::query("LOCK TABLE receipts IN ACCESS EXCLUSIVE MODE").execute(&mut *reading).await.unwrap();
    count(&ada, "agent.ada", &talks[0], 1, 60).await;
    count(&ada, "agent.ada", &talks[1], 61, 1).await;
    // Then the lookup of ada's access to the second intent waits for this lock, longer than the ping interval.
    let mut seats = world.hold().await;
    sqlx::query("LOCK TABLE acl_entries IN ACCESS EXCLUSIVE MODE").execute(&mut *seats).await.unwrap();
    reading.commit().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    seats.commit().await.unwrap();
    assert_eq!(numbers(&all.next_few(61).await), (1..62).collect::<Vec<_>>());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_takes_long_delays_no_stream() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let mut early = Sse::open(&ada, "/subscribe").await;
    let mut long = world.hold().await;
    sqlx::query("SELECT pg_current_xact_id()").execute(&mut *long).await.unwrap();
    count(&ada, "agent.ada", &channel, 0, 3).await;
    let mut late = Sse::open(&ada, "/subscribe").await;
    count(&ada, "agent.ada", &channel, 3, 2).await;
    assert_eq!(numbers(&early.next_few(5).await), [0, 1, 2, 3, 4]);
    assert_eq!(numbers(&late.next_few(2).await), [3, 4], "what was there before is not new");
    let from_here = late.last_id.clone();
    count(&ada, "agent.ada", &channel, 5, 1).await;
    let mut again = Sse::resume(&ada, "/subscribe", from_here.as_deref()).await;
    assert_eq!(numbers(&[late.next().await, again.next().await]), [5, 5]);
    long.rollback().await.unwrap();
    late.silent(Duration::from_millis(300)).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_cut_off_before_the_first_frame_misses_nothing() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let paths = [
        format!("/subscribe/intents/{intent}"),
        format!("/channels/{channel}/subscribe"),
        "/subscribe".into(),
    ];
    for (path, first) in paths.into_iter().zip([0, 10, 20]) {
        let cut_off = Sse::open(&ada, &path).await;
        let greeted_with = cut_off.last_id.clone();
        assert!(greeted_with.is_some(), "{path}: the greeting says where the stream begins");
        drop(cut_off);
        count(&ada, "agent.ada", &channel, first, 3).await;
        let mut again = Sse::resume(&ada, &path, greeted_with.as_deref()).await;
        let heard = numbers(&again.next_few(3).await);
        assert_eq!(heard, [first, first + 1, first + 2], "{path}");
    }
    world.end().await;
}
