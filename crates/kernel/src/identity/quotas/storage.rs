//! Counts the bytes that principals store, behind the writes: nothing is added to the writers' transactions. Tables
//! `stored_parts`, `stored_totals` and `storage_clock`.
//!
//! One server at a time walks over all parts of the stored data, about once a minute: channels, jobs, hours of envelopes and
//! thousands of log lines. A part is counted again only if its stamp changed: its first and last numbers, since retention
//! deletes from the front. So a walk costs a few look-ups for each part, a part's bytes are read when there is something new in
//! it, and deleted data is free after the next walk. It needs no memory of single messages, and corrects itself.
//!
//! Counted are the texts of others' data: payload and metadata of messages, bodies of envelopes and log lines, inputs, events,
//! results and checkpoints of jobs. Agents' memory has limits of its own; attachments are references.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::identity::quotas::difference;
use sqlx::PgConnection;
use tokio::time::sleep;
use uuid::Uuid;

use crate::{Ctx, Outcome, Tx};

/// Least time between two walks.
const PAUSE: TimeDelta = TimeDelta::seconds(50);

/// Time after which a run leaves the rest of the walk to the next one: it takes a turn of the sweeps.
const RUN: Duration = Duration::from_secs(10);

/// Seconds of the envelopes that are counted together.
const HOUR: i64 = 3_600;

/// Log lines that are counted together.
const LINES: i64 = 1_000;

/// A kind of stored data, by the way it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Channels,
    Jobs,
    Envelopes,
    LogLines,
}

/// A part of the stored data as it is; without a stamp it is empty.
struct Part {
    name: String,
    stamp: Option<String>,
}

/// The last count of a part.
struct Counted {
    stamp: String,
    sums: BTreeMap<String, i64>,
}

/// The bytes of one principal in a part.
struct Share {
    part: String,
    principal: String,
    bytes: i64,
}

impl Source {
    const ALL: [Self; 4] = [Self::Channels, Self::Jobs, Self::Envelopes, Self::LogLines];

    fn word(self) -> &'static str {
        match self {
            Self::Channels => "channel",
            Self::Jobs => "job",
            Self::Envelopes => "envelopes",
            Self::LogLines => "log_lines",
        }
    }

    fn parse(word: &str) -> Outcome<Self> {
        let known = Self::ALL.into_iter().find(|source| source.word() == word);
        known.ok_or_else(|| crate::unknown("source of stored bytes", word))
    }

    fn next(self) -> Option<Self> {
        Self::ALL.into_iter().skip_while(|source| *source != self).nth(1)
    }

    /// Parts of one step, so that none takes long even if all are new.
    fn step(self) -> i64 {
        match self {
            Self::Channels | Self::Jobs => 500,
            Self::Envelopes => 24,
            Self::LogLines => 20,
        }
    }

    async fn parts(self, conn: &mut PgConnection, after: &str, now: Timestamp) -> Outcome<Vec<Part>> {
        match self {
            Self::Channels => channels(conn, id(after), self.step()).await,
            Self::Jobs => jobs(conn, id(after), self.step()).await,
            Self::Envelopes => hours(conn, number(after), self.step(), now).await,
            Self::LogLines => lines(conn, number(after), self.step()).await,
        }
    }

    async fn count(self, conn: &mut PgConnection, parts: &[&str]) -> Outcome<Vec<Share>> {
        let ids = || parts.iter().map(|part| id(part)).collect::<Vec<Uuid>>();
        let numbers = || parts.iter().map(|part| number(part)).collect::<Vec<i64>>();
        match self {
            Self::Channels => in_channels(conn, &ids()).await,
            Self::Jobs => in_jobs(conn, &ids()).await,
            Self::Envelopes => in_hours(conn, &numbers()).await,
            Self::LogLines => in_lines(conn, &numbers()).await,
        }
    }
}

/// The id of a part; nil before the first.
fn id(part: &str) -> Uuid {
    part.parse().unwrap_or(Uuid::nil())
}

/// The number of a part; -1 before the first.
fn number(part: &str) -> i64 {
    part.parse().unwrap_or(-1)
}

