//! Intents and channels as resources: lists, contents, and subscriptions.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;

use super::{ERAS, Era, Mcp, failed, meta};
use entente_harness::keys::key;
use entente_harness::{Client, Setup, Value, World, http, json, send, talk};

/// Upper bound for a message that must arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a resource and parses its text.
async fn read(mcp: &Mcp, uri: &str) -> Value {
    let reply = mcp.request("resources/read", json!({ "uri": uri })).await.is(200);
    let contents = reply["result"]["contents"].as_array().unwrap_or_else(|| panic!("{reply}"));
    assert_eq!(contents.len(), 1, "{reply}");
    assert_eq!((&contents[0]["uri"], &contents[0]["mimeType"]), (&json!(uri), &json!("application/json")));
    serde_json::from_str(contents[0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn intents_and_channels_are_resources() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let closed = json!({ "member_policy": "explicit", "members": ["agent.ada"] });
    let (intent, channel) = talk(&ada, closed).await;
    let private = ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await;
    private.ok();
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 1 } })).await;
    let uris = [format!("entente://intents/{intent}"), format!("entente://channels/{channel}")];
    for era in ERAS {
        let mcp = Mcp::new(&ada, era);
        let templates = mcp.request("resources/templates/list", json!({})).await.is(200);
        let templates: Vec<&str> = templates["result"]["resourceTemplates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|template| template["uriTemplate"].as_str().unwrap())
            .collect();
        assert_eq!(templates, ["entente://intents/{id}", "entente://channels/{id}"]);
        let listed = mcp.request("resources/list", json!({})).await.is(200)["result"].clone();
        let found: Vec<&Value> =
            listed["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
        assert_eq!(found, [&json!(uris[0]), &json!(uris[1])]);
        assert_eq!(listed["cacheScope"], "private", "it depends on who asks");
        assert_eq!(listed.get("nextCursor"), None);
        let goal = read(&mcp, &uris[0]).await;
        assert_eq!((&goal["id"], &goal["title"]), (&json!(intent), &json!("talk")));
        let talked = read(&mcp, &uris[1]).await;
        assert_eq!((&talked["id"], &talked["messages"][0]["payload"]["n"]), (&json!(channel), &json!(1)));
        // A stranger finds nothing.
        let stranger = Mcp::new(&eve, era);
        let none = stranger.request("resources/list", json!({})).await.is(200);
        assert_eq!(none["result"]["resources"], json!([]));
        for uri in &uris {
            let error =
                stranger.request("resources/read", json!({ "uri": uri })).await.is(200)["error"].clone();
            assert_eq!(&error["data"]["uri"], uri, "{error}");
            assert!(error["data"]["entente/problem"]["code"].is_string(), "{error}");
        }
        // A missing resource has the code of the era.
        let code = if era == Era::Stateless { -32602 } else { -32002 };
        for uri in ["entente://intents/intent_x", "entente://channels/", "file:///etc/passwd"] {
            let error = failed(&mcp.request("resources/read", json!({ "uri": uri })).await, 200, code);
            assert_eq!(error["error"]["data"]["uri"], uri);
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_reader_that_is_no_member_sees_no_messages() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "member_policy": "explicit", "members": ["agent.ada"] })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 1 } })).await;
    let seen = read(&Mcp::new(&bob, Era::Stateless), &format!("entente://channels/{channel}")).await;
    assert_eq!((&seen["message_count"], seen.get("messages")), (&json!(1), None));
    world.end().await;
}

#[tokio::test]
async fn the_list_of_resources_has_pages() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mut all = BTreeSet::new();
    for _ in 0..23 {
        let (intent, channel) = talk(&ada, json!({})).await;
        all.insert(format!("entente://intents/{intent}"));
        all.insert(format!("entente://channels/{channel}"));
    }
    let mcp = Mcp::new(&ada, Era::Stateless);
    let (mut found, mut pages, mut cursor) = (Vec::new(), 0, Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = mcp.request("resources/list", params).await.is(200)["result"].clone();
        let resources = page["resources"].as_array().unwrap();
        assert!(resources.len() <= 100, "{}", resources.len());
        found.extend(resources.iter().map(|one| one["uri"].as_str().unwrap().to_owned()));
        pages += 1;
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(pages > 1);
    assert_eq!(found.len(), all.len(), "none is listed twice");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), all);
    for cursor in ["nonsense", "", "-", "-:", "x:1", "-:-1"] {
        failed(&mcp.request("resources/list", json!({ "cursor": cursor })).await, 200, -32602);
    }
    world.end().await;
}

