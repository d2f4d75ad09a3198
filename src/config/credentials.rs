//! Settings of the provisioners of credentials for jobs: `ENTENTE_CREDENTIALS`, and the file that
//! `ENTENTE_CREDENTIALS_FILE` names. Secrets come from the environment; the file only refers to them as
//! `${NAME}`.
//!
//! `src/background/provision` sends the requests; this module parses and validates.

use std::collections::BTreeSet;
use std::fmt;

use entente_domain::arcp::capabilities::Namespace;
use entente_domain::arcp::credentials::Rule;
use entente_domain::globs::Glob;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Reader;
use super::templates::{Template, address, fill};

/// Default time limit in seconds for minting a credential: some clients wait only five seconds until their
/// job is accepted (ARCP-W-2.6).
const TIMEOUT_SECONDS: u64 = 4;

/// Configuration of credentials.
#[derive(Debug, Clone, Default)]
pub struct CredentialConfig {
    /// Whether to mint credentials that are valid nowhere, for development.
    pub development: bool,
    /// Provisioners of real credentials.
    pub provisioners: Vec<ProvisionerConfig>,
}

/// Configuration of a provisioner.
#[derive(Debug, Clone)]
pub struct ProvisionerConfig {
    /// Name.
    pub name: String,
    /// Jobs that it serves.
    pub rule: Rule,
    /// Endpoint where agents use the credential; the upstream's answer takes precedence.
    pub endpoint: Option<String>,
    /// Protocol of that endpoint.
    pub profile: Option<String>,
    /// Models offered there, if they are enumerated.
    pub models: Option<Vec<String>>,
    /// Longest lifetime of a credential in seconds; the upstream then ends it by itself.
    pub max_ttl: u32,
    /// Time limit in seconds for minting.
    pub timeout: u64,
    /// Kind of upstream.
    pub kind: UpstreamKind,
}

/// Kind of upstream, with its settings.
#[derive(Debug, Clone)]
pub enum UpstreamKind {
    /// `LiteLLM`'s virtual keys.
    LiteLlm(LiteLlm),
    /// Requests defined by the operator.
    Http(Box<Http>),
}

/// A `LiteLLM` proxy.
#[derive(Clone)]
pub struct LiteLlm {
    /// Base URL.
    pub url: String,
    /// Key for its key management.
    pub key: String,
    /// Currency of its budgets.
    pub currency: String,
    /// Additional members of every request for a key.
    pub extra: Map<String, Value>,
}

impl fmt::Debug for LiteLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiteLlm").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Requests defined by the operator.
#[derive(Debug, Clone)]
pub struct Http {
    /// Mints a credential.
    pub mint: Template,
    /// Replaces a credential; defaults to `mint`.
    pub rotate: Option<Template>,
    /// Positions in the answers to `mint` and `rotate`.
    pub answer: Pointers,
    /// Looks up the upstream's id of a credential.
    pub find: Option<Template>,
    /// Revokes a credential.
    pub revoke: Template,
    /// Statuses that mean that the credential does not exist.
    pub gone: Vec<u16>,
}

/// Positions of the results in an answer: JSON pointers (RFC 6901).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointers {
    /// The credential's value.
    pub value: String,
    /// The upstream's id of the credential.
    #[serde(default)]
    pub upstream_id: Option<String>,
    /// The endpoint where it is valid.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The protocol of that endpoint.
    #[serde(default)]
    pub profile: Option<String>,
}

