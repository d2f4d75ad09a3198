//! AEE envelopes: tasks, replies, signatures and mailboxes.

use entente_domain::aee::envelopes::signing::{Scope, SigningKey, encode, input, sign};
use entente_domain::clock::rfc3339;

use crate::identities::key;
use crate::{Client, Value, World, json};

/// Makes the transaction that ingests the task `envelope-poison` fail, after everything else was written.
pub async fn trap(world: &World) {
    let trap = "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
        CREATE TRIGGER trap BEFORE INSERT ON aee_pairs FOR EACH ROW WHEN (new.task_id = 'envelope-poison')
        EXECUTE FUNCTION trap();";
    sqlx::raw_sql(trap).execute(&world.ctx().pool).await.unwrap();
}

/// Returns a task that is valid now.
pub fn task_envelope(world: &World, id: &str, (from, to): (&str, &str)) -> Value {
    json!({
        "v": "1", "id": id, "ts": rfc3339(world.ctx().now()), "type": "task", "from": from, "to": to,
        "intent": "ops.backup.check", "corr": "thread-00000001", "reply_to": null, "priority": "normal", "payload": { "n": 1 },
    })
}

/// Returns the envelope with these members replaced.
#[expect(clippy::needless_pass_by_value, reason = "`json!` makes one at each call")]
pub fn with(mut envelope: Value, more: Value) -> Value {
    envelope.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    envelope
}

/// Returns the reply to a task.
pub fn answer(world: &World, id: &str, task: &Value, kind: &str) -> Value {
    let (from, to) = (task["to"].as_str().unwrap(), task["from"].as_str().unwrap());
    let more = json!({ "type": kind, "reply_to": task["id"], "corr": task["corr"] });
    with(task_envelope(world, id, (from, to)), more)
}

/// Returns the contents of a mailbox as `(seq, envelope)`.
pub async fn mail(client: &Client, entity: &str) -> Vec<(i64, Value)> {
    let page = client.get(&format!("/aee/mailboxes/{entity}")).await.ok();
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| (item["seq"].as_i64().unwrap(), item["envelope"].clone())).collect()
}

/// Starts a server with two agents.
pub async fn two() -> (World, Client, Client) {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    (world, ada, bob)
}

/// Returns the envelope, signed.
pub fn signed(letter: Value, n: u8) -> Value {
    let Value::Object(mut members) = letter else { panic!("{letter} is no envelope") };
    sign(&mut members, "one", &SigningKey::Ed25519(Box::new(key(n)))).unwrap();
    Value::Object(members)
}

/// Returns the envelope with only the ten members of §8 signed.
pub fn core_signed(letter: Value, n: u8) -> Value {
    let Value::Object(mut members) = letter else { panic!("{letter} is no envelope") };
    let value = encode(&key(n).sign(input(&members, Scope::Core).unwrap()).to_bytes());
    let sig =
        json!({ "alg": "ed25519", "kid": "one", "value": value, "profile": "aee-jcs-1", "scope": "core" });
    members.insert("sig".to_owned(), sig);
    Value::Object(members)
}
