//! Provisioner configuration: an unusable one stops the start, errors contain no secrets, and a feature that could
//! not be kept is not offered (ARCP §14).

use std::sync::Arc;

use entente::background::provision::provisioners;
use entente::config::Config;
use entente_arcp::credentials;
use entente_domain::ids::Chance;
use entente_runtime::environment::OsChance;

use super::stage::{accepted, broker, file, job, litellm};
use super::upstream::{ADMIN_KEY, Upstream};
use entente_harness::{Setup, Value, World, json};

/// Reads the configuration with these settings.
fn read(settings: &[(&str, &str)]) -> Result<Config, String> {
    let get =
        |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Config::read(&get).map_err(|e| e.to_string())
}

#[tokio::test]
async fn it_is_offered_only_where_nobody_reads_along() {
    let upstream = Upstream::start().await;
    let real = file(&json!([litellm(&upstream, &json!({}))]));
    for (settings, offered) in [
        (vec![], false),
        (vec![("ENTENTE_TLS_TERMINATED", "true")], false),
        (vec![("ENTENTE_CREDENTIALS_FILE", real)], true),
        (vec![("ENTENTE_CREDENTIALS", "development")], true),
        (vec![("ENTENTE_CREDENTIALS_FILE", real), ("ENTENTE_BIND", "0.0.0.0:8080")], false),
        (vec![("ENTENTE_CREDENTIALS", "development"), ("ENTENTE_BIND", "[::]:8080")], false),
        (vec![("ENTENTE_CREDENTIALS_FILE", real), ("ENTENTE_BIND", "[::1]:8080")], true),
        (
            vec![
                ("ENTENTE_CREDENTIALS_FILE", real),
                ("ENTENTE_BIND", "0.0.0.0:8080"),
                ("ENTENTE_TLS_TERMINATED", "true"),
            ],
            true,
        ),
    ] {
        let mut settings = settings;
        settings.push(("TEST_ADMIN_KEY", ADMIN_KEY));
        let chance: Arc<dyn Chance> = Arc::new(OsChance::default());
        let made = provisioners(&read(&settings).unwrap(), &chance).unwrap();
        assert_eq!(made.offered(), offered, "{settings:?}");
    }
}

