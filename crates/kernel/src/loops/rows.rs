//! Rows of loops. Tables `talks`, `lineages`, `loop_holds`, `loop_news`, `loop_cursor`, `loop_policies`.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId, LineageId};
use entente_domain::log::events::Kind;
use entente_domain::loops::lineages::{Hold, Lineage, LineageState, LoopCause, Pair};
use entente_domain::loops::policy::{LoopAction, LoopPolicyAsk};
use entente_domain::loops::talk::Talk;
use entente_runtime::tasks::share_thread;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::follower::uuids;
use crate::log::GlobalPosition;
use crate::{AppError, Outcome, run_blocking, unknown};

/// A lineage as readers see it.
#[derive(Debug, Clone)]
pub struct ShownLineage {
    /// Its id.
    pub id: LineageId,
    /// Channel and sender of the first message.
    pub root_channel: ChannelId,
    /// Sender of the first message.
    pub root_sender: String,
    /// The most hops from the first message to any other.
    pub hops: i64,
    /// Number of messages.
    pub messages: i64,
    /// Of the last 16 messages, those that repeat an earlier one.
    pub repeats: i64,
    /// Agents that sent some.
    pub agents: Vec<String>,
    /// Who sent how many to whom.
    pub pairs: Vec<Pair>,
    /// State.
    pub state: LineageState,
    /// Cause of the last step against it.
    pub cause: Option<LoopCause>,
    /// When its first message was sent.
    pub first_at: Timestamp,
    /// When its last message was sent.
    pub last_at: Timestamp,
}

/// A hold as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredHold {
    pub intent_id: IntentId,
    pub hold: Hold,
    pub slow_seconds: i64,
}

/// The changes to write after messages were heard.
#[derive(Debug, Default)]
pub(super) struct TalkChanges {
    /// All intents of the following members.
    pub intents: Vec<IntentId>,
    pub talks: Vec<(IntentId, Talk, Timestamp)>,
    /// Intents whose talk has nothing left.
    pub gone: Vec<IntentId>,
    pub lineages: Vec<(IntentId, Lineage)>,
    pub holds: Vec<StoredHold>,
    /// Types and payloads of events.
    pub news: Vec<(IntentId, &'static str, String)>,
}

/// Writes all of it; returns whether the holds have changed.
pub(super) async fn save(conn: &mut PgConnection, mut kept: TalkChanges) -> Outcome<bool> {
    if !kept.talks.is_empty() {
        save_talks(conn, std::mem::take(&mut kept.talks)).await?;
    }
    if !kept.gone.is_empty() {
        sqlx::query!("-- talks::delete\n DELETE FROM talks WHERE intent_id = ANY($1)", &uuids(&kept.gone))
            .execute(&mut *conn)
            .await?;
    }
    save_lineages(conn, &kept.lineages).await?;
    if !kept.news.is_empty() {
        sqlx::query!(
            "-- loop_news::add
             INSERT INTO loop_news (intent_id, type, payload)
             SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[])",
            &kept.news.iter().map(|(intent, ..)| intent.uuid()).collect::<Vec<_>>(),
            &kept.news.iter().map(|(_, kind, _)| *kind).collect::<Vec<_>>() as &[&str],
            &kept.news.iter().map(|(.., payload)| payload.as_str()).collect::<Vec<_>>() as &[&str]
        )
        .execute(&mut *conn)
        .await?;
    }
    save_holds(conn, &kept.intents, &kept.holds).await
}

