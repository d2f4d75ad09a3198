//! Agent cards (A2A §8) and the versions of the protocol (§3.6).

use super::{ECHO, brief, call, done, echo, failed, refused, visitor};
use entente_harness::{Setup, World, json};

const CARD: &str = "//a2a/echo/.well-known/agent-card.json";

#[tokio::test]
async fn a_card_says_what_a_client_needs() {
    let world = World::start().await;
    let hand = echo(&world).await;
    hand.client.put("/arcp/agents/echo/versions/1.1.0", json!({})).await.ok();
    let client = world.agent("agent.client").await;
    let reply = client.get(CARD).await;
    let card = reply.is(200);
    let base = format!("http://{}/a2a/echo", world.address);
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let bindings: Vec<&str> = interfaces.iter().map(|one| one["protocolBinding"].as_str().unwrap()).collect();
    assert_eq!(bindings, ["JSONRPC", "HTTP+JSON"]);
    for one in interfaces {
        assert_eq!((&one["url"], &one["protocolVersion"]), (&json!(base), &json!("1.0")));
    }
    assert_eq!((&card["name"], &card["version"]), (&json!("echo"), &json!("1.0.0")));
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["capabilities"]["pushNotifications"], true);
    assert_eq!(card["skills"][0]["id"], "echo@1.0.0");
    assert!(card["securitySchemes"]["apiKey"].is_object() && card["defaultInputModes"][0].is_string());
    assert_eq!(reply.header("cache-control"), "private, max-age=300");
    let known = client.with("if-none-match", reply.header("etag")).get(CARD).await;
    assert_eq!((known.status, known.text.as_str()), (304, ""));

    // The extended card has every version.
    let visitor = client.with("a2a-version", "1.0");
    let extended = done(&visitor, "GetExtendedAgentCard", json!({})).await;
    assert_eq!(extended["skills"].as_array().unwrap().len(), 2);
    assert_eq!(visitor.get(&format!("{ECHO}/extendedAgentCard")).await.is(200), extended);
    // A version is an agent too.
    let one = client.get("//a2a/echo@1.1.0/.well-known/agent-card.json").await.is(200);
    assert_eq!((&one["version"], &one["skills"][0]["id"]), (&json!("1.1.0"), &json!("echo@1.1.0")));
    refused(&client.get("//a2a/echo@2/.well-known/agent-card.json").await, 404, "AGENT_NOT_AVAILABLE");
    world.end().await;
}

#[tokio::test]
async fn a_card_is_for_those_who_may_list_the_agents() {
    let world = World::start().await;
    echo(&world).await;
    // Whether an agent exists is not told to those without a key.
    let anon = world.anon();
    for agent in ["echo", "nobody", "NO AGENT"] {
        let reply = anon.get(&format!("//a2a/{agent}/.well-known/agent-card.json")).await;
        if agent == "NO AGENT" {
            refused(&reply, 404, "AGENT_NOT_AVAILABLE");
        } else {
            refused(&reply, 401, "UNAUTHENTICATED");
            assert!(reply.header("www-authenticate").starts_with("Bearer"));
        }
    }
    let client = world.agent("agent.client").await;
    refused(&client.get("//a2a/nobody/.well-known/agent-card.json").await, 404, "AGENT_NOT_AVAILABLE");
    refused(&client.with("host", "evil.example").get(CARD).await, 403, "FORBIDDEN");
    let none = refused(&client.get("//.well-known/agent-card.json").await, 404, "NOT_FOUND");
    assert!(none["message"].as_str().unwrap().contains("ENTENTE_A2A_AGENT"), "{none}");
    world.end().await;
}

#[tokio::test]
async fn the_operator_shows_one_agent_to_everybody() {
    let settings = vec![("ENTENTE_A2A_AGENT", "echo"), ("ENTENTE_PUBLIC_URL", "https://agents.example.com")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let anon = world.anon();
    refused(&anon.get("//.well-known/agent-card.json").await, 404, "AGENT_NOT_AVAILABLE");
    echo(&world).await;
    let reply = anon.get("//.well-known/agent-card.json").await;
    let card = reply.is(200);
    assert_eq!(card["supportedInterfaces"][0]["url"], "https://agents.example.com/a2a/echo");
    assert_eq!(reply.header("cache-control"), "public, max-age=300");
    assert_eq!(anon.get(CARD).await.is(200), card);
    refused(&anon.get("//a2a/other/.well-known/agent-card.json").await, 401, "UNAUTHENTICATED");
    // The card is public, the agent is not.
    let reply = call(&anon.with("a2a-version", "1.0"), "SendMessage", brief("m", "hello")).await;
    assert_eq!(reply.is(401)["error"]["data"][0]["reason"], "UNAUTHENTICATED");
    world.end().await;
}

#[tokio::test]
async fn versions_are_negotiated() {
    let world = World::start().await;
    echo(&world).await;
    let client = world.agent("agent.client").await;
    for version in ["1.0", "1.0.7", " 1.0 "] {
        done(&client.with("a2a-version", version), "ListTasks", json!({})).await;
    }
    // No version, or an empty one, is 0.3 (§3.6.2), which has no such method, and only JSON-RPC here (`older.rs`).
    for version in ["", "0.3", "0.3.0", "1.1", "2.0", "1", "one", "1.0.x"] {
        let other = client.with("a2a-version", version);
        let told = failed(&other, "ListTasks", json!({})).await;
        assert_eq!(told, (-32_009, "VERSION_NOT_SUPPORTED".to_owned()), "{version}");
        refused(&other.get(&format!("{ECHO}/tasks")).await, 400, "VERSION_NOT_SUPPORTED");
    }
    assert_eq!(client.get(&format!("{ECHO}/tasks?A2A-Version=1.0")).await.is(200)["totalSize"], 0);
    let visitor = visitor(&world, "agent.other").await;
    assert_eq!(failed(&visitor, "message/send", json!({})).await, (-32_601, "METHOD_NOT_FOUND".to_owned()));
    world.end().await;
}
