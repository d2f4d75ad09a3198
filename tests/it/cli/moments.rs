//! `entente moment`: questions to people as plain text, and the question in a tool's result.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::{complaint, text, told};
use entente_harness::moments::{ask, at, option, question, resolve};
use entente_harness::{Value, World, json};

/// Runs a command with this JSON on standard input.
async fn given(world: &World, key: &str, arguments: &[&str], input: &Value) -> Output {
    written(world, key, arguments, input.to_string()).await
}

/// Like [`given`], with any text as standard input.
async fn written(world: &World, key: &str, arguments: &[&str], input: String) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("moment").args(arguments).env_clear().env("NO_COLOR", "1");
    command.env("ENTENTE_URL", format!("http://{}", world.address)).env("ENTENTE_API_KEY", key);
    tokio::task::spawn_blocking(move || {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn an_agent_asks_and_waits_from_a_script() {
    let world = World::start().await;
    world.agent("agent.a").await;
    let human = world.human("human.ada").await;
    let mut slots = question("human.ada")["binding_moment"].clone();
    slots["question"]["options"][1]["label"] = json!("Other");
    let asked = given(&world, "key-of-agent.a", &["ask", "human.ada"], &slots).await;
    assert!(asked.status.success(), "{}", complaint(&asked));
    assert!(complaint(&asked).contains("remarked: "), "a bad label is remarked: {}", complaint(&asked));
    assert!(text(&asked).contains("  1) Ship now  (recommended) - All checks pass."), "{}", text(&asked));
    let twice = slots.to_string().replacen("\"synopsis\":", "\"synopsis\":\"Other.\",\"synopsis\":", 1);
    let refused = written(&world, "key-of-agent.a", &["ask", "human.ada"], twice).await;
    assert!(!refused.status.success() && complaint(&refused).contains("`synopsis` is there twice"));
    slots["question"]["recommended_idx"] = json!(7);
    let refused = given(&world, "key-of-agent.a", &["ask", "human.ada"], &slots).await;
    assert!(
        !refused.status.success() && complaint(&refused).contains("invalid_moment"),
        "{}",
        complaint(&refused)
    );

    let found = told(&world, "key-of-human.ada", &["moment", "list", "--state", "open"]).await;
    let moment = found[0].clone();
    let id = moment["id"].as_str().unwrap().to_owned();
    let (wait, nothing) = (["wait", &id], json!(null));
    let waits = given(&world, "key-of-agent.a", &wait, &nothing);
    let answers = async {
        // The answer arrives while the command waits for it.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        resolve(&human, &moment, option(0)).await.ok();
    };
    let (waited, ()) = tokio::join!(waits, answers);
    assert!(text(&waited).contains("resolved: 1) Ship now (human.ada by api)"), "{}", text(&waited));
    let shown = given(&world, "key-of-human.ada", &["show", &id], &json!(null)).await;
    assert_eq!(text(&shown), text(&waited));
    assert!(!text(&shown).contains('\u{1b}'));
    let stranger =
        given(&world, "key-of-agent.a", &["show", "bm_01JFB2R1JZKQ9V3K8W8Y9W1F2A"], &json!(null)).await;
    assert!(!stranger.status.success() && complaint(&stranger).contains("not_found"));
    world.end().await;
}

#[tokio::test]
async fn the_question_in_a_tools_result_is_shown_announced_or_not() {
    let world = World::start().await;
    let slots = {
        let agent = world.agent("agent.a").await;
        world.human("human.ada").await;
        let asked = ask(&agent, json!({})).await;
        agent.get(&at(&asked)).await.ok()["binding_moment"].clone()
    };
    let content = json!([{ "type": "text", "text": "The tool\u{1b}[2J says this." }]);
    let render = async |result: Value| given(&world, "", &["render"], &result).await;
    let top = render(json!({ "content": content, "binding_moment": slots })).await;
    assert!(
        top.status.success() && text(&top).starts_with("DECISION NEEDED  class: release\nShip release"),
        "{}",
        text(&top)
    );
    let structured =
        render(json!({ "content": content, "structuredContent": { "binding_moment": slots } })).await;
    assert_eq!(text(&structured), text(&top));

    // It shows all of a question, however long, but nothing of a malformed one.
    let findings: Vec<String> = (1..=40).map(|n| format!("Finding number {n} of forty.")).collect();
    let mut long = slots.clone();
    long["findings"] = json!(findings);
    let long = text(&render(json!({ "content": content, "binding_moment": long })).await);
    assert!(findings.iter().all(|finding| long.contains(&format!("  - {finding}\n"))), "{long}");
    for (at, wrong) in [
        ("/question/recommended_idx", json!(-1)),
        ("/question/recommended_idx", json!(2)),
        ("/question/recommended_idx", json!("0")),
        ("/question/options", json!([{ "label": "a", "reasoning": "b" }])),
        ("/synopsis", json!(null)),
    ] {
        let mut malformed = slots.clone();
        *malformed.pointer_mut(at).unwrap() = wrong;
        let shown = render(json!({ "content": content, "binding_moment": malformed })).await;
        assert!(shown.status.success());
        assert_eq!(text(&shown), "The tool\\u{1b}[2J says this.\n");
        assert!(complaint(&shown).contains("This is no question that can be shown"), "{}", complaint(&shown));
    }
    let plain = render(json!({ "content": content })).await;
    assert_eq!((text(&plain).lines().count(), complaint(&plain).as_str()), (1, ""));
    // Parsers disagree about a duplicate member, wherever it is, so it is refused.
    let question = json!({ "content": content, "binding_moment": slots }).to_string();
    for twice in [
        question.replacen("\"synopsis\":", "\"synopsis\":\"Delete it all.\",\"synopsis\":", 1),
        question.replacen("\"binding_moment\":", "\"binding_moment\":{},\"binding_moment\":", 1),
    ] {
        assert_ne!(twice, question);
        let shown = written(&world, "", &["render"], twice).await;
        assert_eq!(text(&shown), "The tool\\u{1b}[2J says this.\n");
        assert!(complaint(&shown).contains("is there twice"), "{}", complaint(&shown));
    }
    // The JSON output contains no control characters either.
    let json = render(json!({ "note": "\u{7f}\u{9b}2J\u{202e}\n\u{1b}c" })).await;
    assert_eq!(text(&json), "{\"note\":\"\\u{7f}\\u{9b}2J\\u{202e}\\n\\u001bc\"}\n");
    world.end().await;
}
