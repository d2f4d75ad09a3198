//! `entente workflow` with a file in the form of the OpenIntent SDK: it is applied once, what is not applied is
//! named, and faults have a position, a path and a remedy. `tests/clients/test_workflows.py` has the same with the
//! SDK itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::{complaint, run, scratch, text};
use entente_harness::{ANY, Client, Value, World, json};

const FILE: &str = r#"openintent: "1.0"
info:
  name: Quarter report
  version: "2"
governance:
  max_cost_usd: 8
  timeout_hours: 2
  require_approval:
    when: "risk == 'high'"
    approvers: [human.ada]
agents:
  agent.reader:
    description: reads
    capabilities: [ocr]
channels:
  talk:
    member_policy: intent
    audit: true
workflow:
  read_papers:
    title: Read the papers
    assign: agent.reader
    constraints:
      - at most ten
    initial_state:
      source: archive
    retry:
      max_attempts: 4
      backoff: constant
    outputs:
      - figures
  write_it:
    assign: agent.writer
    depends_on: [Read the papers]
    permissions: private
    cost_tracking:
      enabled: true
      budget_usd: 2.5
    inputs:
      figures: read_papers.figures
    skip_when: never
llm:
  provider: openai
colour: red
"#;

fn write(name: &str, text: &str) -> PathBuf {
    let file = scratch(name);
    fs::write(&file, text).unwrap();
    file
}

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
    let word = |step: &Value, member: &str| step[member].as_str().unwrap().to_owned();
    steps
        .filter(|step| step["outcome"] != but)
        .map(|step| format!("{} {}: {}", word(step, "thing"), word(step, "name"), word(step, "outcome")))
        .collect()
}

fn lead(world: &World) -> Client {
    world.any().acting_as("agent.lead")
}

/// Returns the intents of the phases, by their titles.
async fn phases(world: &World, root: &str) -> Vec<Value> {
    let found = lead(world).get(&format!("/intents/{root}/children")).await.ok();
    let mut phases = found["children"].as_array().unwrap().clone();
    phases.sort_by_key(|phase| phase["title"].to_string());
    phases
}

