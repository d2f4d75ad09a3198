//! Event triggers: which events fire them, visibility, exactly-once firing, and limits on chains.

use std::time::{Duration, Instant};

use super::{did, intents, now, path, told, trigger};
use entente_harness::{Client, Setup, Value, World, json, send, talk};

/// Processes all logged events and fires the triggers.
async fn hear(world: &World) {
    let began = Instant::now();
    loop {
        world.sweep().await;
        let text = "SELECT NOT EXISTS (SELECT 1 FROM trigger_cursor c, log_sequence(0) e
                WHERE EXISTS (SELECT 1 FROM triggers t WHERE t.listens AND t.enabled AND t.removed_at IS NULL)
                  AND (c.global IS NULL OR (e.log_end, e.log_seq) > (c.global, c.global_seq)))";
        let heard: bool = sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap();
        if heard {
            world.sweep().await;
            return;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "something is never heard");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn end(world: World) {
    hear(&world).await;
    world.end().await;
}

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn on(event: &str, more: Value) -> Value {
    let mut condition = json!({ "event": event });
    condition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "condition": condition, "max_depth": 1 })
}

async fn intent(client: &Client, title: &str) -> String {
    let made = client.post("/intents", json!({ "title": title })).await.ok();
    made["id"].as_str().unwrap().to_owned()
}

async fn note(client: &Client, intent: &str, payload: Value) -> Value {
    let event = json!({ "event_type": "note", "payload": payload });
    client.post(&format!("/intents/{intent}/events"), event).await.ok()
}

#[tokio::test]
async fn it_fires_for_each_event_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let early = intent(&ada, "talk").await;
    note(&ada, &early, json!({ "level": "high", "n": 0 })).await;
    let mut ask = on("note", json!({ "filter": { "payload.level": "hi*" } }));
    ask["intent_template"] = json!({
        "title": "Look at {{ event.payload.n }}", "context": { "from": "{{ event.intent_id }}", "who": "{{ event.actor }}" },
    });
    let made = trigger(&ada, "event", ask).await;
    for (level, n) in [("high", 1), ("low", 2), ("high", 3)] {
        note(&ada, &early, json!({ "level": level, "n": n })).await;
    }
    hear(&world).await;
    hear(&world).await;
    let mut found = intents(&ada).await;
    found.sort_by_key(|one| one["title"].as_str().unwrap().to_owned());
    let titles: Vec<&str> = found.iter().map(|one| one["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Look at 1", "Look at 3", "talk"], "what was there before is not heard");
    assert_eq!((&found[1]["state"]["from"], &found[1]["state"]["who"]), (&json!(early), &json!("agent.ada")));
    assert_eq!(now(&ada, &made).await["fire_count"], 2);
    // A disabled trigger misses events and does not catch up when it is enabled again.
    ada.seen(&json!(1)).patch(&path(&made), json!({ "enabled": false })).await.ok();
    note(&ada, &early, json!({ "level": "high", "n": 4 })).await;
    hear(&world).await;
    ada.seen(&json!(2)).patch(&path(&made), json!({ "enabled": true })).await.ok();
    note(&ada, &early, json!({ "level": "high", "n": 5 })).await;
    hear(&world).await;
    assert_eq!(intents(&ada).await.iter().filter(|one| one["title"] == "Look at 5").count(), 1);
    assert_eq!(now(&ada, &made).await["fire_count"], 3);
    end(world).await;
}

