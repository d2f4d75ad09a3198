//! Accounts of the operator's OpenID Connect provider: the person that a verified account is, the teams that its groups
//! stand for, and whether an account may become a person ([ADR 31](../../../../docs/adr/0031-accounts-of-a-provider.md)).
//! The server asks the provider in `crates/oidc`, and binds accounts in `crates/kernel/src/identity/people/provider.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::identity::principals::{PrincipalKind, check_name};
use crate::refusal::{Code, Refusal};

/// Placeholder for the naming claim in [`ProviderPolicy::principal`].
pub const CLAIM: &str = "{claim}";

/// Claim that counts only if the provider says that it has verified it.
pub const EMAIL: &str = "email";

/// Claims of an account, as the provider states them.
pub type Claims = Map<String, Value>;

/// The operator's settings for accounts of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPolicy {
    /// The provider's issuer URL.
    pub issuer: String,
    /// Claim that names the person at the first login.
    pub name_claim: String,
    /// Principal id of a person, with [`CLAIM`] in it.
    pub principal: String,
    /// Claim with the account's groups; dots lead into objects.
    pub groups_claim: String,
    /// Teams that each group stands for.
    pub teams: BTreeMap<String, BTreeSet<String>>,
    /// Group whose members log in with the scope `admin`.
    pub admin_group: Option<String>,
    /// Whether the first login of an unknown person creates the principal.
    pub creates: bool,
    /// Whether an account may become a person who has logged in by other means.
    pub takes_over: bool,
}

/// An account whose claims are verified and read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Issuer of the account.
    pub issuer: String,
    /// The issuer's id of the account, which never changes.
    pub subject: String,
    /// Principal that the account becomes at its first login.
    pub principal_id: String,
    /// The person's name, for a principal that is created.
    pub display_name: Option<String>,
    /// Teams that its groups stand for.
    pub teams: BTreeSet<String>,
    /// Whether it logs in with the scope `admin`.
    pub admin: bool,
}

impl ProviderPolicy {
    /// Returns the teams that logins add to or remove from.
    #[must_use]
    pub fn mapped_teams(&self) -> BTreeSet<&str> {
        self.teams.values().flatten().map(String::as_str).collect()
    }

    /// Returns whether the claims lack one that is needed; the provider may state it elsewhere than in the ID token.
    #[must_use]
    pub fn lacks(&self, claims: &Claims) -> bool {
        let unverified = self.name_claim == EMAIL && !claims.contains_key("email_verified");
        let grouped = !self.teams.is_empty() || self.admin_group.is_some();
        unverified
            || !claims.contains_key(&self.name_claim)
            || (grouped && find(claims, &self.groups_claim).is_none())
    }

    /// Reads the verified claims of an account.
    ///
    /// # Errors
    /// [`Code::Forbidden`]: the claim that names the person is missing, unverified or no name of a principal; the
    /// groups cannot be read.
    pub fn account(&self, claims: &Claims) -> Result<Account, Refusal> {
        let subject = text(claims, "sub").ok_or_else(|| unnamed("sub"))?;
        let principal_id = self.principal.replace(CLAIM, self.name(claims)?);
        check_name("principal", &principal_id).map_err(|_fault| {
            let claim = &self.name_claim;
            refused(format!("The provider's `{claim}` makes no name of a person here. The operator can choose another claim."))
        })?;
        let groups = self.groups(claims)?;
        let teams = self.teams.iter().filter(|(group, _)| groups.contains(group.as_str()));
        Ok(Account {
            issuer: self.issuer.clone(),
            subject: subject.to_owned(),
            principal_id,
            display_name: text(claims, "name")
                .filter(|name| check_name("display_name", name).is_ok())
                .map(str::to_owned),
            teams: teams.flat_map(|(_, teams)| teams.iter().cloned()).collect(),
            admin: self.admin_group.as_deref().is_some_and(|group| groups.contains(group)),
        })
    }

