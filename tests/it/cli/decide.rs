//! `entente decide` as a person uses it: at a terminal, with a key from the browser.

use std::process::Command;

use super::complaint;
use entente_harness::browser::Browser;
use entente_harness::envelopes::{mail, task_envelope, with};
use entente_harness::moments::{ask, at, expire_due, option, resolve};
use entente_harness::people::logged_in;
use entente_harness::terminal::Terminal;
use entente_harness::{Client, Value, World, json};

const PROMPT: &str = "1-2, t, d, a) ask for detail, n) next, q) quit: ";

/// Starts `entente decide` on a terminal, without a key.
fn sit(world: &World, arguments: &[&str]) -> Terminal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("decide").args(arguments).env_clear();
    // It ignores a key from the environment.
    command
        .env("ENTENTE_URL", format!("http://{}", world.address))
        .env("ENTENTE_API_KEY", "key-of-human.ada");
    Terminal::run(&mut command)
}

/// Returns the key that a login creates for a terminal.
async fn key(browser: &mut Browser) -> String {
    let page = browser.act("/terminal", "/terminal", &[]).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.between("<pre class=\"key\" tabindex=\"0\">", "</pre>")
}

/// Runs a blocking closure beside the in-process server.
async fn aside<T: Send + 'static>(doing: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(doing).await.unwrap()
}

/// Starts a server with a logged-in person and an agent.
async fn stage() -> (World, Browser, Client) {
    let world = World::start().await;
    let browser = logged_in(&world, "human.ada", false).await;
    let agent = world.agent("agent.a").await;
    (world, browser, agent)
}

async fn now(agent: &Client, moment: &Value) -> Value {
    agent.get(&at(moment)).await.ok()
}

#[tokio::test]
async fn a_person_answers_what_waits_one_after_the_other() {
    let (world, mut browser, agent) = stage().await;
    let first = ask(&agent, json!({ "expires_in": 3_600 })).await;
    let second = ask(&agent, json!({ "expires_in": 7_200 })).await;
    let key = key(&mut browser).await;
    let mut person = sit(&world, &[]);
    let (status, screen) = aside(move || {
        person.until("/terminal in the browser");
        person.until("Key (it is not shown): ");
        person.enter("key-of-agent.a");
        person.until("This key is not a terminal's.");
        person.until("Key (it is not shown): ");
        person.enter(&key);
        person.until("You decide as human.ada, until ");
        person.until("08:10Z.");
        let shown = person.until(PROMPT);
        for part in [
            "from: agent.a  class: release  expires ",
            "09:00Z\r\nShip release 1.4 now, in private.",
            "  - No blocker is open.",
            "  - Publish to the registry.",
            "  1) Ship now  (recommended) - All checks pass.",
            "  2) Wait a day - The third reviewer is back tomorrow.",
            "  t) answer in your own words",
            "  d) wrong question, let us talk",
        ] {
            assert!(shown.contains(part), "the screen lacks `{part}`:\n{shown}");
        }
        // Enter alone, an invalid choice and a missing confirmation answer nothing.
        person.enter("");
        person.until(PROMPT);
        person.enter("3");
        person.until("`3` is none of the choices; nothing was done.");
        person.until(PROMPT);
        person.enter("2");
        person.until("You answer 2) Wait a day. Sure? y/n: ");
        person.enter("");
        person.until("Sure? y/n: ");
        person.enter("n");
        person.until(PROMPT);
        person.enter("2");
        person.until("Sure? y/n: ");
        person.enter("y");
        person.until("resolved: 2) Wait a day (human.ada by cli)");
        person.until("10:00Z");
        person.until(PROMPT);
        person.enter("t");
        person.until("calls it off:");
        person.enter("Ship on Monday,");
        person.enter("after the review.");
        person.enter(".");
        person.until("resolved: Ship on Monday,\\nafter the review. (human.ada by cli)");
        person.until("Nothing waits for you.");
        let (status, screen) = person.end();
        assert!(!screen.contains(&key), "the key was shown");
        (status, screen)
    })
    .await;
    assert!(status.success(), "{screen}");
    assert!(!screen.contains('\u{1b}'), "there is no colour to be read by: {screen:?}");
    let answers = (now(&agent, &first).await, now(&agent, &second).await);
    assert_eq!(
        (&answers.0["resolution"]["option_idx"], &answers.0["resolution"]["resolved_via"]),
        (&json!(1), &json!("cli"))
    );
    assert_eq!(answers.1["resolution"]["answer"], "Ship on Monday,\nafter the review.");
    assert!(answers.0["first_viewed_at"].is_string());
    world.end().await;
}

