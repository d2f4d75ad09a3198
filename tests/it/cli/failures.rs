//! Failures of commands: their exit statuses, their form for programs, and an output that is closed early; and
//! the completions, which are output like any other.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::{complaint, run, text};
use entente_harness::{ANY, Setup, Value, World, json, talk};

const NONE: &str = "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";

fn on(world: &World, arguments: &[&str]) -> Output {
    tokio::task::block_in_place(|| run(Some(world), ANY, arguments))
}

/// Returns the failure that a command wrote for programs, after checking that it wrote nothing else.
fn failure(output: &Output) -> Value {
    assert_eq!(
        (text(output), complaint(output).lines().count()),
        (String::new(), 1),
        "{}",
        complaint(output)
    );
    let failure: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(failure["exit_status"], json!(output.status.code()), "{failure}");
    assert!(failure["message"].is_string() && failure["errors"].is_array(), "{failure}");
    failure
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_failure_has_a_status_and_a_form_for_programs() {
    let world = World::start().await;
    let missing = failure(&on(&world, &["intent", "show", NONE, "--json"]));
    assert_eq!((&missing["exit_status"], &missing["status"]), (&json!(6), &json!(404)));
    assert_eq!(missing["code"], "not_found");
    assert!(missing["request_id"].as_str().unwrap().starts_with("req_"), "{missing}");

    let refused = failure(&on(&world, &["intent", "create", "", "--json"]));
    assert_eq!((&refused["exit_status"], &refused["code"]), (&json!(7), &json!("invalid_request")));
    assert_eq!(
        (&refused["errors"][0]["pointer"], &refused["errors"][0]["type"]),
        (&json!("/title"), &json!("length"))
    );
    let told = on(&world, &["intent", "create", ""]);
    assert_eq!(told.status.code(), Some(7));
    assert!(complaint(&told).contains("\n  title (length): "), "{}", complaint(&told));
    world.end().await;
}

#[test]
fn a_failure_without_a_server_has_the_same_form() {
    let away = failure(&run(None, "", &["whoami", "--url", "http://127.0.0.1:9", "--json"]));
    assert_eq!((&away["exit_status"], &away["code"]), (&json!(8), &json!("unreachable")));
    let local = failure(&run(None, "", &["workflow", "check", "/nowhere/at/all.yaml", "--json"]));
    assert_eq!((&local["exit_status"], &local["code"]), (&json!(1), &json!("failed")));
    let usage = failure(&run(None, "", &["intent", "show", "--json"]));
    assert_eq!((&usage["exit_status"], &usage["code"]), (&json!(2), &json!("usage")));
    let usage = run(None, "", &["intent", "show"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(complaint(&usage).contains("Usage:"), "{}", complaint(&usage));
    let help = run(None, "", &["--help"]);
    assert!(help.status.success() && text(&help).contains("Exit status:"), "{}", text(&help));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_an_answer_has_a_status_of_its_own() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let ask = ["ask", &channel, "anybody?", "--to", "agent.bob", "--timeout", "1", "--as", "agent.ada"];
    let asked = on(&world, &ask);
    assert_eq!(asked.status.code(), Some(9), "{}", complaint(&asked));
    assert!(complaint(&asked).contains("not everybody answered"), "{}", complaint(&asked));
    world.server.stop().await;
}

#[test]
fn an_output_that_nobody_reads_any_more_ends_a_command_silently() {
    for arguments in [&["openapi"][..], &["completions", "bash"], &["verify", "--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.args(arguments).env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(complaint(&output), "", "{arguments:?}");
        // Help is short enough to be written, or not, without a difference.
        let expected = if arguments[0] == "verify" { 0 } else { 141 };
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(None, "", &["completions", shell]);
        assert!(script.status.success(), "{}", complaint(&script));
        for word in ["checkpoint", "workflow", "completions"] {
            assert!(text(&script).contains(word), "{shell} does not know `{word}`");
        }
    }
    let script = run(None, "", &["completions", "bash"]);
    let mut shell = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(&script.stdout).unwrap();
    assert!(shell.wait().unwrap().success(), "bash cannot read the script");
    assert_eq!(run(None, "", &["completions", "tcsh"]).status.code(), Some(2));
}
