//! API keys: shown once at creation, rotated with an overlap, expired by time, and refused if not
//! valid. `revocations.rs` covers revocation, `powers.rs` permissions, `rates.rs` rate limits.

use entente_domain::identity::keys::Presented;

use entente_harness::keys::{Chosen, forgeries, key};
use entente_harness::{Client, Reply, Value, World, json};

/// Returns a key's current expiry from the list.
async fn end(admin: &Client, record: &Value) -> Value {
    let list =
        admin.get(&format!("/principals/{}/keys", record["principal_id"].as_str().unwrap())).await.ok();
    let found = list.as_array().unwrap().iter().find(|key| key["id"] == record["id"]);
    found.unwrap()["expires_at"].clone()
}

/// Asserts the uniform answer to unauthenticated requests.
#[track_caller]
pub fn shut(reply: &Reply) {
    reply.refused(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_once_and_kept_nowhere() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ask = json!({
        "label": "laptop", "scopes": ["intents:read", "channels:read"], "act_as": ["agent.*"],
        "dialect": "standard", "rate_per_second": 50, "expires_at": "2027-01-01T00:00:00Z"
    });
    let made = key(&world, &admin, "service.ci", ask.clone()).await;
    let (head, secret) = made.secret.rsplit_once('_').unwrap();
    assert!(head.starts_with("ent_") && head.len() == 16 && secret.len() == 50, "the form of a key");
    let expected = json!({
        "id": made.record["id"], "prefix": head, "principal_id": "service.ci", "label": "laptop",
        "scopes": ["intents:read", "channels:read"], "act_as": ["agent.*"], "dialect": "standard",
        "rate_per_second": 50, "created_by": "service.bootstrap", "created_at": "2026-11-21T08:00:00.000000Z",
        "expires_at": "2027-01-01T00:00:00.000000Z", "revoked_at": null, "rotated_from": null, "last_used_at": null,
        "authority": null
    });
    assert_eq!(made.record, expected);
    assert_eq!(admin.get("/principals/service.ci/keys").await.ok(), json!([expected]));
    // A retry gets the record without the key, which was already shown.
    let path = "/principals/service.ci/keys";
    let first = admin.once("k").post(path, json!({})).await.is(201);
    let again = admin.once("k").post(path, json!({})).await.is(201);
    assert!(first["key"].is_string());
    assert_eq!(again, json!({ "key": null, "record": first["record"] }));
    admin.once("k").post(path, ask).await.refused(409, "idempotency_mismatch");
    // After use, rotation and revocation, the key is neither in the log nor in any table.
    made.client.get("/principals/me").await.ok();
    let next = made.client.post(&format!("{}/rotate", made.path()), json!({})).await.is(201);
    let next = next["key"].as_str().unwrap().to_owned();
    admin.delete(&made.path()).await.ok();
    world.sweep().await;
    let log = admin.get("/audit?limit=1000").await.text;
    assert!(log.contains("key.created") && log.contains("key.rotated") && log.contains("key.revoked"));
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
    )
    .fetch_all(&world.ctx().pool)
    .await
    .unwrap();
    assert!(tables.len() > 10, "{tables:?}");
    for shown in [made.secret.as_str(), next.as_str(), first["key"].as_str().unwrap()] {
        let secret = &shown[17..];
        assert!(!log.contains(secret));
        for table in &tables {
            let count = format!("SELECT count(*) FROM {table} AS t WHERE t::text LIKE '%' || $1 || '%'");
            let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count))
                .bind(secret)
                .fetch_one(&world.ctx().pool)
                .await
                .unwrap();
            assert_eq!(count, 0, "a key stands in {table}");
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_headers_are_equal() {
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({})).await;
    let me = made.client.get("/principals/me").await.ok();
    assert_eq!(me["principal_id"], "agent.ada");
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let bearer = world.anon().with("authorization", &format!("{scheme} {}", made.secret));
        let mut same = bearer.get("/principals/me").await.ok();
        same["key"]["last_used_at"] = me["key"]["last_used_at"].clone();
        assert_eq!(same, me);
    }
    // An empty header counts as absent.
    let both = world.anon().with("x-api-key", "").with("authorization", &format!("Bearer {}", made.secret));
    both.get("/principals/me").await.ok();
    shut(&world.anon().with("authorization", &made.secret).get("/principals/me").await);
    shut(&world.anon().with("authorization", &format!("Basic {}", made.secret)).get("/principals/me").await);
    world.end().await;
}

