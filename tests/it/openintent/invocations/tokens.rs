//! Tokens that the server fetches for a call (OAuth 2): with client credentials and with refresh tokens.

use futures_util::future::join_all;

use crate::openintent::invocations::Stage;
use crate::openintent::vaults::places_of;
use entente_harness::vaults::call;
use entente_harness::vaults::credential;
use entente_harness::vaults::grant;
use entente_harness::{Act, Receiver, Setup, Value, World, json};

fn connection(tokens: &Receiver) -> Value {
    json!({ "token_url": format!("http://{}/token", tokens.address) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_its_token_once_and_uses_it_until_it_is_over() {
    let tokens = Receiver::start().await;
    tokens.does([
        Act::Say(200, r#"{"access_token":"token-number-one","expires_in":3600}"#),
        Act::Say(200, r#"{"access_token":"token-number-two","expires_in":3600}"#),
        Act::Say(500, ""),
    ]);
    let secret = json!({ "client_id": "entente", "client_secret": "hush-hush-hush" });
    let stage = Stage::set("oauth2_client_credentials", secret, connection(&tokens), json!({})).await;
    stage.receiver.does([
        Act::Say(200, "{}"),
        Act::Say(200, r#"{"you_sent":"token-number-one"}"#),
        Act::Say(401, ""),
        Act::Say(200, "{}"),
        Act::Say(401, ""),
    ]);
    for _ in 0..2 {
        let done = call(&stage.ada, "echo", json!({})).await;
        assert_eq!(done["status"], "success");
        assert!(!done.to_string().contains("token-number-one"));
    }
    let asked = tokens.take();
    assert_eq!(asked.len(), 1, "the second call has the same token");
    assert_eq!(asked[0].text, "grant_type=client_credentials");
    assert_eq!(asked[0].headers["authorization"], "Basic ZW50ZW50ZTpodXNoLWh1c2gtaHVzaA==");
    assert_eq!(stage.receiver.take()[1].headers["authorization"], "Bearer token-number-one");
    // A refused token is replaced, once per call.
    assert_eq!(call(&stage.ada, "echo", json!({})).await["status"], "success");
    let sent: Vec<String> =
        stage.receiver.take().iter().map(|got| got.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["Bearer token-number-one", "Bearer token-number-two"]);
    let done = call(&stage.ada, "echo", json!({})).await;
    assert_eq!((&done["status"], &done["error_code"]), (&json!("error"), &json!("no_token")));
    for secret in ["hush-hush-hush", "token-number-one", "token-number-two"] {
        assert_eq!(places_of(&stage.world, secret).await, Vec::<String>::new());
    }
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refreshed_token_is_kept_sealed_with_its_successor() {
    let tokens = Receiver::start().await;
    tokens
        .does([Act::Say(200, r#"{"access_token":"the-second-token","refresh_token":"the-second-refresh"}"#)]);
    let secret = json!({ "access_token": "the-first-token", "refresh_token": "the-first-refresh" });
    let stage = Stage::set("oauth2_token", secret, connection(&tokens), json!({})).await;
    stage.receiver.does([Act::Say(401, ""), Act::Say(200, "{}")]);
    assert_eq!(call(&stage.ada, "echo", json!({})).await["status"], "success");
    assert_eq!(tokens.take()[0].text, "grant_type=refresh_token&refresh_token=the-first-refresh");
    // The next call, on any server, uses the stored token.
    stage.receiver.take();
    call(&stage.ada, "echo", json!({})).await;
    assert_eq!(stage.one().headers["authorization"], "Bearer the-second-token");
    let path = format!("/credentials/{}", stage.credential["id"].as_str().unwrap());
    let found = stage.ada.get(&path).await.is(200);
    assert_eq!(
        (&found["version"], &found["secret_members"]),
        (&json!(2), &json!(["access_token", "refresh_token"]))
    );
    for secret in ["the-first-token", "the-first-refresh", "the-second-token", "the-second-refresh"] {
        assert_eq!(places_of(&stage.world, secret).await, Vec::<String>::new());
    }
    stage.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_refresh_token_is_kept_wherever_the_token_was() {
    for secret in [
        json!({ "refresh_token": "the-first-refresh", "client_id": "entente", "client_secret": "hush-hush-hush" }),
        json!({ "token": "the-first-token", "refresh_token": "the-first-refresh" }),
    ] {
        let tokens = Receiver::start().await;
        tokens.does([
            Act::Say(200, r#"{"access_token":"the-second-token","refresh_token":"the-second-refresh"}"#),
            Act::Say(200, r#"{"access_token":"the-third-token","refresh_token":""}"#),
        ]);
        let stage = Stage::set("oauth2_token", secret, connection(&tokens), json!({})).await;
        stage.receiver.does([Act::Admit("Bearer the-second-token")]);
        assert_eq!(call(&stage.ada, "echo", json!({})).await["status"], "success");
        assert!(tokens.take()[0].text.ends_with("refresh_token=the-first-refresh"));
        // Another server, or this one after a restart, has the token and its refresh token.
        let second = World::on(Setup::default(), stage.world.database.clone()).await;
        let ada = second.agent("agent.ada").await;
        assert_eq!(call(&ada, "echo", json!({})).await["status"], "success");
        assert_eq!(tokens.count(), 0);
        stage.receiver.does([Act::Admit("Bearer the-third-token")]);
        assert_eq!(call(&ada, "echo", json!({})).await["status"], "success");
        assert!(tokens.take()[0].text.ends_with("refresh_token=the-second-refresh"));
        assert_eq!(call(&stage.ada, "echo", json!({})).await["status"], "success");
        assert_eq!(tokens.count(), 0, "an empty one replaces nothing, and keeps no token from being kept");
        for secret in ["the-second-refresh", "the-second-token", "the-third-token"] {
            assert_eq!(places_of(&stage.world, secret).await, Vec::<String>::new());
        }
        second.server.stop().await;
        stage.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_calls_at_once_one_asks_for_the_next_token() {
    let tokens = Receiver::start().await;
    let rotated = r#"{"access_token":"the-second-token","refresh_token":"the-second-refresh"}"#;
    tokens.does([Act::Say(200, rotated), Act::Say(400, "")]);
    let secret = json!({ "access_token": "the-first-token", "refresh_token": "the-first-refresh" });
    let stage = Stage::set("oauth2_token", secret, connection(&tokens), json!({})).await;
    stage.receiver.does([Act::Admit("Bearer the-second-token")]);
    let calls = (0..8).map(|_| call(&stage.ada, "echo", json!({})));
    for done in join_all(calls).await {
        assert_eq!(done["status"], "success", "{done}");
    }
    assert_eq!(tokens.count(), 1, "a refresh token is used once");
    // Concurrent calls do not each request a client token either.
    tokens
        .does([Act::Say(200, r#"{"access_token":"the-second-token","expires_in":3600}"#), Act::Say(400, "")]);
    let home = stage.credential["vault_id"].as_str().unwrap();
    let metadata = json!({ "base_url": format!("http://{}", stage.receiver.address), "token_url": connection(&tokens)["token_url"] });
    let secret = json!({ "client_id": "entente", "client_secret": "hush-hush-hush" });
    let put = json!({ "auth_type": "oauth2_client_credentials", "secret": secret, "metadata": metadata });
    let client = credential(&stage.ada, home, put).await;
    grant(&stage.ada, &client, "agent.ada", json!({ "scopes": ["lookup"] })).await;
    let calls = (0..8).map(|_| call(&stage.ada, "lookup", json!({})));
    for done in join_all(calls).await {
        assert_eq!(done["status"], "success", "{done}");
    }
    assert_eq!(tokens.count(), 2);
    // The token belongs to that configuration; after any change another one is requested.
    tokens.does([Act::Say(200, r#"{"access_token":"the-second-token","expires_in":3600}"#)]);
    let mut changed = client["metadata"].clone();
    changed["timeout_ms"] = json!(5_000);
    let path = format!("/credentials/{}", client["id"].as_str().unwrap());
    stage.ada.patch(&path, json!({ "metadata": changed })).await.is(200);
    call(&stage.ada, "lookup", json!({})).await;
    assert_eq!(tokens.count(), 3);
    stage.world.end().await;
}
