//! Search for jobs by their properties, newest first, and counts by status.
//!
//! The most selective condition finds candidates by its index, a limited number at a time, and the others filter them. So each
//! request reads a bounded number of rows, however rare the jobs are that it looks for: its page may then be short, and the
//! cursor continues behind the last candidate.

use chrono::TimeDelta;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::labels::LABELS;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, floor};
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Ctx;
use crate::jobs::rows;

/// Candidates that the first statement of a page looks at besides twice as many as the page has, because most candidates fit.
const FIRST_WINDOW: i64 = 200;
/// Candidates that each further statement of a page looks at, and statements of one request.
const WINDOW: i64 = 5_000;
const WINDOWS: u32 = 5;
/// Candidates that are counted at most.
const COUNTED: i64 = 100_000;

/// Conditions of a search; a job fulfils all of them.
#[derive(Debug, Clone, Default)]
pub struct JobSearch {
    /// Only jobs in one of these statuses.
    pub statuses: Vec<JobStatus>,
    /// Only jobs of this agent, or of this version of it.
    pub agent: Option<AgentRef>,
    /// Only jobs of this principal.
    pub principal: Option<String>,
    /// Only jobs with these labels.
    pub labels: Vec<(String, String)>,
    /// Only jobs that this one delegated.
    pub parent: Option<JobId>,
    /// Only jobs of this trace.
    pub trace: Option<String>,
    /// Only jobs that ended with this error code.
    pub error_code: Option<Fault>,
    /// Only dead letters that are open (`true`) or resolved (`false`).
    pub dead_letter: Option<bool>,
    /// Only jobs accepted after this time.
    pub created_after: Option<Timestamp>,
    /// Only jobs accepted before this time.
    pub created_before: Option<Timestamp>,
    /// Maximum number of jobs.
    pub limit: u32,
    /// Cursor returned with the previous page.
    pub cursor: Option<String>,
}

/// Number of jobs by status.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The statuses of found jobs, each with their number.
    pub by_status: Vec<(JobStatus, i64)>,
    /// Whether all jobs were counted; otherwise only the newest, and the numbers are lower bounds.
    pub is_complete: bool,
}

/// A search as its statements take it.
struct Asked {
    below: Uuid,
    from: Uuid,
    window: i64,
    statuses: Vec<&'static str>,
    exact: Option<String>,
    name: Option<String>,
    principal: Option<String>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
    parent: Option<Uuid>,
    trace: Option<String>,
    keys: Vec<String>,
    values: Vec<String>,
    code: Option<&'static str>,
    letter: Option<bool>,
    limit: i64,
}

/// Part of the jobs among the candidates of one statement.
struct Part {
    ids: Vec<Uuid>,
    seen: i64,
    floor: Option<Uuid>,
}

/// The number of found jobs of a status, beside the number of candidates; without a status if none was found.
struct Number {
    status: Option<String>,
    count: Option<i64>,
    seen: i64,
}

/// The way to the candidates: the index that finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Parent,
    Trace,
    Label,
    Letters,
    Failed,
    Open,
    Newest,
}

impl JobSearch {
    fn way(&self) -> Way {
        let all = |are: fn(&JobStatus) -> bool| !self.statuses.is_empty() && self.statuses.iter().all(are);
        if self.parent.is_some() {
            Way::Parent
        } else if self.trace.is_some() {
            Way::Trace
        } else if !self.labels.is_empty() {
            Way::Label
        } else if self.dead_letter == Some(true) {
            Way::Letters
        } else if self.error_code.is_some()
            || self.dead_letter.is_some()
            || all(|status| status.is_terminal() && *status != JobStatus::Success)
        {
            Way::Failed
        } else if all(|status| !status.is_terminal()) {
            Way::Open
        } else {
            Way::Newest
        }
    }

    /// Whether a condition is about something that only those see who may see all of a job.
    fn is_private(&self) -> bool {
        !self.labels.is_empty() || self.error_code.is_some() || self.dead_letter.is_some()
    }

