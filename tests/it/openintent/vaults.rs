//! Vaults and their credentials (RFC-0014): a secret leaves the vault only in calls, and only to its configured
//! service.

use entente::background::sweeps::Sweep;
use entente::config::Config;
use sqlx::AssertSqlSafe;

use entente_harness::vaults::{SECRET, credential, vault};
use entente_harness::{Client, Setup, VAULT_KEY, Value, World, json};

/// Another vault key of the operator: 32 bytes, each of them 9.
const OTHER_KEY: &str = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=";

/// Returns the id of an object.
pub fn id(thing: &Value) -> &str {
    thing["id"].as_str().unwrap()
}

/// Returns every table of the database that contains a text.
pub async fn places_of(world: &World, text: &str) -> Vec<String> {
    let pool = &world.ctx().pool;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert!(tables.len() > 30, "{tables:?}");
    let mut found = Vec::new();
    for table in tables {
        // As text, and as bytes in hexadecimal.
        let count = format!(
            "SELECT count(*) FROM {table} AS t WHERE position($1 in t::text) > 0 \
             OR position(encode(convert_to($1, 'UTF8'), 'hex') in t::text) > 0"
        );
        let hits: i64 = sqlx::query_scalar(AssertSqlSafe(count)).bind(text).fetch_one(pool).await.unwrap();
        if hits > 0 {
            found.push(table);
        }
    }
    found
}

/// Changes the database directly.
pub async fn tamper(world: &World, sql: &str) {
    let done = sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&world.ctx().pool).await.unwrap();
    assert!(done.rows_affected() > 0, "{sql} changed nothing");
}

