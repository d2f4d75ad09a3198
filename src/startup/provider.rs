//! Creates the provider with whose accounts people log in, on top of the server's guarded HTTP client.

use std::sync::Arc;
use std::time::Duration;

use entente_oidc::{Provider, Request, Sending, Transport, Unreachable};

use super::StartError;
use crate::background::egress::{Egress, ToolFailure, Trust};
use crate::config::Config;

/// Time for one request to the provider.
const TIME: Duration = Duration::from_secs(5);

/// Maximum size of an answer in bytes: keys, or the claims of a person in many groups.
const ANSWER_BYTES: usize = 1024 * 1024;

/// Creates the provider, if one is configured.
///
/// The operator sets its URL, but its documents name further addresses, so it reaches no more of the own network than the
/// operator has listed.
pub(crate) fn provider(config: &Config, trust: &Trust) -> Result<Option<Arc<Provider>>, StartError> {
    let Some(provider) = &config.provider else { return Ok(None) };
    let egress = Egress::to_tools(&provider.allow, trust).map_err(StartError::Egress)?;
    let guarded = Arc::new(Guarded(Arc::new(egress)));
    let made = Provider::new(provider.settings.clone(), provider.policy.clone(), guarded);
    Ok(Some(Arc::new(made.map_err(StartError::Egress)?)))
}

/// The guarded client.
struct Guarded(Arc<Egress>);

impl Transport for Guarded {
    fn send(&self, request: Request) -> Sending {
        let egress = Arc::clone(&self.0);
        Box::pin(async move {
            egress.fetch(request, TIME, ANSWER_BYTES).await.map_err(|failure| {
                Unreachable(match failure {
                    ToolFailure::Blocked(why) | ToolFailure::Unreachable(why) => why,
                    ToolFailure::TimedOut => "it did not answer in time".to_owned(),
                    ToolFailure::TooLong => "its answer is too long".to_owned(),
                })
            })
        })
    }
}
