//! Policy rules between entities (AEE §11.5): who sets them, which are valid, and that a server's snapshot of them
//! is right.

use entente_aee::policy::{snapshot, version};
use entente_domain::aee::envelopes;
use entente_domain::aee::envelopes::Envelope;
use entente_domain::aee::envelopes::policy::judge;
use entente_domain::refusal::Code;

use entente_harness::envelopes::task_envelope;
use entente_harness::{Setup, Value, World, json};

/// Returns a well-formed envelope.
#[expect(clippy::needless_pass_by_value, reason = "`json!` makes one at each call")]
pub fn envelope(kind: &str, intent: &str, payload: Value) -> Envelope {
    let said = json!({
        "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T08:00:00Z", "type": kind,
        "from": "agent.manager", "to": "agent.auditor", "intent": intent, "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW",
        "reply_to": (kind != "task").then_some("01JFB2R1JZKQ9V3K8W8Y9W1F2B"), "priority": "high", "payload": payload,
    });
    envelopes::read(said.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn an_admin_sets_lists_and_removes_rules() {
    let world = World::start().await;
    let admin = world.admin().await;
    let rule = json!({ "to": "partner.**", "deny": ["ops.**"], "require_signature": true, "max_priority": "normal" });
    let set = admin.put("/aee/rules/to-partners", rule.clone()).await.ok();
    assert_eq!(
        (&set["name"], &set["from"], &set["to"]),
        (&json!("to-partners"), &json!("**"), &json!("partner.**"))
    );
    assert_eq!((&set["allow"], &set["deny"]), (&json!([]), &json!(["ops.**"])));
    admin.put("/aee/rules/all", json!({})).await.ok();
    let listed = admin.get("/aee/rules").await.ok();
    let names: Vec<&Value> = listed["rules"].as_array().unwrap().iter().map(|rule| &rule["name"]).collect();
    assert_eq!(names, ["all", "to-partners"]);
    admin.delete("/aee/rules/all").await.is(204);
    admin.delete("/aee/rules/all").await.refused(404, "not_found");
    // Setting an equal rule changes nothing and logs no event.
    admin.put("/aee/rules/to-partners", rule).await.ok();
    let told = admin.get("/audit?event_type=envelope.rule_set").await.ok();
    assert_eq!(told.as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told[1]["payload"]["rule"]["deny"], json!(["ops.**"]));
    assert_eq!(admin.get("/audit?event_type=envelope.rule_removed").await.ok()[0]["payload"]["name"], "all");
    let agent = world.agent("agent.a").await;
    agent.put("/aee/rules/mine", json!({})).await.refused(403, "scope_missing");
    agent.get("/aee/rules").await.refused(403, "scope_missing");
    agent.delete("/aee/rules/to-partners").await.refused(403, "scope_missing");
    world.end().await;
}

#[tokio::test]
async fn bad_rules_are_refused_and_leave_nothing() {
    let world = World::start().await;
    let admin = world.admin().await;
    for (bad, status, code) in [
        (json!({ "from": "" }), 422, "unprocessable"),
        (json!({ "redact": ["customer"] }), 422, "unprocessable"),
        (json!({ "allow": vec!["a.b"; 300] }), 422, "unprocessable"),
        (json!({ "max_priority": "critical" }), 422, "invalid_request"),
        (json!({ "forbid": [] }), 422, "invalid_request"),
    ] {
        let reply = admin.put("/aee/rules/one", bad.clone()).await;
        reply.refused(status, code);
    }
    assert_eq!(admin.get("/aee/rules").await.ok()["rules"], json!([]));
    world.end().await;
}

#[tokio::test]
async fn the_book_has_what_another_server_committed() {
    let world = World::start().await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    let admin = world.admin().await;
    let before = snapshot::latest(&other.ctx().aee).await.unwrap();
    assert!(before.rules.is_empty());
    admin.put("/aee/rules/none", json!({ "deny": ["ops.**"] })).await.ok();
    // The snapshot is old: its version shows that, and the latest one is right.
    let remembered = other.ctx().aee.state.policies.book().unwrap();
    let mut connection = other.ctx().pool.acquire().await.unwrap();
    assert!(version::current(&mut connection).await.unwrap() > remembered.version);
    drop(connection);
    let latest = snapshot::latest(&other.ctx().aee).await.unwrap();
    let refusal = judge(&latest.rules, &envelope("task", "ops.backup", json!({})), false).unwrap_err();
    assert_eq!(refusal.code, Code::IntentNotAllowed);
    assert_eq!(other.ctx().aee.state.policies.book().unwrap().version, latest.version);
    // Through the API of the other server with its old snapshot: new rules apply and removed ones do not, even for
    // an envelope that such a rule refused before.
    world.agent("agent.ada").await;
    world.agent("agent.bob").await;
    let ada = other.client("key-of-agent.ada");
    let send = async |id: &str| {
        ada.post("/aee/envelopes", task_envelope(&other, id, ("agent.ada", "agent.bob"))).await
    };
    send("envelope-1").await.refused(403, "intent_not_allowed");
    admin.delete("/aee/rules/none").await.is(204);
    send("envelope-1").await.is(202);
    admin.put("/aee/rules/none", json!({ "deny": ["ops.**"] })).await.ok();
    send("envelope-2").await.refused(403, "intent_not_allowed");
    other.server.stop().await;
    world.end().await;
}