/// Returns the types of the logged events about vaults, credentials and grants.
pub async fn logged(world: &World) -> Vec<String> {
    let kinds: Vec<String> = sqlx::query_scalar(
        "SELECT event_type FROM events WHERE event_type ~ '^(vault|credential|grant)\\.' ORDER BY intent_id, seq",
    )
    .fetch_all(&world.ctx().pool)
    .await
    .unwrap();
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vault_is_its_owners() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let ask = json!({ "owner_id": "agent.ada", "name": "services" });
    let made = ada.once("k").post("/vaults", ask.clone()).await.is(200);
    let expected = json!({
        "id": made["id"], "owner_id": "agent.ada", "name": "services", "credentials": [],
        "created_at": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    assert_eq!(ada.once("k").post("/vaults", ask).await.is(200), made);
    let path = format!("/vaults/{}", id(&made));
    assert_eq!(ada.get(&path).await.is(200), made);
    assert_eq!(ada.get("/vaults").await.is(200).as_array().unwrap().len(), 1);
    assert_eq!(bob.get("/vaults").await.is(200), json!([]));
    bob.get(&path).await.refused(404, "not_found");
    bob.delete(&path).await.refused(404, "not_found");
    bob.post("/vaults", json!({ "owner_id": "agent.ada", "name": "mine" }))
        .await
        .refused(403, "may_not_act_as");
    ada.post("/vaults", json!({ "name": " " })).await.refused(422, "invalid_request");
    ada.post("/vaults", json!({ "name": "x".repeat(501) })).await.refused(413, "too_large");
    // The vault lists its credentials, and others cannot add any.
    let put = credential(&ada, id(&made), json!({ "secret": SECRET })).await;
    assert_eq!(ada.get(&path).await.is(200)["credentials"], json!([put["id"]]));
    let theirs = json!({ "vault_id": made["id"], "service": "s", "label": "l" });
    bob.post("/credentials", theirs.clone()).await.refused(404, "not_found");
    // An admin may read and revoke, but not grant.
    let admin = world.admin().await.acting_as("agent.root");
    admin.get(&path).await.is(200);
    let credential_path = format!("/credentials/{}", id(&put));
    admin.get(&credential_path).await.is(200);
    bob.get(&credential_path).await.refused(404, "not_found");
    ada.delete(&path).await.is(204);
    ada.get(&path).await.refused(404, "not_found");
    ada.get(&credential_path).await.refused(404, "not_found");
    ada.post("/credentials", theirs).await.refused(404, "not_found");
    assert_eq!(logged(&world).await, ["vault.created", "credential.created", "vault.removed"]);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM tool_credentials WHERE sealed IS NOT NULL")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(left, 0, "what was in the vault is wiped");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_in_and_never_comes_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let vault = vault(&ada).await;
    // As clients of the reference server do it: within the metadata.
    let ask = json!({
        "vault_id": vault, "service": "search", "label": "key",
        "metadata": { "api_key": SECRET, "base_url": "https://api.example.com", "team": "research" },
    });
    let made = ada.once("k").post("/credentials", ask.clone()).await;
    assert!(!made.text.contains(SECRET));
    let made = made.is(200);
    let expected = json!({
        "id": made["id"], "vault_id": vault, "service": "search", "label": "key", "auth_type": "api_key",
        "scopes_available": [], "status": "active", "version": 1, "secret_members": ["api_key"],
        "metadata": { "base_url": "https://api.example.com", "team": "research" },
        "credential_metadata": { "base_url": "https://api.example.com", "team": "research" },
        "created_at": "2026-11-21T08:00:00.000000Z", "rotated_at": null, "expires_at": null, "revoked_at": null,
    });
    assert_eq!(made, expected);
    let again = ada.once("k").post("/credentials", ask).await.is(200);
    assert_eq!(again, made, "a retry is done once");
    assert_eq!(ada.get(&format!("/credentials/{}", id(&made))).await.is(200), made);
    // As a text, as separate members, and as user and password in one.
    let parts = json!({ "username": "ada", "password": SECRET });
    let text = format!("ada:{SECRET}");
    for (kind, secret, members) in [
        ("bearer_token", json!(SECRET), json!(["token"])),
        ("basic_auth", parts, json!(["password", "username"])),
        ("basic_auth", json!(text), json!(["password", "username"])),
        ("connection_string", json!(SECRET), json!(["connection_string"])),
    ] {
        let put = credential(&ada, &vault, json!({ "auth_type": kind, "secret": secret })).await;
        assert_eq!(put["secret_members"], members);
    }
    // Error responses do not repeat it either.
    for wrong in [
        json!({ "secret": { "api_key": [SECRET] } }),
        json!({ "secret": { SECRET: "x" } }),
        json!({ "secret": [SECRET] }),
        json!({ "metadata": SECRET }),
        json!({ "metadata": { "nested": { "password": SECRET } } }),
        json!({ "metadata": { "base_url": "https://x.example", "endpoints": { "t": { "headers": { "X-Token": SECRET } } } } }),
        json!({ "metadata": { "base_url": format!("https://ada:{SECRET}@x.example") } }),
        json!({ "auth_type": "basic_auth", "secret": SECRET }),
        json!({ "auth_type": "oauth2_client_credentials", "secret": SECRET }),
        json!({ "secret": format!("{SECRET}\n"), "metadata": { "base_url": "https://x.example" } }),
    ] {
        let mut ask = json!({ "vault_id": vault, "service": "search", "label": "key" });
        ask.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let refused = ada.post("/credentials", ask).await;
        assert!([413, 422].contains(&refused.status), "{}", refused.text);
        assert!(!refused.text.contains(SECRET), "{}", refused.text);
    }
    assert_eq!(places_of(&world, SECRET).await, Vec::<String>::new());
    let log = world.admin().await.get("/audit?limit=1000").await.text;
    assert!(log.contains("credential.created") && !log.contains(SECRET));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_secret_takes_the_place_of_the_first() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let vault = vault(&ada).await;
    let made = credential(&ada, &vault, json!({ "secret": SECRET })).await;
    let path = format!("/credentials/{}", id(&made));
    let sealed = || async {
        sqlx::query_scalar::<_, Vec<u8>>("SELECT sealed FROM tool_credentials")
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap()
    };
    let first = sealed().await;
    world.clock.advance(60);
    let next = json!({ "secret": "sk-live-the-next-one" });
    bob.patch(&path, next.clone()).await.refused(404, "not_found");
    ada.seen(&json!(7)).patch(&path, next.clone()).await.refused(409, "version_conflict");
    let rotated = ada.seen(&json!(1)).patch(&path, next.clone()).await.is(200);
    assert_eq!(
        (&rotated["version"], &rotated["rotated_at"]),
        (&json!(2), &json!("2026-11-21T08:01:00.000000Z"))
    );
    assert_ne!(sealed().await, first);
    ada.seen(&json!(1)).patch(&path, next).await.refused(409, "version_conflict");
    // A change of other members keeps the secret; null is not the same as absent.
    let change =
        json!({ "label": "new", "expires_at": "2026-11-21T09:00:00Z", "scopes_available": ["read"] });
    let changed = ada.patch(&path, change).await.is(200);
    assert_eq!((&changed["label"], &changed["version"]), (&json!("new"), &json!(2)));
    assert_eq!(changed["expires_at"], "2026-11-21T09:00:00.000000Z");
    assert_eq!(
        ada.patch(&path, json!({ "label": "newer" })).await.is(200)["expires_at"],
        changed["expires_at"]
    );
    ada.patch(&path, json!({ "expires_at": "2026-11-21T07:00:00Z" })).await.refused(422, "already_expired");
    // It expires as soon as it is due, and the log records that once.
    world.clock.advance(3_600);
    assert_eq!(ada.get(&path).await.is(200)["status"], "expired");
    world.sweep().await;
    world.sweep().await;
    assert_eq!(ada.patch(&path, json!({ "expires_at": null })).await.is(200)["status"], "active");
    // A revocation is permanent.
    ada.patch(&path, json!({ "status": "expired" })).await.refused(422, "invalid_request");
    ada.patch(&path, json!({ "status": "revoked", "label": "x" })).await.refused(422, "invalid_request");
    let revoked = ada.patch(&path, json!({ "status": "revoked" })).await.is(200);
    assert_eq!((&revoked["status"], &revoked["secret_members"]), (&json!("revoked"), &json!([])));
    ada.patch(&path, json!({ "status": "revoked" })).await.is(200);
    ada.patch(&path, json!({ "secret": SECRET })).await.refused(409, "invalid_transition");
    let kinds = logged(&world).await;
    let own: Vec<&str> = kinds.iter().filter_map(|kind| kind.strip_prefix("credential.")).collect();
    assert_eq!(own, ["created", "rotated", "changed", "changed", "expired", "changed", "revoked"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_vaults_take_nothing_in() {
    let settings = vec![("ENTENTE_VAULT_KEY", "")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let ada = world.agent("agent.ada").await;
    let refused = ada.post("/vaults", json!({ "name": "services" })).await.refused(422, "unprocessable");
    assert!(refused["message"].as_str().unwrap().contains("ENTENTE_VAULT_KEY"));
    world.end().await;
}

/// Decrypts a stored secret by a call that needs it; returns the resulting status and code.
async fn opens(client: &Client) -> (u16, String) {
    let reply = client.post("/tools/invoke", json!({ "tool_name": "search" })).await;
    let body = reply.json();
    let word = body["code"].as_str().or(body["error_code"].as_str()).unwrap_or("none");
    (reply.status, word.to_owned())
}

/// Creates a credential whose tool is at a port that nothing listens on.
async fn nowhere(owner: &Client) -> Value {
    let metadata = json!({ "base_url": "http://127.0.0.1:65535" });
    let vault = vault(owner).await;
    let made = credential(owner, &vault, json!({ "secret": SECRET, "metadata": metadata })).await;
    owner.post("/grants", json!({ "credential_id": made["id"], "agent_id": "agent.ada" })).await.is(200);
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_replaced_without_anything_being_lost() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = nowhere(&ada).await;
    assert_eq!(opens(&ada).await, (200, "unreachable".to_owned()));
    let key = || async {
        sqlx::query_scalar::<_, String>("SELECT key_id FROM tool_credentials")
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap()
    };
    let first = key().await;
    // A server with only another key cannot decrypt it, and its error reveals nothing of the keys.
    let settings = vec![("ENTENTE_VAULT_KEY", OTHER_KEY)];
    let lost = World::on(Setup { settings, ..Setup::default() }, world.database.clone()).await;
    assert_eq!(opens(&lost.agent("agent.ada").await).await, (422, "unprocessable".to_owned()));
    assert_eq!(Sweep::Vaults.run(lost.ctx()).await.unwrap(), 0, "what it cannot open it leaves alone");
    lost.server.stop().await;
    // With the old key as well it can, and encrypts it again.
    let settings = vec![("ENTENTE_VAULT_KEY", OTHER_KEY), ("ENTENTE_VAULT_OLD_KEYS", VAULT_KEY)];
    let next = World::on(Setup { settings, ..Setup::default() }, world.database.clone()).await;
    assert_eq!(opens(&next.agent("agent.ada").await).await, (200, "unreachable".to_owned()));
    assert_eq!(key().await, first);
    assert_eq!(Sweep::Vaults.run(next.ctx()).await.unwrap(), 1);
    assert_ne!(key().await, first);
    next.server.stop().await;
    // Then the old key is no longer needed, and the version is unchanged, because this is no rotation by the owner.
    let settings = vec![("ENTENTE_VAULT_KEY", OTHER_KEY)];
    let last = World::on(Setup { settings, ..Setup::default() }, world.database.clone()).await;
    let ada = last.agent("agent.ada").await;
    // The tests' random bits repeat: at the same instant the call would get the id of the previous one.
    last.clock.advance(1);
    assert_eq!(opens(&ada).await, (200, "unreachable".to_owned()));
    assert_eq!(ada.get(&format!("/credentials/{}", id(&made))).await.is(200)["version"], 1);
    last.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_moved_does_not_open() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let mine = nowhere(&ada).await;
    // Someone with write access to the database copies one row's ciphertext into another.
    let theirs = vault(&eve).await;
    let metadata = json!({ "base_url": "http://127.0.0.1:65535" });
    let other = credential(&eve, &theirs, json!({ "secret": "sk-of-eve", "metadata": metadata })).await;
    let grant = json!({ "credential_id": other["id"], "agent_id": "agent.eve" });
    eve.post("/grants", grant).await.is(200);
    assert_eq!(opens(&eve).await, (200, "unreachable".to_owned()));
    tamper(
        &world,
        "UPDATE tool_credentials SET sealed = (SELECT c.sealed FROM tool_credentials c JOIN vaults v ON v.id = c.vault_id \
         WHERE v.owner_id = 'agent.ada') WHERE vault_id = (SELECT id FROM vaults WHERE owner_id = 'agent.eve')",
    )
    .await;
    assert_eq!(opens(&eve).await, (500, "internal".to_owned()));
    // Nor in its own row with another version, or modified.
    tamper(&world, "UPDATE tool_credentials SET version = 2 WHERE label <> ''").await;
    assert_eq!(opens(&ada).await, (500, "internal".to_owned()));
    tamper(&world, "UPDATE tool_credentials SET version = 1 WHERE label <> ''").await;
    assert_eq!(opens(&ada).await, (200, "unreachable".to_owned()));
    tamper(&world, "UPDATE tool_credentials SET sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) WHERE label <> ''").await;
    assert_eq!(opens(&ada).await, (500, "internal".to_owned()));
    // Its owner can still set a new one.
    let path = format!("/credentials/{}", id(&mine));
    ada.patch(&path, json!({ "secret": SECRET })).await.is(200);
    assert_eq!(opens(&ada).await, (200, "unreachable".to_owned()));
    world.end().await;
}

#[test]
fn the_operators_keys_are_in_no_complaint_and_no_log() {
    let read = |name: &'static str, value: &'static str| {
        Config::read(&move |asked| (asked == name).then(|| value.to_owned()))
    };
    for name in ["ENTENTE_VAULT_KEY", "ENTENTE_VAULT_OLD_KEYS"] {
        let said = read(name, "correct horse battery staple").unwrap_err().to_string();
        assert!(said.contains(&format!("{name}: must be ")) && !said.contains("horse"), "{said}");
        let config = format!("{:?}", read(name, VAULT_KEY).unwrap());
        assert!(
            config.contains("VaultKey(") && !config.contains("BwcHBw") && !config.contains("7, 7, 7"),
            "{config}"
        );
    }
}
