//! Reading moments: one, long polls, and changes. A moment that the caller may not see counts as missing.

use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::moments::MomentState;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome, not_found};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::rows::{self, StoredMoment, select};
use super::visible::{Seen, seen};
use super::{MomentView, words};
use crate::Ctx;

/// Byte limit of the words in one page of changes; the first moment is always complete.
const SPOKEN_BYTES: i64 = 4 * 1024 * 1024;
/// Minimum sleep before an expiry is checked again, because the clock may stand still.
const BLINK: Duration = Duration::from_millis(20);

/// Returns one moment.
///
/// # Errors
/// The moment does not exist, or the caller may not see it.
pub async fn get(ctx: &Ctx, caller: &Caller, id: MomentId) -> Outcome<MomentView> {
    caller.require(Scope::MomentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let kept = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("moment"))?;
    let words = words::load(&mut conn, &[id]).await?.into_iter().map(|(_, word)| word).collect();
    MomentView::new(kept, words, caller, ctx.now()).ok_or_else(|| not_found("moment"))
}

/// Like [`get`], but waits for news until the time is up.
///
/// Without `seen`, news is an answer, an end or another word; with `seen`, a version other than that. A final
/// end is returned at once; a superseded refusal may still be restored.
///
/// # Errors
/// As [`get`].
pub async fn wait(
    ctx: &Ctx,
    caller: &Caller,
    id: MomentId,
    seen: Option<i64>,
    patience: Duration,
) -> Outcome<MomentView> {
    let until = Instant::now() + patience;
    // Register before the first read, so that no notification in between is lost.
    let mut listener = ctx.feed.wakeups().listener();
    listener.add(WakeKey::Moment(id));
    let mut said = None;
    let mut over = false;
    loop {
        let found = get(ctx, caller, id).await?;
        let now_said = found.words.len();
        let news = match seen {
            Some(seen) => found.moment.version != seen,
            None => *said.get_or_insert(now_said) != now_said || found.moment.state != MomentState::Open,
        };
        let comes_back = found.moment.is_unsettled_veto() && found.moment.state == MomentState::Superseded;
        if news || over || found.moment.state.is_terminal() && !comes_back {
            return Ok(found);
        }
        // No notification is sent when this question or its successor expires: the expiry counts by itself,
        // and the next sweep records it.
        let lapses = if comes_back { found.next_over_at } else { found.moment.expires_at };
        let lapses = lapses.filter(|_| found.moment.state != MomentState::Deliberating);
        let left = lapses.map(|at| (at - ctx.now()).to_std().unwrap_or_default().max(BLINK));
        let next = left.map_or(until, |left| until.min(Instant::now() + left));
        // Read once more for changes of the last instant.
        over = timeout_at(next, listener.rung()).await.is_err() && Instant::now() >= until;
        caller.require_key(ctx.now())?;
    }
}

/// Lists the caller's moments that changed after a number, in order of their last changes.
///
/// With many words, a page may be shorter than `limit`; continue until it is empty.
///
/// # Errors
/// The caller lacks the scope.
pub async fn changes(ctx: &Ctx, caller: &Caller, after: i64, limit: u32) -> Outcome<Vec<MomentView>> {
    caller.require(Scope::MomentsRead)?;
    let who = Seen::of(caller, ctx.now());
    let mut conn = ctx.pool.acquire().await?;
    let rows = seen!(
        select,
        "moments::changes",
        "x.changed_seq > $5 ORDER BY x.changed_seq LIMIT $6",
        "ORDER BY y.changed_seq LIMIT $6)) ORDER BY m.changed_seq",
        who,
        after,
        i64::from(limit)
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut kept = rows.into_iter().map(StoredMoment::try_from).collect::<Outcome<Vec<StoredMoment>>>()?;
    let mut ids: Vec<MomentId> = kept.iter().map(|kept| kept.moment.id).collect();
    let spoken = words::spoken(&mut conn, &ids).await?;
    let mut bytes = 0;
    let fits = |id: &&MomentId| {
        bytes += spoken.get(id).map_or(0, |one| one.bytes);
        bytes <= SPOKEN_BYTES
    };
    let fit = ids.iter().take_while(fits).count().max(1);
    kept.truncate(fit);
    ids.truncate(fit);
    let mut words = words::of_each(&mut conn, &ids).await?;
    let each = kept.into_iter().filter_map(|kept| {
        let words = words.remove(&kept.moment.id).unwrap_or_default();
        MomentView::new(kept, words, caller, who.now)
    });
    Ok(each.collect())
}

/// Loads the next moments of an intent that the caller may see, in the order of their ids, without the words said about
/// them; and the id after which the next page begins, `None` on the last one.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_intent(
    conn: &mut PgConnection,
    caller: &Caller,
    intent: IntentId,
    after: MomentId,
    limit: i64,
    now: Timestamp,
) -> Outcome<(Vec<MomentView>, Option<MomentId>)> {
    let rows = select!(
        "moments::after",
        "WHERE m.intent_id = $1 AND m.id > $2 ORDER BY m.id LIMIT $3",
        intent.uuid(),
        after.uuid(),
        limit
    )
    .fetch_all(conn)
    .await?;
    let kept = rows.into_iter().map(StoredMoment::try_from).collect::<Outcome<Vec<StoredMoment>>>()?;
    let more = i64::try_from(kept.len()).is_ok_and(|count| count == limit);
    let next = kept.last().map(|kept| kept.moment.id).filter(|_| more);
    let shown = kept.into_iter().filter_map(|kept| MomentView::new(kept, Vec::new(), caller, now));
    Ok((shown.collect(), next))
}

/// Returns the number of the last change of any moment.
///
/// # Errors
/// The database query fails.
pub async fn last_change(ctx: &Ctx) -> Outcome<i64> {
    let last = sqlx::query_scalar!("-- moment_clock::last\n SELECT last_seq FROM moment_clock")
        .fetch_one(&ctx.pool)
        .await?;
    Ok(last)
}

/// Returns the open questions for which a job waits.
///
/// # Errors
/// The database query fails.
pub async fn awaited(ctx: &Ctx, job: JobId) -> Outcome<Vec<MomentId>> {
    let ids = sqlx::query_scalar!(
        "-- moments::awaited
         SELECT id FROM moments WHERE job_id = $1 AND state IN ('open', 'deliberating') AND state = 'open' AND expires_at > $2
         ORDER BY id",
        job.uuid(),
        ctx.now()
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(ids.into_iter().map(MomentId::from).collect())
}

/// Current version numbers of the moments and inboxes among these wake keys, for lost notifications.
///
/// # Errors
/// The database query fails.
pub async fn versions(ctx: &entente_kernel::Ctx, listened: &[WakeKey]) -> Outcome<Vec<(WakeKey, i64)>> {
    let (mut moments, mut parties): (Vec<Uuid>, Vec<&str>) = (Vec::new(), Vec::new());
    for touch in listened {
        match touch {
            WakeKey::Moment(id) => moments.push(id.uuid()),
            WakeKey::Inbox(party) => parties.push(party),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if !moments.is_empty() {
        let rows =
            sqlx::query!("-- moments::moved\n SELECT id, version FROM moments WHERE id = ANY($1)", &moments)
                .fetch_all(&ctx.pool)
                .await?;
        found.extend(rows.into_iter().map(|row| (WakeKey::Moment(row.id.into()), row.version)));
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
        found.extend(rows.into_iter().map(|row| (WakeKey::Inbox(row.party), row.seq)));
    }
    Ok(found)
}
