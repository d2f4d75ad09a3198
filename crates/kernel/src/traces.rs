//! Traces (RFC-0020): what belongs to one trace, on every intent that the caller can read. Table `events`; which trace a
//! request belongs to is `caller.rs`, that its events say so is `lines.rs`.

use entente_domain::events::{Event, check_trace_id};
use entente_domain::keys::Scope;
use entente_domain::refusal::Code;

use super::events::of_trace;
use super::pages::Page;
use super::{Caller, Ctx, Outcome, refuse};

/// The events of a trace, the oldest first: those on intents that the caller can read, and with the scope `admin` those
/// of the house's own log.
///
/// # Errors
/// It is no trace id.
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
    of_trace(&mut conn, caller, trace_id, ctx.now(), (limit, offset)).await
}
