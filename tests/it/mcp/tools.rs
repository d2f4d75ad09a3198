//! Each tool: its effects, its refusals, and that its results match its output schema.

use std::time::Duration;

use jsonschema::Validator;
use tokio::time::sleep;

use super::{ERAS, Era, Mcp};
use entente_harness::envelopes::task_envelope;
use entente_harness::{Setup, Value, World, json, talk};

/// All tools by name (MCP-W-6).
const NAMES: [&str; 32] = [
    "ask_agent",
    "ask_principal",
    "cancel_job",
    "check_decision",
    "check_lease",
    "claim_job",
    "control_job",
    "costs",
    "create_intent",
    "finish_job",
    "get_job",
    "leases",
    "list_agents",
    "list_channels",
    "list_decisions",
    "list_intents",
    "list_jobs",
    "list_people",
    "memory",
    "open_channel",
    "post_deliberation",
    "read_mailbox",
    "read_messages",
    "reply_message",
    "report_job",
    "send_envelope",
    "send_message",
    "submit_job",
    "tasks",
    "wait_for_events",
    "whoami",
    "withdraw_decision",
];

pub async fn listed(mcp: &Mcp) -> Vec<Value> {
    let listed = mcp.request("tools/list", json!({})).await.is(200);
    listed["result"]["tools"].as_array().unwrap().clone()
}

/// Calls a tool that must succeed and validates arguments and result against the tool's schemas.
pub async fn fits(mcp: &Mcp, tool: &str, arguments: Value) -> Value {
    let tools = listed(mcp).await;
    let listed = tools.iter().find(|listed| listed["name"] == tool).unwrap();
    let takes = Validator::new(&listed["inputSchema"]).unwrap();
    assert!(takes.is_valid(&arguments), "{tool} does not say that it takes {arguments}");
    let answer = mcp.ok(tool, arguments).await;
    let gives = Validator::new(&listed["outputSchema"]).unwrap();
    let faults: Vec<String> = gives.iter_errors(&answer).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{tool} answered {answer}: {faults:?}");
    answer
}

#[tokio::test]
async fn every_tool_is_closed_described_and_ordered() {
    let world = World::start().await;
    let mcp = Mcp::new(&world.agent("agent.ada").await, Era::Stateless);
    let tools = listed(&mcp).await;
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, NAMES);
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name} takes anything");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert!(
            Validator::new(&tool["inputSchema"]).is_ok() && Validator::new(&tool["outputSchema"]).is_ok()
        );
        let about = tool["description"].as_str().unwrap();
        assert!((20..=700).contains(&about.len()), "{name}: {about}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} has no {hint}");
        }
        // One that can end or replace something says so, whatever else it does.
        let ends =
            ["cancel_job", "finish_job", "leases", "memory", "tasks", "withdraw_decision"].contains(&name);
        assert_eq!(tool["annotations"]["destructiveHint"], ends, "{name}");
        // A tool that answers pings is not read-only.
        let answers = ["read_mailbox", "wait_for_events"].contains(&name);
        assert!(!answers || tool["annotations"]["readOnlyHint"] == false, "{name}");
        let undescribed = tool["inputSchema"]["properties"].as_object().unwrap().iter();
        let undescribed: Vec<_> = undescribed
            .filter(|(_, schema)| schema["description"].is_null() && schema["properties"].is_null())
            .collect();
        assert!(undescribed.is_empty(), "{name}: {undescribed:?}");
        // A misspelt argument is refused instead of ignored.
        let text = mcp.refused(name, json!({ "mispelt": 1 }), "invalid_request").await;
        assert!(text.contains("mispelt") || text.contains("missing"), "{name}: {text}");
    }
    world.end().await;
}

#[tokio::test]
async fn the_list_of_tools_is_short_enough_for_a_model() {
    let world = World::start().await;
    let tools = listed(&Mcp::new(&world.agent("agent.ada").await, Era::Stateless)).await;
    assert!(tools.len() <= 32, "{} tools", tools.len());
    // 12,000 tokens of four characters each.
    let size = json!(tools).to_string().len();
    assert!(size <= 48_000, "{size} bytes");
    for tool in &tools {
        let examples = tool["inputSchema"]["examples"].as_array().unwrap();
        assert_eq!(examples.len(), 1, "{}", tool["name"]);
        let takes = Validator::new(&tool["inputSchema"]).unwrap();
        let faults: Vec<String> = takes.iter_errors(&examples[0]).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{}: {faults:?}", tool["name"]);
    }
    world.end().await;
}

