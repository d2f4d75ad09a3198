//! OAuth for hosts that insist on it: metadata, tokens for client credentials, and their end.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entente_domain::identity::keys::Scope;
use entente_domain::rate::Verdict;
use entente_kernel::identity::{access_tokens, authentication};

use super::{Era, Mcp};
use entente_harness::keys::{Made, key};
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Client, Setup, Value, World, http, json};

/// A response of the token endpoint.
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Value,
}

impl Answer {
    /// Asserts an error (RFC 6749 §5.2).
    #[track_caller]
    fn denied(&self, status: u16, error: &str) {
        assert_eq!((self.status, &self.body["error"]), (status, &json!(error)), "{}", self.body);
        assert!(self.body["error_description"].as_str().unwrap().len() > 20, "{}", self.body);
        assert_eq!(self.headers["cache-control"], "no-store");
        assert_eq!(self.headers.contains_key("www-authenticate"), status == 401);
    }

    /// Asserts a token and returns it.
    #[track_caller]
    fn token(&self) -> String {
        assert_eq!((self.status, &self.body["token_type"]), (200, &json!("Bearer")), "{}", self.body);
        assert_eq!(self.headers["cache-control"], "no-store");
        self.body["access_token"].as_str().unwrap().to_owned()
    }
}

/// Sends a form to the token endpoint; `basic` are id and secret for the header.
async fn token(world: &World, basic: Option<(&str, &str)>, form: &str) -> Answer {
    let request = http().post(format!("http://{}/oauth/token", world.address));
    let mut request = request.header("content-type", "application/x-www-form-urlencoded");
    if let Some((id, secret)) = basic {
        let header = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        request = request.header("authorization", header);
    }
    let response = request.body(form.to_owned()).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    Answer { status, headers, body }
}

const GRANT: &str = "grant_type=client_credentials";

fn bearer(world: &World, token: &str) -> Mcp {
    Mcp::new(&world.anon().with("authorization", &format!("Bearer {token}")), Era::Handshake)
}

async fn ada(world: &World) -> Made {
    made(world, &world.admin().await).await
}

async fn made(world: &World, admin: &Client) -> Made {
    key(world, admin, "agent.ada", json!({ "scopes": ["intents:read", "channels:read"] })).await
}

