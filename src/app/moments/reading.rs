//! Looking at moments: one, lists, the inbox, what has changed, how well agents ask. What may not be seen is as what is not
//! there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use entente_core::clock::Timestamp;
use entente_core::ids::{IntentId, JobId, MomentId};
use entente_core::keys::Scope;
use entente_core::limits::PAGE;
use entente_core::moments::rates::{Asked, Rates};
use entente_core::moments::{Hatches, MomentState, ResolutionKind, rates as law};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::rows::{self, Kept, Row, select};
use super::{Shown, words};
use crate::app::{Caller, Ctx, Outcome, not_found, unknown};
use crate::feed::Touch;

/// The latest questions that rates are made of, of all agents together.
const RATED: i64 = 5_000;

/// One moment.
///
/// # Errors
/// It is not there, or not the caller's to see.
pub async fn get(ctx: &Ctx, caller: &Caller, id: MomentId) -> Outcome<Shown> {
    caller.require(Scope::MomentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let kept = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("moment"))?;
    let words = words::load(&mut conn, &[id]).await?.into_iter().map(|(_, word)| word).collect();
    Shown::new(kept, words, caller, ctx.now()).ok_or_else(|| not_found("moment"))
}

/// As [`get`]; while nothing has happened, waits until something has, or the time is over. Nothing has happened while the
/// question is open and nothing more was said, or, for who has `seen` a version, while that is the current one.
///
/// # Errors
/// As [`get`].
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    seen: Option<i64>,
    patience: Duration,
) -> Outcome<Shown> {
    let until = Instant::now() + patience;
    // First the ear, then the look: what comes in between is heard.
    let mut listener = ctx.feed.bells().listener();
    listener.add(Touch::Moment(id));
    let mut said = None;
    loop {
        let found = get(ctx, caller, id).await?;
        let now_said = found.words.len();
        let news = match seen {
            Some(seen) => found.moment.version != seen,
            None => *said.get_or_insert(now_said) != now_said || found.moment.state != MomentState::Open,
        };
        if news || found.moment.state.is_terminal() || timeout_at(until, listener.rung()).await.is_err() {
            return Ok(found);
        }
        caller.require_key(ctx.now())?;
    }
}

/// Which moments to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only in this state.
    pub state: Option<MomentState>,
    /// Only to this person.
    pub principal: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only of this intent.
    pub intent: Option<IntentId>,
    /// How many at the most.
    pub limit: u32,
    /// Only older than this one: the cursor.
    pub before: Option<MomentId>,
}

/// The moments that the caller asked or is asked, with the scope `admin` everybody's; the latest first, and where to go on
/// when there are more.
///
/// # Errors
/// The scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &Filter) -> Outcome<(Vec<Shown>, Option<MomentId>)> {
    caller.require(Scope::MomentsRead)?;
    let limit = filter.limit.clamp(1, PAGE);
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let rows = select!(
        "moments::list",
        "WHERE ($1 OR m.agent_id = $2 OR m.principal_id = $2
                OR m.escalate_to = $2 AND (m.escalate_at <= $3 OR m.escalated_at IS NOT NULL))
           AND ($4::text IS NULL OR $4 = CASE
                WHEN m.state = 'open' AND m.expires_at <= $3 AND (c.ended_at IS NULL OR c.ended_at >= m.expires_at)
                    THEN 'expired'
                WHEN m.state IN ('open', 'deliberating') AND m.resolution_kind IS NULL AND c.ended_at IS NOT NULL
                    THEN 'withdrawn'
                WHEN m.state = 'superseded' AND m.resolution_kind = 'dialogue' AND m.veto_settled_at IS NULL
                    AND (n.state IN ('withdrawn', 'expired')
                        OR n.state = 'open' AND (n.expires_at <= $3 OR nc.ended_at IS NOT NULL))
                    THEN 'deliberating'
                ELSE m.state END)
           AND ($5::text IS NULL OR m.principal_id = $5) AND ($6::text IS NULL OR m.agent_id = $6)
           AND ($7::text IS NULL OR m.decision_class = $7) AND ($8::uuid IS NULL OR m.job_id = $8)
           AND ($9::uuid IS NULL OR m.intent_id = $9) AND ($10::uuid IS NULL OR m.id < $10)
         ORDER BY m.id DESC LIMIT $11",
        caller.has(Scope::Admin),
        caller.agent,
        now,
        filter.state.map(MomentState::as_str),
        filter.principal,
        filter.agent,
        filter.class,
        filter.job.map(JobId::uuid),
        filter.intent.map(IntentId::uuid),
        filter.before.map(MomentId::uuid),
        i64::from(limit) + 1
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut shown = shown(&mut conn, caller, rows, now).await?;
    let more = shown.len() > limit as usize;
    shown.truncate(limit as usize);
    let next = shown.last().filter(|_| more).map(|last| last.moment.id);
    Ok((shown, next))
}

