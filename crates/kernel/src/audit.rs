//! The system log: changes of principals, keys and agents. It is stored in the table `events` and verified by
//! `chains.rs`.

use entente_domain::events::Event;
use entente_domain::ids::IntentId;
use entente_domain::keys::Scope;

use super::events::{self, Filter};
use super::pages::Page;
use super::{Caller, Ctx, Outcome};

/// Lists the events of the system log, newest first.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &Filter) -> Outcome<Page<Event>> {
    caller.require(Scope::Admin)?;
    let mut connection = ctx.pool.acquire().await?;
    events::page(&mut connection, caller, IntentId::HOUSE, filter).await
}
