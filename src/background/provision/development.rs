//! Credentials that are valid nowhere, for testing clients (`ENTENTE_CREDENTIALS=development`, `entente dev`
//! only).

use std::sync::Arc;

use entente_arcp::credentials::{Answer, Minted, Order, Provisioner, Target, Upstream};
use entente_domain::arcp::budgets::BUDGET;
use entente_domain::arcp::credentials::{MODELS, Rule};
use entente_domain::ids::Chance;

/// Endpoint of these credentials. The name never resolves (RFC 2606).
const ENDPOINT: &str = "https://development.invalid/v1";

/// Upstream that creates invalid credentials.
pub(super) struct Development(Arc<dyn Chance>);

impl Development {
    /// Returns the provisioner, which serves every job with authority for models or a budget.
    pub(super) fn provisioner(chance: Arc<dyn Chance>) -> Provisioner {
        let rule = Rule {
            agents: Vec::new(),
            all: Vec::new(),
            any: [MODELS, BUDGET].map(str::to_owned).to_vec(),
            models: false,
        };
        Provisioner { name: "development".to_owned(), rule, upstream: Arc::new(Self(chance)) }
    }
}

impl Upstream for Development {
    fn mint<'a>(&'a self, order: &'a Order) -> Answer<'a, Minted> {
        let minted = Minted {
            value: format!("dev-{:032x}{:032x}", self.0.bits(), self.0.bits()),
            upstream_id: None,
            endpoint: ENDPOINT.to_owned(),
            profile: Some("generic".to_owned()),
            // An invalid credential exceeds no bounds.
            constraints: order.bounds.echo(),
        };
        Box::pin(async move { Ok(minted) })
    }

    fn takes_given(&self) -> bool {
        true
    }

    fn revoke<'a>(&'a self, _target: &'a Target) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}
