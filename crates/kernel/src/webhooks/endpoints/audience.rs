//! The audience: the endpoints that receive records now, each with its owner's view. The server's cache of it
//! is checked against the system log, which records every change of an endpoint or a key.

use std::collections::HashMap;
use std::sync::Arc;

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::webhooks::{Endpoint, EndpointKind, RING};
use sqlx::PgConnection;

use super::rows::{self, Stored};
use crate::access::membership;
use crate::feed::streams::{View, VisibilityFilter, know_members};
use crate::identity::keys::find_by_public_ids;
use crate::log::writer;
use crate::log::{GlobalPosition, Record, order};
use crate::{Caller, Ctx, Grant, Outcome};

/// An endpoint that receives records.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Number of the event in the system log after which it receives records.
    pub hears_from: i64,
    /// Position of that event; `None` while it has none: then it receives nothing yet.
    pub begins: Option<GlobalPosition>,
    /// The view of its owner.
    pub visibility: VisibilityFilter,
}

/// The receiving endpoints, as cached by this server.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    /// The end of the system log when they were loaded.
    seen: Option<i64>,
    /// The receiving endpoints.
    pub listeners: Vec<Listener>,
    /// The fan-out cursor as this server last left it; if another server has moved it, this one missed
    /// records.
    pub left_at: Option<GlobalPosition>,
}

impl Audience {
    /// Reloads the audience if anything has changed.
    pub async fn refresh(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        let tail = writer::tails(conn, &[IntentId::SYSTEM]).await?;
        let seen = tail.first().map_or(0, |(_, tail)| tail.seq);
        let now = ctx.now();
        let spent = |one: &Listener| !one.endpoint.live(now) || !one.visibility.caller.grant.in_force(now);
        if self.seen == Some(seen) {
            self.listeners.retain(|one| !spent(one));
            return self.find_beginnings(conn).await;
        }
        let live = rows::live(conn, now).await?;
        let keys: Vec<KeyId> = live.iter().map(|stored| stored.key_id).collect();
        let grants = grants(conn, &keys, now).await?;
        self.listeners = live
            .into_iter()
            .filter_map(|stored| {
                let grant = grants.get(&stored.key_id)?;
                let (caller, view) = view(&stored.endpoint, Arc::clone(grant), now)?;
                let visibility = VisibilityFilter::lasting(caller, view, &ctx.metrics);
                let (endpoint, hears_from) = (stored.endpoint, stored.hears_from);
                Some(Listener { endpoint, hears_from, begins: None, visibility })
            })
            .collect();
        self.seen = Some(seen);
        self.find_beginnings(conn).await
    }

    /// Looks up the positions where listeners begin, of those that are not known yet.
    async fn find_beginnings(&mut self, conn: &mut PgConnection) -> Outcome<()> {
        let unknown = |one: &&mut Listener| one.begins.is_none();
        let asked: Vec<i64> = self.listeners.iter_mut().filter(unknown).map(|one| one.hears_from).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let places = order::places_in_system(conn, &asked).await?;
        for one in self.listeners.iter_mut().filter(unknown) {
            one.begins = places.get(&one.hears_from).copied();
        }
        Ok(())
    }

    /// Returns the position where the first listener begins; `None` if no beginning has a position yet.
    pub async fn beginning(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<Option<GlobalPosition>> {
        order::advance(&mut *ctx.pool.acquire().await?).await?;
        self.find_beginnings(conn).await?;
        Ok(self.listeners.iter().filter_map(|one| one.begins).min())
    }

    /// Clears the cached access levels.
    pub fn forget_memberships(&mut self) {
        self.listeners.iter_mut().for_each(|one| one.visibility.forget());
    }

    /// Loads the access levels of all listeners for the intents of these records, in one query.
    pub async fn load_memberships<'a>(
        &mut self,
        ctx: &Ctx,
        conn: &mut PgConnection,
        records: impl Iterator<Item = &'a Record>,
    ) -> Outcome<()> {
        know_members(conn, self.listeners.iter_mut().map(|one| &mut one.visibility)).await?;
        let mut intents: Vec<IntentId> = records.map(Record::intent_id).collect();
        intents.sort_unstable();
        intents.dedup();
        let mut asked: Vec<(IntentId, String)> = Vec::new();
        for one in &self.listeners {
            let agent = &one.visibility.caller.agent;
            let new = intents
                .iter()
                .filter(|intent| in_scope(&one.endpoint, **intent) && one.visibility.asks_for(**intent));
            asked.extend(new.map(|intent| (*intent, agent.clone())));
        }
        asked.sort_unstable();
        asked.dedup();
        if asked.is_empty() {
            return Ok(());
        }
        let pairs: Vec<(IntentId, &str)> =
            asked.iter().map(|(intent, agent)| (*intent, agent.as_str())).collect();
        let found: HashMap<(IntentId, String), _> =
            membership::find_all(conn, &pairs, ctx.now()).await?.into_iter().collect();
        for one in &mut self.listeners {
            for intent in intents.iter().filter(|intent| in_scope(&one.endpoint, **intent)) {
                let pair = (*intent, one.visibility.caller.agent.clone());
                // Learning one may have dropped another from a full cache; only the asked pairs have an answer here.
                if one.visibility.asks_for(*intent) && asked.binary_search(&pair).is_ok() {
                    one.visibility.learn(*intent, found.get(&pair).cloned());
                }
            }
        }
        Ok(())
    }
}

