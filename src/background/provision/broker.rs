//! Generic HTTP upstream for credentials: the operator defines the requests (`config/templates.rs`), and this
//! module fills in their placeholders and parses the answers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use entente_arcp::credentials::{Answer, Minted, Order, ProvisionerError, Target, Upstream};
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::credentials::Bounds;
use entente_domain::clock::rfc3339;
use serde_json::{Map, Number, Value, json};

use super::{REVOKE_TIME, ask_for, bounded, incomplete, refused, ttl, unanswered};
use crate::background::egress::{Ask, Upstreams};
use crate::config::credentials::{Http, ProvisionerConfig};
use crate::config::templates::Template;

/// Values of the placeholders. A known placeholder without a value is absent.
type Filling = HashMap<String, Value>;

/// An upstream defined by its requests.
pub(super) struct Broker {
    config: ProvisionerConfig,
    http: Http,
    client: Upstreams,
}

impl Broker {
    pub(super) fn new(config: ProvisionerConfig, http: Http, client: Upstreams) -> Self {
        Self { config, http, client }
    }

    /// Returns a job's bounds as far as the request contains them: only those can be enforced.
    fn bounds(&self, order: &Order, template: &Template) -> Bounds {
        let bounds = bounded(order, &self.config, |currency| template.uses(&format!("budget.{currency}")));
        let ends = template.uses("expires_at") || template.uses("ttl_sec");
        Bounds {
            models: bounds.models.filter(|_| template.uses("models")),
            expires_at: bounds.expires_at.filter(|_| ends),
            ..bounds
        }
    }

    async fn make(
        &self,
        template: &Template,
        order: &Order,
        prior: Option<&Target>,
    ) -> Result<Minted, ProvisionerError> {
        let bounds = self.bounds(order, template);
        if bounds.models.as_ref().is_some_and(Vec::is_empty) {
            // Many upstreams treat an empty list as unrestricted.
            let why = "the lease covers none of the models that are listed for this broker".to_owned();
            return Err(ProvisionerError { why, retry_after: None, perhaps: false });
        }
        let mut filling = prior.map(known).unwrap_or_default();
        filling.extend(wanted(order, &bounds));
        let ask = request(template, &filling, Duration::from_secs(self.config.timeout))?;
        let answer = ask_for(&self.client, ask, order).await?;
        let mut secrets: Vec<&str> = template.secrets.iter().map(String::as_str).collect();
        secrets.extend(prior.and_then(|prior| prior.value.as_deref()));
        if !(200..300).contains(&answer.status) {
            return Err(refused(&answer, &secrets));
        }
        let said: Value = serde_json::from_str(&answer.body).map_err(|_no_json| incomplete("JSON"))?;
        let at = |pointer: &String| said.pointer(pointer).and_then(text);
        let pointers = &self.http.answer;
        Ok(Minted {
            value: at(&pointers.value).ok_or_else(|| incomplete("value"))?,
            upstream_id: pointers.upstream_id.as_ref().and_then(at),
            endpoint: pointers
                .endpoint
                .as_ref()
                .and_then(at)
                .or_else(|| self.config.endpoint.clone())
                .ok_or_else(|| incomplete("endpoint"))?,
            profile: pointers.profile.as_ref().and_then(at).or_else(|| self.config.profile.clone()),
            constraints: bounds.echo(),
        })
    }

    /// Looks up the upstream's id of a credential after its answer was lost; `None` if there is no such
    /// credential.
    async fn look_up(&self, find: &Template, target: &Target) -> Result<Option<String>, ProvisionerError> {
        let ask = request(find, &known(target), REVOKE_TIME)?;
        let answer = self.client.ask(ask, target.now).await.map_err(unanswered)?;
        if self.http.gone.contains(&answer.status) {
            return Ok(None);
        }
        if !(200..300).contains(&answer.status) {
            return Err(refused(&answer, &secrets(find, target)));
        }
        let said: Value = serde_json::from_str(&answer.body).map_err(|_no_json| incomplete("JSON"))?;
        Ok(self.http.answer.upstream_id.as_ref().and_then(|at| said.pointer(at)).and_then(text))
    }

    async fn end(&self, target: &Target) -> Result<(), ProvisionerError> {
        let revoke = &self.http.revoke;
        let mut target = target.clone();
        if revoke.uses("upstream_id")
            && target.upstream_id.is_none()
            && let Some(find) = &self.http.find
        {
            let Some(found) = self.look_up(find, &target).await? else { return Ok(()) };
            target.upstream_id = Some(found);
        }
        let answer = self
            .client
            .ask(request(revoke, &known(&target), REVOKE_TIME)?, target.now)
            .await
            .map_err(unanswered)?;
        if (200..300).contains(&answer.status) || self.http.gone.contains(&answer.status) {
            return Ok(());
        }
        Err(refused(&answer, &secrets(revoke, &target)))
    }
}

