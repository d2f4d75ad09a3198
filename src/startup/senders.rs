//! Creates the senders of outgoing requests: webhooks to their receivers, and federation messages to peers.

use std::sync::Arc;

use entente_bridges::Ctx;
use entente_domain::ids::NodeId;
use entente_runtime::tasks::Tasks;
use entente_store::Pool;

use super::StartError;
use crate::background::deliver::WebhookSender;
use crate::background::egress::{Egress, Trust};
use crate::background::federate::FederationSender;

/// Creates the webhook sender, with `permits` permits, and the federation sender; each has its own client, and
/// both use a pool that no writer waits for.
pub(super) fn senders(
    ctx: &Ctx,
    webhooks: &Pool,
    trust: &Trust,
    node: NodeId,
    permits: usize,
    tasks: &Tasks,
) -> Result<(Arc<WebhookSender>, Arc<FederationSender>), StartError> {
    let egress = || Egress::new(&ctx.settings.webhooks, trust).map_err(StartError::Egress);
    let sending = ctx.with_pool(webhooks.clone());
    let webhook_sender =
        WebhookSender::new(sending.clone(), egress()?, node, permits, tasks.draining().clone());
    Ok((Arc::new(webhook_sender), Arc::new(FederationSender::new(sending, egress()?))))
}
