//! References from one envelope to another (AEE §10.2): the facts that a writer needs about a referenced
//! envelope, without loading all of it. Table `aee_envelopes`, which `rows.rs` writes.

use std::collections::HashMap;

use entente_kernel::Outcome;
use sqlx::PgConnection;

/// The facts about an envelope that another one references.
#[derive(Debug)]
pub(crate) struct Referred {
    sender: String,
    recipient: String,
    handed_out: bool,
    /// The hash by which references name it.
    pub hash: String,
}

impl Referred {
    /// Whether an entity is a party to the envelope.
    pub fn is_party(&self, entity: &str) -> bool {
        self.sender == entity || (self.handed_out && self.recipient == entity)
    }
}

/// Loads the facts about envelopes that are referenced by their hash.
pub(crate) async fn referred(conn: &mut PgConnection, ids: &[&str]) -> Outcome<HashMap<String, Referred>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"-- aee_envelopes::referred
         SELECT id, sender, recipient, status NOT IN ('held', 'redacted') AS "handed_out!", hash AS "hash!"
         FROM aee_envelopes WHERE id = ANY($1) AND hash IS NOT NULL"#,
        ids as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let known = rows.into_iter().map(|row| {
        let known = Referred {
            sender: row.sender,
            recipient: row.recipient,
            handed_out: row.handed_out,
            hash: row.hash,
        };
        (row.id, known)
    });
    Ok(known.collect())
}
