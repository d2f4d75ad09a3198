//! Rows of inboxes and their entries. Tables `inboxes` and `inbox_entries`.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::inbox::digest::Counted;
use entente_domain::inbox::{Attention, ENTRIES, ENTRIES_AFTER_CUT, EntryKind, InboxCursor, Settings};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Inbox;
use crate::log::GlobalPosition;
use crate::log::order::OrderEnds;
use crate::{Outcome, unknown};

/// An entry of an inbox.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place: dense from 1 in each inbox.
    pub place: i64,
    /// Kind of its object.
    pub kind: EntryKind,
    /// What happened: the type of a message or an envelope, the status of a job, the event of a decision or a task.
    pub what: String,
    /// Id of the object.
    pub reference: String,
    /// Intent of the object.
    pub intent_id: Option<IntentId>,
    /// Channel of a message.
    pub channel_id: Option<ChannelId>,
    /// Agent, entity or person that it comes from.
    pub sender: Option<String>,
    /// The level as it was given.
    pub attention: Attention,
    /// Whether it wakes in quiet hours too.
    pub breaks_through: bool,
    /// When it happened.
    pub at: Timestamp,
    /// When the entry expires.
    pub expires_at: Timestamp,
    /// How often it rang.
    pub rings: i32,
    /// When it rings next, unless it is seen.
    pub rings_at: Option<Timestamp>,
}

/// An inbox to which entries are added, under its row's lock.
#[derive(Debug)]
pub(super) struct LockedInbox {
    pub settings: Settings,
    pub opened_at: Timestamp,
    /// Positions in the logs and in the events of jobs after which it begins.
    pub begins: GlobalPosition,
    pub begins_job: (i64, i64),
    pub last_place: i64,
    pub entries: i64,
}

/// An entry to add.
#[derive(Debug)]
pub(super) struct NewEntry {
    pub agent: String,
    pub entry: Entry,
}

fn settings_of(text: &str) -> Outcome<Settings> {
    Ok(serde_json::from_str(text)?)
}

/// Opens an inbox, unless it is open.
pub(super) async fn open(
    conn: &mut PgConnection,
    agent: &str,
    principal: &str,
    settings: &Settings,
    ends: &OrderEnds,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- inboxes::open
         INSERT INTO inboxes (agent_id, opened_by, opened_at, settings, begins_global, begins_seq, begins_job, begins_job_seq,
                              mail_seq)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, coalesce((SELECT last_seq FROM aee_mailboxes WHERE entity = $1), 0))
         ON CONFLICT (agent_id) DO NOTHING",
        agent,
        principal,
        now,
        serde_json::to_string(settings)?,
        ends.logs.global,
        ends.logs.seq,
        ends.jobs.0,
        ends.jobs.1
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Replaces the settings of an open inbox; returns whether it is open.
pub(super) async fn set(conn: &mut PgConnection, agent: &str, settings: &Settings) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- inboxes::set
         UPDATE inboxes SET settings = $2 WHERE agent_id = $1",
        agent,
        serde_json::to_string(settings)?
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Returns an open inbox.
pub(super) async fn find(conn: &mut PgConnection, agent: &str) -> Outcome<Option<Inbox>> {
    let row = sqlx::query!(
        "-- inboxes::find
         SELECT settings, opened_at, last_place, last_ring, entries, evicted FROM inboxes WHERE agent_id = $1",
        agent
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        Ok(Inbox {
            agent: agent.to_owned(),
            settings: settings_of(&row.settings)?,
            opened_at: row.opened_at,
            last_place: row.last_place,
            last_ring: row.last_ring,
            entries: row.entries,
            evicted: row.evicted,
        })
    })
    .transpose()
}

/// Deletes an inbox; returns whether it was open.
///
/// Entries are locked before the inbox, as by the sweeps; those that the follower adds in between are deleted after it.
pub(super) async fn close(conn: &mut PgConnection, agent: &str) -> Outcome<bool> {
    forget_entries(conn, agent).await?;
    let done = sqlx::query!("-- inboxes::close\n DELETE FROM inboxes WHERE agent_id = $1", agent)
        .execute(&mut *conn)
        .await?;
    forget_entries(conn, agent).await?;
    Ok(done.rows_affected() == 1)
}

