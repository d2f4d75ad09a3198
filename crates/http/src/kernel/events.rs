//! Endpoints that read an intent's log (RFC-0001, RFC-0019); OpenIntent's message writer appends to it.

use std::collections::HashSet;

use actix_web::{get, web};
use entente_domain::clock;
use entente_domain::ids::{EventId, IntentId};
use entente_domain::log::chains::Break;
use entente_kernel::audit::chains::Verification;
use entente_kernel::audit::events::EventFilter;
use entente_kernel::audit::{chains, events};
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::{Limit100, Query, id};
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::event::EventBody;
use crate::routes::Routes;
use crate::{HttpState, ok, paged_log};

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(list).service(verify);
}

/// Parses the event filter of a query.
///
/// # Errors
/// A parameter is malformed.
pub fn filter(query: &Query) -> Result<EventFilter, Problem> {
    Ok(EventFilter {
        event_type: query.text("event_type").map(str::to_owned),
        since: query.parsed("since", "an RFC 3339 time", clock::parse)?,
        trace_id: query.text("trace_id").map(str::to_owned),
        limit: query.limit(100)?,
        offset: query.offset()?,
    })
}

/// List an intent's events
///
/// Newest first. A page has at most 4 MiB; `Entente-Has-More` tells that it was cut short, and `offset` continues
/// after it. The last page says in `Entente-Deleted-Events` how many older events retention has deleted, if any.
#[utoipa::path(operation_id = "list_events", tag = "intents",
    params(("event_type" = Option<String>, Query, description = "Only events of this type"),
           ("since" = Option<String>, Query, description = "Only events after this time"),
           ("trace_id" = Option<String>, Query, description = "Only events of this trace"), Limit100,
           ("offset" = Option<u32>, Query, description = "Number of newest events to skip; defaults to 0")),
    responses((status = 200, description = "The events", body = [EventBody],
               headers(("Entente-Has-More" = Option<String>, description = "`true` if the page was cut short because of its size"),
                       ("Entente-Deleted-Events" = Option<i64>, description = "Number of older events that retention has deleted, on the last page")))))]
#[get("/intents/{intent_id}/events")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let found = events::list(&api.ctx, &asker.caller, intent_id, &filter(&query)?).await?;
    let bodies: Vec<_> = found.items.iter().map(|event| EventBody::new(event, asker.dialect)).collect();
    paged_log(&bodies, found.cut, found.large, found.deleted)
}

/// An event of a verified chain.
#[derive(Debug, Serialize, ToSchema)]
struct VerifiedEvent {
    /// The event's position in the chain.
    sequence: i64,
    /// The stored hash.
    event_hash: Option<String>,
    /// The hash of the previous event, as stored.
    previous_event_hash: Option<String>,
    /// Whether the event passed every check.
    verified: bool,
}

/// The result of a verification.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerificationBody {
    /// The intent; null for the system log.
    intent_id: Option<IntentId>,
    /// Number of events.
    event_count: usize,
    /// Number of older events that retention has deleted: their hashes are kept, and checkpoints cover them. Left out if it
    /// is 0.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    deleted_count: usize,
    /// Position of the first event.
    first_sequence: Option<i64>,
    /// Position of the last event.
    last_sequence: Option<i64>,
    /// Whether no fault was found.
    chain_valid: bool,
    /// Same as `chain_valid`, under the SDK's name.
    valid: bool,
    /// Number of checkpoints compared.
    checkpoint_count: usize,
    /// The faults found.
    breaks: Vec<Break>,
    /// The events.
    events: Vec<VerifiedEvent>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl VerificationBody {
    /// Returns the result of a verification in the client's dialect.
    #[must_use]
    pub fn new(intent_id: Option<IntentId>, found: Verification) -> Self {
        let faults = found.breaks.iter().filter(|fault| fault.checkpoint_id.is_none());
        let faulty: HashSet<EventId> = faults.map(|fault| fault.event_id).collect();
        let events: Vec<VerifiedEvent> = found
            .events
            .into_iter()
            .map(|event| VerifiedEvent {
                sequence: event.sequence,
                verified: !faulty.contains(&event.id),
                event_hash: event.event_hash,
                previous_event_hash: event.previous_event_hash,
            })
            .collect();
        Self {
            intent_id,
            event_count: events.len(),
            deleted_count: found.deleted.len(),
            first_sequence: events.first().map(|event| event.sequence),
            last_sequence: events.last().map(|event| event.sequence),
            chain_valid: found.breaks.is_empty(),
            valid: found.breaks.is_empty(),
            checkpoint_count: found.checkpoint_count,
            breaks: found.breaks,
            events,
        }
    }
}

/// Verify an intent's chain
///
/// Checks that every event is at its position, links to the previous one and has the hash of its content; that the
/// last event is where the log ended; that every checkpoint still holds; and that every verified proof is still its
/// actor's (RFC-0018, RFC-0019).
#[utoipa::path(operation_id = "verify_events",
    tag = "intents",
    responses((status = 200, description = "Result of the verification", body = VerificationBody)))]
#[get("/intents/{intent_id}/events/verify")]
async fn verify(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let found = chains::of_intent(&api.ctx, &asker.caller, intent_id).await?;
    ok(&VerificationBody::new(Some(intent_id), found))
}
