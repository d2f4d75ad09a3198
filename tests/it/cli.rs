//! The command line, with the program run as a process.

mod attach;
mod backup;
mod conform;
mod decide;
mod dev_keys;
mod doctor;
mod envelopes;
mod failures;
mod following;
mod log_filter;
mod moments;
mod prune;
mod readme;
mod schedules;
mod sdk_workflows;
mod staying;
mod tail;
mod top;
mod workflows;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use entente_harness::cli::{complaint, ran, refused_with, text, told};
use entente_harness::{ANY, BundleFile, Receiver, Setup, Value, World, json, send, talk};

/// Upper bound for anything that the server does on its own.
const PATIENCE: Duration = Duration::from_secs(20);

fn run(world: Option<&World>, key: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.args(arguments).env_clear().env("ENTENTE_API_KEY", key);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    if let Some(world) = world {
        command.env("ENTENTE_URL", format!("http://{}", world.address));
    }
    command.output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("entente-cli-{}-{name}", std::process::id()))
}

#[test]
fn the_demo_tells_the_whole_story() {
    let output = run(None, "", &["demo"]);
    assert!(output.status.success(), "{}\n{}", text(&output), complaint(&output));
    let transcript = text(&output);
    for part in [
        "agent.researcher asks",
        "event channel_message",
        "403 may_not_act_as",
        "401 unauthenticated",
        "event message_expired",
        "409 lease_held",
        "the second is ready, the channel of the first is closed",
        "webhook-signature v1,",
        "signed by did:key:",
        "every one in its place and unchanged",
        "with one name changed: event",
        "403 PERMISSION_DENIED",
        "403 BUDGET_EXHAUSTED",
        "both refusals among them",
        "events 1, 2, 3, 4, 5 came once each",
        "refuses the question: Wrong question",
        "403 not_the_principal",
        "409 same_question",
        "409 deliberation_required",
        "human.ada decides",
        "has spent 1.1 of 2 USD",
        "human.ada doubles it",
        "403 stopped",
        "it is lifted, and work goes on",
        "a digest and a next entry are in its inbox; it sleeps on",
        "ms later, for \"The disk is full: stop writing.\"",
        "place 1 digest notify of agent.researcher: \"The nightly copy is through.\"",
        "place 2 next   notify of agent.researcher: \"Use schema v2.4 from now on.\"",
        "it has seen everything up to place 3",
        "Everything went as it should",
    ] {
        assert!(transcript.contains(part), "the transcript lacks `{part}`:\n{transcript}");
    }
    assert_eq!(complaint(&output), "", "the demo complains");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_looked_after_from_the_terminal() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let key = "key-of-agent.ada";
    let added = ["webhook", "add", &receiver.url(), "--intent", &intent, "--event", "channel_message"];
    let made = told(&world, key, &added).await;
    let id = made["id"].as_str().unwrap();
    let ping = told(&world, key, &["webhook", "ping", id]).await;
    assert_eq!(ping["status"], "delivered");
    assert!(receiver.take()[0].signed_by(made["secret"].as_str().unwrap()));
    let sent = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    receiver.until(1).await;
    told(&world, key, &["webhook", "replay", id, "--since", "2026-01-01T00:00:00Z"]).await;
    let got = receiver.until(2).await;
    assert!(got.iter().all(|one| one.id() == sent["id"].as_str().unwrap()));
    // The receiver gets the webhook before the server has recorded the response.
    let noted = async {
        while told(&world, key, &["webhook", "deliveries", id, "--status", "delivered"]).await[0]["webhook_id"]
            != sent["id"]
        {}
    };
    tokio::time::timeout(PATIENCE, noted).await.expect("the delivery is not in the log");
    assert_eq!(told(&world, key, &["webhook", "disable", id]).await["active"], false);
    assert_eq!(told(&world, key, &["webhook", "enable", id]).await["active"], true);
    assert_ne!(told(&world, key, &["webhook", "rotate", id]).await["secret"], made["secret"]);
    assert_eq!(told(&world, key, &["webhook", "list"]).await[0]["id"], id);
    told(&world, key, &["webhook", "remove", id]).await;
    assert_eq!(told(&world, key, &["webhook", "list"]).await, json!([]));
    world.server.stop().await;
}