#[tokio::test]
async fn the_metadata_leads_to_the_token_endpoint() {
    let world = World::start().await;
    let base = format!("http://{}", world.address);
    let anon = world.anon();
    for (path, resource) in [("", base.clone()), ("/mcp", format!("{base}/mcp"))] {
        let found = anon.get(&format!("//.well-known/oauth-protected-resource{path}")).await.is(200);
        assert_eq!((&found["resource"], &found["authorization_servers"]), (&json!(resource), &json!([base])));
        assert_eq!(found["bearer_methods_supported"], json!(["header"]));
    }
    let server = anon.get("//.well-known/oauth-authorization-server").await.is(200);
    assert_eq!(
        (&server["issuer"], &server["token_endpoint"]),
        (&json!(base), &json!(format!("{base}/oauth/token")))
    );
    assert_eq!(server["grant_types_supported"], json!(["client_credentials"]));
    assert!(server["scopes_supported"].as_array().unwrap().contains(&json!("intents:read")));
    let refused =
        anon.get("//oauth/authorize?response_type=code&redirect_uri=https://evil.example").await.is(400);
    assert_eq!(refused["error"], "unsupported_response_type");
    // A name that was pointed at this machine gets no metadata with that name.
    let rebound = anon.with("host", "evil.example");
    rebound.get("//.well-known/oauth-protected-resource").await.refused(403, "forbidden");
    world.end().await;
    let settings = vec![("ENTENTE_PUBLIC_URL", "https://entente.example.com")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let found = world.anon().get("//.well-known/oauth-protected-resource/mcp").await.is(200);
    assert_eq!(found["resource"], "https://entente.example.com/mcp");
    world.end().await;
}

#[tokio::test]
async fn client_credentials_open_everything_that_the_key_opens() {
    let world = World::start().await;
    let ada = ada(&world).await;
    let id = ada.record["id"].as_str().unwrap();
    let post = format!("{GRANT}&client_id=agent.ada&client_secret={}", ada.secret);
    let first = token(&world, Some(("agent.ada", &ada.secret)), GRANT).await;
    let made = first.token();
    assert_ne!(made, ada.secret);
    assert_eq!(
        (&first.body["expires_in"], &first.body["scope"]),
        (&json!(3_600), &json!("intents:read channels:read"))
    );
    // By the key's id, in the body, with the secret alone, and for this server as a resource.
    let resource =
        format!("{post}&resource=http://{}/mcp&scope=intents:read%20jobs:read+admin", world.address);
    let bare = format!("{GRANT}&client_secret={}", ada.secret);
    // A member without a value is none (RFC 6749 §3.2).
    let empty = format!("{GRANT}&client_id=&client_secret=&scope=&resource=");
    for again in [
        token(&world, Some((id, &ada.secret)), &empty).await,
        token(&world, Some((id, &ada.secret)), GRANT).await,
        token(&world, None, &post).await,
        token(&world, None, &resource).await,
        token(&world, None, &bare).await,
    ] {
        assert_eq!(again.token(), made, "a key has one token at a time, however often a client asks");
    }
    let mcp = bearer(&world, &made);
    let me = mcp.ok("whoami", json!({})).await;
    assert_eq!(
        (&me["agent"], &me["scopes"]),
        (&json!("agent.ada"), &json!(["intents:read", "channels:read"]))
    );
    assert_eq!(me["key_expires_at"], "2026-11-21T09:00:00.000000Z", "it ends with the token");
    mcp.http.get("/intents").await.ok();
    mcp.refused("create_intent", json!({ "title": "x" }), "scope_missing").await;
    world.end().await;
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_with_its_key() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = made(&world, &admin).await;
    let ask = async || token(&world, Some(("agent.ada", &ada.secret)), GRANT).await;
    let first = ask().await.token();
    let mcp = bearer(&world, &first);
    mcp.ok("whoami", json!({})).await;
    world.clock.advance(1_800);
    let later = ask().await;
    assert_ne!(later.token(), first);
    mcp.ok("whoami", json!({})).await;
    world.clock.advance(1_800);
    mcp.request("tools/list", json!({})).await.refused(401, "unauthenticated");
    let renewed = bearer(&world, &later.token());
    renewed.ok("whoami", json!({})).await;
    // Revoking the key ends its tokens at once, those that were used and those that were not.
    let unused = ask().await.token();
    admin.delete(&ada.path()).await.is(200);
    for token in [later.token(), unused] {
        let shut = bearer(&world, &token);
        shut.request("tools/list", json!({})).await.refused(401, "unauthenticated");
    }
    ask().await.denied(401, "invalid_client");
    world.end().await;
}

#[tokio::test]
async fn a_token_is_no_key() {
    let world = World::start().await;
    let ada = ada(&world).await;
    let made = token(&world, Some(("agent.ada", &ada.secret)), GRANT).await.token();
    // It makes no further tokens, so it cannot outlive itself.
    token(&world, Some(("agent.ada", &made)), GRANT).await.denied(401, "invalid_client");
    // Nor does it open a session, which could be resumed after its end.
    let mut socket = Socket::connect(world.address, "/arcp").await;
    let told = socket.ask("session.hello", hello(&made, &FEATURES)).await;
    assert_eq!(told["payload"]["code"], "UNAUTHENTICATED", "{told}");
    // A changed or foreign token opens nothing.
    let other = World::start().await;
    for forged in [format!("{made}x"), made.replace('.', ".A"), "oat_".to_owned(), "oat_a.b".to_owned()] {
        let shut = bearer(&world, &forged);
        shut.request("tools/list", json!({})).await.refused(401, "unauthenticated");
    }
    let shut = bearer(&other, &made);
    shut.request("tools/list", json!({})).await.refused(401, "unauthenticated");
    other.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_token_makes_nothing_that_outlives_it() {
    let world = World::start().await;
    let admin = world.admin().await;
    world.human("human.grace").await;
    let all = json!(Scope::ALL.map(Scope::as_str));
    let boss = key(&world, &admin, "service.boss", json!({ "scopes": all, "act_as": ["*"] })).await;
    let made = token(&world, Some(("service.boss", &boss.secret)), GRANT).await.token();
    let by_token = world.anon().with("authorization", &format!("Bearer {made}"));
    let rotate = format!("{}/rotate", boss.path());
    for (path, body) in [
        (rotate.as_str(), json!({})),
        ("/principals/service.boss/keys", json!({})),
        ("/people/human.grace/links", json!({})),
    ] {
        by_token.post(path, body.clone()).await.refused(403, "forbidden");
        boss.client.post(path, body).await.is(201);
    }
    let password = json!({ "password": "a long enough password" });
    by_token.put("/people/human.grace/password", password).await.refused(403, "forbidden");
    // Who finds a token in foreign hands can end all of it with that token.
    by_token.get("/principals/me").await.ok();
    by_token.delete(&boss.path()).await.is(200);
    by_token.get("/principals/me").await.refused(401, "unauthenticated");
    world.end().await;
}

#[tokio::test]
async fn a_sealed_token_for_a_person_opens_nothing() {
    let world = World::start().await;
    let grace = world.human("human.grace").await;
    grace.get("/principals/me").await.ok();
    let grant = authentication::authenticate(world.ctx(), "key-of-human.grace", None).await.unwrap();
    let sealed = access_tokens::issue(world.ctx(), &grant).unwrap().token;
    bearer(&world, &sealed).request("tools/list", json!({})).await.refused(401, "unauthenticated");
    world.end().await;
}

#[tokio::test]
async fn a_key_and_its_tokens_share_its_limits() {
    let world = World::start().await;
    let ada = ada(&world).await;
    let ask = async || token(&world, Some(("agent.ada", &ada.secret)), GRANT).await.token();
    let first = ask().await;
    world.clock.advance(1_800);
    let second = ask().await;
    let mut grants = Vec::new();
    for credential in [&ada.secret, &first, &second] {
        grants.push(authentication::of_request(world.ctx(), credential, None).await.unwrap());
    }
    let at = Duration::from_secs(1_000);
    let admitted = grants.iter().map(|grant| grant.admit(1, at).unwrap().1);
    let passed: Vec<bool> = admitted.map(|verdict| matches!(verdict, Verdict::Pass { .. })).collect();
    assert_eq!(passed, [true, true, false], "a burst of two for all of them");
    let open: Vec<_> = grants.iter().map(|grant| grant.open_request(2, &world.ctx().quotas)).collect();
    assert_eq!(open.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    world.end().await;
}

#[tokio::test]
async fn errors_are_those_of_oauth() {
    let world = World::start().await;
    let ada = ada(&world).await;
    world.human("human.grace").await;
    let basic = Some(("agent.ada", ada.secret.as_str()));
    token(&world, basic, "").await.denied(400, "invalid_request");
    token(&world, basic, "grant_type=").await.denied(400, "invalid_request");
    token(&world, None, &format!("{GRANT}&client_secret=")).await.denied(401, "invalid_client");
    token(&world, basic, "grant_type=authorization_code&code=x").await.denied(400, "unsupported_grant_type");
    token(&world, basic, &format!("{GRANT}&{GRANT}")).await.denied(400, "invalid_request");
    token(&world, basic, &format!("{GRANT}&client_secret=x")).await.denied(400, "invalid_request");
    token(&world, basic, &format!("{GRANT}&client_id=agent.eve")).await.denied(400, "invalid_request");
    token(&world, basic, &format!("{GRANT}&resource=https://elsewhere.example/mcp"))
        .await
        .denied(400, "invalid_target");
    for scope in ["jobs:read", "intents:read%20fly"] {
        token(&world, basic, &format!("{GRANT}&scope={scope}")).await.denied(400, "invalid_scope");
    }
    token(&world, None, GRANT).await.denied(401, "invalid_client");
    token(&world, Some(("agent.eve", &ada.secret)), GRANT).await.denied(401, "invalid_client");
    token(&world, Some(("agent.bob", "wrong")), GRANT).await.denied(401, "invalid_client");
    token(&world, Some(("human.grace", "key-of-human.grace")), GRANT)
        .await
        .denied(400, "unauthorized_client");
    let reply =
        world.anon().post("//oauth/token", json!({ "grant_type": "client_credentials" })).await.is(400);
    assert_eq!(reply["error"], "invalid_request");
    world.end().await;
}

#[tokio::test]
async fn attempts_are_limited_like_logins() {
    let world = World::start().await;
    let mut last = None;
    for _ in 0..12 {
        last = Some(token(&world, Some(("agent.ada", "wrong")), GRANT).await);
    }
    let last = last.unwrap();
    last.denied(429, "temporarily_unavailable");
    assert!(last.headers.contains_key("retry-after"));
    // Attempts without an id hinder no other client without one.
    let ada = ada(&world).await;
    for _ in 0..12 {
        token(&world, None, &format!("{GRANT}&client_secret=wrong")).await;
    }
    token(&world, None, &format!("{GRANT}&client_secret={}", ada.secret)).await.token();
    world.end().await;
}

#[tokio::test]
async fn a_page_of_a_configured_origin_reads_it() {
    let settings = vec![("ENTENTE_MCP_ORIGINS", "https://app.example.com")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let page = world.anon().with("origin", "https://app.example.com");
    for path in ["//.well-known/oauth-protected-resource/mcp", "//.well-known/oauth-authorization-server"] {
        let reply = page.get(path).await;
        assert_eq!(reply.header("access-control-allow-origin"), "https://app.example.com");
    }
    let preflight = page.send("OPTIONS", "//oauth/token", None).await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-methods")), (204, "GET, POST"));
    let refused = Mcp::new(&page, Era::Handshake).request("tools/list", json!({})).await;
    assert_eq!(refused.header("access-control-expose-headers"), "WWW-Authenticate");
    world.end().await;
}