async fn forget_entries(conn: &mut PgConnection, agent: &str) -> Outcome<()> {
    sqlx::query!("-- inbox_entries::close\n DELETE FROM inbox_entries WHERE agent_id = $1", agent)
        .execute(conn)
        .await?;
    Ok(())
}

/// Returns whether any inbox is open.
pub(super) async fn any(conn: &mut PgConnection) -> Outcome<bool> {
    let any = sqlx::query_scalar!(
        r#"-- inboxes::any
         SELECT EXISTS (SELECT 1 FROM inboxes) AS "any!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(any)
}

/// Returns a number for each of these inboxes that changes with each entry and each ring.
pub(super) async fn versions(conn: &mut PgConnection, agents: &[&str]) -> Outcome<Vec<(String, i64)>> {
    let rows = sqlx::query!(
        r#"-- inboxes::versions
         SELECT agent_id, last_place + last_ring AS "version!" FROM inboxes WHERE agent_id = ANY($1)"#,
        agents as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.agent_id, row.version)).collect())
}

/// Locks those of these agents' inboxes that are open, in the order of their names.
pub(super) async fn lock(conn: &mut PgConnection, agents: &[&str]) -> Outcome<HashMap<String, LockedInbox>> {
    if agents.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        "-- inboxes::lock
         SELECT agent_id, settings, opened_at, begins_global, begins_seq, begins_job, begins_job_seq, last_place, entries
         FROM inboxes WHERE agent_id = ANY($1) ORDER BY agent_id FOR UPDATE",
        agents as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let inbox = LockedInbox {
                settings: settings_of(&row.settings)?,
                opened_at: row.opened_at,
                begins: GlobalPosition { global: row.begins_global, seq: row.begins_seq },
                begins_job: (row.begins_job, row.begins_job_seq),
                last_place: row.last_place,
                entries: row.entries,
            };
            Ok((row.agent_id, inbox))
        })
        .collect()
}

