//! The system log: changes of principals, keys and agents. It is stored in the table `events` and verified by
//! `chains.rs`.

use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::events::Event;

use crate::audit::events;
use crate::audit::events::EventFilter;
use crate::pages::Page;
use crate::{Caller, Ctx, Outcome};

/// Lists the events of the system log, newest first.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &EventFilter) -> Outcome<Page<Event>> {
    caller.require(Scope::Admin)?;
    let mut connection = ctx.pool.acquire().await?;
    events::page(&mut connection, caller, IntentId::SYSTEM, filter).await
}
