//! Only people decide: who may answer if no person is named, and who may withdraw a question.

use super::{goal, now, question, respond, said, suspend, types, waiting};
use entente_harness::moments::{answer, at, option};
use entente_harness::people::given_key;
use entente_harness::{Client, Setup, Value, World, json};

/// Asks a question without a person, as the SDK does by default.
async fn open(client: &Client, intent: &str) -> Value {
    let nobody = json!({ "principal_id": null, "response_type": "confirm", "choices": [] });
    suspend(client, intent, nobody).await
}

async fn status(client: &Client, intent: &str, status: &str) -> entente_harness::Reply {
    let read = client.get(&format!("/intents/{intent}")).await.ok();
    let path = format!("/intents/{intent}/status");
    client.seen(&read["version"]).post(&path, json!({ "status": status })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_can_be_asked_only_people_answer() {
    let world = World::start().await;
    let (agent, other) = (world.agent("agent.a").await, world.agent("agent.b").await);
    let intent = goal(&agent).await;
    let asked = open(&agent, &intent).await;
    assert_eq!((&asked["unasked"], &asked["moment_id"]), (&json!("nobody_to_ask"), &json!(null)));
    let ada = world.human("human.ada").await;
    let admin = world.admin().await;
    let made = given_key(&admin, "human.eve").await;
    for (who, client) in [
        ("who asks", agent.clone()),
        ("another agent", other),
        ("a service", world.any()),
        ("a service that acts as the asker", world.any().acting_as("agent.a")),
        ("a service that acts as another agent", world.any().acting_as("agent.c")),
        ("a service that acts as nobody who exists", world.any().acting_as("operator@example.com")),
        ("a service that acts as the person", world.any().acting_as("human.ada")),
        ("an admin of the server", admin),
        ("who holds a key that an admin made for a person", world.client(&made)),
    ] {
        let reply = respond(&client, &intent, &asked, json!("yes")).await;
        assert_eq!((reply.status, &reply.json()["code"]), (403, &json!("not_the_principal")), "{who}");
    }
    // Nor with a name in the body: another person's, the asker's or an unknown one.
    let path = format!("/intents/{intent}/suspend/respond");
    for by in ["human.ada", "agent.a", "human.nobody", "operator@example.com"] {
        let mut forged = said(&asked, json!("yes"));
        forged["responded_by"] = json!(by);
        world.any().post(&path, forged.clone()).await.refused(403, "not_the_principal");
        if by != "human.ada" {
            ada.post(&path, forged).await.refused(403, "not_the_principal");
        }
    }
    assert_eq!(now(&agent, &intent).await.0, "suspended_awaiting_input");
    let mut own = said(&asked, json!("yes"));
    own["responded_by"] = json!("human.ada");
    own["metadata"] = json!({ "channel": "slack" });
    // Nobody may learn the choices who may not answer; the person does, also those of a plain confirmation.
    let hidden = respond(&agent, &intent, &asked, json!("maybe")).await.refused(403, "not_the_principal");
    assert_eq!(hidden.get("valid_choices"), None);
    let wrong = respond(&ada, &intent, &asked, json!("maybe")).await.refused(422, "invalid_request");
    assert_eq!(wrong["valid_choices"], json!(["yes", "no"]));
    let done = ada.post(&path, own).await.is(200);
    assert_eq!((&done["responded_by"], &done["choice_label"]), (&json!("human.ada"), &json!("Yes")));
    let (status, record) = now(&agent, &intent).await;
    assert_eq!((status.as_str(), &record["metadata"]["channel"]), ("active", &json!("slack")));
    // The log records the authority of the answer.
    let events = agent.get(&format!("/intents/{intent}/events")).await.ok();
    let resumed =
        events.as_array().unwrap().iter().find(|one| one["event_type"] == "intent.resumed").unwrap();
    assert_eq!(resumed["payload"]["authority"]["basis"], "seeded_key");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asked_is_known_by_principal() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = world.human("human.ada").await;
    // Her agent asks with a key of hers, so she counts as the asker and cannot answer.
    let both = json!({ "act_as": ["agent.a"] });
    let key = admin.post("/principals/human.ada/keys", both).await.is(201);
    let agent = world.client(key["key"].as_str().unwrap()).acting_as("agent.a");
    let intent = goal(&agent).await;
    let asked = open(&agent, &intent).await;
    assert_eq!(asked["unasked"], "nobody_to_ask", "she would be asked by herself");
    respond(&ada, &intent, &asked, json!("yes")).await.refused(403, "not_the_principal");
    let eve = world.human("human.eve").await;
    respond(&eve, &intent, &asked, json!("yes")).await.is(200);
    // Nor can she be named as its person.
    let path = format!("/intents/{intent}/suspend");
    agent.post(&path, question(json!({}))).await.refused(422, "unprocessable");
    let second = json!({ "principal_id": "human.eve", "escalate_to": "human.ada", "escalate_after": 60,
        "timeout_seconds": 600 });
    agent.post(&path, question(second)).await.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_person_whom_the_operator_names_is_asked_first() {
    let setup = Setup { settings: vec![("ENTENTE_SUSPENSION_PERSON", "human.dev")], ..Setup::default() };
    let world = World::with(setup).await;
    let (agent, dev) = (world.agent("agent.a").await, world.human("human.dev").await);
    let ada = world.human("human.ada").await;
    // Although another person created the intent.
    let intent = goal(&ada).await;
    let asked = open(&agent, &intent).await;
    assert_eq!(waiting(&dev).await["id"], asked["moment_id"]);
    respond(&ada, &intent, &asked, json!("yes")).await.refused(403, "not_the_principal");
    respond(&dev, &intent, &asked, json!("yes")).await.is(200);
    // A question that cannot be put to anyone goes to this person too, even without access to the intent.
    let intent = goal(&agent).await;
    let acl = json!({ "default_policy": "closed", "entries": [] });
    agent.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    let mute = json!({ "scopes": ["intents:read", "intents:write"] });
    let key = world.admin().await.post("/principals/agent.a/keys", mute).await.is(201);
    let asked = open(&world.client(key["key"].as_str().unwrap()), &intent).await;
    assert_eq!(asked["unasked"], "key_asks_nobody");
    respond(&ada, &intent, &asked, json!("yes")).await.refused(403, "access_closed");
    respond(&dev, &intent, &asked, json!("yes")).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_asks_or_a_person_takes_a_question_away() {
    let world = World::start().await;
    let (agent, other) = (world.agent("agent.a").await, world.agent("agent.b").await);
    let (ada, eve) = (world.human("human.ada").await, world.human("human.eve").await);
    let admin = world.admin().await;
    let given = world.client(&given_key(&admin, "human.max").await);
    let all = ["draft", "active", "blocked", "completed", "abandoned"];
    let intent = goal(&agent).await;
    let asked = suspend(&agent, &intent, json!({})).await;
    for (who, client) in [
        ("another agent", &other),
        ("a service", &world.any()),
        ("a service that acts as another agent", &world.any().acting_as("agent.c")),
        ("a service that acts as the person", &world.any().acting_as("human.ada")),
        ("an admin of the server", &admin),
        ("who holds a key that an admin made for a person", &given),
    ] {
        for to in all {
            let reply = status(client, &intent, to).await;
            let code = reply.json()["code"].clone();
            assert_eq!((reply.status, &code), (403, &json!("not_the_principal")), "{who} to {to}");
        }
    }
    // It is still suspended, and its person answers.
    assert_eq!(now(&agent, &intent).await.0, "suspended_awaiting_input");
    assert_eq!(types(&agent, &intent, "intent.").await, ["intent.suspended"]);
    let moment = waiting(&ada).await;
    assert_eq!(moment["id"], asked["moment_id"]);
    ada.post(&format!("{}/resolution", at(&moment)), answer(&moment, option(0))).await.is(200);
    // An intent that is no longer suspended can be changed as usual.
    status(&other, &intent, "blocked").await.is(200);
    // The same for a question without a person; a person who administers the intent may withdraw it.
    let intent = goal(&agent).await;
    let mute = json!({ "scopes": ["intents:read", "intents:write"] });
    let key = admin.post("/principals/agent.a/keys", mute).await.is(201);
    open(&world.client(key["key"].as_str().unwrap()), &intent).await;
    status(&other, &intent, "active").await.refused(403, "not_the_principal");
    status(&eve, &intent, "active").await.is(200);
    assert_eq!(now(&agent, &intent).await.1["cancelled_because"], "status_changed");
    // A person without admin access may not.
    let intent = goal(&agent).await;
    suspend(&agent, &intent, json!({ "question": "Yours?" })).await;
    let entry = json!({ "principal_id": "human.eve", "principal_type": "human", "permission": "write" });
    let acl = json!({ "default_policy": "open", "entries": [entry] });
    agent.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    status(&eve, &intent, "active").await.refused(403, "forbidden");
    world.end().await;
}
