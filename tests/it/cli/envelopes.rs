//! `entente envelope`: commands that need no server, and envelopes that pass through one unchanged.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::{Setup, Value, World, complaint, json, run, scratch, talk, text};
use entente_harness::envelopes as post;

/// Runs `entente envelope` with this standard input.
fn fed(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("envelope").args(arguments).env_clear();
    finish(command, input)
}

/// Like [`fed`], but against the test server.
async fn remote(world: &World, agent: &str, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("envelope").args(arguments).env_clear();
    command.env("ENTENTE_URL", format!("http://{}", world.address));
    command.env("ENTENTE_API_KEY", format!("key-of-{agent}"));
    let input = input.to_owned();
    tokio::task::spawn_blocking(move || finish(command, &input)).await.unwrap()
}

fn finish(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn letter() -> Value {
    json!({
        "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T10:00:00Z", "type": "task",
        "from": "agent.manager", "to": "agent.auditor", "intent": "ops.backup.check",
        "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "priority": "high", "payload": { "window": "24h" },
        "requires": { "human_approval": true },
    })
}

fn with(name: &str, value: Value) -> String {
    let mut letter = letter();
    letter[name] = value;
    letter.to_string()
}

fn told(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", complaint(output)))
}

/// Generates a key in a file; returns the file and the command's output.
fn key(name: &str, more: &[&str]) -> (PathBuf, Value) {
    let file = scratch(name);
    let made = run(None, "", &[&["envelope", "keygen", file.to_str().unwrap(), "--json"], more].concat());
    assert!(made.status.success(), "{}", complaint(&made));
    (file, told(&made))
}

#[test]
fn validate_names_every_fault_and_every_warning() {
    let good = fed(&["validate"], &letter().to_string());
    assert!(good.status.success() && complaint(&good).is_empty(), "{}", complaint(&good));
    assert_eq!(text(&good), "-: 01JFB2R1JZKQ9V3K8W8Y9W1F2A is valid\n");
    let bad =
        fed(&["validate", "-"], r#"{"v":"1","id":"short","type":"Task","from":"","intent":"a.b","to":7}"#);
    assert_eq!(bad.status.code(), Some(1));
    for part in [
        "-: The envelope is not valid in 8 places",
        "  corr (missing): `corr` is missing",
        "  id (too_short): ",
        "  to (string_type): ",
        "  type (enum): `type` must be one of task, result",
    ] {
        assert!(text(&bad).contains(part), "{part}:\n{}", text(&bad));
    }
    assert!(complaint(&bad).contains("1 of 1 not as they should be"), "{}", complaint(&bad));
    let odd = with("id", json!("my-own-id"));
    let lax = fed(&["validate"], &odd);
    assert!(lax.status.success(), "{}", complaint(&lax));
    assert!(text(&lax).contains("  warning id_not_ulid_or_uuid: `id` is neither"), "{}", text(&lax));
    assert_eq!(fed(&["validate", "--strict"], &odd).status.code(), Some(1));
}

#[test]
fn validate_reads_lines_and_files_and_answers_in_json() {
    let file = scratch("letters.ndjson");
    std::fs::write(&file, format!("{}\n\n{}\r\n{{\"v\":1,\"v\":1}}\n", letter(), with("v", json!("2"))))
        .unwrap();
    let name = file.to_str().unwrap();
    let found = run(None, "", &["envelope", "validate", "--lines", "--json", name]);
    assert_eq!(found.status.code(), Some(1));
    let found = told(&found);
    let part = |index: usize, member: &str| found[index][member].clone();
    assert_eq!((part(0, "file"), part(0, "valid")), (json!(format!("{name}:1")), json!(true)));
    assert!(part(0, "hash").as_str().unwrap().starts_with("sha256:"), "{found}");
    assert_eq!(
        (part(1, "file"), part(1, "code")),
        (json!(format!("{name}:3")), json!("unsupported_version"))
    );
    assert_eq!(found[1]["errors"][0]["loc"], json!(["body", "v"]));
    assert_eq!((part(2, "code"), part(3, "code")), (json!("invalid_json"), json!(null)));
    std::fs::remove_file(&file).unwrap();
    let nothing = fed(&["validate", "--lines"], "\n\n");
    assert!(complaint(&nothing).contains("there is no envelope"), "{}", complaint(&nothing));
    let lost = run(None, "", &["envelope", "validate", "/nowhere/x.json"]);
    assert!(complaint(&lost).contains("/nowhere/x.json: "), "{}", complaint(&lost));
}

#[test]
fn what_is_signed_verifies_until_it_is_changed() {
    let (file, made) = key("ed25519.key", &[]);
    let file_name = file.to_str().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "others can read the key");
    assert_eq!(
        run(None, "", &["envelope", "keygen", file_name]).status.code(),
        Some(1),
        "it was overwritten"
    );
    let signed = fed(&["sign", "--key", file_name, "--kid", "key-2"], &letter().to_string());
    assert!(signed.status.success(), "{}", complaint(&signed));
    let signed = text(&signed);
    assert!(signed.ends_with("}\n") && signed.lines().count() == 1);
    let public = made["public_key"].as_str().unwrap();
    for by in
        [["--public-key", public], ["--public-key", made["did"].as_str().unwrap()], ["--key", file_name]]
    {
        let good = fed(&[&["verify"][..], &by].concat(), &signed);
        assert!(good.status.success(), "{}", complaint(&good));
        assert_eq!(text(&good), "-: signed with `key-2`, all of it\n");
    }
    let stripped = signed.replace("\"human_approval\":true", "\"human_approval\":false");
    let again = fed(&["verify", "--public-key", public, "--lines", "--json"], &format!("{signed}{stripped}"));
    assert_eq!(again.status.code(), Some(1));
    let again = told(&again);
    assert_eq!((&again[0]["verified"], &again[0]["scope"]), (&json!(true), &json!("whole")));
    assert_eq!((&again[1]["verified"], &again[1]["code"]), (&json!(false), &json!("bad_signature")));
    let plain = fed(&["verify", "--public-key", public], &letter().to_string());
    assert!(text(&plain).contains("It has no signature"), "{}", text(&plain));
    let keyless = fed(&["verify"], &signed);
    assert!(complaint(&keyless).contains("--public-key"), "{}", complaint(&keyless));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_shared_secret_signs_too() {
    let (file, made) = key("hs256.key", &["--hs256"]);
    let (other, _) = key("other.key", &["--hs256"]);
    assert_eq!((&made["algorithm"], &made["public_key"]), (&json!("HS256"), &json!(null)));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("hs256:"));
    let signed = fed(&["sign", "--key", file.to_str().unwrap(), "--kid", "k"], &letter().to_string());
    assert_eq!(told(&signed)["sig"]["alg"], "HS256");
    let signed = text(&signed);
    assert!(fed(&["verify", "--key", file.to_str().unwrap()], &signed).status.success());
    let foreign = fed(&["verify", "--key", other.to_str().unwrap()], &signed);
    assert!(complaint(&foreign).contains("1 of 1 not signed by this key"), "{}", complaint(&foreign));
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&other).unwrap();
}

