//! Loops and storms among agents: lineages of messages, the policies of intents, and the steps that follow.
//!
//! `follower.rs` reads messages, and `works.rs` the work given to agents, behind their writers; nothing is added to a
//! send but one look at a copy in memory (`holds.rs`). `days.rs` counts the messages for charts.
//! `entente_domain::loops` decides what a loop is, and who may go on.

mod days;
pub mod follower;
pub mod holds;
mod rows;
mod works;

use std::collections::HashMap;

use chrono::TimeDelta;
use entente_domain::access::Level;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, LineageId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::loops::lineages::LineageState;
use entente_domain::loops::policy::{LoopPolicy, LoopPolicyAsk};
use entente_domain::loops::talk::Talk;
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use self::rows::{TalkChanges, Viewer};
use crate::access::membership;
use crate::access::membership::Membership;
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};
pub use days::{SentMessages, sent_messages};
pub use holds::LoopHolds;
pub use rows::ShownLineage;

/// Days that a lineage can be read after its last message.
const KEPT_DAYS: i64 = 30;

/// The policy of an intent: as it was set, and in force.
#[derive(Debug, Clone)]
pub struct IntentLoopPolicy {
    /// The members that were set.
    pub given: LoopPolicyAsk,
    /// The policy in force.
    pub effective: LoopPolicy,
}

/// Returns the policies of those of these intents that have set one.
async fn policies(
    ctx: &Ctx,
    conn: &mut PgConnection,
    intents: &[IntentId],
) -> Outcome<HashMap<IntentId, LoopPolicy>> {
    let found = rows::policies(conn, intents).await?;
    Ok(found.into_iter().map(|(intent, given)| (intent, given.over(&ctx.settings.loops))).collect())
}

/// Returns the policy of an intent.
///
/// # Errors
/// The caller may not read the intent.
pub async fn policy(ctx: &Ctx, caller: &Caller, intent: IntentId) -> Outcome<IntentLoopPolicy> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, intent, Level::Read, ctx.now()).await?;
    let given = rows::policies(&mut conn, &[intent]).await?.pop().map(|(_, given)| given).unwrap_or_default();
    Ok(IntentLoopPolicy { effective: given.clone().over(&ctx.settings.loops), given })
}

/// Sets the policy of an intent. One that is off forgets the intent's talk.
///
/// # Errors
/// The caller does not manage the intent; the policy is invalid.
pub async fn set_policy(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    given: LoopPolicyAsk,
) -> Outcome<IntentLoopPolicy> {
    caller.require(Scope::IntentsWrite)?;
    let effective = given.clone().over(&ctx.settings.loops);
    effective.check()?;
    let mut work = managed(ctx, caller, intent).await?;
    let now = work.now();
    let payload = json!({ "policy": given, "effective": effective });
    work.record(Draft::of(Kind::LoopPolicySet, &caller.agent, payload));
    let mut have_changed = false;
    if effective.enabled {
        // The follower forgets its position when no policy is on: it takes the same row.
        rows::lock_cursor(work.conn()).await?;
    } else if let Some(mut talk) = rows::lock_talks(work.conn(), &[intent]).await?.remove(&intent) {
        talk.close();
        have_changed = keep(&mut work, &caller.agent, talk, &effective).await?;
    }
    rows::set_policy(work.conn(), intent, &given, effective.enabled, caller.principal(), now).await?;
    work.commit().await?;
    if have_changed {
        ctx.loops.refresh(ctx).await?;
    }
    Ok(IntentLoopPolicy { given, effective })
}

/// Begins an operation of somebody who manages the intent.
async fn managed<'a>(ctx: &'a Ctx, caller: &'a Caller, intent: IntentId) -> Outcome<IntentTx<'a>> {
    let mut work = IntentTx::begin(ctx, caller, intent, None).await?;
    let now = work.now();
    let conn = work.reading();
    let membership = membership::require(conn, &caller.agent, intent, Level::Read, now).await?;
    if manages(caller, &membership) {
        return Ok(work);
    }
    membership.access.require(Level::Admin)?;
    let message = "Only the intent's creator, those with an admin entry on its access list, and operators decide about loops.";
    Err(Refusal::new(Code::Forbidden, message).into())
}

