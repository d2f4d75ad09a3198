//! Grants (RFC-0014): permission for an agent to use a credential that it never sees. A grant is issued by the
//! vault's owner, or delegated by an agent that may delegate its own. A call under a delegated grant must also
//! satisfy every grant above it, so that a delegation never exceeds the original.

mod values;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::Timestamp;
use crate::egress::Range;
use crate::identity::principals::check_name;
use crate::ids::{ToolCredentialId, ToolGrantId, VaultId};
use crate::limits::{CALLS_PER_HOUR, DELEGATIONS, LIST_ITEMS, METADATA_BYTES};
use crate::openintent::tools::tool_credentials::{ToolCredential, check_end, check_object};
use crate::refusal::{Code, Refusal};
use values::{denies, fits};

/// Status of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GrantStatus {
    /// Usable.
    Active,
    /// Expired.
    Expired,
    /// Revoked permanently.
    Revoked,
    /// Suspended until it is resumed.
    Suspended,
}

impl GrantStatus {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Suspended => "suspended",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Expired, Self::Revoked, Self::Suspended]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// Restrictions on the use of a grant; unknown ones are refused, because they could not be enforced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Maximum number of calls in any hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_invocations_per_hour: Option<u32>,
    /// Maximum cost of a call; not enforced, because the server knows no prices, but available to clients that report costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_per_invocation: Option<f64>,
    /// Allowed parameters with their allowed values: a value, a text with `*`, a list of those, or null for any value.
    ///
    /// Other parameters are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub allowed_parameters: Option<Map<String, Value>>,
    /// Denied parameters with their denied values, in the same form.
    ///
    /// Also matches items of lists, and texts of equal meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub denied_parameters: Option<Map<String, Value>>,
    /// Addresses and ranges that the agent may call from, as seen by the server: behind a proxy, the proxy's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allowlist: Option<Vec<String>>,
    /// Hosts that may be called, including their subdomains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
}

fn constraint(member: &str, what: impl std::fmt::Display) -> Refusal {
    let message = format!("The constraint `{member}` {what}.");
    Refusal::field(Code::InvalidRequest, "constraints", "constraint", message)
}

impl Constraints {
    /// Parses the constraints of a body.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] for a constraint that cannot be enforced.
    pub fn read(value: Value) -> Result<Self, Refusal> {
        let read: Self = serde_json::from_value(value).map_err(|e| {
            let message = format!("`constraints` cannot be kept: {e}.");
            Refusal::field(Code::InvalidRequest, "constraints", "constraint", message)
        })?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.max_invocations_per_hour.is_some_and(|most| most > CALLS_PER_HOUR) {
            return Err(constraint("max_invocations_per_hour", format!("is at most {CALLS_PER_HOUR}")));
        }
        if self.max_cost_per_invocation.is_some_and(|most| !most.is_finite() || most < 0.0) {
            return Err(constraint("max_cost_per_invocation", "must be a number from 0"));
        }
        for list in [&self.ip_allowlist, &self.allowed_hosts].into_iter().flatten() {
            check_list("constraints", list)?;
        }
        if let Some(bad) = self.ip_allowlist.iter().flatten().find(|text| text.parse::<Range>().is_err()) {
            return Err(constraint("ip_allowlist", format!("has `{bad}`, which is no address and no range")));
        }
        for (name, said) in
            [("allowed_parameters", &self.allowed_parameters), ("denied_parameters", &self.denied_parameters)]
        {
            if let Some(said) = said {
                check_object(name, said, METADATA_BYTES)?;
                if said.len() > LIST_ITEMS {
                    return Err(constraint(name, format!("has more than {LIST_ITEMS} parameters")));
                }
            }
        }
        Ok(())
    }

    /// Requires that a call with these parameters from this address satisfies the constraints.
    ///
    /// # Errors
    /// [`Code::Forbidden`], naming the violated constraint.
    pub fn permit(&self, parameters: &Map<String, Value>, peer: Option<IpAddr>) -> Result<(), Refusal> {
        let denied = |what: String| Refusal::new(Code::Forbidden, what);
        if let Some(allowed) = &self.allowed_parameters {
            for (name, value) in parameters {
                let fits = allowed.get(name).is_some_and(|said| fits(said, value));
                if !fits {
                    return Err(denied(format!(
                        "The grant does not allow this parameter, or not this value of it: `{name}`."
                    )));
                }
            }
        }
        for (name, said) in self.denied_parameters.iter().flatten() {
            if parameters.get(name).is_some_and(|value| denies(said, value)) {
                return Err(denied(format!(
                    "The grant denies this parameter, or this value of it: `{name}`."
                )));
            }
        }
        if let Some(list) = &self.ip_allowlist {
            let among = |address: IpAddr| {
                list.iter().any(|text| {
                    text.parse::<Range>().is_ok_and(|range| range.contains(address.to_canonical()))
                })
            };
            if !peer.is_some_and(among) {
                return Err(denied("The grant may not be used from this address.".to_owned()));
            }
        }
        Ok(())
    }
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolGrant {
    /// Identifier.
    pub id: ToolGrantId,
    /// Credential that it permits to use.
    pub credential_id: ToolCredentialId,
    /// Vault of the credential.
    pub vault_id: VaultId,
    /// Agent that may use it.
    pub agent_id: String,
    /// Agent that granted it.
    pub granted_by: String,
    /// Granted tools, or other scopes of the credential.
    pub scopes: Vec<String>,
    /// Restrictions on its use.
    pub constraints: Option<Constraints>,
    /// Whether its holder may delegate it.
    pub delegatable: bool,
    /// Grants above it, outermost first.
    pub ancestors: Vec<ToolGrantId>,
    /// Data from the granting agent; its member `tools` names additional tools.
    pub context: Map<String, Value>,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
}

impl ToolGrant {
    /// Returns the grant that it was delegated from.
    #[must_use]
    pub fn delegated_from(&self) -> Option<ToolGrantId> {
        self.ancestors.last().copied()
    }

