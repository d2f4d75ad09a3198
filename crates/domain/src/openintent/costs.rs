//! Costs (RFC-0009): the resources used by work on an intent, in exact decimals.
//!
//! Costs of one unit are summed in total, by type, by agent and by model. Different units are never added
//! together: cents and tokens have no sum.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::amounts::{Amount, NotAnAmount};
use crate::clock::Timestamp;
use crate::ids::{CostId, IntentId};
use crate::limits::{COST_SUMS, LABEL_BYTES, NAME_BYTES};
use crate::metadata;
use crate::refusal::{Code, Refusal};

/// A recorded cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The cost's id.
    pub id: CostId,
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that caused it.
    pub agent_id: String,
    /// The type of resource: `tokens`, `api_call`, `compute`, `custom`, or a name defined by the client.
    pub cost_type: String,
    /// The amount.
    pub amount: Amount,
    /// The unit as written: a currency, `tokens`, `seconds` ….
    pub unit: String,
    /// The provider of the resource.
    pub provider: Option<String>,
    /// The model used.
    pub model: Option<String>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// Input for a new cost.
#[derive(Debug, Clone, Default)]
pub struct CostAsk {
    /// The type of resource.
    pub cost_type: String,
    /// The amount.
    pub amount: Amount,
    /// The unit.
    pub unit: String,
    /// The provider of the resource.
    pub provider: Option<String>,
    /// The model; defaults to `metadata.model`.
    pub model: Option<String>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
}

/// Parses an amount from its JSON text.
///
/// A quoted text is exact or refused. A number may be a sum of binary fractions (`0.1 + 0.2`), with noise
/// after the twelfth decimal, so it is rounded there.
///
/// # Errors
/// The text is not a number, is below zero, or larger than an amount can be.
pub fn amount(json: &str) -> Result<Amount, Refusal> {
    let read = if json.starts_with('"') { Amount::written(json) } else { Amount::rounded(json) };
    let refused =
        |why: &str| Refusal::field(Code::InvalidRequest, "amount", "amount", format!("`amount` {why}."));
    let amount = read.map_err(|e: NotAnAmount| refused(&e.to_string()))?;
    if amount.is_negative() {
        return Err(refused("is below zero: what was used cannot become less. Record a refund elsewhere"));
    }
    Ok(amount)
}

/// Records a cost.
///
/// # Errors
/// An invalid label, or a member over its limit.
pub fn record(
    ask: CostAsk,
    intent_id: IntentId,
    agent_id: &str,
    id: CostId,
    now: Timestamp,
) -> Result<Cost, Refusal> {
    let named = ask.metadata.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = ask.model.or_else(|| named.map(str::to_owned));
    metadata::check_label("cost_type", &ask.cost_type, LABEL_BYTES)?;
    metadata::check_label("unit", &ask.unit, LABEL_BYTES)?;
    if let Some(provider) = &ask.provider {
        metadata::check_label("provider", provider, NAME_BYTES)?;
    }
    if let Some(model) = &model {
        metadata::check_label("model", model, NAME_BYTES)?;
    }
    metadata::check("metadata", &ask.metadata)?;
    Ok(Cost {
        id,
        intent_id,
        agent_id: agent_id.to_owned(),
        cost_type: ask.cost_type,
        amount: ask.amount,
        unit: ask.unit,
        provider: ask.provider,
        model,
        metadata: ask.metadata,
        recorded_at: now,
    })
}

/// The dimensions that costs are summed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// All costs together.
    All,
    /// Separately by type.
    Type,
    /// Separately by agent.
    Agent,
    /// Separately by model; costs without a model are left out.
    Model,
}

impl Axis {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::All, Self::Type, Self::Agent, Self::Model];

    /// Returns the axis's stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Type => "type",
            Self::Agent => "agent",
            Self::Model => "model",
        }
    }

    /// Parses an axis's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.as_str() == text)
    }
}

impl Cost {
    /// Iterates over the sums that the cost belongs to, by axis and key; all are in the cost's unit.
    pub fn sums(&self) -> impl Iterator<Item = (Axis, &str)> {
        let model = self.model.as_deref().map(|model| (Axis::Model, model));
        [(Axis::All, ""), (Axis::Type, &self.cost_type), (Axis::Agent, &self.agent_id)]
            .into_iter()
            .chain(model)
    }
}

/// A sum of an intent's costs in one unit that share a key on one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The unit.
    pub unit: String,
    /// The axis.
    pub axis: Axis,
    /// The type, agent or model; empty for all costs.
    pub key: String,
    /// The summed amount.
    pub amount: Amount,
    /// Number of costs.
    pub count: i64,
}

/// The sums of the costs in one unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitSummary {
    /// The total amount.
    pub total: Amount,
    /// Number of costs.
    pub count: i64,
    /// Amounts by type.
    pub by_type: BTreeMap<String, Amount>,
    /// Amounts by agent.
    pub by_agent: BTreeMap<String, Amount>,
    /// Amounts by model.
    pub by_model: BTreeMap<String, Amount>,
}

/// The sums of an intent's costs, by unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary(pub BTreeMap<String, UnitSummary>);

impl Summary {
    /// Groups sums by unit.
    #[must_use]
    pub fn of(sums: Vec<Sum>) -> Self {
        let mut units: BTreeMap<String, UnitSummary> = BTreeMap::new();
        for sum in sums {
            let unit = units.entry(sum.unit).or_default();
            match sum.axis {
                Axis::All => (unit.total, unit.count) = (sum.amount, sum.count),
                Axis::Type => drop(unit.by_type.insert(sum.key, sum.amount)),
                Axis::Agent => drop(unit.by_agent.insert(sum.key, sum.amount)),
                Axis::Model => drop(unit.by_model.insert(sum.key, sum.amount)),
            }
        }
        Self(units)
    }

    /// Returns the unit and its sums if all costs are in one unit; `None` for several units, or no costs.
    #[must_use]
    pub fn only(&self) -> Option<(&str, &UnitSummary)> {
        let mut units = self.0.iter();
        let first = units.next();
        first.filter(|_| units.next().is_none()).map(|(unit, summary)| (unit.as_str(), summary))
    }

    /// Merges the amounts of all units by key; `None` for a key with costs in several units, which have no
    /// common sum.
    #[must_use]
    pub fn by(&self, of: fn(&UnitSummary) -> &BTreeMap<String, Amount>) -> BTreeMap<&str, Option<Amount>> {
        let mut merged: BTreeMap<&str, Option<Amount>> = BTreeMap::new();
        for (key, amount) in self.0.values().flat_map(of) {
            merged.entry(key).and_modify(|sum| *sum = None).or_insert(Some(*amount));
        }
        merged
    }
}

/// Refusal for an intent with too many sums, that is too many types, agents, models and units.
#[must_use]
pub fn too_varied() -> Refusal {
    Refusal::new(
        Code::TooLarge,
        format!(
            "The costs of this intent would be in more than {COST_SUMS} sums by unit, type, agent and model. Use fewer \
             different words for them, and put what tells single costs apart into `metadata`."
        ),
    )
}

/// Refusal for a sum with more digits than an amount can have.
#[must_use]
pub fn too_much() -> Refusal {
    let message =
        "With this the costs of the intent in this unit would be more than can be counted (18 digits).";
    Refusal::field(Code::TooLarge, "amount", "too_large", message)
}
