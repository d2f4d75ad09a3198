//! Logins of people: passwords and one-time links, their effects, who may create them, and their ends.

mod providers;

use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;

use entente_harness::browser::{Browser, Page};
use entente_harness::people::{log_in, logged_in, person};
use entente_harness::{Setup, World, http, json};

const WORDS: &str = "correct horse battery staple";

#[tokio::test]
async fn a_password_opens_the_pages_and_logging_out_shuts_them() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": "short" })).await.is(422);
    let set = admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    assert_eq!((&set["principal_id"], &set["admin"]), (&json!("human.ada"), &json!(false)));

    let mut browser = Browser::new(world.address);
    assert_eq!(browser.get("/dashboard").await.location, "/login?next=/dashboard");
    let wrong = log_in(&mut browser, "human.ada", "wrong horse battery staple").await;
    assert_eq!(wrong.status, 401);
    let unknown = log_in(&mut browser, "human.nobody", WORDS).await;
    assert_eq!(unknown.status, 401);
    let told = |page: &Page| page.between("role=\"alert\">", "</p>");
    assert_eq!(told(&wrong), told(&unknown), "whether a name is known shows");
    assert!(browser.cookie.is_none());

    // The login first asks for a new password, because somebody else has set this one.
    let entered = log_in(&mut browser, "human.ada", WORDS).await;
    assert_eq!((entered.status, entered.location.as_str()), (303, "/password"));
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(entered.cookie.contains(part), "{}", entered.cookie);
    }
    assert!(!entered.cookie.contains("Secure"), "on loopback there is no TLS");
    assert_eq!(browser.get("/dashboard").await.status, 200);

    // The cookie holds an ordinary key, but the API accepts no cookies.
    let key = browser.cookie.clone().unwrap();
    let as_cookie = world.anon().with("cookie", &format!("entente={key}"));
    as_cookie.get("/principals/me").await.is(401);
    let me = world.client(&key).get("/principals/me").await.ok();
    assert_eq!((&me["principal_id"], &me["key"]["label"]), (&json!("human.ada"), &json!("browser")));
    assert!(!me["key"]["scopes"].as_array().unwrap().contains(&json!("admin")));

    let left = browser.act("/logout", "/dashboard", &[]).await;
    assert_eq!((left.status, left.location.as_str()), (303, "/login"));
    assert!(left.cookie.contains("Max-Age=0"));
    world.client(&key).get("/principals/me").await.is(401);
    world.end().await;
}

#[tokio::test]
async fn a_login_ends_by_itself_and_with_a_new_password() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    let mut browser = Browser::new(world.address);
    log_in(&mut browser, "human.ada", WORDS).await;
    let first = browser.cookie.clone().unwrap();

    // A second login creates another key and revokes the previous one.
    log_in(&mut browser, "human.ada", WORDS).await;
    let second = browser.cookie.clone().unwrap();
    assert_ne!(first, second);
    world.client(&first).get("/principals/me").await.is(401);

    admin.put("/people/human.ada/password", json!({ "password": "another four words here" })).await.ok();
    world.client(&second).get("/principals/me").await.is(401);
    assert_eq!(log_in(&mut browser, "human.ada", WORDS).await.status, 401);
    log_in(&mut browser, "human.ada", "another four words here").await;
    assert_eq!(browser.get("/dashboard").await.status, 200);
    world.clock.advance(12 * 3_600);
    assert_eq!(browser.get("/dashboard").await.status, 303);
    world.end().await;
}

#[tokio::test]
async fn a_link_works_once_and_only_by_its_button() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    let made = admin.post("/people/human.ada/links", json!({ "leads_to": "/dashboard" })).await.is(201);
    let path = made["path"].as_str().unwrap().to_owned();
    let mut browser = Browser::new(world.address);
    for _look in 0..3 {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "looking at it opens nothing");
        assert!(page.text.contains("human.ada"));
    }
    // Another site's page cannot submit the form.
    assert_eq!(browser.from("cross-site").post(&path, &[]).await.status, 403);
    let entered = browser.from("same-origin").post(&path, &[]).await;
    assert_eq!((entered.status, entered.location.as_str()), (303, "/dashboard"));
    assert_eq!(Browser::new(world.address).post(&path, &[]).await.status, 410);
    assert_eq!(Browser::new(world.address).get(&path).await.status, 410);
    assert_eq!(Browser::new(world.address).get("/l/nothing").await.status, 404);

    // An expired link is gone, and so is one whose creator's key was revoked.
    let late = admin.post("/people/human.ada/links", json!({ "expires_in": 60 })).await.is(201);
    world.clock.advance(60);
    assert_eq!(Browser::new(world.address).post(late["path"].as_str().unwrap(), &[]).await.status, 410);
    let void = admin.post("/people/human.ada/links", json!({})).await.is(201);
    let key = admin.get("/principals/me").await.ok()["key"]["id"].as_str().unwrap().to_owned();
    admin.delete(&format!("/keys/{key}")).await.ok();
    assert_eq!(Browser::new(world.address).post(void["path"].as_str().unwrap(), &[]).await.status, 410);
    world.pass(8 * 24 * 3_600).await;
    world.end().await;
}

