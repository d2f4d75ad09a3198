//! The README's tour, run as written: every command, in one shell, against a real server.

use std::path::Path;
use std::time::Duration;

use entente_kernel::identity::seeds;
use tokio::process::Command;

use super::harness::{Setup, World};

/// Upper bound for the whole tour.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns the tour's commands: the `bash` blocks between its markers.
fn tour() -> String {
    let readme = include_str!("../../README.md");
    let tour = readme.split("<!-- tour -->").nth(1).unwrap().split("<!-- end of tour -->").next().unwrap();
    let blocks = tour.split("```bash\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

#[tokio::test]
async fn the_tour_works_as_pasted() {
    let world = World::with(Setup::live()).await;
    let admin = world.admin().await;
    // The keys that `entente dev` prints: one for agents and a separate one for the operator.
    let agents = seeds::development_agents(world.ctx()).await.unwrap().unwrap().secret.unwrap();
    let dir = std::env::temp_dir().join(format!("entente-tour-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_entente")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let script = format!("set -eu\n{}", tour());
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script).current_dir(&dir).env("PATH", path).kill_on_drop(true);
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
        "event 4: its content does not give its hash",
        "found",
    ] {
        assert!(said.contains(part), "the tour did not show `{part}`:\n{said}\n{complaint}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
    world.end().await;
}