async fn save_talks(conn: &mut PgConnection, talks: Vec<(IntentId, Talk, Timestamp)>) -> Outcome<()> {
    let ids: Vec<Uuid> = talks.iter().map(|(intent, ..)| intent.uuid()).collect();
    let due: Vec<Timestamp> = talks.iter().map(|(.., due_at)| *due_at).collect();
    // Some 30 KB each: on this thread, which has the writers too, they would hold up every write.
    let text = |(_, talk, _)| serde_json::to_string(&talk);
    let states =
        run_blocking(move || talks.into_iter().map(text).collect::<Result<Vec<String>, _>>()).await??;
    sqlx::query!(
        "-- talks::save
         INSERT INTO talks (intent_id, state, due_at) SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::timestamptz[])
         ON CONFLICT (intent_id) DO UPDATE SET state = excluded.state, due_at = excluded.due_at",
        &ids,
        &states,
        &due
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes lineages in which somebody answered somebody, or with which something is wrong.
async fn save_lineages(conn: &mut PgConnection, lineages: &[(IntentId, Lineage)]) -> Outcome<()> {
    let shown: Vec<&(IntentId, Lineage)> =
        lineages.iter().filter(|(_, one)| one.hops > 0 || one.cause.is_some()).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let ids = |one: &Lineage| one.channels.iter().map(|id| id.uuid().to_string()).collect::<Vec<_>>();
    let (mut agents, mut pairs, mut channels) = (Vec::new(), Vec::new(), Vec::new());
    for (n, (_, one)) in shown.iter().enumerate() {
        share_thread(n).await;
        agents.push(serde_json::to_string(&one.agents)?);
        pairs.push(serde_json::to_string(&one.pairs)?);
        channels.push(serde_json::to_string(&ids(one))?);
    }
    let causes: Vec<Option<String>> = shown.iter().map(|(_, one)| one.cause.map(cause_word)).collect();
    sqlx::query!(
        "-- lineages::save
         INSERT INTO lineages (intent_id, id, root_channel, root_sender, hops, messages, repeats, agents, channels, is_public,
                               pairs, state, cause, first_at, last_at)
         SELECT l.intent_id, l.id, l.root_channel, l.root_sender, l.hops, l.messages, l.repeats,
                ARRAY(SELECT jsonb_array_elements_text(l.agents::jsonb)),
                ARRAY(SELECT jsonb_array_elements_text(l.channels::jsonb)::uuid),
                l.is_public, l.pairs, l.state, l.cause, l.first_at, l.last_at
         FROM UNNEST($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
                     $9::text[], $10::boolean[], $11::text[], $12::text[], $13::text[], $14::timestamptz[], $15::timestamptz[])
              AS l (intent_id, id, root_channel, root_sender, hops, messages, repeats, agents, channels, is_public, pairs,
                    state, cause, first_at, last_at)
         ON CONFLICT (intent_id, id) DO UPDATE SET hops = excluded.hops, messages = excluded.messages,
             repeats = excluded.repeats, agents = excluded.agents, channels = excluded.channels,
             is_public = excluded.is_public, pairs = excluded.pairs, state = excluded.state, cause = excluded.cause,
             last_at = excluded.last_at",
        &shown.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &shown.iter().map(|(_, one)| one.id.uuid()).collect::<Vec<_>>(),
        &shown.iter().map(|(_, one)| one.root_channel.uuid()).collect::<Vec<_>>(),
        &shown.iter().map(|(_, one)| one.root_sender.as_str()).collect::<Vec<_>>() as &[&str],
        &shown.iter().map(|(_, one)| i64::from(one.hops)).collect::<Vec<_>>(),
        &shown.iter().map(|(_, one)| number(one.messages)).collect::<Vec<_>>(),
        &shown.iter().map(|(_, one)| i64::from(one.repeats())).collect::<Vec<_>>(),
        &agents,
        &channels,
        &shown.iter().map(|(_, one)| one.is_public).collect::<Vec<_>>(),
        &pairs,
        &shown.iter().map(|(_, one)| one.state.as_str()).collect::<Vec<_>>() as &[&str],
        &causes as &[Option<String>],
        &shown.iter().map(|(_, one)| one.first_at).collect::<Vec<_>>(),
        &shown.iter().map(|(_, one)| one.last_at).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Replaces the holds of these intents; returns whether they are others then.
async fn save_holds(conn: &mut PgConnection, intents: &[IntentId], new: &[StoredHold]) -> Outcome<bool> {
    let key = |one: &StoredHold| (one.intent_id, one.hold.agent.clone());
    let mut known = if intents.is_empty() { Vec::new() } else { holds(conn, Some(intents)).await? };
    let mut new = new.to_vec();
    known.sort_by_key(key);
    new.sort_by_key(key);
    if known == new {
        return Ok(false);
    }
    // Whoever changes holds takes this row first, so that the version grows with them.
    sqlx::query!("-- loop_cursor::count\n UPDATE loop_cursor SET holds = holds + 1")
        .execute(&mut *conn)
        .await?;
    sqlx::query!("-- loop_holds::delete\n DELETE FROM loop_holds WHERE intent_id = ANY($1)", &uuids(intents))
        .execute(&mut *conn)
        .await?;
    sqlx::query!(
        "-- loop_holds::add
         INSERT INTO loop_holds (intent_id, agent_id, lineage_id, action, next_at, slow_seconds)
         SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::timestamptz[], $6::bigint[])",
        &new.iter().map(|one| one.intent_id.uuid()).collect::<Vec<_>>(),
        &new.iter().map(|one| one.hold.agent.as_str()).collect::<Vec<_>>() as &[&str],
        &new.iter().map(|one| one.hold.lineage.uuid()).collect::<Vec<_>>(),
        &new.iter().map(|one| one.hold.action.as_str()).collect::<Vec<_>>() as &[&str],
        &new.iter().map(|one| one.hold.next_at).collect::<Vec<_>>(),
        &new.iter().map(|one| one.slow_seconds).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(true)
}

/// Returns the holds of these intents, or of all.
pub(super) async fn holds(conn: &mut PgConnection, intents: Option<&[IntentId]>) -> Outcome<Vec<StoredHold>> {
    let intents = intents.map(uuids);
    let rows = sqlx::query!(
        "-- loop_holds::list
         SELECT intent_id, agent_id, lineage_id, action, next_at, slow_seconds FROM loop_holds
         WHERE $1::uuid[] IS NULL OR intent_id = ANY($1)",
        intents.as_deref()
    )
    .fetch_all(conn)
    .await?;
    let hold = |word: &str| LoopAction::parse(word).ok_or_else(|| unknown("action of a hold", word));
    rows.into_iter()
        .map(|row| {
            let hold = Hold {
                agent: row.agent_id,
                lineage: row.lineage_id.into(),
                action: hold(&row.action)?,
                next_at: row.next_at,
            };
            Ok(StoredHold { intent_id: row.intent_id.into(), hold, slow_seconds: row.slow_seconds })
        })
        .collect()
}

/// Returns the version of the holds.
pub(super) async fn holds_version(conn: &mut PgConnection) -> Outcome<i64> {
    let version =
        sqlx::query_scalar!("-- loop_cursor::holds\n SELECT holds FROM loop_cursor").fetch_one(conn).await?;
    Ok(version)
}

/// Returns the follower's position; `None` while no policy is on.
pub(super) async fn cursor(conn: &mut PgConnection) -> Outcome<Option<GlobalPosition>> {
    let row = sqlx::query!("-- loop_cursor::load\n SELECT global, global_seq FROM loop_cursor")
        .fetch_one(conn)
        .await?;
    Ok(GlobalPosition::stored(row.global, row.global_seq))
}

/// Waits for whoever changes the cursor, or turns a policy on.
pub(super) async fn lock_cursor(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- loop_cursor::lock\n SELECT one FROM loop_cursor FOR UPDATE").fetch_one(conn).await?;
    Ok(())
}

/// Moves the follower.
pub(super) async fn move_cursor(conn: &mut PgConnection, to: Option<GlobalPosition>) -> Outcome<()> {
    sqlx::query!(
        "-- loop_cursor::save\n UPDATE loop_cursor SET global = $1, global_seq = $2",
        to.map(|place| place.global),
        to.map(|place| place.seq)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Forgets the position, all talks and all holds. The talks come first, as everywhere.
pub(super) async fn forget_all(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- talks::forget_all\n DELETE FROM talks").execute(&mut *conn).await?;
    sqlx::query!("-- loop_holds::forget_all\n DELETE FROM loop_holds").execute(&mut *conn).await?;
    sqlx::query!(
        "-- loop_cursor::forget_all\n UPDATE loop_cursor SET global = NULL, global_seq = NULL, holds = holds + 1"
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns intents whose talks have something that is too long ago.
pub(super) async fn due(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        "-- talks::due\n SELECT intent_id FROM talks WHERE due_at <= $1 ORDER BY due_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(found.into_iter().map(IntentId::from).collect())
}

/// Returns the talks of these intents, and keeps others from changing them until the end of the transaction.
pub(super) async fn lock_talks(
    conn: &mut PgConnection,
    intents: &[IntentId],
) -> Outcome<HashMap<IntentId, Talk>> {
    let rows = sqlx::query!(
        "-- talks::lock
         SELECT intent_id, state FROM talks WHERE intent_id = ANY($1) ORDER BY intent_id FOR UPDATE",
        &uuids(intents)
    )
    .fetch_all(conn)
    .await?;
    let talk = |state: &str| {
        // A state that another release cannot read is no evidence either.
        serde_json::from_str(state).unwrap_or_else(|failure| {
            tracing::warn!(error = %failure, "a talk that cannot be read is begun anew");
            Talk::default()
        })
    };
    let read = move || rows.into_iter().map(|row| (row.intent_id.into(), talk(&row.state))).collect();
    run_blocking(read).await
}

/// Returns intents whose logs do not have all events yet.
pub(super) async fn intents_with_news(conn: &mut PgConnection, limit: i64) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        r#"-- loop_news::intents
         SELECT DISTINCT intent_id AS "intent_id!" FROM (SELECT intent_id FROM loop_news ORDER BY number LIMIT $1) n"#,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(found.into_iter().map(IntentId::from).collect())
}

/// Takes the events of an intent, in their order.
pub(super) async fn take_news(conn: &mut PgConnection, intent: IntentId) -> Outcome<Vec<(Kind, String)>> {
    let mut rows = sqlx::query!(
        "-- loop_news::take\n DELETE FROM loop_news WHERE intent_id = $1 RETURNING number, type AS kind, payload",
        intent.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.sort_by_key(|row| row.number);
    let kinds = [Kind::LoopFound, Kind::LoopCleared];
    let kind = |word: &str| {
        let found = kinds.into_iter().find(|kind| kind.wire() == word);
        found.ok_or_else(|| unknown("type of an event", word))
    };
    rows.into_iter().map(|row| Ok((kind(&row.kind)?, row.payload))).collect()
}

/// Whether any intent has a policy that is on.
pub(super) async fn is_any_enabled(conn: &mut PgConnection) -> Outcome<bool> {
    let any = sqlx::query_scalar!(
        r#"-- loop_policies::any
         SELECT EXISTS (SELECT 1 FROM loop_policies WHERE enabled) AS "any!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(any)
}

/// Returns the policies of those of these intents that have set one.
pub(super) async fn policies(
    conn: &mut PgConnection,
    intents: &[IntentId],
) -> Outcome<Vec<(IntentId, LoopPolicyAsk)>> {
    let rows = sqlx::query!(
        "-- loop_policies::of\n SELECT intent_id, policy FROM loop_policies WHERE intent_id = ANY($1)",
        &uuids(intents)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok((row.intent_id.into(), serde_json::from_str(&row.policy)?))).collect()
}

/// Sets an intent's policy.
pub(super) async fn set_policy(
    conn: &mut PgConnection,
    intent: IntentId,
    policy: &LoopPolicyAsk,
    enabled: bool,
    by: &str,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- loop_policies::set
         INSERT INTO loop_policies (intent_id, policy, enabled, set_by, set_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (intent_id) DO UPDATE SET policy = $2, enabled = $3, set_by = $4, set_at = $5",
        intent.uuid(),
        serde_json::to_string(policy)?,
        enabled,
        by,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Which lineages a reader sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Viewer<'a> {
    pub agent: &'a str,
    /// Whether it sees those of closed channels as well.
    pub sees_all: bool,
}

/// Returns lineages of an intent, newest first: one of them, or a page.
pub(super) async fn lineages(
    conn: &mut PgConnection,
    intent: IntentId,
    viewer: Viewer<'_>,
    one: Option<LineageId>,
    before: Option<LineageId>,
    state: Option<LineageState>,
    limit: i64,
) -> Outcome<Vec<ShownLineage>> {
    let rows = sqlx::query!(
        r#"-- lineages::list
         SELECT l.id, l.root_channel, l.root_sender, l.hops, l.messages, l.repeats, l.agents, l.pairs, l.state, l.cause,
                l.first_at, l.last_at
         FROM lineages l
         WHERE l.intent_id = $1 AND ($2::uuid IS NULL OR l.id = $2) AND ($3::uuid IS NULL OR l.id < $3)
           AND ($4::text IS NULL OR l.state = $4)
           AND ($5 OR l.is_public OR cardinality(l.channels) < $8 AND NOT EXISTS (
               SELECT 1 FROM UNNEST(l.channels) AS k (id) LEFT JOIN channels c ON c.id = k.id
               WHERE c.id IS NULL OR c.member_policy <> 'intent' AND NOT $6 = ANY (c.members)))
         ORDER BY l.id DESC LIMIT $7"#,
        intent.uuid(),
        one.map(LineageId::uuid),
        before.map(LineageId::uuid),
        state.map(LineageState::as_str),
        viewer.sees_all,
        viewer.agent,
        limit,
        i32::try_from(entente_domain::loops::lineages::NAMES).unwrap_or(i32::MAX)
    )
    .fetch_all(conn)
    .await?;
    let state = |word: &str| {
        let found = LineageState::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or_else(|| unknown("state of a lineage", word))
    };
    rows.into_iter()
        .map(|row| {
            Ok(ShownLineage {
                id: row.id.into(),
                root_channel: row.root_channel.into(),
                root_sender: row.root_sender,
                hops: row.hops,
                messages: row.messages,
                repeats: row.repeats,
                agents: row.agents,
                pairs: serde_json::from_str(&row.pairs)?,
                state: state(&row.state)?,
                cause: row.cause.map(|word| cause(&word)).transpose()?,
                first_at: row.first_at,
                last_at: row.last_at,
            })
        })
        .collect()
}

/// Deletes up to `limit` lineages whose last message was sent before `bound`; returns their number.
pub(super) async fn forget_lineages(conn: &mut PgConnection, bound: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- lineages::forget
         DELETE FROM lineages WHERE ctid = ANY (ARRAY(SELECT ctid FROM lineages WHERE last_at < $1 ORDER BY last_at LIMIT $2))",
        bound,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

fn cause_word(cause: LoopCause) -> String {
    match serde_json::to_value(cause) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

fn cause(word: &str) -> Outcome<LoopCause> {
    serde_json::from_value(Value::from(word)).map_err(AppError::from)
}
