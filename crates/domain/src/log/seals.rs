//! Seals (RFC-0019): the server's signature over a file, member by member, so that verification can name the changed members.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::canonical::{sha256, show};
use crate::identity::signatures::{PublicKey, Signature, Signer, statement};

/// The server's signature over a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// Hash of the canonical form of each other member of the file.
    pub digests: BTreeMap<String, String>,
    /// Signing key, as a `did:key`.
    pub signed_by: String,
    /// Signature over the canonical form of `digests` and `signed_by`.
    pub signature: String,
}

fn digests(members: &Map<String, Value>) -> BTreeMap<String, String> {
    let bare = members.iter().filter(|(name, _)| *name != "seal");
    bare.map(|(name, value)| (name.clone(), show(&sha256(statement(value))))).collect()
}

impl Seal {
    /// Seals the members of a file.
    #[must_use]
    pub fn over(members: &Map<String, Value>, signer: &Signer) -> Self {
        let (digests, signed_by) = (digests(members), signer.public_key().did());
        let signature = signer.sign(form(&digests, &signed_by)).show();
        Self { digests, signed_by, signature }
    }

    /// Returns the differences between the file and its seal; `trusted` are the acceptable signing keys, any if empty.
    #[must_use]
    pub fn faults(&self, members: &Map<String, Value>, trusted: &[PublicKey]) -> Vec<String> {
        let found = digests(members);
        let names: std::collections::BTreeSet<&String> = found.keys().chain(self.digests.keys()).collect();
        let mut faults: Vec<String> = names
            .into_iter()
            .filter(|name| found.get(*name) != self.digests.get(*name))
            .map(|name| format!("`{name}` is not what the server signed"))
            .collect();
        let key = PublicKey::of_did(&self.signed_by);
        let signature = Signature::read(&self.signature);
        let made = matches!((&key, signature), (Ok(key), Some(signature))
            if key.made(&signature, form(&self.digests, &self.signed_by)));
        if !made {
            faults.push("the seal's signature is not over its digests: the `seal` was changed".to_owned());
        } else if !trusted.is_empty() && !key.is_ok_and(|key| trusted.contains(&key)) {
            faults
                .push(format!("the file is signed by {}, which is not a key of the server", self.signed_by));
        }
        faults
    }
}

fn form(digests: &BTreeMap<String, String>, signed_by: &str) -> String {
    statement(&json!({ "digests": digests, "signed_by": signed_by }))
}