fn secrets<'a>(template: &'a Template, target: &'a Target) -> Vec<&'a str> {
    template.secrets.iter().map(String::as_str).chain(target.value.as_deref()).collect()
}

/// Returns a string, or a number as a string.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn wanted(order: &Order, bounds: &Bounds) -> Filling {
    let mut filling = Filling::from([
        ("alias".to_owned(), json!(order.alias())),
        ("credential_id".to_owned(), json!(order.credential_id)),
        ("generation".to_owned(), json!(order.generation)),
        ("job_id".to_owned(), json!(order.job_id)),
        ("agent".to_owned(), json!(order.agent)),
        ("agent_name".to_owned(), json!(order.agent.split('@').next().unwrap_or_default())),
        ("principal".to_owned(), json!(order.principal)),
    ]);
    if let Some(models) = &bounds.models {
        filling.insert("models".to_owned(), json!(models));
    }
    if let Some(at) = bounds.expires_at {
        filling.insert("expires_at".to_owned(), json!(rfc3339(at)));
        filling.insert("ttl_sec".to_owned(), json!(ttl(order, bounds)));
    }
    filling.extend(amounts(&bounds.budget));
    filling
}

fn amounts(budget: &Budget) -> impl Iterator<Item = (String, Value)> + '_ {
    budget.0.iter().map(|(currency, amount)| {
        let number = amount.to_string().parse::<Number>().map_or(json!(0), Value::Number);
        (format!("budget.{currency}"), number)
    })
}

fn known(target: &Target) -> Filling {
    let mut filling = Filling::from([
        ("alias".to_owned(), json!(target.alias())),
        ("credential_id".to_owned(), json!(target.credential_id)),
        ("generation".to_owned(), json!(target.generation)),
        ("job_id".to_owned(), json!(target.job_id)),
    ]);
    filling.extend(target.value.iter().map(|value| ("value".to_owned(), json!(value))));
    filling.extend(target.upstream_id.iter().map(|id| ("upstream_id".to_owned(), json!(id))));
    filling
}

fn request(template: &Template, filling: &Filling, timeout: Duration) -> Result<Ask, ProvisionerError> {
    let unknown = |place: String| ProvisionerError {
        why: format!("the request needs {{{place}}}, which is not known"),
        retry_after: None,
        perhaps: false,
    };
    let headers = template.headers.iter().map(|(name, value)| {
        let filled = write(value, filling, str::to_owned).map_err(unknown)?;
        Ok((name.clone(), filled))
    });
    Ok(Ask {
        method: template.method.clone(),
        url: write(&template.url, filling, escaped).map_err(unknown)?,
        headers: headers.collect::<Result<_, ProvisionerError>>()?,
        body: template.body.as_ref().map(|body| fill(body, filling).unwrap_or_default().to_string()),
        timeout,
    })
}

/// Fills in the placeholders of a text; other braces stay as they are.
///
/// # Errors
/// A placeholder has no value.
fn write(text: &str, filling: &Filling, escape: impl Fn(&str) -> String) -> Result<String, String> {
    let mut written = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((place, after)) = after.split_once('}') else { break };
        let value = filling.get(place).ok_or_else(|| place.to_owned())?;
        written.push_str(before);
        written.push_str(&escape(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        rest = after;
    }
    Ok(written + rest)
}

/// Escapes a text for a URL, so that it cannot change the destination.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            // Writing into a `String` cannot fail.
            let _written = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

/// Fills in the placeholders of a body.
///
/// A string that consists of one placeholder becomes its value, of any type; members without a value are
/// omitted.
fn fill(template: &Value, filling: &Filling) -> Option<Value> {
    match template {
        Value::String(text) => {
            let place = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            match place.filter(|place| !place.contains(['{', '}'])) {
                Some(place) => filling.get(place).cloned(),
                None => write(text, filling, str::to_owned).ok().map(Value::String),
            }
        }
        Value::Array(items) => Some(items.iter().filter_map(|item| fill(item, filling)).collect()),
        Value::Object(members) => {
            let filled =
                members.iter().filter_map(|(name, value)| Some((name.clone(), fill(value, filling)?)));
            Some(Value::Object(filled.collect::<Map<_, _>>()))
        }
        other => Some(other.clone()),
    }
}

impl Upstream for Broker {
    fn mint<'a>(&'a self, order: &'a Order) -> Answer<'a, Minted> {
        Box::pin(self.make(&self.http.mint, order, None))
    }

    fn rotate<'a>(&'a self, order: &'a Order, prior: &'a Target) -> Answer<'a, Minted> {
        Box::pin(self.make(self.http.rotate.as_ref().unwrap_or(&self.http.mint), order, Some(prior)))
    }

    fn takes_given(&self) -> bool {
        // For a credential from elsewhere, neither an alias nor an id is known.
        self.http.revoke.uses("value")
    }

    fn revoke<'a>(&'a self, target: &'a Target) -> Answer<'a, ()> {
        Box::pin(self.end(target))
    }
}
