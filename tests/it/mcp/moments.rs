//! Decisions through MCP: an agent asks, the response contains the moment three times, the person answers elsewhere
//! with a key of their own, and the agent gets the answer. No tool lets an agent answer for its person.

use std::time::{Duration, Instant};

use futures_util::future::join;

use super::tools::{fits, listed};
use super::{ERAS, Era, Mcp, meta};
use entente_harness::moments::{at, dialogue, free_text, option, question, resolve, with};
use entente_harness::{Client, Value, World, json};

/// Returns the arguments of a question to Ada.
fn ask(more: Value) -> Value {
    let asked = question("human.ada");
    let mut arguments = asked["binding_moment"].clone();
    arguments["principal"] = asked["principal_id"].clone();
    with(arguments, more)
}

/// Returns the moment as its person sees it.
async fn seen(person: &Client, moment: &Value) -> Value {
    person.get(&format!("/moments/{}", moment["moment_id"].as_str().unwrap())).await.ok()
}

#[tokio::test]
async fn a_moment_goes_out_three_times() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    for era in ERAS {
        let mcp = Mcp::new(&agent, era);
        let result = mcp.call("ask_principal", ask(json!({ "expires_in_s": 3600 }))).await;
        assert_eq!(result["isError"], false, "{result}");
        let moment = seen(&ada, &result["structuredContent"]).await;
        let slots = &moment["binding_moment"];
        assert_eq!(slots["question"]["hatches"], json!({ "free_text": true, "dialogue": true }));
        // At the top level, where the memo requires it, and where MCP libraries keep it.
        assert_eq!(result["binding_moment"], *slots);
        assert_eq!(result["structuredContent"]["binding_moment"], *slots);
        assert_eq!(result["structuredContent"]["digest"], moment["digest"]);
        assert_eq!(result["resultType"], if era == Era::Stateless { json!("complete") } else { Value::Null });
        // And as text that is complete on its own: it contains every slot.
        let content = result["content"].as_array().unwrap();
        assert_eq!((content.len(), &content[0]["annotations"]), (1, &Value::Null));
        let text = content[0]["text"].as_str().unwrap();
        let id = moment["id"].as_str().unwrap();
        assert!(
            text.starts_with(&format!("DECISION NEEDED [{id}]  class: release  expires 09:00Z\n")),
            "{text}"
        );
        for words in [
            "Ship release 1.4 now, in private.",
            "  - CI is green.",
            "  - Tag v1.4.",
            "(Ask for detail on any item.)",
            "Q: When should release 1.4 ship?",
            "  1) Ship now  (recommended) - All checks pass.",
            "  2) Wait a day - The third reviewer is back tomorrow.",
            "  t) answer in your own words",
            "  d) wrong question, let us talk",
            &format!(
                "The principal answers at http://{}/inbox/{id}; call check_decision to wait.",
                world.address
            ),
            "Do not answer for them.",
        ] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
        mcp.ok("withdraw_decision", json!({ "moment_id": id })).await;
    }
    world.end().await;
}

#[tokio::test]
async fn what_emits_moments_is_marked() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    for era in ERAS {
        for tool in listed(&Mcp::new(&agent, era)).await {
            let emits = tool["name"] == "ask_principal";
            let marks =
                [&tool["annotations"]["emits_binding_moment"], &tool["_meta"]["emits_binding_moment"]];
            let mark = if emits { json!(true) } else { Value::Null };
            assert_eq!(marks, [&mark, &mark], "{}", tool["name"]);
        }
    }
    world.end().await;
}