fn manages(caller: &Caller, membership: &Membership) -> bool {
    caller.has(Scope::Admin) || membership.access.manages()
}

/// Lists lineages of an intent, newest first. Those of closed channels are for their members and for whoever manages the
/// intent.
///
/// # Errors
/// The caller may not read the intent.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    before: Option<LineageId>,
    state: Option<LineageState>,
    limit: u32,
) -> Outcome<Vec<ShownLineage>> {
    read(ctx, caller, intent, None, before, state, limit).await
}

/// Returns a lineage.
///
/// # Errors
/// The caller may not see it.
pub async fn get(ctx: &Ctx, caller: &Caller, intent: IntentId, id: LineageId) -> Outcome<ShownLineage> {
    let found = read(ctx, caller, intent, Some(id), None, None, 1).await?;
    found.into_iter().next().ok_or_else(|| not_found("lineage"))
}

async fn read(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    one: Option<LineageId>,
    before: Option<LineageId>,
    state: Option<LineageState>,
    limit: u32,
) -> Outcome<Vec<ShownLineage>> {
    caller.require(Scope::IntentsRead)?;
    caller.require(Scope::ChannelsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let membership = membership::require(&mut conn, &caller.agent, intent, Level::Read, ctx.now()).await?;
    let viewer = Viewer { agent: &caller.agent, sees_all: manages(caller, &membership) };
    rows::lineages(&mut conn, intent, viewer, one, before, state, i64::from(limit)).await
}

/// Lets a lineage go on: its agents are free, and the messages until now are no evidence any more.
///
/// # Errors
/// The caller does not manage the intent; there is no such lineage, or nothing is done about it.
pub async fn release(ctx: &Ctx, caller: &Caller, intent: IntentId, id: LineageId) -> Outcome<ShownLineage> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = managed(ctx, caller, intent).await?;
    let viewer = Viewer { agent: &caller.agent, sees_all: true };
    let known = rows::lineages(work.reading(), intent, viewer, Some(id), None, None, 1).await?;
    let known = known.into_iter().next().ok_or_else(|| not_found("lineage"))?;
    let mut talk = rows::lock_talks(work.conn(), &[intent]).await?.remove(&intent).unwrap_or_default();
    if !talk.release(id) {
        // Done before, or over.
        return Ok(known);
    }
    let policy = policies(ctx, work.reading(), &[intent]).await?.remove(&intent);
    let policy = policy.unwrap_or_else(|| ctx.settings.loops.clone());
    keep(&mut work, &caller.agent, talk, &policy).await?;
    let shown = rows::lineages(work.conn(), intent, viewer, Some(id), None, None, 1).await?;
    work.commit().await?;
    ctx.loops.refresh(ctx).await?;
    shown.into_iter().next().ok_or_else(|| not_found("lineage"))
}

/// Writes a talk that somebody has changed, and records the lineages that end; returns whether the holds have changed.
async fn keep(work: &mut IntentTx<'_>, by: &str, mut talk: Talk, policy: &LoopPolicy) -> Outcome<bool> {
    for news in talk.take_news() {
        let (kind, payload) = follower::event(&news);
        work.record(Draft::of(kind, by, payload));
    }
    let mut kept = TalkChanges::default();
    follower::keep(&mut kept, work.intent_id(), talk, policy);
    rows::save(work.conn(), kept).await
}

/// Deletes up to `limit` lineages whose last message was long ago; returns their number.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let bound = ctx.now() - TimeDelta::days(KEPT_DAYS);
    rows::forget_lineages(&mut *ctx.pool.acquire().await?, bound, limit).await
}
