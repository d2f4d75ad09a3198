//! Messages by day and sender, for charts. Table `message_days`.
//!
//! The follower counts them: a sum over all messages of many days would read more than a page may.

use std::collections::BTreeMap;

use chrono::{NaiveDate, TimeDelta};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use sqlx::PgConnection;

use crate::{Caller, Ctx, Outcome};

/// Days that are kept: the longest range of the charts, and some.
const KEPT_DAYS: i64 = 100;

/// Rows that are deleted in one step.
const DELETED: i64 = 1_000;

/// Number of messages of a sender on a day.
#[derive(Debug, Clone)]
pub struct SentMessages {
    /// The day, as a date in UTC.
    pub day: String,
    /// The sender.
    pub sender: String,
    /// Their number.
    pub count: i64,
}

/// Adds messages by their senders and times, and deletes days that are too old for charts.
pub(super) async fn add<'a>(
    conn: &mut PgConnection,
    sent: impl Iterator<Item = (&'a str, Timestamp)>,
    now: Timestamp,
) -> Outcome<()> {
    let mut counts: BTreeMap<(NaiveDate, &str), i64> = BTreeMap::new();
    for (sender, at) in sent {
        *counts.entry((at.date_naive(), sender)).or_default() += 1;
    }
    if counts.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- message_days::add
         WITH gone AS (
             DELETE FROM message_days WHERE (day, sender) IN (
                 SELECT d.day, d.sender FROM message_days d WHERE d.day < $4 ORDER BY d.day, d.sender LIMIT $5))
         INSERT INTO message_days (day, sender, messages)
         SELECT * FROM UNNEST($1::date[], $2::text[], $3::bigint[]) AS n (day, sender, messages) WHERE n.day >= $4
         ON CONFLICT (day, sender) DO UPDATE SET messages = message_days.messages + excluded.messages",
        &counts.keys().map(|(day, _)| *day).collect::<Vec<_>>(),
        &counts.keys().map(|(_, sender)| *sender).collect::<Vec<_>>() as &[&str],
        &counts.values().copied().collect::<Vec<_>>(),
        (now - TimeDelta::days(KEPT_DAYS)).date_naive(),
        DELETED
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns how many messages the caller has sent since a time, or everybody for an admin, by day and sender.
///
/// # Errors
/// The caller lacks the scope.
pub async fn sent_messages(ctx: &Ctx, caller: &Caller, from: Timestamp) -> Outcome<Vec<SentMessages>> {
    caller.require(Scope::ChannelsRead)?;
    let found = sqlx::query_as!(
        SentMessages,
        r#"-- message_days::list
         SELECT to_char(d.day, 'YYYY-MM-DD') AS "day!", d.sender, d.messages AS count
         FROM message_days d WHERE d.day >= $1 AND ($2 OR d.sender = $3) ORDER BY d.day, d.sender"#,
        from.date_naive(),
        caller.has(Scope::Admin),
        caller.agent
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(found)
}
