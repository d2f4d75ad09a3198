//! The route of threads (AEE §5.3): the envelopes of one `corr`, as a tree.

use actix_web::{get, web};
use entente_aee::threads::thread;
use entente_domain::aee::envelopes::pairing::PairStatus;
use entente_domain::limits::PAGE;
use entente_http::body::{Limit1000, Query};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;
use crate::envelopes::EnvelopeBody;

pub fn routes(config: &mut Routes<'_>) {
    config.service(get_thread);
}

/// A respondent of a task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopePair)]
struct PairBody {
    /// Entity that is to answer.
    respondent: String,
    /// State of the exchange.
    status: PairStatus,
}

/// The rejection of an envelope by an entity (`aee.context.refute`).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeRefutation)]
struct RefutationBody {
    /// Entity that rejects the envelope.
    entity: String,
    /// Reason for the rejection.
    reason: String,
    /// When the envelope was rejected.
    #[schema(value_type = String)]
    at: WireTime,
}

/// An envelope in its thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ThreadEnvelope)]
struct LeafBody {
    /// Depth in the tree: 0 for an envelope that answers none of those shown.
    depth: usize,
    /// For a task, its respondents: all for the sender of the task, only themselves for the others.
    pairs: Vec<PairBody>,
    /// The rejections, oldest first.
    refutations: Vec<RefutationBody>,
    #[serde(flatten)]
    envelope: EnvelopeBody,
}

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeThread)]
struct ThreadBody {
    /// The thread's `corr`.
    corr: String,
    /// The envelopes, oldest first; each follows the one that it answers, one level deeper.
    envelopes: Vec<LeafBody>,
    /// Cursor of the next page; null if there are no more envelopes.
    next_cursor: Option<String>,
}

/// Read a thread
///
/// Returns the envelopes of one `corr` that the caller is a party to, oldest first, as a tree of answers. A
/// page holds up to 4 MiB; it may be empty and still have a `next_cursor`, if others have written many
/// envelopes under the same `corr`.
#[utoipa::path(operation_id = "get_thread", tag = "envelopes",
    params(("corr" = String, Path, description = "`corr` of the thread"),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"), Limit1000),
    responses((status = 200, description = "The thread", body = ThreadBody)))]
#[get("/aee/threads/{corr}")]
async fn get_thread(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let limit = query.number("limit", PAGE, 1, PAGE)?;
    let (leaves, next_cursor) = thread(&api.ctx, &asker.caller, &path, query.text("cursor"), limit).await?;
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
