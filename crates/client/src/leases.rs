//! `entente lease`: exclusive holds on parts of an intent.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::Done;
use super::remote::{Api, Failure, Remote, segment};

/// Time for which one request waits at the most.
const REQUEST: Duration = Duration::from_secs(25);

/// Leases: hold a part of an intent, so that no other agent changes it
#[derive(Debug, Args)]
pub(super) struct Leases {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Acquire a lease
    Acquire {
        /// The intent's id
        intent: String,
        /// A part of the intent's state, such as `research`; `*` for all of it
        scope: String,
        /// The lease's duration
        #[arg(long, default_value_t = 300, value_name = "SECONDS")]
        seconds: u32,
        /// How long to wait in the queue while the scope is held
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        wait: u64,
    },
    /// List who waits for leases on an intent, in their order
    Queue {
        /// The intent's id
        intent: String,
    },
    /// Renew a lease; the duration counts from now
    Renew {
        /// The intent's id
        intent: String,
        /// The lease's id
        lease: String,
        /// The lease's duration
        #[arg(long, default_value_t = 300, value_name = "SECONDS")]
        seconds: u32,
    },
    /// Release a lease; an admin of the intent may also revoke another agent's
    Release {
        /// The intent's id
        intent: String,
        /// The lease's id
        lease: String,
    },
    /// List the leases on an intent
    List {
        /// The intent's id
        intent: String,
        /// Status: `released`, `expired`, `revoked` or `all` [default: active leases]
        #[arg(long)]
        status: Option<String>,
    },
}

/// Acquires a lease, and asks again as long as the wait lasts: the server keeps the place in the queue meanwhile.
async fn acquire(api: &Api, path: &str, body: &Value, wait: Duration) -> Result<Value, Failure> {
    let until = Instant::now() + wait;
    loop {
        let seconds = until.saturating_duration_since(Instant::now()).min(REQUEST).as_secs();
        let asked = Instant::now();
        match api.post(&format!("{path}?wait={seconds}"), body).await {
            // A refusal before its time is final: the lease is the caller's own.
            Err(failure)
                if failure.code() == Some("lease_held")
                    && seconds > 0
                    && asked.elapsed().as_secs() >= seconds => {}
            done => return done,
        }
    }
}

impl Leases {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let all = |intent: &str| format!("/intents/{}/leases", segment(intent));
        let one = |intent: &str, lease: &str| format!("{}/{}", all(intent), segment(lease));
        let answer = match self.verb {
            Verb::Acquire { intent, scope, seconds, wait } => {
                let body = json!({ "scope": scope, "duration_seconds": seconds });
                acquire(&api, &all(&intent), &body, Duration::from_secs(wait)).await?
            }
            Verb::Queue { intent } => {
                let queue = api.get(&format!("{}/waiting", all(&intent)), &[]).await?;
                let shown = if self.remote.json { &queue } else { &queue["waiting"] };
                return self.remote.show(shown, &["agent_id", "scope", "since"]);
            }
            Verb::Renew { intent, lease, seconds } => {
                let body = json!({ "duration_seconds": seconds });
                api.act(Method::PATCH, &one(&intent, &lease), &body).await?
            }
            Verb::Release { intent, lease } => api.delete(&one(&intent, &lease)).await?,
            Verb::List { intent, status } => {
                let query: Vec<_> = status.into_iter().map(|status| ("status", status)).collect();
                api.get(&all(&intent), &query).await?
            }
        };
        let answer = match (answer.get("leases"), answer.get("lease")) {
            (Some(part), _) | (_, Some(part)) if !self.remote.json => part,
            _ => &answer,
        };
        self.remote.show(answer, &["id", "scope", "agent_id", "status", "fencing_token", "expires_at"])
    }
}
