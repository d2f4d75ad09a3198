//! Bridges between envelopes, jobs and messages, set up by explicit configuration. The domain rules are
//! `entente_domain::bridges`; the rows are in `envelope_bridges/rows.rs`. `envelope_bridges/carrying.rs` runs the bridges;
//! `jobs.rs`, `answers.rs`, `mirrors.rs` and `exports.rs` beside it convert between the formats.
//!
//! A bridge acts with the permissions of the key that set it up, and pauses when that key ends. It carries
//! each item once: the result's id or key is derived from the item, and `aee_bridged` records it. No bridge
//! carries the output of another, except that a mirror shows the reports of jobs, and nothing carries the messages
//! of a mirror: loops are impossible.

mod answers;
mod carrying;
mod exports;
mod finds;
mod jobs;
mod mirrors;
pub mod rows;
mod run;

use std::mem::discriminant;

use entente_aee::mailboxes;
use entente_domain::access::Level;
use entente_domain::bridges::{self as domain, Bridge, Export, Jobs, Mirror};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::channels::access::visit;
use entente_kernel::log::order;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde_json::json;
use sqlx::PgConnection;

pub use self::carrying::{forget, step};
use self::rows::BridgeSource;
use crate::Ctx;

/// Maximum number of bridges, because each is polled several times a second.
const BRIDGES: usize = 100;

/// A stored bridge.
#[derive(Debug, Clone)]
pub struct BridgeRecord {
    /// The bridge's name.
    pub name: String,
    /// The configuration.
    pub bridge: Bridge,
    /// The principal of the key that it acts with.
    pub created_by: String,
    /// When it was set up.
    pub created_at: Timestamp,
    /// The key that it acts with.
    pub key_id: KeyId,
    /// The agent that it acts as.
    pub agent: String,
    /// Its position in the source: the number in the mailbox or the channel; for a bus, in the order over all buses.
    pub place: i64,
    /// Why it is paused, if it is.
    pub problem: Option<String>,
    salt: Vec<u8>,
}

/// Lists all bridges.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<BridgeRecord>> {
    caller.require(Scope::Admin)?;
    rows::all(&mut *ctx.pool.acquire().await?).await
}

/// Creates or changes a bridge.
///
/// A new bridge starts at the current end of its source, and a jobs bridge at the first unacknowledged task.
/// A changed bridge with the same source keeps its position.
///
/// # Errors
/// The scope `admin` or one that the bridge needs is missing; the configuration is invalid; it names a
/// resource that is not the caller's.
pub async fn put(ctx: &Ctx, caller: &Caller, name: &str, bridge: Bridge) -> Outcome<BridgeRecord> {
    caller.require(Scope::Admin)?;
    domain::check_name(name)?;
    bridge.check()?;
    if source_of(&bridge).bus.is_some() {
        // Envelopes sent to the bus before are not new to the bridge.
        order::advance(&mut *ctx.pool.acquire().await?).await?;
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let now = work.now();
    let start = may(ctx, work.conn(), caller, &bridge, now).await?;
    let all = rows::all(work.conn()).await?;
    if all.len() >= BRIDGES && !all.iter().any(|one| one.name == name) {
        let message = format!("There are {BRIDGES} bridges, as many as there may be. Take one away first.");
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let before = all.into_iter().find(|one| one.name == name);
    let same = before.as_ref().filter(|before| source_of(&before.bridge) == source_of(&bridge));
    // This bridge would never finish the items that one of another kind still waits for.
    let goes_on = same.is_some_and(|before| discriminant(&before.bridge) == discriminant(&bridge));
    if !goes_on {
        rows::leave(work.conn(), name).await?;
    }
    let kept = BridgeRecord {
        name: name.to_owned(),
        created_by: caller.principal().to_owned(),
        created_at: before.as_ref().map_or(now, |before| before.created_at),
        key_id: caller.grant.key.id,
        agent: caller.agent.clone(),
        place: same.map_or(start, |same| same.place),
        salt: same.map_or_else(|| ctx.chance.bits().to_be_bytes().to_vec(), |same| same.salt.clone()),
        problem: None,
        bridge,
    };
    rows::put(work.conn(), &kept, &source_of(&kept.bridge)).await?;
    let payload = json!({ "name": kept.name, "bridge": kept.bridge, "principal_id": kept.created_by });
    work.record(Draft::of(Kind::BridgeSet, &kept.agent, payload));
    work.commit().await?;
    Ok(kept)
}

/// Removes a bridge; the items that it carried stay, and its jobs continue, but their results are not
/// delivered.
///
/// # Errors
/// The scope `admin` is missing; the bridge does not exist.
pub async fn remove(ctx: &Ctx, caller: &Caller, name: &str) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    if !rows::delete(work.conn(), name).await? {
        return Err(not_found("bridge"));
    }
    rows::leave(work.conn(), name).await?;
    work.record(Draft::of(Kind::BridgeRemoved, &caller.agent, json!({ "name": name })));
    work.commit().await
}

/// Returns the source of a bridge.
fn source_of(bridge: &Bridge) -> BridgeSource<'_> {
    match bridge {
        Bridge::Jobs(jobs) => BridgeSource { entity: Some(&jobs.entity), ..BridgeSource::default() },
        Bridge::Mirror(mirror) => {
            BridgeSource { entity: mirror.entity.as_deref(), bus: mirror.bus.as_deref(), channel: None }
        }
        Bridge::Export(export) => {
            BridgeSource { channel: Some(export.channel_id), ..BridgeSource::default() }
        }
    }
}

/// Requires that the caller may do everything the bridge does, and returns the starting position; checked at
/// setup and at each run.
async fn may(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    bridge: &Bridge,
    now: Timestamp,
) -> Outcome<i64> {
    match bridge {
        Bridge::Jobs(Jobs { entity, intent_id, .. }) => {
            for scope in [Scope::MailRead, Scope::MailWrite, Scope::JobsRead, Scope::JobsWrite] {
                caller.require(scope)?;
            }
            mailboxes::require(conn, caller, entity).await?;
            if let Some(intent) = intent_id {
                membership::require(conn, &caller.agent, *intent, Level::Write, now).await?;
            }
            let mailbox = mailboxes::find(conn, entity).await?;
            Ok(mailbox.map_or(0, |mailbox| mailbox.acked_seq))
        }
        Bridge::Mirror(Mirror { entity, channel_id, .. }) => {
            caller.require(Scope::MailRead)?;
            caller.require(Scope::ChannelsWrite)?;
            visit(conn, caller, *channel_id, now).await?;
            let Some(entity) = entity else { return rows::bus_end(conn).await };
            mailboxes::require(conn, caller, entity).await?;
            let mailbox = mailboxes::find(conn, entity).await?;
            Ok(mailbox.map_or(0, |mailbox| mailbox.last_seq))
        }
        Bridge::Export(Export { channel_id, to, .. }) => {
            caller.require(Scope::ChannelsRead)?;
            caller.require(Scope::MailWrite)?;
            let visit = visit(conn, caller, *channel_id, now).await?;
            visit.viewer(caller, ctx.settings.strict).require(&visit.channel)?;
            if *to == ctx.aee.state.settings.entity {
                let message =
                    "The server itself has nothing to do with what is said there. Send it to somebody else.";
                return Err(Refusal::field(Code::Unprocessable, "to", "server", message).into());
            }
            Ok(visit.channel.message_count)
        }
    }
}