/// What waits for the caller as a person: open questions and deliberations, the earliest deadline first.
///
/// # Errors
/// The scope is missing.
pub async fn inbox(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Shown>> {
    caller.require(Scope::MomentsRead)?;
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let rows = select!(
        "moments::inbox",
        "WHERE (m.state IN ('open', 'deliberating') OR m.resolution_kind = 'dialogue' AND m.veto_settled_at IS NULL)
           AND (m.state <> 'superseded' OR n.state IN ('withdrawn', 'expired')
                OR n.state = 'open' AND (n.expires_at <= $2 OR nc.ended_at IS NOT NULL))
           AND (m.principal_id = $1 OR m.escalate_to = $1 AND (m.escalate_at <= $2 OR m.escalated_at IS NOT NULL))
           AND NOT (m.state = 'open' AND m.expires_at <= $2)
           AND NOT (m.resolution_kind IS NULL AND c.ended_at IS NOT NULL)
         ORDER BY m.expires_at NULLS LAST, m.id LIMIT $3",
        caller.agent,
        now,
        i64::from(PAGE)
    )
    .fetch_all(&mut *conn)
    .await?;
    shown(&mut conn, caller, rows, now).await
}

/// What of the caller's has changed after a number, in the order of the changes; of several changes of one moment the last.
///
/// # Errors
/// The scope is missing.
pub async fn changes(ctx: &Ctx, caller: &Caller, after: i64, limit: u32) -> Outcome<Vec<Shown>> {
    caller.require(Scope::MomentsRead)?;
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let rows = select!(
        "moments::changes",
        "WHERE m.changed_seq > $1 AND (m.agent_id = $2 OR m.principal_id = $2
            OR m.escalate_to = $2 AND (m.escalate_at <= $3 OR m.escalated_at IS NOT NULL))
         ORDER BY m.changed_seq LIMIT $4",
        after,
        caller.agent,
        now,
        i64::from(limit)
    )
    .fetch_all(&mut *conn)
    .await?;
    shown(&mut conn, caller, rows, now).await
}

/// The number of the last change of all.
///
/// # Errors
/// The database.
pub async fn last_change(ctx: &Ctx) -> Outcome<i64> {
    let last = sqlx::query_scalar!("-- moment_clock::last\n SELECT last_seq FROM moment_clock")
        .fetch_one(&ctx.pool)
        .await?;
    Ok(last)
}

async fn shown(
    conn: &mut PgConnection,
    caller: &Caller,
    rows: Vec<Row>,
    now: Timestamp,
) -> Outcome<Vec<Shown>> {
    let kept = rows.into_iter().map(Kept::try_from).collect::<Outcome<Vec<Kept>>>()?;
    let ids: Vec<MomentId> = kept.iter().map(|kept| kept.moment.id).collect();
    let mut words: HashMap<MomentId, Vec<words::Word>> = words::of_each(conn, &ids).await?;
    let each = kept.into_iter().filter_map(|kept| {
        let words = words.remove(&kept.moment.id).unwrap_or_default();
        Shown::new(kept, words, caller, now)
    });
    Ok(each.collect())
}

/// How well somebody asks.
#[derive(Debug, Clone)]
pub struct Rated {
    /// Who.
    pub agent_id: String,
    /// Questions of this class alone; `None`: of all.
    pub decision_class: Option<String>,
    /// The rates.
    pub rates: Rates,
}

