//! `entente workflow`: a file is applied once, updated when it changes, completed after a partial failure, and
//! refused with the position of an error.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::{complaint, run, scratch, text};
use entente_harness::{ANY, Client, Value, World, json};

/// Returns the example from the repository.
fn example() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/workflow.yaml")).unwrap()
}

fn write(name: &str, text: &str) -> PathBuf {
    let file = scratch(name);
    fs::write(&file, text).unwrap();
    file
}

/// Applies a file as `agent.lead`.
fn apply(world: &World, file: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["workflow", "apply", file.to_str().unwrap(), "--as", "agent.lead", "--json"];
    arguments.extend(more);
    tokio::task::block_in_place(|| run(Some(world), ANY, &arguments))
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(output), complaint(output)))
}

/// Returns all outcomes except `but`, as `thing name: outcome`.
fn outcomes(report: &Value, but: &str) -> Vec<String> {
    let steps = report["steps"].as_array().unwrap().iter();
    let steps = steps.filter(|step| step["outcome"] != but);
    let word = |step: &Value, member: &str| step[member].as_str().unwrap().to_owned();
    steps
        .map(|step| format!("{} {}: {}", word(step, "thing"), word(step, "name"), word(step, "outcome")))
        .collect()
}

fn lead(world: &World) -> Client {
    world.any().acting_as("agent.lead")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_is_brought_about_once() {
    let world = World::start().await;
    let file = write("workflow.yaml", &example());
    let dry = report(&apply(&world, &file, &["--dry-run"]));
    assert_eq!((&dry["created"], &dry["intent_id"]), (&json!(9), &json!(null)), "{dry}");
    assert_eq!(lead(&world).get("/intents").await.ok()["intents"], json!([]));

    let first = apply(&world, &file, &[]);
    assert!(first.status.success(), "{}", complaint(&first));
    let first = report(&first);
    assert_eq!((&first["created"], &first["unchanged"]), (&json!(9), &json!(0)), "{first}");
    let id = first["intent_id"].as_str().unwrap();
    let intent = lead(&world).get(&format!("/intents/{id}")).await.ok();
    assert_eq!(
        (&intent["title"], &intent["created_by"]),
        (&json!("Research Q1 financials"), &json!("agent.lead"))
    );
    assert_eq!(intent["constraints"], json!({ "deadline": "2026-12-01", "workflow": "q1-financials" }));
    assert_eq!(intent["state"], json!({ "quarter": "Q1" }));
    let tasks = lead(&world).get(&format!("/intents/{id}/tasks")).await.ok();
    let named =
        |name: &str| tasks.as_array().unwrap().iter().find(|task| task["name"] == name).unwrap().clone();
    assert_eq!(
        (&named("collect")["assigned_agent"], &named("collect")["status"]),
        (&json!("data-agent"), &json!("ready"))
    );
    assert_eq!(named("analyse")["depends_on"], json!([named("collect")["id"]]));
    assert_eq!(named("report")["max_attempts"], 1);
    let channels = lead(&world).get(&format!("/intents/{id}/channels")).await.ok();
    let about = channels.as_array().unwrap().iter().find(|one| one["name"] == "data-clarification").unwrap();
    assert_eq!(
        (&about["members"], &about["task_id"]),
        (&json!(["research-agent", "data-agent"]), &named("collect")["id"])
    );
    assert_eq!(about["options"]["audit"], true);
    assert_eq!(lead(&world).get(&format!("/intents/{id}/retry-policy")).await.ok()["max_retries"], 2);
    let agents = lead(&world).get(&format!("/intents/{id}/agents")).await.ok();
    assert_eq!(agents.as_array().unwrap().len(), 2);

    let events = |client: Client, id: String| async move {
        client.get(&format!("/intents/{id}/events?limit=1000")).await.ok().as_array().unwrap().len()
    };
    let before = events(lead(&world), id.to_owned()).await;
    let second = report(&apply(&world, &file, &[]));
    assert_eq!(outcomes(&second, "unchanged"), Vec::<String>::new());
    assert_eq!((&second["unchanged"], &second["intent_id"]), (&json!(9), &first["intent_id"]));
    assert_eq!(events(lead(&world), id.to_owned()).await, before, "a second time changed something");
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_changes_what_changed() {
    let world = World::start().await;
    let file = write("changed.yaml", &example());
    let first = report(&apply(&world, &file, &[]));
    let changed = example()
        .replace("priority: high", "priority: low")
        .replace("audit: false", "audit: true\n    max_messages: 50")
        .replace("max_retries: 2", "max_retries: 5")
        .replace("role: coordinator", "role: reviewer")
        + "  failure_threshold: 4\n";
    let changed = changed.replace("\nchannels:", "\n  publish:\n    depends_on: [report]\n\nchannels:");
    fs::write(&file, changed).unwrap();
    let expected = [
        "assignment research-agent: changed",
        "task collect: changed",
        "task publish: created",
        "channel progress: changed",
        "retry policy q1-financials: changed",
    ];
    let dry = report(&apply(&world, &file, &["--dry-run"]));
    assert_eq!(outcomes(&dry, "unchanged"), expected);
    let second = report(&apply(&world, &file, &[]));
    assert_eq!(outcomes(&second, "unchanged"), expected);
    let id = first["intent_id"].as_str().unwrap();
    let policy = lead(&world).get(&format!("/intents/{id}/retry-policy")).await.ok();
    assert_eq!((&policy["max_retries"], &policy["base_delay_ms"]), (&json!(5), &json!(1000)));
    let channels = lead(&world).get(&format!("/intents/{id}/channels")).await.ok();
    let progress = channels.as_array().unwrap().iter().find(|one| one["name"] == "progress").unwrap();
    assert_eq!(
        (&progress["options"]["audit"], &progress["options"]["max_messages"]),
        (&json!(true), &json!(50))
    );
    assert_eq!(outcomes(&report(&apply(&world, &file, &[])), "unchanged"), Vec::<String>::new());

    // A difference that the server cannot change is reported, and the other changes are applied.
    let title = fs::read_to_string(&file).unwrap().replace("Research Q1", "Find out about Q1");
    fs::write(&file, title.replace("priority: low", "priority: normal")).unwrap();
    let third = apply(&world, &file, &[]);
    assert_eq!(third.status.code(), Some(1));
    assert!(complaint(&third).contains("1 differ and cannot be changed"), "{}", complaint(&third));
    let expected = ["intent Find out about Q1 financials: differs", "task collect: changed"];
    assert_eq!(outcomes(&report(&third), "unchanged"), expected);
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_undone_is_finished() {
    let world = World::start().await;
    // A task with an invalid timeout: the server refuses it, and everything that does not depend on it is done.
    let broken = example().replace("timeout_seconds: 3600", "timeout_seconds: 0");
    let file = write("partial.yaml", &broken);
    let first = apply(&world, &file, &[]);
    assert_eq!(first.status.code(), Some(1));
    assert!(complaint(&first).contains("1 failed, 3 were not tried"), "{}", complaint(&first));
    let first = report(&first);
    let expected = [
        "task collect: failed",
        "task analyse: skipped",
        "task report: skipped",
        "channel data-clarification: skipped",
    ];
    assert_eq!(outcomes(&first, "created"), expected);
    fs::write(&file, example()).unwrap();
    let second = apply(&world, &file, &[]);
    assert!(second.status.success(), "{}", complaint(&second));
    let second = report(&second);
    let expected = [
        "task collect: created",
        "task analyse: created",
        "task report: created",
        "channel data-clarification: created",
    ];
    assert_eq!(outcomes(&second, "unchanged"), expected);
    assert_eq!(second["intent_id"], first["intent_id"]);

    // Work in progress is not restarted.
    let id = first["intent_id"].as_str().unwrap();
    let tasks = lead(&world).get(&format!("/intents/{id}/tasks")).await.ok();
    let data = world.any().acting_as("data-agent");
    let collect = tasks.as_array().unwrap().iter().find(|task| task["name"] == "collect").unwrap();
    let collect = format!("/tasks/{}", collect["id"].as_str().unwrap());
    data.post(&format!("{collect}/claim"), json!({})).await.ok();
    assert_eq!(outcomes(&report(&apply(&world, &file, &[])), "unchanged"), Vec::<String>::new());
    data.post(&format!("{collect}/complete"), json!({})).await.ok();
    assert_eq!(outcomes(&report(&apply(&world, &file, &[])), "unchanged"), Vec::<String>::new());

    // A completed intent is not reopened by default.
    let version = lead(&world).get(&format!("/intents/{id}")).await.ok()["version"].clone();
    lead(&world)
        .seen(&version)
        .post(&format!("/intents/{id}/status"), json!({ "status": "completed" }))
        .await
        .ok();
    let over = apply(&world, &file, &[]);
    assert_eq!(over.status.code(), Some(1));
    assert!(complaint(&over).contains("is completed. With --again"), "{}", complaint(&over));
    let anew = report(&apply(&world, &file, &["--again"]));
    assert_eq!(anew["created"], 9);
    assert_ne!(anew["intent_id"], first["intent_id"]);
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_registered_where_the_file_says_what_they_are() {
    let world = World::start().await;
    let text =
        "version: \"1.0\"\nintent:\n  title: t\nagents:\n  agent.a:\n    capabilities: [ocr]\n  agent.b:\n";
    let file = write("agents.yaml", text);
    let any = world.any();
    let own = json!({ "agent_id": "agent.a", "metadata": { "own": 1 }, "capabilities": ["old"] });
    any.acting_as("agent.a").post("/agents/register", own).await.ok();
    let arguments = ["workflow", "apply", file.to_str().unwrap(), "--json"];
    let output = tokio::task::block_in_place(|| run(Some(&world), ANY, &arguments));
    let expected = [
        "intent t: created",
        "agent agent.a: changed",
        "assignment agent.a: created",
        "assignment agent.b: created",
    ];
    assert_eq!(outcomes(&report(&output), ""), expected);
    let record = any.get("/agents/agent.a").await.ok();
    assert_eq!((&record["capabilities"], &record["metadata"]), (&json!(["ocr"]), &json!({ "own": 1 })));
    any.get("/agents/agent.b").await.refused(404, "not_found");
    // The output for people is a table.
    let output = tokio::task::block_in_place(|| run(Some(&world), ANY, &arguments[..3]));
    assert!(text_has(&output, &["THING", "unchanged", "agent.a"]), "{}", super::text(&output));
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_taken_off_is_assigned_again_among_a_thousand() {
    let world = World::start().await;
    let text = "version: \"1.0\"\nintent:\n  title: t\nagents:\n  agent.b:\n";
    let file = write("many.yaml", text);
    let first = report(&apply(&world, &file, &[]));
    // As many as a page of other lists holds; this list has no pages and must be read completely.
    sqlx::query(
        "INSERT INTO assignments (id, intent_id, agent_id, role, assigned_by, assigned_at, seq)
         SELECT gen_random_uuid(), i.id, 'agent.x' || n, 'worker', 'agent.lead', i.created_at, 1
         FROM intents i, generate_series(1, 1000) AS n WHERE i.title = 't'",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    let agents = format!("/intents/{}/agents", first["intent_id"].as_str().unwrap());
    assert_eq!(lead(&world).get(&agents).await.ok().as_array().unwrap().len(), 1001);
    assert_eq!(outcomes(&report(&apply(&world, &file, &[])), "unchanged"), Vec::<String>::new());
    lead(&world).delete(&format!("{agents}/agent.b")).await;
    for more in [&["--dry-run"][..], &[]] {
        let told = report(&apply(&world, &file, more));
        assert_eq!(outcomes(&told, "unchanged"), ["assignment agent.b: created"]);
    }
    let found = lead(&world).get(&agents).await.ok();
    assert!(found.as_array().unwrap().iter().any(|one| one["agent_id"] == "agent.b"), "it is not assigned");
    fs::remove_file(file).unwrap();
    world.end().await;
}

fn text_has(output: &Output, words: &[&str]) -> bool {
    let text = text(output);
    words.iter().all(|word| text.contains(word))
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let check = |text: &str| {
        let file = write(&format!("check-{}.yaml", text.len()), text);
        let output = run(None, "", &["workflow", "check", file.to_str().unwrap()]);
        fs::remove_file(&file).unwrap();
        let said = complaint(&output).replace(file.to_str().unwrap(), "FILE");
        (output.status.success(), said, super::text(&output))
    };
    let (fine, said, told) = check(&example());
    assert!(fine && told.contains("2 agents, 3 tasks and 2 channels"), "{said}{told}");
    // The example of RFC-0021.
    let rfc = "version: \"1.0\"\nintent:\n  title: \"Research Q1 Financials\"\n\nchannels:\n  data-clarification:\n    members: \
               [research-agent, data-agent]\n    member_policy: explicit\n    audit: true\n  progress:\n    member_policy: \
               intent\n    audit: false\nagents:\n  research-agent:\n    on_message:\n      - channel: progress\n        \
               handler: log_progress\n";
    assert!(check(rfc).0, "{}", check(rfc).1);
    for (text, expected) in [
        (example().replace("priority: high", "prority: high"), "FILE:31:5: unknown field `prority`"),
        (
            example().replace("channel: progress", "channel: progres"),
            "FILE:20:18: there is no channel `progres`",
        ),
        (example().replace("[collect]", "[colect]"), "FILE:36:18: there is no task `colect`"),
        (example().replace("assign: data-agent", "assign: data"), "FILE:30:13: there is no agent `data`"),
        (
            example().replace("    timeout_seconds: 3600", "    depends_on: [report]"),
            "these tasks wait for each other",
        ),
        (example().replace("version: \"1.0\"", "version: \"2.0\""), "FILE:5:10: version `2.0` is not known"),
        (example().replace("audit: true", "audit: maybe"), "FILE:47:12: "),
        ("openintent: \"1.0\"\nworkflow: {}\n".to_owned(), "FILE:2:1: workflow: it has no phases"),
        ("version: \"1.0\"\nintent:\n  title: a\n  title: b\n".to_owned(), "FILE:4:3: duplicate"),
        ("version: \"1.0\"\n".to_owned(), "missing field `intent`"),
        ("a: [".to_owned(), "FILE:"),
        (String::new(), "FILE:"),
    ] {
        let (fine, said, _) = check(&text);
        assert!(!fine && said.contains(expected), "`{expected}` is not in: {said}");
    }
    let missing = run(None, "", &["workflow", "check", "/nowhere/at/all.yaml"]);
    assert!(complaint(&missing).contains("/nowhere/at/all.yaml"), "{}", complaint(&missing));
}
