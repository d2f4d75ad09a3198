//! The authority of a person's key: keys and passwords that an operator sets for a person cannot answer until the
//! person takes them over, and the answer names its authority.

use entente_harness::browser::Browser;
use entente_harness::moments::{ask, at, dialogue, free_text, option, resolve, told};
use entente_harness::people::given_key;
use entente_harness::people::{log_in, logged_in, person};
use entente_harness::{Value, World, json};

const GIVEN: &str = "correct horse battery staple";
const OWN: &str = "another four words altogether";

/// Returns the key that the terminal page creates.
async fn from_page(browser: &mut Browser, pairs: &[(&str, &str)]) -> String {
    let page = browser.act("/terminal", "/terminal", pairs).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.between("<pre class=\"key\" tabindex=\"0\">", "</pre>")
}

/// Asserts that a key cannot answer in any way.
async fn decides_nothing(world: &World, key: &str, moment: &Value, why: &str) {
    let client = world.client(key);
    for resolution in [option(0), free_text("mine"), dialogue("mine")] {
        let refused = resolve(&client, moment, resolution).await.refused(403, "not_the_principal");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
    for (verb, body) in [("close", json!({})), ("words", json!({ "text": "I am he." }))] {
        let path = format!("{}/{verb}", at(moment));
        client.post(&path, body).await.refused(403, "not_the_principal");
    }
    client.post(&format!("{}/view", at(moment)), json!({})).await;
    let found = client.get(&at(moment)).await.ok();
    assert_eq!((&found["state"], &found["first_viewed_at"]), (&json!("open"), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_somebody_else_made_decides_nothing() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let admin = person(&world, "human.ada").await;
    let key = given_key(&admin, "human.ada").await;
    let moment = ask(&agent, json!({})).await;
    decides_nothing(&world, &key, &moment, "`service.bootstrap` made this key").await;
    // A rotation of it, by itself or by its creator, cannot either.
    let id = world.client(&key).get("/principals/me").await.ok()["key"]["id"].clone();
    let rotate = format!("/keys/{}/rotate", id.as_str().unwrap());
    for client in [world.client(&key), admin.clone()] {
        let next = client.post(&rotate, json!({})).await.is(201);
        decides_nothing(&world, next["key"].as_str().unwrap(), &moment, "`service.bootstrap` made this key")
            .await;
    }
    // Nor can a key that it creates with its admin scope.
    let all: Vec<&str> =
        entente_domain::identity::keys::Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let strong = admin.post("/principals/human.ada/keys", json!({ "scopes": all })).await.is(201);
    let strong = world.client(strong["key"].as_str().unwrap());
    let next = strong.post("/principals/human.ada/keys", json!({})).await.is(201);
    assert_eq!(next["record"]["created_by"], "human.ada");
    decides_nothing(&world, next["key"].as_str().unwrap(), &moment, "`service.bootstrap` made this key")
        .await;
    // A password that this key sets counts as one set by its creator.
    strong.put("/people/human.ada/password", json!({ "password": GIVEN })).await.ok();
    let mut browser = Browser::new(world.address);
    log_in(&mut browser, "human.ada", GIVEN).await;
    decides_nothing(
        &world,
        &browser.cookie.clone().unwrap(),
        &moment,
        "a password that `service.bootstrap` has set",
    )
    .await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_does_not_rotate_a_persons_key_into_his_own_hands() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    let own = from_page(&mut browser, &[("for", "program")]).await;
    let moment = ask(&agent, json!({})).await;
    let admin = world.admin().await;
    for key in [own.clone(), browser.cookie.clone().unwrap(), from_page(&mut browser, &[]).await] {
        let id = world.client(&key).get("/principals/me").await.ok()["key"]["id"].clone();
        let path = format!("/keys/{}/rotate", id.as_str().unwrap());
        let stolen = admin.post(&path, json!({ "overlap_seconds": 3600 })).await.is(201);
        let stolen = stolen["key"].as_str().unwrap().to_owned();
        decides_nothing(&world, &stolen, &moment, "`service.bootstrap` made this key").await;
        // Used as a cookie, it can neither choose a password for her nor create a key that can answer.
        let mut thief = Browser::new(world.address);
        thief.cookie = Some(stolen);
        let refused = thief.act("/password", "/password", &[("current", ""), ("password", OWN)]).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    // Her own key can still answer, and so can its own rotation.
    let id = world.client(&own).get("/principals/me").await.ok()["key"]["id"].clone();
    let next = world.client(&own).post(&format!("/keys/{}/rotate", id.as_str().unwrap()), json!({})).await;
    let next = next.is(201)["key"].as_str().unwrap().to_owned();
    resolve(&world.client(&next), &moment, option(0)).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_a_link_takes_over_and_the_answer_says_so() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    let terminal = from_page(&mut browser, &[]).await;
    let program = from_page(&mut browser, &[("for", "program")]).await;
    let link = json!({ "basis": "one_time_link", "let_in_by": "service.bootstrap" });
    for (n, (key, via)) in
        [(browser.cookie.clone().unwrap(), "web"), (terminal, "cli"), (program.clone(), "api")]
            .into_iter()
            .enumerate()
    {
        let moment = ask(&agent, json!({ "corr": format!("c{n}") })).await;
        resolve(&world.client(&key), &moment, option(0)).await.is(200);
        let read = agent.get(&at(&moment)).await.ok();
        let settled = &read["resolution"];
        assert_eq!((&settled["resolved_via"], &settled["authority"]), (&json!(via), &link));
        agent.post(&format!("{}/ack", at(&moment)), json!({})).await.ok();
        world.clock.advance(1);
    }
    // Also in the log.
    let events = told(&world, "moment.resolved").await;
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|told| told["authority"] == link), "{events:?}");
    // A program's key is valid for 90 days and has no `admin` scope.
    let me = world.client(&program).get("/principals/me").await.ok();
    assert!(!me["key"]["scopes"].as_array().unwrap().contains(&json!("admin")));
    world.clock.advance(90 * 24 * 3600);
    world.client(&program).get("/principals/me").await.is(401);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_password_decides_once_it_is_ones_own() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": GIVEN })).await.ok();
    let moment = ask(&agent, json!({})).await;
    let mut browser = Browser::new(world.address);
    let entered = log_in(&mut browser, "human.ada", GIVEN).await;
    assert_eq!((entered.status, entered.location.as_str()), (303, "/password"));
    let old = browser.cookie.clone().unwrap();
    decides_nothing(&world, &old, &moment, "a password that `service.bootstrap` has set").await;
    // Nor do keys created in that login.
    for pairs in [&[][..], &[("for", "program")]] {
        let key = from_page(&mut browser, pairs).await;
        decides_nothing(&world, &key, &moment, "a password that `service.bootstrap` has set").await;
    }
    let page = browser.get("/password").await;
    assert!(page.text.contains("service.bootstrap has set the password"), "{}", page.text);
    // Requires the current password and a strong new one.
    let chosen = [("current", "wrong wrong wrong"), ("password", OWN)];
    assert_eq!(browser.act("/password", "/password", &chosen).await.status, 401);
    let short = [("current", GIVEN), ("password", "short")];
    assert_eq!(browser.act("/password", "/password", &short).await.status, 422);
    browser.from("cross-site");
    assert_eq!(browser.post("/password", &[("current", GIVEN), ("password", OWN)]).await.status, 403);
    browser.from("same-origin");
    let chosen = [("current", GIVEN), ("password", OWN)];
    let done = browser.act("/password", "/password", &chosen).await;
    assert_eq!((done.status, done.location.as_str()), (303, "/inbox"), "{}", done.text);
    // Logins with the old password have ended; the new one is her own, and its record names the operator that let
    // her in.
    world.client(&old).get("/principals/me").await.is(401);
    assert_eq!(log_in(&mut Browser::new(world.address), "human.ada", GIVEN).await.status, 401);
    let mut again = Browser::new(world.address);
    assert_eq!(log_in(&mut again, "human.ada", OWN).await.location, "/dashboard");
    resolve(&world.client(&again.cookie.clone().unwrap()), &moment, option(0)).await.is(200);
    let read = agent.get(&at(&moment)).await.ok();
    let own = json!({ "basis": "own_password", "let_in_by": "service.bootstrap" });
    assert_eq!(read["resolution"]["authority"], own);
    // After another operator reset it, the login cannot answer again.
    admin.put("/people/human.ada/password", json!({ "password": GIVEN })).await.ok();
    let mut late = Browser::new(world.address);
    log_in(&mut late, "human.ada", GIVEN).await;
    let next = ask(&agent, json!({ "corr": "next" })).await;
    decides_nothing(
        &world,
        &late.cookie.clone().unwrap(),
        &next,
        "a password that `service.bootstrap` has set",
    )
    .await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_release_wrote_down_decides_nothing() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    let chosen = [("password", OWN)];
    assert_eq!(browser.act("/password", "/password", &chosen).await.status, 303);
    let key = from_page(&mut browser, &[("for", "program")]).await;
    let moment = ask(&agent, json!({})).await;
    // Simulates writes of that release: without the new columns, and with another password in place of hers.
    let pool = &world.ctx().pool;
    sqlx::query("UPDATE keys SET basis = NULL, let_in_by = NULL, changed_seq = changed_seq + 1000 WHERE label = 'program'")
        .execute(pool)
        .await
        .unwrap();
    sqlx::query("UPDATE passwords SET set_by = 'service.old', set_at = set_at + interval '1 second'")
        .execute(pool)
        .await
        .unwrap();
    entente_kernel::identity::keys::refresh(world.ctx()).await.unwrap();
    decides_nothing(&world, &key, &moment, "nobody has noted how this key came about").await;
    let mut late = Browser::new(world.address);
    assert_eq!(log_in(&mut late, "human.ada", OWN).await.location, "/password");
    decides_nothing(&world, &late.cookie.clone().unwrap(), &moment, "a password that `service.old` has set")
        .await;
    world.end().await;
}
