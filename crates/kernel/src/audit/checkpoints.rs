//! Checkpoints (RFC-0019): the server's signed statements about a log, inclusion proofs, and anchors by
//! outside witnesses. Table `checkpoints` (`checkpoints/rows.rs`), written under the lock of the system log,
//! which records each checkpoint.

mod rows;

use chrono::TimeDelta;
use entente_domain::access::Level;
use entente_domain::canonical::{self, Digest};
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{CheckpointId, EventId, IntentId};
use entente_domain::log::checkpoints::{Anchor, Checkpoint, CheckpointScope, all_leaves};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::log::merkle::{Step, Tree};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use crate::access::membership;
use crate::audit::chains;
pub(super) use crate::audit::checkpoints::rows::spend;
use crate::audit::checkpoints::rows::{Due, Row, insert, leaves, save_anchor};
pub(crate) use crate::audit::checkpoints::rows::{bare, load, of_log};
use crate::identity::server_keys;
use crate::intents;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, not_found, run_blocking};

/// Takes a checkpoint of an intent's log or of the system log (the nil intent), unless the log is damaged.
///
/// # Errors
/// The scope `admin` is missing; the intent does not exist; its log is empty or damaged.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    log: IntentId,
    once: Option<&Idempotency>,
) -> Outcome<Checkpoint> {
    caller.require(Scope::Admin)?;
    if log != IntentId::SYSTEM {
        let mut connection = ctx.pool.acquire().await?;
        intents::load(&mut connection, log).await?.ok_or_else(|| not_found("intent"))?;
    }
    let tree = whole(ctx, log).await?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let made = take(ctx, &mut work, log, &tree, caller.principal()).await?;
    work.finish(made).await
}

/// Time after which a log that has grown gets a checkpoint while events have a retention: only an event under a
/// checkpoint may be deleted.
const FOR_RETENTION: TimeDelta = TimeDelta::days(1);

