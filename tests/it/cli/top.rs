//! `entente top`: once without a terminal, live on one, and only what the key may see.

use std::process::{Command, Output};

use entente_harness::cli::{complaint, text};
use entente_harness::process::free_address;
use entente_harness::terminal::Terminal;
use entente_harness::{Setup, Value, World, json};

fn command(world: &World, key: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("top").args(arguments).env_clear().env("ENTENTE_API_KEY", key);
    command.env("ENTENTE_URL", format!("http://{}", world.address)).env("TERM", "xterm");
    command
}

async fn ran(world: &World, key: &str, arguments: &[&str]) -> Output {
    let mut command = command(world, key, arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// A system in which something of everything is.
async fn busy(world: &World) -> String {
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let _human = world.human("human.eve").await;
    ada.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    ada.post("/agents/register", json!({ "agent_id": "agent.ada", "role_id": "r" })).await;
    let budget = json!({ "scope": "system", "unit": "USD", "limit": 5, "name": "all \u{1b}[31mof it" });
    admin.post("/budgets", budget).await.is(201);
    let slots: Value = serde_json::from_str(include_str!("../../../examples/question.json")).unwrap();
    let ask = json!({ "principal_id": "human.eve", "binding_moment": slots });
    ada.post("/moments", ask).await.is(201);
    admin.headers()[0].1.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_shown_at_a_glance() {
    let world = World::with(Setup::live()).await;
    let operator = busy(&world).await;
    let shown = ran(&world, &operator, &[]).await;
    assert!(shown.status.success(), "{}", complaint(&shown));
    let lines = text(&shown);
    for part in [
        "JOBS",
        "pending 1",
        "DECISIONS THAT WAIT",
        "human.eve",
        "At what time should",
        "AGENTS",
        "active 1",
        "BUDGETS",
        "0.0 %",
        "0 of 5 USD",
    ] {
        assert!(lines.contains(part), "`{part}` is not in\n{lines}");
    }
    assert!(!lines.contains('\u{1b}'), "a name reaches the terminal: {lines:?}");
    assert!(
        !lines.contains("DEADLOCKS") && !lines.contains("RUNNING"),
        "an empty section is shown:\n{lines}"
    );
    let all: Value = serde_json::from_slice(&ran(&world, &operator, &["--json"]).await.stdout).unwrap();
    assert_eq!(all["jobs"]["by_status"]["pending"], 1, "{all}");
    assert_eq!(all["moments"][0]["principal_id"], "human.eve");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_may_not_see_is_left_out_with_the_reason() {
    let world = World::with(Setup::live()).await;
    busy(&world).await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.narrow", "kind": "agent" })).await.is(201);
    let key = json!({ "label": "narrow", "scopes": ["agents:read"] });
    let key =
        admin.post("/principals/agent.narrow/keys", key).await.is(201)["key"].as_str().unwrap().to_owned();
    let shown = ran(&world, &key, &[]).await;
    assert!(shown.status.success(), "{}", complaint(&shown));
    assert!(text(&shown).contains("scope_missing") && text(&shown).contains("active 1"), "{}", text(&shown));
    assert!(!text(&shown).contains("human.eve"), "{}", text(&shown));
    let refused = ran(&world, "ent_made_up", &[]).await;
    assert_eq!(refused.status.code(), Some(7), "{}", complaint(&refused));
    let mut away = command(&world, "ent_made_up", &[]);
    away.env("ENTENTE_URL", format!("http://{}", free_address()));
    let away = tokio::task::spawn_blocking(move || away.output().unwrap()).await.unwrap();
    assert_eq!(away.status.code(), Some(8), "{}", complaint(&away));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_changes_and_gets_its_screen_back() {
    let world = World::with(Setup::live()).await;
    let operator = busy(&world).await;
    let ada = world.agent("agent.ada").await;
    let mut terminal = Terminal::run(&mut command(&world, &operator, &["--interval", "0.2"]));
    let mut terminal = tokio::task::spawn_blocking(move || {
        terminal.until("\u{1b}[?1049h");
        terminal.until("pending 1");
        terminal.until("messages/s");
        terminal
    })
    .await
    .unwrap();
    ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let (status, screen) = tokio::task::spawn_blocking(move || {
        terminal.until("pending 2");
        terminal.interrupt();
        terminal.end()
    })
    .await
    .unwrap();
    assert!(status.success(), "{status}");
    assert!(screen.ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{screen:?}");
    world.end().await;
}
