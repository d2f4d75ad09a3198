//! Tool calls (RFC-0014) to a real receiver: the request, the agent's result, the record, and the secrets that
//! nobody sees.

mod limits;
mod records;
mod requests;
mod tokens;

use entente_harness::vaults::grant;
use entente_harness::vaults::{SECRET, credential, vault};
use entente_harness::{Client, Got, Receiver, Setup, Value, World, json};

/// A grant of ada's for a tool at the receiver, which is called `web_search` and `echo`.
pub struct Stage {
    pub world: World,
    pub ada: Client,
    pub receiver: Receiver,
    pub credential: Value,
    pub grant: Value,
}

impl Stage {
    /// Sets it up with this connection and grant.
    pub async fn set(auth_type: &str, secret: Value, connection: Value, granted: Value) -> Self {
        // No drain on shutdown, because some of these calls never end.
        let settings = vec![("ENTENTE_DRAIN_SECONDS", "0")];
        let world = World::with(Setup { settings, ..Setup::default() }).await;
        Self::on(world, (auth_type, secret), connection, granted).await
    }

    /// Like [`Self::set`], on this server.
    pub async fn on(
        world: World,
        (auth_type, secret): (&str, Value),
        connection: Value,
        granted: Value,
    ) -> Self {
        let ada = world.agent("agent.ada").await;
        let receiver = Receiver::start().await;
        let mut metadata = json!({ "base_url": format!("http://{}/api", receiver.address) });
        metadata.as_object_mut().unwrap().extend(connection.as_object().unwrap().clone());
        let put = json!({ "auth_type": auth_type, "secret": secret, "metadata": metadata });
        let credential = credential(&ada, &vault(&ada).await, put).await;
        let mut more = json!({ "scopes": ["web_search", "echo"] });
        more.as_object_mut().unwrap().extend(granted.as_object().unwrap().clone());
        let grant = grant(&ada, &credential, "agent.ada", more).await;
        Self { world, ada, receiver, credential, grant }
    }

    /// Sets it up with a key in a header.
    pub async fn plain() -> Self {
        Self::set("api_key", json!(SECRET), json!({}), json!({})).await
    }

    /// Returns the uses of the grant, newest first.
    pub async fn uses(&self) -> Vec<Value> {
        let path = format!("/grants/{}/invocations", self.grant["id"].as_str().unwrap());
        self.ada.get(&path).await.is(200).as_array().unwrap().clone()
    }

    /// Returns the only request that the receiver got since the last call.
    pub fn one(&self) -> Got {
        let mut got = self.receiver.take();
        assert_eq!(got.len(), 1, "{got:?}");
        got.remove(0)
    }
}