#[tokio::test]
async fn fifty_who_press_the_button_at_once_are_one_login() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    let made = admin.post("/people/human.ada/links", json!({})).await.is(201);
    let path = made["path"].as_str().unwrap().to_owned();
    let tries = (0..50).map(|_| {
        let (mut browser, path) = (Browser::new(world.address), path.clone());
        async move { browser.post(&path, &[]).await.status }
    });
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|status| **status == 303).count(), 1);
    assert_eq!(answers.iter().filter(|status| **status == 410).count(), 49);
    world.end().await;
}

#[tokio::test]
async fn nobody_lets_himself_in_as_a_person() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    // An agent with every scope that may act as any agent.
    admin.post("/principals", json!({ "id": "agent.strong", "kind": "agent" })).await.is(201);
    let scopes = json!({ "scopes": ["admin", "intents:read", "intents:write", "channels:read", "channels:write",
        "agents:read", "agents:write", "jobs:read", "jobs:write", "jobs:work", "mail:read", "mail:write", "moments:read", "moments:write", "tools:use", "tools:manage"], "act_as": ["*"] });
    let strong = admin.post("/principals/agent.strong/keys", scopes).await.is(201);
    let strong = world.client(strong["key"].as_str().unwrap());
    strong.put("/people/human.ada/password", json!({ "password": WORDS })).await.is(403);
    strong.post("/people/human.ada/links", json!({})).await.is(403);
    strong.post("/principals/human.ada/keys", json!({})).await.is(403);
    // Nor through a service that could.
    admin.post("/principals", json!({ "id": "service.x", "kind": "service" })).await.is(201);
    strong.post("/principals/service.x/keys", json!({ "scopes": ["admin"], "act_as": ["*"] })).await.is(403);
    strong.post("/principals/service.x/keys", json!({})).await.is(201);
    let hers = admin.post("/principals/human.ada/keys", json!({})).await.is(201);
    let id = hers["record"]["id"].as_str().unwrap();
    strong.post(&format!("/keys/{id}/rotate"), json!({})).await.is(403);
    // Nor may a caller without the scope or the power.
    let ada = world.client(hers["key"].as_str().unwrap());
    ada.put("/people/human.ada/password", json!({ "password": WORDS })).await.is(403);
    ada.post("/people/human.ada/links", json!({})).await.is(403);
    // Only people can log in.
    admin.post("/people/agent.strong/links", json!({})).await.is(422);
    admin.post("/people/human.nobody/links", json!({})).await.is(404);
    admin.post("/people/human.ada/links", json!({ "leads_to": "https://elsewhere.example/" })).await.is(422);
    admin.post("/people/human.ada/links", json!({ "expires_in": 700_000 })).await.is(422);
    world.end().await;
}

#[tokio::test]
async fn guessing_is_slowed_down_and_nobody_is_locked_out() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    let mut browser = Browser::new(world.address);
    let mut guesses = 0;
    while log_in(&mut browser, "human.ada", "guess guess guess").await.status == 401 {
        guesses += 1;
        assert!(guesses < 60, "nobody slows it down");
    }
    assert!(guesses >= 10, "whoever mistypes may try a few times: {guesses}");
    let slow = log_in(&mut browser, "human.ada", WORDS).await;
    assert!(slow.retry_after > 0 && slow.retry_after <= 60, "{}", slow.retry_after);
    // Another name from that address is not slowed down, and a link still works.
    assert_eq!(log_in(&mut browser, "human.ben", WORDS).await.status, 401);
    let made = admin.post("/people/human.ada/links", json!({})).await.is(201);
    assert_eq!(browser.post(made["path"].as_str().unwrap(), &[]).await.status, 303);
    world.end().await;
}