#[tokio::test]
async fn no_tool_decides_for_a_human() {
    let world = World::start().await;
    let mcp = Mcp::new(&world.agent("agent.ada").await, Era::Stateless);
    for tool in listed(&mcp).await {
        let name = tool["name"].as_str().unwrap();
        assert!(!name.contains("resolve") && !name.contains("approve") && !name.contains("answer_decision"));
    }
    for name in ["resolve_decision", "resolve", "decide", "approve"] {
        let reply = mcp.request("tools/call", json!({ "name": name, "arguments": {} })).await;
        let answer = reply.is(200);
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn who_one_is() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "mine" })).await.ok()["id"].clone();
    let assign = json!({ "agent_id": "agent.ada" });
    ada.post(&format!("/intents/{}/agents", intent.as_str().unwrap()), assign).await.ok();
    for era in ERAS {
        let me = fits(&Mcp::new(&ada, era), "whoami", json!({})).await;
        assert_eq!((&me["agent"], &me["kind"]), (&json!("agent.ada"), &json!("agent")));
        assert_eq!(me["intents"][0]["id"], intent);
        assert!(me["scopes"].as_array().unwrap().contains(&json!("channels:write")));
    }
    let acting = Mcp::new(&world.any().acting_as("agent.bob"), Era::Stateless);
    let me = fits(&acting, "whoami", json!({})).await;
    assert_eq!((&me["agent"], &me["principal"]), (&json!("agent.bob"), &json!("service.any")));
    world.end().await;
}

#[tokio::test]
async fn agents_talk() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let (a, b) = (Mcp::new(&ada, Era::Handshake), Mcp::new(&bob, Era::Stateless));
    let opened = json!({ "intent_id": intent, "name": "data", "members": ["agent.ada", "agent.bob"] });
    let channel = fits(&a, "open_channel", opened.clone()).await["id"].clone();
    a.refused("open_channel", opened, "duplicate_name").await;
    let listed = fits(&b, "list_channels", json!({ "intent_id": intent, "status": "open" })).await;
    assert_eq!(listed["channels"].as_array().unwrap().len(), 2);
    let say =
        json!({ "channel": channel, "payload": { "x": 1 }, "type": "broadcast", "idempotency_key": "k1" });
    let said = fits(&a, "send_message", say.clone()).await;
    assert_eq!((&said["sender"], &said["message_type"]), (&json!("agent.ada"), &json!("broadcast")));
    assert_eq!(fits(&a, "send_message", say).await["id"], said["id"], "a retry is done once");
    let page = fits(&b, "read_messages", json!({ "channel": channel, "ack": true })).await;
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["marked_read"]), (1, &json!(1)));
    let more =
        fits(&b, "read_messages", json!({ "channel": channel, "after": page["next"], "ack": true })).await;
    assert_eq!((more["messages"].as_array().unwrap().len(), &more["next"]), (0, &page["next"]));
    let status = ada.get(&format!("/channels/{}/messages", channel.as_str().unwrap())).await.ok();
    assert_eq!(status[0]["status"], "read");
    let stranger = Mcp::new(&world.agent("agent.eve").await, Era::Stateless);
    stranger.refused("read_messages", json!({ "channel": "chan_nobody" }), "not_found").await;
    world.end().await;
}