    /// Returns the principal whose jobs are searched; `None` for everybody's.
    fn whose(&self, ctx: &Ctx, caller: &Caller) -> Option<String> {
        let policy = ctx.state.jobs.policy;
        let everybody =
            caller.has(Scope::Admin) || policy.subscribes() || (policy.lists() && !self.is_private());
        if everybody { self.principal.clone() } else { Some(caller.agent.clone()) }
    }

    fn check(&self, most: u32) -> Result<(), Refusal> {
        if self.limit == 0 || self.limit > most {
            let message = format!("`limit` must be a number from 1 to {most}.");
            return Err(Refusal::field(Code::InvalidRequest, "limit", "range", message));
        }
        if self.labels.len() > LABELS {
            let message = format!("A search has at most {LABELS} labels.");
            return Err(Refusal::field(Code::InvalidRequest, "label", "too_long", message));
        }
        Ok(())
    }

    /// Returns the id below which the page begins: that of the cursor.
    pub(super) fn below(&self) -> Result<Uuid, Refusal> {
        Ok(self.asked(None, 1)?.below)
    }

    /// Prepares the search; the range of ids follows from the times and the cursor, because ids contain their time.
    fn asked(&self, principal: Option<String>, window: i64) -> Result<Asked, Refusal> {
        let wrong = |_no_id| {
            let message = "`cursor` is none of this list's. Begin without one.";
            Refusal::field(Code::InvalidRequest, "cursor", "value", message)
        };
        let after: Option<JobId> = self
            .cursor
            .as_deref()
            .map(|text| text.replacen("cur_", "job_", 1).parse().map_err(wrong))
            .transpose()?;
        let newest = self.created_before.map_or(Uuid::max(), |at| floor(at + TimeDelta::milliseconds(1)));
        let (exact, name) = match &self.agent {
            None => (None, None),
            Some(agent) if agent.version.is_some() => (Some(agent.to_string()), None),
            Some(agent) => (None, Some(format!("{}@", agent.name))),
        };
        let (keys, values) = self.labels.iter().cloned().unzip();
        Ok(Asked {
            below: after.map_or(newest, |id| id.uuid().min(newest)),
            from: self.created_after.map_or(Uuid::nil(), floor),
            window,
            statuses: self.statuses.iter().map(|status| status.as_str()).collect(),
            exact,
            name,
            principal,
            created_after: self.created_after,
            created_before: self.created_before,
            parent: self.parent.map(JobId::uuid),
            trace: self.trace.clone(),
            keys,
            values,
            code: self.error_code.map(Fault::wire),
            letter: self.dead_letter,
            limit: i64::from(self.limit) + 1,
        })
    }
}

