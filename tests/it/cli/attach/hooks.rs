//! Hooks: each entry once, in pieces that fit, and a host that goes on whatever fails.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::join_all;

use super::{Host, Scene, goes_on, in_time, numbers, shown};
use entente_harness::cli::complaint;
use entente_harness::process::free_address;
use entente_harness::{ANY, json};

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_shown_once_and_marked_by_the_next_hook() {
    let scene = Scene::start("claude").await;
    let host = &scene.host;
    assert!(host.hook("s1", "SessionStart", json!({ "source": "startup" })).await.is_null());
    scene.say_all(1..=2).await;
    let answer = host.hook("s1", "UserPromptSubmit", json!({ "prompt": "Hi" })).await;
    assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "UserPromptSubmit");
    assert_eq!(numbers(shown(&answer)), [1, 2]);
    assert_eq!(scene.places().await, [("claude:s1".to_owned(), 0)]);
    // The host has gone on, so the model was shown it.
    assert!(host.hook("s1", "Stop", json!({ "stop_hook_active": false })).await.is_null());
    assert_eq!(scene.places().await, [("claude:s1".to_owned(), 2)]);
    scene.say_all(3..=3).await;
    let answer = host.hook("s1", "Stop", json!({ "stop_hook_active": false })).await;
    assert_eq!((answer["decision"].as_str(), numbers(shown(&answer))), (Some("block"), vec![3]));
    assert!(host.hook("s1", "Stop", json!({ "stop_hook_active": true })).await.is_null());
    // Another session goes on where this one ended.
    scene.say_all(4..=4).await;
    let answer = host.hook("s2", "SessionStart", json!({ "source": "startup" })).await;
    assert_eq!(numbers(shown(&answer)), [4]);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_host_is_answered_in_its_own_form() {
    let mut scene = Scene::start("claude").await;
    scene.host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    scene.host.variables = vec![("AI_AGENT", "claude-code_2-1-332_harness".to_owned())];
    scene.say_all(1..=1).await;
    let answer = scene.host.hook("s", "Stop", json!({ "stop_hook_active": false })).await;
    assert_eq!(
        (&answer["decision"], &answer["hookSpecificOutput"]["hookEventName"]),
        (&json!(null), &json!("Stop"))
    );
    scene.say_all(2..=2).await;
    let answer =
        scene.host.hook("s", "PostToolUse", json!({ "tool_name": "Bash", "tool_response": {} })).await;
    assert_eq!(
        (&answer["hookSpecificOutput"]["hookEventName"], numbers(shown(&answer))),
        (&json!("PostToolUse"), vec![2])
    );
    // The session of another host has a reader of its own, which begins where this one got to.
    let codex = Host { name: "codex", ..scene.host.clone() };
    codex.hook("s", "SessionStart", json!({ "source": "startup", "model": "m" })).await;
    scene.say_all(3..=3).await;
    let answer = codex.hook("s", "Stop", json!({ "stop_hook_active": false, "turn_id": "t" })).await;
    assert_eq!((&answer["decision"], numbers(shown(&answer)).last()), (&json!("block"), Some(&3)));
    // The user is told, and nothing is marked or shown.
    let answer = scene
        .host
        .hook("s", "Notification", json!({ "notification_type": "idle_prompt", "message": "m" }))
        .await;
    assert!(
        answer["systemMessage"].as_str().unwrap().contains("1 new in the inbox of agent.bob"),
        "{answer}"
    );
    let answer = scene.host.hook("s", "UserPromptSubmit", json!({ "prompt": "Hi" })).await;
    assert_eq!(numbers(shown(&answer)), [3]);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_that_died_was_shown_is_shown_again() {
    let scene = Scene::start("claude").await;
    let host = &scene.host;
    host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    scene.say_all(1..=1).await;
    assert_eq!(numbers(shown(&host.hook("s", "UserPromptSubmit", json!({})).await)), [1]);
    let answer = host.hook("s", "SessionStart", json!({ "source": "resume" })).await;
    assert_eq!(numbers(shown(&answer)), [1]);
    // A shorter context is no new process.
    assert!(host.hook("s", "SessionStart", json!({ "source": "compact" })).await.is_null());
    // A state that a crash left unreadable confirms nothing.
    scene.say_all(2..=2).await;
    assert_eq!(numbers(shown(&host.hook("s", "PostToolUse", json!({})).await)), [2]);
    for file in std::fs::read_dir(host.home.join(".local/state/entente/attach")).unwrap() {
        std::fs::write(file.unwrap().path(), "{\"reader\":").unwrap();
    }
    assert_eq!(numbers(shown(&host.hook("s", "PostToolUse", json!({})).await)), [2]);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_at_once_show_each_entry_once() {
    let scene = Scene::start("claude").await;
    scene.host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    scene.say_all(1..=300).await;
    let mut all = Vec::new();
    for _round in 0..3 {
        let hooks = (0..4).map(|_| scene.host.hook("s", "PostToolUse", json!({})));
        all.extend(join_all(hooks).await.iter().flat_map(|answer| numbers(shown(answer))));
    }
    all.sort_unstable();
    assert_eq!(all, (1..=300).collect::<Vec<u64>>());
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_inbox_comes_in_pieces_and_a_turn_ends() {
    let scene = Scene::start("claude").await;
    let host = &scene.host;
    host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    scene.say_all(1..=700).await;
    // One is longer than any text.
    let body = json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "x": "é".repeat(50_000) } });
    entente_harness::send(&scene.ada, &scene.channel, body).await;
    scene.say_all(701..=800).await;
    let mut all = Vec::new();
    let mut texts = String::new();
    let mut stops = 0;
    for turn in 0.. {
        assert!(turn < 20, "it does not end");
        let answer = host.hook("s", "UserPromptSubmit", json!({ "prompt_id": turn.to_string() })).await;
        let mut answers = vec![answer];
        for active in [false, true, true, true, true, true, true, true, true, true] {
            let event = json!({ "stop_hook_active": active, "prompt_id": turn.to_string() });
            answers.push(host.hook("s", "Stop", event).await);
            if answers.last().unwrap().is_null() {
                break;
            }
        }
        stops = stops.max(answers.iter().filter(|answer| answer["decision"] == "block").count());
        for text in answers.iter().map(shown) {
            assert!(text.len() < 10_000, "{}", text.len());
            all.extend(numbers(text));
            texts.push_str(text);
        }
        if answers[0].is_null() {
            break;
        }
    }
    // Claude Code ends a turn that was kept from ending eight times, and drops what is said then.
    assert_eq!(stops, 8);
    assert_eq!(all, (1..=800).collect::<Vec<u64>>());
    assert!(texts.contains("more up to place 801 follow") && texts.contains("(cut, 100008 bytes in all)"));
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_collected_interrupts_nobody() {
    let scene = Scene::start("claude").await;
    let host = &scene.host;
    host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    for n in 1..=5 {
        scene.say("broadcast", n).await;
    }
    scene.follow().await;
    for event in ["PostToolUse", "Stop", "Notification"] {
        assert!(host.hook("s", event, json!({})).await.is_null(), "{event}");
    }
    let answer = host.hook("s", "UserPromptSubmit", json!({})).await;
    assert!(shown(&answer).contains("Collected: 5, the newest of each source:\n- 5 × #5 digest"), "{answer}");
    assert!(host.hook("s", "UserPromptSubmit", json!({})).await.is_null());
    // It comes along with what does.
    scene.say("broadcast", 6).await;
    scene.say("request", 7).await;
    scene.follow().await;
    let answer = host.hook("s", "Stop", json!({ "stop_hook_active": false })).await;
    assert_eq!(numbers(shown(&answer)), [7, 6]);
    // The agents below the session's own are shown nothing.
    scene.say("request", 8).await;
    scene.follow().await;
    assert!(
        host.hook("s", "PostToolUse", json!({ "agent_id": "a1", "agent_type": "Explore" })).await.is_null()
    );
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_goes_on_whatever_fails() {
    let scene = Scene::start("claude").await;
    let host = &scene.host;
    let event = json!({ "session_id": "s", "hook_event_name": "UserPromptSubmit" }).to_string();
    for (input, reason) in [
        ("", "no event of a hook"),
        ("garbage", "no event of a hook"),
        ("[1, 2]", "no event of a hook"),
        (r#"{"hook_event_name":"Stop"}"#, "session_id"),
        (r#"{"session_id":7,"hook_event_name":"Stop"}"#, "no event of a hook"),
    ] {
        goes_on(&host.raw(input).await, reason);
    }
    // Events of other hosts, and later ones of these.
    assert!(host.hook("s", "beforeShellExecution", json!({ "conversation_id": "c" })).await.is_null());
    let began = Instant::now();
    let away = Host { url: format!("http://{}", free_address()), ..host.clone() };
    goes_on(&away.raw(&event).await, "Is the server running?");
    // A server that accepts and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = Host { url: format!("http://{}", silent.local_addr().unwrap()), ..host.clone() };
    in_time(began);
    let began = Instant::now();
    goes_on(&silent.raw(&event).await, "within 5 s");
    in_time(began);
    goes_on(&Host { key: "wrong".to_owned(), ..host.clone() }.raw(&event).await, "401");
    goes_on(&Host { key: String::new(), ..host.clone() }.raw(&event).await, "ENTENTE_API_KEY");
    let other = Host { arguments: vec!["--as", "agent.ada"], ..host.clone() };
    goes_on(&other.raw(&event).await, "may_not_act_as");
    let homeless = Host { variables: vec![("HOME", String::new())], ..host.clone() };
    goes_on(&homeless.raw(&event).await, "XDG_STATE_HOME");
    let nobody = Host { home: "/dev/null".into(), ..host.clone() };
    goes_on(&nobody.raw(&event).await, "Not a directory");
    // A key that may act as anybody may act as a name that was mistyped.
    let event = event.replace("UserPromptSubmit", "SessionStart");
    let any = Host { key: ANY.to_owned(), arguments: vec!["--as", "agent.bobby"], ..host.clone() };
    goes_on(&any.raw(&event).await, "entente agent register agent.bobby");
    scene.bob.post("/agents/register", json!({ "agent_id": "agent.bob" })).await.ok();
    let bob = Host { arguments: vec!["--as", "agent.bob"], ..any };
    assert!(complaint(&bob.raw(&event).await).is_empty());
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_epoch_is_over_is_shown_nothing() {
    let scene = Scene::start("claude").await;
    let host = &scene.host;
    host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    let opened = scene.bob.post("/agents/agent.bob/sessions", json!({ "strict": true })).await.is(201);
    assert_eq!(opened["epoch"], 1);
    scene.say_all(1..=1).await;
    let event = json!({ "session_id": "s", "hook_event_name": "UserPromptSubmit" }).to_string();
    // A strict agent names its epoch.
    goes_on(&host.raw(&event).await, "epoch");
    let first = Host { variables: vec![("ENTENTE_EPOCH", "1".to_owned())], ..host.clone() };
    scene.bob.post("/agents/agent.bob/sessions", json!({})).await.is(201);
    for _again in 0..2 {
        goes_on(&first.raw(&event).await, "epoch");
    }
    assert_eq!(scene.places().await, [("claude:s".to_owned(), 0)]);
    let second = Host { variables: vec![("ENTENTE_EPOCH", "2".to_owned())], ..host.clone() };
    assert_eq!(numbers(shown(&second.hook("s", "UserPromptSubmit", json!({})).await)), [1]);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_sessions_than_readers_take_over_the_oldest() {
    let scene = Scene::start("codex").await;
    scene.host.hook("s0", "SessionStart", json!({ "source": "startup" })).await;
    for n in 1..50 {
        scene.world.clock.advance(7_200);
        scene.bob.get(&format!("/agents/agent.bob/inbox?reader=codex:s{n}")).await.ok();
    }
    scene.say_all(1..=2).await;
    scene.bob.post("/agents/agent.bob/inbox/seen", json!({ "reader": "codex:s49", "place": 1 })).await.ok();
    let answer = scene.host.hook("new session / é", "UserPromptSubmit", json!({})).await;
    // It begins where a new reader would.
    assert_eq!(numbers(shown(&answer)), [2]);
    assert!(scene.host.hook("new session / é", "Stop", json!({})).await.is_null());
    let names: BTreeSet<String> = scene.places().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!((names.len(), names.contains("codex:s0")), (50, true));
    let of_oldest = scene.places().await.into_iter().find(|(name, _)| name == "codex:s0");
    assert_eq!(of_oldest.unwrap().1, 2);
    scene.world.end().await;
}
