//! Sources of entries that are in no log: envelopes in mailboxes, and ends of jobs.

use std::collections::BTreeMap;

use entente_domain::aee::envelopes::Priority;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::inbox::EntryKind;
use sqlx::PgConnection;

use super::matching::{Item, ItemSource, Origin};
use crate::{Outcome, unknown};

/// Envelopes of one mailbox that are read at once.
const ENVELOPES: i64 = 200;

/// Mailboxes that are read at once.
const MAILBOXES: i64 = 20;

/// Entries of the order over the events of all jobs that are read at once.
const JOB_PARTS: i64 = 256;

/// New envelopes, and the numbers up to which mailboxes were read.
pub(super) struct NewMail {
    pub items: Vec<Item>,
    pub reached: Vec<(String, i64)>,
}

/// Reads the envelopes without an entry, of these mailboxes or of all.
///
/// The row of a mailbox is locked while an item is added, so its numbers become visible in their order.
pub(super) async fn envelopes(conn: &mut PgConnection, entities: Option<&[String]>) -> Outcome<NewMail> {
    let rows = sqlx::query!(
        r#"-- inbox::envelopes
         SELECT b.entity AS "entity!", b.last_seq AS "last_seq!", t.seq AS "seq?", t.envelope_id AS "envelope_id?",
                t.received_at AS "received_at?", t.effective_priority AS "priority?", e.sender AS "sender?", e.type AS "what?"
         FROM (SELECT m.entity, m.last_seq, i.mail_seq FROM inboxes i JOIN aee_mailboxes m ON m.entity = i.agent_id
               WHERE m.last_seq > i.mail_seq AND ($1::text[] IS NULL OR i.agent_id = ANY($1)) LIMIT $2) b
         LEFT JOIN LATERAL (SELECT * FROM aee_items a WHERE a.entity = b.entity AND a.seq > b.mail_seq
                            ORDER BY a.seq LIMIT $3) t ON true
         LEFT JOIN aee_envelopes e ON e.id = t.envelope_id
         ORDER BY b.entity, t.seq"#,
        entities,
        MAILBOXES,
        ENVELOPES
    )
    .fetch_all(conn)
    .await?;
    let mut items = Vec::new();
    let mut mailboxes: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
    for row in rows {
        let (count, last, _) = mailboxes.entry(row.entity.clone()).or_insert((0, 0, row.last_seq));
        let (Some(seq), Some(envelope), Some(at), Some(priority)) =
            (row.seq, row.envelope_id, row.received_at, row.priority)
        else {
            continue;
        };
        *count += 1;
        *last = seq;
        items.push(Item {
            origin: Origin::Mail,
            agents: vec![row.entity],
            kind: EntryKind::Mail,
            what: row.what.unwrap_or_default(),
            reference: envelope,
            intent_id: None,
            channel_id: None,
            sender: row.sender,
            source: ItemSource::Mail(
                Priority::parse(&priority).ok_or_else(|| unknown("priority", &priority))?,
            ),
            at,
            expires_at: None,
        });
    }
    // Retention may have deleted envelopes: then there are fewer than numbers, and the mailbox was still read to its end.
    let reached = mailboxes
        .into_iter()
        .map(|(entity, (count, last, end))| (entity, if count == ENVELOPES { last } else { end }))
        .collect();
    Ok(NewMail { items, reached })
}

/// Reads the ends of jobs after a position; returns them with the position reached, and whether there may be more.
pub(super) async fn ends_of_jobs(
    conn: &mut PgConnection,
    after: (i64, i64),
) -> Outcome<(Vec<Item>, (i64, i64), bool)> {
    let rows = sqlx::query!(
        r#"-- inbox::ends_of_jobs
         SELECT o.global AS "global!", o.to_seq AS "to_seq!", e.job_seq AS "job_seq?", e.job_id AS "job_id?", e.ts AS "ts?",
                j.principal AS "principal?", j.agent AS "agent?", j.intent_id AS "intent_id?", c.status AS "status?"
         FROM (SELECT global, job_id, to_seq,
                      greatest(from_seq, CASE WHEN global = $1 THEN $2::bigint + 1 ELSE 0 END) AS from_seq
               FROM job_order WHERE global >= $1 AND (global > $1 OR to_seq > $2) ORDER BY global LIMIT $3) o
         LEFT JOIN job_events e ON e.job_id = o.job_id AND e.type <> 'job.event' AND e.job_seq BETWEEN o.from_seq AND o.to_seq
         LEFT JOIN jobs j ON j.id = e.job_id
         LEFT JOIN job_clock c ON c.job_id = e.job_id
         ORDER BY o.global"#,
        after.0,
        after.1,
        JOB_PARTS
    )
    .fetch_all(conn)
    .await?;
    let more = i64::try_from(rows.len()).is_ok_and(|count| count >= JOB_PARTS);
    let reached = rows.last().map_or(after, |row| (row.global, row.to_seq));
    let items = rows.into_iter().filter_map(|row| {
        Some(Item {
            origin: Origin::Job(row.global, row.job_seq?),
            agents: vec![row.principal?],
            kind: EntryKind::Job,
            what: row.status.unwrap_or_else(|| "ended".to_owned()),
            reference: JobId::from(row.job_id?).to_string(),
            intent_id: row.intent_id.map(IntentId::from),
            channel_id: None,
            sender: row.agent,
            source: ItemSource::Job,
            at: row.ts?,
            expires_at: None,
        })
    });
    Ok((items.collect(), reached, more))
}
