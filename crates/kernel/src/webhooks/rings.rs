//! Rings of inboxes for webhooks: queued in the transaction that adds or rings an entry, and sent while the entry still rings.
//!
//! A ring has no content of its object: the receiver reads the inbox, which shows what the agent may read then.

use std::collections::HashSet;

use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::EndpointId;
use entente_domain::inbox::Ring;
use entente_domain::webhooks::{RING, ring_id};
use serde::Deserialize;
use serde_json::json;
use sqlx::PgConnection;

use super::deliveries::{self, Queue};
use super::endpoints;
use super::{Post, Webhooks};
use crate::identity::entities::speaks_for;
use crate::notifications::rings;
use crate::{Caller, Outcome};

fn post(ring: &Ring, now: Timestamp) -> Post {
    let data = json!({
        "agent_id": ring.agent, "place": ring.place, "kind": ring.kind.as_str(), "what": ring.what,
        "at": rfc3339(ring.at), "rings": ring.rings,
    });
    Post {
        webhook_id: ring_id(&ring.agent, ring.opened_at, ring.place, ring.rings),
        kind: RING.to_owned(),
        body: json!({ "type": RING, "timestamp": rfc3339(now), "data": data }).to_string(),
        told: None,
        channel_id: None,
        trace_id: None,
        at: now,
    }
}

impl Webhooks {
    /// Queues rings for the endpoints that subscribed to them, in their order; returns whether any is to be sent.
    ///
    /// # Errors
    /// A database error.
    pub async fn queue_rings(
        &self,
        conn: &mut PgConnection,
        rings: &[Ring],
        now: Timestamp,
    ) -> Outcome<bool> {
        let mut agents: Vec<&str> = rings.iter().map(|ring| ring.agent.as_str()).collect();
        agents.sort_unstable();
        agents.dedup();
        if agents.is_empty() {
            return Ok(false);
        }
        let receivers = endpoints::of_inboxes(conn, &agents, now).await?;
        let mut queue = Queue::default();
        for ring in rings {
            let Some(ids) = receivers.get(&ring.agent) else { continue };
            queue.pairs.extend(ids.iter().map(|id| (queue.posts.len(), *id)));
            queue.posts.push(post(ring, now));
        }
        if queue.posts.is_empty() {
            return Ok(false);
        }
        let all: Vec<EndpointId> = receivers.into_values().flatten().collect();
        let due = deliveries::in_order(deliveries::latest(conn, &all).await?, now);
        Ok(!deliveries::queue(conn, &queue, due, due, false).await?.is_empty())
    }
}

/// The part of a ring's body that names its entry.
#[derive(Deserialize)]
struct Body {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    place: i64,
    rings: i32,
}

/// Returns the ids of those rings, by their queued bodies, that the caller's agent should still hear: nobody has seen
/// the entry, it has not expired, and these are no quiet hours, at whose end it rings again.
pub(super) async fn current(
    conn: &mut PgConnection,
    caller: &Caller,
    bodies: &[&str],
    now: Timestamp,
) -> Outcome<HashSet<String>> {
    if bodies.is_empty() || !caller.has(Scope::AgentsRead) || !speaks_for(conn, caller, &caller.agent).await?
    {
        return Ok(HashSet::new());
    }
    let asked: Vec<Data> =
        bodies.iter().filter_map(|body| Some(serde_json::from_str::<Body>(body).ok()?.data)).collect();
    let places: Vec<i64> = asked.iter().map(|data| data.place).collect();
    let mut ids = HashSet::new();
    for entry in rings::entries(conn, &caller.agent, &places, now).await? {
        let of_entry = asked.iter().filter(|data| data.place == entry.place);
        ids.extend(of_entry.map(|data| ring_id(&caller.agent, entry.opened_at, data.place, data.rings)));
    }
    Ok(ids)
}