#[tokio::test]
async fn what_is_not_offered_is_not_made() {
    let upstream = Upstream::start().await;
    let settings = vec![
        ("ENTENTE_CREDENTIALS_FILE", file(&json!([litellm(&upstream, &json!({}))]))),
        ("TEST_ADMIN_KEY", ADMIN_KEY),
    ];
    let world = World::with(Setup { settings, live: false }).await;
    assert!(credentials::offered(&world.ctx().arcp));
    let real = &world.ctx().arcp;
    let none = entente_arcp::State {
        jobs: real.state.jobs.clone(),
        turns: entente_arcp::jobs::Turns::new(&real.metrics),
        sessions: real.state.sessions.clone(),
        provisioners: credentials::Provisioners::default(),
    };
    let ctx = entente_arcp::Ctx::of(real, &Arc::new(none));
    assert!(!credentials::offered(&ctx));
    let job = job(&world, "writer@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let mut tx = ctx.begin(&[]).await.unwrap();
    assert!(credentials::prepare(&ctx, &mut tx, &job).await.unwrap().is_empty());
    drop(tx);
    world.end().await;
}

#[tokio::test]
async fn development_makes_values_that_are_good_nowhere() {
    let settings = vec![("ENTENTE_CREDENTIALS", "development")];
    let world = World::with(Setup { settings, live: false }).await;
    let job = |lease: Value| job(&world, "echo@1.0.0", &lease);
    let one = accepted(&world, &job(json!({ "cost.budget": ["USD:1.00"] }))).await.unwrap();
    let other = accepted(&world, &job(json!({ "model.use": ["*"] }))).await.unwrap();
    assert!(one[0].value.starts_with("dev-") && one[0].value != other[0].value);
    assert_eq!(one[0].endpoint, "https://development.invalid/v1");
    assert_eq!(one[0].constraints, Some(json!({ "cost.budget": ["USD:1"] })));
    assert!(accepted(&world, &job(json!({ "fs.read": ["/w/**"] }))).await.unwrap().is_empty());
    world.end().await;
}

#[tokio::test]
async fn what_cannot_be_taken_back_stops_the_start() {
    let upstream = Upstream::start().await;
    let change = |pointer: &str, value: Value| {
        let mut entry = broker(&upstream);
        *entry.pointer_mut(pointer).unwrap() = value;
        entry
    };
    let llm = |more: Value| litellm(&upstream, &more);
    let anywhere = json!({ "url": "http://x/" });
    for (entry, why) in [
        // After a lost response the credential could never be found.
        (change("/find", Value::Null), "`revoke` must use {alias}"),
        (change("/mint/body/name", json!("fixed")), "`mint` must use {alias}"),
        (change("/answer/upstream_id", Value::Null), "`revoke` must use {alias}"),
        (change("/answer/endpoint", Value::Null), "`endpoint`"),
        (change("/mint/body/fixed", json!("{wrong}")), "the place {wrong}"),
        (change("/mint/body/fixed", json!("{value}")), "the place {value}"),
        (change("/mint/url", json!("ftp://x/")), "`ftp://x/` is no"),
        (change("/mint/url", json!("http://x/${TEST_ADMIN_KEY}")), "does not belong into `url`"),
        (change("/mint/headers", json!({ "x": "${NOBODYS}" })), "the variable NOBODYS is not set"),
        (change("/mint", anywhere), "`mint` must use {alias}"),
        (change("/agents", json!(["a**"])), "the agent pattern `a**`"),
        (change("/name", json!("a b")), "`a b` is no name"),
        (llm(json!({ "leases": ["models"] })), "`models` in `leases`"),
        (llm(json!({ "key": "sk-admin-0123456789" })), "`key` must name a variable"),
        (llm(json!({ "timeout_sec": 31 })), "`timeout_sec`"),
        (llm(json!({ "max_ttl_sec": 0 })), "`max_ttl_sec`"),
        (llm(json!({ "modles": [] })), "unknown field `modles`"),
        (llm(json!({ "kind": "vault" })), "unknown variant `vault`"),
    ] {
        let path = file(&json!([entry]));
        let settings = [("ENTENTE_CREDENTIALS_FILE", path), ("TEST_ADMIN_KEY", ADMIN_KEY)];
        let said = read(&settings).unwrap_err();
        assert!(said.contains(why) && said.contains("ENTENTE_CREDENTIALS_FILE="), "{said}\nand not {why}");
        assert!(!said.contains(ADMIN_KEY), "{said}");
    }
    let twice = file(&json!([llm(json!({})), llm(json!({}))]));
    let said = read(&[("ENTENTE_CREDENTIALS_FILE", twice), ("TEST_ADMIN_KEY", ADMIN_KEY)]).unwrap_err();
    assert!(said.contains("two provisioners have one name"), "{said}");
    assert!(read(&[("ENTENTE_CREDENTIALS", "production")]).unwrap_err().contains("must be `development`"));
    let missing = read(&[("ENTENTE_CREDENTIALS_FILE", "/nowhere/at/all")]).unwrap_err();
    assert!(missing.contains("ENTENTE_CREDENTIALS_FILE=/nowhere/at/all: "), "{missing}");
}

#[tokio::test]
async fn secrets_are_in_no_account_of_the_configuration() {
    let upstream = Upstream::start().await;
    let both = file(&json!([litellm(&upstream, &json!({})), broker(&upstream)]));
    let settings = [("ENTENTE_CREDENTIALS_FILE", both), ("TEST_ADMIN_KEY", ADMIN_KEY)];
    let shown = format!("{:?}", read(&settings).unwrap());
    assert!(shown.contains("POST http://") && !shown.contains(ADMIN_KEY), "{shown}");
    let mut braced = broker(&upstream);
    braced["mint"]["headers"]["authorization"] = json!("${TEST_BRACED}");
    let path = file(&json!([braced]));
    let settings =
        [("ENTENTE_CREDENTIALS_FILE", path), ("TEST_ADMIN_KEY", ADMIN_KEY), ("TEST_BRACED", "a{alias}b")];
    let said = read(&settings).unwrap_err();
    assert!(said.contains("TEST_BRACED has a `{`") && !said.contains("a{alias}b"), "{said}");
}
