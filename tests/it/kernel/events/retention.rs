//! Events after `ENTENTE_EVENT_RETENTION_DAYS` (docs/adr/0019-events-leave-their-hashes.md): the oldest of a log go once an
//! old checkpoint covers them, unless something still reads them. Their hashes stay, and every proof holds as before.

use std::time::Duration;

use entente::background::sweeps::{Sweep, prune};
use entente_bridges::Ctx;
use entente_bridges::retention::expired;
use entente_domain::bundles::Section;
use entente_domain::ids::IntentId;
use sqlx::{AssertSqlSafe, query_scalar, raw_sql};

use entente_harness::{
    BundleFile, Client, Receiver, Setup, Sse, Value, World, json, send_number, subscribe, talk,
};

/// A second more than the retention in these tests.
const PAST: i64 = 24 * 3_600 + 1;

async fn keeps_for_a_day() -> World {
    World::with(Setup { settings: vec![("ENTENTE_EVENT_RETENTION_DAYS", "1")], live: false }).await
}

/// Creates an intent whose log has six events, three of which change it; returns its path.
async fn six(ada: &Client) -> String {
    let id = ada.post("/intents", json!({ "title": "t", "state": { "n": 1 } })).await.ok();
    let path = format!("/intents/{}", id["id"].as_str().unwrap());
    for version in [1, 2] {
        let patch = json!({ "patches": [{ "op": "append", "path": "seen", "value": version }] });
        ada.seen(&json!(version)).post(&format!("{path}/state"), patch).await.ok();
    }
    note(ada, &path, 3).await;
    path
}

async fn note(ada: &Client, path: &str, count: usize) {
    for n in 0..count {
        let note = json!({ "event_type": "note", "payload": { "n": n } });
        ada.post(&format!("{path}/events"), note).await.ok();
    }
}

fn uuid(path: &str) -> uuid::Uuid {
    path.rsplit('/').next().unwrap().parse::<IntentId>().unwrap().uuid()
}

async fn checkpoint(admin: &Client, path: &str) -> String {
    let made =
        admin.post("/admin/checkpoints", json!({ "intent_id": path.rsplit('/').next() })).await.is(201);
    made["checkpoint_id"].as_str().unwrap().to_owned()
}

async fn forget(world: &World) -> u64 {
    Sweep::OldEvents.run(world.ctx()).await.unwrap()
}

async fn run(world: &World, sql: &str) {
    let done = raw_sql(AssertSqlSafe(sql.to_owned())).execute(&world.ctx().pool).await;
    done.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

async fn count(world: &World, sql: &str) -> i64 {
    query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&world.ctx().pool).await.unwrap()
}

fn sequences(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|event| event["sequence"].as_i64().unwrap()).collect()
}