#[tokio::test]
async fn wrong_names_from_an_address_lock_nobody_out_who_is_known_there() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    let mut browser = Browser::new(world.address);
    assert_eq!(log_in(&mut browser, "human.ada", WORDS).await.status, 303);
    let mut guesser = Browser::new(world.address);
    let mut slowed = 0;
    for n in 0..80 {
        slowed += u32::from(log_in(&mut guesser, &format!("human.nobody{n}"), "guess").await.status == 429);
    }
    assert!(slowed > 0, "whoever tries names is slowed down");
    assert_eq!(log_in(&mut browser, "human.ada", WORDS).await.status, 303);
    world.end().await;
}

#[tokio::test]
async fn a_terminal_is_let_in_for_ten_minutes() {
    let world = World::start().await;
    let mut browser = logged_in(&world, "human.ada", true).await;
    let page = browser.act("/terminal", "/terminal", &[]).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let key = page.between("<pre class=\"key\" tabindex=\"0\">", "</pre>");
    let terminal = world.client(&key);
    let me = terminal.get("/principals/me").await.ok();
    assert_eq!((&me["principal_id"], &me["key"]["label"]), (&json!("human.ada"), &json!("terminal")));
    assert!(!me["key"]["scopes"].as_array().unwrap().contains(&json!("admin")), "it administers nothing");
    world.clock.advance(600);
    terminal.get("/principals/me").await.is(401);
    world.end().await;
}

#[tokio::test]
async fn with_tls_the_cookie_says_so_and_without_nobody_logs_in_from_afar() {
    let setup = Setup { settings: vec![("ENTENTE_TLS_TERMINATED", "true")], ..Setup::default() };
    let world = World::with(setup).await;
    let admin = person(&world, "human.ada").await;
    let made = admin.post("/people/human.ada/links", json!({})).await.is(201);
    let mut browser = Browser::new(world.address).called("entente.example");
    let entered = browser.post(made["path"].as_str().unwrap(), &[]).await;
    assert!(entered.cookie.starts_with("__Host-entente=ent_"), "{}", entered.cookie);
    assert!(entered.cookie.contains("; Secure"));
    world.end().await;

    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    let made = admin.post("/people/human.ada/links", json!({})).await.is(201);
    let mut afar = Browser::new(world.address).called("entente.example");
    assert!(!afar.get("/login").await.text.contains("type=\"password\""));
    assert_eq!(log_in(&mut afar, "human.ada", WORDS).await.status, 403);
    assert_eq!(afar.get(made["path"].as_str().unwrap()).await.status, 403);
    assert_eq!(afar.post(made["path"].as_str().unwrap(), &[]).await.status, 403);
    world.end().await;
}

#[tokio::test]
async fn behind_a_proxy_the_line_that_it_wrote_itself_says_who_tries() {
    let setup = Setup { settings: vec![("ENTENTE_TLS_TERMINATED", "true")], ..Setup::default() };
    let world = World::with(setup).await;
    let mut statuses = Vec::new();
    for guess in 0..14 {
        let request = http().post(format!("http://{}/login", world.address));
        let request = request.header("sec-fetch-site", "same-origin");
        // The client's own header line, and a second one added by the proxy.
        let request = request.header("x-forwarded-for", format!("198.51.100.{guess}, 192.0.2.{guess}"));
        let port = if guess % 2 == 0 { String::new() } else { format!(":{}", 40_000 + guess) };
        let request = request.header("x-forwarded-for", format!("192.0.2.{guess}, 203.0.113.7{port}"));
        let answer = request.body("name=human.ada&password=guess").send().await.unwrap();
        statuses.push(answer.status().as_u16());
    }
    assert!(statuses.ends_with(&[429]), "whoever tries chooses the address: {statuses:?}");
    world.end().await;
}

