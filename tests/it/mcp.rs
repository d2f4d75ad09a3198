//! MCP endpoint, in raw JSON of both protocol generations: requests, refusals and their codes. The tools are tested
//! in `mcp/`.

mod arguments;
mod begin;
pub mod cursors;
mod events;
mod job_control;
mod moments;
mod oauth;
mod resources;
mod task_calls;
mod tools;

use entente_harness::keys::key;
use entente_harness::mcp::{ERAS, Era, Mcp, meta};
use entente_harness::{Client, Reply, Setup, Value, World, json};

/// Asserts a JSON-RPC error.
#[track_caller]
fn failed(reply: &Reply, status: u16, code: i64) -> Value {
    let answer = reply.is(status);
    assert_eq!(answer["error"]["code"], code, "{answer}");
    answer
}

#[tokio::test]
async fn both_eras_begin_and_list_the_same_tools() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let old = Mcp::new(&ada, Era::Handshake);
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let hello = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } });
        let http = old.http.clone();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
        let reply = http.send("POST", "//mcp", Some(body.to_string())).await;
        let answer = reply.is(200);
        assert_eq!(answer["result"]["protocolVersion"], version);
        assert_eq!(answer["result"]["serverInfo"]["name"], "entente");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        assert_eq!(answer["result"]["capabilities"].get("prompts"), None, "{answer}");
        assert_eq!(
            answer["result"]["capabilities"]["tasks"].is_object(),
            version == "2025-11-25",
            "{answer}"
        );
        assert_eq!(answer["result"]["capabilities"].get("extensions"), None, "{answer}");
        assert!(!reply.headers.contains_key("mcp-session-id"), "there are no sessions");
    }
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let noting = old.http.with("mcp-protocol-version", "2025-11-25");
    let reply = noting.send("POST", "//mcp", Some(note.to_string())).await;
    assert_eq!(reply.status, 202);
    let new = Mcp::new(&ada, Era::Stateless);
    let found = new.request("server/discover", json!({})).await.is(200);
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{found}");
    assert!(found["result"]["instructions"].as_str().unwrap().contains("wait_for_events"));
    let listed = new.request("tools/list", json!({})).await.is(200)["result"].clone();
    assert_eq!(listed["resultType"], "complete");
    assert_eq!(listed["cacheScope"], "public", "it does not depend on who asks");
    assert!(listed["ttlMs"].is_u64(), "{listed}");
    let before = old.request("tools/list", json!({})).await.is(200)["result"].clone();
    assert_eq!(before["tools"], listed["tools"]);
    world.end().await;
}

#[tokio::test]
async fn what_the_stateless_era_refuses() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let new = Mcp::new(&ada, Era::Stateless);
    let http = new.http.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tools/list");
    let send = async |http: &Client, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params });
        http.send("POST", "//mcp", Some(body.to_string())).await
    };
    let good = json!({ "_meta": meta("2026-07-28") });
    send(&http, good.clone()).await.is(200);
    // Headers of the removed sessions are ignored.
    let past = http.with("mcp-session-id", "gone").with("last-event-id", "7");
    send(&past, good.clone()).await.is(200);
    // A header that contradicts the body, or is missing.
    failed(&send(&http.with("mcp-method", "tools/call"), good.clone()).await, 400, -32020);
    failed(&send(&http.with("mcp-protocol-version", "2025-11-25"), good.clone()).await, 400, -32020);
    let call = json!({ "name": "whoami", "arguments": {}, "_meta": meta("2026-07-28") });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call });
    let named = http.with("mcp-method", "tools/call").with("mcp-name", "send_message");
    failed(&named.send("POST", "//mcp", Some(body.to_string())).await, 400, -32020);
    // An unsupported version.
    let future = http.with("mcp-protocol-version", "2099-01-01");
    let refused = failed(&send(&future, json!({ "_meta": meta("2099-01-01") })).await, 400, -32022);
    let supported = refused["error"]["data"]["supported"].as_array().unwrap();
    assert!(
        supported.contains(&json!("2026-07-28")) && supported.contains(&json!("2025-11-25")),
        "{refused}"
    );
    // A request without its client's `_meta`.
    failed(&send(&http, json!({})).await, 400, -32602);
    let mut half = meta("2026-07-28");
    half.as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    failed(&send(&http, json!({ "_meta": half })).await, 400, -32602);
    world.end().await;
}

#[tokio::test]
async fn what_is_not_there_is_not_answered() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (era, status) in [(Era::Handshake, 200), (Era::Stateless, 404)] {
        let mcp = Mcp::new(&ada, era);
        // Capabilities that were not declared and unknown methods.
        for method in ["prompts/list", "roots/list", "tasks/forget", "nobody/knows"] {
            let reply = mcp.request(method, json!({})).await;
            failed(&reply, status, -32601);
        }
        let unknown = mcp.request("tools/call", json!({ "name": "fly", "arguments": {} })).await;
        assert_eq!(unknown.is(200)["error"]["code"], -32602);
    }
    let mcp = Mcp::new(&ada, Era::Stateless);
    for method in ["GET", "DELETE", "PUT"] {
        let reply = mcp.http.send(method, "//mcp", None).await;
        reply.refused(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), "POST");
    }
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }).to_string();
    for accept in ["application/json", "text/event-stream", "text/html"] {
        let reply = ada.with("accept", accept).send("POST", "//mcp", Some(body.clone())).await;
        assert_eq!(reply.status, 406, "{}", reply.text);
    }
    failed(&mcp.http.send("POST", "//mcp", Some("{".to_owned())).await, 400, -32700);
    failed(&mcp.http.send("POST", "//mcp", Some(format!("[{body}]"))).await, 400, -32600);
    // A number that the parser would change is refused, and the answer has the call's id.
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"whoami","arguments":{"n":100000000000000000001}}}"#;
    let changed = mcp.http.send("POST", "//mcp", Some(call.to_owned())).await;
    failed(&changed, 400, -32602);
    assert_eq!(changed.json()["id"], 7);
    mcp.http.send("POST", "//mcp/", Some(body)).await.is(200);
    world.end().await;
}

