//! The README's commands, run as written: every block, in one shell, against a real server.

use std::path::Path;
use std::time::Duration;

use entente_domain::identity::keys::Presented;
use entente_kernel::identity::seeds;
use tokio::process::Command;

use entente_harness::process::Place;
use entente_harness::{Setup, World};

/// Upper bound for the whole tour.
const PATIENCE: Duration = Duration::from_mins(1);

/// Marker of a block that another test runs, or that cannot be run: it names which.
const ELSEWHERE: &str = "<!-- run elsewhere:";

/// Returns the README's commands, in their order: its blocks of shell, without those that are run elsewhere.
fn commands() -> String {
    let mut parts = include_str!("../../../README.md").split("```");
    let mut script = String::new();
    // Text and blocks take turns.
    while let (Some(before), Some(block)) = (parts.next(), parts.next()) {
        let shell = block.strip_prefix("bash\n").or_else(|| block.strip_prefix("sh\n"));
        let last = before.trim_end().lines().last().unwrap_or_default();
        if let Some(commands) = shell.filter(|_| !last.starts_with(ELSEWHERE)) {
            script += commands;
        }
    }
    script
}

#[tokio::test]
async fn every_block_works_as_pasted() {
    let world = World::with(Setup::live()).await;
    let admin = world.admin().await;
    // The keys that `entente dev` prints: one for agents and a separate one for the operator.
    let presented = Presented::mint(&*world.ctx().chance);
    let agents = seeds::development_agents(world.ctx(), &presented).await.unwrap().unwrap().secret.unwrap();
    let place = Place::new("readme");
    let dir = &place.0;
    let program = Path::new(env!("CARGO_BIN_EXE_entente")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // Whatever a block starts in the background ends with the shell.
    let script = format!("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{}", commands());
    std::os::unix::fs::symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"), dir.join("examples"))
        .unwrap();
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script).current_dir(dir).env("PATH", path).kill_on_drop(true);
    shell
        .env("ENTENTE_API_KEY", agents.0)
        .env("ENTENTE_OPERATOR_KEY", &admin.headers()[0].1)
        .env("ENTENTE_URL", format!("http://{}", world.address));
    let output = tokio::time::timeout(PATIENCE, shell.output()).await.expect("the tour hangs").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{complaint}");
    for part in [
        "intent_",
        " chan_",
        "\"message_type\":\"response\"",
        "\"outcome\":\"complete\"",
        "id: 3\nevent: channel_message",
        "id: 5\nevent: channel_message",
        "\"code\":\"may_not_act_as\"",
        "every event is in its place and unchanged",
        ": its content does not give its hash",
        "found",
        "\"schema\": \"v2.4\"",
        "\"type\":\"channel_message\"",
        "\"HELLO\"",
        "team:research",
        "It writes to the wrong table.",
        "DECISION NEEDED",
        "written by the latest process",
        "data.rows.counted",
    ] {
        assert!(said.contains(part), "the tour did not show `{part}`:\n{said}\n{complaint}");
    }
    world.end().await;
}
