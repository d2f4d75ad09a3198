//! Wire format of portfolios and their contents.

use std::collections::BTreeMap;

use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, MembershipId, PortfolioId};
use entente_domain::openintent::portfolios::{
    Aggregate, Membership, MembershipRole, Portfolio, PortfolioStatus,
};
use entente_http::intent::IntentBody;
use entente_http::wire::WireTime;
use entente_openintent::portfolios::PortfolioView;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Aggregate status of intents; those that the caller cannot read are not counted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AggregateStatus)]
pub struct AggregateBody {
    /// Number of intents.
    total: u64,
    /// Number of intents in each status that occurs.
    #[schema(value_type = Object, example = json!({ "active": 1, "completed": 1 }))]
    by_status: BTreeMap<&'static str, u64>,
    /// Percentage of completed intents, rounded down.
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

/// The rules of a portfolio, an object of the client's own.
// The schema has a name because two fields refer to it.
#[derive(ToSchema)]
#[schema(as = PortfolioRules, value_type = Object)]
struct Rules(());

/// A portfolio; times and rules appear in snake case and camel case, because the SDK reads the times in camel
/// case only.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PortfolioBody<'a> {
    /// Portfolio id.
    id: PortfolioId,
    /// Name of the portfolio.
    #[schema(example = "Q1 reporting")]
    name: &'a str,
    /// Purpose of the portfolio.
    description: Option<&'a str>,
    /// Agent that owns the portfolio.
    created_by: &'a str,
    /// Same as `created_by`.
    #[serde(rename = "createdBy")]
    created_by_camel: &'a str,
    /// Status of the portfolio.
    status: PortfolioStatus,
    /// Rules of the client, stored as given; `require_all_completed` is enforced.
    #[schema(value_type = Rules)]
    governance_policy: &'a Map<String, Value>,
    /// Same as `governance_policy`.
    #[serde(rename = "governancePolicy")]
    #[schema(value_type = Rules)]
    governance_policy_camel: &'a Map<String, Value>,
    /// Metadata, an object of the client's own.
    #[schema(value_type = Object)]
    metadata: &'a Map<String, Value>,
    /// When the portfolio was created.
    created_at: WireTime,
    /// Same as `created_at`.
    #[serde(rename = "createdAt")]
    created_at_camel: WireTime,
    /// When the portfolio's status or set of intents last changed.
    updated_at: WireTime,
    /// Same as `updated_at`.
    #[serde(rename = "updatedAt")]
    updated_at_camel: WireTime,
    /// Aggregate status of the portfolio's intents.
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

/// An intent's membership in a portfolio.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PortfolioMembership)]
pub(super) struct MembershipBody {
    /// Membership id.
    id: MembershipId,
    /// Same as `id`, under the reference server's name.
    membership_id: MembershipId,
    /// The portfolio.
    portfolio_id: PortfolioId,
    /// The intent.
    intent_id: IntentId,
    /// Role of the intent in the portfolio.
    role: MembershipRole,
    /// Priority: higher ones are listed first.
    priority: i32,
    /// When the intent was added.
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

/// The contents of a portfolio.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PortfolioIntents<'a> {
    /// The intents that the caller can read, highest priority first.
    intents: Vec<IntentBody<'a>>,
    /// Their memberships, in the same order.
    memberships: Vec<MembershipBody>,
    /// Aggregate status of the intents.
    aggregate_status: AggregateBody,
}

/// A portfolio with its contents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FullPortfolio<'a> {
    #[serde(flatten)]
    portfolio: PortfolioBody<'a>,
    /// The intents that the caller can read, highest priority first.
    intents: Vec<IntentBody<'a>>,
    /// Their memberships, in the same order.
    memberships: Vec<MembershipBody>,
}

/// The response to a removal.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RemovedIntent {
    /// Message for people.
    pub message: &'static str,
    /// The portfolio.
    pub portfolio_id: PortfolioId,
    /// The intent.
    pub intent_id: IntentId,
}

fn contents(shown: &PortfolioView, dialect: Dialect) -> (Vec<IntentBody<'_>>, Vec<MembershipBody>) {
    let intents = shown.intents.iter().map(|intent| IntentBody::new(intent, dialect));
    let memberships = shown.memberships.iter().map(|one| MembershipBody::new(one, dialect));
    (intents.collect(), memberships.collect())
}

impl<'a> FullPortfolio<'a> {
    pub fn new(shown: &'a PortfolioView, dialect: Dialect) -> Self {
        let (intents, memberships) = contents(shown, dialect);
        Self { portfolio: PortfolioBody::new(&shown.portfolio, &shown.sums, dialect), intents, memberships }
    }
}

impl<'a> PortfolioIntents<'a> {
    pub fn new(shown: &'a PortfolioView, dialect: Dialect) -> Self {
        let (intents, memberships) = contents(shown, dialect);
        Self { intents, memberships, aggregate_status: AggregateBody::new(&shown.sums) }
    }
}
