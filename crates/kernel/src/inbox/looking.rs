//! Looking into an inbox from outside, for its agent's owner and for admins. A look stores nothing: no position moves, and
//! nothing counts as taken up.

use std::collections::HashMap;

use entente_domain::aee::envelopes::approvals::is_person;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::ChannelId;
use sqlx::PgConnection;

use super::reading::{self, Content, ShownEntry};
use super::{Inbox, Reader, readers, rows};
use crate::identity::entities::speaks_for;
use crate::identity::principals;
use crate::{Caller, Ctx, Outcome, channels, not_found};

/// Entries of one look.
const SHOWN: usize = 100;

/// Ringing entries of one look.
const ARMED: usize = 50;

/// An inbox as it is seen from outside.
#[derive(Debug)]
pub struct Look {
    /// The inbox.
    pub inbox: Inbox,
    /// Whether these are quiet hours.
    pub is_quiet: bool,
    /// Its readers.
    pub readers: Vec<Reader>,
    /// The newest entries that ring until they are seen, newest first.
    pub armed: Vec<ShownEntry>,
    /// Whether more ring.
    pub is_more_armed: bool,
    /// Entries, newest first.
    pub entries: Vec<ShownEntry>,
    /// Place before which there are older entries.
    pub older: Option<i64>,
    /// Names of the channels of these entries.
    pub channels: HashMap<ChannelId, String>,
}

/// Looks at the entries of an inbox before a place, or at the newest ones; `None` if the inbox is not open.
///
/// # Errors
/// The caller's key may not act as the agent, the caller did not register it and is no admin: then any inbox counts as
/// missing. Only a person sees a person's inbox.
pub async fn look(ctx: &Ctx, caller: &Caller, agent: &str, before: Option<i64>) -> Outcome<Option<Look>> {
    caller.require(Scope::AgentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    if !may_look(&mut conn, caller, agent).await? {
        return Err(not_found("inbox"));
    }
    let Some(inbox) = rows::find(&mut conn, agent).await? else { return Ok(None) };
    let now = ctx.now();
    let is_quiet = inbox.settings.is_quiet(now);
    let limit = |most: usize| i64::try_from(most).map_or(i64::MAX, |most| most + 1);
    let armed = rows::armed(&mut conn, agent, now, limit(ARMED)).await?;
    let (armed, is_more_armed) =
        reading::show(&mut conn, ctx, caller, &inbox, armed, ARMED, is_quiet).await?;
    let found = rows::newest(&mut conn, agent, before.unwrap_or(i64::MAX), now, limit(SHOWN)).await?;
    let (entries, is_cut) = reading::show(&mut conn, ctx, caller, &inbox, found, SHOWN, is_quiet).await?;
    let older = entries.last().map(|one| one.entry.place).filter(|_| is_cut);
    let mut rooms: Vec<ChannelId> = entries
        .iter()
        .chain(&armed)
        .filter(|one| !matches!(one.content, Content::Withheld))
        .filter_map(|one| one.entry.channel_id)
        .collect();
    rooms.sort_unstable();
    rooms.dedup();
    let rooms = if rooms.is_empty() { Vec::new() } else { channels::load_all(&mut conn, &rooms).await? };
    Ok(Some(Look {
        readers: readers::of_inbox(&mut conn, agent).await?,
        inbox,
        is_quiet,
        armed,
        is_more_armed,
        entries,
        older,
        channels: rooms.into_iter().map(|channel| (channel.id, channel.name)).collect(),
    }))
}

/// Returns whether the caller may look into an inbox.
async fn may_look(conn: &mut PgConnection, caller: &Caller, agent: &str) -> Outcome<bool> {
    if speaks_for(conn, caller, agent).await? {
        return Ok(true);
    }
    let kind = principals::find(conn, agent).await?.map(|found| found.kind);
    if is_person(agent, kind) {
        return Ok(false);
    }
    if caller.has(Scope::Admin) {
        return Ok(true);
    }
    let registered = crate::identity::agents::find(conn, agent).await?;
    Ok(registered.is_some_and(|found| found.principal_id == caller.principal()))
}