/// Returns a key with the public part of another, its own secret and a valid checksum.
fn forged(original: &str) -> String {
    forgeries(original, 1, 0).next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_with_a_key_the_answer_is_the_same() {
    let world = World::start().await;
    let admin = world.admin().await;
    let good = key(&world, &admin, "agent.ada", json!({})).await;
    let expired = key(&world, &admin, "agent.ada", json!({ "expires_at": "2026-11-21T08:00:01Z" })).await;
    let revoked = key(&world, &admin, "agent.ada", json!({})).await;
    admin.delete(&revoked.path()).await.ok();
    world.clock.advance(1);
    let mut mistyped = good.secret.clone();
    let last = if mistyped.pop() == Some('A') { 'B' } else { 'A' };
    mistyped.push(last);
    let unknown = Presented::mint(&Chosen(std::sync::Mutex::new(vec![1]))).reveal();
    let anon = world.anon().with("x-request-id", "the-same");
    let nobody = anon.get("/intents").await;
    shut(&nobody);
    assert_eq!(nobody.header("www-authenticate"), "Bearer realm=\"entente\"");
    assert_eq!(nobody.json()["message"], "Invalid or missing API key", "OI-3.2.5");
    let long = "x".repeat(4000);
    for wrong in [
        "",
        "nonsense",
        &long,
        "ent_",
        &good.secret[..16],
        &mistyped,
        &unknown,
        &forged(&good.secret),
        &expired.secret,
        &revoked.secret,
    ] {
        // Twice: first looked up, then from the cache of refused keys.
        for _ in 0..2 {
            let reply = anon.with("x-api-key", wrong).get("/intents").await;
            shut(&reply);
            assert_eq!(reply.text, nobody.text);
        }
    }
    good.client.get("/intents").await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_ends_the_instant_it_expires() {
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({ "expires_at": "2026-11-21T08:01:00Z" })).await;
    world.clock.advance(59);
    made.client.get("/intents").await.ok();
    world.clock.advance(1);
    shut(&made.client.get("/intents").await);
    let path = "/principals/agent.ada/keys";
    for past in ["2026-11-21T08:01:00Z", "2020-01-01T00:00:00Z"] {
        admin.post(path, json!({ "expires_at": past })).await.refused(422, "already_expired");
    }
    // Nothing revives it, not even its own rotation.
    admin.post(&format!("{}/rotate", made.path()), json!({})).await.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_works_until_its_overlap_ends() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ask =
        json!({ "label": "l", "scopes": ["intents:read"], "act_as": ["agent.x*"], "rate_per_second": 90 });
    let old = key(&world, &admin, "service.ci", ask).await;
    let rotate = format!("{}/rotate", old.path());
    let made = old.client.once("r").post(&rotate, json!({ "overlap_seconds": 60 })).await.is(201);
    let new = world.client(made["key"].as_str().unwrap());
    assert_eq!(
        old.client.once("r").post(&rotate, json!({ "overlap_seconds": 60 })).await.is(201),
        json!({ "key": null, "record": made["record"] })
    );
    for member in ["principal_id", "label", "scopes", "act_as", "dialect", "rate_per_second", "expires_at"] {
        assert_eq!(made["record"][member], old.record[member], "{member}");
    }
    assert_eq!(made["record"]["rotated_from"], old.record["id"]);
    assert_ne!(made["record"]["prefix"], old.record["prefix"]);
    assert_eq!(end(&admin, &old.record).await, "2026-11-21T08:01:00.000000Z");
    world.clock.advance(59);
    old.client.get("/intents").await.ok();
    new.get("/intents").await.ok();
    world.clock.advance(1);
    shut(&old.client.get("/intents").await);
    new.get("/intents").await.ok();
    // The overlap defaults to a day, also without a body; with zero the old key ends at once.
    let id = made["record"]["id"].as_str().unwrap();
    let third = new.send("POST", &format!("/keys/{id}/rotate"), None).await.is(201);
    assert_eq!(end(&admin, &made["record"]).await, "2026-11-22T08:01:00.000000Z");
    let third_client = world.client(third["key"].as_str().unwrap());
    let third_path = format!("/keys/{}/rotate", third["record"]["id"].as_str().unwrap());
    let tenth = json!({ "overlap_seconds": 315_360_001 });
    third_client.post(&third_path, tenth).await.refused(422, "invalid_request");
    third_client.post(&third_path, json!({ "overlap_seconds": -1 })).await.refused(422, "invalid_request");
    third_client.post(&third_path, json!({ "overlap_seconds": 0 })).await.is(201);
    shut(&third_client.get("/intents").await);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_never_outlives_its_key() {
    let world = World::start().await;
    let admin = world.admin().await;
    let old = key(&world, &admin, "agent.ada", json!({ "expires_at": "2026-11-21T09:00:00Z" })).await;
    let made = old.client.post(&format!("{}/rotate", old.path()), json!({})).await.is(201);
    assert_eq!(made["record"]["expires_at"], "2026-11-21T09:00:00.000000Z");
    assert_eq!(end(&admin, &old.record).await, "2026-11-21T09:00:00.000000Z", "the overlap adds nothing");
    world.clock.advance(3600);
    shut(&old.client.get("/intents").await);
    shut(&world.client(made["key"].as_str().unwrap()).get("/intents").await);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_is_written_down() {
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({})).await;
    let last = async || admin.get("/principals/agent.ada/keys").await.ok()[0]["last_used_at"].clone();
    world.clock.advance(30);
    made.client.get("/intents").await.ok();
    world.sweep().await;
    assert_eq!(last().await, "2026-11-21T08:00:30.000000Z");
    // Also if the request was refused, and if the key is not used again.
    world.clock.advance(30);
    made.client.get("/audit").await.refused(403, "scope_missing");
    world.pass(600).await;
    assert_eq!(last().await, "2026-11-21T08:01:00.000000Z");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_asks_for_a_key_are_refused() {
    let world = World::start().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.ada", "kind": "agent" })).await.is(201);
    let path = "/principals/agent.ada/keys";
    for bad in [
        json!({ "label": "x".repeat(201) }),
        json!({ "scopes": [] }),
        json!({ "scopes": ["intents:admin"] }),
        json!({ "scopes": "admin" }),
        json!({ "scopes": vec!["admin"; 201] }),
        json!({ "act_as": [""] }),
        json!({ "act_as": ["role:x"] }),
        json!({ "act_as": ["x".repeat(201)] }),
        json!({ "act_as": vec!["agent.x"; 201] }),
        json!({ "dialect": "klingon" }),
        json!({ "rate_per_second": -1 }),
        json!({ "rate_per_second": 1_000_001 }),
        json!({ "rate_per_second": 3_000_000_000_u32 }),
        json!({ "expires_at": "tomorrow" }),
    ] {
        admin.post(path, bad).await.refused(422, "invalid_request");
    }
    admin.post("/principals/agent.nobody/keys", json!({})).await.refused(404, "not_found");
    assert_eq!(admin.get(path).await.ok(), json!([]), "nothing was made");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_before_this_one_knows_the_keys_of_this_one() {
    use argon2::PasswordVerifier as _;
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({})).await;
    let next = made.client.post(&format!("{}/rotate", made.path()), json!({})).await.is(201);
    for secret in [made.secret.as_str(), next["key"].as_str().unwrap()] {
        let (kept, known): (String, bool) = sqlx::query_as(
            "SELECT secret_hash, secret_sha256 = sha256($1::bytea) FROM keys WHERE public_id = $2",
        )
        .bind(secret.as_bytes())
        .bind(&secret[4..16])
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
        assert!(known && kept.starts_with("$argon2id$"), "{kept}");
        // The check of that release.
        let hash = argon2::PasswordHash::new(&kept).unwrap();
        assert!(argon2::Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok());
        assert!(argon2::Argon2::default().verify_password(b"another", &hash).is_err());
    }
    world.end().await;
}