/// How well agents ask, by what the caller may see of their questions: each over all of them, then by class.
///
/// # Errors
/// The scope is missing.
pub async fn rates(ctx: &Ctx, caller: &Caller, agent: Option<&str>) -> Outcome<Vec<Rated>> {
    caller.require(Scope::MomentsRead)?;
    let rows = sqlx::query!(
        "-- moments::rates
         SELECT agent_id, decision_class, has_calibration_note, hatch_free_text, hatch_dialogue, resolution_kind, near_duplicate
         FROM moments WHERE digest IS NOT NULL AND ($1::text IS NULL OR agent_id = $1)
           AND ($2 OR agent_id = $3 OR principal_id = $3 OR escalate_to = $3 AND escalated_at IS NOT NULL)
         ORDER BY id DESC LIMIT $4",
        agent,
        caller.has(Scope::Admin),
        caller.agent,
        RATED
    )
    .fetch_all(&ctx.pool)
    .await?;
    let mut groups: BTreeMap<(String, Option<String>), Vec<Asked>> = BTreeMap::new();
    for row in rows {
        let kind = row.resolution_kind.as_deref();
        let parse = |word: &str| ResolutionKind::parse(word).ok_or_else(|| unknown("kind of answer", word));
        let asked = Asked {
            calibration_note: row.has_calibration_note,
            hatches: Hatches { free_text: row.hatch_free_text, dialogue: row.hatch_dialogue },
            answered: kind.map(parse).transpose()?,
            near_duplicate: row.near_duplicate,
        };
        if row.decision_class.is_some() {
            groups.entry((row.agent_id.clone(), row.decision_class)).or_default().push(asked);
        }
        groups.entry((row.agent_id, None)).or_default().push(asked);
    }
    let rated = groups.into_iter().map(|((agent_id, decision_class), asked)| Rated {
        agent_id,
        decision_class,
        rates: law::rates(&asked),
    });
    Ok(rated.collect())
}

/// The open questions for which a job waits.
pub(crate) async fn awaited(conn: &mut PgConnection, job: JobId, now: Timestamp) -> Outcome<Vec<MomentId>> {
    let ids = sqlx::query_scalar!(
        "-- moments::awaited
         SELECT id FROM moments WHERE job_id = $1 AND state IN ('open', 'deliberating') AND state = 'open' AND expires_at > $2
         ORDER BY id",
        job.uuid(),
        now
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(MomentId::from).collect())
}

/// How far the moments and inboxes among these have gone, for who was not told of it.
pub(crate) async fn moved(ctx: &Ctx, listened: &[Touch]) -> Outcome<Vec<(Touch, i64)>> {
    let (mut moments, mut parties): (Vec<Uuid>, Vec<&str>) = (Vec::new(), Vec::new());
    for touch in listened {
        match touch {
            Touch::Moment(id) => moments.push(id.uuid()),
            Touch::Inbox(party) => parties.push(party),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if !moments.is_empty() {
        let rows =
            sqlx::query!("-- moments::moved\n SELECT id, version FROM moments WHERE id = ANY($1)", &moments)
                .fetch_all(&ctx.pool)
                .await?;
        found.extend(rows.into_iter().map(|row| (Touch::Moment(row.id.into()), row.version)));
    }
    if !parties.is_empty() {
        let rows = sqlx::query!(
            r#"-- moments::inboxes_moved
             SELECT p.party AS "party!", coalesce(greatest(
                 (SELECT max(changed_seq) FROM moments WHERE agent_id = p.party),
                 (SELECT max(changed_seq) FROM moments WHERE principal_id = p.party),
                 (SELECT max(changed_seq) FROM moments WHERE escalate_to = p.party)), 0) AS "seq!"
             FROM UNNEST($1::text[]) AS p (party)"#,
            &parties as &[&str]
        )
        .fetch_all(&ctx.pool)
        .await?;
        found.extend(rows.into_iter().map(|row| (Touch::Inbox(row.party), row.seq)));
    }
    Ok(found)
}