#[test]
fn what_nobody_would_take_is_not_signed() {
    let (file, _) = key("refused.key", &[]);
    let name = file.to_str().unwrap();
    let sign = |letter: &str| fed(&["sign", "--key", name, "--kid", "k"], letter);
    for (letter, why) in [
        (with("priority", json!("critical")), "priority (enum)"),
        (with("payload", json!({ "n": 9_007_199_254_740_993_i64 })), "2^53"),
        (with("payload", json!({ "n": 7 })).replace(":7", ":100000000000000000001"), "2^53"),
        ("{\"v\":\"1\",\"v\":\"1\"}".to_owned(), "twice"),
        ("[]".to_owned(), "JSON object"),
    ] {
        let refused = sign(&letter);
        assert_eq!((refused.status.code(), text(&refused)), (Some(1), String::new()));
        assert!(complaint(&refused).contains(why), "{why}: {}", complaint(&refused));
    }
    std::fs::write(&file, "not a key at all").unwrap();
    let keyless = sign(&letter().to_string());
    assert!(complaint(&keyless).contains("holds no key"), "{}", complaint(&keyless));
    assert!(!complaint(&keyless).contains("at all"), "what a key file holds is repeated");
    std::fs::remove_file(&file).unwrap();
}

/// Starts a server with two agents; returns it with a line that holds an envelope from one to the other, with
/// unusual member order and number formats.
async fn posted(id: &str) -> (World, String) {
    let (world, ..) = post::two().await;
    let ts = post::task_envelope(&world, id, ("agent.ada", "agent.bob"))["ts"].clone();
    let line = format!(
        "{{\"x\" :[1e2,-0.0], \"v\":\"1\",\"id\":\"{id}\",\"ts\":{ts},\"type\":\"event\",\"from\":\"agent.ada\",\
         \"to\":\"agent.bob\",\"intent\":\"ops.x\",\"corr\":\"thread-1\",\"priority\":\"low\",\"payload\":{{\"n\" : 1.50}}}}"
    );
    (world, line)
}