/// Tasks that wait for approval come after the questions (AEE §3).
#[tokio::test]
async fn a_person_agrees_to_tasks_after_the_questions() {
    let (world, mut browser, agent) = stage().await;
    let bob = world.agent("agent.b").await;
    for n in 1..=2 {
        let id = format!("envelope-{n}");
        let held = json!({
            "requires": { "human_approval": true, "timeout_ms": 3_600_000 }, "payload": { "n": n, "note": "tab\u{1b}[2J" },
        });
        let task = with(task_envelope(&world, &id, ("agent.a", "agent.b")), held);
        agent.post("/aee/envelopes", task).await.is(202);
    }
    let key = key(&mut browser).await;
    let mut person = sit(&world, &[]);
    let (status, screen) = aside(move || {
        person.until("not shown): ");
        person.enter(&key);
        let shown = person.until("a) agree, d) decline, n) next, q) quit: ");
        for part in
            ["NEEDS YOUR CONSENT [envelope-1]", "agent.a asks agent.b for ops.backup.check.", "\"n\": 1"]
        {
            assert!(shown.contains(part), "the screen lacks `{part}`:\n{shown}");
        }
        person.enter("x");
        person.until("`x` is none of the choices; nothing was done.");
        person.until("quit: ");
        person.enter("a");
        person.until("Sure? y/n: ");
        person.enter("y");
        person.until("You agreed: it is handed out.");
        person.until("[envelope-2]");
        person.until("quit: ");
        person.enter("d");
        person.until("calls it off:");
        person.enter("Not today.");
        person.enter(".");
        person.until("You declined: who asked is told.");
        person.until("Nothing waits for you.");
        person.end()
    })
    .await;
    assert!(status.success(), "{screen}");
    assert!(!screen.contains('\u{1b}'), "what others have written moves no cursor: {screen:?}");
    assert_eq!(mail(&bob, "agent.b").await.len(), 1);
    let told = mail(&agent, "agent.a").await;
    assert!(told[0].1["payload"]["message"].as_str().unwrap().contains("Not today."));
    world.end().await;
}

#[tokio::test]
async fn what_is_said_and_answered_elsewhere_is_shown_at_once() {
    let (world, mut browser, agent) = stage().await;
    let moment = ask(&agent, json!({})).await;
    let key = key(&mut browser).await;
    let mut person = sit(&world, &[moment["id"].as_str().unwrap()]);
    let mut person = aside(move || {
        person.until("not shown): ");
        person.enter(&key);
        person.until(PROMPT);
        person.enter("a");
        person.until("calls it off:");
        person.enter("Who is the third reviewer?");
        person.enter(".");
        person.until(PROMPT);
        person
    })
    .await;
    agent.post(&format!("{}/words", at(&moment)), json!({ "text": "Ben is." })).await.ok();
    let person = aside(move || {
        person.until("agent.a gives detail: Ben is.");
        person.until(PROMPT);
        person
    })
    .await;
    let digest = moment["envelope_digest"].as_str().unwrap().to_owned();
    let path = format!("/inbox/{}", moment["id"].as_str().unwrap());
    let form = [("kind", "option"), ("digest", digest.as_str()), ("option", "0")];
    let page = browser.act(&format!("{path}/answer"), &path, &form).await;
    assert_eq!(page.status, 303, "{}", page.text);
    let (status, _) = aside(move || {
        let mut person = person;
        person.until("It needs no answer any more: resolved: 1) Ship now (human.ada by web)");
        person.until("That was all.");
        person.end()
    })
    .await;
    assert!(status.success());
    world.end().await;
}

#[tokio::test]
async fn news_that_say_nothing_leave_what_is_half_typed() {
    let (world, mut browser, agent) = stage().await;
    world.human("human.ben").await;
    let moment = ask(&agent, json!({ "escalate_to": "human.ben", "escalate_after": 60 })).await;
    let key = key(&mut browser).await;
    let mut person = sit(&world, &[moment["id"].as_str().unwrap()]);
    let mut person = aside(move || {
        person.until("not shown): ");
        person.enter(&key);
        person.until(PROMPT);
        person.press("q");
        person
    })
    .await;
    // The escalation changes the question, but not for the person who is answering.
    world.clock.advance(60);
    assert_eq!(expire_due(&world).await, 1);
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let (status, screen) = aside(move || {
        person.enter("");
        person.end()
    })
    .await;
    assert!(status.success(), "{screen}");
    assert_eq!(screen.matches(PROMPT).count(), 1, "{screen}");
    world.end().await;
}