#[tokio::test]
async fn an_audited_message_is_heard_by_both_names_in_both_modes() {
    for settings in [Vec::new(), vec![("ENTENTE_STRICT_RFC0021", "true")]] {
        let world = World::with(Setup { settings, live: false }).await;
        let ada = world.agent("agent.ada").await;
        let (_, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
        let mut triggers = Vec::new();
        for (n, name) in ["channel_message", "channel.message"].into_iter().enumerate() {
            for filter in [json!({}), json!({ "event_type": name }), json!({ "type": [name, "note"] })] {
                let other = ["channel.message", "channel_message"][n];
                triggers.push(trigger(&ada, "event", on(other, json!({ "filter": filter }))).await);
            }
        }
        let deaf = trigger(&ada, "event", on("channel.closed", json!({}))).await;
        send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
        hear(&world).await;
        for one in &triggers {
            assert_eq!(now(&ada, one).await["fire_count"], 1, "{one}");
        }
        assert_eq!(now(&ada, &deaf).await["fire_count"], 0);
        end(world).await;
    }
}

#[tokio::test]
async fn a_crash_loses_and_doubles_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let talk = intent(&ada, "talk").await;
    let made = trigger(&ada, "event", on("note", json!({}))).await;
    note(&ada, &talk, json!({ "n": 1 })).await;
    hear(&world).await;
    assert_eq!(now(&ada, &made).await["fire_count"], 1);
    // The cursor is reset: events are processed again, but fire nothing a second time.
    sqlx::query("UPDATE trigger_cursor SET global = NULL, global_seq = NULL")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    note(&ada, &talk, json!({ "n": 2 })).await;
    hear(&world).await;
    assert_eq!(now(&ada, &made).await["fire_count"], 2);
    assert_eq!(did(&ada, &made).await.len(), 2);
    end(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_one_hears() {
    let a = World::start().await;
    let b = World::on(Setup::default(), a.database.clone()).await;
    // Both have the same random bits, so they would create equal ids at the same instant.
    b.clock.advance(1);
    let ada = a.agent("agent.ada").await;
    let talk = intent(&ada, "talk").await;
    let made = trigger(&ada, "event", on("note", json!({}))).await;
    for n in 0..20 {
        note(&ada, &talk, json!({ "n": n })).await;
        tokio::join!(a.sweep_beside(), b.sweep_beside());
    }
    tokio::join!(hear(&a), hear(&b));
    assert_eq!(now(&ada, &made).await["fire_count"], 20);
    b.server.stop().await;
    end(a).await;
}

#[tokio::test]
async fn what_its_owner_may_not_read_it_does_not_hear() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let closed = intent(&ada, "private").await;
    ada.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed", "entries": [] }))
        .await
        .ok();
    let hers = trigger(&eve, "event", on("note", json!({}))).await;
    let own = trigger(&ada, "event", on("note", json!({}))).await;
    note(&ada, &closed, json!({})).await;
    hear(&world).await;
    assert_eq!(now(&ada, &own).await["fire_count"], 1);
    assert!(did(&eve, &hers).await.is_empty(), "not even that there was something");
    // Of the system log it gets only events about its owner; an admin's trigger would get all.
    let quiet = trigger(&eve, "event", on("agent.registered", json!({}))).await;
    ada.post("/agents/register", json!({ "agent_id": "agent.ada" })).await.ok();
    hear(&world).await;
    assert_eq!(now(&eve, &quiet).await["fire_count"], 0);
    eve.post("/agents/register", json!({ "agent_id": "agent.eve" })).await.ok();
    hear(&world).await;
    assert_eq!(now(&eve, &quiet).await["fire_count"], 1);
    // An event that is no longer readable when the trigger fires is skipped.
    let open = intent(&ada, "open").await;
    note(&ada, &open, json!({})).await;
    let heard = async || entente_openintent::triggers::hear(&world.ctx().openintent).await.unwrap();
    let began = Instant::now();
    while heard().await == 0 {
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ada.put(&format!("/intents/{open}/acl"), json!({ "default_policy": "closed", "entries": [] })).await.ok();
    hear(&world).await;
    let history = did(&eve, &hers).await;
    assert_eq!(
        history.last().map(|(_, status, reason)| (status.as_str(), reason)),
        Some(("skipped", &json!("not_visible")))
    );
    end(world).await;
}

#[tokio::test]
async fn what_is_brought_about_ends() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mut ask = on("intent.created", json!({}));
    ask["max_depth"] = json!(3);
    let made = trigger(&ada, "event", ask).await;
    intent(&ada, "first").await;
    for _ in 0..5 {
        hear(&world).await;
    }
    // One created by an agent and three by the trigger, each caused by the previous one.
    let mut found = intents(&ada).await;
    found.sort_by_key(|one| one["state"]["trigger"]["trigger_depth"].as_i64());
    assert_eq!(found.len(), 4);
    let depths: Vec<&Value> =
        found.iter().skip(1).map(|one| &one["state"]["trigger"]["trigger_depth"]).collect();
    assert_eq!(depths, [1, 2, 3]);
    let id = &made["trigger_id"];
    assert_eq!(found[3]["state"]["trigger"]["trigger_chain"], json!([id, id, id]));
    let last = did(&ada, &made).await.pop().unwrap();
    assert_eq!((last.1.as_str(), &last.2), ("skipped", &json!("cascade_limit")));
    assert_eq!(told(&world).await.iter().filter(|(kind, _)| kind == "trigger.cascade_limit").count(), 1);
    // A child of a trigger's intent belongs to its lineage too.
    let below = json!({ "title": "below", "parent_intent_id": found[3]["id"] });
    ada.post("/intents", below).await.ok();
    hear(&world).await;
    assert_eq!(intents(&ada).await.len(), 5);
    end(world).await;
}

#[tokio::test]
async fn triggers_hear_of_each_other() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let first = trigger(&ada, "schedule", json!({})).await;
    let mut ask = on("trigger.fired", json!({ "filter": { "trigger_id": first["trigger_id"] } }));
    ask["max_depth"] = json!(10);
    ask["intent_template"] = json!({ "title": "after {{ event.created_intent_id }}" });
    let second = trigger(&ada, "event", ask).await;
    // Of the triggers' own events, a trigger on all events gets only `trigger.fired`, so the chain ends.
    let mut all = on("*", json!({}));
    all["max_depth"] = json!(2);
    let third = trigger(&ada, "event", all).await;
    let fired = ada.send("POST", &format!("{}/fire", path(&first)), None).await.is(200);
    for _ in 0..5 {
        hear(&world).await;
    }
    let found = intents(&ada).await;
    let title = format!("after {}", fired["intent_id"].as_str().unwrap());
    let chained = found.iter().find(|one| one["title"] == json!(title)).unwrap();
    assert_eq!(
        chained["state"]["trigger"]["trigger_chain"],
        json!([first["trigger_id"], second["trigger_id"]])
    );
    let limited = did(&ada, &third).await;
    assert!(limited.iter().any(|(_, _, reason)| reason == "cascade_limit"), "{limited:?}");
    assert!(limited.len() < 40, "{}", limited.len());
    end(world).await;
}

