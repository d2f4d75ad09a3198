//! Provisioners of credentials for jobs (ARCP §9.8): the upstreams that the operator configured, behind the
//! interface of `arcp/src/credentials/provisioners.rs`. `background/revoke.rs` revokes credentials.

mod broker;
mod development;
mod litellm;

use std::sync::Arc;
use std::time::Duration;

use entente_arcp::credentials::Provisioners;
use entente_arcp::credentials::{Order, Provisioner, ProvisionerError, Upstream};
use entente_domain::arcp::credentials::Bounds;
use entente_domain::ids::Chance;

use self::broker::Broker;
use self::development::Development;
use self::litellm::Proxy;
use super::egress::{Answer, Ask, Unanswered, Upstreams};
use crate::config::Config;
use crate::config::credentials::{ProvisionerConfig, UpstreamKind};

/// Attempts to mint while the upstream certainly did not process the request, or asks to wait.
const TRIES: u32 = 3;

/// Pause between these attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Time limit of a revocation: nothing else waits for it.
const REVOKE_TIME: Duration = Duration::from_secs(10);

/// Creates the configured provisioners.
///
/// # Errors
/// The HTTP client cannot be set up.
pub fn provisioners(config: &Config, chance: &Arc<dyn Chance>) -> Result<Provisioners, String> {
    let private = config.bind.ip().is_loopback() || config.tls.encrypts();
    let mut list = Vec::new();
    if !config.credentials.provisioners.is_empty() {
        let client = Upstreams::new(&config.tls.authorities)?;
        list.extend(config.credentials.provisioners.iter().map(|one| made(one, &client)));
    }
    if config.credentials.development {
        list.push(Development::provisioner(Arc::clone(chance)));
    }
    if !private && !list.is_empty() {
        tracing::warn!(
            "credentials are provisioned for no job: {} can be reached from elsewhere, and neither it nor a proxy in front \
             of it speaks TLS. Set ENTENTE_TLS_CERTIFICATE_FILE, or ENTENTE_TLS_TERMINATED=true when a proxy does",
            config.bind
        );
    }
    Ok(Provisioners::new(list, private))
}

fn made(config: &ProvisionerConfig, client: &Upstreams) -> Provisioner {
    let upstream: Arc<dyn Upstream> = match &config.kind {
        UpstreamKind::LiteLlm(proxy) => Arc::new(Proxy::new(config.clone(), proxy.clone(), client.clone())),
        UpstreamKind::Http(http) => Arc::new(Broker::new(config.clone(), (**http).clone(), client.clone())),
    };
    Provisioner { name: config.name.clone(), rule: config.rule.clone(), upstream }
}

/// Returns a job's bounds at an upstream: the models that it offers, its limit on a credential's lifetime,
/// and the part of the budget in currencies that it counts.
fn bounded(order: &Order, config: &ProvisionerConfig, counted: impl Fn(&str) -> bool) -> Bounds {
    let bounds = &order.bounds;
    let models = match &config.models {
        Some(offered) => bounds.models_among(offered),
        None => bounds.models.clone(),
    };
    let longest = entente_domain::clock::plus_seconds(order.now, config.max_ttl);
    let mut budget = bounds.budget.clone();
    budget.0.retain(|currency, _| counted(currency));
    Bounds { budget, models, expires_at: Some(bounds.expires_at.map_or(longest, |at| at.min(longest))) }
}

/// Returns the lifetime of a credential in whole seconds, at least one.
fn ttl(order: &Order, bounds: &Bounds) -> i64 {
    bounds.expires_at.map_or(1, |at| (at - order.now).num_seconds().max(1))
}

/// Sends a request with a time limit, and repeats it where that is safe.
async fn ask_for(client: &Upstreams, ask: Ask, order: &Order) -> Result<Answer, ProvisionerError> {
    let within = tokio::time::Instant::now() + ask.timeout;
    let mut tries = 1;
    loop {
        let left = within.saturating_duration_since(tokio::time::Instant::now());
        let answer = client.ask(Ask { timeout: left, ..ask.clone() }, order.now).await;
        let again = match &answer {
            Ok(answer) => answer.status == 429,
            Err(silence) => !silence.perhaps,
        };
        if !again || tries == TRIES || left <= PAUSE * 2 {
            return answer.map_err(unanswered);
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

fn unanswered(silence: Unanswered) -> ProvisionerError {
    ProvisionerError { why: silence.why, retry_after: None, perhaps: silence.perhaps }
}

/// Converts an unsuccessful answer.
///
/// A refusal (4xx) created nothing; after other statuses the outcome is unknown.
fn refused(answer: &Answer, secrets: &[&str]) -> ProvisionerError {
    let said = entente_domain::arcp::credentials::scrub(&answer.body, secrets.iter().copied());
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let refused = (400..500).contains(&answer.status) && answer.status != 408;
    ProvisionerError {
        why: format!("it answered {}{said}", answer.status),
        retry_after: answer.retry_after,
        perhaps: !refused,
    }
}

/// Converts a success without the expected data: a credential was created, but its value is unknown.
fn incomplete(what: &str) -> ProvisionerError {
    // The answer is not repeated: it may contain the value at another place.
    ProvisionerError { why: format!("its answer has no {what}"), retry_after: None, perhaps: true }
}
