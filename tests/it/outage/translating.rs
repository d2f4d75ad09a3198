//! The upgrade from the release that ordered everything by transaction ids: places that clients and readers hold mean the
//! same afterwards.

use std::time::Duration;

use entente_domain::ids::JobId;
use entente_http::frames::show;
use entente_kernel::Pool;
use entente_kernel::feed::ResumeToken;
use entente_kernel::log::FormerPosition;
use entente_store::migrate;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use entente_harness::envelopes::{task_envelope, with};
use entente_harness::jobs::Hand;
use entente_harness::{
    Client, Event, Receiver, Setup, Sse, Value, World, json, send_number, subscribe, talk,
};

/// Takes back what the migrations from `log_order` on have made: the schema of the release before, with the rows of this
/// one, whose columns for transaction ids are filled by their defaults.
async fn take_back(pool: &Pool) {
    let text = "
        DROP TRIGGER mark_logs ON intent_clock; DROP TRIGGER mark_new_logs ON intent_clock;
        DROP TRIGGER mark_jobs ON job_events; DROP TRIGGER wake_receivers ON job_events; DROP FUNCTION wake_receivers; DROP TRIGGER mark_sent ON aee_envelopes; DROP TRIGGER mark_approved ON aee_envelopes;
        DROP TABLE notifications, contact_points, push_keys;
        DROP VIEW log_order_empty; DROP FUNCTION require_epoch, require_lease, require_task, require_job; DROP TABLE agent_sessions;
        DROP TABLE provider_accounts, provider_logins, bundles, bundle_lines; DROP INDEX events_proved;
        ALTER TABLE acls DROP COLUMN strict;
        ALTER TABLE intent_clock DROP COLUMN block, ADD PRIMARY KEY (intent_id), REPLICA IDENTITY DEFAULT;
        DROP TRIGGER forget_words ON messages; DROP TRIGGER forget_words ON events; DROP TRIGGER forget_words ON jobs;
        DROP FUNCTION forget_log_words, forget_job_words;
        DROP VIEW search_backlog; DROP TABLE search_documents, search_position;
        DROP VIEW loop_backlog; DROP TABLE loop_policies, talks, lineages, loop_holds, loop_news, loop_cursor, message_days;
        DROP TABLE inboxes, inbox_entries, inbox_readers, inbox_cursor;
        DROP TABLE quotas, stored_parts, stored_totals, storage_clock;
        ALTER TABLE messages DROP COLUMN principal_id;
        DROP TABLE event_leaves, log_floors, log_order_search, job_claims, job_limits, job_slots, lease_waits, request_waits,
            deadlocks;
        ALTER TABLE job_clock DROP COLUMN precedence, DROP COLUMN principal, DROP COLUMN parked,
            DROP COLUMN gate, DROP COLUMN slotted;
        ALTER TABLE jobs DROP COLUMN concurrency;
        ALTER TABLE checkpoints DROP COLUMN spent;
        DROP TABLE job_labels, job_failures, job_reruns, job_queues, job_signals, job_costs, lapsed_reservations, task_pushes;
        ALTER TABLE job_clock DROP COLUMN signals_sent, DROP COLUMN signals_acked;
        DROP INDEX jobs_by_trace, jobs_by_intent;
        DROP FUNCTION stop_concerns, budget_window_start, budget_window_end;
        DROP TABLE stopped_jobs, stops, spend, spend_reservations, budget_reached, budget_holds, budget_windows, budgets,
            team_members, teams;
        ALTER TABLE jobs DROP COLUMN key_id, DROP COLUMN owner;
        ALTER TABLE job_clock DROP COLUMN reserves;
        ALTER TABLE job_reservations DROP COLUMN model;
        ALTER TABLE webhook_endpoints DROP COLUMN hears_from, DROP COLUMN format; ALTER TABLE webhook_deliveries DROP COLUMN position, DROP COLUMN replays, DROP COLUMN producer_id, DROP COLUMN producer_sequence;
        ALTER TABLE triggers DROP COLUMN hears_from;
        ALTER TABLE webhook_cursor DROP COLUMN global, DROP COLUMN global_seq;
        ALTER TABLE trigger_cursor DROP COLUMN global, DROP COLUMN global_seq;
        ALTER TABLE webhook_replays DROP COLUMN global, DROP COLUMN global_seq, DROP COLUMN until_seq;
        ALTER TABLE aee_bridges DROP COLUMN bus_place;
        DROP FUNCTION mark_logs, mark_jobs, mark_envelope, log_sequence, log_place, job_place, next_of_system, system_at, bus_end;
        DROP TABLE log_unsequenced, log_sequencer, log_order, job_order, aee_bus_order;
        DROP TABLE job_attempts, job_checkpoints;
        DROP INDEX trigger_firings_jobs, trigger_firings_next;
        ALTER TABLE triggers DROP COLUMN job;
        ALTER TABLE trigger_firings DROP COLUMN job, DROP COLUMN job_id, DROP COLUMN job_next_at;
        DROP INDEX job_clock_not_before;
        ALTER TABLE agent_versions DROP COLUMN retry;
        ALTER TABLE jobs DROP COLUMN retry, DROP COLUMN queue_timeout, DROP COLUMN start_at;
        ALTER TABLE job_clock DROP COLUMN failures, DROP COLUMN not_before, DROP COLUMN queue_due_at;
        DROP INDEX webhook_endpoints_of_inbox;
        DROP INDEX assignments_in_time, job_clock_ended, session_frames_by_job, session_follows_by_job, tasks_with_dependencies;
        CREATE INDEX messages_by_xid ON messages (xid);
        CREATE INDEX receipts_by_xid ON receipts (xid);
        CREATE INDEX events_by_xid ON events (xid);
        CREATE INDEX job_events_by_xid ON job_events (xid, job_id, job_seq);
        UPDATE schema_floor SET version = 0;
        DELETE FROM _sqlx_migrations WHERE version >= 20261125221000";
    sqlx::raw_sql(text).execute(pool).await.unwrap();
}