#[tokio::test]
async fn a_question_is_answered_or_stays_open() {
    let world = World::with(Setup::live()).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "members": ["agent.ada", "agent.bob"] })).await;
    let (a, b) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Handshake));
    let ask = json!({ "channel": channel, "to": "agent.bob", "payload": { "q": "which?" }, "timeout_s": 20 });
    let asking = tokio::spawn({
        let a = a.clone();
        async move { fits(&a, "ask_agent", ask).await }
    });
    let wait = json!({ "channel": channel, "wait_s": 20 });
    let asked = fits(&b, "read_messages", wait).await["messages"][0].clone();
    let reply = json!({ "channel": channel, "message_id": asked["id"], "payload": { "a": "v2" } });
    let replied = fits(&b, "reply_message", reply).await;
    let answered = asking.await.unwrap();
    assert_eq!((&answered["state"], &answered["request_id"]), (&json!("answered"), &asked["id"]));
    assert_eq!(answered["response"]["id"], replied["id"]);
    // Nobody answers in time: the question stays open and can be answered later.
    let ask =
        json!({ "channel": channel, "to": "agent.bob", "payload": { "q": "and now?" }, "timeout_s": 0 });
    let open = fits(&a, "ask_agent", ask).await;
    assert_eq!((&open["state"], &open["response"]), (&json!("pending"), &Value::Null));
    let late = json!({ "channel": channel, "message_id": open["request_id"], "payload": {} });
    fits(&b, "reply_message", late).await;
    // A grant to another agent excludes nobody: every agent with read access may take part (RFC-0021 §5.2).
    let entry = json!({ "principal_id": "agent.cy", "permission": "write" });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    let open =
        json!({ "channel": channel, "to": "agent.bob", "payload": { "q": "still there?" }, "timeout_s": 0 });
    let open = fits(&a, "ask_agent", open).await;
    let answer = json!({ "channel": channel, "message_id": open["request_id"], "payload": {} });
    fits(&b, "reply_message", answer).await;
    fits(&b, "send_message", json!({ "channel": channel, "payload": {} })).await;
    world.end().await;
}

#[tokio::test]
async fn jobs_are_submitted_run_and_ended() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    bob.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    let worker = bob.post("/workers", json!({ "name": "w", "agents": ["echo"] })).await.is(201);
    let (a, b) = (Mcp::new(&ada, Era::Handshake), Mcp::new(&bob, Era::Stateless));
    let ask = json!({
        "agent": "echo", "input": { "x": 1 }, "idempotency_key": "once",
        "lease_request": { "tool.call": ["search.*"], "cost.budget": ["USD:1.00"] },
    });
    let job = fits(&a, "submit_job", ask.clone()).await;
    assert_eq!(fits(&a, "submit_job", ask).await["job_id"], job["job_id"]);
    let claimed =
        bob.post("/jobs/claim", json!({ "worker_id": worker["worker_id"] })).await.ok()["jobs"][0].clone();
    let held = |more: Value| {
        let mut all = json!({ "job_id": job["job_id"], "claim_token": claimed["claim_token"] });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let may =
        fits(&b, "check_lease", held(json!({ "capability": "tool.call", "target": "search.web" }))).await;
    assert_eq!((&may["allowed"], &may["budget"]["USD"]), (&json!(true), &json!(1)));
    let not = fits(&b, "check_lease", held(json!({ "capability": "fs.write", "target": "/etc" }))).await;
    assert_eq!((&not["allowed"], &not["code"]), (&json!(false), &json!("PERMISSION_DENIED")));
    let running = fits(&a, "get_job", json!({ "job_id": job["job_id"] })).await;
    assert_eq!((&running["claim"]["worker"], &running["claim"]["agent"]), (&json!("w"), &json!("agent.bob")));
    let listed = fits(&a, "list_jobs", json!({ "status": ["running"] })).await;
    assert_eq!(listed["jobs"][0]["claim"], running["claim"]);
    let progress = held(json!({ "kind": "progress", "body": { "current": 1, "total": 2 } }));
    fits(&b, "report_job", progress).await;
    for _ in 0..2 {
        fits(&b, "finish_job", held(json!({ "result": { "echoed": 1 } }))).await;
    }
    for other in [json!({ "result": { "echoed": 2 } }), json!({ "error": { "message": "no" } })] {
        b.refused("finish_job", held(other), "CLAIM_LOST").await;
    }
    let done = fits(&a, "get_job", json!({ "job_id": job["job_id"] })).await;
    assert_eq!((&done["status"], &done["terminal"]["result"]["echoed"]), (&json!("success"), &json!(1)));
    let listed = fits(&a, "list_jobs", json!({ "status": ["success"] })).await;
    assert_eq!(listed["jobs"][0]["job_id"], job["job_id"]);
    let other = fits(&a, "submit_job", json!({ "agent": "echo" })).await;
    a.refused("cancel_job", json!({ "job_id": other["job_id"] }), "PERMISSION_DENIED").await;
    let end = json!({ "job_id": other["job_id"], "session_id": other["session_id"], "reason": "enough" });
    assert_eq!(fits(&a, "cancel_job", end).await["status"], "cancelled");
    world.end().await;
}

