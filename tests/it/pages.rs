//! The HTML pages over HTTP: who gets them, their contents, and their security properties. `tests/web` tests them
//! in a real browser.

mod budgets;
mod charts;
mod dashboard;
mod inboxes;
mod jobs;
mod queues;
mod records;
mod search;

use entente_harness::browser::Browser;
use entente_harness::people::logged_in;
use entente_harness::{World, http, json, send, talk};

#[tokio::test]
async fn every_page_is_shut_to_strangers_and_keeps_to_itself() {
    let world = World::start().await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    let mut stranger = Browser::new(world.address);
    for path in [
        "/dashboard",
        "/dashboard/stream",
        "/terminal",
        "/password",
        "/inboxes",
        "/search",
        "/intents",
        "/agents",
        "/people",
        "/charts",
        "/webhooks",
        "/budgets",
        "/spend",
        "/queues",
        "/jobs/again",
    ] {
        let page = stranger.get(path).await;
        assert_eq!((page.status, page.location), (303, format!("/login?next={path}")), "{path}");
    }
    assert_eq!(
        stranger.get("/dashboard?intent=x&y=%2F").await.location,
        "/login?next=/dashboard%3Fintent%3Dx%26y%3D%252F"
    );
    for path in [
        "/login",
        "/dashboard",
        "/terminal",
        "/l/nothing",
        "/inboxes",
        "/search",
        "/intents",
        "/agents",
        "/people",
        "/charts",
        "/webhooks",
        "/budgets",
        "/spend",
        "/queues",
        "/jobs/again",
    ] {
        let page = browser.get(path).await;
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(page.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        for inline in ["<style", " style=", " onclick", "javascript:", "http://", "https://"] {
            assert!(!page.text.contains(inline), "{path} has `{inline}`");
        }
        assert_eq!(page.text.matches("<script").count(), 1, "{path}");
    }
    assert_eq!(stranger.get("/").await.location, "/inbox");
    world.end().await;
}

#[tokio::test]
async fn a_form_of_elsewhere_does_nothing() {
    let world = World::start().await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    let token = browser.get("/dashboard").await.between("name=\"token\" value=\"", "\"");
    for site in ["cross-site", "same-site", "none"] {
        let page = browser.from(site).post("/logout", &[("token", &token)]).await;
        assert_eq!(page.status, 403, "{site}");
    }
    browser.from("same-origin");
    assert_eq!(browser.post("/logout", &[]).await.status, 422);
    assert_eq!(browser.post("/logout", &[("token", "")]).await.status, 403);
    // The token of another login is refused too.
    let mut other = logged_in(&world, "human.ben", false).await;
    let foreign = other.get("/dashboard").await.between("name=\"token\" value=\"", "\"");
    assert_eq!(browser.post("/logout", &[("token", &foreign)]).await.status, 403);
    // A browser that sends no `Sec-Fetch-Site` header sends at least the origin.
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let cookie = format!("entente={}", browser.cookie.clone().unwrap());
    for (origin, status) in [("http://elsewhere.example".to_owned(), 403), ("null".to_owned(), 403)] {
        let answer = client.post(format!("http://{}/logout", world.address)).header("cookie", &cookie);
        let answer = answer.header("origin", origin).body(format!("token={token}")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
    }
    let answer = client.post(format!("http://{}/logout", world.address)).header("cookie", &cookie);
    assert_eq!(answer.body(format!("token={token}")).send().await.unwrap().status().as_u16(), 403);
    assert_eq!(browser.get("/dashboard").await.status, 200, "it is logged in as before");
    let own = format!("http://{}", world.address);
    let answer = client.post(format!("{own}/logout")).header("cookie", &cookie).header("origin", own);
    assert_eq!(answer.body(format!("token={token}")).send().await.unwrap().status().as_u16(), 303);
    assert_eq!(browser.get("/dashboard").await.status, 303);
    world.end().await;
}

#[tokio::test]
async fn assets_are_kept_by_their_version() {
    let world = World::start().await;
    let mut browser = Browser::new(world.address);
    let login = browser.get("/login").await;
    let style = login.between("rel=\"stylesheet\" href=\"", "\"");
    let named = browser.get(&style).await;
    assert_eq!((named.status, named.header("content-type")), (200, "text/css; charset=utf-8"));
    assert!(named.header("cache-control").contains("immutable"));
    let plain = browser.get("/assets/entente.css").await;
    assert_eq!(plain.header("cache-control"), "public, no-cache");
    let tag = plain.header("etag").to_owned();
    let again =
        http().get(format!("http://{}/assets/entente.css", world.address)).header("if-none-match", tag);
    assert_eq!(again.send().await.unwrap().status().as_u16(), 304);
    for (path, kind) in
        [("/assets/entente.js", "text/javascript; charset=utf-8"), ("/favicon.ico", "image/svg+xml")]
    {
        assert_eq!(browser.get(path).await.header("content-type"), kind);
    }
    world.end().await;
}

#[tokio::test]
async fn the_dashboard_shows_what_goes_on_and_what_hangs() {
    let world = World::start().await;
    let (ann, bob) = (world.agent("agent.ann").await, world.agent("agent.bob").await);
    let (intent, channel) =
        talk(&ann, json!({ "name": "clarify <b>now</b>", "member_policy": "intent" })).await;
    ann.post("/agents/register", json!({ "agent_id": "agent.ann", "role_id": "researcher" })).await.ok();
    let ask = |from: &str, to: &str| json!({ "sender": from, "to": to, "message_type": "request", "payload": { "q": 1 } });
    send(&ann, &channel, ask("agent.ann", "agent.bob")).await;
    let mut browser = logged_in(&world, "human.ada", true).await;
    let page = browser.get("/dashboard").await;
    assert_eq!(page.status, 200);
    for part in [
        "agent.ann",
        "agent.bob",
        "clarify &#60;b&#62;now&#60;/b&#62;",
        "researcher",
        "Everything on this server",
    ] {
        assert!(page.text.contains(part), "no `{part}` in {}", page.text);
    }
    assert!(!page.text.contains("<b>now"), "what agents write is never markup");
    send(&bob, &channel, ask("agent.bob", "agent.ann")).await;
    let page = browser.get("/dashboard").await;
    assert!(!page.text.contains("Deadlock"), "plain requests are none");
    // Calls that wait are one.
    let path = format!("/channels/{channel}/ask");
    let calls = [(ann.clone(), "agent.bob"), (bob.clone(), "agent.ann")].map(|(client, to)| {
        let (path, body) = (path.clone(), json!({ "to": to, "timeout": 60 }));
        tokio::spawn(async move { client.post(&path, body).await })
    });
    let began = std::time::Instant::now();
    let page = loop {
        let page = browser.get(&format!("/dashboard?intent={intent}")).await;
        if page.text.contains("Deadlock") {
            break page;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "no deadlock in {}", page.text);
    };
    assert_eq!(
        page.between("<strong>Deadlock:</strong>", "</p>"),
        "agent.ann and agent.bob wait for each other."
    );
    assert_eq!(page.text.matches("class=\"wait stuck\"").count(), 2);
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.end().await;
}

#[tokio::test]
async fn the_dashboard_shows_no_more_than_one_may_see() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    let (open, channel) =
        talk(&ann, json!({ "member_policy": "explicit", "members": ["agent.ann", "agent.bob"] })).await;
    let said = json!({ "sender": "agent.ann", "to": "agent.bob", "message_type": "request", "payload": {} });
    send(&ann, &channel, said).await;
    let closed = ann.post("/intents", json!({ "title": "a secret matter" })).await.ok();
    let closed = closed["id"].as_str().unwrap();
    ann.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed" })).await.ok();
    ann.put("/arcp/agents/sums/versions/1", json!({})).await.ok();
    ann.post("/jobs", json!({ "agent": "sums", "lease_request": { "cost.budget": ["USD:5.00"] } }))
        .await
        .is(201);

    let mut person = logged_in(&world, "human.ada", false).await;
    let page = person.get(&format!("/dashboard?intent={open}")).await;
    for hidden in ["secret matter", "waits for <strong>agent.bob", "5 of 5 USD", "in talk"] {
        assert!(!page.text.contains(hidden), "a person without a part in it sees `{hidden}`");
    }
    let asked = person.get(&format!("/dashboard?intent={closed}")).await;
    assert!(!asked.text.contains("secret matter"), "nor when it is asked for");
    let mut admin = logged_in(&world, "human.eve", true).await;
    let page = admin.get(&format!("/dashboard?intent={open}")).await;
    for shown in
        ["secret matter", "waits for <strong>agent.bob", "5 of 5 USD left", "Everything on this server"]
    {
        assert!(page.text.contains(shown), "an admin does not see `{shown}` in {}", page.text);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_cannot_be_read_is_never_shown_as_one() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut browser = logged_in(&world, "human.ada", false).await;
    let told = json!({ "fallback_text": "Shall <i>1.4</i> ship?" });
    let broken = entente_harness::moments::ask(&agent, told).await["id"].as_str().unwrap().to_owned();
    let whole = entente_harness::moments::ask(&agent, json!({})).await["id"].as_str().unwrap().to_owned();
    let uuid = broken.parse::<entente_domain::ids::MomentId>().unwrap().uuid();
    let cases = [
        ("no JSON", "{", "Ship release 1.4"),
        ("a member is missing", r#"{"synopsis":"Ship release 1.4 now."}"#, "Ship release 1.4 now"),
        (
            "too many options",
            r#"{"synopsis":"Ship it.","findings":[],"recommendations":[],"offer":"","question":{"stem":"s","options":[
            {"label":"one","reasoning":"r"}],"recommended_idx":0,"hatches":{"free_text":true,"dialogue":true}}}"#,
            "Ship it.",
        ),
    ];
    for (case, brief, hidden) in cases {
        let set = "UPDATE moments SET brief = $1 WHERE id = $2";
        sqlx::query(set).bind(brief).bind(uuid).execute(&world.ctx().pool).await.unwrap();
        let page = browser.get(&format!("/inbox/{broken}")).await;
        assert_eq!(page.status, 200, "{case}");
        assert!(page.text.contains("The question was discarded:"), "{case}: {}", page.text);
        assert!(page.text.contains("Shall &#60;i&#62;1.4&#60;/i&#62; ship?"), "{case}: {}", page.text);
        for part in [hidden, "type=\"radio\"", "name=\"kind\""] {
            assert!(!page.text.contains(part), "{case} shows `{part}`");
        }
        // And it does not break the other questions.
        let inbox = browser.get("/inbox").await;
        assert_eq!(inbox.status, 200, "{case}");
        assert!(
            inbox.text.contains(&whole) && inbox.text.contains("A question that cannot be shown"),
            "{case}"
        );
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_person_who_is_asked_gets_the_form() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    let mut ada = logged_in(&world, "human.ada", false).await;
    let mut ben = logged_in(&world, "human.ben", false).await;
    let mut root = logged_in(&world, "human.root", true).await;
    let moment = entente_harness::moments::ask(&agent, json!({})).await;
    let path = format!("/inbox/{}", moment["id"].as_str().unwrap());
    assert_eq!(ben.get(&path).await.status, 404);
    let seen = root.get(&path).await;
    assert_eq!(seen.status, 200);
    assert!(!seen.text.contains("type=\"radio\""), "an admin sees it and answers nothing");
    let answer =
        [("kind", "option"), ("option", "0"), ("digest", moment["envelope_digest"].as_str().unwrap())];
    assert_eq!(ben.act(&format!("{path}/answer"), "/inbox", &answer).await.status, 404);
    assert_eq!(root.act(&format!("{path}/answer"), "/inbox", &answer).await.status, 403);
    // Viewing a question, however often, neither answers nor records anything.
    let before = agent.get(&entente_harness::moments::at(&moment)).await.ok();
    assert_eq!(ada.get(&path).await.status, 200);
    assert_eq!(agent.get(&entente_harness::moments::at(&moment)).await.ok(), before);
    // An answer to a different version of the question is refused.
    let stale = [("kind", "option"), ("option", "0"), ("digest", "sha256:00")];
    let page = ada.act(&format!("{path}/answer"), &path, &stale).await;
    assert_eq!(page.status, 409);
    assert!(page.text.contains("role=\"alert\""));
    let unsaid = [("kind", "free_text"), ("answer", " "), ("digest", answer[2].1)];
    assert_eq!(ada.act(&format!("{path}/answer"), &path, &unsaid).await.status, 422);
    let done = ada.act(&format!("{path}/answer"), &path, &answer).await;
    assert_eq!((done.status, done.location), (303, path.clone()));
    let found = agent.get(&entente_harness::moments::at(&moment)).await.ok();
    assert_eq!((&found["state"], &found["resolution"]["resolved_via"]), (&json!("resolved"), &json!("web")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_hears_that_it_is_no_longer_true_until_its_login_ends() {
    let world = World::start().await;
    let ann = world.agent("agent.ann").await;
    for path in ["/dashboard/stream", "/inbox/stream"] {
        let mut browser = logged_in(&world, "human.ada", false).await;
        let cookie = format!("entente={}", browser.cookie.clone().unwrap());
        let open = http().get(format!("http://{}{path}", world.address)).header("cookie", cookie);
        let mut stream = open.send().await.unwrap();
        assert_eq!(stream.headers()["content-type"], "text/event-stream; charset=utf-8");
        let next = |chunk: Option<bytes::Bytes>| String::from_utf8(chunk.unwrap().to_vec()).unwrap();
        let first = next(stream.chunk().await.unwrap());
        assert!(first.contains("event: changed"), "{first}");
        // The event says that something changed, but not what.
        entente_harness::moments::ask(&ann, json!({ "corr": path })).await;
        let second = next(stream.chunk().await.unwrap());
        assert!(second.contains("event: changed") && !second.contains("agent.ann"), "{second}");
        assert_ne!(first, second);
        browser.act("/logout", "/inbox", &[]).await;
        assert!(stream.chunk().await.is_err(), "{path} goes on after the login has ended");
    }
    // Everyone with access to a question can follow it, asked or not; nobody else can.
    let moment = entente_harness::moments::ask(&ann, json!({ "corr": "one" })).await;
    let path = format!("/inbox/{}/stream", moment["id"].as_str().unwrap());
    assert_eq!(logged_in(&world, "human.ben", false).await.get(&path).await.status, 404);
    let root = logged_in(&world, "human.root", true).await;
    let cookie = format!("entente={}", root.cookie.clone().unwrap());
    let open = http().get(format!("http://{}{path}", world.address)).header("cookie", cookie);
    let mut stream = open.send().await.unwrap();
    let first = stream.chunk().await.unwrap();
    ann.post(&format!("{}/withdraw", entente_harness::moments::at(&moment)), json!({ "reason": "over" }))
        .await
        .ok();
    assert_ne!(stream.chunk().await.unwrap(), first);
    world.end().await;
}
