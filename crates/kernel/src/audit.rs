//! The house's own log: what happened to principals, keys and agents. Table `events`, the line of no intent; verifying it is
//! `chains.rs`.

use entente_domain::events::Event;
use entente_domain::ids::IntentId;
use entente_domain::keys::Scope;

use super::events::{self, Filter};
use super::pages::Page;
use super::{Caller, Ctx, Outcome};

/// The house's events, the newest first.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &Filter) -> Outcome<Page<Event>> {
    caller.require(Scope::Admin)?;
    let mut connection = ctx.pool.acquire().await?;
    events::page(&mut connection, caller, IntentId::HOUSE, filter).await
}
