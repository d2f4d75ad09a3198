//! The keys of `entente dev`: the same after a restart, others when they were revoked.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use entente_harness::process::{Place, free_address};
use entente_harness::{Client, json};

/// A server for development on a private PostgreSQL, with the keys that it printed.
struct Dev {
    child: Child,
    address: SocketAddr,
    agents: Client,
    operator: Client,
    keys: [String; 2],
}

impl Dev {
    fn start(place: &Place) -> Self {
        let address = free_address();
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.args(["dev", "--bind", &address.to_string()]).arg("--data-dir").arg(&place.0);
        command.env_remove("DATABASE_URL").env("ENTENTE_LOG", "error").current_dir(&place.0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<String> = lines.take_while(|line| !line.contains("Ctrl-C")).collect();
        let key = |name: &str| {
            let found =
                said.iter().find_map(|line| line.trim().trim_start_matches("export ").strip_prefix(name));
            found.unwrap_or_else(|| panic!("no {name} in {said:?}")).to_owned()
        };
        let keys = [key("ENTENTE_API_KEY="), key("ENTENTE_OPERATOR_KEY=")];
        assert!(said.iter().any(|line| line.contains("stay the same")), "{said:?}");
        let [agents, operator] = keys.each_ref().map(|key| Client::new(address, Some(key)));
        Self { child, address, agents, operator, keys }
    }

    async fn stop(mut self) -> [String; 2] {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || self.child.wait().unwrap()).await.unwrap();
        assert!(ended.success());
        self.keys
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_for_development_survive_restarts() {
    let place = Place::new("dev-keys");
    let dev = Dev::start(&place);
    let intent = dev.agents.post("/intents", json!({ "title": "kept" })).await.ok();
    let first = dev.stop().await;
    assert_ne!(first[0], first[1]);
    for name in ["agents.key", "operator.key"] {
        let mode = std::fs::metadata(place.0.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }

    let dev = Dev::start(&place);
    assert_eq!(dev.keys, first);
    dev.agents.get(&format!("/intents/{}", intent["id"].as_str().unwrap())).await.ok();
    let id = dev.agents.get("/principals/me").await.ok()["key"]["id"].clone();
    dev.operator.delete(&format!("/keys/{}", id.as_str().unwrap())).await.ok();
    dev.agents.get("/principals/me").await.refused(401, "unauthenticated");
    dev.stop().await;

    let dev = Dev::start(&place);
    assert_ne!(dev.keys[0], first[0], "a revoked key came back");
    assert_eq!(dev.keys[1], first[1]);
    dev.agents.get("/principals/me").await.ok();
    Client::new(dev.address, Some(&first[0])).get("/principals/me").await.refused(401, "unauthenticated");
    dev.stop().await;
}