#[tokio::test]
async fn an_agent_hears_what_was_decided() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let mcp = Mcp::new(&agent, Era::Stateless);
    let waiting = mcp.ok("wait_for_events", json!({ "kinds": ["decisions"], "timeout_s": 0 })).await;
    let asked = fits(&mcp, "ask_principal", ask(json!({ "idempotency_key": "k" }))).await;
    assert_eq!(
        fits(&mcp, "ask_principal", ask(json!({ "idempotency_key": "k" }))).await["moment_id"],
        asked["moment_id"]
    );
    let check = json!({ "moment_id": asked["moment_id"] });
    let open = fits(&mcp, "check_decision", check.clone()).await;
    assert_eq!((&open["state"], &open["resolution"]), (&json!("open"), &Value::Null));
    resolve(&ada, &seen(&ada, &asked).await, option(1)).await.is(200);
    let done = fits(&mcp, "check_decision", check.clone()).await;
    assert_eq!((&done["state"], &done["resolution"]["label"]), (&json!("resolved"), &json!("Wait a day")));
    let text = mcp.call("check_decision", check).await["content"][0]["text"].clone();
    assert!(text.as_str().unwrap().contains("human.ada chose option 2"), "{text}");
    let after = json!({ "after": waiting["next"], "kinds": ["decisions"], "timeout_s": 1 });
    let heard = fits(&mcp, "wait_for_events", after).await;
    assert_eq!(heard["events"].as_array().unwrap().len(), 1, "{heard}");
    assert_eq!(
        (&heard["events"][0]["kind"], &heard["events"][0]["state"]),
        (&json!("decision"), &json!("resolved"))
    );
    // After the acknowledgement the agent still gets the answer.
    let asked = fits(&mcp, "ask_principal", ask(json!({}))).await;
    resolve(&ada, &seen(&ada, &asked).await, free_text("Ship it on Friday.")).await.is(200);
    let ack = json!({ "moment_id": asked["moment_id"], "ack": true });
    let told = fits(&mcp, "check_decision", ack).await;
    assert_eq!(told["resolution"]["answer"], "Ship it on Friday.");
    assert!(agent.get(&at(&json!({ "id": asked["moment_id"] }))).await.ok()["acknowledged_at"].is_string());
    // A decision is not presented as a new question.
    let result = mcp.call("check_decision", json!({ "moment_id": asked["moment_id"] })).await;
    assert_eq!(
        (result.get("binding_moment"), result["structuredContent"].get("binding_moment")),
        (None, None)
    );
    world.end().await;
}

#[tokio::test]
async fn a_refused_question_is_talked_about_before_it_is_asked_anew() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let mcp = Mcp::new(&agent, Era::Handshake);
    let asked = fits(&mcp, "ask_principal", ask(json!({}))).await;
    resolve(&ada, &seen(&ada, &asked).await, dialogue("Who says that 1.4 is what we ship?")).await.is(200);
    let text = mcp.call("check_decision", json!({ "moment_id": asked["moment_id"] })).await;
    let text = text["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Who says that 1.4") && text.contains("post_deliberation"), "{text}");
    mcp.refused("withdraw_decision", json!({ "moment_id": asked["moment_id"] }), "invalid_transition").await;
    mcp.refused("ask_principal", ask(json!({})), "same_question").await;
    let other = json!({
        "synopsis": "Ship 1.3.9 from the stable branch today.",
        "question": {
            "stem": "Which line do we ship from?", "recommended_idx": 0,
            "options": [{ "label": "Stable", "reasoning": "It is tested." }, { "label": "Main", "reasoning": "It is newer." }],
        },
        "supersedes": asked["moment_id"], "objection_response": "The line is open now: choose it.",
    });
    mcp.refused("ask_principal", ask(other.clone()), "deliberation_required").await;
    let word =
        json!({ "moment_id": asked["moment_id"], "text": "You are right, the line was never decided." });
    let talked = fits(&mcp, "post_deliberation", word).await;
    assert_eq!((&talked["state"], talked["words"].as_array().unwrap().len()), (&json!("deliberating"), 1));
    let anew = mcp.call("ask_principal", ask(other)).await;
    let text = anew["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("In answer to your objection: The line is open now"), "{text}");
    // A deliberation instead of a question that the agent cannot commit to.
    let talk = json!({ "principal": "human.ada", "text": "The findings contradict each other." });
    assert_eq!(fits(&mcp, "post_deliberation", talk).await["state"], "deliberating");
    mcp.refused("post_deliberation", json!({ "text": "to nobody" }), "invalid_request").await;
    world.end().await;
}

#[tokio::test]
async fn a_deliberation_is_waited_for_by_who_says_what_it_has_seen() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let mcp = Mcp::new(&agent, Era::Stateless);
    let asked = mcp.ok("ask_principal", ask(json!({}))).await;
    let moment = seen(&ada, &asked).await;
    resolve(&ada, &moment, dialogue("Why now?")).await.is(200);
    let about = json!({ "moment_id": asked["moment_id"], "wait_s": 20 });
    let began = Instant::now();
    let now = fits(&mcp, "check_decision", about.clone()).await;
    assert_eq!((&now["state"], began.elapsed() < Duration::from_secs(10)), (&json!("deliberating"), true));
    let reply = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let path = format!("{}/words", at(&moment));
        ada.post(&path, json!({ "text": "I mean it." })).await.is(200)
    };
    let waits = fits(&mcp, "check_decision", with(about, json!({ "seen": now["version"] })));
    let (heard, _) = join(waits, reply).await;
    assert_eq!(heard["words"][0]["text"], "I mean it.", "{heard}");
    assert!(heard["version"].as_i64() > now["version"].as_i64(), "{heard}");
    world.end().await;
}