type Entry = (i64, i64, Uuid);

/// Returns the places of all messages, in the order and in the form of the release before.
async fn places(pool: &Pool) -> Vec<Entry> {
    let text = "SELECT xid, seq, intent_id FROM messages ORDER BY xid, intent_id, seq";
    sqlx::query_as(text).fetch_all(pool).await.unwrap()
}

fn former((xid, seq, intent): Entry) -> FormerPosition {
    FormerPosition { xid, seq, intent_id: intent.into() }
}

fn token(entry: Entry) -> String {
    show(ResumeToken::Former(former(entry)))
}

fn opening(start: Entry, shown: Entry) -> String {
    show(ResumeToken::FormerOpening { start: former(start), shown: former(shown) })
}

async fn numbers_in_order(pool: &Pool) -> Vec<u64> {
    let text = "SELECT (payload::json ->> 'n')::bigint FROM messages ORDER BY xid, intent_id, seq";
    let numbers: Vec<i64> = sqlx::query_scalar(text).fetch_all(pool).await.unwrap();
    numbers.into_iter().map(|n| u64::try_from(n).unwrap()).collect()
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|event| event.data["payload"]["n"].as_u64()).collect()
}

const PATH: &str = "/subscribe?event_types=channel_message";

async fn resumed(client: &Client, path: &str, from: &str, count: usize) -> Vec<u64> {
    let mut stream = Sse::resume(client, path, Some(from)).await;
    let events = stream.next_few(count).await;
    stream.silent(Duration::from_millis(60)).await;
    numbers(&events)
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_the_release_before_mean_the_same() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (intent, first) = talk(&ada, json!({})).await;
    let (_, second) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    for n in 0..8 {
        send_number(&ada, if n % 3 == 0 { &second } else { &first }, n).await;
    }
    for other in [&intent] {
        ada.post(&format!("/intents/{other}/agents"), json!({ "agent_id": "agent.bob" })).await.is(200);
    }
    let database = world.database.clone();
    let pool = world.ctx().pool.clone();
    take_back(&pool).await;
    let (places, order) = (places(&pool).await, numbers_in_order(&pool).await);
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    // The fan-out has reached the third message.
    let (xid, seq, log) = places[2];
    let text = "UPDATE webhook_cursor SET xid = $1, seq = $2, intent_id = $3, moved_at = now()";
    sqlx::query(text).bind(xid).bind(seq).bind(log).execute(&pool).await.unwrap();
    migrate::run(&pool).await.unwrap();
    drop(world.server);

    let world = World::on(Setup::live(), database).await;
    let (ada, bob2) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    drop(bob);
    for (at, place) in places.iter().enumerate() {
        assert_eq!(resumed(&ada, PATH, &token(*place), 7 - at).await, order[at + 1..], "after the {at}th");
        // The place between two transactions, which a stream has before its first frame.
        let between = (place.0, 0, Uuid::nil());
        assert_eq!(resumed(&ada, PATH, &token(between), 8 - at).await, order[at..], "before the {at}th");
    }
    // The beginning of an agent's stream, of which nothing was shown, or everything.
    let (xid, seq, log): Entry = sqlx::query_as("SELECT xid, seq, intent_id FROM assignments")
        .fetch_one(&pool_of(&world))
        .await
        .unwrap();
    let start = (xid + 1, 0, Uuid::nil());
    let nothing = opening(start, (0, 0, Uuid::nil()));
    let path = "/subscribe/agents/agent.bob";
    let mut stream = Sse::resume(&bob2, path, Some(&nothing)).await;
    assert_eq!(stream.next().await.name, "agent_assigned");
    stream.silent(Duration::from_millis(60)).await;
    let mut stream = Sse::resume(&bob2, path, Some(&opening(start, (xid, seq, log)))).await;
    stream.silent(Duration::from_millis(60)).await;
    drop(stream);
    // The end, and then on.
    let last = places.last().unwrap();
    let end = (last.0 + 1, 0, Uuid::nil());
    let mut stream = Sse::resume(&ada, PATH, Some(&token(end))).await;
    send_number(&ada, &first, 8).await;
    assert_eq!(numbers(&[stream.next().await]), [8]);
    // A server of the release before, which still runs, gives places of the old form for new messages.
    let places = self::places(&pool_of(&world)).await;
    assert_eq!(resumed(&ada, PATH, &token(places[7]), 1).await, [8]);
    send_number(&ada, &second, 9).await;
    assert_eq!(resumed(&ada, PATH, &token(places[8]), 1).await, [9]);
    let got = receiver.until(7).await;
    let mut told: Vec<u64> =
        got.iter().filter_map(|got| got.body()["data"]["payload"]["n"].as_u64()).collect();
    told.sort_unstable();
    assert_eq!(told, [3, 4, 5, 6, 7, 8, 9], "webhooks go on after the place that they had reached");
    drop(stream);
    world.server.stop().await;
}

