//! Governance (RFC-0013): the policy of an intent, which only restricts the access granted by
//! [`crate::access`]. Prior approvals by people are in [`crate::openintent::approvals`].
//!
//! A policy is stored as its author wrote it; only the members of [`GovernancePolicy`] are interpreted.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::amounts::Amount;
use crate::canonical::exact;
use crate::identity::principals::check_name;
use crate::limits::{LIST_ITEMS, POLICY_BYTES};
pub use crate::refusal::violation::{CompletionMode, Rule, Violation};
use crate::refusal::{Code, Refusal};

/// The agents that may work on an intent, among those with sufficient access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteScope {
    /// All of them.
    #[default]
    Any,
    /// Only those assigned to it.
    AssignedOnly,
}

/// Returns the refusal of an action that a policy forbids.
#[must_use]
pub fn violation(rule: Rule, message: String) -> Refusal {
    refused(Violation { rule, mode: None, required: None, granted: None }, message)
}

pub(crate) fn refused(violation: Violation, message: String) -> Refusal {
    Refusal { violation: Some(Box::new(violation)), ..Refusal::new(Code::GovernanceViolation, message) }
}

/// The default fraction of voters that has to approve, as in the clients.
pub const QUORUM: f64 = 0.6;

/// The interpreted members of a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GovernancePolicy {
    /// How the intent may become `completed`.
    pub completion_mode: CompletionMode,
    /// The fraction of voters that has to approve, above 0 and up to 1.
    pub quorum_threshold: f64,
    /// The agents that may work on it.
    pub write_scope: WriteScope,
    /// The only agents that may be assigned to it or work on it; empty means no restriction.
    pub allowed_agents: Vec<String>,
    /// The maximum cost.
    pub max_cost: Option<Amount>,
    /// Whether each change of its status needs a reason.
    pub require_status_reason: bool,
    /// The only principals that approve and vote; empty means no restriction.
    pub approvers: Vec<String>,
    /// Whether a principal may approve its own request.
    pub allow_self_approval: bool,
    /// The person that receives escalations without an addressee.
    pub escalate_to: Option<String>,
}

impl Default for GovernancePolicy {
    fn default() -> Self {
        Self {
            completion_mode: CompletionMode::Auto,
            quorum_threshold: QUORUM,
            write_scope: WriteScope::Any,
            allowed_agents: Vec::new(),
            max_cost: None,
            require_status_reason: false,
            approvers: Vec::new(),
            allow_self_approval: false,
            escalate_to: None,
        }
    }
}

/// Reads the members of a policy one by one; missing or null members get their defaults.
struct Reader<'a> {
    given: &'a Map<String, Value>,
    fault: Option<Refusal>,
}

impl Reader<'_> {
    fn member<T>(&mut self, member: &str, what: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.given.get(member).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.note(Refusal::field(
                Code::InvalidRequest,
                member,
                "value",
                format!("`{member}` of a governance policy must be {what}."),
            ));
        }
        read
    }

    fn note(&mut self, fault: Refusal) {
        self.fault.get_or_insert(fault);
    }

    fn flag(&mut self, member: &str) -> bool {
        self.member(member, "true or false", Value::as_bool).unwrap_or(false)
    }

    fn names(&mut self, member: &str) -> Vec<String> {
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let names = self.member(member, "a list of agents' names", texts).unwrap_or_default();
        if names.len() > LIST_ITEMS {
            self.note(Refusal::field(
                Code::TooLarge,
                member,
                "too_long",
                format!("`{member}` has at most {LIST_ITEMS} names."),
            ));
        }
        if let Some(fault) = names.iter().find_map(|name| check_name(member, name).err()) {
            self.note(fault);
        }
        names
    }
}

fn word<T: for<'de> Deserialize<'de>>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

fn fraction(value: &Value) -> Option<f64> {
    value.as_f64().filter(|part| *part > 0.0 && *part <= 1.0)
}

