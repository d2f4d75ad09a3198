//! `entente demo --stay`: the story ends on a server that lives, with a question that waits.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use entente_harness::Client;

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_stays_until_it_is_interrupted() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.args(["demo", "--stay"]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.by_ref().take_while(|line| !line.contains("Ctrl-C ends it")).collect();
    let link = said.iter().rev().find_map(|line| line.trim().strip_prefix("http://"));
    let (address, path) = link.unwrap_or_else(|| panic!("no link in {said:?}")).split_once('/').unwrap();
    assert!(path.starts_with("l/"), "{path}");
    let anyone = Client::new(address.parse().unwrap(), None);
    assert_eq!(anyone.get(&format!("//{path}")).await.status, 200, "the link opens a page");
    let metrics = anyone.get("//metrics").await.text;
    assert!(metrics.contains("\nentente_decisions_waiting 1\n"), "{metrics}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{rest:?} {}", String::from_utf8_lossy(&ended.stderr));
    assert!(rest.iter().any(|line| line.contains("Everything went as it should")), "{rest:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
