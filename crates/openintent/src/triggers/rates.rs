//! Rate limits for firings that others cause: per trigger, and per principal, because every firing is a transaction
//! under the lock of the system log.

use std::collections::{HashMap, HashSet};

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::TriggerId;
use entente_domain::openintent::triggers::Trigger;
use entente_kernel::Outcome;
use sqlx::PgConnection;

/// Decision about one more firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is allowed.
    Free,
    /// It exceeds the rate, for the first time in this minute.
    JustFull,
    /// It exceeds the rate.
    Full,
}

/// Remaining firings within a minute.
#[derive(Debug)]
pub(super) struct Rates {
    triggers: HashMap<TriggerId, usize>,
    principals: HashMap<String, usize>,
    full: HashSet<TriggerId>,
}

impl Rates {
    /// Loads the use of the last minute, for these triggers and principals.
    pub async fn load(
        conn: &mut PgConnection,
        triggers: &[TriggerId],
        principals: &[&str],
        now: Timestamp,
    ) -> Outcome<Self> {
        let since = now - TimeDelta::seconds(60);
        // Skipped firings do not count; otherwise a flow that never pauses would be skipped for ever.
        let own = sqlx::query!(
            r#"-- trigger_firings::recent
             SELECT trigger_id, count(*) FILTER (WHERE reason IS DISTINCT FROM 'rate') AS "count!",
                    bool_or(reason IS NOT DISTINCT FROM 'rate') AS "full!"
             FROM trigger_firings
             WHERE trigger_id = ANY ($1) AND created_at > $2 AND cause IN ('event', 'webhook') GROUP BY trigger_id"#,
            &triggers.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
            since
        )
        .fetch_all(&mut *conn)
        .await?;
        let all = sqlx::query!(
            r#"-- trigger_firings::recent_of_principals
             SELECT t.principal_id, count(*) AS "count!" FROM triggers t JOIN trigger_firings f ON f.trigger_id = t.id
             WHERE t.principal_id = ANY ($1) AND t.removed_at IS NULL AND f.created_at > $2
               AND f.cause IN ('event', 'webhook') AND f.reason IS DISTINCT FROM 'rate'
             GROUP BY t.principal_id"#,
            principals as &[&str],
            since
        )
        .fetch_all(conn)
        .await?;
        let full = own.iter().filter(|row| row.full).map(|row| row.trigger_id.into()).collect();
        let triggers = own.iter().map(|row| (row.trigger_id.into(), Trigger::room(row.count)));
        let principals = all.into_iter().map(|row| (row.principal_id, Trigger::room_of_principal(row.count)));
        Ok(Self { triggers: triggers.collect(), principals: principals.collect(), full })
    }

    /// Takes one firing from a trigger's and a principal's rate, if both have one left.
    pub fn take(&mut self, trigger: TriggerId, principal: &str) -> Admission {
        let own = self.triggers.entry(trigger).or_insert_with(|| Trigger::room(0));
        if !self.principals.contains_key(principal) {
            self.principals.insert(principal.to_owned(), Trigger::room_of_principal(0));
        }
        let all = self.principals.get_mut(principal).filter(|all| **all > 0);
        if let Some(all) = all.filter(|_| *own > 0) {
            *own -= 1;
            *all -= 1;
            Admission::Free
        } else if self.full.insert(trigger) {
            Admission::JustFull
        } else {
            Admission::Full
        }
    }
}
