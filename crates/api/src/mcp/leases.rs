//! The tool for leases on parts of an intent's state (RFC-0003). Permissions of jobs are also called leases: `work.rs`.

use std::time::Duration;

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::limits::LEASE_SECONDS;
use entente_domain::openintent::leases::{DEFAULT_SECONDS, Lease, LeaseAsk, LeaseStatus};
use entente_http::body::id;
use entente_http::lease::LeaseBody;
use entente_http::presence::Presence;
use entente_openintent::leases;
use entente_openintent::leases::WAIT_SECONDS;
use serde::Deserialize;
use serde_json::json;

use super::shapes::{gives, list, may, must, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, needed, within};

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    let lease = gives(vec![
        must("id", text("The lease.")),
        must("scope", text("The part of the state.")),
        must("agent_id", text("Its holder.")),
        must("status", text("Its status.")),
        must("fencing_token", json!({ "type": "integer" })),
        must("expires_at", text("When it ends.")),
    ]);
    [Tool {
        name: "leases",
        title: "Leases on an intent's state",
        about: "Reserves a part of an intent's state: no other agent acquires or patches it meanwhile. `acquire` (scope), \
                `renew` and `release` (lease_id), `list`.",
        takes: takes(vec![
            must("action", word("The action.", &["acquire", "list", "renew", "release"])),
            must("intent_id", text("The intent, `intent_…`.")),
            may("scope", text("`acquire`: part of the state, such as `research`; `*` for all.")),
            may("lease_id", text("`renew`, `release`: the lease.")),
            may("duration_seconds", whole("Defaults to 300.", 1, i64::from(LEASE_SECONDS))),
            may(
                "status",
                word("`list`: defaults to `active`.", &["active", "released", "expired", "revoked"]),
            ),
            may("wait_s", whole("`acquire`: seconds to queue.", 0, i64::from(WAIT_SECONDS))),
            may("idempotency_key", retry_key("`acquire`: ")),
        ]),
        example: json!({ "action": "acquire", "intent_id": "intent_…", "scope": "research" }),
        gives: gives(vec![must("leases", list(lease, "The leases."))]),
        hints: Hints::changes(),
        names: &[],
        run: |call| Box::pin(run(call)),
    }]
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Acquire,
    List,
    Renew,
    Release,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Action,
    intent_id: String,
    scope: Option<String>,
    lease_id: Option<String>,
    duration_seconds: Option<i64>,
    status: Option<LeaseStatus>,
    wait_s: Option<u32>,
    idempotency_key: Option<String>,
}

impl Args {
    fn lease_id(&self) -> Result<LeaseId, entente_http::error::Problem> {
        id("lease", &needed("lease_id", self.lease_id.clone())?)
    }
}

async fn run(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let (ctx, intent_id) = (&call.ctx().openintent, id::<IntentId>("intent", &said.intent_id)?);
    let caller = call.caller.acting_as(call.speaker()?);
    let seconds = said.duration_seconds.unwrap_or(DEFAULT_SECONDS);
    let (done, found): (&str, Vec<Lease>) = match said.action {
        Action::Acquire => {
            let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
            let _permit = call.waits_for(patience)?;
            let once = call.once_besides(said.idempotency_key.as_deref(), "leases", "wait_s")?;
            let ask = LeaseAsk { scope: needed("scope", said.scope)?, duration_seconds: seconds };
            let (once, wait) = (once.as_ref(), Duration::from_secs(patience.into()));
            let over = call.presence.over();
            let lease = leases::acquire_in_turn(ctx, &caller, intent_id, ask, once, wait, over).await?;
            if patience > 0 && once.is_none() && call.presence.is_gone().await {
                leases::release(ctx, &caller, intent_id, lease.id).await?;
                return Err(Presence::refusal());
            }
            ("Acquired", vec![lease])
        }
        Action::Renew => {
            ("Renewed", vec![leases::renew(ctx, &caller, intent_id, said.lease_id()?, seconds).await?])
        }
        Action::Release => {
            ("Released", vec![leases::release(ctx, &caller, intent_id, said.lease_id()?).await?])
        }
        Action::List => {
            let status = said.status.unwrap_or(LeaseStatus::Active);
            ("Found", leases::list(ctx, &caller, intent_id, Some(status)).await?)
        }
    };
    let now = call.ctx().now();
    let leases: Vec<LeaseBody> =
        found.iter().map(|lease| LeaseBody::new(lease, now, Dialect::Standard)).collect();
    Answer::new(format!("{done} {} lease(s).", leases.len()), &json!({ "leases": leases }))
}