    /// Returns its own status at a time, regardless of its ancestors and its credential.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> GrantStatus {
        if self.revoked_at.is_some() {
            GrantStatus::Revoked
        } else if self.expires_at.is_some_and(|end| end <= now) {
            GrantStatus::Expired
        } else if self.suspended {
            GrantStatus::Suspended
        } else {
            GrantStatus::Active
        }
    }

    /// Returns the tools named in its context.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        tools(&self.context)
    }

    /// Returns whether its holder may use a tool of a service: a named one, or the service as a whole.
    #[must_use]
    pub fn covers(&self, tool: &str, service: &str) -> bool {
        tool == service || self.scopes.iter().chain(&self.tools()).any(|known| known == tool)
    }
}

fn tools(context: &Map<String, Value>) -> Vec<String> {
    let listed = context.get("tools").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the worst of several statuses: the combined status.
#[must_use]
pub fn together(statuses: impl IntoIterator<Item = GrantStatus>) -> GrantStatus {
    let rank = |status: GrantStatus| match status {
        GrantStatus::Revoked => 3,
        GrantStatus::Expired => 2,
        GrantStatus::Suspended => 1,
        GrantStatus::Active => 0,
    };
    statuses.into_iter().max_by_key(|status| rank(*status)).unwrap_or(GrantStatus::Active)
}

/// Request to create a grant.
#[derive(Debug, Clone, Default)]
pub struct GrantAsk {
    /// Agent that receives it.
    pub agent_id: String,
    /// Scopes.
    pub scopes: Vec<String>,
    /// Restrictions.
    pub constraints: Option<Constraints>,
    /// Whether it may be delegated.
    pub delegatable: bool,
    /// Additional data.
    pub context: Map<String, Value>,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
}

impl GrantAsk {
    fn check(&self, credential: &ToolCredential, now: Timestamp) -> Result<(), Refusal> {
        check_name("agent_id", &self.agent_id)?;
        check_list("scopes", &self.scopes)?;
        check_list("context", &tools(&self.context))?;
        check_object("context", &self.context, METADATA_BYTES)?;
        check_end(self.expires_at, now)?;
        let known = &credential.scopes_available;
        if let Some(scope) = self.scopes.iter().find(|scope| !known.is_empty() && !known.contains(scope)) {
            let message = format!("The credential has no scope `{scope}`. It has: {}.", known.join(", "));
            return Err(Refusal::field(Code::Unprocessable, "scopes", "unknown", message));
        }
        Ok(())
    }

    fn make(
        self,
        credential: &ToolCredential,
        granted_by: &str,
        ancestors: Vec<ToolGrantId>,
        id: ToolGrantId,
        now: Timestamp,
    ) -> ToolGrant {
        ToolGrant {
            id,
            credential_id: credential.id,
            vault_id: credential.vault_id,
            agent_id: self.agent_id,
            granted_by: granted_by.to_owned(),
            scopes: self.scopes,
            constraints: self.constraints,
            delegatable: self.delegatable,
            ancestors,
            context: self.context,
            suspended: false,
            expires_at: self.expires_at,
            created_at: now,
            revoked_at: None,
        }
    }
}

/// Grants the use of a credential.
///
/// # Errors
/// Invalid names, scopes that the credential lacks, or an expiry time in the past.
pub fn grant(
    ask: GrantAsk,
    credential: &ToolCredential,
    granted_by: &str,
    id: ToolGrantId,
    now: Timestamp,
) -> Result<ToolGrant, Refusal> {
    ask.check(credential, now)?;
    Ok(ask.make(credential, granted_by, Vec::new(), id, now))
}

/// Delegates a grant, limited to its lifetime and scopes.
///
/// # Errors
/// The grant may not be delegated, or not further; the request exceeds the grant; as [`grant`].
pub fn delegate(
    ask: GrantAsk,
    parent: &ToolGrant,
    credential: &ToolCredential,
    id: ToolGrantId,
    now: Timestamp,
) -> Result<ToolGrant, Refusal> {
    ask.check(credential, now)?;
    if !parent.delegatable {
        return Err(Refusal::new(
            Code::Forbidden,
            "This grant may not be passed on: it is not `delegatable`. Ask whoever gave it for one that is.",
        ));
    }
    if parent.ancestors.len() + 1 > DELEGATIONS {
        let message = format!("A grant may be passed on {DELEGATIONS} times, and this one was.");
        return Err(Refusal::new(Code::Forbidden, message));
    }
    let (had, also) = (&parent.scopes, parent.tools());
    let mut asked = ask.scopes.iter().chain(tools(&ask.context).iter()).cloned().collect::<Vec<_>>();
    asked.retain(|scope| !had.contains(scope) && !also.contains(scope));
    if let Some(scope) = asked.first() {
        let message =
            format!("The grant that is passed on has no scope `{scope}` itself. Pass on what it has.");
        return Err(Refusal::field(Code::Forbidden, "scopes", "broader", message));
    }
    let expires_at = match (ask.expires_at, parent.expires_at) {
        (Some(end), Some(last)) if end > last => {
            let message =
                "The grant that is passed on ends before that. Leave `expires_at` out, or make it earlier.";
            return Err(Refusal::field(Code::Forbidden, "expires_at", "broader", message));
        }
        (said, last) => said.or(last),
    };
    let ancestors = parent.ancestors.iter().copied().chain([parent.id]).collect();
    Ok(GrantAsk { expires_at, ..ask }.make(credential, &parent.agent_id, ancestors, id, now))
}