/// Walks on, if the last walk is long enough ago and no other server walks; returns how many parts have changed.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn count(ctx: &Ctx) -> Outcome<u64> {
    if !ctx.quotas.counts_storage() {
        return Ok(0);
    }
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < RUN {
        let step_began = Instant::now();
        let mut tx = ctx.pool.begin().await?;
        let Some((source, after)) = place(&mut tx, ctx.now()).await? else { break };
        let (changed, next) = step(&mut tx, source, &after, ctx.now()).await?;
        done += changed;
        let over = leave(tx, ctx.now(), changed > 0, source, next).await?;
        if over {
            ctx.quotas.refresh(ctx).await?;
            break;
        }
        // Nothing waits for the count: it works half of the time at most.
        sleep(step_began.elapsed()).await;
    }
    Ok(done)
}

/// Returns the place of the walk, and locks it; `None` if no walk is due, or another server walks.
async fn place(conn: &mut PgConnection, now: Timestamp) -> Outcome<Option<(Source, String)>> {
    let row = sqlx::query!(
        "-- storage::place
         SELECT source, after FROM storage_clock
         WHERE counted_at IS NULL OR counted_at <= $1 OR source <> 'channel' OR after <> ''
         FOR UPDATE SKIP LOCKED",
        now - PAUSE
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| Ok((Source::parse(&row.source)?, row.after))).transpose()
}

