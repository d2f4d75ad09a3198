//! The order over everything: the same for all followers, dense, and independent of who writes, who gives numbers, and
//! whose transactions stay open.

use std::time::{Duration, Instant};

use entente_domain::ids::IntentId;
use entente_kernel::log::order;
use entente_kernel::log::writer::IntentLog;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{count, live, numbers};
use entente_harness::process::Place;
use entente_harness::{Client, Receiver, Setup, Sse, World, json, subscribe, talk};

/// Requires that the numbers are dense and that the parts of each log follow each other, in the order of the numbers.
async fn is_whole(world: &World) {
    let pool = &world.ctx().pool;
    order::advance_after(&mut pool.acquire().await.unwrap(), Some(0)).await.unwrap();
    for (order, of, end) in [("log_order", "intent_id", "intent_clock"), ("job_order", "job_id", "job_clock")]
    {
        let text = format!(
            "SELECT count(*) FROM (
                 SELECT global, from_seq, to_seq, row_number() OVER (ORDER BY global) AS number,
                        coalesce(lag(to_seq) OVER log, 0) AS before,
                        lag(global) OVER log AS previous FROM {order} WINDOW log AS (PARTITION BY {of} ORDER BY to_seq)) o
             WHERE number <> global OR from_seq <> before + 1 OR to_seq < from_seq OR previous > global"
        );
        let wrong: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).fetch_one(pool).await.unwrap();
        assert_eq!(wrong, 0, "{order} has gaps, or parts of a log in a wrong order");
        let text = format!(
            "SELECT count(*) FROM {end} c WHERE c.last_seq > coalesce((
                 SELECT max(to_seq) FROM {order} o WHERE o.{of} = c.{of}), 0)"
        );
        let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).fetch_one(pool).await.unwrap();
        assert_eq!(left, 0, "something in {end} has no number");
    }
    let marks: i64 =
        sqlx::query_scalar("SELECT count(*) FROM log_unsequenced").fetch_one(pool).await.unwrap();
    assert_eq!(marks, 0, "marks are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_on_two_servers_see_one_order_while_both_write() {
    const EACH: u64 = 60;
    let (one, two) = World::two().await;
    let mut writers = Vec::new();
    for (n, world) in [&one, &two, &one, &two].into_iter().enumerate() {
        let ada = world.agent("agent.ada").await;
        writers.push((ada.clone(), talk(&ada, json!({})).await.1, u64::try_from(n).unwrap() * 1_000));
    }
    let readers = [one.agent("agent.ada").await, two.agent("agent.ada").await];
    let mut streams = Vec::new();
    for reader in readers.iter().chain(&readers) {
        streams.push(Sse::open(reader, "/subscribe").await);
    }
    let write = async |(client, channel, from): &(Client, String, u64)| {
        count(client, "agent.ada", channel, *from, EACH).await;
    };
    futures_util::future::join_all(writers.iter().map(write)).await;
    let all = usize::try_from(EACH).unwrap() * writers.len();
    let mut seen = Vec::new();
    for stream in &mut streams {
        let events = stream.next_few(all).await;
        seen.push(
            events
                .iter()
                .map(|event| (event.id.clone(), numbers(std::slice::from_ref(event))[0]))
                .collect::<Vec<_>>(),
        );
        stream.silent(Duration::from_millis(50)).await;
    }
    for other in &seen[1..] {
        assert_eq!(*other, seen[0], "followers disagree about the order");
    }
    for (_, _, from) in &writers {
        let own: Vec<u64> =
            seen[0].iter().map(|(_, n)| *n).filter(|n| (*from..from + 1_000).contains(n)).collect();
        assert_eq!(own, (*from..from + EACH).collect::<Vec<_>>());
    }
    is_whole(&one).await;
    two.end().await;
    one.end().await;
}

#[tokio::test]
async fn what_a_server_left_without_numbers_when_it_died_gets_them_from_the_next() {
    // Without background tasks nothing gives numbers, as if the server died right after each commit.
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    count(&ada, "agent.ada", &channel, 0, 5).await;
    let numbered: i64 =
        sqlx::query_scalar("SELECT count(*) FROM log_order").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(numbered, 0);
    let next = World::on(Setup::live(), world.database.clone()).await;
    let ada = next.agent("agent.ada").await;
    let mut stream = Sse::resume(&ada, "/subscribe?event_types=channel_message", Some("0.0")).await;
    assert_eq!(numbers(&stream.next_few(5).await), [0, 1, 2, 3, 4]);
    drop(stream);
    is_whole(&next).await;
    next.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_commits_late_comes_later_and_is_not_lost() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let ((slow, _), (_, channel)) = (talk(&ada, json!({})).await, talk(&ada, json!({})).await);
    let mut stream = Sse::open(&ada, "/subscribe").await;
    // The mark is there before those of the messages, and is committed after they got their numbers.
    let slow: IntentId = slow.parse().unwrap();
    let mut long = world.hold().await;
    sqlx::query("UPDATE intent_clock SET last_seq = last_seq + 1 WHERE intent_id = $1")
        .bind(slow.uuid())
        .execute(&mut *long)
        .await
        .unwrap();
    count(&ada, "agent.ada", &channel, 0, 3).await;
    assert_eq!(numbers(&stream.next_few(3).await), [0, 1, 2]);
    long.commit().await.unwrap();
    is_whole(&world).await;
    drop(stream);
    world.server.stop().await;
}

