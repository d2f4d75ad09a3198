//! Webhook receivers while the server is killed: each gets everything at least once, with its stable id and a valid
//! signature.

use std::collections::HashSet;

use super::PATIENCE;
use entente_harness::{Act, Client, Receiver, json, subscribe};

/// A receiver with its secret.
pub struct Hook {
    receiver: Receiver,
    secret: String,
}

/// Subscribes two receivers: one that accepts everything, one that fails now and then.
pub async fn open(client: &Client, intent: &str) -> Vec<Hook> {
    let mut hooks = Vec::new();
    for flaky in [false, true] {
        let receiver = Receiver::start().await;
        if flaky {
            receiver.does([Act::Say(200, ""), Act::Say(500, ""), Act::Close, Act::Say(200, "")]);
        }
        let more = json!({ "intent_id": intent, "event_types": ["channel_message"] });
        let made = subscribe(client, &receiver.url(), more).await;
        hooks.push(Hook { receiver, secret: made["secret"].as_str().unwrap().to_owned() });
    }
    hooks
}

/// Asserts that each receiver got every message.
pub async fn check(hooks: Vec<Hook>, listed: &[String]) {
    for hook in hooks {
        let began = std::time::Instant::now();
        let missing = loop {
            let ids: HashSet<String> = hook.receiver.ids().into_iter().collect();
            let missing = listed.iter().filter(|id| !ids.contains(*id)).count();
            if missing == 0 || began.elapsed() > PATIENCE * 3 {
                break missing;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        assert_eq!(missing, 0, "messages that a receiver never got, of {}", listed.len());
        let known: HashSet<&String> = listed.iter().collect();
        let got = hook.receiver.got();
        for one in &got {
            assert!(known.contains(&one.id().to_owned()), "{} is no message's id", one.id());
            assert_eq!(one.body()["data"]["id"], one.id());
            assert!(one.signed_by(&hook.secret), "a wrong signature");
        }
        println!("a receiver got {} deliveries of {} messages", got.len(), listed.len());
    }
}