#[tokio::test(flavor = "multi_thread")]
async fn phases_become_intents_with_all_that_the_server_enforces() {
    let world = World::start().await;
    let file = write("sdk.yaml", FILE);
    let dry = report(&apply(&world, &file, &["--dry-run"]));
    assert_eq!((&dry["created"], &dry["intent_id"]), (&json!(12), &json!(null)), "{dry}");
    let first = apply(&world, &file, &[]);
    assert!(first.status.success(), "{} {}", text(&first), complaint(&first));
    let first = report(&first);
    let expected = [
        "intent Quarter report: created",
        "policy Quarter report: created",
        "agent agent.reader: created",
        "channel talk: created",
        "phase read_papers: created",
        "policy read_papers: created",
        "retry policy read_papers: created",
        "assignment agent.reader: created",
        "phase write_it: created",
        "policy write_it: created",
        "access write_it: created",
        "assignment agent.writer: created",
    ];
    assert_eq!(outcomes(&first, ""), expected);

    let root = first["intent_id"].as_str().unwrap();
    let gate = lead(&world).get(&format!("/intents/{root}/governance")).await.ok();
    let expected = json!({ "completion_mode": "require_approval", "approvers": ["human.ada"] });
    assert_eq!(gate["governance_policy"], expected);
    let parts = phases(&world, root).await;
    let (read, write) = (&parts[0], &parts[1]);
    assert_eq!((&read["title"], &write["title"]), (&json!("Read the papers"), &json!("Write It")));
    assert_eq!(read["constraints"], json!({ "rules": ["at most ten"], "phase": "read_papers" }));
    assert_eq!(read["state"]["source"], "archive");
    assert_eq!(write["state"]["_io_inputs"], json!({ "figures": "read_papers.figures" }));
    assert_eq!(write["depends_on"], json!([read["id"]]));
    assert_eq!(read["governance_policy"], json!({ "max_cost": 8 }));
    assert_eq!(write["governance_policy"], json!({ "max_cost": 2.5 }));
    let at = |intent: &Value, rest: &str| format!("/intents/{}{rest}", intent["id"].as_str().unwrap());
    let retry = lead(&world).get(&at(read, "/retry-policy")).await.ok();
    assert_eq!((&retry["strategy"], &retry["max_retries"]), (&json!("fixed"), &json!(4)));
    // The phase is closed to everybody but its agent; the other one is open.
    world.any().acting_as("agent.writer").get(&at(write, "")).await.ok();
    world.any().acting_as("agent.eve").get(&at(write, "")).await.refused(403, "access_closed");
    world.any().acting_as("agent.eve").get(&at(read, "")).await.ok();

    let second = report(&apply(&world, &file, &[]));
    assert_eq!(outcomes(&second, "unchanged"), Vec::<String>::new());
    assert_eq!((&second["unchanged"], &second["intent_id"]), (&json!(12), &first["intent_id"]));
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_adds_and_keeps() {
    let world = World::start().await;
    let file = write("sdk-changed.yaml", FILE);
    let first = report(&apply(&world, &file, &[]));
    let root = first["intent_id"].as_str().unwrap();
    let read = phases(&world, root).await[0].clone();
    let path = format!("/intents/{}", read["id"].as_str().unwrap());
    let version = lead(&world).get(&path).await.ok()["version"].clone();
    let over = json!({ "status": "completed" });
    lead(&world).seen(&version).post(&format!("{path}/status"), over).await.ok();
    // Somebody got access while the work went on.
    let write = phases(&world, root).await[1].clone();
    let list = format!("/intents/{}/acl/entries", write["id"].as_str().unwrap());
    lead(&world).post(&list, json!({ "principal_id": "agent.guest", "permission": "read" })).await.ok();

    // Another agent's part with the mark of a phase is no phase.
    let foreign = json!({ "title": "Not a phase", "description": "", "constraints": { "phase": "look_up" } });
    world.any().acting_as("agent.eve").post(&format!("/intents/{root}/children"), foreign).await.ok();

    let more = "  look_up:\n    assign: agent.reader\nllm:";
    let changed = FILE.replace("llm:", more).replace("[Read the papers]", "[read_papers, look_up]");
    let changed = changed.replace("permissions: private", "permissions: [agent.editor]");
    fs::write(&file, changed.replace("max_attempts: 4", "max_attempts: 5")).unwrap();
    let second = report(&apply(&world, &file, &[]));
    let expected = [
        "phase look_up: created",
        "policy look_up: created",
        "assignment agent.reader: created",
        "phase write_it: changed",
        "access write_it: changed",
    ];
    assert_eq!(outcomes(&second, "unchanged"), expected, "a completed phase stays as it is");
    let write = phases(&world, root).await.into_iter().find(|one| one["constraints"]["phase"] == "write_it");
    assert_eq!(write.unwrap()["depends_on"].as_array().unwrap().len(), 2);
    let entries = lead(&world).get(&list.replace("/entries", "")).await.ok()["entries"].clone();
    let mut agents: Vec<&str> =
        entries.as_array().unwrap().iter().map(|one| one["principal_id"].as_str().unwrap()).collect();
    agents.sort_unstable();
    assert_eq!(agents, ["agent.editor", "agent.guest", "agent.writer"]);
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_ends_when_the_file_says_so() {
    let world = World::start().await;
    let ending = |year: u32| {
        let entry = format!("{{ agent: agent.editor, level: read, expires: \"{year}-01-01T00:00:00Z\" }}");
        FILE.replace(
            "permissions: private",
            &format!("permissions: {{ policy: restricted, allow: [{entry}] }}"),
        )
    };
    let file = write("sdk-expiry.yaml", &ending(2030));
    let first = report(&apply(&world, &file, &[]));
    let again = report(&apply(&world, &file, &[]));
    assert_eq!(outcomes(&again, "unchanged"), Vec::<String>::new());
    fs::write(&file, ending(2028)).unwrap();
    let changed = report(&apply(&world, &file, &[]));
    assert_eq!(outcomes(&changed, "unchanged"), ["access write_it: changed"]);
    let write = phases(&world, first["intent_id"].as_str().unwrap()).await[1].clone();
    let list = format!("/intents/{}/acl", write["id"].as_str().unwrap());
    let entries = lead(&world).get(&list).await.ok()["entries"].clone();
    let editor =
        entries.as_array().unwrap().iter().find(|one| one["principal_id"] == "agent.editor").unwrap();
    assert!(editor["expires_at"].as_str().unwrap().starts_with("2028-01-01T"), "{editor}");
    fs::remove_file(file).unwrap();
    world.end().await;
}

#[test]
fn what_is_not_applied_is_named() {
    let file = write("sdk-check.yaml", FILE);
    let name = file.to_str().unwrap();
    let told = text(&run(None, "", &["workflow", "check", name])).replace(name, "FILE");
    for part in [
        "2 phases, 1 dependencies, 2 assignments, 1 agents, 1 channels, 2 cost limits, 1 retry policies, 1 access lists, \
         1 approval gates",
        "FILE:4:3: info.version: not applied: ",
        "FILE:6:3: governance.max_cost_usd: applied differently: ",
        "FILE:7:3: governance.timeout_hours: not applied: ",
        "FILE:9:5: governance.require_approval.when: applied differently: ",
        "FILE:13:5: agents.agent.reader.description: not applied: ",
        "FILE:30:5: workflow.read_papers.outputs: kept, not enforced: ",
        "FILE:39:5: workflow.write_it.inputs: kept, not enforced: ",
        "FILE:41:5: workflow.write_it.skip_when: not applied: ",
        "FILE:42:1: llm: not applied: ",
        "FILE:44:1: colour: not applied: neither Entente nor the SDK knows this key",
    ] {
        assert!(told.contains(part), "`{part}` is not in:\n{told}");
    }
    assert_eq!(told.lines().count(), 11, "{told}");
    let told: Value =
        serde_json::from_str(&text(&run(None, "", &["workflow", "check", name, "--json"]))).unwrap();
    assert_eq!((&told["form"], &told["phases"]), (&json!("openintent-1.0"), &json!(2)));
    let note = told["notes"].as_array().unwrap().iter().find(|note| note["path"] == "llm").unwrap();
    assert_eq!((&note["line"], &note["treatment"]), (&json!(42), &json!("not applied")));
    fs::remove_file(file).unwrap();
}

#[test]
fn a_fault_has_a_position_a_path_and_a_remedy() {
    for (from, to, expected) in [
        (
            "    assign: agent.writer\n",
            "",
            "FILE:32:3: workflow.write_it.assign: no agent is assigned. Add `assign: agent-id`",
        ),
        (
            "[Read the papers]",
            "[raed]",
            "FILE:34:5: workflow.write_it.depends_on: there is no phase `raed`; there are ",
        ),
        (
            "    assign: agent.reader\n",
            "    assign: agent.reader\n    depends_on: [write_it]\n",
            "wait for each other: ",
        ),
        (
            "read_papers.figures",
            "read_papers.numbers",
            "FILE:40:7: workflow.write_it.inputs.figures: the phase `read_papers` declares",
        ),
        ("    depends_on: [Read the papers]\n", "", "add it to `depends_on`"),
        (
            "backoff: constant",
            "backoff: wild",
            "FILE:29:7: workflow.read_papers.retry.backoff: this must be `constant`",
        ),
        (
            "permissions: private",
            "permissions: secret",
            "the policy must be `open`, `restricted` or `private`",
        ),
        (
            "budget_usd: 2.5",
            "budget_usd: much",
            "workflow.write_it.cost_tracking.budget_usd: this must be a number",
        ),
        ("member_policy: intent", "member_policy: all", "FILE:17:5: channels.talk.member_policy: "),
        ("openintent: \"1.0\"", "openintent: \"9\"", "FILE:1:1: openintent: this version is not known"),
        ("  name: Quarter report\n", "", "info.name: the workflow has no name"),
        ("[ocr]", "[ocr", "FILE:"),
    ] {
        let file =
            write(&format!("sdk-fault-{}.yaml", from.len() * 100 + to.len()), &FILE.replacen(from, to, 1));
        let name = file.to_str().unwrap();
        let told = run(None, "", &["workflow", "check", name]);
        let said = complaint(&told).replace(name, "FILE");
        assert!(told.status.code() == Some(1) && said.contains(expected), "`{expected}` is not in: {said}");
        let object: Value =
            serde_json::from_slice(&run(None, "", &["workflow", "check", name, "--json"]).stderr).unwrap();
        assert_eq!(object["errors"][0]["type"], "workflow", "{object}");
        fs::remove_file(file).unwrap();
    }
}