/// Placeholders of a request that mints a credential.
const MINT: [&str; 10] = [
    "alias",
    "credential_id",
    "generation",
    "job_id",
    "agent",
    "principal",
    "models",
    "expires_at",
    "ttl_sec",
    "agent_name",
];
/// Placeholders of a request about an existing credential.
const REVOKE: [&str; 6] = ["alias", "credential_id", "generation", "job_id", "value", "upstream_id"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    provisioners: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Entry {
    LiteLlm(Box<LiteLlmEntry>),
    Http(Box<HttpEntry>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LiteLlmEntry {
    name: String,
    #[serde(default)]
    agents: Vec<String>,
    leases: Option<Vec<String>>,
    endpoint: Option<String>,
    profile: Option<String>,
    models: Option<Vec<String>>,
    max_ttl_sec: Option<u32>,
    timeout_sec: Option<u64>,
    url: String,
    key: String,
    currency: Option<String>,
    #[serde(default)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpEntry {
    name: String,
    #[serde(default)]
    agents: Vec<String>,
    leases: Option<Vec<String>>,
    endpoint: Option<String>,
    profile: Option<String>,
    models: Option<Vec<String>>,
    max_ttl_sec: Option<u32>,
    timeout_sec: Option<u64>,
    mint: Template,
    rotate: Option<Template>,
    answer: Pointers,
    find: Option<Template>,
    revoke: Template,
    gone: Option<Vec<u16>>,
}

impl CredentialConfig {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        let development = match from.text("ENTENTE_CREDENTIALS").as_deref() {
            None => false,
            Some("development") => true,
            Some(other) => {
                from.faults.push(format!("ENTENTE_CREDENTIALS={other}: must be `development`, or nothing"));
                false
            }
        };
        let mut provisioners = Vec::new();
        if let Some(path) = from.text("ENTENTE_CREDENTIALS_FILE") {
            let text = std::fs::read_to_string(&path).map_err(|e| e.to_string());
            match text.and_then(|text| read(&text, from.get)) {
                Ok(found) => provisioners = found,
                Err(why) => from.faults.push(format!("ENTENTE_CREDENTIALS_FILE={path}: {why}")),
            }
        }
        Self { development, provisioners }
    }
}

/// Parses the file; `secret` returns a variable's value.
///
/// # Errors
/// The error in the file, without the values of secrets.
pub fn read(text: &str, secret: &dyn Fn(&str) -> Option<String>) -> Result<Vec<ProvisionerConfig>, String> {
    let file: File = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let all: Vec<ProvisionerConfig> =
        file.provisioners.into_iter().map(|entry| entry.check(secret)).collect::<Result<_, _>>()?;
    let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    if names.len() < all.len() {
        return Err("two provisioners have one name".to_owned());
    }
    Ok(all)
}

impl Entry {
    fn check(self, secret: &dyn Fn(&str) -> Option<String>) -> Result<ProvisionerConfig, String> {
        let (name, wrong) = match &self {
            Self::LiteLlm(entry) => (entry.name.clone(), named(&entry.name)),
            Self::Http(entry) => (entry.name.clone(), named(&entry.name)),
        };
        wrong?;
        let checked = match self {
            Self::LiteLlm(entry) => litellm(*entry, secret),
            Self::Http(entry) => http(*entry, secret),
        };
        checked.map_err(|why| format!("provisioner `{name}`: {why}"))
    }
}

fn named(name: &str) -> Result<(), String> {
    let lawful = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if (1..=64).contains(&name.len()) && name.bytes().all(lawful) {
        return Ok(());
    }
    Err(format!("`{name}` is no name of a provisioner: use letters, digits, `.`, `_` and `-`"))
}

fn litellm(
    entry: LiteLlmEntry,
    secret: &dyn Fn(&str) -> Option<String>,
) -> Result<ProvisionerConfig, String> {
    let url = address(&entry.url)?.trim_end_matches('/').to_owned();
    let mut secrets = Vec::new();
    let key = fill(&entry.key, secret, &mut secrets)?;
    if secrets.is_empty() {
        return Err("`key` must name a variable of the environment, as `${NAME}`".to_owned());
    }
    Ok(ProvisionerConfig {
        name: entry.name,
        rule: rule(&entry.agents, entry.leases.unwrap_or_else(|| vec!["model.use".to_owned()]), true)?,
        endpoint: Some(entry.endpoint.unwrap_or_else(|| format!("{url}/v1"))),
        profile: Some(entry.profile.unwrap_or_else(|| "openai".to_owned())),
        models: entry.models,
        max_ttl: ttl(entry.max_ttl_sec)?,
        timeout: timeout(entry.timeout_sec)?,
        kind: UpstreamKind::LiteLlm(LiteLlm {
            url,
            key,
            currency: entry.currency.unwrap_or_else(|| "USD".to_owned()),
            extra: entry.extra,
        }),
    })
}

fn http(entry: HttpEntry, secret: &dyn Fn(&str) -> Option<String>) -> Result<ProvisionerConfig, String> {
    let mint = entry.mint.check("mint", secret, &MINT, true)?;
    // A rotation also has the placeholders of a revocation, for the credential that it replaces.
    let both: Vec<&str> = MINT.iter().chain(&REVOKE).copied().collect();
    let rotate = entry.rotate.map(|rotate| rotate.check("rotate", secret, &both, true)).transpose()?;
    let find = entry.find.map(|find| find.check("find", secret, &REVOKE, false)).transpose()?;
    let revoke = entry.revoke.check("revoke", secret, &REVOKE, false)?;
    // A server that dies before the answer knows only the alias: a credential that cannot be revoked by its
    // alias could not reliably be revoked (§14).
    let found = find.as_ref().is_some_and(|find| find.uses("alias")) && entry.answer.upstream_id.is_some();
    if !(revoke.uses("alias") || found && revoke.uses("upstream_id")) {
        return Err("`revoke` must use {alias}, or {upstream_id} with a `find` that looks it up by {alias}; else a value \
                    whose answer was lost could never be taken back"
            .to_owned());
    }
    if !mint.uses("alias") {
        return Err("`mint` must use {alias}: by that a value is found whose answer was lost".to_owned());
    }
    if entry.endpoint.is_none() && entry.answer.endpoint.is_none() {
        return Err("say with `endpoint` where agents use the credential, or with `answer.endpoint` where the upstream \
                    says so"
            .to_owned());
    }
    let models = mint.uses("models");
    Ok(ProvisionerConfig {
        name: entry.name,
        rule: rule(&entry.agents, entry.leases.unwrap_or_default(), models)?,
        endpoint: entry.endpoint,
        profile: entry.profile,
        models: entry.models,
        max_ttl: ttl(entry.max_ttl_sec)?,
        timeout: timeout(entry.timeout_sec)?,
        kind: UpstreamKind::Http(Box::new(Http {
            mint,
            rotate,
            answer: entry.answer,
            find,
            revoke,
            gone: entry.gone.unwrap_or_else(|| vec![404, 410]),
        })),
    })
}

fn rule(agents: &[String], namespaces: Vec<String>, models: bool) -> Result<Rule, String> {
    let glob = |text: &String| Glob::parse(text).map_err(|e| format!("the agent pattern `{text}` {e}"));
    if let Some(word) = namespaces.iter().find(|word| Namespace::parse(word).is_none()) {
        return Err(format!("`{word}` in `leases` is no namespace of a lease"));
    }
    let agents = agents.iter().map(glob).collect::<Result<_, _>>()?;
    Ok(Rule { agents, all: namespaces, any: Vec::new(), models })
}

fn ttl(said: Option<u32>) -> Result<u32, String> {
    let most = entente_domain::arcp::jobs::ask::RUNTIME_SECONDS;
    let seconds = said.unwrap_or(most);
    if (1..=most).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("`max_ttl_sec` must be a number from 1 to {most}"))
}

fn timeout(said: Option<u64>) -> Result<u64, String> {
    let seconds = said.unwrap_or(TIMEOUT_SECONDS);
    if (1..=30).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("`timeout_sec` must be a number from 1 to 30".to_owned())
    }
}
