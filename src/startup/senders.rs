//! Creates the senders of outgoing requests: webhooks to their receivers, federation messages to peers, notifications to
//! people, and push notifications of A2A tasks.

use std::net::SocketAddr;
use std::sync::Arc;

use entente_bridges::Ctx;
use entente_domain::ids::NodeId;
use entente_runtime::tasks::Tasks;
use entente_store::Pool;

use super::StartError;
use crate::background::Senders;
use crate::background::deliver::WebhookSender;
use crate::background::deliver::broker::Sinks;
use crate::background::egress::{Egress, Trust};
use crate::background::federate::FederationSender;
use crate::background::notify::{Mailer, Notifier};
use crate::background::pushing::Pusher;
use crate::config::Config;

/// Creates the senders; each has its own client, and all use a pool that no writer waits for. `address` is the server's own, for
/// links if it has no public URL.
pub(super) fn senders(
    config: &Config,
    ctx: &Ctx,
    webhooks: &Pool,
    trust: &Trust,
    node: NodeId,
    address: SocketAddr,
    tasks: &Tasks,
) -> Result<Senders, StartError> {
    let egress = || Egress::new(&ctx.settings.webhooks, trust).map_err(StartError::Egress);
    let sending = ctx.with_pool(webhooks.clone());
    let draining = || tasks.draining().clone();
    let permits = config.webhooks.concurrency;
    let sinks = Sinks::new(&config.webhooks.sinks, config.webhooks.timeout, &config.tls.authorities);
    let origin = config.site.url().unwrap_or_default().to_owned();
    let webhooks = WebhookSender::new(sending.clone(), egress()?, sinks, origin, node, permits, draining());
    let mailer = config.smtp.as_ref().map(|smtp| Mailer::new(smtp, &trust.authorities));
    let mailer = mailer.transpose().map_err(StartError::Egress)?;
    let host = if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    };
    let base = config.site.base(&host, config.tls.encrypts());
    let pusher = Pusher::new(sending.arcp.clone(), egress()?, node, permits, draining());
    let notifier = Notifier::new(sending.clone(), egress()?, mailer, base, node, draining());
    Ok(Senders {
        webhooks: Arc::new(webhooks),
        federation: Arc::new(FederationSender::new(sending, egress()?)),
        notifier: Arc::new(notifier),
        pusher: Arc::new(pusher),
    })
}
