//! Calls of tools as tasks, in both eras: a task is the job or the question itself.

use super::{ERAS, Era, Mcp, failed, meta};
use entente_harness::moments::{dialogue, option, question, resolve, with};
use entente_harness::{Client, Reply, Value, World, json};

/// Calls a tool as a task and returns the whole response. The extension leaves it to the server.
async fn begin(mcp: &Mcp, tool: &str, arguments: Value) -> Reply {
    let mut params = json!({ "name": tool, "arguments": arguments });
    match mcp.era {
        Era::Handshake => params["task"] = json!({ "ttl": 60_000 }),
        Era::Stateless => params["_meta"] = declared(),
    }
    mcp.request("tools/call", params).await
}

/// Returns the `_meta` of a client with the extension.
fn declared() -> Value {
    let mut meta = meta("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    meta
}

/// Sends a request about a task.
async fn about(mcp: &Mcp, method: &str, id: &Value) -> Reply {
    let mut params = json!({ "taskId": id });
    if mcp.era == Era::Stateless {
        params["_meta"] = declared();
    }
    mcp.request(method, params).await
}

/// Returns the task of a response, which each era puts in another place.
fn task(mcp: &Mcp, reply: &Reply) -> Value {
    let result = reply.is(200)["result"].clone();
    if mcp.era == Era::Handshake && result["task"].is_object() { result["task"].clone() } else { result }
}

/// Returns the result of a task that is over.
async fn result(mcp: &Mcp, id: &Value) -> Value {
    match mcp.era {
        Era::Handshake => about(mcp, "tasks/result", id).await.is(200)["result"].clone(),
        Era::Stateless => about(mcp, "tasks/get", id).await.is(200)["result"]["result"].clone(),
    }
}

fn ask(more: Value) -> Value {
    let asked = question("human.ada");
    let mut arguments = asked["binding_moment"].clone();
    arguments["principal"] = asked["principal_id"].clone();
    with(arguments, more)
}

/// Claims the next job of `echo` as a worker.
async fn claim(worker: &Mcp) -> Value {
    let held = worker.ok("claim_job", json!({ "agents": ["echo"], "register": true })).await["job"].clone();
    json!({ "job_id": held["job_id"], "claim_token": held["claim_token"] })
}

async fn seen(person: &Client, id: &Value) -> Value {
    person.get(&format!("/moments/{}", id.as_str().unwrap())).await.ok()
}

#[tokio::test]
async fn a_job_is_a_task() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let worker = Mcp::new(&bob, Era::Stateless);
    claim(&worker).await;
    for era in ERAS {
        let mcp = Mcp::new(&ada, era);
        let begun = task(&mcp, &begin(&mcp, "submit_job", json!({ "agent": "echo" })).await);
        let id = &begun["taskId"];
        assert!(id.as_str().unwrap().starts_with("job_"), "{begun}");
        assert_eq!(begun["status"], "working");
        let ttl = if era == Era::Stateless { "ttlMs" } else { "ttl" };
        assert_eq!(begun.get(ttl), Some(&Value::Null), "{begun}");
        assert_eq!(begun["resultType"], if era == Era::Stateless { json!("task") } else { Value::Null });
        let working = task(&mcp, &about(&mcp, "tasks/get", id).await);
        assert_eq!((&working["taskId"], &working["status"]), (id, &json!("working")), "{working}");
        assert_eq!(working.get("result"), None);
        // Others do not see it.
        failed(&about(&Mcp::new(&bob, era), "tasks/get", id).await, 200, -32602);
        let end = with(claim(&worker).await, json!({ "result": { "echoed": 1 } }));
        worker.ok("finish_job", end).await;
        assert_eq!(task(&mcp, &about(&mcp, "tasks/get", id).await)["status"], "completed");
        let over = result(&mcp, id).await;
        assert_eq!(over["isError"], false, "{over}");
        let answer = &over["structuredContent"];
        assert_eq!((&answer["job_id"], &answer["status"]), (id, &json!("success")));
        assert_eq!(answer["terminal"]["result"]["echoed"], 1);
        // Clients check it by the schema of the tool that they called.
        let tools = super::tools::listed(&mcp).await;
        let tool = tools.iter().find(|tool| tool["name"] == "submit_job").unwrap();
        assert!(jsonschema::is_valid(&tool["outputSchema"], answer), "{answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_job_that_fails_is_a_failed_call() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let worker = Mcp::new(&bob, Era::Stateless);
    claim(&worker).await;
    // In the extension a task only fails with an error of the protocol.
    for (era, status) in [(Era::Handshake, "failed"), (Era::Stateless, "completed")] {
        let mcp = Mcp::new(&ada, era);
        let begun = task(&mcp, &begin(&mcp, "submit_job", json!({ "agent": "echo" })).await);
        let end = with(claim(&worker).await, json!({ "error": { "message": "It burnt." } }));
        worker.ok("finish_job", end).await;
        assert_eq!(task(&mcp, &about(&mcp, "tasks/get", &begun["taskId"]).await)["status"], status);
        let over = result(&mcp, &begun["taskId"]).await;
        assert_eq!((&over["isError"], &over["structuredContent"]["status"]), (&json!(true), &json!("error")));
    }
    world.end().await;
}

#[tokio::test]
async fn a_question_is_a_task() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    for (era, answer) in [(Era::Handshake, option(1)), (Era::Stateless, dialogue("Who says so?"))] {
        let mcp = Mcp::new(&agent, era);
        let reply =
            begin(&mcp, "ask_principal", ask(json!({ "wait_s": 25 }))).await.is(200)["result"].clone();
        // The moment is at the top of the result (§7.1), and the model gets its text at once.
        assert_eq!(reply["binding_moment"]["synopsis"], question("human.ada")["binding_moment"]["synopsis"]);
        let text = reply["_meta"]["io.modelcontextprotocol/model-immediate-response"].as_str().unwrap();
        assert!(text.starts_with("DECISION NEEDED ["), "{text}");
        let begun = if era == Era::Handshake { &reply["task"] } else { &reply };
        let id = &begun["taskId"];
        assert_eq!(begun["status"], "working", "it does not wait for the answer");
        assert!(begun["statusMessage"].as_str().unwrap().contains("/inbox/bm_"), "{begun}");
        resolve(&ada, &seen(&ada, id).await, answer).await.is(200);
        let got = task(&mcp, &about(&mcp, "tasks/get", id).await);
        assert_eq!(got["status"], "completed", "{got}");
        let over = result(&mcp, id).await;
        let told = &over["structuredContent"];
        assert_eq!(
            (&told["moment_id"], &told["binding_moment"]),
            (id, &Value::Null),
            "it is no open question"
        );
        if era == Era::Handshake {
            assert_eq!(told["resolution"]["label"], "Wait a day");
            assert_eq!(over["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], *id);
        } else {
            assert_eq!(told["resolution"]["objection"], "Who says so?");
            assert!(over["content"][0]["text"].as_str().unwrap().contains("post_deliberation"), "{over}");
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_task_is_cancelled_once() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    world.human("human.ada").await;
    claim(&Mcp::new(&bob, Era::Stateless)).await;
    for era in ERAS {
        let mcp = Mcp::new(&ada, era);
        for (tool, arguments) in
            [("submit_job", json!({ "agent": "echo" })), ("ask_principal", ask(json!({})))]
        {
            let begun = task(&mcp, &begin(&mcp, tool, arguments).await);
            let id = &begun["taskId"];
            failed(&about(&Mcp::new(&bob, era), "tasks/cancel", id).await, 200, -32602);
            let ended = about(&mcp, "tasks/cancel", id).await.is(200)["result"].clone();
            let got = task(&mcp, &about(&mcp, "tasks/get", id).await);
            assert_eq!(got["status"], "cancelled", "{got}");
            if era == Era::Handshake {
                assert_eq!(ended["status"], "cancelled");
                failed(&about(&mcp, "tasks/cancel", id).await, 200, -32602);
            } else {
                assert_eq!(ended["resultType"], "complete", "{ended}");
                about(&mcp, "tasks/cancel", id).await.is(200);
            }
        }
    }
    world.end().await;
}

#[tokio::test]
async fn the_handshake_era_lists_tasks_and_waits() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    world.human("human.ada").await;
    let worker = Mcp::new(&bob, Era::Stateless);
    claim(&worker).await;
    let mcp = Mcp::new(&ada, Era::Handshake);
    let job = task(&mcp, &begin(&mcp, "submit_job", json!({ "agent": "echo" })).await)["taskId"].clone();
    let asked = task(&mcp, &begin(&mcp, "ask_principal", ask(json!({}))).await)["taskId"].clone();
    let jobs = mcp.request("tasks/list", json!({})).await.is(200)["result"].clone();
    assert_eq!(jobs["tasks"][0]["taskId"], job);
    let more =
        mcp.request("tasks/list", json!({ "cursor": jobs["nextCursor"] })).await.is(200)["result"].clone();
    assert_eq!((&more["tasks"][0]["taskId"], more.get("nextCursor")), (&asked, None));
    failed(&mcp.request("tasks/list", json!({ "cursor": "nonsense" })).await, 200, -32602);
    // The request for the result waits for it.
    let held = claim(&worker).await;
    let finish = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        worker.ok("finish_job", with(held, json!({ "result": 7 }))).await;
    };
    let (over, ()) = futures_util::future::join(result(&mcp, &job), finish).await;
    assert_eq!(over["structuredContent"]["terminal"]["result"], 7, "{over}");
    // Only two tools are tasks.
    failed(&begin(&mcp, "whoami", json!({})).await, 200, -32601);
    failed(&begin(&mcp, "submit_job", json!({ "agent": "nobody" })).await, 200, -32602);
    let tools = super::tools::listed(&mcp).await;
    let tasks: Vec<&Value> = tools
        .iter()
        .filter(|tool| tool["execution"]["taskSupport"] == "optional")
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(tasks, [&json!("ask_principal"), &json!("submit_job")]);
    mcp.ok("withdraw_decision", json!({ "moment_id": asked })).await;
    world.end().await;
}

#[tokio::test]
async fn the_extension_is_for_those_that_declare_it() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    claim(&Mcp::new(&bob, Era::Stateless)).await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let found = mcp.request("server/discover", json!({})).await.is(200)["result"]["capabilities"].clone();
    assert_eq!(found["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert_eq!(found.get("tasks"), None, "{found}");
    let plain = mcp.ok("submit_job", json!({ "agent": "echo" })).await;
    let reply = mcp.request("tasks/get", json!({ "taskId": plain["job_id"] })).await;
    failed(&reply, 400, -32021);
    // The job of a plain call is a task too.
    let got = task(&mcp, &about(&mcp, "tasks/get", &plain["job_id"]).await);
    assert_eq!(got["status"], "working");
    for id in ["job_nobody", "bm_nobody", "nonsense"] {
        failed(&about(&mcp, "tasks/get", &json!(id)).await, 200, -32602);
    }
    let mut list = json!({});
    list["_meta"] = declared();
    for method in ["tasks/list", "tasks/result"] {
        failed(&mcp.request(method, list.clone()).await, 404, -32601);
    }
    let end = json!({ "job_id": plain["job_id"], "session_id": plain["session_id"] });
    mcp.ok("cancel_job", end).await;
    world.end().await;
}

/// MCP-W-10.6: `FastMCP`'s client does not repeat the task in `Mcp-Name`. What it repeats must be the task.
#[tokio::test]
async fn a_task_is_found_without_its_header() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    claim(&mcp).await;
    let id = task(&mcp, &begin(&mcp, "submit_job", json!({ "agent": "echo" })).await)["taskId"].clone();
    let bare = mcp.http.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tasks/get");
    let get = |id: &Value| {
        let params = json!({ "taskId": id, "_meta": declared() });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params }).to_string()
    };
    let found = bare.send("POST", "//mcp", Some(get(&id))).await.is(200);
    assert_eq!(found["result"]["taskId"], id, "{found}");
    let other = bare.with("mcp-name", "job_other").send("POST", "//mcp", Some(get(&id))).await.is(400);
    assert_eq!(other["error"]["code"], -32_020, "{other}");
    for odd in [json!("job_\r\nx: y"), json!(""), json!(7), Value::Null] {
        let refused = bare.send("POST", "//mcp", Some(get(&odd))).await;
        assert!(refused.json()["error"].is_object(), "{odd}");
    }
    // Tools and resources keep their rule.
    let call = json!({ "name": "whoami", "arguments": {}, "_meta": meta("2026-07-28") });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }).to_string();
    let bare = bare.with("mcp-method", "tools/call");
    assert_eq!(bare.send("POST", "//mcp", Some(call)).await.is(400)["error"]["code"], -32_020);
    world.end().await;
}
