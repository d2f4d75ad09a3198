//! Traces (RFC-0020): the events of one trace on all intents that the caller can read. Table `events`;
//! `identity/caller.rs` determines a request's trace, and `log/writer.rs` writes it on the events.

use entente_domain::identity::keys::Scope;
use entente_domain::log::events::{Event, check_trace_id};
use entente_domain::refusal::Code;

use crate::audit::events::of_trace;
use crate::log::order;
use crate::pages::Page;
use crate::{Caller, Ctx, Outcome, refuse};

/// Lists the events of a trace, oldest first: those of readable intents and, with the scope `admin`, of the system
/// log.
///
/// # Errors
/// Fails if the trace id is malformed.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    trace_id: Option<&str>,
    limit: u32,
    offset: u32,
) -> Outcome<Page<Event>> {
    caller.require(Scope::IntentsRead)?;
    let missing =
        || refuse(Code::InvalidParameter, "Say which trace: `?trace_id=` and 32 hexadecimal digits.");
    let trace_id = trace_id.ok_or_else(missing)?;
    check_trace_id(trace_id)?;
    let mut conn = ctx.pool.acquire().await?;
    // The order of writing is that over all logs, so everything that is written gets a number first.
    order::advance(&mut conn).await?;
    of_trace(&mut conn, caller, trace_id, ctx.now(), limit, offset).await
}
