//! The relay: messages in any order, a server that restarts, and answers that are lost.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::{Host, Scene};
use crate::cli::PATIENCE;
use entente_harness::process::{Launch, Place, free_address, key_of};
use entente_harness::{ANY, Cluster, Value, json};

/// A running relay: a host's end of its pipes.
struct Relay {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Relay {
    fn start(host: &Host, arguments: &[&str]) -> Self {
        let mut child = host.command(&[&["mcp"], arguments].concat()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn send(&mut self, id: u64, method: &str, params: &Value) {
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) {
        self.send(id, "tools/call", &json!({ "name": tool, "arguments": arguments }));
    }

    fn begin(&mut self) -> Value {
        let client = json!({ "name": "host", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        self.send(0, "initialize", &hello);
        let answer = self.next();
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// Ends the input; returns the answers that still come, and what was written to standard error.
    fn end(mut self) -> (Vec<Value>, String) {
        drop(self.input.take());
        let answers = self.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert!(self.child.wait().unwrap().success(), "{complaint}");
        (answers, complaint)
    }
}

/// Runs a test's synchronous part beside the server.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_in_any_order_until_the_input_ends() {
    let scene = Scene::start("claude").await;
    let host = scene.host.clone();
    aside(move || {
        let mut relay = Relay::start(&host, &["--tools", "attention"]);
        let hello = relay.begin();
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{hello}");
        // One that waits holds up no other.
        relay.call(1, "inbox", &json!({ "wait_s": 20 }));
        relay.send(2, "tools/list", &json!({}));
        let listed = relay.next();
        let names = listed["result"]["tools"].to_string();
        assert!(
            listed["id"] == 2 && names.contains("\"inbox\"") && !names.contains("\"submit_job\""),
            "{listed}"
        );
        relay.call(3, "whoami", &json!({}));
        assert_eq!(relay.next()["result"]["structuredContent"]["agent"], "agent.bob");
        for garbage in ["garbage", "[]", "\"text\"", "7"] {
            relay.write(garbage);
            let refused = relay.next();
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&Value::Null, &json!(-32700)),
                "{garbage}"
            );
        }
        // A request that the host gave up is answered no more.
        relay.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        relay.send(4, "nonsense", &json!({}));
        assert_eq!(relay.next()["id"], 4);
        // What was asked before the end is answered.
        relay.call(5, "whoami", &json!({}));
        relay.write("");
        let (answers, complaint) = relay.end();
        assert_eq!((answers.len(), &answers[0]["id"], complaint.as_str()), (1, &json!(5), ""));
    })
    .await;
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_host_and_its_resources_pass_too() {
    let scene = Scene::start("claude").await;
    let (host, channel) = (scene.host.clone(), scene.channel.clone());
    aside(move || {
        let mut relay = Relay::start(&host, &[]);
        // MCP 2026-07-28: each request says its version, which HTTP repeats in headers with its method and subject.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "host", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        relay.send(1, "tools/call", &json!({ "_meta": meta, "name": "whoami", "arguments": {} }));
        assert_eq!(relay.next()["result"]["structuredContent"]["agent"], "agent.bob");
        let uri = format!("entente://channels/{channel}");
        relay.send(2, "resources/read", &json!({ "_meta": meta, "uri": uri }));
        let read = relay.next();
        assert_eq!(read["id"], 2, "{read}");
    })
    .await;
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_acts_as_its_agent_in_its_session() {
    let scene = Scene::start("claude").await;
    scene.bob.post("/agents/agent.bob/sessions", json!({ "strict": true })).await.is(201);
    let said = json!({ "channel": scene.channel, "to": "agent.ada", "payload": { "n": 1 } });
    let any = Host { key: ANY.to_owned(), ..scene.host.clone() };
    let own = scene.host.clone();
    aside(move || {
        let mut relay = Relay::start(&any, &["--as", "agent.bob", "--epoch", "1"]);
        relay.begin();
        relay.call(1, "send_message", &said);
        let sent = relay.next();
        assert!(sent["result"]["isError"] != true && sent["result"].is_object(), "{sent}");
        // Without its epoch a strict agent writes nothing.
        let mut relay = Relay::start(&own, &[]);
        relay.begin();
        relay.call(1, "send_message", &said);
        assert_eq!(relay.next()["result"]["isError"], true);
        // An agent that the key may not act as.
        let mut relay = Relay::start(&own, &["--as", "agent.eve"]);
        let refused = relay.begin();
        assert!(refused["error"]["message"].as_str().unwrap().contains("may_not_act_as"), "{refused}");
    })
    .await;
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_survives_the_restart_of_the_server() {
    let place = Place::new("attach");
    let launch = Launch::shared(&place, &Cluster::get().url(&Cluster::get().fresh_database().await));
    let url = format!("http://{}", launch.bind);
    let host = Host {
        name: "claude",
        home: place.0.clone(),
        url,
        key: key_of("agent.bob"),
        variables: Vec::new(),
        arguments: Vec::new(),
    };
    // The host starts before the server.
    let mut relay = Relay::start(&host, &[]);
    let hello = aside(move || (relay.begin(), relay));
    let (mut server, _) = launch.start().await;
    let (hello, mut relay) = hello.await;
    assert!(hello["result"]["serverInfo"].is_object(), "{hello}");
    server.kill();
    relay.call(1, "create_intent", &json!({ "title": "once" }));
    let (mut server, _) = launch.start().await;
    let made = aside(move || relay.next()).await;
    assert!(made["result"]["isError"] != true && made["id"] == 1, "{made}");
    let intents = server.client(&key_of("agent.bob")).get("/intents").await.ok();
    assert_eq!(intents.to_string().matches("\"once\"").count(), 1, "{intents}");
    server.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_have_been_delivered_is_not_repeated() {
    let scene = Scene::start("claude").await;
    // It takes a request, and dies before it answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dying = Host { url: format!("http://{}", listener.local_addr().unwrap()), ..scene.host.clone() };
    let calls = std::thread::spawn(move || {
        let mut calls = 0;
        for taken in listener.incoming() {
            let mut taken = taken.unwrap();
            let mut bytes = vec![0; 65_536];
            let count = taken.read(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if text.contains("Mcp-Name: the-end") || text.contains("mcp-name: the-end") {
                return calls;
            }
            calls += u32::from(text.contains("tools/call"));
        }
        calls
    });
    aside(move || {
        let began = Instant::now();
        let mut relay = Relay::start(&dying, &[]);
        relay.call(1, "whoami", &json!({}));
        let lost = relay.next();
        let said = lost["result"]["content"][0]["text"].as_str().unwrap();
        assert!(lost["result"]["isError"] == true && said.contains("look before you repeat it"), "{lost}");
        assert!(began.elapsed() < Duration::from_secs(10));
        relay.call(2, "the-end", &json!({}));
        assert_eq!(relay.next()["id"], 2);
        assert_eq!(calls.join().unwrap(), 1);
        // Nobody there at all.
        let away = Host { url: format!("http://{}", free_address()), ..dying.clone() };
        let mut relay = Relay::start(&away, &[]);
        relay.write(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"whoami"}}"#);
        let line = relay.lines.recv_timeout(Duration::from_secs(40)).unwrap();
        assert!(line.contains("\"isError\":true") && !line.contains("look before"), "{line}");
    })
    .await;
    scene.world.end().await;
}
