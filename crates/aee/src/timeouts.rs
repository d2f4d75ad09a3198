//! Timeouts of exchanges (AEE §11.6): the sender of a task without an answer in time gets an error from the gateway.

use std::collections::{BTreeSet, HashMap};

use entente_domain::aee::envelopes::pairing::Pair;
use entente_domain::aee::envelopes::{EnvelopeType, Priority, drafts};
use entente_domain::clock::Timestamp;
use entente_kernel::{Outcome, unknown};
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes::PreparedEnvelope;
use crate::mailboxes::Known;
use crate::{exchanges, ingest};

/// Times out up to `limit` overdue exchanges, notifies their askers (AEE §11.6) and returns their number.
///
/// # Errors
/// The database query fails.
pub async fn time_out(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.pool.begin().await?;
    let due = exchanges::time_out(&mut tx, now, limit).await?;
    let done = due.len() as u64;
    if done == 0 {
        tx.rollback().await?;
        return Ok(0);
    }
    // Exchanges asked by the gateway on behalf of others are left out: the asker has one of its own.
    let due: Vec<Pair> = due.into_iter().filter(|pair| pair.asker != ctx.state.settings.entity).collect();
    let tasks: BTreeSet<&str> = due.iter().map(|pair| pair.task_id.as_str()).collect();
    let tasks = headings(&mut tx, &tasks.into_iter().collect::<Vec<_>>()).await?;
    let notices = due.iter().map(|pair| notice(ctx, tasks.get(&pair.task_id), pair, now));
    let prepared_envelopes = notices.collect::<Outcome<Vec<PreparedEnvelope>>>()?;
    let put = ingest::put(ctx, &mut tx, &mut Known::default(), &prepared_envelopes, now).await?;
    tx.commit().await?;
    put.announce(ctx);
    // An asker without a mailbox cannot be notified.
    for refused in put.answers.iter().filter_map(|answer| answer.as_ref().err()) {
        tracing::debug!(error = %refused, "a timeout was told to nobody");
    }
    Ok(done)
}

/// Purpose and effective priority of these tasks.
async fn headings(conn: &mut PgConnection, tasks: &[&str]) -> Outcome<HashMap<String, (String, Priority)>> {
    let rows = sqlx::query!(
        "-- aee_pairs::headings\n SELECT id, purpose, effective_priority FROM aee_envelopes WHERE id = ANY($1)",
        tasks as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let read = |word: &str| Priority::parse(word).ok_or_else(|| unknown("priority", word));
    rows.into_iter().map(|row| Ok((row.id, (row.purpose, read(&row.effective_priority)?)))).collect()
}

/// The gateway's error to the asker.
fn notice(
    ctx: &Ctx,
    task: Option<&(String, Priority)>,
    pair: &Pair,
    now: Timestamp,
) -> Outcome<PreparedEnvelope> {
    let message = format!("`{}` did not answer in time. Ask again, or somebody else.", pair.respondent);
    let draft = drafts::EnvelopeDraft {
        kind: EnvelopeType::Error,
        sender: &ctx.state.settings.entity,
        recipient: &pair.asker,
        purpose: task.map_or("entente.post.timeout", |(purpose, _)| purpose),
        corr: &pair.corr,
        reply_to: Some(&pair.task_id),
        priority: task.map_or(Priority::Normal, |(_, effective)| *effective),
        payload: drafts::failure("E_TIMEOUT", &message, true),
        trace: None,
    };
    PreparedEnvelope::own(draft.write(now, &*ctx.chance)?)
}