impl Listener {
    /// Whether the endpoint receives this record, written as `kind`.
    pub async fn hears(&mut self, ctx: &Ctx, record: &Record, kind: &str) -> Outcome<bool> {
        let asked = in_scope(&self.endpoint, record.intent_id()) && self.endpoint.wants(kind);
        // An event that somebody posted under the name of a ring would be taken for one.
        let asked = asked && !(kind == RING && self.endpoint.hears_rings());
        Ok(asked && self.visibility.sees(ctx, record).await?)
    }
}

fn in_scope(endpoint: &Endpoint, intent: IntentId) -> bool {
    endpoint.intent_id.is_none_or(|only| only == intent)
}

/// Returns an endpoint's owner with this key, and its view; `None` if the key may not act as the agent, or may
/// not read the mailbox of a mailbox endpoint.
fn view(endpoint: &Endpoint, grant: Arc<Grant>, now: Timestamp) -> Option<(Caller, View)> {
    let caller = Caller::new(grant, Some(&endpoint.agent_id), now).ok()?;
    let view = match (endpoint.kind, endpoint.channel_id, endpoint.intent_id) {
        // Mailbox endpoints receive envelopes, not records; only the scope matters.
        (EndpointKind::Mailbox, _, _) if !caller.has(Scope::MailRead) => return None,
        (EndpointKind::Agent | EndpointKind::Mailbox, _, _) => View::Agent,
        (EndpointKind::Subscription, Some(channel), _) => View::Channel(channel),
        (EndpointKind::Subscription, None, Some(_)) => View::Intent,
        (EndpointKind::Subscription, None, None) => endpoint.portfolio_id.map_or(View::All, View::Portfolio),
    };
    Some((caller, view))
}

/// Returns the view of a stored endpoint's owner; `None` if its key is no longer in force.
pub(crate) async fn powers(
    conn: &mut PgConnection,
    stored: &Stored,
    now: Timestamp,
) -> Outcome<Option<VisibilityFilter>> {
    let mut grants = grants(conn, &[stored.key_id], now).await?;
    let owner = grants.remove(&stored.key_id).and_then(|grant| view(&stored.endpoint, grant, now));
    Ok(owner.map(|(caller, view)| VisibilityFilter::new(caller, view)))
}

/// Returns the grants of these keys, or of the newest keys in force that they were rotated to.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn grants(
    conn: &mut PgConnection,
    keys: &[KeyId],
    now: Timestamp,
) -> Outcome<HashMap<KeyId, Arc<Grant>>> {
    let mut roots: Vec<uuid::Uuid> = keys.iter().map(|key| key.uuid()).collect();
    roots.sort_unstable();
    roots.dedup();
    let newest: HashMap<KeyId, String> = rows::heirs(conn, &roots, now).await?.into_iter().collect();
    let ids: Vec<&str> = newest.values().map(String::as_str).collect();
    let found = find_by_public_ids(conn, &ids).await?.into_iter();
    let granted: HashMap<String, Arc<Grant>> = found
        .map(|found| {
            (found.key.public_id.clone(), Arc::new(Grant::new(found.key, found.kind, found.changed_seq)))
        })
        .collect();
    Ok(newest.iter().filter_map(|(root, id)| Some((*root, Arc::clone(granted.get(id)?)))).collect())
}