#[tokio::test]
async fn a_key_opens_it_as_it_opens_everything() {
    let world = World::start().await;
    let admin = world.admin().await;
    let slow = key(&world, &admin, "agent.ada", json!({ "rate_per_second": 2 })).await;
    for (era, client) in [(Era::Handshake, world.anon()), (Era::Stateless, world.client("wrong"))] {
        let reply = Mcp::new(&client, era).request("tools/list", json!({})).await;
        reply.refused(401, "unauthenticated");
        // The metadata by which OAuth begins (RFC 9728 §5.1).
        let metadata = format!("http://{}/.well-known/oauth-protected-resource/mcp", world.address);
        let challenge = format!("Bearer realm=\"entente\", resource_metadata=\"{metadata}\"");
        assert_eq!(reply.header("www-authenticate"), challenge);
    }
    let bearer = world.anon().with("authorization", &format!("Bearer {}", slow.secret));
    let mcp = Mcp::new(&bearer, Era::Handshake);
    let reply = mcp.request("tools/list", json!({})).await;
    reply.is(200);
    assert_eq!(reply.header("ratelimit-limit"), "2");
    assert!(reply.headers.contains_key("x-request-id"));
    let burst = (0..20).map(|_| mcp.request("tools/list", json!({})));
    let replies = futures_util::future::join_all(burst).await;
    let over = replies.iter().find(|reply| reply.status != 200).unwrap();
    over.refused(429, "rate_limited");
    assert!(over.headers.contains_key("retry-after"));
    let own = world.agent("agent.eve").await.acting_as("agent.bob");
    Mcp::new(&own, Era::Stateless).request("tools/list", json!({})).await.refused(403, "may_not_act_as");
    world.end().await;
}

#[tokio::test]
async fn pages_of_others_cannot_call_it() {
    let world = World::start().await;
    let ada = Mcp::new(&world.agent("agent.ada").await, Era::Handshake).http;
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }).to_string();
    let send = async |http: Client| http.send("POST", "//mcp", Some(body.clone())).await;
    let own = format!("http://{}", world.address);
    assert_eq!(send(ada.with("origin", &own)).await.status, 200);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        let told = send(ada.with("origin", origin)).await.refused(403, "forbidden");
        assert!(told["message"].as_str().unwrap().contains("ENTENTE_MCP_ORIGINS"), "{told}");
    }
    // DNS rebinding: a foreign name that points at this machine.
    for host in ["evil.example", "evil.example:8080", ""] {
        let reply = send(ada.with("host", host)).await;
        assert!([400, 403].contains(&reply.status), "{host}: {}", reply.text);
    }
    for host in ["localhost:9", "10.1.2.3:8080", "[::1]:8080"] {
        assert_eq!(send(ada.with("host", host)).await.status, 200, "{host}");
    }
    world.end().await;
    // Behind its own public name.
    let settings = vec![
        ("ENTENTE_PUBLIC_URL", "https://Entente.example.com/"),
        ("ENTENTE_MCP_HOSTS", "inside"),
        ("ENTENTE_MCP_ORIGINS", "https://app.example.com"),
    ];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let ada = Mcp::new(&world.agent("agent.ada").await, Era::Handshake).http;
    for host in ["entente.example.com", "entente.example.com:443", "inside:8080"] {
        assert_eq!(send(ada.with("host", host)).await.status, 200, "{host}");
    }
    let named = ada.with("host", "entente.example.com");
    for origin in ["https://entente.example.com", "https://app.example.com"] {
        assert_eq!(send(named.with("origin", origin)).await.status, 200, "{origin}");
    }
    send(named.with("origin", "http://app.example.com")).await.refused(403, "forbidden");
    // A browser sends a preflight first, and reads the response only with CORS permission.
    let page = named.with("origin", "https://app.example.com");
    let preflight = page.send("OPTIONS", "//mcp", None).await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-methods")), (204, "POST"));
    let allowed = preflight.header("access-control-allow-headers").to_lowercase();
    assert!(["authorization", "mcp-protocol-version", "mcp-method"].iter().all(|one| allowed.contains(one)));
    for reply in [preflight, send(page.clone()).await, send(page.with("x-api-key", "nobody")).await] {
        assert_eq!(reply.header("access-control-allow-origin"), "https://app.example.com", "{}", reply.text);
    }
    let stranger = named.with("origin", "https://evil.example");
    let reply = stranger.send("OPTIONS", "//mcp", None).await;
    assert_eq!((reply.status, reply.headers.get("access-control-allow-origin")), (405, None));
    send(ada.with("host", "entente.example.org")).await.refused(403, "forbidden");
    world.end().await;
}