#[tokio::test]
async fn what_is_sent_is_fetched_to_the_byte() {
    let (world, first) = posted("01JFB2R1JZKQ9V3K8W8Y9W1F2A").await;
    let second = first.replace("9W1F2A", "9W1F2B");
    let sent =
        remote(&world, "agent.ada", &["send", "--lines", "--json"], &format!("{first}\n{second}\n")).await;
    assert!(sent.status.success(), "{}", complaint(&sent));
    let receipts = told(&sent);
    assert_eq!((&receipts[0]["seq"], &receipts[1]["seq"]), (&json!(1), &json!(2)));
    let fetched = remote(&world, "agent.bob", &["fetch", "--bare"], "").await;
    assert_eq!(text(&fetched), format!("{first}\n{second}\n"), "{}", complaint(&fetched));
    let one = ["fetch", "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "--bare"];
    assert_eq!(text(&remote(&world, "agent.bob", &one, "").await), format!("{first}\n"));
    // Sending it again is a conflict, and the error names the file.
    let again = remote(&world, "agent.ada", &["send", "-"], &first).await;
    assert!(
        complaint(&again).contains("-: ") && complaint(&again).contains("duplicate_id"),
        "{}",
        complaint(&again)
    );
    world.end().await;
}

#[tokio::test]
async fn what_is_acknowledged_is_taken_out_and_nothing_else() {
    let (world, line) = posted("01JFB2R1JZKQ9V3K8W8Y9W1F2A").await;
    let lines: String =
        ["A", "B", "C"].map(|end| line.replace("9W1F2A", &format!("9W1F2{end}")) + "\n").concat();
    let sent = remote(&world, "agent.ada", &["send", "--lines"], &lines).await;
    assert!(sent.status.success() && text(&sent).contains("accepted"), "{}", complaint(&sent));
    let bob =
        async |arguments: &[&str]| remote(&world, "agent.bob", &[&["fetch"], arguments].concat(), "").await;
    // The earlier ones were not shown, so they stay.
    let last = bob(&["--after", "2", "--ack"]).await;
    assert!(
        text(&last).contains("    3  ") && text(&last).contains("agent.ada → agent.bob  ops.x"),
        "{}",
        text(&last)
    );
    let first = async |arguments: &[&str]| {
        let page = told(&bob(&[&["--json", "--limit", "1"], arguments].concat()).await);
        (page["items"][0]["seq"].clone(), page["acked_seq"].clone())
    };
    assert_eq!(first(&["--ack"]).await, (json!(1), json!(0)));
    assert_eq!(first(&["--ack", "--entity", "agent.bob"]).await, (json!(2), json!(1)));
    assert_eq!(first(&[]).await, (json!(null), json!(3)));
    let stranger = remote(&world, "agent.ada", &["fetch", "--entity", "agent.bob"], "").await;
    assert!(complaint(&stranger).contains("not_found"), "{}", complaint(&stranger));
    let both = bob(&["some-id", "--ack"]).await;
    assert_eq!(both.status.code(), Some(2), "{}", complaint(&both));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirrored_envelope_is_shown_with_its_sender_and_that_nobody_has_verified_it() {
    let settings = vec![("ENTENTE_AEE_OPAQUE_SIGNATURES", "pass")];
    let world = World::with(Setup { settings, live: false }).await;
    let (ada, _bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&world.admin().await, json!({})).await;
    let mirror = json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel });
    world.admin().await.put("/aee/bridges/bob", mirror).await.ok();
    let task = post::task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    let opaque = json!({ "id": "envelope-2", "sig": { "alg": "x", "kid": "k", "value": "c2ln" } });
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    ada.post("/aee/envelopes", post::with(task, opaque)).await.is(202);
    world.carry().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.args(["messages", &channel]).env_clear();
    command
        .env("ENTENTE_URL", format!("http://{}", world.address))
        .env("ENTENTE_API_KEY", "key-of-agent.ada");
    let output = tokio::task::spawn_blocking(move || finish(command, "")).await.unwrap();
    let lines: Vec<String> = text(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{}", complaint(&output));
    assert!(lines[0].contains("[task agent.ada → agent.bob, ops.backup.check]"), "{}", lines[0]);
    let note = "[task agent.ada → agent.bob, ops.backup.check, signature not verified]";
    assert!(lines[1].contains(note), "{}", lines[1]);
    let fetched = text(&remote(&world, "agent.bob", &["fetch"], "").await);
    let marked: Vec<bool> = fetched.lines().map(|line| line.contains("(signature not verified)")).collect();
    assert_eq!(marked, [false, true], "{fetched}");
    world.end().await;
}
