//! Webhooks in tests: fan-out and delivery as the background tasks do them, stepped by the test.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use entente_kernel::webhooks::{fanout, replays};
use serde_json::{Value, json};

use super::{Client, World};

impl World {
    /// Fans out everything that was committed and delivers all due webhooks.
    pub async fn hooks(&self) {
        self.hand_out().await;
        self.deliver().await;
    }

    /// Fans out everything that was committed. The server's own tasks may be doing the same, so this may take a moment.
    pub async fn hand_out(&self) {
        self.hooked.store(true, Ordering::Relaxed);
        let began = Instant::now();
        loop {
            while fanout::step(self.ctx()).await.unwrap() {}
            while replays::step(self.ctx()).await.unwrap() {}
            if self.is_handed_out().await {
                return;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "something is never handed out");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Delivers all due webhooks.
    pub async fn deliver(&self) {
        self.server.senders.webhooks.step().await.unwrap();
    }

    async fn is_handed_out(&self) -> bool {
        let text = "SELECT NOT EXISTS (SELECT 1 FROM webhook_replays) AND NOT EXISTS (
                SELECT 1 FROM webhook_cursor c, log_sequence(0) e
                WHERE (e.log_end, e.log_seq) > (c.global, c.global_seq))";
        sqlx::query_scalar(text).fetch_one(&self.ctx().pool).await.unwrap()
    }

    /// Asserts that no deliverable webhook is due at the end of a test that used webhooks.
    pub(super) async fn end_hooks(&self) {
        if !self.hooked.load(Ordering::Relaxed) {
            return;
        }
        self.hooks().await;
        let due: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_shifts WHERE due_at <= $1")
            .bind(self.ctx().now())
            .fetch_one(&self.ctx().pool)
            .await
            .unwrap();
        assert_eq!(due, 0, "deliveries are still due after everything was sent");
    }
}

/// Creates a subscription and returns it with its secret.
pub async fn subscribe(client: &Client, url: &str, more: Value) -> Value {
    let mut ask = json!({ "webhook_url": url });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/subscriptions", ask).await.is(201)
}