fn cost(value: &Value) -> Option<Amount> {
    let Value::Number(number) = value else { return None };
    Amount::of_json(number).ok().filter(|amount| !amount.is_negative())
}

impl GovernancePolicy {
    fn take(given: &Map<String, Value>) -> (Self, Option<Refusal>) {
        let mut reader = Reader { given, fault: None };
        let usual = Self::default();
        let modes = "`auto`, `require_approval` or `quorum`";
        let policy = Self {
            completion_mode: reader.member("completion_mode", modes, word).unwrap_or(usual.completion_mode),
            quorum_threshold: reader
                .member("quorum_threshold", "a number above 0 and up to 1", fraction)
                .unwrap_or(usual.quorum_threshold),
            write_scope: reader
                .member("write_scope", "`any` or `assigned_only`", word)
                .unwrap_or(usual.write_scope),
            allowed_agents: reader.names("allowed_agents"),
            max_cost: reader.member("max_cost", "a number of at least 0", cost),
            require_status_reason: reader.flag("require_status_reason"),
            approvers: reader.names("approvers"),
            allow_self_approval: reader.flag("allow_self_approval"),
            escalate_to: reader
                .member("escalate_to", "a person's name", |name| name.as_str().map(str::to_owned)),
        };
        if let Some(fault) =
            policy.escalate_to.as_deref().and_then(|name| check_name("escalate_to", name).err())
        {
            reader.note(fault);
        }
        (policy, reader.fault)
    }

    /// Parses a policy that a client wants to set.
    ///
    /// # Errors
    /// It is too large, has numbers that do not survive hashing, or an interpreted member is invalid.
    pub fn read(given: &Map<String, Value>) -> Result<Self, Refusal> {
        let bytes = serde_json::to_string(given).map_or(0, |text| text.len());
        if bytes > POLICY_BYTES {
            let message =
                format!("A governance policy has at most {POLICY_BYTES} bytes; this one has {bytes}.");
            return Err(Refusal::field(Code::TooLarge, "governance_policy", "too_large", message));
        }
        given.values().try_for_each(exact)?;
        match Self::take(given) {
            (policy, None) => Ok(policy),
            (_, Some(fault)) => Err(fault),
        }
    }

    /// Reads a stored policy; invalid members, possible in policies from before enforcement, have no effect,
    /// as before.
    #[must_use]
    pub fn kept(given: &Map<String, Value>) -> Self {
        Self::take(given).0
    }

    /// Checks that `agent` may work on the intent; `assigned` tells whether it is assigned to it.
    ///
    /// # Errors
    /// [`Code::GovernanceViolation`] by `write_scope` or `allowed_agents`.
    pub fn judge_write(&self, agent: &str, assigned: bool) -> Result<(), Refusal> {
        if self.write_scope == WriteScope::AssignedOnly && !assigned {
            return Err(violation(
                Rule::WriteScope,
                format!(
                    "The governance policy lets only agents work on this intent that are assigned to it; `{agent}` is not. \
                     Have somebody who manages the intent assign it."
                ),
            ));
        }
        if self.names_agents() && !self.allows(agent) {
            return Err(not_allowed(agent, "work on"));
        }
        Ok(())
    }

    /// Checks that `by` may assign `agent`.
    ///
    /// Where an assignment gives power, only managers and coordinators of the intent (`manages`) may assign
    /// agents, except those named by the policy itself.
    ///
    /// # Errors
    /// [`Code::GovernanceViolation`] by `allowed_agents`, `write_scope` or `completion_mode`.
    pub fn judge_assignment(&self, by: &str, manages: bool, agent: &str) -> Result<(), Refusal> {
        if self.names_agents() {
            return if self.allows(agent) { Ok(()) } else { Err(not_allowed(agent, "be assigned to")) };
        }
        self.judge_electorate(by, manages)
    }

