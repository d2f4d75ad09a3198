//! Encodes envelopes in mailboxes as webhooks, in the form that all records have (`entente_http::webhooks`).

use entente_aee::mailboxes::MailboxItem;
use entente_domain::clock::rfc3339;
use entente_domain::identity::keys::Dialect;
use entente_domain::webhooks::{ENVELOPE, item_id};
use entente_http::webhooks::HookBody;
use entente_kernel::Outcome;
use entente_kernel::webhooks::Post;
use serde::Serialize;

use crate::mailboxes::ItemBody;

/// An envelope in a mailbox, as a reader of the mailbox sees it.
#[derive(Serialize)]
struct MailboxFrame<'a> {
    entity: &'a str,
    #[serde(flatten)]
    item: ItemBody,
}

/// Encodes an envelope in an entity's mailbox; the envelope stays byte-identical.
///
/// # Errors
/// The stored envelope is not JSON.
pub fn encode_item(entity: &str, item: MailboxItem) -> Outcome<Post> {
    let (at, webhook_id) = (item.received_at, item_id(entity, item.seq));
    let data = MailboxFrame { entity, item: ItemBody::new(item, Dialect::Standard)? };
    let body = serde_json::to_string(&HookBody { r#type: ENVELOPE, timestamp: rfc3339(at), data: &data })?;
    let kind = ENVELOPE.to_owned();
    Ok(Post { webhook_id, kind, body, told: None, channel_id: None, trace_id: None, at })
}
