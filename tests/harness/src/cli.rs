//! The command line against a test server, run as a process.

use std::process::{Command, Output};

use crate::peers::program::entente;
use crate::{Value, World};

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command with `--json` against the test server, asserts success and returns the parsed output.
pub async fn told(world: &World, key: &str, arguments: &[&str]) -> Value {
    let output = ran(world, key, arguments).await;
    assert!(output.status.success(), "{}", complaint(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
}

/// Runs a command against the test server, asserts that it fails and returns its complaint.
pub async fn refused_with(world: &World, key: &str, arguments: &[&str]) -> String {
    let output = ran(world, key, arguments).await;
    assert!(!output.status.success(), "{}", text(&output));
    complaint(&output)
}

pub async fn ran(world: &World, key: &str, arguments: &[&str]) -> Output {
    let (arguments, key) = (arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(), key.to_owned());
    let url = format!("http://{}", world.address);
    let output = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(entente());
        command
            .args(&arguments)
            .arg("--json")
            .env_clear()
            .env("ENTENTE_URL", url)
            .env("ENTENTE_API_KEY", key);
        command.output().unwrap()
    });
    output.await.unwrap()
}
