//! The batch handler of the envelope writers: delivers as many envelopes as one transaction may, and puts aside those
//! for mailboxes that another transaction has locked.

use std::collections::{BTreeSet, HashMap, HashSet};

use entente_domain::aee::envelopes::receipt::Receipt;
use entente_domain::identity::fences::Fence;
use entente_domain::ids::NodeId;
use entente_kernel::many;
use entente_kernel::many::{Many, Together};
use entente_kernel::{AppError, Outcome, nodes};
use entente_runtime::deadlines::{self, within};
use entente_store::commit::BatchHandler;

use super::{IngestResult, put, shard_of};
use crate::Ctx;
use crate::envelopes::PreparedEnvelope;
use crate::mailboxes::Known;
use crate::{buses, mailboxes};

/// Batch handler of the group commit.
pub(super) struct IngestHandler {
    ctx: Ctx,
    node: NodeId,
}

impl IngestHandler {
    /// Creates the batch handler of this server's writers.
    pub(super) fn new(ctx: &Ctx, node: NodeId) -> Self {
        Self { ctx: ctx.clone(), node }
    }
}

/// Envelopes that are committed together; `waits` says whether the transaction waits for locks.
struct Batch<'a> {
    ctx: &'a Ctx,
    known: &'a mut Known,
    waits: bool,
}

impl BatchHandler for IngestHandler {
    // An envelope, and others that share its fate: all are accepted in the same transaction, or none.
    type Command = Vec<PreparedEnvelope>;
    type Answer = Outcome<Receipt>;
    type Memory = Known;

    fn memory(&self) -> Known {
        Known::of_writer(&self.ctx.metrics)
    }

    fn lane(bundle: &Vec<PreparedEnvelope>) -> u64 {
        shard_of(bundle)
    }

    async fn apply(
        &self,
        known: &mut Known,
        bundles: Vec<Vec<PreparedEnvelope>>,
    ) -> Vec<Result<Outcome<Receipt>, Vec<PreparedEnvelope>>> {
        let fans = match within(deadlines::BATCH, fans(&self.ctx, &bundles)).await {
            Ok(Ok(fans)) => fans,
            // No transaction was begun.
            Ok(Err(failure)) => {
                return bundles.iter().map(|_| Ok(Err(failure.repeated()))).collect();
            }
            Err(late) => return bundles.iter().map(|_| Ok(Err(late.into()))).collect(),
        };
        let (mut answers, mut rest) = (Vec::with_capacity(bundles.len()), bundles.as_slice());
        // A bundle that waits holds back the later ones of its lane.
        let mut waits = HashSet::new();
        while !rest.is_empty() {
            let (some, later) = rest.split_at(stretch(rest, &fans));
            let mut batch = Batch { ctx: &self.ctx, known, waits: false };
            answers.extend(many::all(&mut batch, some, &mut waits).await);
            rest = later;
        }
        bundles.into_iter().zip(answers).map(|(bundle, answer)| answer.ok_or(bundle)).collect()
    }

    async fn wait(&self, bundles: Vec<Vec<PreparedEnvelope>>) -> Vec<Outcome<Receipt>> {
        let mut answers = Vec::with_capacity(bundles.len());
        let mut known = Known::default();
        // A single bundle never exceeds the limit of one transaction.
        for bundle in bundles {
            let mut batch = Batch { ctx: &self.ctx, known: &mut known, waits: true };
            answers.extend(many::waiting(&mut batch, &[bundle]).await);
        }
        answers
    }

    async fn probe(&self) -> Result<(), String> {
        nodes::probe(&self.ctx, self.node).await.map_err(|failure| failure.to_string())
    }
}

