//! API keys that tests create, and forged ones.

use entente_domain::identity::keys::Presented;
use entente_domain::ids::Chance;

use crate::{Client, Value, World, json};

/// A key created through the API.
pub struct Made {
    /// A client that uses it.
    pub client: Client,
    /// The key itself.
    pub secret: String,
    /// Its record from the response.
    pub record: Value,
}

impl Made {
    /// Returns the path of the key's record.
    pub fn path(&self) -> String {
        format!("/keys/{}", self.record["id"].as_str().unwrap())
    }
}

/// Creates a key for a principal, and the principal if it does not exist.
pub async fn key(world: &World, admin: &Client, principal: &str, ask: Value) -> Made {
    let kind = principal.split('.').next().unwrap();
    let made = admin.post("/principals", json!({ "id": principal, "kind": kind })).await;
    assert!(matches!(made.status, 201 | 409), "{}", made.text);
    let made = admin.post(&format!("/principals/{principal}/keys"), ask).await.is(201);
    let secret = made["key"].as_str().unwrap().to_owned();
    Made { client: world.client(&secret), secret, record: made["record"].clone() }
}

/// Returns `count` such keys, each with another secret.
pub fn forgeries(original: &str, count: u128, from: u128) -> impl Iterator<Item = String> {
    const DIGITS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let public = original[4..16].chars();
    let bits = public.fold(0, |n, digit| n * 62 + DIGITS.find(digit).unwrap() as u128);
    (from..from + count).map(move |n| {
        let forgery = Presented::mint(&Chosen(std::sync::Mutex::new(vec![n, bits]))).reveal();
        assert!(Presented::parse(&forgery).is_some(), "its form is right");
        forgery
    })
}

/// Random bits that begin with chosen values; with those of another key's public part they yield a well-formed
/// forgery.
pub struct Chosen(pub std::sync::Mutex<Vec<u128>>);

impl Chance for Chosen {
    fn bits(&self) -> u128 {
        self.0.lock().unwrap().pop().unwrap_or(7)
    }
}
