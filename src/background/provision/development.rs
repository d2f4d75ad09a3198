//! Credentials that are good nowhere, for trying clients out (`ENTENTE_CREDENTIALS=development`, `entente dev` only).

use std::sync::Arc;

use entente_domain::budgets::BUDGET;
use entente_domain::credentials::{MODELS, Rule};
use entente_domain::ids::Chance;
use entente_kernel::credentials::{Answer, Minted, Order, Provisioner, Target, Upstream};

/// Where they would be used. No such name will ever stand for anything (RFC 2606).
const ENDPOINT: &str = "https://development.invalid/v1";

/// The upstream that is none.
pub(super) struct Development(Arc<dyn Chance>);

impl Development {
    /// For every job that may use models or spend something.
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
            // What is good nowhere goes beyond nothing.
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