/// Runs a statement over candidates: the rows' type, the statement's name, its end, the candidates, the search, and further
/// arguments of the end.
macro_rules! among {
    ($row:ty, $name:literal, $end:literal, $candidates:literal, $ask:expr, [$($argument:expr),*]) => {
        sqlx::query_as!(
            $row,
            "-- " + $name
                + r#"
         WITH found AS MATERIALIZED ("#
                + $candidates
                + r#" ORDER BY job_id DESC LIMIT $3),
         mine AS (
             SELECT j.id, c.status FROM found f JOIN jobs j ON j.id = f.job_id JOIN job_clock c ON c.job_id = f.job_id
             WHERE c.status <> 'preparing' AND (cardinality($4::text[]) = 0 OR c.status = ANY($4))
               AND ($5::text IS NULL OR j.agent = $5) AND ($6::text IS NULL OR starts_with(j.agent, $6))
               AND ($7::text IS NULL OR j.principal = $7)
               AND ($8::timestamptz IS NULL OR j.created_at > $8) AND ($9::timestamptz IS NULL OR j.created_at < $9)
               AND ($10::uuid IS NULL OR j.parent_id = $10) AND ($11::text IS NULL OR j.trace_id = $11)
               AND (SELECT count(*) FROM UNNEST($12::text[], $13::text[]) AS w (key, value)
                    JOIN job_labels l ON l.job_id = j.id AND l.key = w.key AND l.value = w.value) = cardinality($12)
               AND ($14::text IS NULL OR EXISTS (SELECT 1 FROM job_failures x WHERE x.job_id = j.id AND x.code = $14))
               AND ($15::boolean IS NULL OR EXISTS (
                       SELECT 1 FROM job_failures x
                       WHERE x.job_id = j.id AND x.is_open = $15 AND (x.is_open OR x.resolved_at IS NOT NULL))))"#
                + $end,
            $ask.below,
            $ask.from,
            $ask.window,
            &$ask.statuses as &[&str],
            $ask.exact,
            $ask.name,
            $ask.principal,
            $ask.created_after,
            $ask.created_before,
            $ask.parent,
            $ask.trace,
            &$ask.keys,
            &$ask.values,
            $ask.code,
            $ask.letter
            $(, $argument)*
        )
    };
}

/// Runs the statement of a way: both for one principal and for everybody, if the way has an index for each.
macro_rules! on_the_way {
    ($way:expr, $ask:expr, $conn:expr, $fetch:ident, $row:ty, $end:literal, [
        $($arm:ident: $own:literal, $all:literal;)+
    ], $more:tt) => {
        match ($way, $ask.principal.is_some()) {
            $(
                (Way::$arm, true) => among!($row, "jobs::found", $end, $own, $ask, $more).$fetch($conn).await?,
                (Way::$arm, false) => among!($row, "jobs::found", $end, $all, $ask, $more).$fetch($conn).await?,
            )+
        }
    };
}

/// Runs a statement with this end on every way.
macro_rules! candidates {
    ($way:expr, $ask:expr, $conn:expr, $fetch:ident, $row:ty, $end:literal, $more:tt) => {
        on_the_way!($way, $ask, $conn, $fetch, $row, $end, [
            Parent: "SELECT id AS job_id FROM jobs WHERE parent_id = $10 AND id < $1 AND id >= $2",
                    "SELECT id AS job_id FROM jobs WHERE parent_id = $10 AND id < $1 AND id >= $2";
            Trace: "SELECT id AS job_id FROM jobs WHERE trace_id = $11 AND id < $1 AND id >= $2",
                   "SELECT id AS job_id FROM jobs WHERE trace_id = $11 AND id < $1 AND id >= $2";
            Label: "SELECT job_id FROM job_labels
                    WHERE principal = $7 AND key = ($12::text[])[1] AND value = ($13::text[])[1] AND job_id < $1 AND job_id >= $2",
                   "SELECT job_id FROM job_labels
                    WHERE key = ($12::text[])[1] AND value = ($13::text[])[1] AND job_id < $1 AND job_id >= $2";
            Letters: "SELECT job_id FROM job_failures WHERE is_open AND principal = $7 AND job_id < $1 AND job_id >= $2",
                     "SELECT job_id FROM job_failures WHERE is_open AND job_id < $1 AND job_id >= $2";
            Failed: "SELECT job_id FROM job_failures WHERE principal = $7 AND job_id < $1 AND job_id >= $2",
                    "SELECT job_id FROM job_failures WHERE job_id < $1 AND job_id >= $2";
            Open: "SELECT job_id FROM job_clock WHERE ended_at IS NULL AND job_id < $1 AND job_id >= $2",
                  "SELECT job_id FROM job_clock WHERE ended_at IS NULL AND job_id < $1 AND job_id >= $2";
            Newest: "SELECT id AS job_id FROM jobs WHERE principal = $7 AND id < $1 AND id >= $2",
                    "SELECT id AS job_id FROM jobs WHERE id < $1 AND id >= $2";
        ], $more)
    };
}

/// Finds jobs that the caller may observe, newest first, with the cursor of the next page.
///
/// An operator finds everybody's jobs, all others their own, or everybody's under an open policy.
///
/// # Errors
/// The cursor or the limit is invalid.
pub async fn search(ctx: &Ctx, caller: &Caller, ask: &JobSearch) -> Outcome<(Vec<Job>, Option<String>)> {
    caller.require(Scope::JobsRead)?;
    ask.check(PAGE)?;
    let mut conn = ctx.pool.acquire().await?;
    let (ids, next) = ids(ctx, &mut conn, caller, ask).await?;
    let mut jobs = rows::load(&mut conn, &ids).await?;
    jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.id));
    Ok((jobs, next))
}