#[tokio::test]
async fn a_key_stands_for_what_it_was_used_for() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    world.human("human.ben").await;
    let mcp = Mcp::new(&agent, Era::Stateless);
    let to = |about: Value| with(json!({ "text": "The findings differ.", "idempotency_key": "k1" }), about);
    let first = mcp.ok("ask_principal", ask(json!({}))).await;
    let veto = resolve(&ada, &seen(&ada, &first).await, dialogue("Why now?")).await.is(200);
    let other =
        mcp.ok("post_deliberation", json!({ "principal": "human.ben", "text": "I cannot tell." })).await;
    // With another moment or in the other form it is no retry; otherwise that text would be lost.
    let said = to(json!({ "moment_id": veto["id"] }));
    let once = mcp.ok("post_deliberation", said.clone()).await;
    assert_eq!(mcp.ok("post_deliberation", said).await, once);
    for about in [json!({ "moment_id": other["moment_id"] }), json!({ "principal": "human.ada" })] {
        mcp.refused("post_deliberation", to(about), "idempotency_mismatch").await;
    }
    let to = |about: Value| with(json!({ "text": "I cannot tell.", "idempotency_key": "k2" }), about);
    let begun = mcp.ok("post_deliberation", to(json!({ "principal": "human.ben" }))).await;
    assert_eq!(mcp.ok("post_deliberation", to(json!({ "principal": "human.ben" }))).await, begun);
    for about in [json!({ "principal": "human.ada" }), json!({ "moment_id": begun["moment_id"] })] {
        mcp.refused("post_deliberation", to(about), "idempotency_mismatch").await;
    }
    // The waiting time is not part of the question.
    let waits =
        |seconds: u32| ask(json!({ "principal": "human.ben", "idempotency_key": "k3", "wait_s": seconds }));
    let asked = mcp.ok("ask_principal", waits(0)).await;
    assert_eq!(mcp.ok("ask_principal", waits(1)).await["moment_id"], asked["moment_id"]);
    let changed = with(waits(0), json!({ "offer": "Nothing more." }));
    mcp.refused("ask_principal", changed, "idempotency_mismatch").await;
    world.end().await;
}

#[tokio::test]
async fn a_malformed_question_says_what_is_wrong_with_it() {
    let world = World::start().await;
    let agent = world.agent("agent.a").await;
    world.human("human.ada").await;
    let mcp = Mcp::new(&agent, Era::Stateless);
    let mut bad = ask(json!({}));
    bad["question"]["options"].as_array_mut().unwrap().truncate(1);
    bad.as_object_mut().unwrap().remove("offer");
    let text = mcp.refused("ask_principal", bad, "invalid_moment").await;
    assert!(text.contains("offer") && text.contains("options"), "{text}");
    let hedged = ask(json!({ "synopsis": "It depends, could go either way." }));
    let asked = fits(&mcp, "ask_principal", hedged.clone()).await;
    assert!(
        asked["lints"].as_array().unwrap().iter().any(|lint| lint["code"] == "synopsis.hedge_phrase"),
        "{asked}"
    );
    let to_agent = ask(json!({ "principal": "agent.a" }));
    let result = mcp.call("ask_principal", to_agent).await;
    assert_eq!(result["isError"], true, "{result}");
    world.end().await;
}

