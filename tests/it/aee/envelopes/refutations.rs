//! Refutations (`aee.context.refute`, AEE §9.2): stored, shown in the thread and sent to the envelope's sender
//! exactly when the refuting task was accepted.

use super::{mail, task_envelope, two, with};
use entente_harness::{Client, Value, World, json};

const REFUTED: &str = "entente.context.refuted";

/// Returns a task to the server that refutes an envelope.
fn refute(world: &World, id: &str, (of, reason): (&str, &str)) -> Value {
    let more = json!({ "intent": "aee.context.refute", "payload": { "id": of, "reason": reason }, "corr": "thread-refutes" });
    with(task_envelope(world, id, ("agent.bob", "service.entente")), more)
}

/// Returns the thread's refutations as `(envelope, entity, reason)`.
async fn shown(client: &Client) -> Vec<(String, String, String)> {
    let thread = client.get("/aee/threads/thread-00000001").await.ok();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let leaves = thread["envelopes"].as_array().unwrap().iter();
    leaves
        .flat_map(|leaf| {
            let each = leaf["refutations"].as_array().unwrap().iter();
            each.map(|one| (text(&leaf["envelope"]["id"]), text(&one["entity"]), text(&one["reason"])))
        })
        .collect()
}

fn row(of: &str, reason: &str) -> (String, String, String) {
    (of.to_owned(), "agent.bob".to_owned(), reason.to_owned())
}

/// Returns the reasons of the refutations in an entity's mailbox.
async fn heard(client: &Client, entity: &str) -> Vec<Value> {
    let all = mail(client, entity).await.into_iter();
    all.filter(|(_, one)| one["intent"] == REFUTED).map(|(_, one)| one["payload"]["reason"].clone()).collect()
}

#[tokio::test]
async fn a_refutation_is_kept_and_its_sender_hears_of_it() {
    let (world, ada, bob) = two().await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    assert_eq!(shown(&ada).await, []);
    world.clock.advance(1);
    bob.post("/aee/envelopes", refute(&world, "envelope-2", ("envelope-1", "it is not so"))).await.is(200);
    let told = ada.get("/aee/threads/thread-00000001").await.ok();
    let expected =
        json!([{ "entity": "agent.bob", "reason": "it is not so", "at": "2026-11-21T08:00:01.000000Z" }]);
    let leaves = told["envelopes"].as_array().unwrap();
    assert_eq!(leaves[0]["refutations"], expected, "{told}");
    assert_eq!(leaves[1]["refutations"], json!([]), "the notice itself is rejected by nobody");
    // A second refutation by the same entity replaces the first.
    world.clock.advance(5);
    bob.post("/aee/envelopes", refute(&world, "envelope-3", ("envelope-1", "it never was"))).await.is(200);
    assert_eq!(shown(&bob).await, [row("envelope-1", "it never was")]);
    assert_eq!(heard(&ada, "agent.ada").await, ["it is not so", "it never was"]);
    // A refutation is purged together with its envelope.
    world.pass(31 * 86_400).await;
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM aee_refutations")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
    world.end().await;
}

#[tokio::test]
async fn a_task_that_is_refused_rejects_nothing() {
    let (world, ada, bob) = two().await;
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", task_envelope(&world, id, ("agent.ada", "agent.bob"))).await.is(202);
    }
    bob.post("/aee/envelopes", refute(&world, "envelope-3", ("envelope-1", "it is not so"))).await.is(200);
    // With the id of an earlier envelope.
    for of in ["envelope-1", "envelope-2"] {
        let again = refute(&world, "envelope-3", (of, "I have changed my mind"));
        bob.post("/aee/envelopes", again).await.refused(409, "duplicate_id");
    }
    assert_eq!(shown(&ada).await, [row("envelope-1", "it is not so")]);
    assert_eq!(heard(&ada, "agent.ada").await, ["it is not so"]);
    // With an id that occurs twice in a batch, a refused task has no effects either.
    let twice = |id: &str| refute(&world, id, ("envelope-2", "nor is this"));
    let batch = json!([twice("envelope-4"), twice("envelope-5"), twice("envelope-5"), twice("envelope-5")]);
    assert_eq!(bob.post("/aee/envelopes/batch", batch).await.is(207)["accepted"], 2);
    assert_eq!(heard(&ada, "agent.ada").await, ["it is not so", "nor is this", "nor is this"]);
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM aee_envelopes WHERE reply_to = 'envelope-5'")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(kept, 1, "one answer");
    world.end().await;
}

#[tokio::test]
async fn when_a_batch_is_done_one_by_one_no_refutation_is_lost_and_none_is_too_much() {
    let (world, ada, bob) = two().await;
    for n in 1..=9 {
        let id = format!("envelope-{n}");
        ada.post("/aee/envelopes", task_envelope(&world, &id, ("agent.ada", "agent.bob"))).await.is(202);
    }
    // The fifth insert fails, and with it its batch.
    let trap = "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
        CREATE TRIGGER trap BEFORE INSERT ON aee_refutations FOR EACH ROW WHEN (new.reason = 'poison')
        EXECUTE FUNCTION trap();";
    sqlx::raw_sql(trap).execute(&world.ctx().pool).await.unwrap();
    let reason = |n: usize| if n == 5 { "poison".to_owned() } else { format!("reason {n}") };
    let tasks: Vec<Value> = (1..=9)
        .map(|n| refute(&world, &format!("refutes-{n}"), (&format!("envelope-{n}"), &reason(n))))
        .collect();
    let reply = bob.post("/aee/envelopes/batch", json!(tasks)).await.is(207);
    assert_eq!((&reply["accepted"], &reply["refused"]), (&json!(8), &json!(1)), "{reply}");
    assert!(reply["results"][4]["error"].is_object());
    let others: Vec<usize> = (1..=9).filter(|n| *n != 5).collect();
    let rows: Vec<_> = others.iter().map(|n| row(&format!("envelope-{n}"), &reason(*n))).collect();
    assert_eq!(shown(&ada).await, rows);
    let reasons: Vec<Value> = others.iter().map(|n| json!(reason(*n))).collect();
    assert_eq!(heard(&ada, "agent.ada").await, reasons);
    bob.get("/aee/envelopes/refutes-5").await.refused(404, "not_found");
    // A retry of all of them has no effect.
    let again = bob.post("/aee/envelopes/batch", json!(tasks)).await.is(207);
    assert_eq!(again["accepted"], 0, "{again}");
    assert_eq!(heard(&ada, "agent.ada").await, reasons);
    world.end().await;
}
