//! Threads: all envelopes with the same `corr`, as a tree of answers (AEE §5.3).
//!
//! Anybody who knows a thread's name can add to it, so it is read in bounded steps: first without the bodies,
//! to check access, then only the envelopes of one page.

use std::collections::{HashMap, HashSet};

use entente_domain::aee::envelopes::pairing::{Pair, PairStatus};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::entities::OwnEntities;
use entente_kernel::{Caller, Outcome, not_found};
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes::{StoredEnvelope, load_all};
use crate::refutations;
use crate::refutations::Refutation;
use crate::{exchanges, mailboxes};

/// Envelopes of a thread examined per step, and steps per request: envelopes from strangers must not keep the
/// server busy, and the reader continues with the cursor.
const STRETCH: u16 = 1_000;
const STRETCHES: usize = 10;

/// Maximum size in bytes of a page's envelopes and exchanges; a page has at least one envelope.
const BYTES: usize = 4 * 1024 * 1024;

/// Bytes that an exchange counts for.
const PAIR_BYTES: usize = 128;

/// An envelope in its thread.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The envelope.
    pub envelope: StoredEnvelope,
    /// Its depth: 0 if it answers nothing on the page.
    pub depth: usize,
    /// Its exchanges, if it is a task: all for the sender, only their own for respondents.
    pub pairs: Vec<(String, PairStatus)>,
    /// Its refutations: the entities and their reasons (AEE §9.2).
    pub refutations: Vec<Refutation>,
}

/// A position in a thread.
#[derive(Debug, Clone)]
struct Place {
    at: Timestamp,
    id: String,
}

impl Place {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let place = text.split_once('.').and_then(|(at, id)| {
            Some(Self { at: Timestamp::from_timestamp_micros(at.parse().ok()?)?, id: id.to_owned() })
        });
        place.ok_or_else(|| {
            let message = "`cursor` is none. Use the `next_cursor` of the page before.";
            Refusal::new(Code::InvalidParameter, message)
        })
    }

    fn text(&self) -> String {
        format!("{}.{}", self.at.timestamp_micros(), self.id)
    }
}

/// An envelope's metadata, without its body.
struct Outline {
    id: String,
    sender: String,
    recipient: String,
    status: String,
    received_at: Timestamp,
    seq: Option<i64>,
    delivered: i32,
    size: i32,
    waits: bool,
}

impl Outline {
    fn weight(&self) -> usize {
        let size = |number: i32| usize::try_from(number).unwrap_or_default();
        size(self.size) + size(self.delivered) * PAIR_BYTES
    }
}

/// A thread with mail to the caller.
#[derive(Debug, Clone)]
pub struct LatestThread {
    /// Name of the thread.
    pub corr: String,
    /// Intent of its latest envelope to the caller.
    pub purpose: String,
    /// Sender of that envelope.
    pub sender: String,
    /// When it was received.
    pub received_at: Timestamp,
}

/// Number of a mailbox's latest envelopes that are searched for threads.
const LATEST: i64 = 300;