#[tokio::test]
async fn a_host_that_opens_pages_is_sent_to_the_inbox() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let mcp = Mcp::new(&agent, Era::Stateless);
    let send = async |mcp: &Mcp, params: Value, opens: Value| {
        let mut all = meta("2026-07-28");
        all["io.modelcontextprotocol/clientCapabilities"] = opens;
        let http = mcp.http.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tools/call");
        let params = with(params, json!({ "name": "ask_principal", "_meta": all }));
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let reply =
            http.with("mcp-name", "ask_principal").send("POST", "//mcp", Some(body.to_string())).await;
        reply.is(200)["result"].clone()
    };
    let pages = json!({ "elicitation": { "url": {} } });
    let arguments = ask(json!({ "wait_s": 1 }));
    let first = send(&mcp, json!({ "arguments": arguments }), pages.clone()).await;
    assert_eq!(first["resultType"], "input_required", "{first}");
    let page = &first["inputRequests"]["decision"];
    assert_eq!((&page["method"], &page["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
    let url = page["params"]["url"].as_str().unwrap();
    let id = url.rsplit('/').next().unwrap().to_owned();
    assert_eq!(url, format!("http://{}/inbox/{id}", world.address));
    // Opening the page is no answer.
    let state = first["requestState"].clone();
    let opened = json!({ "decision": { "action": "accept" } });
    let back = json!({ "arguments": arguments, "requestState": state, "inputResponses": opened });
    let still = send(&mcp, back.clone(), pages.clone()).await;
    assert_eq!(
        (&still["structuredContent"]["moment_id"], &still["structuredContent"]["state"]),
        (&json!(id), &json!("open"))
    );
    resolve(&ada, &seen(&ada, &json!({ "moment_id": id })).await, option(0)).await.is(200);
    let done = send(&mcp, back.clone(), pages.clone()).await;
    assert_eq!(done["structuredContent"]["resolution"]["label"], "Ship now");
    assert_eq!(
        (done.get("binding_moment"), &done["structuredContent"]["binding_moment"]),
        (None, &Value::Null)
    );
    // The state is valid for its agent only, unchanged, and for an hour.
    let other = Mcp::new(&world.agent("agent.b").await, Era::Stateless);
    let mut forged = back.clone();
    forged["requestState"] = json!(format!("{}x", state.as_str().unwrap()));
    for (mcp, params) in [(&other, &back), (&mcp, &forged)] {
        let refused = send(mcp, params.clone(), pages.clone()).await;
        assert_eq!(refused["_meta"]["entente/problem"]["code"], "invalid_request", "{refused}");
    }
    world.clock.advance(3_600);
    let late = send(&mcp, back, pages.clone()).await;
    assert_eq!(late["isError"], true);
    // A host that does not open pages, or does not wait, gets the result at once; a form is never sent.
    for (wait, opens) in [(1, json!({})), (0, pages), (1, json!({ "elicitation": { "form": {} } }))] {
        let more = ask(json!({ "wait_s": wait, "expires_in_s": 600 }));
        let plain = send(&mcp, json!({ "arguments": more }), opens).await;
        assert_eq!(plain["resultType"], "complete", "{plain}");
        let taken = json!({ "moment_id": plain["structuredContent"]["moment_id"] });
        mcp.ok("withdraw_decision", taken).await;
    }
    world.end().await;
}

#[tokio::test]
async fn nobody_decides_through_this_door() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let asked = Mcp::new(&agent, Era::Stateless).ok("ask_principal", ask(json!({}))).await;
    // Not even the person: no tool can give the answer.
    let mut done = 0;
    // The agent is last, because it may withdraw the question.
    for client in [&ada, &world.any(), &world.any().acting_as("human.ada"), &world.admin().await, &agent] {
        let mcp = Mcp::new(client, Era::Stateless);
        for tool in listed(&mcp).await {
            let name = tool["name"].as_str().unwrap();
            let mut all = json!({
                "moment_id": asked["moment_id"], "digest": asked["digest"], "envelope_digest": asked["digest"],
                "resolution": option(0), "option_idx": 0, "answer": "yes", "text": "yes", "reason": "yes", "ack": true,
                "timeout_s": 0, "wait_s": 0,
            });
            let open = mcp.call(name, all.clone()).await;
            assert_eq!(open["isError"], true, "{name} takes what it does not know");
            // With only the arguments that the tool accepts.
            let known = tool["inputSchema"]["properties"].as_object().unwrap();
            all.as_object_mut().unwrap().retain(|argument, _| known.contains_key(argument));
            done += usize::from(mcp.call(name, all).await["isError"] == false);
            let now = seen(&ada, &asked).await;
            assert_eq!((&now["resolution"], now["state"] == "resolved"), (&Value::Null, false), "{name}");
        }
    }
    assert!(done > 10, "most tools refused what they were called with");
    assert_eq!(
        seen(&ada, &asked).await["state"],
        "withdrawn",
        "the agent's own tool was called as it wants to be"
    );
    world.end().await;
}
