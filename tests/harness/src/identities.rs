//! Keys of agents (RFC-0018): registration by a signed challenge, and proofs.

use entente_domain::identity::signatures::{Signer, statement};

use crate::{Client, Value, json};

/// Returns the test key of this number.
pub fn key(n: u8) -> Signer {
    Signer::from_seed(&[n; 32])
}

/// Registers an agent's key and returns the identity.
pub async fn register(client: &Client, agent: &str, signer: &Signer) -> Value {
    let path = format!("/agents/{agent}/identity");
    let opened = client.post(&path, json!({ "public_key": signer.public_key() })).await.is(200);
    let challenge = opened["challenge"].as_str().unwrap();
    let answer = json!({ "challenge": challenge, "signature": signer.sign(challenge).show() });
    client.post(&format!("{path}/challenge"), answer).await.is(201)
}

/// Returns an event with its proof as a client makes it (`crates/domain/src/log/README.md`, "What agents sign").
pub fn proved(intent: &str, actor: &str, text: &str, signer: &Signer) -> Value {
    let mut proof = json!({
        "type": "Ed25519Signature2026", "created": "2026-11-21T08:00:00Z",
        "verification_method": signer.public_key().did(),
    });
    let payload = json!({ "text": text });
    let form = json!({
        "intent_id": intent, "event_type": "note", "actor": actor, "payload": payload, "proof": proof,
    });
    proof["signature"] = json!(by(signer, &form));
    json!({ "event_type": "note", "actor": actor, "payload": payload, "proof": proof })
}

/// Returns a key's signature over a value.
pub fn by(signer: &Signer, value: &Value) -> String {
    signer.sign(statement(value)).show()
}
