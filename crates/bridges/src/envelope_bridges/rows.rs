//! Rows of bridges: tables `aee_bridges` (the bridges) and `aee_bridged` (the items they carried).

use std::collections::{HashMap, HashSet};

use entente_aee::envelopes;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, JobId};
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use super::BridgeRecord;

struct Row {
    name: String,
    bridge: String,
    created_by: String,
    created_at: Timestamp,
    key_id: Uuid,
    agent: String,
    place: i64,
    salt: Vec<u8>,
    problem: Option<String>,
}

impl Row {
    fn kept(self) -> Outcome<BridgeRecord> {
        Ok(BridgeRecord {
            name: self.name,
            bridge: serde_json::from_str(&self.bridge)?,
            created_by: self.created_by,
            created_at: self.created_at,
            key_id: self.key_id.into(),
            agent: self.agent,
            place: self.place,
            salt: self.salt,
            problem: self.problem,
        })
    }
}

/// Loads whole bridges: takes the query's name and the text after `FROM aee_bridges b`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + r#"
             SELECT b.name, b.bridge, b.created_by, b.created_at, b.key_id, b.agent,
                    CASE WHEN b.bus IS NULL THEN b.place ELSE b.bus_place END AS "place!", b.salt, b.problem
             FROM aee_bridges b "# + $rest
            $(, $argument)*
        )
    };
}

/// Loads all bridges.
pub(super) async fn all(conn: &mut PgConnection) -> Outcome<Vec<BridgeRecord>> {
    let rows = select!("aee_bridges::all", "ORDER BY b.name").fetch_all(conn).await?;
    rows.into_iter().map(Row::kept).collect()
}

pub(super) async fn find(conn: &mut PgConnection, name: &str) -> Outcome<Option<BridgeRecord>> {
    let row = select!("aee_bridges::find", "WHERE b.name = $1", name).fetch_optional(conn).await?;
    row.map(Row::kept).transpose()
}

/// Returns the names of bridges with new items.
pub(super) async fn due(conn: &mut PgConnection, now: Timestamp) -> Outcome<Vec<String>> {
    let names = sqlx::query_scalar!(
        "-- aee_bridges::due
         SELECT b.name FROM aee_bridges b
         WHERE EXISTS (SELECT 1 FROM aee_mailboxes m WHERE m.entity = b.entity AND m.last_seq > b.place)
            OR EXISTS (SELECT 1 FROM aee_bus_order o WHERE o.bus = b.bus AND o.number > b.bus_place)
            OR EXISTS (SELECT 1 FROM log_unsequenced u WHERE u.bus = b.bus)
            OR EXISTS (SELECT 1 FROM aee_bridged d
                       LEFT JOIN aee_pairs p ON p.task_id = d.source AND p.respondent = b.entity
                       WHERE d.bridge = b.name AND d.what = 'letter' AND d.open AND d.job_id IS NULL
                         AND (p.task_id IS NULL OR p.status IN ('closed', 'timed_out')))
            OR EXISTS (SELECT 1 FROM messages s WHERE s.channel_id = b.channel_id AND s.number > b.place)
            OR EXISTS (SELECT 1 FROM aee_bridged d JOIN job_clock k ON k.job_id = d.job_id
                       WHERE d.bridge = b.name AND d.open AND (k.last_seq > d.told OR (
                           k.status IN ('pending', 'running') AND k.cancel_reason IS NULL AND EXISTS (
                               SELECT 1 FROM aee_pairs p WHERE p.task_id = d.source AND p.respondent = b.entity
                                 AND (p.status IN ('closed', 'timed_out') OR p.deadline <= $1)))))
         ORDER BY b.name",
        now
    );
    Ok(names.fetch_all(conn).await?)
}

/// The source of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BridgeSource<'a> {
    pub entity: Option<&'a str>,
    pub bus: Option<&'a str>,
    pub channel: Option<ChannelId>,
}

