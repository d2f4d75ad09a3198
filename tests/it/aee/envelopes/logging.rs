//! The server's log of envelopes (AEE §6.8, §11.4): one line with seven members for each envelope that was accepted
//! or refused, and nothing of its content.

use std::time::Instant;

use entente_domain::clock::rfc3339;

use super::{mail, with};
use entente_harness::desk::PATIENCE;
use entente_harness::process::{KEY, Launch, Place, key_of};
use entente_harness::{Client, Cluster, Value, json};

/// Marker in every text that must not appear in a log.
const SECRET: &str = "hush-7f3a9c";

/// The logged members (AEE §6.8).
const SEVEN: [&str; 7] = ["id", "corr", "intent", "from", "to", "type", "priority"];

/// Returns a task with the marker in everything but the seven members.
fn task(id: &str, more: Value) -> Value {
    let task = json!({
        "v": "1", "id": id, "ts": rfc3339(chrono::Utc::now()), "type": "task", "from": "agent.ada", "to": "agent.bob",
        "intent": "ops.backup.check", "corr": "thread-00000001", "reply_to": null, "priority": "high",
        "trace": { "trace_id": format!("{SECRET}-trace"), "span_id": "a1" },
        "requires": { "note": format!("{SECRET}-requires") },
        "subject": format!("{SECRET}-subject"), format!("{SECRET}-member"): 1,
        "payload": { "token": format!("{SECRET}-payload"), format!("{SECRET}-name"): [{ "deep": format!("{SECRET}-deep") }] },
    });
    with(task, more)
}

/// Returns the server's log lines about envelopes.
fn lines(place: &Place) -> Vec<Value> {
    let all = place.log();
    let all =
        all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    all.filter(|line| line["target"] == "entente::aee").collect()
}