#[tokio::test]
async fn who_is_led_here_by_another_site_takes_one_step_more() {
    let world = World::start().await;
    let led = async |method: reqwest::Method, path: &str, (site, mode): (&str, &str)| {
        let request = http().request(method, format!("http://{}{path}", world.address));
        let answer =
            request.header("sec-fetch-site", site).header("sec-fetch-mode", mode).send().await.unwrap();
        let place = answer.headers().get("location").map_or("", |place| place.to_str().unwrap()).to_owned();
        (answer.status().as_u16(), place, answer.text().await.unwrap())
    };
    let (get, elsewhere) = (|| reqwest::Method::GET, ("cross-site", "navigate"));
    let (status, _, text) = led(get(), "/dashboard?intent=x&y=%22%3E%3Cb%3E", elsewhere).await;
    assert_eq!(status, 200);
    let path = "/dashboard?intent=x&#38;y=%22%3E%3Cb%3E";
    assert!(text.contains(&format!("content=\"0; url={path}\"")), "{text}");
    assert!(text.contains(&format!("<a href=\"{path}\">")), "{text}");
    assert!(!text.contains("human.ada"), "{text}");
    // Only there: otherwise an unauthenticated visitor would be redirected in a circle, and a script would take the
    // page for the target.
    for from in [("same-origin", "navigate"), ("none", "navigate"), ("cross-site", "cors")] {
        let (status, place, _) = led(get(), "/inbox", from).await;
        assert_eq!((status, place.as_str()), (303, "/login?next=/inbox"), "{from:?}");
    }
    let (status, ..) = led(reqwest::Method::POST, "/inbox/bm_x/answer", elsewhere).await;
    assert_eq!(status, 403);
    // A form submitted after the login has ended leads back to its question.
    for (path, back) in [("/inbox/bm_x/answer", "/inbox/bm_x"), ("/terminal", "/inbox")] {
        let (status, place, _) = led(reqwest::Method::POST, path, ("same-origin", "navigate")).await;
        assert_eq!((status, place), (303, format!("/login?next={back}")), "{path}");
    }
    world.end().await;
}

#[tokio::test]
async fn the_secrets_of_logins_are_stored_and_told_nowhere() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    let made = admin.post("/people/human.ada/links", json!({})).await.is(201);
    let ticket = made["path"].as_str().unwrap().strip_prefix("/l/").unwrap().to_owned();
    let mut browser = Browser::new(world.address);
    log_in(&mut browser, "human.ada", WORDS).await;
    let key = browser.cookie.clone().unwrap();
    let dump: Vec<String> = sqlx::query_scalar(
        "SELECT row_to_json(t)::text FROM (SELECT * FROM passwords) t UNION ALL
         SELECT row_to_json(t)::text FROM links t UNION ALL SELECT row_to_json(t)::text FROM keys t UNION ALL
         SELECT row_to_json(t)::text FROM events t",
    )
    .fetch_all(&world.ctx().pool)
    .await
    .unwrap();
    assert!(dump.len() > 5);
    for secret in [WORDS, &ticket, &key] {
        assert!(dump.iter().all(|row| !row.contains(secret)), "a secret is stored in clear");
    }
    let kinds: Vec<&str> = ["person.password_set", "person.link_made"].into();
    for kind in kinds {
        assert!(dump.iter().any(|row| row.contains(kind)), "no event {kind}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_seeded_person_may_have_a_password_too() {
    let world = World::start().await;
    seeds::seed(world.ctx(), PrincipalKind::Human, "human.eve", "key-of-eve").await.unwrap();
    let admin = world.admin().await;
    admin.put("/people/human.eve/password", json!({ "password": WORDS, "admin": true })).await.ok();
    let mut browser = Browser::new(world.address);
    log_in(&mut browser, "human.eve", WORDS).await;
    let me = world.client(&browser.cookie.clone().unwrap()).get("/principals/me").await.ok();
    assert!(me["key"]["scopes"].as_array().unwrap().contains(&json!("admin")));
    // Her own key still works.
    world.client("key-of-eve").get("/principals/me").await.ok();
    world.end().await;
}

#[tokio::test]
async fn a_new_password_ends_terminals_and_links_too_and_their_labels_are_logins_own() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    let entered = admin.post("/people/human.ada/links", json!({})).await.is(201);
    let mut browser = Browser::new(world.address);
    assert_eq!(browser.post(entered["path"].as_str().unwrap(), &[]).await.status, 303);
    let page = browser.act("/terminal", "/terminal", &[]).await;
    let key = page.between("<pre class=\"key\" tabindex=\"0\">", "</pre>");
    let terminal = world.client(&key);
    terminal.get("/principals/me").await.ok();
    let made = admin.post("/people/human.ada/links", json!({})).await.is(201);
    admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
    terminal.get("/principals/me").await.is(401);
    assert_eq!(browser.get("/inbox").await.status, 303, "the old login is over");
    assert_eq!(Browser::new(world.address).post(made["path"].as_str().unwrap(), &[]).await.status, 410);
    for label in ["browser", "terminal"] {
        let refused = admin.post("/principals/human.ada/keys", json!({ "label": label })).await;
        assert!(
            refused.refused(422, "invalid_request")["message"].as_str().unwrap().contains("Only a login")
        );
    }
    world.end().await;
}