/// Inserts or updates a bridge.
pub(super) async fn put(
    conn: &mut PgConnection,
    kept: &BridgeRecord,
    source: &BridgeSource<'_>,
) -> Outcome<()> {
    sqlx::query!(
        "-- aee_bridges::put
         INSERT INTO aee_bridges (name, bridge, created_by, created_at, key_id, agent, entity, bus, channel_id, place,
             bus_place, salt)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (name) DO UPDATE SET bridge = excluded.bridge, created_by = excluded.created_by,
             key_id = excluded.key_id, agent = excluded.agent, entity = excluded.entity, bus = excluded.bus,
             channel_id = excluded.channel_id, place = excluded.place, bus_place = excluded.bus_place, salt = excluded.salt,
             problem = NULL",
        kept.name,
        serde_json::to_string(&kept.bridge)?,
        kept.created_by,
        kept.created_at,
        kept.key_id.uuid(),
        kept.agent,
        source.entity,
        source.bus,
        source.channel.map(ChannelId::uuid),
        // A server of the release before finds nothing on the bus after this; its places there were transactions.
        if source.bus.is_some() { i64::MAX } else { kept.place },
        if source.bus.is_some() { kept.place } else { 0 },
        kept.salt
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes a bridge; returns whether it existed.
pub(super) async fn delete(conn: &mut PgConnection, name: &str) -> Outcome<bool> {
    let done = sqlx::query!("-- aee_bridges::delete\n DELETE FROM aee_bridges WHERE name = $1", name);
    Ok(done.execute(conn).await?.rows_affected() > 0)
}

/// Stops following the bridge's jobs; records of carried items stay as long as the envelopes, so that a later
/// bridge of the same name does not carry them again.
pub(super) async fn leave(conn: &mut PgConnection, name: &str) -> Outcome<()> {
    sqlx::query!(
        "-- aee_bridged::leave\n UPDATE aee_bridged SET open = false WHERE bridge = $1 AND open",
        name
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the end of the order over the envelopes to buses.
pub(super) async fn bus_end(conn: &mut PgConnection) -> Outcome<i64> {
    let end = sqlx::query_scalar!(
        r#"-- aee_bridges::bus_end
         SELECT bus_end() AS "end!""#
    );
    Ok(end.fetch_one(conn).await?)
}

/// Stores a bridge's position, which never goes back.
pub(super) async fn advance(conn: &mut PgConnection, kept: &BridgeRecord, place: i64) -> Outcome<()> {
    sqlx::query!(
        "-- aee_bridges::advance
         UPDATE aee_bridges SET place = CASE WHEN bus IS NULL THEN $3 ELSE place END,
                bus_place = CASE WHEN bus IS NULL THEN bus_place ELSE $3 END, problem = NULL
         WHERE name = $1 AND salt = $2 AND CASE WHEN bus IS NULL THEN place ELSE bus_place END < $3",
        kept.name,
        kept.salt,
        place
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores why a bridge is paused, or that it is not.
pub(super) async fn say(conn: &mut PgConnection, name: &str, problem: Option<&str>) -> Outcome<()> {
    sqlx::query!("-- aee_bridges::say\n UPDATE aee_bridges SET problem = $2 WHERE name = $1", name, problem)
        .execute(conn)
        .await?;
    Ok(())
}

/// The item that a bridge carried; each kind has its own namespace, because senders choose the ids of
/// envelopes and may imitate another kind's.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// An envelope.
    Envelope(&'a str),
    /// An event of a job.
    Event(&'a str),
    /// A message.
    Message(&'a str),
    /// An envelope that the bridge sent and the gateway replaced by another.
    Made(&'a str),
}

impl<'a> Source<'a> {
    fn parts(self) -> (&'static str, &'a str) {
        match self {
            Self::Envelope(id) => ("letter", id),
            Self::Event(id) => ("event", id),
            Self::Message(id) => ("message", id),
            Self::Made(id) => ("made", id),
        }
    }
}

/// An item that a bridge carried, and its result.
pub(super) struct Carried<'a> {
    pub bridge: &'a str,
    pub source: Source<'a>,
    pub target: &'a str,
    pub at: Timestamp,
    /// The job whose events are to be reported.
    pub job: Option<JobId>,
}

/// Records a carried item; returns false if it was recorded before.
pub(super) async fn carried(conn: &mut PgConnection, one: &Carried<'_>) -> Outcome<bool> {
    let (what, source) = one.source.parts();
    let done = sqlx::query!(
        "-- aee_bridged::insert
         INSERT INTO aee_bridged (bridge, what, source, target, at, job_id, open) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT DO NOTHING",
        one.bridge,
        what,
        source,
        one.target,
        one.at,
        one.job.map(JobId::uuid),
        one.job.is_some()
    );
    Ok(done.execute(conn).await?.rows_affected() > 0)
}

/// Returns the envelope that a bridge made of a message.
pub(super) async fn target(conn: &mut PgConnection, bridge: &str, message: &str) -> Outcome<Option<String>> {
    let target = sqlx::query_scalar!(
        "-- aee_bridged::target
         SELECT target FROM aee_bridged WHERE bridge = $1 AND what = 'message' AND source = $2",
        bridge,
        message
    );
    Ok(target.fetch_optional(conn).await?)
}

/// Returns those of these ids that a bridge made.
pub(super) async fn made(conn: &mut PgConnection, targets: &[&str]) -> Outcome<Vec<String>> {
    let made = sqlx::query_scalar!(
        "-- aee_bridged::made\n SELECT DISTINCT target FROM aee_bridged WHERE target = ANY($1)",
        targets as &[&str]
    );
    Ok(made.fetch_all(conn).await?)
}

/// Returns those of these envelopes that bridges made, or that replace one that a bridge made.
pub(super) async fn of_bridges(
    conn: &mut PgConnection,
    envelopes: &HashMap<String, envelopes::StoredEnvelope>,
) -> Outcome<HashSet<String>> {
    let made = made(conn, &with_originals(envelopes)).await?;
    Ok(derived(envelopes, &made.into_iter().collect()))
}

/// As [`of_bridges`], only of those made from messages: a mirror shows no message again, but the answers of jobs.
pub(super) async fn of_messages(
    conn: &mut PgConnection,
    envelopes: &HashMap<String, envelopes::StoredEnvelope>,
) -> Outcome<HashSet<String>> {
    let asked = with_originals(envelopes);
    let made = sqlx::query_scalar!(
        "-- aee_bridged::of_messages
         SELECT DISTINCT d.target FROM aee_bridged d
         WHERE d.target = ANY($1) AND (d.what = 'message' OR (d.what = 'made' AND EXISTS (
             SELECT 1 FROM aee_bridged o WHERE o.target = d.source AND o.what = 'message')))",
        &asked as &[&str]
    );
    Ok(derived(envelopes, &made.fetch_all(conn).await?.into_iter().collect()))
}

/// Returns the ids of these envelopes, and of those that they replace.
fn with_originals(envelopes: &HashMap<String, envelopes::StoredEnvelope>) -> Vec<&str> {
    let originals = envelopes.values().filter_map(|envelope| envelope.original_id.as_deref());
    envelopes.keys().map(String::as_str).chain(originals).collect()
}

/// Selects the envelopes that are among `made`, or that replace one of these.
fn derived(
    envelopes: &HashMap<String, envelopes::StoredEnvelope>,
    made: &HashSet<String>,
) -> HashSet<String> {
    let is_made = |envelope: &&envelopes::StoredEnvelope| {
        made.contains(&envelope.id) || envelope.original_id.as_ref().is_some_and(|of| made.contains(of))
    };
    envelopes.values().filter(is_made).map(|envelope| envelope.id.clone()).collect()
}

/// Returns the job that an envelope reports on, if a bridge made it from a job's event.
pub(super) async fn job_of(conn: &mut PgConnection, envelope: &str) -> Outcome<Option<String>> {
    let source = sqlx::query_scalar!(
        "-- aee_bridged::job_of\n SELECT source FROM aee_bridged WHERE target = $1 AND what = 'event' LIMIT 1",
        envelope
    );
    let source = source.fetch_optional(conn).await?;
    Ok(source.and_then(|source| source.split_once('/').map(|(job, _event)| job.to_owned())))
}

/// Target of an envelope that another mirror shows on the channel; no message has such an id.
pub(super) const ELSEWHERE: &str = "shown: by another bridge";

/// Whether another mirror shows an envelope on a channel.
pub(super) async fn shown_on(
    conn: &mut PgConnection,
    bridge: &str,
    envelope: &str,
    channel: ChannelId,
) -> Outcome<bool> {
    let shown = sqlx::query_scalar!(
        r#"-- aee_bridged::shown_on
         SELECT EXISTS (
             SELECT 1 FROM aee_bridges b JOIN aee_bridged d ON d.bridge = b.name AND d.what = 'letter' AND d.source = $2
             WHERE b.name <> $1 AND b.bridge::jsonb ->> 'kind' = 'mirror' AND b.bridge::jsonb ->> 'channel_id' = $3
               AND strpos(d.target, ':') = 0) AS "shown!""#,
        bridge,
        envelope,
        channel.to_string()
    );
    Ok(shown.fetch_one(conn).await?)
}

/// Notes that a mirrored task's answer is to be shown too.
pub(super) async fn expect_answer(conn: &mut PgConnection, bridge: &str, task: &str) -> Outcome<()> {
    sqlx::query!(
        "-- aee_bridged::expect_answer
         UPDATE aee_bridged SET open = true WHERE bridge = $1 AND what = 'letter' AND source = $2 AND job_id IS NULL",
        bridge,
        task
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Waits no longer for the answers to the oldest mirrored tasks, beyond the `most` latest ones.
pub(super) async fn expect_no_more(conn: &mut PgConnection, bridge: &str, most: i64) -> Outcome<()> {
    sqlx::query!(
        "-- aee_bridged::expect_no_more
         UPDATE aee_bridged SET open = false WHERE bridge = $1 AND what = 'letter' AND source IN (
             SELECT source FROM aee_bridged WHERE bridge = $1 AND what = 'letter' AND open AND job_id IS NULL
             ORDER BY at DESC, source DESC OFFSET $2)",
        bridge,
        most
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A mirrored task that is over, with the envelope that ended it, if there is one.
pub(super) struct Over {
    pub task: String,
    pub answer: Option<String>,
}

/// Returns mirrored tasks that are over while their answers were not shown yet.
pub(super) async fn over(
    conn: &mut PgConnection,
    bridge: &str,
    entity: &str,
    limit: i64,
) -> Outcome<Vec<Over>> {
    let rows = sqlx::query_as!(
        Over,
        r#"-- aee_bridged::over
         SELECT d.source AS task, p.ended_by AS "answer?" FROM aee_bridged d
         LEFT JOIN aee_pairs p ON p.task_id = d.source AND p.respondent = $2
         WHERE d.bridge = $1 AND d.what = 'letter' AND d.open AND d.job_id IS NULL
           AND (p.task_id IS NULL OR p.status IN ('closed', 'timed_out'))
         ORDER BY d.source LIMIT $3"#,
        bridge,
        entity,
        limit
    );
    Ok(rows.fetch_all(conn).await?)
}

/// A task that became a job whose end was not reported yet; `told` is the last reported event.
pub(super) struct Open {
    pub source: String,
    pub job_id: JobId,
    pub told: i64,
}

struct OpenRow {
    source: String,
    job_id: Uuid,
    told: i64,
}

impl From<OpenRow> for Open {
    fn from(row: OpenRow) -> Self {
        Self { source: row.source, job_id: row.job_id.into(), told: row.told }
    }
}

/// Returns tasks whose jobs have unreported events.
pub(super) async fn news(conn: &mut PgConnection, bridge: &str, limit: i64) -> Outcome<Vec<String>> {
    let sources = sqlx::query_scalar!(
        "-- aee_bridged::news
         SELECT d.source FROM aee_bridged d JOIN job_clock k ON k.job_id = d.job_id
         WHERE d.bridge = $1 AND d.open AND k.last_seq > d.told ORDER BY d.source LIMIT $2",
        bridge,
        limit
    );
    Ok(sources.fetch_all(conn).await?)
}

/// Returns tasks that were answered or expired while their jobs continue.
pub(super) async fn stale(
    conn: &mut PgConnection,
    bridge: &str,
    entity: &str,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<Open>> {
    let rows = sqlx::query_as!(
        OpenRow,
        r#"-- aee_bridged::stale
         SELECT d.source, d.job_id AS "job_id!", d.told FROM aee_bridged d JOIN job_clock k ON k.job_id = d.job_id
         JOIN aee_pairs p ON p.task_id = d.source AND p.respondent = $2
         WHERE d.bridge = $1 AND d.open AND k.status IN ('pending', 'running') AND k.cancel_reason IS NULL
           AND (p.status IN ('closed', 'timed_out') OR p.deadline <= $3)
         ORDER BY d.source LIMIT $4"#,
        bridge,
        entity,
        now,
        limit
    );
    Ok(rows.fetch_all(conn).await?.into_iter().map(Open::from).collect())
}

/// Locks a task that became a job, before its events are reported.
pub(super) async fn lock(conn: &mut PgConnection, bridge: &str, source: &str) -> Outcome<Option<Open>> {
    let row = sqlx::query_as!(
        OpenRow,
        r#"-- aee_bridged::lock
         SELECT source, job_id AS "job_id!", told FROM aee_bridged
         WHERE bridge = $1 AND what = 'letter' AND source = $2 AND open AND job_id IS NOT NULL FOR UPDATE"#,
        bridge,
        source
    );
    Ok(row.fetch_optional(conn).await?.map(Open::from))
}

/// Stores the last reported event of a job, and whether more may follow.
pub(super) async fn tell(
    conn: &mut PgConnection,
    bridge: &str,
    source: &str,
    told: i64,
    open: bool,
) -> Outcome<()> {
    sqlx::query!(
        "-- aee_bridged::tell
         UPDATE aee_bridged SET told = $3, open = $4 WHERE bridge = $1 AND what = 'letter' AND source = $2",
        bridge,
        source,
        told,
        open
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes records of items carried before a moment; returns how many, up to `limit`.
pub(super) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- aee_bridged::forget
         WITH old AS (SELECT bridge, what, source FROM aee_bridged WHERE at < $1 AND NOT open ORDER BY at LIMIT $2
                      FOR UPDATE SKIP LOCKED)
         DELETE FROM aee_bridged d USING old
         WHERE d.bridge = old.bridge AND d.what = old.what AND d.source = old.source",
        before,
        limit
    );
    Ok(done.execute(conn).await?.rows_affected())
}
