//! `HEAD`: the status and headers of GET, at once and without effect, on every route.

use std::time::Duration;

use tokio::time::timeout;

use entente_harness::{Client, Reply, Setup, Sse, World, json, send_number, talk};

/// Time within which an answer to HEAD must come: far less than what the requests below ask to wait.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Headers that differ between two answers to the same request.
const OWN: [&str; 3] = ["date", "x-request-id", "ratelimit-remaining"];

/// Sends HEAD, and asserts an answer without a body, at once.
async fn head(client: &Client, path: &str) -> Reply {
    let answer = timeout(AT_ONCE, client.send("HEAD", path, None)).await;
    let reply = answer.unwrap_or_else(|_| panic!("HEAD {path} waits"));
    assert_eq!(reply.text, "", "HEAD {path} has a body");
    reply
}

fn headers(reply: &Reply) -> Vec<(String, String)> {
    let each = reply.headers.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    let mut each: Vec<_> =
        each.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    each.sort();
    each
}

/// Asserts that HEAD and GET have the same status and headers.
async fn same(client: &Client, path: &str) -> Reply {
    let (shown, told) = (client.get(path).await, head(client, path).await);
    assert_eq!(told.status, shown.status, "{path}");
    assert_eq!(headers(&told), headers(&shown), "{path}");
    assert_eq!(told.header("content-length"), shown.text.len().to_string(), "{path}");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_wherever_get_does() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    send_number(&ada, &channel, 1).await;
    for path in [
        "/intents".to_owned(),
        format!("/intents/{intent}"),
        format!("//v1/intents/{intent}"),
        format!("/intents/{intent}/events"),
        format!("/channels/{channel}/messages"),
        "/principals/me".to_owned(),
        "/jobs".to_owned(),
        "/aee/schemas".to_owned(),
        "/server/config".to_owned(),
    ] {
        assert_eq!(same(&ada, &path).await.status, 200, "{path}");
        // It needs the same key.
        let status = if path == "/server/config" { 200 } else { 401 };
        assert_eq!(same(&world.anon(), &path).await.status, status, "{path}");
    }
    for path in [
        "//healthz",
        "//readyz",
        "//health",
        "//openapi.json",
        "//docs",
        "//docs/",
        "//docs/api/swagger-ui-bundle.js",
        "//assets/entente.css",
        "//favicon.ico",
        "//login",
        "//.well-known/openintent.json",
    ] {
        assert_eq!(same(&world.anon(), path).await.status, 200, "{path}");
    }
    // The metrics change with each request.
    assert_eq!(head(&world.anon(), "//metrics").await.status, 200);
    // Refusals are the same, too: what is not there, what has no GET, what is no handshake, where a page leads.
    for (path, status) in [
        ("/intents/intent_nothing", 404),
        ("//nowhere", 404),
        ("/people/human.ada/links", 405),
        ("//mcp", 405),
        ("//arcp", 422),
        ("//inbox", 303),
    ] {
        let (shown, told) = (ada.get(path).await, head(&ada, path).await);
        assert_eq!((told.status, shown.status), (status, status), "{path}");
    }
    assert_eq!(head(&ada, "/people/human.ada/links").await.header("allow"), "POST");
    let refused = ada.delete("/intents").await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD, POST"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_opens_no_stream_and_holds_no_connection() {
    let settings = vec![
        ("ENTENTE_MAX_STREAMS_PER_KEY", "1"),
        ("ENTENTE_REFUSED_SUBSCRIBE_SECONDS", "5"),
        ("ENTENTE_PING_SECONDS", "1"),
    ];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    for path in [
        "/subscribe".to_owned(),
        format!("/intents/{intent}/subscribe"),
        format!("/subscribe/channels/{channel}"),
        "/moments/stream".to_owned(),
        "/jobs/events".to_owned(),
        "/aee/stream".to_owned(),
    ] {
        // A stream that stayed open would keep the key's only place.
        for _ in 0..3 {
            let told = head(&ada, &path).await;
            assert_eq!((told.status, told.header("content-type")), (200, "text/event-stream; charset=utf-8"));
            assert!(!told.headers.contains_key("content-length"), "{path}: a stream has no length");
        }
    }
    // A refused subscription is delayed for clients that would repeat it; HEAD is not.
    let began = std::time::Instant::now();
    assert_eq!(head(&ada, "/subscribe/intents/intent_nothing").await.status, 404);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let stream = Sse::open(&ada, "/subscribe").await;
    assert_eq!(head(&ada, "/subscribe").await.status, 429, "as for GET");
    drop(stream);
    // No WebSocket either.
    let shaken = world.anon().with("connection", "Upgrade").with("upgrade", "websocket");
    let shaken =
        shaken.with("sec-websocket-version", "13").with("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(head(&shaken, "//arcp").await.status, 422);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_nothing_and_changes_nothing() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({})).await;
    let poll = format!("/channels/{channel}/messages?to=agent.bob&since=cur_0");
    for path in [format!("{poll}&wait=120"), "/aee/mailboxes/agent.bob?wait=120".to_owned()] {
        assert_eq!(head(&bob, &path).await.status, 200, "{path}");
    }
    // A faulty `wait` is refused as ever.
    for wait in ["soon", "-1", "121"] {
        let path = format!("{poll}&wait={wait}");
        assert_eq!((head(&bob, &path).await.status, bob.get(&path).await.status), (422, 422), "{wait}");
    }
    let sent = send_number(&ada, &channel, 1).await;
    for _ in 0..3 {
        assert_eq!(head(&bob, &format!("{poll}&wait=120")).await.header("entente-next-cursor"), "cur_1");
    }
    assert_eq!(bob.get(&poll).await.ok(), json!([sent]), "it is there, and nobody has read it");
    world.end().await;
}
