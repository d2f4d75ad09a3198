//! Costs (RFC-0009): what work on an intent has used, in exact decimals. What is in one unit is added up, in all, by type, by
//! agent and by model; different units are never added together, for a cent and a token make no sum.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::amounts::{Amount, NotAnAmount};
use crate::clock::Timestamp;
use crate::ids::{CostId, IntentId};
use crate::limits::{COST_SUMS, LABEL_BYTES, NAME_BYTES};
use crate::metadata;
use crate::refusal::{Code, Refusal};

/// Something that was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Its id.
    pub id: CostId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who used it.
    pub agent_id: String,
    /// What sort of thing: `tokens`, `api_call`, `compute`, `custom`, or the client's own word.
    pub cost_type: String,
    /// How much.
    pub amount: Amount,
    /// Of what: a currency, `tokens`, `seconds` …; as it is written.
    pub unit: String,
    /// From whom.
    pub provider: Option<String>,
    /// Of which model.
    pub model: Option<String>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// What is to be recorded.
#[derive(Debug, Clone, Default)]
pub struct CostAsk {
    /// What sort of thing.
    pub cost_type: String,
    /// How much.
    pub amount: Amount,
    /// Of what.
    pub unit: String,
    /// From whom.
    pub provider: Option<String>,
    /// Of which model; that in `metadata.model` when nothing is said.
    pub model: Option<String>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
}

/// Reads how much, from the JSON text that it stands in. A text in quotes is exact or refused. A number may be the sum of
/// binary fractions (`0.1 + 0.2`), whose tail behind the twelfth decimal is their noise and no money: it is rounded there.
///
/// # Errors
/// It is no number, below zero, or larger than an amount can be.
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
/// A word that is none, or a member over its limit.
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

/// What costs are added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// All of them together.
    All,
    /// Each type for itself.
    Type,
    /// Each agent for itself.
    Agent,
    /// Each model for itself; costs of no model are in none of these.
    Model,
}

impl Axis {
    /// Every axis.
    pub const ALL: [Self; 4] = [Self::All, Self::Type, Self::Agent, Self::Model];

    /// The axis as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Type => "type",
            Self::Agent => "agent",
            Self::Model => "model",
        }
    }

    /// Reads an axis; `None` when there is no such axis.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.as_str() == text)
    }
}

impl Cost {
    /// The sums that it belongs into, each by its axis and key; all of its unit.
    pub fn sums(&self) -> impl Iterator<Item = (Axis, &str)> {
        let model = self.model.as_deref().map(|model| (Axis::Model, model));
        [(Axis::All, ""), (Axis::Type, &self.cost_type), (Axis::Agent, &self.agent_id)]
            .into_iter()
            .chain(model)
    }
}

/// One sum: of the costs of an intent in one unit that have one thing in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The unit.
    pub unit: String,
    /// What they have in common.
    pub axis: Axis,
    /// The type, the agent or the model; empty for all of them.
    pub key: String,
    /// How much they are together.
    pub amount: Amount,
    /// How many they are.
    pub count: i64,
}

/// What one unit's costs come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitSummary {
    /// All of them.
    pub total: Amount,
    /// How many they are.
    pub count: i64,
    /// By type.
    pub by_type: BTreeMap<String, Amount>,
    /// By agent.
    pub by_agent: BTreeMap<String, Amount>,
    /// By model.
    pub by_model: BTreeMap<String, Amount>,
}

/// What an intent's costs come to, unit by unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary(pub BTreeMap<String, UnitSummary>);

impl Summary {
    /// Puts sums together.
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

    /// The one unit that all costs are in, with what they come to. `None` when there are several, or no costs.
    #[must_use]
    pub fn only(&self) -> Option<(&str, &UnitSummary)> {
        let mut units = self.0.iter();
        let first = units.next();
        first.filter(|_| units.next().is_none()).map(|(unit, summary)| (unit.as_str(), summary))
    }

    /// What some of the costs come to, by the key that they have in common: `None` where those of a key are in several units,
    /// for which there is no one number.
    #[must_use]
    pub fn by(&self, of: fn(&UnitSummary) -> &BTreeMap<String, Amount>) -> BTreeMap<&str, Option<Amount>> {
        let mut merged: BTreeMap<&str, Option<Amount>> = BTreeMap::new();
        for (key, amount) in self.0.values().flat_map(of) {
            merged.entry(key).and_modify(|sum| *sum = None).or_insert(Some(*amount));
        }
        merged
    }
}

/// An intent has more sums than can be kept: too many types, agents, models and units.
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

/// The sum of a unit would have more digits than an amount can have.
#[must_use]
pub fn too_much() -> Refusal {
    let message =
        "With this the costs of the intent in this unit would be more than can be counted (18 digits).";
    Refusal::field(Code::TooLarge, "amount", "too_large", message)
}