/// Takes the checkpoints that are due: of logs that have grown by `every` events since their last one, and with a
/// retention of events of all that have grown since a day ago. It reads the end of every log, and so runs rarely.
///
/// # Errors
/// A database error.
pub async fn take_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let kept = ctx.settings.event_retention;
    let due = Due {
        every: ctx.settings.checkpoint_every,
        before: kept.and_then(|_| ctx.now().checked_sub_signed(FOR_RETENTION)),
    };
    if due.every.is_none() && due.before.is_none() {
        return Ok(0);
    }
    let logs = rows::due(&mut *ctx.pool.acquire().await?, due, None, limit).await?;
    let mut taken = 0;
    for log in logs {
        let tree = match whole(ctx, log).await {
            Ok(tree) => tree,
            Err(why @ (AppError::Refused(_) | AppError::Inconsistent(_))) => {
                tracing::error!(%log, error = %why, "no checkpoint is taken of a log that is not whole");
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
        if rows::due(work.conn(), due, Some(log), 1).await?.is_empty() {
            // Another server already took it.
            continue;
        }
        take(ctx, &mut work, log, &tree, SYSTEM).await?;
        work.commit().await?;
        taken += 1;
    }
    Ok(taken)
}

/// Returns a log's leaves up to its current end, if the log is intact.
///
/// Reads without a lock: logs are append-only, so a checkpoint stays true however late it is signed, and a
/// long log blocks nobody.
async fn whole(ctx: &Ctx, log: IntentId) -> Outcome<Tree> {
    let found = chains::of_log(ctx, log).await?;
    let Some(first) = found.breaks.first() else {
        return run_blocking(move || Tree::new(all_leaves(&found.deleted, &found.events))).await;
    };
    let message = format!(
        "The log is not whole, and is not vouched for: event {}: {}. GET …/events/verify (or /audit/verify) shows all.",
        first.sequence, first.reason
    );
    Err(crate::refuse(Code::Unprocessable, message))
}

async fn take(
    ctx: &Ctx,
    work: &mut IntentTx<'_>,
    of: IntentId,
    tree: &Tree,
    actor: &str,
) -> Outcome<Checkpoint> {
    let now = work.now();
    let id = CheckpointId::mint(now, &*ctx.chance);
    let made = Checkpoint::take(of, tree, id, now, &ctx.server_keys.signer)?;
    insert(work.conn(), &made).await?;
    let payload = json!({
        "checkpoint_id": made.checkpoint_id, "intent_id": made.intent_id, "scope": made.scope,
        "merkle_root": made.merkle_root, "event_count": made.event_count, "last_sequence": made.last_sequence,
        "signed_by": made.signed_by, "signature": made.signature,
    });
    work.record(Draft::of(Kind::CheckpointCreated, actor, payload));
    Ok(made)
}

/// Filters for listing checkpoints.
#[derive(Debug, Clone, Default)]
pub struct CheckpointFilter {
    /// Only checkpoints of this intent's log.
    pub intent_id: Option<IntentId>,
    /// Only checkpoints of this kind of log.
    pub scope: Option<CheckpointScope>,
    /// Only checkpoints older than this one: the cursor.
    pub before: Option<CheckpointId>,
    /// Maximum number of checkpoints.
    pub limit: u32,
}

/// Lists the checkpoints of intents that the caller may read, newest first; admins see all.
///
/// # Errors
/// The scope is missing; the intent does not exist or is not readable.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &CheckpointFilter) -> Outcome<Vec<Checkpoint>> {
    require_reader(caller)?;
    let mut connection = ctx.pool.acquire().await?;
    let (now, every) = (ctx.now(), caller.has(Scope::Admin));
    if let Some(intent) = filter.intent_id.filter(|_| !every) {
        membership::require(&mut connection, &caller.agent, intent, Level::Read, now).await?;
    }
    let rows = sqlx::query_as!(
        Row,
        "-- checkpoints::list
         SELECT k.id, k.intent_id, k.merkle_root, k.event_count, k.first_sequence, k.last_sequence, k.created_at,
                k.signed_by, k.signature, k.anchor
         FROM checkpoints k LEFT JOIN intents i ON i.id = k.intent_id LEFT JOIN acls a ON a.intent_id = k.intent_id
         WHERE ($1::uuid IS NULL OR k.intent_id = $1)
           AND ($2::boolean IS NULL OR (i.id IS NULL) = $2)
           AND ($3::uuid IS NULL OR k.id < $3)
           AND ($4 OR i.id IS NOT NULL AND (
                a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $5 OR EXISTS (
                SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $5
                AND (e.expires_at IS NULL OR e.expires_at > $6))))
         ORDER BY k.id DESC LIMIT $7",
        filter.intent_id.map(IntentId::uuid),
        filter.scope.map(|scope| scope == CheckpointScope::Server),
        filter.before.map(CheckpointId::uuid),
        every,
        caller.agent,
        now,
        i64::from(filter.limit)
    )
    .fetch_all(&mut *connection)
    .await?;
    rows.into_iter().map(Checkpoint::try_from).collect()
}

/// Requires that the key may read logs at all.
fn require_reader(caller: &Caller) -> Result<(), Refusal> {
    if caller.has(Scope::Admin) { Ok(()) } else { caller.require(Scope::IntentsRead) }
}

/// Returns a checkpoint.
///
/// # Errors
/// The checkpoint does not exist, or is not visible to the caller.
pub async fn get(ctx: &Ctx, caller: &Caller, id: CheckpointId) -> Outcome<Checkpoint> {
    require_reader(caller)?;
    let mut connection = ctx.pool.acquire().await?;
    visible(&mut connection, caller, id, ctx.now()).await
}

async fn visible(
    conn: &mut PgConnection,
    caller: &Caller,
    id: CheckpointId,
    now: Timestamp,
) -> Outcome<Checkpoint> {
    let found = load(conn, id).await?.ok_or_else(|| not_found("checkpoint"))?;
    if caller.has(Scope::Admin) {
        return Ok(found);
    }
    let intent = found.intent_id.ok_or_else(|| not_found("checkpoint"))?;
    let membership = membership::find(conn, &caller.agent, intent, now).await?;
    membership
        .filter(|membership| membership.access.reaches(Level::Read))
        .ok_or_else(|| not_found("checkpoint"))?;
    Ok(found)
}

/// A proof that an event is included in a checkpoint.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The event's hash as stored.
    pub leaf: Digest,
    /// The event's index under the checkpoint, from 0.
    pub index: usize,
    /// The path to the root, unless the log was rewritten; readers of the proof verify that it leads there.
    pub path: Vec<Step>,
}