#[tokio::test]
async fn a_flood_is_cut() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let talk = intent(&ada, "talk").await;
    let made = trigger(&ada, "event", on("note", json!({}))).await;
    for n in 0..70 {
        note(&ada, &talk, json!({ "n": n })).await;
    }
    hear(&world).await;
    assert_eq!(now(&ada, &made).await["fire_count"], 60);
    let last = did(&ada, &made).await.pop().unwrap();
    assert_eq!((last.1.as_str(), &last.2), ("skipped", &json!("rate")));
    world.pass(61).await;
    note(&ada, &talk, json!({})).await;
    hear(&world).await;
    assert_eq!(now(&ada, &made).await["fire_count"], 61);
    end(world).await;
}

#[tokio::test]
async fn a_flow_that_never_pauses_is_fired_for_at_its_rate() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let talk = intent(&ada, "talk").await;
    let made = trigger(&ada, "event", on("note", json!({}))).await;
    // Two a second, for a little more than three minutes.
    for _ in 0..190 {
        note(&ada, &talk, json!({})).await;
        note(&ada, &talk, json!({})).await;
        hear(&world).await;
        world.clock.advance(1);
    }
    let fired = now(&ada, &made).await["fire_count"].as_i64().unwrap();
    assert!((180..=240).contains(&fired), "{fired}");
    let text = "SELECT count(*) FROM trigger_firings WHERE reason = 'rate'";
    let said: i64 = sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap();
    assert!((3..=4).contains(&said), "once a minute, not {said} times");
    end(world).await;
}

#[tokio::test]
async fn all_of_a_principals_have_a_bound_too() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let talk = intent(&ada, "talk").await;
    for _ in 0..8 {
        trigger(&ada, "event", on("note", json!({}))).await;
    }
    let other = trigger(&eve, "event", on("note", json!({}))).await;
    for _ in 0..50 {
        note(&ada, &talk, json!({})).await;
    }
    hear(&world).await;
    // Including the intent that the notes are on.
    assert_eq!(intents(&ada).await.len(), 300 + 50 + 1);
    assert_eq!(now(&eve, &other).await["fire_count"], 50, "another principal's have their own");
    end(world).await;
}

#[tokio::test]
async fn one_that_cannot_be_read_keeps_none_of_the_others_from_hearing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let talk = intent(&ada, "talk").await;
    let deaf = trigger(&ada, "event", on("note", json!({}))).await;
    let mute = trigger(&ada, "event", on("note", json!({}))).await;
    let fine = trigger(&ada, "event", on("note", json!({}))).await;
    for (text, broken) in [
        ("UPDATE triggers SET condition = '{\"event\": 7}' WHERE id = $1", &deaf),
        ("UPDATE triggers SET template = '7' WHERE id = $1", &mute),
    ] {
        let id: entente_domain::ids::TriggerId = broken["trigger_id"].as_str().unwrap().parse().unwrap();
        sqlx::query(text).bind(id.uuid()).execute(&world.ctx().pool).await.unwrap();
    }
    for n in 1..=11 {
        note(&ada, &talk, json!({})).await;
        hear(&world).await;
        assert_eq!(now(&ada, &fine).await["fire_count"], n);
    }
    // One is disabled at once, the other after ten failures, and both are reported.
    let failed = async |one: &Value| {
        let told = told(&world).await;
        let of_it = told.iter().filter(|(kind, about)| {
            kind == "trigger.failed"
                && about["trigger_id"] == one["trigger_id"]
                && about["reason"] == "internal"
        });
        of_it.count()
    };
    assert_eq!((failed(&deaf).await, failed(&mute).await), (1, 10));
    let off: i64 =
        sqlx::query_scalar("SELECT count(*) FROM triggers WHERE NOT enabled AND disabled_reason = 'failing'")
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap();
    assert_eq!(off, 2);
    // And the rest can still be listed.
    assert_eq!(ada.get("/triggers").await.ok().as_array().unwrap().len(), 1);
    end(world).await;
}
