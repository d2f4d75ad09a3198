//! This server's copy of the agents that may not send as they like, so that a send costs no query.
//!
//! The follower's server renews its copy after each change, the others by the look-around (`due::look`), within half a second.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};

use chrono::{DateTime, TimeDelta};
use entente_domain::clock::{Clock, Timestamp};
use entente_domain::ids::IntentId;
use entente_domain::loops::lineages::Hold;
use entente_domain::loops::policy::LoopAction;
use entente_domain::refusal::Refusal;

use super::rows;
use crate::{Ctx, Outcome};

/// Holds of an intent's agents, by their names.
type OfIntent = HashMap<String, Held>;

/// This server's copy of the holds.
#[derive(Debug)]
pub struct LoopHolds {
    holds: RwLock<HashMap<IntentId, OfIntent>>,
    any: AtomicBool,
    /// Version that is known here.
    seen: AtomicI64,
}

impl Default for LoopHolds {
    fn default() -> Self {
        Self { holds: RwLock::default(), any: AtomicBool::new(false), seen: AtomicI64::new(-1) }
    }
}

/// A hold, with the time of the next message as far as this server knows.
#[derive(Debug)]
struct Held {
    hold: Hold,
    pace: TimeDelta,
    /// Time of the agent's next message, in milliseconds since 1970. A message that this server lets through moves it
    /// at once, before the follower has read the message.
    next: AtomicI64,
}

impl Held {
    fn objection(&self, now: Timestamp) -> Option<Refusal> {
        let next = self.next.load(Ordering::Acquire);
        let next_at = DateTime::from_timestamp_millis(next).unwrap_or(self.hold.next_at);
        let refused = Hold { next_at, ..self.hold.clone() }.objection(now);
        if refused.is_some() || self.hold.action != LoopAction::Slow {
            return refused;
        }
        let after = (now + self.pace).timestamp_millis();
        // Of several at the same time one passes.
        let passes = self.next.compare_exchange(next, after, Ordering::AcqRel, Ordering::Acquire).is_ok();
        let late = Hold { next_at: now + self.pace, ..self.hold.clone() };
        if passes { None } else { late.objection(now) }
    }
}

impl LoopHolds {
    /// Version of the holds that is known here.
    #[must_use]
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Returns the refusal of a message that an agent sends on an intent, if it is in a loop or a storm.
    #[must_use]
    pub fn objection(&self, agent: &str, intent: IntentId, clock: &dyn Clock) -> Option<Refusal> {
        // Nearly always there is none: then nothing is looked up.
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let holds = self.holds.read().unwrap_or_else(PoisonError::into_inner);
        holds.get(&intent)?.get(agent)?.objection(clock.now())
    }

    /// Renews the copy.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn refresh(&self, ctx: &Ctx) -> Outcome<()> {
        let mut conn = ctx.pool.acquire().await?;
        // The version first: the next look then finds a change that is made meanwhile.
        let version = rows::holds_version(&mut conn).await?;
        let found = rows::holds(&mut conn, None).await?;
        drop(conn);
        let mut holds = self.holds.write().unwrap_or_else(PoisonError::into_inner);
        // A slower refresh must not replace a later one.
        if version < self.seen() {
            return Ok(());
        }
        let mut renewed: HashMap<IntentId, OfIntent> = HashMap::new();
        for stored in found {
            let (hold, pace) = (stored.hold, TimeDelta::seconds(stored.slow_seconds));
            let known = holds.get(&stored.intent_id).and_then(|agents| agents.get(&hold.agent));
            let known =
                known.filter(|known| known.hold.lineage == hold.lineage && known.hold.action == hold.action);
            let here = known.map_or(i64::MIN, |known| known.next.load(Ordering::Acquire));
            let next = AtomicI64::new(hold.next_at.timestamp_millis().max(here));
            let agent = hold.agent.clone();
            renewed.entry(stored.intent_id).or_default().insert(agent, Held { hold, pace, next });
        }
        self.any.store(!renewed.is_empty(), Ordering::Release);
        *holds = renewed;
        self.seen.store(version, Ordering::Release);
        Ok(())
    }
}
