//! Conversation about a moment: the person asks for detail, the agent gives it, both deliberate. Table
//! `moment_words`.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::MomentId;
use entente_domain::limits::LIST_ITEMS;
use entente_domain::log::events::Kind;
use entente_domain::moments::{MomentState, Speaker, WordKind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{AppError, Caller, Outcome, idempotency, unknown};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{MomentTx, MomentView, Role, decider, role};
use crate::Ctx;

/// A contribution to the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Position in the thread, from 1.
    pub n: i32,
    /// Author.
    pub author: String,
    /// Kind of contribution.
    pub kind: WordKind,
    /// The text; `None` once scrubbed, or if hidden from the reader.
    pub text: Option<String>,
    /// Time of the contribution.
    pub said_at: Timestamp,
}

/// Adds a contribution to a moment; author and state determine its kind, and it is never an answer.
///
/// A retry under the same key is stored once; the key is independent of the text, whose hash could be
/// guessed.
///
/// # Errors
/// The caller may not see the moment or is neither the agent nor the person asked; the moment is over.
pub async fn word(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    text: &str,
    once: Option<&Idempotency>,
) -> Outcome<MomentView> {
    caller.require(Scope::MomentsWrite)?;
    let (mut work, mut kept) = MomentTx::take(ctx, caller, id, once).await?;
    if idempotency::find::<MomentId>(&mut work.tx, caller, once).await?.is_some() {
        return work.shown(ctx, caller, kept).await;
    }
    let decider = decider(caller);
    let speaker = match role(caller, &kept.moment, work.now) {
        Some(Role::Agent) => Speaker::Agent(&caller.agent),
        _ => Speaker::Principal(&decider),
    };
    let (moment, kind) = kept.moment.word(speaker, text, work.now)?;
    // The agent's first word after an objection is always accepted: without it, it could never ask again.
    let is_owed = kept.moment.deliberated_at.is_none() && moment.deliberated_at.is_some();
    kept.moment = moment;
    work.record(ctx, Kind::MomentWord, &caller.agent, &kept.moment, &json!({ "kind": kind }))?;
    work.save(ctx, &mut kept).await?;
    let place = insert(&mut work.tx, id, &caller.agent, kind, text, work.now).await?;
    if !is_owed {
        check_place(place)?;
    }
    if kept.moment.agent_id == caller.agent && kept.moment.state == MomentState::Deliberating {
        work.tell(&kept.moment, Some(place)).await?;
    }
    idempotency::keep(&mut work.tx, caller, once, &id, work.now).await?;
    work.shown(ctx, caller, kept).await
}

/// Inserts a contribution and returns its position; the lock of the moment's log is held.
pub(super) async fn insert(
    conn: &mut PgConnection,
    id: MomentId,
    author: &str,
    kind: WordKind,
    text: &str,
    now: Timestamp,
) -> Outcome<i32> {
    let n = sqlx::query_scalar!(
        r#"-- moment_words::insert
         INSERT INTO moment_words (moment_id, n, author, kind, text, said_at)
         SELECT $1, coalesce(max(n), 0) + 1, $2, $3, $4, $5 FROM moment_words WHERE moment_id = $1
         RETURNING n"#,
        id.uuid(),
        author,
        kind.as_str(),
        text,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(n)
}

/// Requires that the thread is below its maximum length.
fn check_place(n: i32) -> Result<(), Refusal> {
    if usize::try_from(n).is_ok_and(|n| n > LIST_ITEMS) {
        let message = format!(
            "{LIST_ITEMS} things were said about this already, as many as may be. Decide, or close it."
        );
        return Err(Refusal::new(Code::TooLarge, message));
    }
    Ok(())
}

/// Contributions to these moments, by moment, oldest first.
pub(super) async fn load(conn: &mut PgConnection, ids: &[MomentId]) -> Outcome<Vec<(MomentId, Word)>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- moment_words::load
         SELECT moment_id, n, author, kind, text, said_at FROM moment_words WHERE moment_id = ANY($1)
         ORDER BY moment_id, n",
        &ids
    )
    .fetch_all(conn)
    .await?;
    let words = rows.into_iter().map(|row| {
        let kind = WordKind::parse(&row.kind).ok_or_else(|| unknown("kind of word", &row.kind))?;
        let (n, author, text, said_at) = (row.n, row.author, row.text, row.said_at);
        Ok((row.moment_id.into(), Word { n, author, kind, text, said_at }))
    });
    words.collect()
}

/// Like [`load`], grouped by moment.
pub(super) async fn of_each(
    conn: &mut PgConnection,
    ids: &[MomentId],
) -> Result<HashMap<MomentId, Vec<Word>>, AppError> {
    let mut each: HashMap<MomentId, Vec<Word>> = HashMap::new();
    if ids.is_empty() {
        return Ok(each);
    }
    for (id, word) in load(conn, ids).await? {
        each.entry(id).or_default().push(word);
    }
    Ok(each)
}

/// Size of a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spoken {
    /// Number of contributions.
    pub count: usize,
    /// Bytes of their texts.
    pub bytes: i64,
}

/// Sizes of these moments' conversations; empty ones are left out.
pub(super) async fn spoken(conn: &mut PgConnection, ids: &[MomentId]) -> Outcome<HashMap<MomentId, Spoken>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- moment_words::spoken
         SELECT moment_id, count(*) AS "count!", coalesce(sum(octet_length(text)), 0)::bigint AS "bytes!"
         FROM moment_words WHERE moment_id = ANY($1) GROUP BY moment_id"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    let each = rows.into_iter().map(|row| {
        let count = usize::try_from(row.count).unwrap_or(usize::MAX);
        (row.moment_id.into(), Spoken { count, bytes: row.bytes })
    });
    Ok(each.collect())
}

/// Removes the texts of a conversation; authors and times stay.
pub(super) async fn scrub(conn: &mut PgConnection, id: MomentId) -> Outcome<()> {
    sqlx::query!(
        "-- moment_words::scrub\n UPDATE moment_words SET text = NULL WHERE moment_id = $1 AND text IS NOT NULL",
        id.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}
