//! Tokens that the server fetches for a call (OAuth 2): of clients, and with refresh tokens.

use crate::harness::{Act, Receiver, Value, json};
use crate::invocations::{Stage, call};
use crate::vaults::places_of;

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
    // A token that is refused is replaced, once for the call.
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
    // The next call, on whichever server, begins with what was kept.
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
