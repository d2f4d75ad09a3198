//! Incoming webhooks (RFC-0017 §4). The sender has no API key: it proves that it knows the trigger's secret, and the
//! trigger fires with its owner's rights.

use entente_domain::ids::{FiringId, IntentId, TriggerId};
use entente_domain::limits::{TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE, TRIGGER_FIRINGS_PER_MINUTE};
use entente_domain::openintent::triggers::hooks;
use entente_domain::openintent::triggers::hooks::HookRequest;
use entente_domain::openintent::triggers::{Cause, SkipReason, TriggerKind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use serde_json::{Map, Value};

use super::firings::{self, Firing, FiringStatus};
use super::rates::{self, Rates};
use super::tx::FiringTx;
use super::{rows, verify_of};
use crate::Ctx;

/// An incoming webhook.
pub struct Received<'a> {
    /// Returns a header's text, by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    /// Last segment of the URL.
    pub token: Option<&'a str>,
    /// The body as it was received.
    pub body: &'a [u8],
}

/// Result of an incoming webhook.
#[derive(Debug)]
pub struct Taken {
    /// The trigger.
    pub trigger_id: TriggerId,
    /// The firing.
    pub firing_id: FiringId,
    /// Status of the firing.
    pub status: FiringStatus,
    /// The intent that was created.
    pub intent_id: Option<IntentId>,
    /// Whether no intent was created because one of its type is open.
    pub deduplicated: bool,
}

/// Accepts a webhook; the same delivery is accepted once, and gets the same answer each time.
///
/// `brought` extracts the template's values from the webhook after it was verified.
///
/// # Errors
/// Fails if there is no such trigger, or if the sender is not verified: with the same error for both. Also fails if
/// it is disabled, if the rate is exceeded, or if no intent could be created, for a reason that the trigger's history
/// has.
pub async fn receive<E>(
    ctx: &Ctx,
    id: Option<TriggerId>,
    received: Received<'_>,
    brought: impl FnOnce() -> Result<Map<String, Value>, E>,
) -> Outcome<Result<Taken, E>> {
    let Some(id) = id else { return Err(unverified().into()) };
    let mut conn = ctx.pool.acquire().await?;
    let stored = rows::find(&mut conn, id).await?;
    let principal = stored.as_ref().map(|stored| stored.trigger.principal_id.clone()).unwrap_or_default();
    let delivery = admitted(ctx, stored, &received).ok_or_else(unverified)?;
    let known = match &delivery {
        Some(key) => firings::for_cause(&mut conn, id, Cause::Webhook, key).await?,
        None => None,
    };
    if let Some(done) = known {
        return taken(&done).map(Ok);
    }
    let mut rates = Rates::load(&mut conn, &[id], &[&principal], ctx.now()).await?;
    if rates.take(id, &principal) != rates::Admission::Free {
        let message = format!(
            "A trigger takes {TRIGGER_FIRINGS_PER_MINUTE} webhooks a minute, and all of its owner's {TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE}. Send it again later."
        );
        let refusal = Refusal { retry_after_seconds: Some(60), ..Refusal::new(Code::RateLimited, message) };
        return Err(refusal.into());
    }
    drop(conn);
    let brought = match brought() {
        Ok(brought) => brought,
        Err(fault) => return Ok(Err(fault)),
    };
    let mut work = FiringTx::begin(ctx).await?;
    // Loaded again under the lock, because the secret may have changed.
    let stored = rows::find(&mut work.tx, id).await?;
    admitted(ctx, stored.clone(), &received).ok_or_else(unverified)?;
    let mut stored = stored.ok_or_else(unverified)?;
    let firing_id = FiringId::mint(work.system_log.now(), &*ctx.chance);
    let key = delivery.unwrap_or_else(|| firing_id.to_string());
    if let Some(done) = firings::for_cause(&mut work.tx, id, Cause::Webhook, &key).await? {
        return taken(&done).map(Ok);
    }
    if !stored.trigger.enabled {
        let message = "This trigger is switched off. Its owner can switch it on.";
        return Err(Refusal::new(Code::InvalidTransition, message).into());
    }
    let firing = Firing::new(firing_id, id, Cause::Webhook, key, work.system_log.now());
    let firing = work.pull(ctx, &mut stored, firing, &brought).await?;
    work.conclude(ctx).await?;
    taken(&firing).map(Ok)
}

/// Returns the delivery's own id, if it has one, of a verified sender.
#[expect(
    clippy::option_option,
    reason = "not admitted; admitted without an id of its own; admitted with one"
)]
fn admitted(ctx: &Ctx, stored: Option<rows::Stored>, received: &Received<'_>) -> Option<Option<String>> {
    let stored = stored.filter(|stored| stored.trigger.kind == TriggerKind::Webhook)?;
    let knock = HookRequest {
        header: &|name: &str| (received.header)(name),
        token: received.token,
        body: received.body,
        now: ctx.now(),
    };
    hooks::admitted(verify_of(&stored.trigger), &stored.secret?, knock)
}

/// Builds the refusal of an unverified sender, which discloses neither the trigger's existence nor the fault.
fn unverified() -> Refusal {
    Refusal::new(
        Code::Unauthenticated,
        "Nothing here takes this webhook. Check its URL, its signature over the body as it is sent, and the sender's clock.",
    )
}

fn taken(firing: &Firing) -> Outcome<Taken> {
    if firing.status == FiringStatus::Failed {
        let message =
            "The webhook was taken in and no intent could be made of it. The trigger's history says why.";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let words = [SkipReason::Deduplicated, SkipReason::QueueFull].map(SkipReason::as_str);
    Ok(Taken {
        trigger_id: firing.trigger_id,
        firing_id: firing.id,
        status: firing.status,
        intent_id: firing.intent_id,
        deduplicated: firing.reason.as_deref().is_some_and(|reason| words.contains(&reason)),
    })
}
