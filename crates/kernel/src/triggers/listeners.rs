//! Triggers that listen, with no more of each than it takes to know what it hears: they are looked at for all that happens.

use entente_domain::ids::{KeyId, TriggerId};
use entente_domain::triggers::Condition;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Outcome;

/// Listeners that are read at once, so that not all of the house's are in memory.
const PAGE: i64 = 500;

/// A trigger that listens.
#[derive(Debug)]
pub(super) struct Listener {
    /// Its id.
    pub id: TriggerId,
    /// Whose it is.
    pub principal_id: String,
    /// As whom it makes intents.
    pub agent_id: String,
    /// By whose powers.
    pub key_id: KeyId,
    /// What it listens to.
    pub condition: Condition,
    /// It hears what later transactions write.
    pub hears_after: i64,
}

/// A part of those that listen.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// Those that can be read.
    pub listeners: Vec<Listener>,
    /// Those that cannot: they keep none of the others from hearing.
    pub broken: Vec<TriggerId>,
    /// Where the next part begins, if there is one.
    pub next: Option<Uuid>,
}

/// Those that listen to events of these types, by name or by a pattern, after this one.
pub(super) async fn listening(
    conn: &mut PgConnection,
    types: &[&str],
    after: Option<Uuid>,
) -> Outcome<Listening> {
    let rows = sqlx::query!(
        "-- triggers::listening
         SELECT id, principal_id, agent_id, key_id, condition, hears_after FROM triggers
         WHERE listens AND enabled AND removed_at IS NULL AND (event_type IS NULL OR event_type = ANY ($1))
           AND ($2::uuid IS NULL OR id > $2)
         ORDER BY id LIMIT $3",
        types as &[&str],
        after,
        PAGE
    )
    .fetch_all(conn)
    .await?;
    let mut found = Listening::default();
    let full = i64::try_from(rows.len()).is_ok_and(|count| count >= PAGE);
    found.next = rows.last().map(|row| row.id).filter(|_| full);
    for row in rows {
        match serde_json::from_str(row.condition.as_deref().unwrap_or("null")) {
            Ok(condition) => found.listeners.push(Listener {
                id: row.id.into(),
                principal_id: row.principal_id,
                agent_id: row.agent_id,
                key_id: row.key_id.into(),
                condition,
                hears_after: row.hears_after,
            }),
            Err(failure) => {
                tracing::error!(trigger.id = %row.id, error = %failure, "a trigger that listens could not be read");
                found.broken.push(row.id.into());
            }
        }
    }
    Ok(found)
}
