//! Reactions of AEE to changes by other protocols or the kernel.

use entente_domain::clock::Timestamp;
use entente_domain::notifications::Topic;
use entente_domain::notifications::forms::WaitingItem;
use entente_kernel::hooks::{Hook, Reaction};
use entente_kernel::wakeups::WakeKey;
use sqlx::PgConnection;

use super::{mailboxes, notifying};

/// The hooks of AEE.
pub struct Aee;

impl Hook for Aee {
    /// Opens the mailbox, so that envelopes to an entity that is not known yet are kept for its webhook.
    fn mailbox_subscribed<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        entity: &'a str,
        by: &'a str,
        now: Timestamp,
    ) -> Reaction<'a> {
        Box::pin(mailboxes::open_row(conn, entity, by, now))
    }

    fn waiting<'a>(
        &'a self,
        ctx: &'a entente_kernel::Ctx,
        person: &'a str,
        topic: Topic,
        subjects: &'a [String],
    ) -> Reaction<'a, Vec<(String, WaitingItem)>> {
        Box::pin(async move {
            if topic == Topic::Approval {
                notifying::waiting(ctx, person, subjects).await
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn versions<'a>(
        &'a self,
        ctx: &'a entente_kernel::Ctx,
        keys: &'a [WakeKey],
    ) -> Reaction<'a, Vec<(WakeKey, i64)>> {
        Box::pin(mailboxes::versions(ctx, keys))
    }
}
