//! Who makes credentials for jobs (ARCP §9.8): the upstreams that the operator configured, each behind the interface of
//! `kernel/src/credentials/provisioners.rs`. Taking back what is due is `background/revoke.rs`.

mod broker;
mod development;
mod litellm;

use std::sync::Arc;
use std::time::Duration;

use entente_domain::credentials::Bounds;
use entente_domain::ids::Chance;
use entente_kernel::Provisioners;
use entente_kernel::credentials::{Order, Provisioner, Trouble, Upstream};

use self::broker::Broker;
use self::development::Development;
use self::litellm::Proxy;
use super::egress::{Answer, Ask, Unanswered, Upstreams};
use crate::config::Config;
use crate::config::credentials::{Kind, ProvisionerConfig};

/// Times that a value is asked for when the upstream certainly did not hear, or asks for a moment.
const TRIES: u32 = 3;

/// How long it is waited before that.
const PAUSE: Duration = Duration::from_millis(200);

/// How long an upstream may take to take a value back: nobody waits for it.
const REVOKE_TIME: Duration = Duration::from_secs(10);

/// The provisioners that are configured.
///
/// # Errors
/// The client cannot be set up.
pub fn provisioners(config: &Config, chance: &Arc<dyn Chance>) -> Result<Provisioners, String> {
    let private = config.bind.ip().is_loopback() || config.credentials.tls_terminated;
    let mut list = Vec::new();
    if !config.credentials.provisioners.is_empty() {
        let client = Upstreams::new()?;
        list.extend(config.credentials.provisioners.iter().map(|one| made(one, &client)));
    }
    if config.credentials.development {
        list.push(Development::provisioner(Arc::clone(chance)));
    }
    if !private && !list.is_empty() {
        tracing::warn!(
            "credentials are provisioned for no job: {} can be reached from elsewhere, and nothing says that TLS ends in \
             front of it. Set ENTENTE_TLS_TERMINATED=true when it does",
            config.bind
        );
    }
    Ok(Provisioners::new(list, private))
}

fn made(config: &ProvisionerConfig, client: &Upstreams) -> Provisioner {
    let upstream: Arc<dyn Upstream> = match &config.kind {
        Kind::LiteLlm(proxy) => Arc::new(Proxy::new(config.clone(), proxy.clone(), client.clone())),
        Kind::Http(http) => Arc::new(Broker::new(config.clone(), (**http).clone(), client.clone())),
    };
    Provisioner { name: config.name.clone(), rule: config.rule.clone(), upstream }
}

/// What a job's bounds are at an upstream: the models that are there, the end that every credential has, and of the budget
/// the currencies that are counted there.
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

/// Whole seconds that a credential may live, at least one.
fn ttl(order: &Order, bounds: &Bounds) -> i64 {
    bounds.expires_at.map_or(1, |at| (at - order.now).num_seconds().max(1))
}

/// Asks for a value, again when that can do no harm, within the time that there is.
async fn ask_for(client: &Upstreams, ask: Ask, order: &Order) -> Result<Answer, Trouble> {
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

fn unanswered(silence: Unanswered) -> Trouble {
    Trouble { why: silence.why, retry_after: None, perhaps: silence.perhaps }
}

/// What an answer means that is no success. One that refuses made nothing; of what a server in trouble did nothing is known.
fn refused(answer: &Answer, secrets: &[&str]) -> Trouble {
    let said = entente_domain::credentials::scrub(&answer.body, secrets.iter().copied());
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let refused = (400..500).contains(&answer.status) && answer.status != 408;
    Trouble {
        why: format!("it answered {}{said}", answer.status),
        retry_after: answer.retry_after,
        perhaps: !refused,
    }
}

/// What an answer means that has not what it ought to have: something was made, and nobody knows what.
fn incomplete(what: &str) -> Trouble {
    // Nothing of the answer is repeated: the value may be in it, elsewhere than it was looked for.
    Trouble { why: format!("its answer has no {what}"), retry_after: None, perhaps: true }
}
