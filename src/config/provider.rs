//! Settings of the OpenID Connect provider with whose accounts people log in: `ENTENTE_OIDC_…`. Without an issuer there is
//! none.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::egress::{Allowed, judge_secret};
use entente_domain::identity::principals::check_name;
use entente_domain::identity::provider::{CLAIM, EMAIL, ProviderPolicy};
use entente_oidc::{ClientSecret, Settings};

use super::Reader;

/// Path of this server to which the provider sends browsers back.
const CALLBACK: &str = "/login/provider/callback";

/// Configuration of the provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// This server as a client of the provider.
    pub settings: Settings,
    /// Settings for accounts of the provider.
    pub policy: ProviderPolicy,
    /// Destinations that are allowed besides the public internet.
    pub allow: Allowed,
}

impl Reader<'_> {
    pub(super) fn provider(&mut self) -> Option<ProviderConfig> {
        let issuer = self.text("ENTENTE_OIDC_ISSUER");
        let client_id = self.text("ENTENTE_OIDC_CLIENT_ID");
        let client_secret = self.client_secret();
        let allow = self.allowed("ENTENTE_OIDC_ALLOW");
        let scopes = self.text("ENTENTE_OIDC_SCOPES").unwrap_or_else(|| "profile email".to_owned());
        let label = self.text("ENTENTE_OIDC_LABEL").unwrap_or_else(|| "single sign-on".to_owned());
        let policy = self.policy(issuer.clone().unwrap_or_default());
        let public = self.text("ENTENTE_PUBLIC_URL");
        let Some(issuer) = issuer else {
            if client_id.is_some() || client_secret.is_some() {
                self.faults.push(
                    "ENTENTE_OIDC_ISSUER: is missing, so nobody can log in with ENTENTE_OIDC_CLIENT_ID"
                        .to_owned(),
                );
            }
            return None;
        };
        if let Err(fault) = judge_secret(&issuer, &allow) {
            self.faults.push(format!(
                "ENTENTE_OIDC_ISSUER={issuer}: {fault}. A provider in the own network needs ENTENTE_OIDC_ALLOW"
            ));
        }
        let Some(client_id) = client_id else {
            self.faults.push(format!("ENTENTE_OIDC_ISSUER={issuer}: needs ENTENTE_OIDC_CLIENT_ID"));
            return None;
        };
        let Some(public) = public else {
            self.faults.push(format!(
                "ENTENTE_OIDC_ISSUER={issuer}: needs ENTENTE_PUBLIC_URL, to which the provider sends people back"
            ));
            return None;
        };
        let redirect = format!("{}{CALLBACK}", public.trim_end_matches('/').to_lowercase());
        let scopes = scopes.split([' ', ',']).filter(|scope| !scope.is_empty() && *scope != "openid");
        let scopes = scopes.map(str::to_owned).collect();
        let settings = Settings { issuer, client_id, client_secret, scopes, redirect, label };
        Some(ProviderConfig { settings, policy, allow })
    }

    /// Reads the secret, or the file with it. It is in no message.
    fn client_secret(&mut self) -> Option<ClientSecret> {
        let (name, file) = ("ENTENTE_OIDC_CLIENT_SECRET", "ENTENTE_OIDC_CLIENT_SECRET_FILE");
        let secret = match (self.text(name), self.text(file)) {
            (secret, None) => secret,
            (Some(_), Some(_)) => {
                self.faults.push(format!("{name}: set this or {file}, not both"));
                None
            }
            (None, Some(path)) => match std::fs::read_to_string(&path) {
                Ok(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
                Ok(_) => {
                    self.faults.push(format!("{file}={path}: is empty"));
                    None
                }
                Err(e) => {
                    self.faults.push(format!("{file}={path}: cannot be read: {e}"));
                    None
                }
            },
        };
        secret.map(ClientSecret::new)
    }

    fn policy(&mut self, issuer: String) -> ProviderPolicy {
        let name_claim = self.text("ENTENTE_OIDC_NAME_CLAIM").unwrap_or_else(|| "sub".to_owned());
        ProviderPolicy {
            issuer,
            principal: self.principal(&name_claim),
            name_claim,
            groups_claim: self.text("ENTENTE_OIDC_GROUPS_CLAIM").unwrap_or_else(|| "groups".to_owned()),
            teams: self.teams(),
            admin_group: self.text("ENTENTE_OIDC_ADMIN_GROUP"),
            creates: self.parsed("ENTENTE_OIDC_CREATE_PEOPLE", false, "`true` or `false`", |_| true),
            takes_over: self.parsed("ENTENTE_OIDC_TAKE_OVER", false, "`true` or `false`", |_| true),
        }
    }

    /// Reads the pattern of principal ids.
    fn principal(&mut self, name_claim: &str) -> String {
        let name = "ENTENTE_OIDC_PRINCIPAL";
        let pattern = self.text(name).unwrap_or_else(|| format!("human.{CLAIM}"));
        // People choose their names at many providers. Without a prefix one of them could take an agent's.
        let distinct = !pattern.starts_with(CLAIM) || name_claim == EMAIL;
        if pattern.matches(CLAIM).count() != 1 || !distinct {
            self.faults.push(format!(
                "{name}={pattern}: must have `{CLAIM}` once, and something before it unless people are named by `{EMAIL}`, such as human.{CLAIM}"
            ));
        }
        pattern
    }

    /// Reads the teams of groups: `group=team`, or the name of both, with commas between.
    fn teams(&mut self) -> BTreeMap<String, BTreeSet<String>> {
        let (name, mut teams) = ("ENTENTE_OIDC_TEAMS", BTreeMap::<String, BTreeSet<String>>::new());
        let text = self.text(name).unwrap_or_default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (group, team) = pair.rsplit_once('=').unwrap_or((pair, pair));
            let (group, team) = (group.trim(), team.trim());
            if group.is_empty() || check_name("team", team).is_err() {
                self.faults
                    .push(format!("{name}: `{pair}` must be a group and a team, such as engineers=team.eng"));
            }
            teams.entry(group.to_owned()).or_default().insert(team.to_owned());
        }
        teams
    }
}