impl Many for Batch<'_> {
    type Command = Vec<PreparedEnvelope>;
    type Answer = Receipt;

    fn lane(bundle: &Vec<PreparedEnvelope>) -> u64 {
        shard_of(bundle)
    }

    fn fences(bundle: &Vec<PreparedEnvelope>) -> impl Iterator<Item = &Fence> {
        bundle.iter().flat_map(|prepared| &prepared.fences)
    }

    async fn together(&mut self, bundles: &[&Vec<PreparedEnvelope>]) -> Outcome<Together<Outcome<Receipt>>> {
        let sizes: Vec<usize> = bundles.iter().map(|bundle| bundle.len()).collect();
        let prepared_envelopes: Vec<&PreparedEnvelope> = bundles.iter().copied().flatten().collect();
        let answers = commit(self.ctx, self.known, &prepared_envelopes, self.waits).await?;
        Ok(Together::Done(firsts(answers, &sizes)))
    }

    async fn locked(&mut self, bundles: &[&Vec<PreparedEnvelope>]) -> Outcome<Vec<usize>> {
        let to: BTreeSet<&str> = bundles
            .iter()
            .copied()
            .flatten()
            .filter(|prepared| !prepared.envelope.is_broadcast())
            .map(|prepared| prepared.envelope.recipient.as_str())
            .collect();
        let mut conn = self.ctx.pool.acquire().await?;
        let locked = mailboxes::locked(&mut conn, &to.into_iter().collect::<Vec<_>>()).await?;
        let needs = |bundle: &&Vec<PreparedEnvelope>| {
            bundle.iter().any(|one| locked.contains(&one.envelope.recipient))
        };
        Ok((0..bundles.len()).filter(|index| needs(&bundles[*index])).collect())
    }
}

/// Maximum deliveries of one transaction, unless a single bundle has more: the transaction locks all their mailboxes.
const DELIVERIES: usize = 2_000;

/// Counts the subscribers of each bus that is addressed.
async fn fans(ctx: &Ctx, bundles: &[Vec<PreparedEnvelope>]) -> Outcome<HashMap<String, usize>> {
    let all = bundles.iter().flatten().filter(|prepared| prepared.envelope.is_broadcast());
    let buses: BTreeSet<&str> = all.map(|prepared| prepared.envelope.recipient.as_str()).collect();
    if buses.is_empty() {
        return Ok(HashMap::new());
    }
    buses::sizes(&mut *ctx.pool.acquire().await?, &buses.into_iter().collect::<Vec<_>>()).await
}

/// Whether all these bundles fit into a transaction.
pub(crate) async fn fit(ctx: &Ctx, bundles: &[Vec<PreparedEnvelope>]) -> Outcome<bool> {
    Ok(stretch(bundles, &fans(ctx, bundles).await?) >= bundles.len())
}

/// Returns how many of these bundles fit into a transaction: at least one.
fn stretch(bundles: &[Vec<PreparedEnvelope>], fans: &HashMap<String, usize>) -> usize {
    let mut deliveries = 0;
    let fits = |bundle: &&Vec<PreparedEnvelope>| {
        let fan = |prepared: &PreparedEnvelope| fans.get(&prepared.envelope.recipient).copied().unwrap_or(1);
        deliveries += bundle.iter().map(fan).sum::<usize>();
        deliveries <= DELIVERIES
    };
    bundles.iter().take_while(fits).count().max(1)
}

/// Selects the answer to the first envelope of each bundle.
fn firsts(answers: Vec<Outcome<Receipt>>, sizes: &[usize]) -> Vec<Outcome<Receipt>> {
    let mut answers = answers.into_iter();
    let first = |size: &usize| {
        let mut own: Vec<_> = answers.by_ref().take(*size).collect();
        if own.is_empty() { Err(lost()) } else { own.swap_remove(0) }
    };
    sizes.iter().map(first).collect()
}

pub(super) fn lost() -> AppError {
    AppError::Inconsistent("an envelope got no answer".to_owned())
}

async fn commit(
    ctx: &Ctx,
    known: &mut Known,
    prepared_envelopes: &[&PreparedEnvelope],
    waits: bool,
) -> Outcome<Vec<Outcome<Receipt>>> {
    let put = match write(ctx, known, prepared_envelopes, waits).await {
        Ok(put) => put,
        Err(failure) => {
            // The mailboxes that it opened may have been rolled back.
            known.clear();
            return Err(failure);
        }
    };
    put.announce(ctx);
    Ok(put.answers)
}

async fn write(
    ctx: &Ctx,
    known: &mut Known,
    prepared_envelopes: &[&PreparedEnvelope],
    waits: bool,
) -> Outcome<IngestResult> {
    let mut tx = if waits { ctx.pool.begin().await? } else { ctx.begin_at_once().await? };
    let put = put(ctx, &mut tx, known, prepared_envelopes, ctx.now()).await?;
    tx.commit().await?;
    Ok(put)
}
