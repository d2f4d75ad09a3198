//! References from one envelope to another (AEE §10.2): what a writer has to know of what is referred to, without reading whole
//! envelopes. Table `aee_envelopes`, which `rows.rs` writes.

use std::collections::HashMap;

use sqlx::PgConnection;

use crate::Outcome;

/// What is known of an envelope that another one refers to.
#[derive(Debug)]
pub(crate) struct Referred {
    sender: String,
    recipient: String,
    handed_out: bool,
    /// What references name it by.
    pub hash: String,
}

impl Referred {
    /// Whether an entity has the envelope.
    pub fn is_party(&self, entity: &str) -> bool {
        self.sender == entity || (self.handed_out && self.recipient == entity)
    }
}

/// What is known of envelopes that others refer to by their hash.
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