async fn an_intent(world: &World) -> IntentId {
    talk(&world.agent("agent.ada").await, json!({})).await.0.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_moved_although_its_intent_was_locked_is_not_overwritten() {
    let world = live(&[]).await;
    let intent = an_intent(&world).await;
    let ctx = world.ctx();
    let end = "SELECT last_seq FROM intent_clock WHERE intent_id = $1";
    let stored = || sqlx::query_scalar::<_, i64>(end).bind(intent.uuid()).fetch_all(&ctx.pool);
    let opened = stored().await.unwrap()[0];
    // Within the block that the log was opened in, and in a later one.
    for by in [1, 256] {
        let mut conn = ctx.pool.acquire().await.unwrap();
        let mut log = IntentLog::open(&mut conn, intent, None, ctx.now()).await.unwrap();
        log.advance();
        sqlx::query("UPDATE intent_clock SET last_seq = last_seq + $2 WHERE intent_id = $1")
            .bind(intent.uuid())
            .bind(by)
            .execute(&ctx.pool)
            .await
            .unwrap();
        let refused = log.save(&mut conn).await.unwrap_err();
        assert!(refused.to_string().contains("moved under its lock"), "{refused}");
    }
    assert_eq!(stored().await.unwrap(), [opened + 257]);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_moves_while_a_write_waits_for_its_row_is_not_overwritten() {
    let world = live(&[]).await;
    let intent = an_intent(&world).await;
    let ctx = world.ctx();
    let mut conn = ctx.pool.acquire().await.unwrap();
    let mut log = IntentLog::open(&mut conn, intent, None, ctx.now()).await.unwrap();
    log.advance();
    let mut other = world.hold().await;
    sqlx::query("UPDATE intent_clock SET last_seq = last_seq + 1 WHERE intent_id = $1")
        .bind(intent.uuid())
        .execute(&mut *other)
        .await
        .unwrap();
    let (saved, ()) = tokio::join!(log.save(&mut conn), async {
        // The write has found the row as it was, and waits for the other transaction.
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event = 'transactionid' AND query LIKE '%log::save%'";
        let began = Instant::now();
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&ctx.pool).await.unwrap() == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "the write does not wait");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        other.commit().await.unwrap();
    });
    let refused = saved.unwrap_err();
    assert!(refused.to_string().contains("moved under its lock"), "{refused}");
    drop(conn);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_gets_no_second_end() {
    let world = live(&[]).await;
    let intent = an_intent(&world).await;
    let ctx = world.ctx();
    let mut conn = ctx.pool.acquire().await.unwrap();
    // In the block of the end that exists, and in another one.
    for entries in [1, 300] {
        let mut log = IntentLog::fresh(intent, None, ctx.now());
        for _ in 0..entries {
            log.advance();
        }
        let refused = log.save(&mut conn).await.unwrap_err();
        assert!(refused.to_string().contains("moved under its lock"), "{refused}");
    }
    let ends = "SELECT count(*) FROM intent_clock WHERE intent_id = $1";
    let ends: i64 = sqlx::query_scalar(ends).bind(intent.uuid()).fetch_one(&ctx.pool).await.unwrap();
    assert_eq!(ends, 1);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_somebody_forgot_delays_nobody() {
    let place = Place::new("forgotten");
    let settings = [("max_prepared_transactions", "5")];
    let private = entente_store::private::Private::start(&place.0, None, &settings).await.unwrap();
    let world = World::elsewhere(Setup::live(), "forgotten", private.options()).await;
    let pool = &world.ctx().pool;
    // One is open in another database, one was prepared in this one and is in no session any more.
    sqlx::raw_sql("CREATE DATABASE another").execute(pool).await.unwrap();
    let mut other = private.options_for("another").connect().await.unwrap();
    sqlx::raw_sql("CREATE TABLE t (n bigint); BEGIN; INSERT INTO t VALUES (1)")
        .execute(&mut other)
        .await
        .unwrap();
    let mut forgotten = private.options().connect().await.unwrap();
    let prepare =
        "CREATE TABLE u (n bigint); BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'forgotten'";
    sqlx::raw_sql(prepare).execute(&mut forgotten).await.unwrap();
    forgotten.close().await.unwrap();
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    let condition = json!({ "event": "note" });
    let ask = json!({ "name": "n", "type": "event", "condition": condition, "intent_template": { "title": "fired" } });
    ada.post("/triggers", ask).await.is(200);
    let mut stream = Sse::open(&ada, "/subscribe").await;
    count(&ada, "agent.ada", &channel, 0, 3).await;
    ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    assert_eq!(numbers(&stream.next_few(3).await), [0, 1, 2]);
    receiver.until(3).await;
    let began = Instant::now();
    while !ada.get("/intents").await.ok().to_string().contains("fired") {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the trigger waits for somebody else's transaction"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let prepared: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_prepared_xacts").fetch_one(pool).await.unwrap();
    assert_eq!(prepared, 1, "it was there all the time");
    sqlx::raw_sql("ROLLBACK PREPARED 'forgotten'").execute(pool).await.unwrap();
    other.close().await.unwrap();
    drop(stream);
    world.server.stop().await;
    private.stop().await.unwrap();
}
