//! Threads: all that was said under one `corr`, as a tree of what answers what (AEE §5.3).

use std::collections::HashMap;

use entente_core::envelopes::pairing::{Pair, PairStatus};
use entente_core::keys::Scope;

use super::rows::{Kept, Row};
use super::{between, speaks_for};
use crate::app::refutations::{self, Refutation};
use crate::app::{Caller, Ctx, Outcome, mailboxes, not_found, pairs};

/// Envelopes of a thread that are shown at the most.
const SHOWN: i64 = 1_000;

/// An envelope in its thread.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The envelope.
    pub envelope: Kept,
    /// Where it stands: 0 for what answers nothing that is shown.
    pub depth: usize,
    /// Its pairs, when it is a task.
    pub pairs: Vec<(String, PairStatus)>,
    /// Who rejects it, and why (AEE §9.2).
    pub refutations: Vec<Refutation>,
}

/// The thread as the caller may see it: what it is a party to, each after what it answers, the earlier first.
///
/// # Errors
/// There is nothing that the caller may see.
pub async fn thread(ctx: &Ctx, caller: &Caller, corr: &str) -> Outcome<Vec<Leaf>> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let rows = sqlx::query_as!(
        Row,
        "-- aee_envelopes::thread
         SELECT id, type, sender, recipient, purpose, corr, reply_to, received_at, verified_by, kid, status,
                effective_priority, deadline, warnings, seq, delivered, original_id, body
         FROM aee_envelopes WHERE corr = $1 ORDER BY received_at, id LIMIT $2",
        corr,
        SHOWN
    )
    .fetch_all(&mut *conn)
    .await?;
    let all = rows.into_iter().map(Row::kept).collect::<Outcome<Vec<Kept>>>()?;
    let mut seen = Vec::new();
    for kept in all {
        let party = caller.has(Scope::Admin)
            || between(|entity: &str| speaks_for(caller, entity), &kept)
            || (kept.receipt.seq.is_none()
                && mailboxes::holders(&mut conn, &kept.id)
                    .await?
                    .iter()
                    .any(|entity| speaks_for(caller, entity)));
        if party {
            seen.push(kept);
        }
    }
    if seen.is_empty() {
        return Err(not_found("thread"));
    }
    let ids: Vec<&str> = seen.iter().map(|kept| kept.id.as_str()).collect();
    let pairs = pairs::of(&mut conn, &ids).await?;
    let mut refuted: HashMap<String, Vec<Refutation>> = HashMap::new();
    for one in refutations::of(&mut conn, &ids).await? {
        refuted.entry(one.envelope_id.clone()).or_default().push(one);
    }
    let now = ctx.now();
    let status = |pair: &Pair| (pair.respondent.clone(), pair.status_at(now));
    let mut leaves = planted(seen);
    for leaf in &mut leaves {
        leaf.pairs = pairs.iter().filter(|pair| pair.task_id == leaf.envelope.id).map(status).collect();
        leaf.refutations = refuted.remove(&leaf.envelope.id).unwrap_or_default();
    }
    Ok(leaves)
}

/// Each envelope after the one that it answers, a step deeper.
fn planted(all: Vec<Kept>) -> Vec<Leaf> {
    let places: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, kept)| (kept.id.clone(), at)).collect();
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, kept) in all.iter().enumerate() {
        // An answer comes after what it answers; what claims otherwise stands for itself.
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
    let mut all: Vec<Option<Kept>> = all.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|(at, depth)| {
            let envelope = all.get_mut(at)?.take()?;
            Some(Leaf { envelope, depth, pairs: Vec::new(), refutations: Vec::new() })
        })
        .collect()
}