/// Adds entries, whose places follow the last ones of their inboxes, and stores the new ends of these.
pub(super) async fn add(
    conn: &mut PgConnection,
    added: &[NewEntry],
    inboxes: &HashMap<String, LockedInbox>,
) -> Outcome<()> {
    if added.is_empty() {
        return Ok(());
    }
    let of = |entry: fn(&NewEntry) -> String| added.iter().map(entry).collect::<Vec<String>>();
    sqlx::query!(
        "-- inbox_entries::add
         INSERT INTO inbox_entries (agent_id, place, kind, what, ref, intent_id, channel_id, sender, attention, breaks_through,
                                    at, expires_at, rings_at)
         SELECT * FROM UNNEST($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[], $8::text[],
                              $9::text[], $10::boolean[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[])",
        &of(|one| one.agent.clone()),
        &added.iter().map(|one| one.entry.place).collect::<Vec<i64>>(),
        &of(|one| one.entry.kind.as_str().to_owned()),
        &of(|one| one.entry.what.clone()),
        &of(|one| one.entry.reference.clone()),
        &added.iter().map(|one| one.entry.intent_id.map(IntentId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &added.iter().map(|one| one.entry.channel_id.map(ChannelId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &added.iter().map(|one| one.entry.sender.clone()).collect::<Vec<_>>() as &[Option<String>],
        &of(|one| one.entry.attention.as_str().to_owned()),
        &added.iter().map(|one| one.entry.breaks_through).collect::<Vec<bool>>(),
        &added.iter().map(|one| one.entry.at).collect::<Vec<Timestamp>>(),
        &added.iter().map(|one| one.entry.expires_at).collect::<Vec<Timestamp>>(),
        &added.iter().map(|one| one.entry.rings_at).collect::<Vec<_>>() as &[Option<Timestamp>]
    )
    .execute(&mut *conn)
    .await?;
    let agents: Vec<&str> = inboxes.keys().map(String::as_str).collect();
    sqlx::query!(
        "-- inboxes::grow
         UPDATE inboxes i SET last_place = n.place, entries = n.entries
         FROM UNNEST($1::text[], $2::bigint[], $3::bigint[]) AS n (agent_id, place, entries) WHERE i.agent_id = n.agent_id",
        &agents as &[&str],
        &inboxes.values().map(|one| one.last_place).collect::<Vec<i64>>(),
        &inboxes.values().map(|one| one.entries).collect::<Vec<i64>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Notes that the envelopes of mailboxes have entries up to these numbers.
pub(super) async fn move_mail(conn: &mut PgConnection, reached: &[(String, i64)]) -> Outcome<()> {
    if reached.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- inboxes::move_mail
         UPDATE inboxes i SET mail_seq = n.seq FROM UNNEST($1::text[], $2::bigint[]) AS n (agent_id, seq)
         WHERE i.agent_id = n.agent_id",
        &reached.iter().map(|(agent, _)| agent.clone()).collect::<Vec<_>>(),
        &reached.iter().map(|(_, seq)| *seq).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Evicts entries of a full inbox, under its row's lock: first those that all its readers have seen, then the oldest of the
/// lowest level. Those that somebody is just marking stay until the next time.
pub(super) async fn evict(conn: &mut PgConnection, agent: &str, inbox: &mut LockedInbox) -> Outcome<()> {
    if inbox.entries <= ENTRIES {
        return Ok(());
    }
    let row = sqlx::query!(
        r#"-- inbox_entries::evict
         WITH seen AS (SELECT coalesce(min(place), 0) AS place FROM inbox_readers WHERE agent_id = $1),
         chosen AS (
             SELECT e.place FROM inbox_entries e, seen s WHERE e.agent_id = $1
             ORDER BY e.place > s.place, CASE e.attention WHEN 'digest' THEN 0 WHEN 'next' THEN 1 ELSE 2 END, e.place
             LIMIT $2 FOR UPDATE OF e SKIP LOCKED),
         gone AS (DELETE FROM inbox_entries e USING chosen c WHERE e.agent_id = $1 AND e.place = c.place RETURNING e.place)
         SELECT count(*) AS "gone!", count(*) FILTER (WHERE g.place > s.place) AS "unseen!"
         FROM gone g, seen s"#,
        agent,
        inbox.entries - ENTRIES_AFTER_CUT
    )
    .fetch_one(&mut *conn)
    .await?;
    inbox.entries -= row.gone;
    sqlx::query!(
        "-- inboxes::note_evicted
         UPDATE inboxes SET entries = $2, evicted = evicted + $3 WHERE agent_id = $1",
        agent,
        inbox.entries,
        row.unseen
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Selects whole entries.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT place, kind, what, ref AS reference, intent_id, channel_id, sender, attention, breaks_through, at, expires_at,
                    rings, rings_at
             FROM inbox_entries " + $rest
            $(, $argument)*
        )
    };
}

struct Row {
    place: i64,
    kind: String,
    what: String,
    reference: String,
    intent_id: Option<Uuid>,
    channel_id: Option<Uuid>,
    sender: Option<String>,
    attention: String,
    breaks_through: bool,
    at: Timestamp,
    expires_at: Timestamp,
    rings: i32,
    rings_at: Option<Timestamp>,
}

impl TryFrom<Row> for Entry {
    type Error = crate::AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            place: row.place,
            kind: EntryKind::parse(&row.kind).ok_or_else(|| unknown("kind of entry", &row.kind))?,
            what: row.what,
            reference: row.reference,
            intent_id: row.intent_id.map(IntentId::from),
            channel_id: row.channel_id.map(ChannelId::from),
            sender: row.sender,
            attention: Attention::parse(&row.attention)
                .ok_or_else(|| unknown("attention level", &row.attention))?,
            breaks_through: row.breaks_through,
            at: row.at,
            expires_at: row.expires_at,
            rings: row.rings,
            rings_at: row.rings_at,
        })
    }
}

/// The entries of an inbox that a read looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range<'a> {
    pub agent: &'a str,
    /// Entries after this place, up to the other one.
    pub after: i64,
    pub until: i64,
    pub now: Timestamp,
    /// Whether entries that should wake do not, except those that break through.
    pub is_quiet: bool,
}

pub(super) fn words(levels: &[Attention]) -> Vec<&'static str> {
    levels.iter().map(|level| level.as_str()).collect()
}

/// Returns the entries of these levels, in order.
pub(super) async fn page(
    conn: &mut PgConnection,
    range: Range<'_>,
    levels: &[Attention],
    limit: i64,
) -> Outcome<Vec<Entry>> {
    let rows = select!(
        "inbox_entries::page",
        "WHERE agent_id = $1 AND place > $2 AND place <= $3 AND expires_at > $4
           AND CASE WHEN attention = 'wake' AND $5 AND NOT breaks_through THEN 'next' ELSE attention END = ANY($6)
         ORDER BY place LIMIT $7",
        range.agent,
        range.after,
        range.until,
        range.now,
        range.is_quiet,
        &words(levels) as &[&str],
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// Returns entries up to a place that should wake and rang after a position, unless they were seen.
pub(super) async fn rung(
    conn: &mut PgConnection,
    range: Range<'_>,
    from: InboxCursor,
    limit: i64,
) -> Outcome<Vec<Entry>> {
    let rows = select!(
        "inbox_entries::rung",
        "WHERE agent_id = $1 AND ring > $2 AND ring > 0 AND place <= $3 AND place > $4 AND expires_at > $5
           AND (NOT $6 OR breaks_through)
         ORDER BY place LIMIT $7",
        range.agent,
        from.ring,
        from.place,
        range.after,
        range.now,
        range.is_quiet,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// Returns these entries.
pub(super) async fn at_places(conn: &mut PgConnection, agent: &str, places: &[i64]) -> Outcome<Vec<Entry>> {
    let rows = select!(
        "inbox_entries::at_places",
        "WHERE agent_id = $1 AND place = ANY($2) ORDER BY place DESC",
        agent,
        places
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// Returns the newest live entries of an inbox before a place, newest first.
pub(super) async fn newest(
    conn: &mut PgConnection,
    agent: &str,
    before: i64,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<Entry>> {
    let rows = select!(
        "inbox_entries::newest",
        "WHERE agent_id = $1 AND place < $2 AND expires_at > $3 ORDER BY place DESC LIMIT $4",
        agent,
        before,
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// Returns the newest live entries of an inbox that ring again, newest first.
pub(super) async fn armed(
    conn: &mut PgConnection,
    agent: &str,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<Entry>> {
    let rows = select!(
        "inbox_entries::armed",
        "WHERE agent_id = $1 AND rings_at IS NOT NULL AND expires_at > $2 ORDER BY place DESC LIMIT $3",
        agent,
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Entry::try_from).collect()
}

/// Returns the entries of the level `digest`, as far as they are counted.
pub(super) async fn digest(conn: &mut PgConnection, range: Range<'_>) -> Outcome<Vec<Counted>> {
    let rows = sqlx::query!(
        r#"-- inbox_entries::digest
         SELECT place, kind, coalesce(channel_id::text, sender, '') AS "source!" FROM inbox_entries
         WHERE agent_id = $1 AND place > $2 AND place <= $3 AND expires_at > $4 AND attention = 'digest'"#,
        range.agent,
        range.after,
        range.until,
        range.now
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let kind = EntryKind::parse(&row.kind).ok_or_else(|| unknown("kind of entry", &row.kind))?;
            Ok(Counted { place: row.place, kind, source: row.source })
        })
        .collect()
}

/// Returns the number of live entries in a range, and the place of the oldest live entry of the inbox.
pub(super) async fn count(conn: &mut PgConnection, range: Range<'_>) -> Outcome<(i64, Option<i64>)> {
    let row = sqlx::query!(
        r#"-- inbox_entries::count
         SELECT (SELECT count(*) FROM inbox_entries
                 WHERE agent_id = $1 AND place > $2 AND place <= $3 AND expires_at > $4) AS "count!",
                (SELECT place FROM inbox_entries WHERE agent_id = $1 AND expires_at > $4 ORDER BY place LIMIT 1) AS oldest"#,
        range.agent,
        range.after,
        range.until,
        range.now
    )
    .fetch_one(conn)
    .await?;
    Ok((row.count, row.oldest))
}

/// Disarms the entries of an inbox up to a place, because a reader has seen them.
pub(super) async fn disarm(conn: &mut PgConnection, agent: &str, place: i64) -> Outcome<()> {
    sqlx::query!(
        "-- inbox_entries::disarm
         UPDATE inbox_entries e SET rings_at = NULL
         FROM (SELECT place FROM inbox_entries WHERE agent_id = $1 AND place <= $2 AND rings_at IS NOT NULL
               ORDER BY place FOR UPDATE) AS seen
         WHERE e.agent_id = $1 AND e.place = seen.place",
        agent,
        place
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// An entry whose ring is due.
pub(super) struct DueRing {
    pub agent: String,
    pub place: i64,
    pub breaks_through: bool,
    pub kind: String,
    pub what: String,
    pub rings: i32,
    pub at: Timestamp,
}

/// Locks up to `limit` entries whose ring is due.
pub(super) async fn due_rings(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<DueRing>> {
    let rows = sqlx::query_as!(
        DueRing,
        "-- inbox_entries::due_rings
         SELECT agent_id AS agent, place, breaks_through, kind, what, rings, at FROM inbox_entries WHERE rings_at <= $1
         ORDER BY rings_at LIMIT $2 FOR UPDATE SKIP LOCKED",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Stores a ring of each of these entries: its number in the inbox, and when it rings next.
pub(super) async fn ring(conn: &mut PgConnection, rung: &[(DueRing, Option<Timestamp>)]) -> Outcome<()> {
    let agents: Vec<&str> = rung.iter().map(|(one, _)| one.agent.as_str()).collect();
    sqlx::query!(
        "-- inbox_entries::ring
         WITH due AS (SELECT * FROM UNNEST($1::text[], $2::bigint[], $3::timestamptz[]) AS d (agent_id, place, rings_at)),
         counted AS (UPDATE inboxes i SET last_ring = last_ring + 1
                     WHERE agent_id IN (SELECT agent_id FROM due) RETURNING agent_id, last_ring)
         UPDATE inbox_entries e SET rings = rings + 1, ring = coalesce(c.last_ring, 0), rings_at = d.rings_at
         FROM due d LEFT JOIN counted c USING (agent_id) WHERE e.agent_id = d.agent_id AND e.place = d.place",
        &agents as &[&str],
        &rung.iter().map(|(one, _)| one.place).collect::<Vec<_>>(),
        &rung.iter().map(|(_, next)| *next).collect::<Vec<_>>() as &[Option<Timestamp>]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` expired entries; returns their number.
pub(super) async fn expire(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let gone = sqlx::query_scalar!(
        r#"-- inbox_entries::expire
         WITH gone AS (DELETE FROM inbox_entries WHERE (agent_id, place) IN (
                           SELECT agent_id, place FROM inbox_entries WHERE expires_at <= $1
                           ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING agent_id),
         counted AS (SELECT agent_id, count(*) AS number FROM gone GROUP BY agent_id),
         done AS (UPDATE inboxes i SET entries = entries - c.number FROM counted c WHERE i.agent_id = c.agent_id)
         SELECT count(*) AS "count!" FROM gone"#,
        now,
        limit
    )
    .fetch_one(conn)
    .await?;
    Ok(u64::try_from(gone).unwrap_or(0))
}