    /// Returns the value of the claim that names the person.
    fn name<'a>(&self, claims: &'a Claims) -> Result<&'a str, Refusal> {
        let name = text(claims, &self.name_claim).ok_or_else(|| unnamed(&self.name_claim))?;
        // Anybody may enter any address at some providers, so only a verified one names a person.
        if self.name_claim == EMAIL
            && (claims.get("email_verified") != Some(&Value::Bool(true)) || !name.contains('@'))
        {
            let message =
                "The provider has not verified your e-mail address. Verify it there, then log in again.";
            return Err(refused(message.to_owned()));
        }
        Ok(name)
    }

    fn groups<'a>(&self, claims: &'a Claims) -> Result<BTreeSet<&'a str>, Refusal> {
        let top = self.groups_claim.split('.').next().unwrap_or_default();
        // Microsoft's provider sends a reference in place of more than 200 groups. Taken for no groups, it would
        // remove the person from all teams.
        let elsewhere = claims.get("_claim_names").and_then(Value::as_object);
        if elsewhere.is_some_and(|names| names.contains_key(top)) {
            let message = "You have more groups than the provider sends. Ask the operator to let it send only groups that are assigned to this application.";
            return Err(refused(message.to_owned()));
        }
        match find(claims, &self.groups_claim) {
            None | Some(Value::Null) => Ok(BTreeSet::new()),
            Some(Value::String(group)) => Ok(BTreeSet::from([group.as_str()])),
            Some(Value::Array(groups)) => Ok(groups.iter().filter_map(Value::as_str).collect()),
            Some(_) => {
                let claim = &self.groups_claim;
                Err(refused(format!(
                    "The provider's `{claim}` is no list of groups. The operator can choose another claim."
                )))
            }
        }
    }
}

/// A principal that an account without a binding names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Its kind.
    pub kind: PrincipalKind,
    /// Whether it is bound to another account of the same issuer.
    pub bound: bool,
    /// Whether it has, or had, another way in: a password, a link, a key, or an account of another issuer.
    pub has_way_in: bool,
}

/// Judges whether an account without a binding becomes the principal that it names; returns whether the principal is
/// created.
///
/// The claim that names a person can be changed at the provider, by the operator of the provider or by the person. So it
/// opens nothing that somebody else may have used, unless the operator of this server has set so.
///
/// # Errors
/// [`Code::Forbidden`].
pub fn may_become(
    policy: &ProviderPolicy,
    principal_id: &str,
    named: Option<Named>,
) -> Result<bool, Refusal> {
    let fault = match named {
        None if policy.creates => return Ok(true),
        None => format!(
            "There is no `{principal_id}` here. Ask an admin to let you in: `entente principal create {principal_id} --kind human`."
        ),
        Some(Named { kind, .. }) if kind != PrincipalKind::Human => {
            format!("`{principal_id}` is no person here, and only people log in. Ask an admin.")
        }
        Some(Named { bound: true, .. }) => format!(
            "`{principal_id}` belongs to another account of the provider. If that account is gone, an admin can release the name."
        ),
        Some(Named { has_way_in: true, .. }) if !policy.takes_over => format!(
            "`{principal_id}` already logs in by other means here, so a name at the provider does not open it. Log in as before, or ask the operator, who can set ENTENTE_OIDC_TAKE_OVER."
        ),
        Some(_) => return Ok(false),
    };
    Err(refused(fault))
}

fn refused(message: String) -> Refusal {
    Refusal::new(Code::Forbidden, message)
}

fn unnamed(claim: &str) -> Refusal {
    refused(format!(
        "The provider has not said your `{claim}`, by which people are named here. The operator can ask it for another scope, or choose another claim."
    ))
}

/// Returns a claim that is a text, and not empty.
fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the claim of this name; else dots lead into objects, as in `realm_access.roles`.
fn find<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}