/// Proves that an event is included in a checkpoint.
///
/// # Errors
/// The checkpoint does not exist or is not visible; the event is not included in it.
pub async fn prove(ctx: &Ctx, caller: &Caller, id: CheckpointId, event: EventId) -> Outcome<Proof> {
    require_reader(caller)?;
    let mut connection = ctx.pool.acquire().await?;
    let checkpoint = visible(&mut connection, caller, id, ctx.now()).await?;
    let leaves = leaves(&mut connection, &checkpoint).await?;
    let index = leaves.iter().position(|(id, _)| *id == event);
    let index = index.ok_or_else(|| not_found("event under this checkpoint"))?;
    let leaf = leaves[index].1;
    let tree = Tree::new(leaves.into_iter().map(|(_, hash)| hash).collect());
    let path = tree.path(tree.len(), index).ok_or_else(|| not_found("event under this checkpoint"))?;
    Ok(Proof { checkpoint, leaf, index, path })
}

/// The result of checking that a log only grew between two checkpoints.
#[derive(Debug, Clone)]
pub struct Consistency {
    /// The earlier checkpoint.
    pub from: Checkpoint,
    /// The later one.
    pub to: Checkpoint,
    /// Why it is inconsistent, if it is.
    pub fault: Option<String>,
    /// The last event that both cover, by id and hash.
    pub boundary: Option<(EventId, Digest)>,
}

/// Compares two checkpoints of a log with each other and with the log.
///
/// # Errors
/// A checkpoint does not exist or is not visible; they belong to two logs; the first covers more than the
/// second.
pub async fn compare(
    ctx: &Ctx,
    caller: &Caller,
    from: CheckpointId,
    to: CheckpointId,
) -> Outcome<Consistency> {
    require_reader(caller)?;
    let mut connection = ctx.pool.acquire().await?;
    let from = visible(&mut connection, caller, from, ctx.now()).await?;
    let to = visible(&mut connection, caller, to, ctx.now()).await?;
    if from.log() != to.log() || from.last_sequence > to.last_sequence {
        let message = "The two checkpoints must be of one log, the earlier one as `from_checkpoint`.";
        return Err(crate::refuse(Code::Unprocessable, message));
    }
    let trusted = server_keys::trusted(&mut connection, &ctx.server_keys).await?;
    let leaves = leaves(&mut connection, &to).await?;
    let boundary = from.count().and_then(|count| leaves.get(count - 1).copied());
    let tree = Tree::new(leaves.into_iter().map(|(_, hash)| hash).collect());
    let root = |checkpoint: &Checkpoint| canonical::read(&checkpoint.merkle_root).zip(checkpoint.count());
    let agrees = match (root(&from), root(&to)) {
        (Some((from, first)), Some((to, second))) => tree.agrees((first, &from), (second, &to)),
        _ => false,
    };
    let rewritten = (!agrees).then(|| "the log gives other roots: it was rewritten".to_owned());
    let fault = [&from, &to].iter().find_map(|one| one.signature_fault(&trusted)).or(rewritten);
    Ok(Consistency { from, to, fault, boundary })
}

/// Input for anchoring a checkpoint.
#[derive(Debug, Clone)]
pub struct AnchorAsk {
    /// The anchor; its own `anchored_at` is ignored.
    pub anchor: Anchor,
    /// When the witness saw the checkpoint; defaults to now.
    pub anchored_at: Option<Timestamp>,
}

/// Stores an outside witness's anchor of a checkpoint, replacing an earlier one; the system log keeps all of
/// them.
///
/// The server contacts no witness: the caller does, and passes the receipt.
///
/// # Errors
/// The scope `admin` is missing; the checkpoint does not exist, or differs from its signature; the anchor is
/// invalid.
pub async fn anchor(ctx: &Ctx, caller: &Caller, id: CheckpointId, ask: AnchorAsk) -> Outcome<Checkpoint> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let anchored_at = rfc3339(ask.anchored_at.unwrap_or(work.now()));
    let anchor = Anchor { anchored_at, ..ask.anchor }.check()?;
    let found = load(work.conn(), id).await?.ok_or_else(|| not_found("checkpoint"))?;
    let signed = found.anchored(anchor, &ctx.server_keys.signer).map_err(|why| {
        let message = format!(
            "The checkpoint is not signed again with its anchor: {why}. Take a new one, and anchor that."
        );
        Refusal::new(Code::Unprocessable, message)
    })?;
    save_anchor(work.conn(), &signed).await?;
    let payload = json!({ "checkpoint_id": id, "anchor": signed.anchor, "signature": signed.signature });
    work.record(Draft::of(Kind::CheckpointAnchored, caller.principal(), payload));
    work.finish(signed).await
}