/// An open subscription.
struct Listening {
    response: reqwest::Response,
    buffer: String,
}

impl Listening {
    async fn open(client: &Client, uris: &[&str]) -> Self {
        let params =
            json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta("2026-07-28") });
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params });
        let mut request = http().post(client.base.replace("/api/v1", "/mcp"));
        for (name, value) in client.headers() {
            request = request.header(name, value);
        }
        let request = request
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "subscriptions/listen");
        let response = request.body(body.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
        Self { response, buffer: String::new() }
    }

    /// Returns the next message; `None` after the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let frame: String = self.buffer.drain(..end + 2).collect();
                let data: String = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                if !data.trim().is_empty() {
                    return Some(serde_json::from_str(data.trim()).unwrap());
                }
                continue;
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("nothing came").unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Asserts that the next message names this resource.
    async fn updated(&mut self, uri: &str) {
        let told = self.next().await.unwrap();
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!(uri))
        );
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_names_what_has_changed() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (other, _) = talk(&ada, json!({})).await;
    let [goal, talked] = [format!("entente://intents/{intent}"), format!("entente://channels/{channel}")];
    let mut listening =
        Listening::open(&ada, &[&goal, &talked, "entente://intents/intent_x", "file:///x"]).await;
    let begun = listening.next().await.unwrap();
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    // Only those that there are.
    assert_eq!(begun["params"]["notifications"]["resourceSubscriptions"], json!([goal, talked]));
    // A message changes its channel, not the intent; another intent is not followed.
    let mcp = Mcp::new(&ada, Era::Stateless);
    mcp.ok("open_channel", json!({ "intent_id": other, "name": "elsewhere" })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    listening.updated(&talked).await;
    mcp.ok("open_channel", json!({ "intent_id": intent, "name": "second" })).await;
    listening.updated(&goal).await;
    drop(listening);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_with_its_key() {
    let world =
        World::with(Setup { settings: vec![("ENTENTE_MAX_STREAMS_PER_KEY", "1")], live: false }).await;
    let admin = world.admin().await;
    let ada = key(&world, &admin, "agent.ada", json!({})).await;
    let (intent, _) = talk(&ada.client, json!({})).await;
    let uri = format!("entente://intents/{intent}");
    let mut listening = Listening::open(&ada.client, &[&uri]).await;
    listening.next().await.unwrap();
    let mcp = Mcp::new(&ada.client, Era::Stateless);
    let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    mcp.request("subscriptions/listen", params).await.refused(429, "too_many_streams");
    admin.delete(&ada.path()).await.is(200);
    let last = listening.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")), "{last}");
    assert_eq!(listening.next().await, None);
    world.end().await;
}

#[tokio::test]
async fn a_subscription_is_limited_and_has_its_era() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let many: Vec<String> = (0..33).map(|n| format!("entente://intents/{n}")).collect();
    let params = json!({ "notifications": { "resourceSubscriptions": many } });
    let error = failed(&mcp.request("subscriptions/listen", params).await, 200, -32602);
    assert!(error["error"]["message"].as_str().unwrap().contains("at most 32"), "{error}");
    let found = mcp.request("server/discover", json!({})).await.is(200);
    assert_eq!(found["result"]["capabilities"]["resources"]["subscribe"], true);
    // Before 2026-07-28 a subscription needs a session.
    let old = Mcp::new(&ada, Era::Handshake);
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } });
    let begun = old.request("initialize", hello).await.is(200);
    assert_eq!(begun["result"]["capabilities"]["resources"], json!({}));
    failed(&old.request("resources/subscribe", json!({ "uri": "entente://intents/x" })).await, 200, -32601);
    failed(&old.request("subscriptions/listen", json!({ "notifications": {} })).await, 200, -32601);
    world.end().await;
}
