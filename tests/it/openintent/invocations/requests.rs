//! The request of a call, and its response.

use crate::openintent::invocations::Stage;
use crate::openintent::vaults::places_of;
use entente_harness::vaults::SECRET;
use entente_harness::vaults::call;
use entente_harness::{Act, Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_with_the_secret_that_the_agent_never_sees() {
    let stage = Stage::plain().await;
    stage.receiver.does([Act::Say(200, r#"{"hits":[1,2]}"#)]);
    let asked = json!({
        "tool_name": "web_search", "agent_id": "agent.ada", "parameters": { "q": "agents", "api_token": "of-mine" },
    });
    let done = stage.ada.post("/tools/invoke", asked).await.is(200);
    assert_eq!((&done["status"], &done["result"]), (&json!("success"), &json!({ "hits": [1, 2] })));
    assert_eq!((&done["tool_name"], &done["service"]), (&json!("web_search"), &json!("search")));
    assert_eq!((&done["grant_id"], &done["http_status"]), (&stage.grant["id"], &json!(200)));
    assert_eq!((&done["error"], &done["error_code"]), (&Value::Null, &Value::Null));
    let got = stage.one();
    assert_eq!(got.path, "/api/web_search");
    assert_eq!(got.headers["authorization"], SECRET);
    assert_eq!(got.body(), json!({ "q": "agents", "api_token": "of-mine" }));
    assert!(!got.headers.contains_key("x-api-key") && !got.headers.contains_key("x-agent-id"));
    // The call is recorded, without members that are named like secrets.
    let [used]: [Value; 1] = stage.uses().await.try_into().unwrap();
    assert_eq!((&used["id"], &used["invocation_id"]), (&done["invocation_id"], &done["invocation_id"]));
    assert_eq!(used["parameters"], json!({ "q": "agents", "api_token": "[REDACTED]" }));
    assert_eq!((&used["status"], &used["reported"]), (&json!("success"), &json!(false)));
    assert_eq!((&used["response_bytes"], &used["result"]), (&json!(14), &done["result"]));
    assert_eq!(places_of(&stage.world, SECRET).await, Vec::<String>::new());
    assert_eq!(places_of(&stage.world, "of-mine").await, Vec::<String>::new());
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_says_where_everything_goes() {
    let endpoints = json!({
        "web_search": { "path": "/v1/search?lang=en", "method": "GET", "headers": { "X-Team": "research" } },
        "echo": { "path": "/users/{user}/notes", "method": "PUT", "param_mapping": "path" },
    });
    let connection =
        json!({ "endpoints": endpoints, "auth": { "header_name": "X-API-Key", "header_prefix": "Key" } });
    let stage = Stage::set("api_key", json!(SECRET), connection, json!({})).await;
    call(&stage.ada, "web_search", json!({ "q": "a b&c", "tags": ["x", "y"], "n": 3 })).await;
    let got = stage.one();
    assert_eq!(got.path, "/api/v1/search?lang=en&n=3&q=a+b%26c&tags=x&tags=y");
    assert_eq!(
        (got.headers["x-api-key"].as_str(), got.headers["x-team"].as_str()),
        (&*format!("Key {SECRET}"), "research")
    );
    call(&stage.ada, "echo", json!({ "user": "a/../b c", "text": "hello" })).await;
    let got = stage.one();
    assert_eq!(
        (got.path.as_str(), got.body()),
        ("/api/users/a%2F..%2Fb%20c/notes", json!({ "text": "hello" }))
    );
    // Parameters cannot redirect the call, and unsuitable ones are refused before anything is sent or recorded.
    let refused = [
        ("echo", json!({ "user": ".." }), 422),
        ("echo", json!({ "user": { "a": 1 } }), 422),
        ("echo", json!({}), 422),
        ("web_search", json!({ "q": { "nested": true } }), 422),
        ("web_search", json!({ "q": "x".repeat(3_000) }), 422),
        ("search", json!({}), 422),
        ("delete_all", json!({}), 403),
    ];
    for (tool, parameters, status) in refused {
        let ask = json!({ "tool_name": tool, "parameters": parameters });
        assert_eq!(stage.ada.post("/tools/invoke", ask).await.status, status, "{tool}");
    }
    let large = json!({ "tool_name": "web_search", "parameters": { "q": "x".repeat(65 * 1024) } });
    stage.ada.post("/tools/invoke", large).await.refused(413, "too_large");
    assert_eq!((stage.receiver.count(), stage.uses().await.len()), (0, 2));
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_go_where_their_type_says() {
    let cases = [
        ("bearer_token", json!(SECRET), json!({}), format!("Bearer {SECRET}")),
        (
            "basic_auth",
            json!({ "username": "ada", "password": "open:sesame" }),
            json!({}),
            "Basic YWRhOm9wZW46c2VzYW1l".to_owned(),
        ),
        ("custom", json!(SECRET), json!({ "auth": { "header_prefix": "Token" } }), format!("Token {SECRET}")),
        ("oauth2_token", json!(SECRET), json!({}), format!("Bearer {SECRET}")),
    ];
    for (kind, secret, connection, sent) in cases {
        let stage = Stage::set(kind, secret, connection, json!({})).await;
        call(&stage.ada, "echo", json!({})).await;
        assert_eq!(stage.one().headers["authorization"], sent, "{kind}");
        stage.world.end().await;
    }
    let query = json!({ "auth": { "location": "query", "query_param": "key" } });
    let stage = Stage::set("api_key", json!("a+b/c=="), query, json!({})).await;
    call(&stage.ada, "echo", json!({})).await;
    let got = stage.one();
    assert_eq!(got.path, "/api/echo?key=a%2Bb%2Fc%3D%3D");
    assert!(!got.headers.contains_key("authorization"));
    stage.world.end().await;
    // A credential without an HTTP endpoint is only stored.
    let stage = Stage::set("api_key", json!(SECRET), json!({ "base_url": null }), json!({})).await;
    let none = stage.ada.post("/tools/invoke", json!({ "tool_name": "echo" })).await;
    none.refused(422, "unprocessable");
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_everything_signed() {
    let stage =
        Stage::set("custom", json!({ "signing_secret": SECRET }), json!({ "adapter": "webhook" }), json!({}))
            .await;
    call(&stage.ada, "echo", json!({ "a": 1 })).await;
    let got = stage.one();
    assert_eq!(got.path, "/api");
    let expected = json!({ "tool_name": "echo", "parameters": { "a": 1 }, "timestamp": 1_795_248_000 });
    assert_eq!(got.body(), expected);
    let mut mac = <hmac::Hmac<sha2::Sha256> as hmac::KeyInit>::new_from_slice(SECRET.as_bytes()).unwrap();
    hmac::Mac::update(&mut mac, got.text.as_bytes());
    let hex = entente_domain::canonical::hex(&hmac::Mac::finalize(mac).into_bytes());
    assert_eq!(got.headers["x-openintent-signature"], format!("sha256={hex}"));
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_repeats_the_secret_does_not_give_it_away() {
    let stage = Stage::plain().await;
    let echoes: [&'static str; 4] = [
        r#"{"you_sent":"sk-live-8Jq2hVnPz0aYt51","sk-live-8Jq2hVnPz0aYt51":[{"deep":"xsk-live-8Jq2hVnPz0aYt51x"}]}"#,
        "plain sk-live-8Jq2hVnPz0aYt51 text",
        r#"["c2stbGl2ZS04SnEyaFZuUHowYVl0NTE="]"#,
        r#"{"escaped":"sk-live-\u0038Jq2hVnPz0aYt51"}"#,
    ];
    for echo in echoes {
        for status in [200, 500] {
            stage.receiver.does([Act::Say(status, echo)]);
            let reply = stage.ada.post("/tools/invoke", json!({ "tool_name": "echo" })).await;
            assert_eq!(reply.status, 200);
            assert!(reply.text.contains("[REDACTED]"), "{}", reply.text);
            for form in [SECRET, "c2stbGl2ZS04SnEyaFZuUHowYVl0NTE="] {
                assert!(!reply.text.contains(form), "{}", reply.text);
            }
        }
    }
    // A redirect that contains the secret is neither followed nor shown.
    let elsewhere = format!("http://{}/?key={SECRET}", stage.receiver.address);
    stage.receiver.take();
    stage.receiver.does([Act::Header(302, "location", elsewhere)]);
    let done = call(&stage.ada, "echo", json!({ "mine": SECRET })).await;
    assert_eq!((&done["status"], &done["error_code"]), (&json!("error"), &json!("redirected")));
    assert_eq!(stage.receiver.count(), 1);
    assert_eq!(places_of(&stage.world, SECRET).await, Vec::<String>::new());
    assert_eq!(places_of(&stage.world, "c2stbGl2ZS04SnEyaFZuUHowYVl0NTE=").await, Vec::<String>::new());
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_does_not_do_is_told() {
    let stage = Stage::set("api_key", json!(SECRET), json!({ "timeout_ms": 1 }), json!({})).await;
    let cases = [
        (Act::Say(404, r#"{"message":"no such page"}"#), "refused", json!(404)),
        (Act::Say(503, ""), "refused", json!(503)),
        (Act::Hang, "timed_out", Value::Null),
        (Act::Drip(200), "timed_out", Value::Null),
        (Act::Close, "unreachable", Value::Null),
        (Act::Flood, "too_large", Value::Null),
    ];
    let count = cases.len();
    for (act, code, status) in cases {
        stage.receiver.does([act.clone()]);
        stage.world.clock.advance(1);
        let done = call(&stage.ada, "echo", json!({})).await;
        assert_eq!((&done["status"], &done["error_code"]), (&json!("error"), &json!(code)), "{act:?}");
        assert_eq!(done["http_status"], status);
        assert!(done["error"].as_str().unwrap().len() > 10 && !done.to_string().contains(SECRET));
    }
    let uses = stage.uses().await;
    assert_eq!(uses.len(), count);
    assert_eq!(uses[count - 1]["result"]["message"], "no such page");
    assert_eq!(uses[count - 3]["error"]["code"], "timed_out");
    // A result that is no object is wrapped in one.
    for (said, shown) in [
        ("[1]", json!({ "value": [1] })),
        ("hello", json!({ "raw": "hello" })),
        ("", json!({})),
        (r#"{"a":"x\u0000y"}"#, json!({ "a": "x\u{fffd}y" })),
    ] {
        stage.receiver.does([Act::Say(200, said)]);
        assert_eq!(call(&stage.ada, "echo", json!({})).await["result"], shown);
    }
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_network_is_out_of_reach() {
    let stage = Stage::plain().await;
    let path = format!("/credentials/{}", stage.credential["id"].as_str().unwrap());
    for inner in [
        "http://169.254.169.254/latest",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://192.168.1.1:8443/",
        "http://api.example.com/",
        "https://api.example.com:22/",
        "ftp://api.example.com/",
    ] {
        let refused = stage.ada.patch(&path, json!({ "metadata": { "base_url": inner } })).await;
        refused.refused(422, "invalid_request");
        let token = json!({ "base_url": "https://api.example.com", "token_url": inner });
        stage.ada.patch(&path, json!({ "metadata": token })).await.refused(422, "invalid_request");
    }
    // Nor by name: the operator has not allowed `localhost`.
    let local = json!({ "base_url": format!("https://localhost:{}/", stage.receiver.address.port()) });
    let settings = vec![("ENTENTE_TOOL_ALLOW", "tools.internal")];
    let strict = entente_harness::Setup { settings, ..entente_harness::Setup::default() };
    let other = entente_harness::World::on(strict, stage.world.database.clone()).await;
    let ada = other.agent("agent.ada").await;
    ada.patch(&path, json!({ "metadata": local })).await.refused(422, "invalid_request");
    // A credential that was created under other settings is blocked when it is used.
    let done = call(&ada, "echo", json!({})).await;
    assert_eq!((&done["status"], &done["error_code"]), (&json!("denied"), &json!("blocked")));
    assert_eq!(stage.receiver.count(), 0);
    other.server.stop().await;
    stage.world.end().await;
}
