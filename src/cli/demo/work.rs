//! Scenario of shared work: a lease on a part of the state, dependent tasks, and a webhook to an outside
//! program.

use entente_domain::webhooks::signing::Secret;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{PATIENCE, Stage, hold, refused, say, text};
use crate::cli::{Done, Failure};

/// Largest webhook request in bytes that the demo's receiver accepts.
const REQUEST_BYTES: usize = 64 * 1024;

impl Stage {
    /// The holder of a lease on a part of the state is the only one to change it.
    pub(super) async fn lease(&self) -> Done {
        say(
            "\n7. agent.researcher takes a lease on a part of the state: nobody else changes that part meanwhile",
        )?;
        let intent = format!("/intents/{}", self.intent);
        let lease = json!({ "scope": "summary", "duration_seconds": 60 });
        let lease = self.researcher.post(&format!("{intent}/leases"), &lease).await?;
        say(&format!(
            "  lease {} on `summary`, fencing token {}",
            text(&lease, "id")?,
            lease["fencing_token"]
        ))?;
        let state = format!("{intent}/state");
        let patch = |who: &str| json!({ "patches": [{ "op": "set", "path": "summary/by", "value": who }] });
        say("  agent.data writes there")?;
        let others = self.data.post_versioned(&intent, &state, &patch("agent.data"), None).await;
        refused(others, "lease_held")?;
        let own = self.researcher.post_versioned(&intent, &state, &patch("agent.researcher"), None).await?;
        say(&format!("  agent.researcher writes there: {}", own["state"]))?;
        self.researcher.delete(&format!("{intent}/leases/{}", text(&lease, "id")?)).await?;
        Ok(())
    }

    /// A task depends on another one, and completing that one closes its channel.
    pub(super) async fn tasks(&mut self) -> Done {
        say("\n8. Two tasks, of which the second waits for the first; a channel that belongs to the first")?;
        let tasks = format!("/intents/{}/tasks", self.intent);
        let first = self.researcher.post(&tasks, &json!({ "name": "read the dataset" })).await?;
        let first = text(&first, "id")?.to_owned();
        let second = json!({ "name": "write the summary", "depends_on": [first] });
        let second = text(&self.researcher.post(&tasks, &second).await?, "id")?.to_owned();
        let channel = json!({ "name": "reading", "task_id": first });
        let channel = self.researcher.post(&format!("/intents/{}/channels", self.intent), &channel).await?;
        let claimed = self.data.post(&format!("/tasks/{first}/claim"), &json!({})).await?;
        say(&format!("  agent.data has {first}, claim {}", claimed["claim_token"]))?;
        refused(
            self.researcher.post(&format!("/tasks/{second}/claim"), &json!({})).await,
            "invalid_transition",
        )?;
        let output = json!({ "output": { "rows": 48_211 } });
        self.data.post(&format!("/tasks/{first}/complete"), &output).await?;
        let next = self.researcher.get(&format!("/tasks/{second}"), &[]).await?;
        hold(next["status"] == "ready", "the second task is not ready")?;
        let channel = self.researcher.get(&format!("/channels/{}", text(&channel, "id")?), &[]).await?;
        hold(channel["status"] == "closed", "the channel of the task that is over is open")?;
        say("  the first is done: the second is ready, the channel of the first is closed")
    }

    /// A program without a connection to the server receives a webhook, and its signature proves the sender.
    pub(super) async fn webhook(&self) -> Done {
        say("\n9. A program outside is told by a webhook, and knows by the signature who tells")?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let ask = json!({ "webhook_url": url, "intent_id": self.intent, "event_types": ["state_patched"] });
        let made = self.researcher.post("/subscriptions", &ask).await?;
        let secret = Secret::parse(text(&made, "secret")?).ok_or("the secret is none")?;
        let intent = format!("/intents/{}", self.intent);
        let patch = json!({ "patches": [{ "op": "set", "path": "done", "value": true }] });
        self.researcher.post_versioned(&intent, &format!("{intent}/state"), &patch, None).await?;
        let (connection, _from) = timeout(PATIENCE, listener.accept()).await??;
        let request = timeout(PATIENCE, receive(connection)).await??;
        let (head, body) = request.split_once("\r\n\r\n").ok_or("no request came")?;
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
        };
        let (id, sent_at) = (header("webhook-id"), header("webhook-timestamp").parse()?);
        let expected = secret.sign(id, sent_at, body.as_bytes());
        let signed = header("webhook-signature").split(' ').any(|signature| signature == expected);
        hold(signed, "the signature is not the server's")?;
        say(&format!("  webhook-id {id}\n  webhook-signature {expected}, as it should be"))?;
        self.researcher
            .act(Method::DELETE, &format!("/subscriptions/{}", text(&made, "id")?), &json!({}))
            .await?;
        Ok(())
    }
}

/// Receives one request and answers it with 200.
async fn receive(mut connection: TcpStream) -> Result<String, Failure> {
    let mut request = Vec::new();
    loop {
        let came = connection.read_buf(&mut request).await?;
        let text = String::from_utf8_lossy(&request).into_owned();
        let length = |head: &str| {
            let line = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            line.unwrap_or(0_usize)
        };
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| body.len() >= length(head));
        if whole {
            connection
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await?;
            return Ok(text);
        }
        if came == 0 || request.len() > REQUEST_BYTES {
            return Err("the webhook's request broke off".into());
        }
    }
}