/// Notes the place and commits; returns whether the walk is over.
async fn leave(
    mut tx: Tx,
    now: Timestamp,
    changed: bool,
    source: Source,
    next: Option<String>,
) -> Outcome<bool> {
    let goes_on = next.map(|after| (source, after)).or(source.next().map(|source| (source, String::new())));
    if let Some((source, after)) = &goes_on {
        sqlx::query!(
            "-- storage::go_on\n UPDATE storage_clock SET source = $1, after = $2, changed = changed OR $3",
            source.word(),
            after,
            changed
        )
        .execute(&mut *tx)
        .await?;
    } else {
        sqlx::query!(
            "-- storage::end
             UPDATE storage_clock SET source = 'channel', after = '', changed = false, counted_at = $1,
                 laps = laps + (changed OR $2 OR counted_at IS NULL)::integer",
            now,
            changed
        )
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(goes_on.is_none())
}

/// Counts the next parts of a source; returns how many have changed, and the last one if there are more.
async fn step(
    conn: &mut PgConnection,
    source: Source,
    after: &str,
    now: Timestamp,
) -> Outcome<(u64, Option<String>)> {
    let parts = source.parts(conn, after, now).await?;
    let has_more = parts.len() as u64 >= source.step().unsigned_abs();
    let last = parts.last().map(|part| part.name.clone()).filter(|_| has_more);
    let mut known = known(conn, source, after, last.as_deref()).await?;
    let stale = |part: &&Part| {
        part.stamp.is_some() && part.stamp.as_ref() != known.get(&part.name).map(|counted| &counted.stamp)
    };
    let stale: Vec<&Part> = parts.iter().filter(stale).collect();
    let names: Vec<&str> = stale.iter().map(|part| part.name.as_str()).collect();
    let shares = if names.is_empty() { Vec::new() } else { source.count(conn, &names).await? };
    let mut sums: HashMap<String, BTreeMap<String, i64>> = HashMap::new();
    for share in shares {
        sums.entry(share.part).or_default().insert(share.principal, share.bytes);
    }
    let mut changes: BTreeMap<String, i64> = BTreeMap::new();
    let mut written: Vec<(&str, &str, BTreeMap<String, i64>)> = Vec::new();
    for part in stale {
        let (before, after) = (known.remove(&part.name), sums.remove(&part.name).unwrap_or_default());
        let before = before.map(|counted| counted.sums).unwrap_or_default();
        add(&mut changes, difference(&before, &after));
        written.push((&part.name, part.stamp.as_deref().unwrap_or_default(), after));
    }
    parts.iter().filter(|part| part.stamp.is_some()).for_each(|part| {
        known.remove(&part.name);
    });
    // The parts left were counted and are empty or gone.
    known.values().for_each(|gone| add(&mut changes, difference(&gone.sums, &BTreeMap::new())));
    let gone: Vec<String> = known.into_keys().collect();
    let changed = (written.len() + gone.len()) as u64;
    save(conn, source, &written, &gone, &changes).await?;
    Ok((changed, last))
}

fn add(changes: &mut BTreeMap<String, i64>, more: BTreeMap<String, i64>) {
    for (principal, change) in more {
        *changes.entry(principal).or_default() += change;
    }
}

/// Returns the last counts of the parts after one, up to another.
async fn known(
    conn: &mut PgConnection,
    source: Source,
    after: &str,
    last: Option<&str>,
) -> Outcome<HashMap<String, Counted>> {
    let rows = sqlx::query!(
        "-- storage::known
         SELECT part, stamp, sums FROM stored_parts WHERE source = $1 AND part > $2 AND ($3::text IS NULL OR part <= $3)",
        source.word(),
        after,
        last
    )
    .fetch_all(conn)
    .await?;
    let rows = rows
        .into_iter()
        .map(|row| Ok((row.part, Counted { stamp: row.stamp, sums: serde_json::from_str(&row.sums)? })));
    rows.collect()
}

async fn save(
    conn: &mut PgConnection,
    source: Source,
    written: &[(&str, &str, BTreeMap<String, i64>)],
    gone: &[String],
    changes: &BTreeMap<String, i64>,
) -> Outcome<()> {
    if written.is_empty() && gone.is_empty() {
        return Ok(());
    }
    let sums = written.iter().map(|one| serde_json::to_string(&one.2));
    sqlx::query!(
        "-- storage::save_parts
         WITH gone AS (DELETE FROM stored_parts WHERE source = $1 AND part = ANY($2))
         INSERT INTO stored_parts (source, part, stamp, sums)
         SELECT $1, p.part, p.stamp, p.sums FROM UNNEST($3::text[], $4::text[], $5::text[]) AS p (part, stamp, sums)
         ON CONFLICT (source, part) DO UPDATE SET stamp = excluded.stamp, sums = excluded.sums",
        source.word(),
        gone,
        &written.iter().map(|one| one.0).collect::<Vec<_>>() as &[&str],
        &written.iter().map(|one| one.1).collect::<Vec<_>>() as &[&str],
        &sums.collect::<Result<Vec<String>, _>>()?
    )
    .execute(&mut *conn)
    .await?;
    let (principals, changes): (Vec<&str>, Vec<i64>) =
        changes.iter().map(|change| (change.0.as_str(), *change.1)).unzip();
    sqlx::query!(
        "-- storage::save_totals
         INSERT INTO stored_totals (principal_id, bytes)
         SELECT * FROM UNNEST($1::text[], $2::bigint[]) AS c (principal_id, bytes)
         ON CONFLICT (principal_id) DO UPDATE SET bytes = stored_totals.bytes + excluded.bytes",
        &principals as &[&str],
        &changes
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the bytes that each principal stores.
///
/// # Errors
/// A database error.
pub(super) async fn totals(conn: &mut PgConnection) -> Outcome<HashMap<String, u64>> {
    let rows =
        sqlx::query!("-- storage::totals\n SELECT principal_id, bytes FROM stored_totals WHERE bytes > 0")
            .fetch_all(conn)
            .await?;
    Ok(rows.into_iter().map(|row| (row.principal_id, row.bytes.unsigned_abs())).collect())
}

/// Returns when storage was last counted, and the bytes that these principals store together.
///
/// # Errors
/// A database error.
pub(super) async fn sum(conn: &mut PgConnection, principals: &[String]) -> Outcome<(Option<Timestamp>, u64)> {
    let row = sqlx::query!(
        r#"-- storage::sum
         SELECT (SELECT counted_at FROM storage_clock) AS counted_at,
                coalesce((SELECT sum(bytes) FROM stored_totals WHERE principal_id = ANY($1)), 0)::bigint AS "bytes!""#,
        principals
    )
    .fetch_one(conn)
    .await?;
    Ok((row.counted_at, u64::try_from(row.bytes).unwrap_or(0)))
}

async fn channels(conn: &mut PgConnection, after: Uuid, limit: i64) -> Outcome<Vec<Part>> {
    let rows = sqlx::query_as!(
        Part,
        r#"-- storage::channels
         SELECT c.id::text AS "name!", f.number || ':' || l.number AS stamp
         FROM (SELECT id FROM channels WHERE id > $1 ORDER BY id LIMIT $2) c
         LEFT JOIN LATERAL (SELECT number FROM messages WHERE channel_id = c.id ORDER BY number LIMIT 1) f ON true
         LEFT JOIN LATERAL (SELECT number FROM messages WHERE channel_id = c.id ORDER BY number DESC LIMIT 1) l ON true
         ORDER BY c.id"#,
        after,
        limit
    );
    Ok(rows.fetch_all(conn).await?)
}

async fn in_channels(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<Vec<Share>> {
    let rows = sqlx::query_as!(
        Share,
        r#"-- storage::in_channels
         SELECT s.channel_id::text AS "part!", coalesce(s.principal_id, p.id, a.principal_id, s.sender) AS "principal!",
                sum(s.bytes)::bigint AS "bytes!"
         FROM (SELECT channel_id, principal_id, sender,
                      sum(octet_length(payload) + coalesce(octet_length(metadata), 0)) AS bytes
               FROM messages WHERE channel_id = ANY($1) GROUP BY 1, 2, 3) s
         LEFT JOIN principals p ON p.id = s.sender LEFT JOIN agents a ON a.agent_id = s.sender
         GROUP BY 1, 2"#,
        ids
    );
    Ok(rows.fetch_all(conn).await?)
}

async fn jobs(conn: &mut PgConnection, after: Uuid, limit: i64) -> Outcome<Vec<Part>> {
    let rows = sqlx::query_as!(
        Part,
        r#"-- storage::jobs
         SELECT j.id::text AS "name!",
                coalesce(f.job_seq, 0) || ':' || coalesce(k.last_seq, 0) || ':' || coalesce(octet_length(s.body), 0) AS stamp
         FROM (SELECT id FROM jobs WHERE id > $1 ORDER BY id LIMIT $2) j
         LEFT JOIN job_clock k ON k.job_id = j.id
         LEFT JOIN job_checkpoints s ON s.job_id = j.id
         LEFT JOIN LATERAL (SELECT job_seq FROM job_events WHERE job_id = j.id ORDER BY job_seq LIMIT 1) f ON true
         ORDER BY j.id"#,
        after,
        limit
    );
    Ok(rows.fetch_all(conn).await?)
}

async fn in_jobs(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<Vec<Share>> {
    let rows = sqlx::query_as!(
        Share,
        r#"-- storage::in_jobs
         SELECT j.id::text AS "part!", coalesce(j.owner, p.id, a.principal_id, j.principal) AS "principal!",
                (coalesce(octet_length(j.input), 0) + coalesce(octet_length(s.body), 0) + coalesce(
                    (SELECT sum(octet_length(e.body)) FROM job_events e WHERE e.job_id = j.id), 0))::bigint AS "bytes!"
         FROM jobs j LEFT JOIN job_checkpoints s ON s.job_id = j.id
         LEFT JOIN principals p ON p.id = j.principal LEFT JOIN agents a ON a.agent_id = j.principal
         WHERE j.id = ANY($1)"#,
        ids
    );
    Ok(rows.fetch_all(conn).await?)
}

/// Hours since 1970 that have envelopes. The present one and the one before may get more at the same instant, so theirs are
/// counted.
async fn hours(conn: &mut PgConnection, after: i64, limit: i64, now: Timestamp) -> Outcome<Vec<Part>> {
    let rows = sqlx::query_as!(
        Part,
        r#"-- storage::hours
         SELECT lpad(h.hour::text, 16, '0') AS "name!", CASE WHEN f.at IS NULL THEN NULL
                WHEN h.hour >= $3 THEN (SELECT count(*)::text FROM aee_envelopes WHERE received_at >= to_timestamp(h.hour * $4::bigint)
                                          AND received_at < to_timestamp((h.hour + 1) * $4::bigint))
                ELSE extract(epoch FROM f.at) || ':' || extract(epoch FROM l.at) END AS stamp
         FROM (SELECT floor(extract(epoch FROM min(received_at)) / $4::bigint)::bigint AS first,
                      floor(extract(epoch FROM max(received_at)) / $4::bigint)::bigint AS last FROM aee_envelopes) e
         CROSS JOIN LATERAL generate_series(greatest($1::bigint + 1, e.first),
                                            least(greatest($1::bigint + 1, e.first) + $2::bigint - 1, e.last)) AS h (hour)
         LEFT JOIN LATERAL (SELECT received_at AS at FROM aee_envelopes
                            WHERE received_at >= to_timestamp(h.hour * $4::bigint) AND received_at < to_timestamp((h.hour + 1) * $4::bigint)
                            ORDER BY received_at LIMIT 1) f ON true
         LEFT JOIN LATERAL (SELECT received_at AS at FROM aee_envelopes
                            WHERE received_at >= to_timestamp(h.hour * $4::bigint) AND received_at < to_timestamp((h.hour + 1) * $4::bigint)
                            ORDER BY received_at DESC LIMIT 1) l ON true
         WHERE e.first IS NOT NULL ORDER BY h.hour"#,
        after,
        limit,
        now.timestamp().div_euclid(HOUR) - 1,
        HOUR
    );
    Ok(rows.fetch_all(conn).await?)
}

async fn in_hours(conn: &mut PgConnection, hours: &[i64]) -> Outcome<Vec<Share>> {
    let rows = sqlx::query_as!(
        Share,
        r#"-- storage::in_hours
         SELECT lpad(h.hour::text, 16, '0') AS "part!", e.principal_id AS "principal!",
                sum(octet_length(e.body))::bigint AS "bytes!"
         FROM UNNEST($1::bigint[]) AS h (hour)
         JOIN aee_envelopes e ON e.received_at >= to_timestamp(h.hour * $2::bigint) AND e.received_at < to_timestamp((h.hour + 1) * $2::bigint)
         WHERE e.principal_id IS NOT NULL GROUP BY 1, 2"#,
        hours,
        HOUR
    );
    Ok(rows.fetch_all(conn).await?)
}

/// Thousands of log lines. Of the last two, a line may be committed after one with a higher number, so theirs are counted.
async fn lines(conn: &mut PgConnection, after: i64, limit: i64) -> Outcome<Vec<Part>> {
    let rows = sqlx::query_as!(
        Part,
        r#"-- storage::lines
         SELECT lpad(t.thousand::text, 16, '0') AS "name!", CASE WHEN f.seq IS NULL THEN NULL
                WHEN t.thousand >= e.last - 1 THEN (
                    SELECT count(*)::text FROM aee_logs WHERE seq >= t.thousand * $3::bigint AND seq < (t.thousand + 1) * $3::bigint)
                ELSE f.seq || ':' || l.seq END AS stamp
         FROM (SELECT min(seq) / $3::bigint AS first, max(seq) / $3::bigint AS last FROM aee_logs) e
         CROSS JOIN LATERAL generate_series(greatest($1::bigint + 1, e.first),
                                            least(greatest($1::bigint + 1, e.first) + $2::bigint - 1, e.last)) AS t (thousand)
         LEFT JOIN LATERAL (SELECT seq FROM aee_logs WHERE seq >= t.thousand * $3::bigint AND seq < (t.thousand + 1) * $3::bigint
                            ORDER BY seq LIMIT 1) f ON true
         LEFT JOIN LATERAL (SELECT seq FROM aee_logs WHERE seq >= t.thousand * $3::bigint AND seq < (t.thousand + 1) * $3::bigint
                            ORDER BY seq DESC LIMIT 1) l ON true
         WHERE e.first IS NOT NULL ORDER BY t.thousand"#,
        after,
        limit,
        LINES
    );
    Ok(rows.fetch_all(conn).await?)
}

async fn in_lines(conn: &mut PgConnection, thousands: &[i64]) -> Outcome<Vec<Share>> {
    let rows = sqlx::query_as!(
        Share,
        r#"-- storage::in_lines
         SELECT lpad(t.thousand::text, 16, '0') AS "part!", l.principal_id AS "principal!",
                sum(octet_length(l.body))::bigint AS "bytes!"
         FROM UNNEST($1::bigint[]) AS t (thousand)
         JOIN aee_logs l ON l.seq >= t.thousand * $2::bigint AND l.seq < (t.thousand + 1) * $2::bigint
         GROUP BY 1, 2"#,
        thousands,
        LINES
    );
    Ok(rows.fetch_all(conn).await?)
}
