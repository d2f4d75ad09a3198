//! Reactions of binding moments to changes by other protocols.

use std::sync::Arc;

use entente_domain::ids::MomentId;
use entente_domain::notifications::Topic;
use entente_domain::notifications::forms::WaitingItem;
use entente_domain::openintent::intents::IntentStatus;
use entente_kernel::hooks::{AfterCommit, Hook, IntentChange, Reaction};
use entente_kernel::wakeups::WakeKey;

use super::{ending, notifying, reading};
use crate::{Ctx, State};

/// The hooks of binding moments.
pub struct Moments(pub Arc<State>);

impl Hook for Moments {
    /// Withdraws the questions of a closed intent.
    fn intent_closed<'a>(
        &'a self,
        change: &'a mut IntentChange<'_>,
        _status: IntentStatus,
        after: &'a mut AfterCommit,
    ) -> Reaction<'a> {
        Box::pin(async move {
            let IntentChange { ctx, conn, log, actor } = change;
            let ctx = &Ctx::of(ctx, &self.0);
            let ended = ending::end_of_intent(conn, ctx, log, actor).await?;
            after.add(move |ctx| ended.announce(ctx));
            Ok(())
        })
    }

    /// Withdraws the question that a suspended intent waited for.
    fn suspension_ended<'a>(
        &'a self,
        change: &'a mut IntentChange<'_>,
        moment: MomentId,
        after: &'a mut AfterCommit,
    ) -> Reaction<'a> {
        Box::pin(async move {
            let IntentChange { ctx, conn, log, actor } = change;
            let ctx = &Ctx::of(ctx, &self.0);
            let ended = ending::end_of_suspension(conn, ctx, log, actor, moment).await?;
            after.add(move |ctx| ended.announce(ctx));
            Ok(())
        })
    }

    fn waiting<'a>(
        &'a self,
        ctx: &'a entente_kernel::Ctx,
        person: &'a str,
        topic: Topic,
        subjects: &'a [String],
    ) -> Reaction<'a, Vec<(String, WaitingItem)>> {
        Box::pin(async move {
            if topic == Topic::Decision {
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
        Box::pin(reading::versions(ctx, keys))
    }
}
