//! Looking at a portfolio: which intents are in it, as far as that is remembered. It is looked up anew when the house's line
//! tells that it has changed, and what is seen is what is in the portfolio then.

use std::collections::HashSet;

use entente_domain::access::Level;
use entente_domain::events::{Event, Kind};
use entente_domain::ids::{IntentId, PortfolioId};
use entente_domain::keys::Scope;
use sqlx::PgConnection;

use super::End;
use super::sight::{Sight, View};
use crate::feed::Record;
use crate::portfolios::{Onlooker, members};
use crate::{AppError, Ctx, Outcome};

/// The intents of the portfolio that somebody looks at.
#[derive(Debug, Default)]
pub(super) enum Members {
    /// They are to be looked up.
    #[default]
    Unknown,
    /// The portfolio is not the caller's to see.
    Hidden,
    /// They are these.
    Known(HashSet<IntentId>),
}

impl From<Option<HashSet<IntentId>>> for Members {
    fn from(found: Option<HashSet<IntentId>>) -> Self {
        found.map_or(Self::Hidden, Self::Known)
    }
}

impl Sight {
    /// The portfolio that is looked at, if it is one.
    fn portfolio(&self) -> Option<PortfolioId> {
        if let View::Portfolio(portfolio) = self.view { Some(portfolio) } else { None }
    }

    fn onlooker(&self, portfolio: PortfolioId) -> Onlooker<'_> {
        Onlooker { portfolio, agent: &self.caller.agent, admin: self.caller.has(Scope::Admin) }
    }

    /// Notices that what is in the portfolio has changed.
    pub(super) fn notice_members(&mut self, event: &Event) {
        if self.portfolio().is_some_and(|portfolio| is_about(event, portfolio)) {
            self.members = Members::Unknown;
        }
    }

    /// Whether an intent is in the portfolio, as far as that is known; anything may be where no portfolio is looked at.
    pub(super) fn may_have(&self, intent: IntentId) -> bool {
        match &self.members {
            _ if self.portfolio().is_none() => true,
            Members::Known(intents) => intents.contains(&intent),
            Members::Unknown | Members::Hidden => false,
        }
    }

    /// Whether an intent is in the portfolio at this moment.
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

    /// On a portfolio's stream: what happens to its intents, and to itself as far as it is about none that the caller cannot
    /// read.
    pub(super) async fn shows_in_portfolio(
        &mut self,
        ctx: &Ctx,
        portfolio: PortfolioId,
        record: &Record,
    ) -> Result<bool, End> {
        let intent = record.intent_id();
        // That it is asked of the house too is how a portfolio that is not the caller's to see ends the look at it.
        let inside = self.has(ctx, portfolio, intent).await?;
        if intent == IntentId::HOUSE {
            let Record::Event { event, .. } = record else { return Ok(false) };
            if !is_about(event, portfolio) {
                return Ok(false);
            }
            let named = event.payload.get("intent_id").and_then(|id| id.as_str());
            let Some(named) = named.and_then(|id| id.parse().ok()) else { return Ok(true) };
            let seat = self.seat(ctx, named).await?;
            return Ok(seat.is_some_and(|seat| seat.standing.reaches(Level::Read)));
        }
        if !inside {
            return Ok(false);
        }
        let seat = self.seat(ctx, intent).await?;
        let readable = seat.as_ref().is_some_and(|seat| seat.standing.reaches(Level::Read));
        Ok(readable && self.shows_record(ctx, record, seat.as_ref()))
    }
}

fn is_about(event: &Event, portfolio: PortfolioId) -> bool {
    let kinds = [
        Kind::PortfolioCreated,
        Kind::PortfolioStatusChanged,
        Kind::PortfolioIntentAdded,
        Kind::PortfolioIntentRemoved,
    ];
    event.intent_id == IntentId::HOUSE
        && !event.posted
        && kinds.iter().any(|kind| kind.wire() == event.event_type)
        && event.payload.get("portfolio_id").and_then(|id| id.as_str()) == Some(&portfolio.to_string())
}

/// Looks up what is in the portfolios that these look at, of those who do not know, all at once.
pub(crate) async fn know_members(
    conn: &mut PgConnection,
    sights: impl Iterator<Item = &mut Sight>,
) -> Outcome<()> {
    let mut asking: Vec<(PortfolioId, &mut Sight)> = sights
        .filter(|sight| matches!(sight.members, Members::Unknown))
        .filter_map(|sight| Some((sight.portfolio()?, sight)))
        .collect();
    if asking.is_empty() {
        return Ok(());
    }
    let asked: Vec<Onlooker<'_>> =
        asking.iter().map(|(portfolio, sight)| sight.onlooker(*portfolio)).collect();
    let found = members(conn, &asked).await?;
    for ((_, sight), members) in asking.iter_mut().zip(found) {
        sight.members = members.into();
    }
    Ok(())
}