/// Finds the ids of jobs, and the cursor of the next page.
pub(super) async fn ids(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    ask: &JobSearch,
) -> Outcome<(Vec<JobId>, Option<String>)> {
    let whose = ask.whose(ctx, caller);
    if others(ask, whose.as_ref()) {
        return Ok((Vec::new(), None));
    }
    let mut asked = ask.asked(whose, 2 * i64::from(ask.limit) + FIRST_WINDOW)?;
    let limit = ask.limit as usize;
    let mut found: Vec<Uuid> = Vec::new();
    for _window in 0..WINDOWS {
        let part = page(conn, ask.way(), &asked).await?;
        found.extend(part.ids);
        if found.len() > limit {
            found.truncate(limit);
            let next = found.last().copied().map(cursor);
            return Ok((found.into_iter().map(JobId::from).collect(), next));
        }
        match part.floor.filter(|_| part.seen >= asked.window) {
            Some(floor) => (asked.below, asked.window) = (floor, WINDOW),
            None => return Ok((found.into_iter().map(JobId::from).collect(), None)),
        }
        asked.limit = i64::try_from(limit + 1 - found.len()).unwrap_or(1);
    }
    Ok((found.into_iter().map(JobId::from).collect(), Some(cursor(asked.below))))
}

/// Whether the search is for jobs of a principal whose jobs the caller does not find.
fn others(ask: &JobSearch, whose: Option<&String>) -> bool {
    ask.principal.is_some() && ask.principal.as_ref() != whose
}

pub(super) fn cursor(id: Uuid) -> String {
    JobId::from(id).to_string().replacen("job_", "cur_", 1)
}

async fn page(conn: &mut PgConnection, way: Way, ask: &Asked) -> Outcome<Part> {
    Ok(candidates!(
        way,
        ask,
        conn,
        fetch_one,
        Part,
        r#"
         SELECT ARRAY(SELECT m.id FROM mine m ORDER BY m.id DESC LIMIT $16) AS "ids!",
                (SELECT count(*) FROM found) AS "seen!",
                (SELECT f.job_id FROM found f ORDER BY f.job_id LIMIT 1) AS floor"#,
        [ask.limit]
    ))
}

/// Counts the jobs that a search finds, by status; cursor and limit are ignored.
///
/// # Errors
/// As [`search`].
pub async fn count(ctx: &Ctx, caller: &Caller, ask: &JobSearch) -> Outcome<Counts> {
    caller.require(Scope::JobsRead)?;
    let ask = JobSearch { cursor: None, limit: 1, ..ask.clone() };
    ask.check(PAGE)?;
    let whose = ask.whose(ctx, caller);
    if others(&ask, whose.as_ref()) {
        return Ok(Counts { by_status: Vec::new(), is_complete: true });
    }
    let asked = ask.asked(whose, COUNTED)?;
    let conn = &mut *ctx.pool.acquire().await?;
    let numbers = tally(conn, ask.way(), &asked).await?;
    let is_complete = numbers.first().is_none_or(|number| number.seen < COUNTED);
    let read = |number: Number| Some((JobStatus::parse(&number.status?)?, number.count?));
    Ok(Counts { by_status: numbers.into_iter().filter_map(read).collect(), is_complete })
}

async fn tally(conn: &mut PgConnection, way: Way, ask: &Asked) -> Outcome<Vec<Number>> {
    Ok(candidates!(
        way,
        ask,
        conn,
        fetch_all,
        Number,
        r#"
         SELECT m.status AS "status?", m.count AS "count?", s.seen AS "seen!"
         FROM (SELECT count(*) AS seen FROM found) s
         LEFT JOIN (SELECT status, count(*) AS count FROM mine GROUP BY status) m ON true"#,
        []
    ))
}
