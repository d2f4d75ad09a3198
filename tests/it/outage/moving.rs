//! Moving a database: a dump restored into another PostgreSQL, whose transaction ids begin anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use entente_store::private::Private;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use entente_harness::process::Place;
use entente_harness::{Client, Event, Receiver, Setup, Sse, World, json, send_number, subscribe, talk};

/// Uses up transaction ids, so that those of the other PostgreSQL are far lower.
async fn use_up(connection: &mut PgConnection) {
    let text = "CREATE TEMP TABLE used (n bigint);
        DO $$ BEGIN
            FOR n IN 1..20000 LOOP
                BEGIN INSERT INTO used VALUES (n); EXCEPTION WHEN division_by_zero THEN NULL; END;
            END LOOP;
        END $$";
    sqlx::raw_sql(text).execute(connection).await.unwrap();
}

async fn next_id(connection: &mut PgConnection) -> i64 {
    let text = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    sqlx::query_scalar(text).fetch_one(connection).await.unwrap()
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Copies a database by `pg_dump` and `pg_restore`.
fn copy(from: &Private, to: &Private, dir: &Path) {
    let file = dir.join("dump").display().to_string();
    run("pg_dump", &["--format=custom", "--file", &file, &from.url()]);
    run("pg_restore", &["--exit-on-error", "--no-owner", "--dbname", &to.url(), &file]);
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|event| event.data["payload"]["n"].as_u64()).collect()
}

async fn note(client: &Client, intent: &str, n: u64) {
    let event = json!({ "event_type": "note", "payload": { "n": n } });
    client.post(&format!("/intents/{intent}/events"), event).await.ok();
}

/// Waits until this many intents were made by the trigger.
async fn fired(client: &Client, count: usize) {
    let began = std::time::Instant::now();
    loop {
        let made = client.get("/intents").await.ok().to_string().matches("\"fired\"").count();
        assert!(made <= count, "{made} firings instead of {count}");
        if made == count {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{made} firings instead of {count}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_dump_goes_on_where_the_old_one_was_left() {
    let (here, there) = (Place::new("dumped"), Place::new("restored"));
    let old = Private::start(&here.0, None, &[]).await.unwrap();
    let mut connection = old.options().connect().await.unwrap();
    use_up(&mut connection).await;
    let world = World::elsewhere(Setup::live(), "dumped", old.options()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    let template = json!({ "title": "fired" });
    let ask = json!({ "name": "n", "type": "event", "condition": { "event": "note" }, "intent_template": template });
    ada.post("/triggers", ask).await.is(200);
    let path = "/subscribe?event_types=channel_message";
    let mut stream = Sse::open(&ada, path).await;
    let mut jobs = Sse::open(&ada, "/jobs/events").await;
    jobs.silent(Duration::from_millis(50)).await;
    for n in 0..6 {
        send_number(&ada, &channel, n).await;
    }
    note(&ada, &intent, 0).await;
    let before = stream.next_few(6).await;
    assert_eq!(numbers(&before), [0, 1, 2, 3, 4, 5]);
    receiver.until(6).await;
    fired(&ada, 1).await;
    // The last ones may be read, delivered and fired by the server here, or by the one there.
    for n in 6..9 {
        send_number(&ada, &channel, n).await;
    }
    note(&ada, &intent, 1).await;
    drop((stream, jobs));
    world.server.stop().await;
    let last = next_id(&mut connection).await;
    connection.close().await.unwrap();

    let new = Private::start(&there.0, None, &[]).await.unwrap();
    copy(&old, &new, &there.0);
    old.stop().await.unwrap();
    let mut connection = new.options().connect().await.unwrap();
    assert!(next_id(&mut connection).await + 10_000 < last, "its transaction ids are far lower");
    connection.close().await.unwrap();
    let world = World::elsewhere(Setup::live(), "restored", new.options()).await;
    let ada = world.agent("agent.ada").await;
    let mut cut_off = Sse::resume(&ada, path, Some(&before[3].id)).await;
    assert_eq!(numbers(&cut_off.next_few(5).await), [4, 5, 6, 7, 8]);
    let mut fresh = Sse::open(&ada, path).await;
    for n in 9..12 {
        send_number(&ada, &channel, n).await;
    }
    note(&ada, &intent, 2).await;
    for stream in [&mut cut_off, &mut fresh] {
        assert_eq!(numbers(&stream.next_few(3).await), [9, 10, 11]);
        stream.silent(Duration::from_millis(100)).await;
    }
    fired(&ada, 3).await;
    receiver.until(12).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    fired(&ada, 3).await;
    let mut got: BTreeMap<String, usize> = BTreeMap::new();
    receiver.ids().into_iter().for_each(|id| *got.entry(id).or_default() += 1);
    assert_eq!(got.len(), 12, "{got:?}");
    assert!(got.values().all(|times| *times == 1), "something was sent twice: {got:?}");
    drop((cut_off, fresh));
    world.server.stop().await;
    new.stop().await.unwrap();
}
