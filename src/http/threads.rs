//! The route of threads (AEE §5.3): what was said under one `corr`, as a tree.

use actix_web::{get, web};
use entente_core::envelopes::pairing::PairStatus;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::caller::Asker;
use super::envelopes::EnvelopeBody;
use super::error::Reply;
use super::wire::WireTime;
use super::{Doors, ok};
use crate::app::envelopes::thread;

pub fn routes(config: &mut ServiceConfig<'_>) {
    config.service(get_thread);
}

/// One who is to answer a task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopePair)]
struct PairBody {
    /// Who.
    respondent: String,
    /// How far it is.
    status: PairStatus,
}

/// Somebody who rejects an envelope (`aee.context.refute`).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeRefutation)]
struct RefutationBody {
    /// Who.
    entity: String,
    /// Why.
    reason: String,
    /// Since when.
    #[schema(value_type = String)]
    at: WireTime,
}

/// An envelope in its thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ThreadEnvelope)]
struct LeafBody {
    /// How deep it stands: 0 for what answers nothing that is shown.
    depth: usize,
    /// Those who are to answer it, when it is a task.
    pairs: Vec<PairBody>,
    /// Those who reject it, the earliest first.
    refutations: Vec<RefutationBody>,
    #[serde(flatten)]
    envelope: EnvelopeBody,
}

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeThread)]
struct ThreadBody {
    /// Its `corr`.
    corr: String,
    /// Each envelope after what it answers, a step deeper; the earlier ones first.
    envelopes: Vec<LeafBody>,
}

/// Read a thread
///
/// All envelopes of one `corr` that the caller is a party to, as a tree of what answers what.
#[utoipa::path(operation_id = "get_thread", tag = "envelopes",
    params(("corr" = String, Path, description = "The thread's `corr`")),
    responses((status = 200, description = "The thread", body = ThreadBody)))]
#[get("/aee/threads/{corr}")]
async fn get_thread(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let leaves = thread(&doors.ctx, &asker.caller, &path).await?;
    let mut envelopes = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let pairs = leaf.pairs.into_iter().map(|(respondent, status)| PairBody { respondent, status });
        let refutations = leaf.refutations.into_iter().map(|one| RefutationBody {
            entity: one.entity,
            reason: one.reason,
            at: WireTime::new(one.at, asker.dialect),
        });
        let refutations = refutations.collect();
        let envelope = EnvelopeBody::new(leaf.envelope, asker.dialect)?;
        envelopes.push(LeafBody { depth: leaf.depth, pairs: pairs.collect(), refutations, envelope });
    }
    ok(&ThreadBody { corr: path.into_inner(), envelopes })
}