#[tokio::test]
async fn a_ping_is_answered_for_who_reads_its_mail() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (a, b) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Handshake));
    // One ping with a usual id, and one with an id of the maximum length.
    let asked = ["envelope-1".to_owned(), "e".repeat(128)];
    for id in &asked {
        let mut ping = task_envelope(&world, id, ("agent.ada", "agent.bob"));
        ping["intent"] = json!("aee.status.ping");
        ping["type"] = json!("task");
        ping["payload"] = json!({});
        fits(&a, "send_envelope", json!({ "envelope": ping })).await;
    }
    for _ in 0..2 {
        assert_eq!(fits(&b, "read_mailbox", json!({})).await["items"][0]["envelope"]["id"], "envelope-1");
    }
    let page = fits(&a, "read_mailbox", json!({})).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2, "{page}");
    for (item, id) in page["items"].as_array().unwrap().iter().zip(&asked) {
        let answer = &item["envelope"];
        assert_eq!((&answer["reply_to"], &answer["payload"]), (&json!(id), &json!({ "pong": true })));
        assert_eq!((&answer["from"], &answer["type"]), (&json!("agent.bob"), &json!("result")));
    }
    world.end().await;
}

#[tokio::test]
async fn mail_is_sent_and_taken_out() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (a, b) = (Mcp::new(&ada, Era::Stateless), Mcp::new(&bob, Era::Handshake));
    let envelope = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    let sent = fits(&a, "send_envelope", json!({ "envelope": envelope })).await;
    assert_eq!(sent["id"], "envelope-1");
    a.refused("send_envelope", json!({ "envelope": envelope }), "duplicate_id").await;
    let page = fits(&b, "read_mailbox", json!({ "ack": true })).await;
    assert_eq!(page["items"][0]["envelope"]["id"], "envelope-1");
    assert_eq!((&page["next_after"], &page["acked_seq"]), (&json!(1), &json!(1)));
    let empty = fits(&b, "read_mailbox", json!({})).await;
    assert_eq!(empty["items"], json!([]));
    b.refused("read_mailbox", json!({ "entity": "agent.ada" }), "not_found").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_is_not_taken_out_for_a_host_that_hung_up() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    for era in ERAS {
        let (id, b) = (format!("envelope-{era:?}"), Mcp::new(&bob, era));
        let gone = b.clone();
        let gone =
            tokio::spawn(
                async move { gone.call("read_mailbox", json!({ "wait_s": 20, "ack": true })).await },
            );
        sleep(Duration::from_millis(400)).await;
        gone.abort();
        sleep(Duration::from_millis(400)).await;
        ada.post("/aee/envelopes", task_envelope(&world, &id, ("agent.ada", "agent.bob"))).await.is(202);
        // Long enough for an abandoned call to have been woken.
        sleep(Duration::from_millis(400)).await;
        let page = fits(&b, "read_mailbox", json!({ "ack": true })).await;
        assert_eq!(page["items"][0]["envelope"]["id"], json!(id), "{page}");
    }
    world.end().await;
}

/// A misspelt argument is an error that lists the tool's own arguments, whatever the other arguments are.
#[tokio::test]
async fn every_tool_refuses_an_argument_that_it_does_not_know() {
    let world = World::start().await;
    let mcp = Mcp::new(&world.agent("agent.ada").await, Era::Stateless);
    for tool in listed(&mcp).await {
        let name = tool["name"].as_str().unwrap();
        let text = mcp.refused(name, json!({ "0_unknwon": 1 }), "invalid_request").await;
        assert!(text.contains("`0_unknwon`"), "{name}: {text}");
        for (argument, _) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            assert!(text.contains(&format!("`{argument}`")), "{name} does not name {argument}: {text}");
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_host_lists_the_toolset_that_its_address_names() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let ada = ada.with("accept", "application/json, text/event-stream");
    let names = async |query: &str| -> Vec<String> {
        let list = ada.post(&format!("//mcp{query}"), ask.clone()).await.ok();
        let tools = list["result"]["tools"].as_array().unwrap().clone();
        assert!(tools.len() <= 64 && json!(tools).to_string().len() <= 60_000);
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (core, attention, all) =
        (names("").await, names("?tools=attention").await, names("?tools=all").await);
    assert_eq!(names("?tools=core").await, core);
    assert!(!attention.is_empty() && attention.iter().all(|name| !core.contains(name)), "{attention:?}");
    assert_eq!(all.len(), core.len() + attention.len());
    ada.post("//mcp?tools=everything", ask).await.refused(422, "invalid_parameter");
    world.end().await;
}
