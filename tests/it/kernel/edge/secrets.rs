//! Protection of secrets in transit: responses must not be cached, every page has a content security policy, and
//! refused credentials are logged without their value.

use serde_json::from_str;

use entente_harness::keys::{forgeries, key};
use entente_harness::process::{Launch, Place};
use entente_harness::{Client, Cluster, Reply, Value, World, http, json};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_on_the_way_keeps_an_answer() {
    let world = World::start().await;
    let admin = world.admin().await;
    let kept_by_nobody = |reply: &Reply| {
        assert_eq!(reply.header("cache-control"), "no-store", "{}", reply.asked);
    };
    admin.post("/principals", json!({ "id": "human.ada", "kind": "human" })).await.is(201);
    let made = admin.post("/principals/human.ada/keys", json!({})).await;
    made.is(201);
    kept_by_nobody(&made);
    let rotated = world.client(made.json()["key"].as_str().unwrap());
    let id = made.json()["record"]["id"].as_str().unwrap().to_owned();
    kept_by_nobody(&rotated.post(&format!("/keys/{id}/rotate"), json!({})).await);
    let link = admin.post("/people/human.ada/links", json!({})).await;
    link.is(201);
    kept_by_nobody(&link);
    let hook = admin.post("/subscriptions", json!({ "webhook_url": "https://hooks.example/" })).await;
    assert!(hook.ok()["webhook_secret"].is_string() || hook.ok()["secret"].is_string(), "{}", hook.text);
    kept_by_nobody(&hook);
    kept_by_nobody(&admin.get("/principals/human.ada/keys").await);
    kept_by_nobody(&world.anon().get("/intents").await);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_keeps_to_itself_like_every_page() {
    let world = World::start().await;
    for path in [
        "//docs",
        "//docs/",
        "//docs/api/",
        "//docs/api/swagger-ui-bundle.js",
        "//docs/api/swagger-initializer.js",
    ] {
        let page = world.anon().send("GET", path, None).await;
        assert_eq!(page.status, 200, "{path}");
        let policy = page.header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert_eq!(page.header("referrer-policy"), "same-origin");
        assert_eq!(page.header("cross-origin-opener-policy"), "same-origin");
        // No inline scripts, so that the page works under that policy.
        let is_page = page.header("content-type").starts_with("text/html");
        assert!(!is_page || !(page.text.contains("<script>") || page.text.contains(" onload=")), "{path}");
    }
    world.end().await;
}

/// Returns the log lines about refused credentials.
fn told(log: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| from_str::<Value>(line).ok());
    lines.filter(|line| line["event"] == "credential_refused").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_opens_nothing_leaves_a_line_and_no_secret() {
    let world = World::start().await;
    let admin = world.admin().await;
    let good = key(&world, &admin, "agent.ada", json!({})).await;
    let gone = key(&world, &admin, "agent.ada", json!({})).await;
    admin.delete(&gone.path()).await.ok();
    admin.post("/principals", json!({ "id": "human.ada", "kind": "human" })).await.is(201);
    admin.put("/people/human.ada/password", json!({ "password": "correct horse battery staple" })).await.ok();
    let place = Place::new("told");
    let launch =
        Launch::shared(&place, &Cluster::get().url(&world.database)).with("ENTENTE_LOG_FORMAT", "json");
    let (server, _) = launch.start().await;
    let wrong = forgeries(&good.secret, 1, 0).next().unwrap();
    for presented in [wrong.as_str(), &gone.secret, "nonsense-that-is-no-key"] {
        server.client(presented).get("/intents").await.refused(401, "unauthenticated");
    }
    let log_in = async |name: &str| {
        let request =
            http().post(format!("http://{}/login", server.address)).header("sec-fetch-site", "same-origin");
        let answer =
            request.body(format!("name={name}&password=a+wrong+guess+of+mine")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 401);
    };
    log_in("human.ada").await;
    // A password typed into the user name field.
    log_in("my-dear-secret").await;
    let link = http().get(format!("http://{}/l/{}", server.address, "A".repeat(43))).send().await.unwrap();
    assert_eq!(link.status().as_u16(), 404);
    let log = place.log();
    let told = told(&log);
    let short = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        [text("credential"), text("reason"), text("principal"), text("key.id")].join(" ")
    };
    let id = |record: &Value| record["id"].as_str().unwrap().to_owned();
    let lines: Vec<String> = told.iter().map(short).collect();
    let expected = [
        format!("key wrong secret agent.ada {}", id(&good.record)),
        format!("key revoked agent.ada {}", id(&gone.record)),
        "key unknown - -".to_owned(),
        "password wrong password human.ada -".to_owned(),
        "password no such name, or no password - -".to_owned(),
        "link not_found - -".to_owned(),
    ];
    assert_eq!(lines, expected, "{log}");
    assert!(told.iter().all(|line| line["address"] == "127.0.0.1" && line["level"] == "WARN"), "{log}");
    for secret in [
        &wrong[17..],
        &gone.secret[17..],
        "nonsense",
        "wrong+guess",
        "wrong guess",
        "my-dear-secret",
        "AAAAAAAA",
    ] {
        assert!(!log.contains(secret), "{secret} stands in {log}");
    }
    // A flood of failures is logged as a few lines and a count.
    let guesser: Client = server.client("nonsense");
    for n in 0..100 {
        guesser
            .with("x-api-key", &format!("nonsense-{n}"))
            .get("/intents")
            .await
            .refused(401, "unauthenticated");
    }
    assert!(self::told(&place.log()).len() <= 20);
    world.server.stop().await;
}
