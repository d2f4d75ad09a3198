//! Arguments of tools: JSON text in place of objects and lists, and errors that name the tool's own arguments.

use super::{Era, Mcp};
use entente_harness::{Value, World, json, talk};

#[tokio::test]
async fn json_text_is_understood_where_an_object_or_a_list_belongs() {
    let world = World::start().await;
    let (ada, _grace) = (world.agent("agent.ada").await, world.human("human.grace").await);
    let mcp = Mcp::new(&ada, Era::Stateless);
    let (intent, channel) = talk(&ada, json!({})).await;
    let said = mcp.ok("send_message", json!({ "channel": channel, "payload": r#"{ "x": [1] }"# })).await;
    assert_eq!(said["payload"], json!({ "x": [1] }));
    let members = json!({ "intent_id": intent, "name": "d", "members": r#"["agent.ada"]"# });
    assert_eq!(mcp.ok("open_channel", members).await["members"], json!(["agent.ada"]));
    // The inner object is text too.
    let option =
        |label: &str| json!({ "label": label, "reasoning": format!("{label} is safe.") }).to_string();
    let question = json!({
        "stem": "When should it ship?", "recommended_idx": 0, "options": [option("Today"), option("Tomorrow")],
    });
    let ask = json!({
        "principal": "human.grace", "synopsis": "Ship it today.", "findings": r#"["CI is green.", "It is small.", "It is reviewed."]"#,
        "recommendations": ["Tag it.", "Publish it."], "offer": "Ask for detail.", "question": question.to_string(),
    });
    let asked = mcp.ok("ask_principal", ask).await;
    assert_eq!(asked["binding_moment"]["question"]["options"][1]["label"], "Tomorrow");
    // An argument that takes any JSON, and a text, stay texts.
    mcp.ok("claim_job", json!({ "agents": ["echo"], "register": true })).await;
    mcp.ok("submit_job", json!({ "agent": "echo", "input": "{\"x\":1}" })).await;
    let job = mcp.ok("claim_job", json!({ "agents": ["echo"] })).await["job"].clone();
    assert_eq!(job["input"], "{\"x\":1}");
    let created = mcp.ok("create_intent", json!({ "title": "{\"x\":1}" })).await;
    assert_eq!(created["title"], "{\"x\":1}");
    // A text that is no JSON, or JSON of another type, is refused.
    for wrong in ["hello", "[1]", "7"] {
        let text = mcp
            .refused("send_message", json!({ "channel": channel, "payload": wrong }), "invalid_request")
            .await;
        assert!(text.contains("`payload` must be a JSON object."), "{text}");
    }
    world.end().await;
}

/// AEE-W-6.2: JSON text is parsed like a body, whose numbers nobody rounds.
#[tokio::test]
async fn a_number_in_json_text_is_kept_or_refused_and_never_rounded() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mcp = Mcp::new(&ada, Era::Stateless);
    let channel = talk(&ada, json!({})).await.1;
    let long = r#"{"n":100000000000000000001}"#;
    // The text of a payload is passed on.
    mcp.ok("send_message", json!({ "channel": channel, "payload": long })).await;
    let shown = ada.get(&format!("/channels/{channel}/messages")).await;
    assert!(shown.text.contains("100000000000000000001"), "{}", shown.text);
    // What the server parses, it would change.
    let text = mcp.refused("create_intent", json!({ "title": "x", "state": long }), "unprocessable").await;
    assert!(text.contains("100000000000000000001"), "{text}");
    let envelope =
        format!(r#"{{"type":"task","to":"agent.bob","intent":"ops.backup.check","payload":{long}}}"#);
    mcp.refused("send_envelope", json!({ "envelope": envelope }), "unprocessable").await;
    let exact = envelope.replace("100000000000000000001", "100000000000000000000");
    mcp.ok("send_envelope", json!({ "envelope": exact })).await;
    let items = bob.get("/aee/mailboxes/agent.bob").await.ok()["items"].as_array().unwrap().clone();
    assert_eq!((items.len(), &items[0]["envelope"]["payload"]["n"]), (1, &json!(1e20)));
    world.end().await;
}

#[tokio::test]
async fn errors_name_the_arguments_of_the_tool() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Handshake);
    let channel = talk(&ada, json!({})).await.1;
    let with = |name: &str, value: Value| {
        let mut arguments = json!({ "channel": channel });
        arguments[name] = value;
        arguments
    };
    let cases = [
        (json!({}), "`channel` is missing in read_messages: a text."),
        (with("chanel", json!("c")), "`chanel` is unknown: read_messages takes `ack`, `after`, `channel`"),
        (with("limit", json!("ten")), "`limit` must be a whole number from 1 to 1000, and is another text."),
        (with("limit", json!(0)), "`limit` must be a whole number from 1 to 1000."),
        (with("ack", json!("yes")), "`ack` must be true or false, and is another text."),
    ];
    for (arguments, words) in cases {
        let text = mcp.refused("read_messages", arguments, "invalid_request").await;
        assert!(text.contains(words), "{words} is not in {text}");
        assert!(text.contains("Example of read_messages: {"), "{text}");
        assert!(!text.contains("body"), "{text}");
    }
    // The meaning of the argument comes along.
    let text = mcp.refused("read_messages", with("limit", json!(true)), "invalid_request").await;
    assert!(text.contains("\n`limit`: Maximum number of messages; defaults to 50."), "{text}");
    // The operation names it otherwise.
    let text = mcp.refused("read_messages", with("after", json!("yesterday")), "invalid_parameter").await;
    assert!(text.contains("`after` is neither") && !text.contains("since"), "{text}");
    mcp.ok("claim_job", json!({ "agents": ["echo"], "register": true })).await;
    let result = mcp.call("submit_job", json!({ "agent": "echo", "max_runtime_s": -1 })).await;
    let (problem, text) =
        (&result["_meta"]["entente/problem"], result["content"][0]["text"].as_str().unwrap());
    assert_eq!(result["isError"], true, "{result}");
    assert!(text.contains("`max_runtime_s`") && !text.contains("max_runtime_sec"), "{text}");
    assert_eq!(problem["errors"][0]["pointer"], "/max_runtime_s", "{problem}");
    // Members of an object have their path.
    let ask = json!({ "agent": "echo", "constraints": { "ends": "soon" } });
    let text = mcp.refused("submit_job", ask, "invalid_request").await;
    assert!(text.contains("`ends` is unknown: `constraints` takes `expires_at`."), "{text}");
    let text = mcp.refused("tasks", json!({ "action": "jump" }), "invalid_request").await;
    assert!(text.contains("`action` must be one of `create`, `list`"), "{text}");
    let text = mcp.refused("tasks", json!({ "action": "claim" }), "invalid_request").await;
    assert!(text.contains("`task_id` is missing") && text.contains("Example of tasks"), "{text}");
    // Of many faults the first ones are told.
    let members = json!({ "intent_id": "intent_x", "name": "d", "members": vec![7; 1_000] });
    let result = mcp.call("open_channel", members).await;
    assert_eq!(result["_meta"]["entente/problem"]["errors"].as_array().unwrap().len(), 10, "{result}");
    let text = mcp.refused("claim_job", json!({ "agents": ["no agent"] }), "invalid_request").await;
    assert!(text.contains("`no agent` is no agent: use a name such as `echo`, or `echo@1`."), "{text}");
    let envelope = json!({ "type": "task", "to": "agent.ada", "payload": {} });
    let result = mcp.call("send_envelope", json!({ "envelope": envelope })).await;
    assert_eq!(result["_meta"]["entente/problem"]["errors"][0]["pointer"], "/envelope/intent", "{result}");
    world.end().await;
}

/// Even one that the operation has in another place, where the names of its members are replaced.
#[tokio::test]
async fn an_unknown_argument_keeps_its_name() {
    let world = World::start().await;
    let mcp = Mcp::new(&world.agent("agent.ada").await, Era::Handshake);
    let loose = json!({ "to": "agent.ada", "payload": {} });
    let result = mcp.call("send_envelope", loose).await;
    let (problem, text) =
        (&result["_meta"]["entente/problem"], result["content"][0]["text"].as_str().unwrap());
    assert!(
        text.starts_with("invalid_request: `payload` is unknown: send_envelope takes `envelope`"),
        "{text}"
    );
    assert!(text.contains("\n- envelope: `envelope` is missing in send_envelope"), "{text}");
    let pointers: Vec<&Value> =
        problem["errors"].as_array().unwrap().iter().map(|one| &one["pointer"]).collect();
    assert_eq!(pointers, ["/payload", "/to", "/envelope"], "{problem}");
    for (name, value) in [("name", json!("echo")), ("version", json!("1"))] {
        let mut arguments = json!({ "agents": ["echo"] });
        arguments[name] = value;
        let text = mcp.refused("claim_job", arguments, "invalid_request").await;
        assert!(text.contains(&format!("`{name}` is unknown: claim_job takes `agents`")), "{text}");
    }
    world.end().await;
}