#[tokio::test]
async fn two_agents_talk_from_the_terminal() {
    let world = World::start().await;
    let admin = world.admin().await;
    let root = admin.headers()[0].1.clone();
    told(&world, &root, &["principal", "create", "agent.cli", "--kind", "agent"]).await;
    let pair = told(&world, &root, &["key", "create", "agent.cli", "--label", "terminal"]).await;
    let key = pair["key"].as_str().unwrap();
    assert_eq!(told(&world, key, &["whoami"]).await["agent_id"], "agent.cli");
    told(&world, key, &["agent", "register", "agent.cli", "--role", "writer", "--capability", "ocr"]).await;
    let intent = told(&world, key, &["intent", "create", "From a terminal"]).await;
    let id = intent["id"].as_str().unwrap();
    let set = told(&world, key, &["intent", "set", id, "progress=0.5", "owner=Ada"]).await;
    assert_eq!(set["state"], json!({ "progress": 0.5, "owner": "Ada" }));
    let lease = told(&world, key, &["lease", "acquire", id, "progress", "--seconds", "60"]).await;
    let lease = lease["id"].as_str().unwrap();
    told(&world, key, &["lease", "renew", id, lease]).await;
    assert_eq!(told(&world, key, &["lease", "list", id]).await["leases"][0]["scope"], "progress");
    told(&world, key, &["lease", "release", id, lease]).await;
    assert_eq!(told(&world, key, &["lease", "list", id]).await["leases"], json!([]));
    let channel = told(&world, key, &["channel", "open", id, "talk", "--audit"]).await;
    let channel = channel["id"].as_str().unwrap();
    let sent = told(&world, key, &["send", channel, "hello", "--type", "broadcast"]).await;
    assert_eq!(sent["payload"], json!({ "text": "hello" }));
    let request =
        told(&world, key, &["send", channel, r#"{"q":1}"#, "--type", "request", "--to", "agent.cli2"]).await;
    let request = request["id"].as_str().unwrap();
    told(&world, ANY, &["reply", channel, request, r#"{"a":2}"#, "--as", "agent.cli2"]).await;
    let output = told(&world, key, &["channel", "list", id]).await;
    assert_eq!(output[0]["message_count"], 3);
    let made = told(&world, &root, &["checkpoint", "create", id]).await;
    assert_eq!(told(&world, key, &["checkpoint", "list", id]).await[0]["merkle_root"], made["merkle_root"]);
    assert_eq!(told(&world, key, &["checkpoint", "keys"]).await[0]["did"], made["signed_by"]);
    let events = told(&world, key, &["intent", "events", id]).await;
    assert!(events.as_array().unwrap().len() >= 5, "{events}");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let noted = json!({ "event_type": "note", "trace_id": trace });
    world.client(key).post(&format!("/intents/{id}/events"), noted).await.ok();
    assert_eq!(told(&world, key, &["trace", trace]).await[0]["event_type"], "note");
    let first =
        told(&world, key, &["task", "create", id, "read", "--priority", "high", "--capability", "ocr"]).await;
    let first = first["id"].as_str().unwrap();
    let second =
        told(&world, key, &["task", "create", id, "write", "--after", first, "--attempts", "1"]).await;
    let second = second["id"].as_str().unwrap();
    assert_eq!(
        told(&world, ANY, &["task", "claim", first, "--as", "agent.cli"]).await["assigned_agent"],
        "agent.cli"
    );
    let done = told(&world, key, &["task", "complete", first, r#"{"pages":12}"#]).await;
    assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!({ "pages": 12 })));
    told(&world, key, &["task", "claim", second]).await;
    assert_eq!(told(&world, key, &["task", "fail", second, "no ink"]).await["error"], "no ink");
    let listed = told(&world, key, &["task", "list", id, "--status", "failed"]).await;
    assert_eq!((&listed[0]["id"], &listed[1]), (&json!(second), &json!(null)));
    assert_eq!(told(&world, key, &["task", "show", second]).await["status"], "failed");
    told(&world, &root, &["key", "revoke", pair["record"]["id"].as_str().unwrap()]).await;
    world.client(key).get("/principals/me").await.refused(401, "unauthenticated");
    world.end().await;
}

#[tokio::test]
async fn verify_finds_what_was_changed_without_a_server() {
    let world = World::start().await;
    let any = world.any().acting_as("agent.a");
    let (intent, channel) = talk(&any, json!({ "options": { "audit": true } })).await;
    for n in 0..5 {
        let said = json!({ "sender": "agent.a", "payload": { "n": n } });
        any.post(&format!("/channels/{channel}/messages"), said).await.is(201);
    }
    let export = BundleFile::of(&any, &format!("/intents/{intent}")).await.0;
    let file = scratch("export.bundle");
    std::fs::write(&file, &export).unwrap();
    let clean = run(None, "", &["verify", file.to_str().unwrap()]);
    assert!(clean.status.success(), "{}", complaint(&clean));
    assert!(text(&clean).contains("every event is in its place"), "{}", text(&clean));

    let key = world.anon().get("/server/keys").await.ok()["keys"][0]["did"].as_str().unwrap().to_owned();
    assert!(text(&clean).contains(&format!("signed by {key}")), "{}", text(&clean));
    let pinned = run(None, "", &["verify", file.to_str().unwrap(), "--server-key", &key]);
    assert!(text(&pinned).contains(&format!("signed by the server, {key}")), "{}", text(&pinned));
    let other = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    let stranger = run(None, "", &["verify", file.to_str().unwrap(), "--server-key", other]);
    assert_eq!(stranger.status.code(), Some(1));
    assert!(text(&stranger).contains("not a key of the server"), "{}", text(&stranger));
    let none = run(None, "", &["verify", file.to_str().unwrap(), "--server-key", "x"]);
    assert!(complaint(&none).contains("not an Ed25519 public key"), "{}", complaint(&none));

    std::fs::write(&file, export.replacen("\"payload\":{\"n\":1}", "\"payload\":{\"n\":7}", 1)).unwrap();
    let found = run(None, "", &["verify", file.to_str().unwrap()]);
    assert_eq!(found.status.code(), Some(1));
    assert!(text(&found).contains("event 4: ") && text(&found).contains("line 5: "), "{}", text(&found));
    let (cut, _seal) = export.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&file, format!("{cut}\n")).unwrap();
    let found = run(None, "", &["verify", file.to_str().unwrap()]);
    assert!(complaint(&found).contains("ends without the server's seal"), "{}", complaint(&found));
    // Its past as envelopes, each of which is one.
    std::fs::write(&file, &export).unwrap();
    let past = run(None, "", &["envelope", "past", file.to_str().unwrap(), "--server-key", &key]);
    assert!(past.status.success(), "{}", complaint(&past));
    assert_eq!(text(&past).lines().count(), export.matches("\"kind\":\"event\"").count() + 5);
    std::fs::write(&file, text(&past)).unwrap();
    let judged = run(None, "", &["envelope", "validate", "--lines", file.to_str().unwrap()]);
    assert!(judged.status.success(), "{}", text(&judged));
    // An export as earlier releases wrote it.
    std::fs::write(&file, BundleFile(export).log().to_string()).unwrap();
    let old = run(None, "", &["verify", file.to_str().unwrap()]);
    assert!(old.status.success() && text(&old).contains("of an older form"), "{}", text(&old));

    std::fs::write(&file, "{}").unwrap();
    let stranger = run(None, "", &["verify", file.to_str().unwrap()]);
    assert_eq!(stranger.status.code(), Some(1));
    assert!(complaint(&stranger).contains("is no whole export of an intent"), "{}", complaint(&stranger));
    std::fs::remove_file(&file).unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_bundle_is_imported_and_exported_again() {
    let world = World::start().await;
    let any = world.any().acting_as("agent.a");
    let (intent, _) = talk(&any, json!({})).await;
    let export = BundleFile::of(&any, &format!("/intents/{intent}")).await.0;
    let file = scratch("import.bundle");
    std::fs::write(&file, &export).unwrap();
    // The server that imports it has never heard of the one that wrote it.
    let settings = vec![("ENTENTE_SIGNING_KEY", "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=")];
    let there = World::with(Setup { settings, live: false }).await;
    there.agent("agent.root").await;
    let root = json!({ "label": "root", "scopes": ["admin", "intents:read"] });
    let root = there.admin().await.post("/principals/agent.root/keys", root).await.is(201)["key"].clone();
    let (root, path) = (root.as_str().unwrap(), file.to_str().unwrap());
    let refused = refused_with(&there, root, &["intent", "import", path]).await;
    let key = world.anon().get("/server/keys").await.ok()["keys"][0]["did"].as_str().unwrap().to_owned();
    assert!(refused.contains(&key), "{refused}");
    let made = told(&there, root, &["intent", "import", path, "--server-key", &key]).await;
    assert_eq!(made["intent_id"].as_str(), Some(intent.as_str()));
    let again = ran(&there, root, &["intent", "export", &intent]).await;
    assert!(text(&again) == export, "{}", complaint(&again));
    let none = refused_with(&there, root, &["intent", "import", "no-such-file"]).await;
    assert!(none.contains("no-such-file: "), "{none}");
    std::fs::remove_file(&file).unwrap();
    there.end().await;
    world.end().await;
}

#[test]
fn errors_say_what_to_do() {
    let away = run(None, "", &["whoami", "--url", "http://127.0.0.1:9"]);
    assert_eq!(away.status.code(), Some(8));
    assert!(complaint(&away).contains("Is the server running?"), "{}", complaint(&away));
    let guess = run(None, "", &["serve"]);
    assert_eq!(guess.status.code(), Some(1));
    assert!(complaint(&guess).contains("guesses nothing"), "{}", complaint(&guess));
    let open = run(None, "", &["dev", "--bind", "0.0.0.0:0", "--seed", "service:a=b"]);
    assert!(complaint(&open).contains("seeded keys are for local use"), "{}", complaint(&open));
    assert_eq!(open.status.code(), Some(1));
}

#[test]
fn a_short_secret_of_tokens_is_for_development_on_this_machine() {
    for arguments in [&["serve"][..], &["dev", "--bind", "0.0.0.0:0"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.args(arguments).env_clear().env("ENTENTE_ARCP_TOKEN_SECRET", "demo-secret");
        let output = command.output().unwrap();
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("ENTENTE_ARCP_TOKEN_SECRET: must have at least 16 characters"), "{said}");
        assert!(!said.contains("demo-secret"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_go_into_a_directory_and_back() {
    let world = World::start().await;
    let from = world.any();
    let schema = "{\"title\":\"a check\",  \"maximum\":1e2}";
    let path = "/aee/schemas/intents/ops.check.task.schema.json";
    from.send("PUT", path, Some(schema.to_owned())).await.ok();
    let directory = scratch("schemas");
    let place = directory.to_str().unwrap().to_owned();
    let other = World::start().await;
    let commands = [(&world, vec!["schema", "export", &place]), (&other, vec!["schema", "import", &place])];
    for (world, arguments) in commands {
        let output = tokio::task::block_in_place(|| run(Some(world), ANY, &arguments));
        assert!(output.status.success(), "{}", complaint(&output));
        assert!(text(&output).starts_with("1 schemas"), "{}", text(&output));
    }
    assert_eq!(other.any().get(path).await.text, schema);
    assert!(directory.join("envelope/aee-v1.schema.json").exists());
    std::fs::remove_dir_all(directory).unwrap();
    other.end().await;
    world.end().await;
}
