//! Log output about envelopes (AEE §6.8): seven of their members, never the payload.

use entente_domain::aee::envelopes::Envelope;
use entente_domain::refusal::Refusal;

/// Logs the progress of an envelope: the seven members of AEE §6.8, never its payload.
pub(crate) fn note(what: &str, envelope: &Envelope) {
    tracing::info!(
        target: "entente::aee",
        id = ?envelope.id, corr = ?envelope.corr, intent = ?envelope.purpose, from = ?envelope.sender,
        to = ?envelope.recipient, r#type = envelope.kind.as_str(), priority = envelope.priority.as_str(),
        "an envelope was {what}"
    );
}

/// Characters logged per member of a refused envelope, which may be of any size.
const NOTED: usize = 200;

/// Logs that an envelope was refused, even if it is malformed.
pub fn note_refusal(bytes: &[u8], refusal: &Refusal) {
    let members = entente_domain::aee::envelopes::members(bytes).unwrap_or_default();
    let member = |name: &str| -> String {
        members
            .get(name)
            .and_then(serde_json::Value::as_str)
            .map_or_else(String::new, |text| text.chars().take(NOTED).collect())
    };
    tracing::info!(
        target: "entente::aee",
        code = refusal.code.wire(), id = ?member("id"), corr = ?member("corr"), intent = ?member("intent"),
        from = ?member("from"), to = ?member("to"), r#type = ?member("type"), priority = ?member("priority"),
        "an envelope was refused"
    );
}