    /// Checks that `by` may unassign `agent`: every agent may leave; otherwise the rules of assignment apply.
    ///
    /// # Errors
    /// [`Code::GovernanceViolation`] by `write_scope` or `completion_mode`.
    pub fn judge_removal(&self, by: &str, manages: bool, agent: &str) -> Result<(), Refusal> {
        if by == agent { Ok(()) } else { self.judge_electorate(by, manages) }
    }

    fn judge_electorate(&self, by: &str, manages: bool) -> Result<(), Refusal> {
        let rule = if self.write_scope == WriteScope::AssignedOnly {
            Rule::WriteScope
        } else if self.completion_mode == CompletionMode::Quorum && self.approvers.is_empty() {
            Rule::CompletionMode
        } else {
            return Ok(());
        };
        if manages {
            return Ok(());
        }
        Err(violation(
            rule,
            format!(
                "By the governance policy who is assigned to this intent decides; so only who manages it changes that, and \
                 `{by}` does not. Ask its creator, an admin or a coordinator."
            ),
        ))
    }

    /// Checks that a change of status may be made with this reason.
    ///
    /// # Errors
    /// [`Code::GovernanceViolation`] by `require_status_reason`.
    pub fn judge_reason(&self, reason: Option<&str>) -> Result<(), Refusal> {
        if !self.require_status_reason || reason.is_some_and(|reason| !reason.trim().is_empty()) {
            return Ok(());
        }
        Err(violation(
            Rule::RequireStatusReason,
            "The governance policy wants a reason for each change of status. Send it as `reason`.".to_owned(),
        ))
    }

    /// Checks that a cost of `adding` may be recorded after costs of `spent`.
    ///
    /// # Errors
    /// [`Code::GovernanceViolation`] by `max_cost`.
    pub fn judge_cost(&self, spent: Amount, adding: Amount) -> Result<(), Refusal> {
        match self.max_cost {
            Some(most) if spent + adding > most => Err(violation(
                Rule::MaxCost,
                format!(
                    "The governance policy lets this intent cost {most}; {spent} is spent, and {adding} more is too much. \
                     Ask who manages the intent to raise `max_cost`."
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that a job for the intent may continue when `spent` is used of a unit: it stops as for its own
    /// budget, when nothing is left (ARCP §9.6).
    ///
    /// # Errors
    /// [`Code::BudgetExhausted`].
    pub fn judge_left(&self, unit: &str, spent: Amount) -> Result<(), Refusal> {
        let out = self.max_cost.filter(|most| spent >= *most);
        out.map_or(Ok(()), |most| Err(exhausted(most, unit, spent, "is spent")))
    }

    /// Checks that a job may reserve `adding` when `held` of a unit is already spent or reserved.
    ///
    /// # Errors
    /// [`Code::BudgetExhausted`].
    pub fn judge_reserve(&self, unit: &str, held: Amount, adding: Amount) -> Result<(), Refusal> {
        let out = self.max_cost.filter(|most| held + adding > *most || adding.is_negative());
        out.map_or(Ok(()), |most| Err(exhausted(most, unit, held, "is spent or set aside")))
    }

    /// Whether only named agents may work on the intent.
    #[must_use]
    pub fn names_agents(&self) -> bool {
        !self.allowed_agents.is_empty()
    }

    fn allows(&self, agent: &str) -> bool {
        self.allowed_agents.iter().any(|allowed| allowed == agent)
    }
}

/// The refusal of an intent's maximum cost, in the form of an exhausted budget for its jobs.
fn exhausted(most: Amount, unit: &str, held: Amount, what: &str) -> Refusal {
    let message = format!(
        "The intent that this is for may cost {most}, and {held} {unit} {what}. Go on with what costs nothing, or have who \
         manages the intent raise `max_cost`."
    );
    Refusal::new(Code::BudgetExhausted, message)
}

fn not_allowed(agent: &str, what: impl Display) -> Refusal {
    violation(
        Rule::AllowedAgents,
        format!(
            "The governance policy names the agents that may {what} this intent, and `{agent}` is not among them. Ask who \
             manages the intent to add it to `allowed_agents`."
        ),
    )
}