/// Returns a verifier's report on a file that trusts the server's key only.
async fn verified(world: &World, file: &BundleFile) -> (bool, usize, usize) {
    let report = file.report_of(world).await;
    (report.is_clean(), report.log.deleted_count, report.log.event_count)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_and_their_proofs_stay() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    let first = checkpoint(&admin, &path).await;
    note(&ada, &path, 2).await;
    let events = ada.get(&format!("{path}/events")).await.ok();
    let mut proofs = Vec::new();
    for event in events.as_array().unwrap().iter().skip(2) {
        let proof = format!("/checkpoints/{first}/proof/{}", event["id"].as_str().unwrap());
        proofs.push((ada.get(&proof).await.ok(), proof));
    }
    assert_eq!(proofs.len(), 6);
    assert_eq!(forget(&world).await, 0, "they are young");
    world.clock.advance(PAST);
    assert_eq!(forget(&world).await, 6);
    assert_eq!(forget(&world).await, 0, "nothing covers the rest");
    // A reader in the middle of the list, whose first page was read before.
    let page = ada.get(&format!("{path}/events?offset=3")).await;
    assert_eq!((page.json(), page.header("entente-deleted-events")), (json!([]), "6"));

    let page = ada.get(&format!("{path}/events")).await;
    assert_eq!((sequences(&page.json()), page.header("entente-deleted-events")), (vec![8, 7], "6"));
    let page = ada.get(&format!("{path}/events?limit=2")).await;
    assert!(page.headers.get("entente-deleted-events").is_none(), "not at the end of the list");
    for (proof, path) in &proofs {
        assert_eq!(ada.get(path).await.ok(), *proof);
    }
    let found = ada.get(&format!("{path}/events/verify")).await.ok();
    assert_eq!(
        (&found["valid"], &found["deleted_count"], &found["event_count"]),
        (&json!(true), &json!(6), &json!(2))
    );
    assert_eq!((&found["first_sequence"], &found["checkpoint_count"]), (&json!(7), &json!(1)));

    let last = checkpoint(&admin, &path).await;
    let compare = format!("/verify/consistency?from_checkpoint={first}&to_checkpoint={last}");
    let compared = ada.get(&compare).await.ok();
    assert_eq!(compared["consistent"], true, "{compared}");
    assert_eq!(compared["boundary_event"]["event_id"], events[2]["id"]);
    let file = BundleFile::of(&ada, &path).await;
    let header = file.header();
    assert_eq!((&header["event_count"], &header["deleted"]["event_count"]), (&json!(8), &json!(6)));
    assert_eq!(verified(&world, &file).await, (true, 6, 2));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_hashes_and_events_are_found_after_the_deletion() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    checkpoint(&admin, &path).await;
    note(&ada, &path, 2).await;
    world.clock.advance(PAST);
    assert_eq!(forget(&world).await, 6);
    let honest = BundleFile::of(&ada, &path).await;
    let valid = async || ada.get(&format!("{path}/events/verify")).await.ok()["valid"].clone();
    for table in ["events", "event_leaves", "checkpoints"] {
        run(&world, &format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
    for (table, change) in [
        ("event_leaves", "UPDATE event_leaves SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1)"),
        ("event_leaves", "UPDATE event_leaves SET hashes = substr(hashes, 33), ids = substr(ids, 17)"),
        ("event_leaves", "UPDATE event_leaves SET hashes = substr(hashes, 33)"),
        ("event_leaves", "DELETE FROM event_leaves"),
        ("events", "UPDATE events SET actor = 'agent.eve' WHERE sequence = 8"),
        ("events", "DELETE FROM events WHERE sequence = 7"),
        ("checkpoints", "DELETE FROM checkpoints"),
    ] {
        run(&world, change).await;
        assert_eq!(valid().await, false, "{change}");
        run(&world, &format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}")).await;
        assert_eq!(valid().await, true);
    }
    // A forger who seals everything anew, for a reader who does not know the server's key.
    assert!(honest.forged(|_| ()).report().is_clean());
    let hash = honest.bodies(Section::Deleted)[0]["event_hashes"][1].clone();
    for (section, member, value) in [
        (Section::Deleted, "/event_hashes/2", hash),
        (Section::Bundle, "/deleted/intent/title", json!("u")),
        (Section::Bundle, "/deleted/event_count", json!(5)),
        (Section::Event, "/actor", json!("agent.eve")),
    ] {
        let forged = honest.forged(|lines| {
            let line = lines.iter_mut().find(|line| line.0 == section).unwrap();
            let mut body = Value::Object(line.1.clone());
            *body.pointer_mut(member).unwrap() = value;
            line.1 = body.as_object().unwrap().clone();
        });
        assert!(!forged.report().is_clean(), "{member}");
    }
    for section in [Section::Deleted, Section::Checkpoint, Section::Event] {
        let forged = honest.forged(|lines| lines.retain(|line| line.0 != section));
        assert!(!forged.report().is_clean(), "{section:?}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_intent_goes_on_after_its_events_are_gone() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    checkpoint(&admin, &path).await;
    world.clock.advance(PAST);
    assert_eq!(forget(&world).await, 5, "the last one stays: the next follows it");
    // The state before a change is what the deleted events made.
    let patch = json!({ "patches": [{ "op": "append", "path": "seen", "value": 3 }] });
    ada.seen(&json!(3)).post(&format!("{path}/state"), patch).await.ok();
    let mut stream = Sse::resume(&ada, &format!("{path}/subscribe"), Some("0")).await;
    assert_eq!(stream.headers["entente-deleted-until"], "5");
    let said = stream.next_few(2).await;
    assert_eq!((said[0].name.as_str(), said[1].name.as_str()), ("note", "STATE_CHANGED"));
    assert_eq!(said[1].data["old_state"], json!({ "n": 1, "seen": [1, 2] }));
    assert_eq!(said[1].data["new_state"], json!({ "n": 1, "seen": [1, 2, 3] }));
    let file = BundleFile::of(&ada, &path).await;
    assert_eq!(verified(&world, &file).await, (true, 5, 2));
    // In steps, on the hashes that are there.
    checkpoint(&admin, &path).await;
    note(&ada, &path, 1).await;
    world.clock.advance(PAST);
    assert_eq!(forget(&world).await, 2);
    let file = BundleFile::of(&ada, &path).await;
    assert_eq!(verified(&world, &file).await, (true, 7, 1));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_resumes_before_deleted_events_is_told() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    checkpoint(&admin, &path).await;
    world.clock.advance(PAST);
    assert_eq!(forget(&world).await, 5);
    note(&ada, &path, 1).await;
    let of_intent = format!("{path}/subscribe");
    for (path, old) in [(of_intent.as_str(), "3"), ("/subscribe", "0.0"), ("/subscribe", "1.0")] {
        let mut stream = Sse::resume(&ada, path, Some(old)).await;
        assert!(stream.headers.contains_key("entente-deleted-until"), "{path} after {old}");
        let said = stream.next_few(2).await;
        assert!(said.iter().all(|event| event.name == "note"), "{said:?}");
        stream.silent(Duration::from_millis(20)).await;
        let stream = Sse::resume(&ada, path, Some(&said[0].id)).await;
        assert!(!stream.headers.contains_key("entente-deleted-until"), "{path}: nothing is missing after it");
        let stream = Sse::open(&ada, path).await;
        assert!(!stream.headers.contains_key("entente-deleted-until"), "{path}: it begins now");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_stay_while_something_reads_them() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    checkpoint(&admin, &path).await;
    note(&ada, &path, 1).await;
    world.clock.advance(PAST);
    let log = format!("'{}'::uuid", uuid(&path));
    let holds = [
        ("UPDATE webhook_cursor SET global = 0, global_seq = 0".to_owned(), "UPDATE webhook_cursor SET global = NULL, global_seq = NULL"),
        ("UPDATE trigger_cursor SET global = 0, global_seq = 0".to_owned(), "UPDATE trigger_cursor SET global = NULL, global_seq = NULL"),
        ("INSERT INTO webhook_replays (endpoint_id, since) VALUES (gen_random_uuid(), now())".to_owned(), "DELETE FROM webhook_replays"),
        (
            format!(
                "INSERT INTO webhook_bodies (webhook_id, type, body, intent_id, seq, created_at) VALUES ('evt_1', 'note', '{{}}', {log}, 1, now());
                 INSERT INTO webhook_deliveries (endpoint_id, webhook_id, next_attempt_at, created_at) VALUES (gen_random_uuid(), 'evt_1', now(), now())"
            ),
            "DELETE FROM webhook_deliveries; DELETE FROM webhook_bodies",
        ),
        (
            format!(
                "INSERT INTO trigger_firings (id, trigger_id, cause, cause_key, status, source_intent, source_seq, created_at)
                 VALUES (gen_random_uuid(), gen_random_uuid(), 'event', 'e', 'waiting', {log}, 1, now())"
            ),
            "DELETE FROM trigger_firings",
        ),
        (
            format!(
                "INSERT INTO federation_deliveries (peer, dispatch_id, fingerprint, local_intent_id, message, reported_seq, callbacks, created_at, told_at)
                 VALUES ('p', 'd', '', {log}, '', 0, 0, now(), now())"
            ),
            "DELETE FROM federation_deliveries",
        ),
        (
            format!(
                "INSERT INTO assignments (id, intent_id, agent_id, role, assigned_by, seq, assigned_at)
                 VALUES (gen_random_uuid(), {log}, 'agent.bob', 'worker', 'agent.ada', 1, now())"
            ),
            "UPDATE intents SET status = 'completed'",
        ),
    ];
    for (hold, release) in holds {
        run(&world, &hold).await;
        assert_eq!(forget(&world).await, 0, "deleted in spite of {hold}");
        run(&world, release).await;
    }
    run(&world, "UPDATE intents SET status = 'draft'; DELETE FROM assignments").await;
    // A reader in the middle of the log holds back what it has not read.
    run(&world, &format!("UPDATE webhook_cursor SET global_seq = 3, global = (SELECT global FROM log_order WHERE intent_id = {log} AND to_seq >= 3 ORDER BY to_seq LIMIT 1)")).await;
    let some = forget(&world).await;
    assert!(some <= 3, "{some} are gone");
    run(&world, "UPDATE webhook_cursor SET global = NULL, global_seq = NULL").await;
    assert_eq!(some + forget(&world).await, 6);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_from_a_damaged_log() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let (path, other) = (six(&ada).await, six(&ada).await);
    for path in [&path, &other] {
        checkpoint(&admin, path).await;
    }
    world.clock.advance(PAST);
    let change = |actor: &str| {
        format!("UPDATE events SET actor = '{actor}' WHERE sequence = 6 AND intent_id = '{}'", uuid(&path))
    };
    run(&world, &change("agent.eve")).await;
    assert_eq!(forget(&world).await, 5, "the other log is whole");
    assert_eq!(sequences(&ada.get(&format!("{path}/events")).await.ok()), [6, 5, 4, 3, 2, 1]);
    run(&world, &change("agent.ada")).await;
    assert_eq!(forget(&world).await, 5);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_fails_has_done_nothing() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    checkpoint(&admin, &path).await;
    world.clock.advance(PAST);
    let fails = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;";
    run(&world, fails).await;
    for (table, verb) in
        [("event_leaves", "INSERT"), ("log_floors", "INSERT"), ("log_floors", "UPDATE"), ("events", "DELETE")]
    {
        let made =
            format!("CREATE TRIGGER fails AFTER {verb} ON {table} FOR EACH ROW EXECUTE FUNCTION fail()");
        run(&world, &made).await;
        Sweep::OldEvents.run(world.ctx()).await.unwrap_err();
        run(&world, &format!("DROP TRIGGER fails ON {table}")).await;
        for table in ["event_leaves", "log_floors"] {
            assert_eq!(count(&world, &format!("SELECT count(*) FROM {table}")).await, 0, "{verb} of {table}");
        }
        assert_eq!(ada.get(&format!("{path}/events")).await.ok().as_array().unwrap().len(), 6);
    }
    assert_eq!(forget(&world).await, 5);
    world.end().await;
}

/// Two servers delete one event after the other, while everything that reads whole logs goes on.
#[tokio::test(flavor = "multi_thread")]
async fn readers_see_a_whole_log_while_two_servers_delete_it() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    note(&ada, &path, 24).await;
    let first = checkpoint(&admin, &path).await;
    note(&ada, &path, 1).await;
    let last = checkpoint(&admin, &path).await;
    let events = ada.get(&format!("{path}/events")).await.ok();
    let proof = format!("/checkpoints/{first}/proof/{}", events[15]["id"].as_str().unwrap());
    let proved = ada.get(&proof).await.ok();
    world.clock.advance(PAST);
    let other = World::on(
        Setup { settings: vec![("ENTENTE_EVENT_RETENTION_DAYS", "1")], live: false },
        world.database.clone(),
    )
    .await;
    other.clock.advance(PAST);
    // Both delete during every round of reads, and not between rounds: the speed of either decides nothing.
    let delete = async |ctx: &Ctx| {
        let mut deleted = 0;
        for _ in 0..3 {
            deleted += Sweep::OldEvents.step(ctx, 1).await.unwrap();
        }
        deleted
    };
    let (mut total, mut ended) = (0, false);
    let mut seen = std::collections::BTreeSet::new();
    while !ended {
        let reads = async {
            let found = ada.get(&format!("{path}/events/verify")).await.ok();
            assert_eq!(found["valid"], true, "{found}");
            seen.insert(found["deleted_count"].as_i64().unwrap_or(0));
            let file = BundleFile::of(&ada, &path).await;
            assert!(verified(&world, &file).await.0, "{}", file.0);
            assert_eq!(ada.get(&proof).await.ok(), proved);
            let compare = format!("/verify/consistency?from_checkpoint={first}&to_checkpoint={last}");
            assert_eq!(ada.get(&compare).await.ok()["consistent"], true);
            let mut stream = Sse::resume(&ada, &format!("{path}/subscribe"), Some("0")).await;
            stream.next().await;
        };
        let (here, there, ()) = tokio::join!(delete(world.ctx()), delete(other.ctx()), reads);
        total += here + there;
        ended = here + there == 0;
    }
    assert_eq!(total, 30, "each event but the last one went once");
    assert!(seen.len() > 2, "it was read in between: {seen:?}");
    other.server.stop().await;
    world.end().await;
}

/// With a retention, logs get their checkpoints by themselves, the system log too, so every log is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn every_log_is_bounded_without_anybodys_doing() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    world.sweep().await;
    assert_eq!(count(&world, "SELECT count(*) FROM checkpoints").await, 0, "the logs are young");
    for _ in 0..3 {
        world.clock.advance(PAST);
        world.sweep().await;
    }
    assert_eq!(sequences(&ada.get(&format!("{path}/events")).await.ok()), [6]);
    let house = admin.get("/audit").await;
    assert!(sequences(&house.json()).len() <= 4, "{}", house.text);
    assert!(house.header("entente-deleted-events").parse::<i64>().unwrap() > 0);
    let found = admin.get("/audit/verify").await.ok();
    assert_eq!(found["valid"], true, "{found}");
    let before = count(&world, "SELECT count(*) FROM checkpoints").await;
    for _ in 0..3 {
        world.clock.advance(PAST);
        world.sweep().await;
    }
    assert_eq!(count(&world, "SELECT count(*) FROM checkpoints").await, before, "an idle server takes none");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_without_entries_are_deleted_and_old_places_still_lead_on() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({})).await;
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 1 } })).await;
    let path = format!("/intents/{intent}");
    for n in 0..3 {
        note(&ada, &path, 1).await;
        // A part of the log for each.
        Sse::open(&ada, "/subscribe").await;
        send_number(&ada, &channel, n).await;
        Sse::open(&ada, "/subscribe").await;
    }
    world.hooks().await;
    checkpoint(&admin, &path).await;
    let numbers = "SELECT count(*) FROM log_order";
    let last = "SELECT max(global) FROM log_order";
    let (before, end) = (count(&world, numbers).await, count(&world, last).await);
    // Until the event by which the receiver knows where it begins is gone, too.
    for _ in 0..3 {
        world.clock.advance(PAST);
        world.sweep().await;
        world.hooks().await;
    }
    let begun = "SELECT count(*) FROM webhook_endpoints w JOIN events e ON e.seq = w.hears_from
                 WHERE e.intent_id = '00000000-0000-0000-0000-000000000000'";
    assert_eq!(count(&world, begun).await, 0);
    let after = count(&world, numbers).await;
    assert!(after < before, "{after} of {before} are left");
    let last = count(&world, last).await;
    assert!(last >= end, "the last one stays");
    let heard = "SELECT count(*) FROM webhook_endpoints w JOIN log_order o
                 ON o.intent_id = '00000000-0000-0000-0000-000000000000' AND w.hears_from BETWEEN o.from_seq AND o.to_seq";
    assert_eq!(count(&world, heard).await, 1, "the receiver begins there");
    // Each old place leads to what is left after it.
    let left = "SELECT count(*) FROM (SELECT seq FROM messages UNION ALL SELECT seq FROM events
                WHERE intent_id <> '00000000-0000-0000-0000-000000000000') e";
    let left = usize::try_from(count(&world, left).await).unwrap();
    let places = async |from: i64, many: usize| {
        let mut stream = Sse::resume(&ada, "/subscribe", Some(&format!("{from}.0"))).await;
        let said = stream.next_few(many).await;
        stream.silent(Duration::from_millis(20)).await;
        said.iter().map(|event| event.id.split_once('.').unwrap().0.parse().unwrap()).collect::<Vec<i64>>()
    };
    let all = places(0, left).await;
    assert!(left > 0 && all.is_sorted(), "{all:?}");
    for from in 1..=last {
        let rest: Vec<i64> = all.iter().copied().filter(|global| *global >= from).collect();
        assert_eq!(places(from, rest.len()).await, rest, "after {from}");
    }
    // The log goes on behind its last number, and a server that looks up where the receiver begins tells it.
    note(&ada, &path, 1).await;
    let told = receiver.count();
    let other = World::on(Setup::default(), world.database.clone()).await;
    other.clock.advance(3 * PAST);
    other.hooks().await;
    assert_eq!(receiver.count(), told + 1);
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_counts_and_deletes_the_same() {
    let world = keeps_for_a_day().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    for _ in 0..2 {
        let path = six(&ada).await;
        checkpoint(&admin, &path).await;
    }
    world.clock.advance(PAST);
    let expired = async |noun: &str| {
        let found = expired(world.ctx()).await.unwrap();
        found.iter().find(|one| one.noun == noun).unwrap().count
    };
    assert_eq!(expired("events under a checkpoint").await, 10);
    let mut totals = Vec::new();
    prune(world.ctx(), |sweep, total| totals.push((sweep, total))).await.unwrap();
    assert!(totals.contains(&(Sweep::OldEvents, 10)), "{totals:?}");
    for noun in ["events under a checkpoint", "numbers of deleted records"] {
        assert_eq!(expired(noun).await, 0, "{noun}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_retention_events_are_kept_for_ever() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let path = six(&ada).await;
    checkpoint(&admin, &path).await;
    world.clock.advance(3_650 * PAST);
    assert_eq!(forget(&world).await, 0);
    world.end().await;
}