#[tokio::test]
async fn a_refused_question_is_talked_about_and_a_key_that_is_over_loses_nothing() {
    let (world, mut browser, agent) = stage().await;
    let moment = ask(&agent, json!({})).await;
    let first = key(&mut browser).await;
    let person = sit(&world, &[moment["id"].as_str().unwrap()]);
    let mut person = aside(move || {
        let mut person = person;
        person.until("not shown): ");
        person.enter(&first);
        person.until(PROMPT);
        person.enter("d");
        person.until("What is wrong with the question");
        person.enter("Whether, not when.");
        person
    })
    .await;
    // The key's ten minutes end while the person writes.
    world.clock.advance(601);
    let second = key(&mut browser).await;
    let (status, screen) = aside(move || {
        person.enter(".");
        person.until("Your key is over. Nothing was sent yet, and nothing is lost.");
        person.until("not shown): ");
        person.enter(&second);
        person.until("r) reply, c) close, n) next, q) quit: ");
        person.enter("r");
        person.until("Your reply");
        person.enter("First show me the risk.");
        person.enter(".");
        person.until("quit: ");
        person.enter("c");
        person.until("Sure? y/n: ");
        person.enter("y");
        person.until("closed");
        person.end()
    })
    .await;
    assert!(status.success(), "{screen}");
    let found = now(&agent, &moment).await;
    assert_eq!(
        (&found["state"], &found["resolution"]["objection"]),
        (&json!("closed"), &json!("Whether, not when."))
    );
    assert_eq!(found["words"][0]["text"], "First show me the risk.");
    world.end().await;
}

#[tokio::test]
async fn what_is_typed_ahead_answers_nothing() {
    let (world, mut browser, agent) = stage().await;
    let first = ask(&agent, json!({ "expires_in": 3_600 })).await;
    let second = ask(&agent, json!({ "expires_in": 7_200 })).await;
    let key = key(&mut browser).await;
    let mut person = sit(&world, &[]);
    let (status, screen) = aside(move || {
        person.until("not shown): ");
        person.enter(&key);
        person.until(PROMPT);
        // All in one write, as from a user who expects the same question again.
        person.enter("n\n1\ny");
        person.until("10:00Z");
        person.until(PROMPT);
        // An arrow key, and a line that a terminal would truncate.
        person.enter("\u{1b}[D1");
        person.until("it has control characters");
        person.enter(&"x".repeat(5_000));
        person.until("it is too long for a terminal");
        person.enter("q");
        person.end()
    })
    .await;
    assert!(status.success(), "{screen}");
    assert_eq!(
        (&now(&agent, &first).await["state"], &now(&agent, &second).await["state"]),
        (&json!("open"), &json!("open"))
    );
    world.end().await;
}

#[tokio::test]
async fn what_cannot_be_sent_is_given_back() {
    let (world, mut browser, agent) = stage().await;
    let moment = ask(&agent, json!({})).await;
    let key = key(&mut browser).await;
    let person = sit(&world, &[]);
    let mut person = aside(move || {
        let mut person = person;
        person.until("not shown): ");
        person.enter(&key);
        person.until(PROMPT);
        person.enter("t");
        person.until("calls it off:");
        person.enter("Ship on Monday.");
        person
    })
    .await;
    world.clock.advance(601);
    let (status, screen) = aside(move || {
        person.enter(".");
        person.until("Your key is over.");
        person.until("not shown): ");
        person.enter("no key at all");
        person.until("This is no key");
        person.until("not shown): ");
        person.enter("");
        person.until("Keep this, and try another key. Sure? y/n: ");
        person.enter("n");
        person.until("What you wrote was not sent:");
        person.until("  Ship on Monday.");
        person.end()
    })
    .await;
    // Without a key the program has nothing more to show.
    assert!(!status.success(), "{screen}");
    assert_eq!(now(&agent, &moment).await["state"], "open");
    world.end().await;
}

#[tokio::test]
async fn without_a_terminal_nothing_is_decided() {
    let (world, _browser, agent) = stage().await;
    let moment = ask(&agent, json!({})).await;
    let url = world.address;
    let output = aside(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.arg("decide").env_clear().env("ENTENTE_URL", format!("http://{url}")).output().unwrap()
    })
    .await;
    assert!(!output.status.success());
    assert!(complaint(&output).contains("`entente moment list` and `show` print questions anywhere"));
    assert_eq!(now(&agent, &moment).await["state"], "open");
    let human = world.human("human.ada").await;
    resolve(&human, &moment, option(0)).await.ok();
    world.end().await;
}
