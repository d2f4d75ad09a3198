//! Rings of inboxes: entries that should wake their agent now, for those who are told by other ways than reading, and the
//! notifications of people's own. Reads the tables of the inboxes.

use entente_domain::clock::Timestamp;
use entente_domain::inbox::{Ring, Settings};
use entente_domain::notifications::Topic;
use entente_domain::notifications::forms::WaitingItem;
use entente_domain::notifications::times::Occasion;
use sqlx::PgConnection;

use super::{Audience, Told};
use crate::{Ctx, Outcome};

/// An entry that should wake.
pub(crate) struct Waking {
    /// Its place in the inbox.
    pub place: i64,
    /// When the inbox was opened: one that was opened again has other entries at the same places.
    pub opened_at: Timestamp,
    kind: String,
    what: String,
}

/// Returns those of the entries at these places that should still wake: nobody has seen them, they have not expired, and these
/// are no quiet hours, at whose end they ring again.
pub(crate) async fn entries(
    conn: &mut PgConnection,
    agent: &str,
    places: &[i64],
    now: Timestamp,
) -> Outcome<Vec<Waking>> {
    let rows = sqlx::query!(
        "-- inbox_entries::waking
         SELECT e.place, e.kind, e.what, e.breaks_through, i.settings, i.opened_at
         FROM inbox_entries e JOIN inboxes i ON i.agent_id = e.agent_id
         WHERE e.agent_id = $1 AND e.place = ANY($2) AND e.expires_at > $3
           AND NOT EXISTS (SELECT 1 FROM inbox_readers r
                           WHERE r.agent_id = e.agent_id AND r.place >= e.place AND 'wake' = ANY(r.levels))",
        agent,
        places,
        now
    )
    .fetch_all(conn)
    .await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let settings: Settings = serde_json::from_str(&row.settings)?;
        if !settings.is_quiet(now) || row.breaks_through {
            found.push(Waking { place: row.place, opened_at: row.opened_at, kind: row.kind, what: row.what });
        }
    }
    Ok(found)
}

/// Returns the id of an entry in a notification.
pub(crate) fn subject(opened_at: Timestamp, place: i64) -> String {
    format!("{}.{place}", opened_at.timestamp_micros())
}

/// Returns those of these entries ([`subject`]) of a person's inbox that should still wake, as they are told. Senders and
/// contents are left to the page, which shows only those that the person may read then.
pub(crate) async fn items(
    ctx: &Ctx,
    person: &str,
    subjects: &[String],
) -> Outcome<Vec<(String, WaitingItem)>> {
    let place = |subject: &String| subject.rsplit_once('.')?.1.parse::<i64>().ok();
    let places: Vec<i64> = subjects.iter().filter_map(place).collect();
    let mut conn = ctx.pool.acquire().await?;
    let found = entries(&mut conn, person, &places, ctx.now()).await?;
    let item = |one: Waking| {
        let item = WaitingItem {
            topic: Topic::Inbox,
            quote: Some(format!("{}: {}", one.kind, one.what.replace('_', " "))),
            agent: None,
            deadline: None,
            path: format!("/inboxes?agent={person}"),
        };
        (subject(one.opened_at, one.place), item)
    };
    Ok(found
        .into_iter()
        .filter(|one| subjects.contains(&subject(one.opened_at, one.place)))
        .map(item)
        .collect())
}

/// Queues notifications for the rings of people's inboxes, in the transaction in which the entries ring; otherwise as
/// [`super::tell`].
pub(crate) async fn tell(conn: &mut PgConnection, rings: &[Ring], now: Timestamp) -> Outcome<bool> {
    let subjects: Vec<String> = rings.iter().map(|ring| subject(ring.opened_at, ring.place)).collect();
    let told: Vec<Told<'_>> = rings
        .iter()
        .zip(&subjects)
        .map(|(ring, subject)| Told {
            audience: Audience::Person(&ring.agent),
            occasion: Occasion { topic: Topic::Inbox, agent: None, deadline: None },
            subject,
        })
        .collect();
    super::tell(conn, &told, now).await
}
