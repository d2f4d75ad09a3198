//! `LiteLLM`'s virtual keys (<https://docs.litellm.ai/docs/proxy/virtual_keys>): `POST /key/generate` with an
//! alias, a budget without resets, a list of models and a duration; `POST /key/delete` by alias. A rotation
//! creates another key with the remaining bounds and deletes the previous one, because the proxy's free
//! version lacks regeneration.

use std::time::Duration;

use entente_arcp::credentials::{Answer, Minted, Order, ProvisionerError, Target, Upstream};
use entente_domain::arcp::credentials::Bounds;
use serde_json::{Map, Number, Value, json};

use super::{REVOKE_TIME, ask_for, bounded, incomplete, refused, ttl, unanswered};
use crate::background::egress::{Ask, Upstreams};
use crate::config::credentials::{LiteLlm, ProvisionerConfig};

/// Names that `LiteLLM` reads as sets of models. In a lease they name single models.
const SETS: [&str; 3] = ["all-proxy-models", "all-team-models", "no-default-models"];

/// Model list of a key without models; an empty list would allow all of them.
const NO_MODEL: &str = "no-default-models";

/// A `LiteLLM` proxy.
pub(super) struct Proxy {
    config: ProvisionerConfig,
    proxy: LiteLlm,
    client: Upstreams,
}

impl Proxy {
    pub(super) fn new(config: ProvisionerConfig, proxy: LiteLlm, client: Upstreams) -> Self {
        Self { config, proxy, client }
    }

    fn ask(&self, path: &str, body: &Value, timeout: Duration) -> Ask {
        Ask {
            method: "POST".to_owned(),
            url: format!("{}{path}", self.proxy.url),
            headers: vec![("authorization".to_owned(), format!("Bearer {}", self.proxy.key))],
            body: Some(body.to_string()),
            timeout,
        }
    }

    /// Returns a job's bounds as the proxy can enforce them.
    fn bounds(&self, order: &Order) -> Bounds {
        let bounds = bounded(order, &self.config, |currency| currency == self.proxy.currency);
        Bounds {
            models: bounds.models.map(|models| models.iter().filter_map(|model| spoken(model)).collect()),
            ..bounds
        }
    }

    fn request(&self, order: &Order, bounds: &Bounds) -> Value {
        let mut body = self.proxy.extra.clone();
        let mut said = |member: &str, value: Value| body.insert(member.to_owned(), value);
        said("key_alias", json!(order.alias()));
        said("duration", json!(format!("{}s", ttl(order, bounds))));
        let metadata = json!({
            "job_id": order.job_id, "credential_id": order.credential_id, "agent": order.agent,
            "principal": order.principal,
        });
        said("metadata", metadata);
        // The operator's extra members must not widen the lease.
        if let Some(models) = &bounds.models {
            let none = [NO_MODEL.to_owned()];
            said("models", json!(if models.is_empty() { none.as_slice() } else { models }));
        }
        if let Some(amount) = bounds.budget.0.get(&self.proxy.currency) {
            let number = amount.to_string().parse::<Number>().map_or(json!(0), Value::Number);
            said("max_budget", number);
            // The budget must not be reset.
            body.remove("budget_duration");
        }
        // A key for models, without access to the proxy's administration.
        body.entry("key_type").or_insert_with(|| json!("llm_api"));
        Value::Object(body)
    }

    async fn generate(&self, order: &Order) -> Result<Minted, ProvisionerError> {
        let bounds = self.bounds(order);
        let timeout = Duration::from_secs(self.config.timeout);
        let ask = self.ask("/key/generate", &self.request(order, &bounds), timeout);
        let answer = ask_for(&self.client, ask, order).await?;
        if !(200..300).contains(&answer.status) {
            return Err(refused(&answer, &[&self.proxy.key]));
        }
        let said: Map<String, Value> =
            serde_json::from_str(&answer.body).map_err(|_no_object| incomplete("key"))?;
        let key = said.get("key").and_then(Value::as_str).ok_or_else(|| incomplete("key"))?;
        Ok(Minted {
            value: key.to_owned(),
            upstream_id: None,
            endpoint: self.config.endpoint.clone().unwrap_or_default(),
            profile: self.config.profile.clone(),
            constraints: bounds.echo(),
        })
    }

    async fn delete(&self, target: &Target) -> Result<(), ProvisionerError> {
        let body = match (&target.value, target.given) {
            (Some(value), true) => json!({ "keys": [value] }),
            _ => json!({ "key_aliases": [target.alias()] }),
        };
        let ask = self.ask("/key/delete", &body, REVOKE_TIME);
        let answer = self.client.ask(ask, target.now).await.map_err(unanswered)?;
        // The proxy reports missing keys as a JSON object; a 404 without one does not refer to the key.
        let missing = answer.status == 404
            && serde_json::from_str::<Map<String, Value>>(&answer.body)
                .is_ok_and(|said| said.contains_key("error") || said.contains_key("detail"));
        if (200..300).contains(&answer.status) || missing {
            return Ok(());
        }
        Err(refused(&answer, &[&self.proxy.key, target.value.as_deref().unwrap_or_default()]))
    }
}

/// Translates a model pattern to the proxy's syntax, whose single star also matches slashes.
///
/// Only an enumerated list (`models` in the operator's file) has exactly the same meaning.
fn spoken(pattern: &str) -> Option<String> {
    (!SETS.contains(&pattern)).then(|| pattern.replace("**", "*"))
}

impl Upstream for Proxy {
    fn mint<'a>(&'a self, order: &'a Order) -> Answer<'a, Minted> {
        Box::pin(self.generate(order))
    }

    fn takes_given(&self) -> bool {
        true
    }

    fn revoke<'a>(&'a self, target: &'a Target) -> Answer<'a, ()> {
        Box::pin(self.delete(target))
    }
}
