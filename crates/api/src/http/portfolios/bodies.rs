//! Portfolios on the wire, and what is in them.

use std::collections::BTreeMap;

use entente_domain::ids::{IntentId, MembershipId, PortfolioId};
use entente_domain::keys::Dialect;
use entente_domain::portfolios::{Aggregate, Membership, MembershipRole, Portfolio, PortfolioStatus};
use entente_kernel::portfolios::Shown;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::intents::IntentBody;
use crate::http::wire::WireTime;

/// What intents come to; those that the caller cannot read are not counted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AggregateStatus)]
pub struct AggregateBody {
    /// How many there are.
    total: u64,
    /// How many in each status that any of them has.
    #[schema(value_type = Object, example = json!({ "active": 1, "completed": 1 }))]
    by_status: BTreeMap<&'static str, u64>,
    /// How many of a hundred are completed, rounded down.
    completion_percentage: u64,
}

impl AggregateBody {
    pub fn new(sums: &Aggregate) -> Self {
        Self {
            total: sums.total,
            by_status: sums.by_status.clone(),
            completion_percentage: sums.completion_percentage(),
        }
    }
}

/// Rules of a portfolio: the client's own object. Only the document speaks of it, because they stand under two names.
#[derive(ToSchema)]
#[schema(as = PortfolioRules, value_type = Object)]
struct Rules(());

/// A portfolio. Times and rules stand there in both cases, because the SDK reads the times in camel case alone.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PortfolioBody<'a> {
    /// Its id.
    id: PortfolioId,
    /// What it is called.
    #[schema(example = "Q1 reporting")]
    name: &'a str,
    /// What it is for.
    description: Option<&'a str>,
    /// Whose it is.
    created_by: &'a str,
    /// The same.
    #[serde(rename = "createdBy")]
    created_by_camel: &'a str,
    /// Where it is in its life.
    status: PortfolioStatus,
    /// The client's rules, kept as given; `require_all_completed` is kept to.
    #[schema(value_type = Rules)]
    governance_policy: &'a Map<String, Value>,
    /// The same.
    #[serde(rename = "governancePolicy")]
    #[schema(value_type = Rules)]
    governance_policy_camel: &'a Map<String, Value>,
    /// The client's own object.
    #[schema(value_type = Object)]
    metadata: &'a Map<String, Value>,
    /// When it was made.
    created_at: WireTime,
    /// The same.
    #[serde(rename = "createdAt")]
    created_at_camel: WireTime,
    /// When its status or its intents last changed.
    updated_at: WireTime,
    /// The same.
    #[serde(rename = "updatedAt")]
    updated_at_camel: WireTime,
    /// What its intents come to.
    aggregate_status: AggregateBody,
}

impl<'a> PortfolioBody<'a> {
    pub fn new(portfolio: &'a Portfolio, sums: &Aggregate, dialect: Dialect) -> Self {
        let (created_at, updated_at) =
            (WireTime::new(portfolio.created_at, dialect), WireTime::new(portfolio.updated_at, dialect));
        Self {
            id: portfolio.id,
            name: &portfolio.name,
            description: portfolio.description.as_deref(),
            created_by: &portfolio.created_by,
            created_by_camel: &portfolio.created_by,
            status: portfolio.status,
            governance_policy: &portfolio.governance_policy,
            governance_policy_camel: &portfolio.governance_policy,
            metadata: &portfolio.metadata,
            created_at,
            created_at_camel: created_at,
            updated_at,
            updated_at_camel: updated_at,
            aggregate_status: AggregateBody::new(sums),
        }
    }
}

/// An intent's place in a portfolio.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PortfolioMembership)]
pub(super) struct MembershipBody {
    /// Its id.
    id: MembershipId,
    /// The same, under the reference server's name.
    membership_id: MembershipId,
    /// The portfolio.
    portfolio_id: PortfolioId,
    /// The intent.
    intent_id: IntentId,
    /// As what.
    role: MembershipRole,
    /// The higher, the earlier it is listed.
    priority: i32,
    /// When it was put there.
    added_at: WireTime,
}

impl MembershipBody {
    pub fn new(one: &Membership, dialect: Dialect) -> Self {
        Self {
            id: one.id,
            membership_id: one.id,
            portfolio_id: one.portfolio_id,
            intent_id: one.intent_id,
            role: one.role,
            priority: one.priority,
            added_at: WireTime::new(one.added_at, dialect),
        }
    }
}

/// What is in a portfolio.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PortfolioIntents<'a> {
    /// Those of its intents that the caller can read: the highest priority first.
    intents: Vec<IntentBody<'a>>,
    /// Their places in it, in the same order.
    memberships: Vec<MembershipBody>,
    /// What they come to.
    aggregate_status: AggregateBody,
}

/// A portfolio with what is in it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FullPortfolio<'a> {
    #[serde(flatten)]
    portfolio: PortfolioBody<'a>,
    /// Those of its intents that the caller can read: the highest priority first.
    intents: Vec<IntentBody<'a>>,
    /// Their places in it, in the same order.
    memberships: Vec<MembershipBody>,
}

/// What was taken out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RemovedIntent {
    /// What happened, in a sentence.
    pub message: &'static str,
    /// The portfolio.
    pub portfolio_id: PortfolioId,
    /// The intent.
    pub intent_id: IntentId,
}

fn contents(shown: &Shown, dialect: Dialect) -> (Vec<IntentBody<'_>>, Vec<MembershipBody>) {
    let intents = shown.intents.iter().map(|intent| IntentBody::new(intent, dialect));
    let memberships = shown.memberships.iter().map(|one| MembershipBody::new(one, dialect));
    (intents.collect(), memberships.collect())
}

impl<'a> FullPortfolio<'a> {
    pub fn new(shown: &'a Shown, dialect: Dialect) -> Self {
        let (intents, memberships) = contents(shown, dialect);
        Self { portfolio: PortfolioBody::new(&shown.portfolio, &shown.sums, dialect), intents, memberships }
    }
}

impl<'a> PortfolioIntents<'a> {
    pub fn new(shown: &'a Shown, dialect: Dialect) -> Self {
        let (intents, memberships) = contents(shown, dialect);
        Self { intents, memberships, aggregate_status: AggregateBody::new(&shown.sums) }
    }
}
