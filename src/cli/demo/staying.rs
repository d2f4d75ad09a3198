//! `entente demo --stay`: after the story the server goes on. Two agents talk, so that the dashboard lives, and a question waits for
//! whoever watches.

use std::time::Duration;

use entente_client::moments::{news, path};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::decision::PERSON;
use super::{Stage, say, text};
use crate::cli::{Done, Failure};

/// Pause between two exchanges of the agents.
const PACE: Duration = Duration::from_secs(3);

impl Stage {
    /// Asks a question, prints a link to the dashboard, and goes on until it is dropped.
    pub(super) async fn stay(&self, url: &str) -> Done {
        let slots: Value = serde_json::from_str(entente_client::moments::EXAMPLE)?;
        let ask = json!({ "principal_id": PERSON, "binding_moment": slots, "intent_id": self.intent });
        let asked = self.researcher.post("/moments", &ask).await?;
        let link = json!({ "admin": true, "leads_to": "/dashboard" });
        let made = self.root.post(&format!("/people/{PERSON}/links"), &link).await?;
        say(&format!(
            "\nThe server stays. This link logs you in as {PERSON}, once, and leads to the dashboard:\n\n  {url}{}\n",
            text(&made, "path")?
        ))?;
        say(&format!(
            "A question of agent.researcher waits for you at {url}/inbox. The API is documented at {url}/docs.\nCtrl-C ends it."
        ))?;
        tokio::try_join!(self.hear(asked), self.talk()).map(|((), ())| ())
    }

    /// Waits for the person's answer, prints and acknowledges it.
    async fn hear(&self, mut moment: Value) -> Done {
        while ["open", "deliberating"].iter().any(|state| moment["state"] == *state) {
            moment = news(&self.researcher, &moment).await?;
        }
        say(&format!("\n{PERSON} has answered: {}", moment["resolution"]))?;
        self.researcher.post(&format!("{}/ack", path(text(&moment, "id")?)), &json!({})).await?;
        Ok(())
    }

    /// One agent asks the other for row after row.
    async fn talk(&self) -> Done {
        for row in 0_u64.. {
            for (agent, client) in [("agent.researcher", &self.researcher), ("agent.data", &self.data)] {
                client.post(&format!("/agents/{agent}/heartbeat"), &json!({})).await?;
            }
            let ask = json!({
                "sender": "agent.researcher", "to": "agent.data", "message_type": "request", "payload": { "row": row },
            });
            let asked = self.researcher.post(&self.path("/messages"), &ask).await?;
            let answer = json!({ "sender": "agent.data", "payload": { "row": row, "visits": row * 7 % 43 } });
            let reply = self.path(&format!("/messages/{}/reply", text(&asked, "id")?));
            self.data.post(&reply, &answer).await?;
            sleep(PACE).await;
        }
        Err(Failure::from("there are no more rows"))
    }
}
