//! The route of threads (AEE §5.3): what was said under one `corr`, as a tree.

use actix_web::{get, web};
use entente_domain::envelopes::pairing::PairStatus;
use entente_domain::limits::PAGE;
use entente_kernel::envelopes::thread;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::Query;
use super::caller::Asker;
use super::envelopes::EnvelopeBody;
use super::error::Reply;
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
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
    /// Those who are to answer it, when it is a task: all for who asked, for others themselves.
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
    /// `cursor` of the next page, when there may be more.
    next_cursor: Option<String>,
}

/// Read a thread
///
/// The envelopes of one `corr` that the caller is a party to, the earlier first, as a tree of what answers what. A page has
/// up to 4 MiB of them; it may have none and yet a `next_cursor`, when others have written much under the same `corr`.
#[utoipa::path(operation_id = "get_thread", tag = "envelopes",
    params(("corr" = String, Path, description = "The thread's `corr`"),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
           ("limit" = Option<u32>, Query, description = "1 to 1,000; 1,000 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The thread", body = ThreadBody)))]
#[get("/aee/threads/{corr}")]
async fn get_thread(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let limit = query.number("limit", PAGE, 1, PAGE)?;
    let (leaves, next_cursor) = thread(&doors.ctx, &asker.caller, &path, query.text("cursor"), limit).await?;
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
    ok(&ThreadBody { corr: path.into_inner(), envelopes, next_cursor })
}
