//! Scenario of a loop: three agents thank each other in a circle, until the server ends it.

use entente_client::remote::Api;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{PATIENCE, PAUSE, Stage, hold, say, text};
use crate::cli::Done;

impl Stage {
    /// Three agents thank each other; the lineage of their messages is told, slowed and stopped, and one of them goes on
    /// when somebody has something new for it.
    pub(super) async fn thanks(&self) -> Done {
        say("\n17. Three agents thank each other in a circle, which ends by itself")?;
        let intent = self.root.post("/intents", &json!({ "title": "A polite evening" })).await?;
        let intent = text(&intent, "id")?;
        let acl = json!({ "default_policy": "open" });
        self.root.act(Method::PUT, &format!("/intents/{intent}/acl"), &acl).await?;
        let policy = json!({ "hops": 6, "repeats": 4, "patience": 2, "slow_seconds": 1 });
        self.root.act(Method::PUT, &format!("/intents/{intent}/loop-policy"), &policy).await?;
        let channel =
            self.root.post(&format!("/intents/{intent}/channels"), &json!({ "name": "thanks" })).await?;
        let path = format!("/channels/{}/messages", text(&channel, "id")?);
        let agents: [(&str, &Api); 3] = [
            ("agent.researcher", &self.researcher),
            ("agent.data", &self.data),
            ("agent.impostor", &self.impostor),
        ];
        let began = Instant::now();
        let (mut sent, mut slowed) = (0, 0);
        let refusal = loop {
            hold(began.elapsed() < PATIENCE, "the circle did not end")?;
            let ((from, client), (to, _)) = (agents[sent % 3], agents[(sent + 1) % 3]);
            let words = json!({ "text": format!("Thank you so much for message {sent}!") });
            match client.post(&path, &json!({ "sender": from, "to": to, "payload": words })).await {
                Ok(_) => sent += 1,
                Err(refusal) if refusal.code() == Some("loop_slowed") => slowed += 1,
                Err(refusal) if refusal.code() == Some("loop_stopped") => break refusal,
                Err(other) => return Err(other.into()),
            }
            sleep(PAUSE * 4).await;
        };
        say(&format!("  {sent} messages were sent, {slowed} had to wait, and then: {refusal}"))?;
        let found = self.root.get(&format!("/intents/{intent}/lineages"), &[]).await?;
        let one = &found["lineages"][0];
        say(&format!(
            "  lineage: {} hops, {} of the last 16 repeat an earlier one, {}",
            one["hops"], one["repeats"], one["state"]
        ))?;
        say("  somebody has something new for agent.data, which is free again")?;
        let me = self.root.get("/principals/me", &[]).await?;
        let new = json!({ "sender": me["agent_id"], "to": "agent.data", "payload": { "text": "Please count the rows." } });
        self.root.post(&path, &new).await?;
        let answer = json!({ "sender": "agent.data", "payload": { "rows": 48_211 } });
        let began = Instant::now();
        while let Err(refusal) = self.data.post(&path, &answer).await {
            hold(
                refusal.code() == Some("loop_stopped") && began.elapsed() < PATIENCE,
                "agent.data is not free",
            )?;
            sleep(PAUSE).await;
        }
        say(&format!("  it answers {}", answer["payload"]))
    }
}