/// Waits until a reply to `id` is in a mailbox and returns its code.
async fn until(client: &Client, entity: &str, id: &str) -> Value {
    let began = Instant::now();
    loop {
        let found = mail(client, entity).await.into_iter().find(|(_, one)| one["reply_to"] == id);
        if let Some((_, found)) = found {
            return found["payload"]["code"].clone();
        }
        assert!(began.elapsed() < PATIENCE, "nothing came back of {id}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Sends accepted and refused envelopes of all kinds, some of which cause replies; returns a secret that the server
/// generated.
async fn story(ada: &Client, bob: &Client, eve: &Client) -> String {
    let hidden =
        ada.with("x-note", &format!("{SECRET}-header")).with("user-agent", &format!("{SECRET}-agent"));
    let key = json!({ "kid": "one", "algorithm": "HS256" });
    let made = ada.post("/aee/keys", key).await.is(201)["secret"].as_str().unwrap().to_owned();
    hidden.post("/aee/envelopes", task("envelope-1", json!({}))).await.is(202);
    let ends = json!({ "type": "result", "from": "agent.bob", "to": "agent.ada", "reply_to": "envelope-1" });
    bob.post("/aee/envelopes", task("envelope-r", ends)).await.is(202);
    let schema = json!({ "properties": { "token": { "type": "integer" } }, "additionalProperties": false });
    ada.put("/aee/schemas/intents/ops.strict.task.schema.json", schema).await.ok();
    ada.post("/aee/envelopes", task("envelope-2", json!({ "intent": "ops.strict" }))).await.is(202);
    let sig = |value: &str| json!({ "alg": "HS256", "kid": "one", "value": value, "profile": "aee-jcs-1" });
    let refused = [
        task("envelope-1", json!({})),
        task("envelope-3", json!({ "to": "agent.nobody" })),
        task("envelope-4", json!({ "from": "agent.bob" })),
        task("envelope-5", json!({ "payload": format!("{SECRET}-text") })),
        task("envelope-6", json!({ "v": format!("{SECRET}-version"), "sig": [format!("{SECRET}-list")] })),
        task("envelope-7", json!({ "sig": format!("{SECRET}-sig") })),
        task("envelope-8", json!({ "sig": sig(&made) })),
        task("envelope-9", json!({ "intent": "aee.context.fetch", "to": "bus.nobody" })),
        // Senders that forge log lines, or send very long values.
        task(
            "envelope-10",
            json!({ "intent": "ops.x\n{\"target\":\"entente::aee\",\"forged\":true}\u{1b}[31m" }),
        ),
        task("envelope-11", json!({ "corr": format!("thread-{}", "x".repeat(5_000)) })),
    ];
    for envelope in refused {
        let reply = hidden.post("/aee/envelopes", envelope).await;
        assert!((400..500).contains(&reply.status), "{}", reply.text);
    }
    let twice = format!("{{\"{SECRET}-twice\":1,\"{SECRET}-twice\":2,\"id\":\"{SECRET}-unread\"}}");
    for broken in [twice, format!("{SECRET}-broken"), format!("{{\"{SECRET}-cut")] {
        let reply = hidden.send("POST", "/aee/envelopes", Some(broken)).await;
        assert!((400..500).contains(&reply.status), "{}", reply.text);
    }
    // Generated replies: a timeout and a declined approval.
    let hasty = json!({ "requires": { "timeout_ms": 1, "note": SECRET } });
    ada.post("/aee/envelopes", task("envelope-12", hasty)).await.is(202);
    assert_eq!(until(ada, "agent.ada", "envelope-12").await, "E_TIMEOUT");
    let held = json!({ "requires": { "human_approval": true, "note": SECRET } });
    ada.post("/aee/envelopes", task("envelope-13", held)).await.is(202);
    let no = json!({ "decision": "decline", "reason": format!("{SECRET}-reason") });
    eve.post("/aee/approvals/envelope-13", no).await.ok();
    assert_eq!(until(ada, "agent.ada", "envelope-13").await, "E_DECLINED");
    let refute = json!({ "id": "envelope-1", "reason": format!("{SECRET}-refutes") });
    let refute = json!({ "intent": "aee.context.refute", "to": "service.entente", "payload": refute });
    ada.post("/aee/envelopes", task("envelope-14", refute)).await.is(200);
    made
}

#[tokio::test]
async fn the_log_has_the_seven_members_of_each_envelope_and_nothing_of_what_is_in_it() {
    let place = Place::new("aee-log");
    let url = Cluster::get().url(&Cluster::get().fresh_database().await);
    let mut launch = Launch::shared(&place, &url)
        .with("ENTENTE_LOG", "debug,entente=trace")
        .with("ENTENTE_LOG_FORMAT", "json");
    launch.arguments.push(format!("--seed=human:human.eve={SECRET}-key"));
    let (mut server, _) = launch.start().await;
    let client = |agent: &str| server.client(&key_of(agent));
    let made =
        story(&client("agent.ada"), &client("agent.bob"), &server.client(&format!("{SECRET}-key"))).await;
    server.terminate();
    assert!(server.ended().await.success(), "{}", place.log());
    let log = place.log();
    for secret in [SECRET, &made, &key_of("agent.ada"), KEY] {
        let at = log.lines().find(|line| line.contains(secret));
        assert_eq!(at, None, "what nobody should read is in the log");
    }
    let lines = lines(&place);
    let about = |id: &str| -> Vec<&Value> {
        let quoted = format!("{id:?}");
        lines.iter().filter(|line| line["id"] == quoted.as_str() || line["id"] == id).collect()
    };
    for (id, message) in [
        ("envelope-1", "an envelope was taken in"),
        ("envelope-r", "an envelope was taken in"),
        ("envelope-3", "an envelope was refused"),
        ("envelope-13", "an envelope was taken in"),
    ] {
        let line = about(id).into_iter().find(|line| line["message"] == message);
        let line = line.unwrap_or_else(|| panic!("no line of {id}: {lines:?}"));
        for member in SEVEN {
            assert!(line[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {line}");
        }
    }
    assert_eq!(about("envelope-1").len(), 2, "taken in once, refused once: {lines:?}");
    assert_eq!(about("envelope-3")[0]["code"], "unknown_recipient");
    // One line each, whatever the member contains, and of bounded length.
    assert!(lines.iter().all(|line| line["forged"].is_null()), "{lines:?}");
    assert_eq!(about("envelope-10").len(), 1);
    assert!(
        about("envelope-10")[0]["intent"].as_str().unwrap().contains("\\n"),
        "{}",
        about("envelope-10")[0]
    );
    assert!(about("envelope-11")[0]["corr"].as_str().unwrap().len() < 300, "{}", about("envelope-11")[0]);
}