fn pool_of(world: &World) -> Pool {
    world.ctx().pool.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_of_the_release_before_skips_nothing_whatever_the_order_of_commits() {
    let world = World::start().await;
    let pool = pool_of(&world);
    let ada = world.agent("agent.ada").await;
    let (_, one) = talk(&ada, json!({})).await;
    let (_, two) = talk(&ada, json!({})).await;
    send_number(&ada, &one, 0).await;
    take_back(&pool).await;
    migrate::run(&pool).await.unwrap();
    // After the migration a later transaction gets its number first.
    send_number(&ada, &one, 1).await;
    send_number(&ada, &two, 2).await;
    sqlx::raw_sql(AssertSqlSafe(
        "UPDATE messages a SET xid = b.xid FROM messages b
         WHERE a.payload::json ->> 'n' IN ('1', '2') AND b.payload::json ->> 'n' IN ('1', '2') AND a.id <> b.id".to_owned(),
    ))
    .execute(&pool)
    .await
    .unwrap();
    let places = places(&pool).await;
    assert_eq!(numbers_in_order(&pool).await, [0, 2, 1]);
    let database = world.database.clone();
    drop(world.server);
    let world = World::on(Setup::live(), database).await;
    let ada = world.agent("agent.ada").await;
    assert_eq!(resumed(&ada, PATH, &token(places[0]), 2).await, [1, 2]);
    // It has read 2 and not 1, which comes first now: 2 comes again, nothing is lost.
    assert_eq!(resumed(&ada, PATH, &token(places[1]), 2).await, [1, 2]);
    assert!(resumed(&ada, PATH, &token(places[2]), 0).await.is_empty());
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_among_jobs_and_buses_mean_the_same() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let admin = world.admin().await;
    let (_, channel) = talk(&admin, json!({})).await;
    let mirror = json!({ "kind": "mirror", "bus": "bus.ops", "channel_id": channel });
    admin.put("/aee/bridges/bus", mirror).await.ok();
    let hand = Hand::of(&world.any(), "echo@1").await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let job = hand.one().await;
    for n in 0..4 {
        hand.events(&job, json!([{ "kind": "log", "body": { "n": n } }])).await.ok();
    }
    for n in 0..4 {
        let sent = task_envelope(&world, &format!("envelope-{n}"), ("agent.client", "bus.ops"));
        client.post("/aee/envelopes", with(sent, json!({ "type": "event" }))).await.is(202);
    }
    let pool = pool_of(&world);
    take_back(&pool).await;
    let text = "SELECT xid, job_seq, job_id FROM job_events ORDER BY xid, job_id, job_seq";
    let places: Vec<Entry> = sqlx::query_as(text).fetch_all(&pool).await.unwrap();
    // The bridge has carried the second envelope last.
    let text = "UPDATE aee_bridges SET (place, place_id) = (SELECT xid, id FROM aee_envelopes WHERE id = 'envelope-1')";
    sqlx::raw_sql(text).execute(&pool).await.unwrap();
    migrate::run(&pool).await.unwrap();
    let database = world.database.clone();
    drop(world.server);

    let world = World::on(Setup::default(), database).await;
    let client = world.agent("agent.client").await;
    let sse = client.with("accept", "text/event-stream");
    for (at, (xid, seq, job)) in places.iter().enumerate() {
        let token = format!("{xid}.{seq}.{}", JobId::from(*job));
        let mut stream = Sse::resume(&sse, "/jobs/events", Some(&token)).await;
        for (event, (_, seq, _)) in stream.next_few(places.len() - at - 1).await.iter().zip(&places[at + 1..])
        {
            assert_eq!(event.data["event_seq"], *seq, "after {token}");
        }
        stream.silent(Duration::from_millis(60)).await;
    }
    world.carry().await;
    let carried = client.get(&format!("/channels/{channel}/messages")).await.ok();
    let ids: Vec<&Value> =
        carried.as_array().unwrap().iter().map(|one| &one["metadata"]["envelope_id"]).collect();
    assert_eq!(ids, [&json!("envelope-2"), &json!("envelope-3")], "the bridge goes on after its place");
    world.server.stop().await;
}
