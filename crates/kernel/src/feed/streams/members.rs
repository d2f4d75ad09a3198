//! Members of a followed portfolio, cached until the system log shows a change of the portfolio. Visibility depends
//! on the members at the time of the check.

use std::collections::HashSet;

use entente_domain::access::Level;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, PortfolioId};
use entente_domain::log::events::{Event, Kind};
use sqlx::PgConnection;

use super::End;
use super::visibility::{View, VisibilityFilter};
use crate::access::portfolios::{Onlooker, members};
use crate::log::Record;
use crate::{AppError, Ctx, Outcome};

/// Cached members of a followed portfolio.
#[derive(Debug, Default)]
pub(super) enum Members {
    /// They must be loaded.
    #[default]
    Unknown,
    /// The caller may not see the portfolio.
    Hidden,
    /// The members.
    Known(HashSet<IntentId>),
}

impl From<Option<HashSet<IntentId>>> for Members {
    fn from(found: Option<HashSet<IntentId>>) -> Self {
        found.map_or(Self::Hidden, Self::Known)
    }
}

impl VisibilityFilter {
    /// Returns the followed portfolio, if there is one.
    fn portfolio(&self) -> Option<PortfolioId> {
        if let View::Portfolio(portfolio) = self.view { Some(portfolio) } else { None }
    }

    fn onlooker(&self, portfolio: PortfolioId) -> Onlooker<'_> {
        Onlooker { portfolio, agent: &self.caller.agent, admin: self.caller.has(Scope::Admin) }
    }

    /// Drops the cached members if an event changes the portfolio.
    pub(super) fn notice_members(&mut self, event: &Event) {
        if self.portfolio().is_some_and(|portfolio| is_about(event, portfolio)) {
            self.members = Members::Unknown;
        }
    }

    /// Returns whether a cached portfolio contains an intent; always true if no portfolio is followed.
    pub(super) fn may_have(&self, intent: IntentId) -> bool {
        match &self.members {
            _ if self.portfolio().is_none() => true,
            Members::Known(intents) => intents.contains(&intent),
            Members::Unknown | Members::Hidden => false,
        }
    }

    /// Returns whether an intent is in the portfolio at this moment.
    pub(super) async fn has(
        &mut self,
        ctx: &Ctx,
        portfolio: PortfolioId,
        intent: IntentId,
    ) -> Result<bool, End> {
        if matches!(self.members, Members::Unknown) {
            let look = async {
                let mut conn = ctx.pool.acquire().await.map_err(AppError::from)?;
                members(&mut conn, &[self.onlooker(portfolio)]).await
            };
            self.members = Box::pin(look).await?.pop().flatten().into();
        }
        match &self.members {
            Members::Known(intents) => Ok(intents.contains(&intent)),
            Members::Unknown | Members::Hidden => Err(End::AccessEnded),
        }
    }

    /// Decides for a portfolio's stream: records of its intents, and of itself unless they concern an intent that the
    /// caller cannot read.
    pub(super) async fn shows_in_portfolio(
        &mut self,
        ctx: &Ctx,
        portfolio: PortfolioId,
        record: &Record,
    ) -> Result<bool, End> {
        let intent = record.intent_id();
        // Checked for records of the system log too, because this is how a portfolio that became invisible ends its
        // stream.
        let inside = self.has(ctx, portfolio, intent).await?;
        if intent == IntentId::SYSTEM {
            let Record::Event { event, .. } = record else { return Ok(false) };
            if !is_about(event, portfolio) {
                return Ok(false);
            }
            let named = event.payload.get("intent_id").and_then(|id| id.as_str());
            let Some(named) = named.and_then(|id| id.parse().ok()) else { return Ok(true) };
            let membership = self.membership(ctx, named).await?;
            return Ok(membership.is_some_and(|membership| membership.access.reaches(Level::Read)));
        }
        if !inside {
            return Ok(false);
        }
        let membership = self.membership(ctx, intent).await?;
        let readable = membership.as_ref().is_some_and(|membership| membership.access.reaches(Level::Read));
        Ok(readable && self.shows_record(ctx, record, membership.as_ref()))
    }
}

fn is_about(event: &Event, portfolio: PortfolioId) -> bool {
    let kinds = [
        Kind::PortfolioCreated,
        Kind::PortfolioStatusChanged,
        Kind::PortfolioIntentAdded,
        Kind::PortfolioIntentRemoved,
    ];
    event.intent_id == IntentId::SYSTEM
        && !event.posted
        && kinds.iter().any(|kind| kind.wire() == event.event_type)
        && event.payload.get("portfolio_id").and_then(|id| id.as_str()) == Some(&portfolio.to_string())
}

/// Loads the members of the portfolios that these views need, all at once.
pub(crate) async fn know_members(
    conn: &mut PgConnection,
    filters: impl Iterator<Item = &mut VisibilityFilter>,
) -> Outcome<()> {
    let mut asking: Vec<(PortfolioId, &mut VisibilityFilter)> = filters
        .filter(|visibility| matches!(visibility.members, Members::Unknown))
        .filter_map(|visibility| Some((visibility.portfolio()?, visibility)))
        .collect();
    if asking.is_empty() {
        return Ok(());
    }
    let asked: Vec<Onlooker<'_>> =
        asking.iter().map(|(portfolio, visibility)| visibility.onlooker(*portfolio)).collect();
    let found = members(conn, &asked).await?;
    for ((_, visibility), members) in asking.iter_mut().zip(found) {
        visibility.members = members.into();
    }
    Ok(())
}