/// Lists the threads of the latest envelopes to the caller, the newest first.
///
/// # Errors
/// The caller lacks the scope.
pub async fn latest(ctx: &Ctx, caller: &Caller, limit: u32) -> Outcome<Vec<LatestThread>> {
    caller.require(Scope::MailRead)?;
    let found = sqlx::query_as!(
        LatestThread,
        "-- threads::latest
         SELECT t.corr, t.purpose, t.sender, t.received_at FROM (
             SELECT DISTINCT ON (e.corr) e.corr, e.purpose, e.sender, e.received_at
             FROM (SELECT envelope_id FROM aee_items WHERE entity = $1 ORDER BY seq DESC LIMIT $2) i
             JOIN aee_envelopes e ON e.id = i.envelope_id ORDER BY e.corr, e.received_at DESC) t
         ORDER BY t.received_at DESC LIMIT $3",
        caller.agent,
        LATEST,
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(found)
}

/// Returns a page of a thread: the envelopes that the caller is a party to, each after the one that it
/// answers, earlier ones first; and the cursor of the next page if there may be more.
///
/// # Errors
/// The caller may see nothing in the thread; the cursor is invalid.
pub async fn thread(
    ctx: &Ctx,
    caller: &Caller,
    corr: &str,
    cursor: Option<&str>,
    limit: u32,
) -> Outcome<(Vec<Leaf>, Option<String>)> {
    caller.require(Scope::MailRead)?;
    let from = cursor.map(Place::parse).transpose()?;
    let mut conn = ctx.pool.acquire().await?;
    let (ids, next) = page(&mut conn, caller, corr, from, limit as usize).await?;
    if ids.is_empty() && next.is_none() && cursor.is_none() {
        return Err(not_found("thread"));
    }
    let named: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut found = load_all(&mut conn, &named).await?;
    let pairs = exchanges::of(&mut conn, &named).await?;
    let mut refuted: HashMap<String, Vec<Refutation>> = HashMap::new();
    for one in refutations::of(&mut conn, &named).await? {
        refuted.entry(one.envelope_id.clone()).or_default().push(one);
    }
    let seen: Vec<StoredEnvelope> = ids.iter().filter_map(|id| found.remove(id)).collect();
    let mut leaves = planted(seen);
    let now = ctx.now();
    let named = leaves.iter().map(|leaf| leaf.envelope.sender.as_str());
    let named = named.chain(pairs.iter().map(|pair| pair.respondent.as_str()));
    let own = OwnEntities::among(&mut conn, caller, named).await?;
    for leaf in &mut leaves {
        let all = caller.has(Scope::Admin) || own.contains(&leaf.envelope.sender);
        let own = |pair: &&Pair| pair.task_id == leaf.envelope.id && (all || own.contains(&pair.respondent));
        let status = |pair: &Pair| (pair.respondent.clone(), pair.status_at(now));
        leaf.pairs = pairs.iter().filter(own).map(status).collect();
        leaf.refutations = refuted.remove(&leaf.envelope.id).unwrap_or_default();
    }
    Ok((leaves, next.map(|place| place.text())))
}

/// Returns the ids of a page of visible envelopes after a position, and the next position.
async fn page(
    conn: &mut PgConnection,
    caller: &Caller,
    corr: &str,
    mut from: Option<Place>,
    limit: usize,
) -> Outcome<(Vec<String>, Option<Place>)> {
    let (mut ids, mut bytes) = (Vec::new(), 0);
    for _ in 0..STRETCHES {
        let all = outlines(conn, corr, from.as_ref()).await?;
        let more = all.len() == usize::from(STRETCH);
        let held = held(conn, caller, &all).await?;
        let named = all.iter().flat_map(|one| [one.sender.as_str(), one.recipient.as_str()]);
        let own = OwnEntities::among(conn, caller, named).await?;
        for one in all {
            let place = Place { at: one.received_at, id: one.id.clone() };
            if !(may_see(&own, &one, &held) || may_oversee(caller, &one)) {
                from = Some(place);
                continue;
            }
            if ids.len() == limit || (!ids.is_empty() && bytes + one.weight() > BYTES) {
                return Ok((ids, from));
            }
            bytes += one.weight();
            ids.push(one.id);
            from = Some(place);
        }
        if !more {
            return Ok((ids, None));
        }
    }
    Ok((ids, from))
}

/// As `parties::between`, or if it is in one of the caller's mailboxes.
fn may_see(own: &OwnEntities, one: &Outline, held: &HashSet<String>) -> bool {
    let handed_out = !matches!(one.status.as_str(), "held" | "redacted");
    own.contains(&one.sender) || (handed_out && own.contains(&one.recipient)) || held.contains(&one.id)
}

/// Whether an admin may see it: all but tasks that are held for approval or were declined, which concern only
/// the sender and the approvers.
fn may_oversee(caller: &Caller, one: &Outline) -> bool {
    caller.has(Scope::Admin) && !one.waits
}

/// Returns the envelopes in the caller's mailboxes that have several recipients.
async fn held(conn: &mut PgConnection, caller: &Caller, all: &[Outline]) -> Outcome<HashSet<String>> {
    let several = all.iter().filter(|one| one.seq.is_none()).map(|one| one.id.as_str());
    mailboxes::held_by(conn, &several.collect::<Vec<_>>(), caller).await
}

async fn outlines(conn: &mut PgConnection, corr: &str, from: Option<&Place>) -> Outcome<Vec<Outline>> {
    let (at, id) = from.map_or((None, ""), |place| (Some(place.at), place.id.as_str()));
    let found = sqlx::query_as!(
        Outline,
        r#"-- aee_envelopes::thread
         SELECT id, sender, recipient, status, received_at, seq, delivered, octet_length(body) AS "size!",
                (status = 'held' AND NOT EXISTS (SELECT 1 FROM aee_items i WHERE i.envelope_id = aee_envelopes.id))
                    AS "waits!"
         FROM aee_envelopes
         WHERE corr = $1 AND (received_at, id) > (coalesce($2::timestamptz, '-infinity'), $3::text)
         ORDER BY received_at, id LIMIT $4"#,
        corr,
        at,
        id,
        i64::from(STRETCH)
    );
    Ok(found.fetch_all(conn).await?)
}

/// Sorts each envelope after the one that it answers, one level deeper.
fn planted(all: Vec<StoredEnvelope>) -> Vec<Leaf> {
    let places: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, kept)| (kept.id.clone(), at)).collect();
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, kept) in all.iter().enumerate() {
        // An answer comes after the envelope that it answers; one that does not becomes a root.
        let parent =
            kept.reply_to.as_ref().and_then(|id| places.get(id).copied()).filter(|parent| *parent < at);
        below.entry(parent).or_default().push(at);
    }
    let mut order = Vec::with_capacity(all.len());
    let mut open: Vec<(usize, usize)> =
        below.get(&None).into_iter().flatten().rev().map(|at| (*at, 0)).collect();
    while let Some((at, depth)) = open.pop() {
        order.push((at, depth));
        open.extend(below.get(&Some(at)).into_iter().flatten().rev().map(|child| (*child, depth + 1)));
    }
    let mut all: Vec<Option<StoredEnvelope>> = all.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|(at, depth)| {
            let envelope = all.get_mut(at)?.take()?;
            Some(Leaf { envelope, depth, pairs: Vec::new(), refutations: Vec::new() })
        })
        .collect()
}
